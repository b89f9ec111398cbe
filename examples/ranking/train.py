"""Trains the ranking model on the ranks of torch.distributed, or alone: `paceline run -n 4 examples/ranking/train.py`.

Histories have very different lengths, so batches differ in work: rows move between ranks until all have the same, as
rows of a batch or as packs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from data import LIKED, NUM_CANDIDATES, RATINGS, Histories, Watched, generate, read
from model import WIDTH, Ranker, area_under_curve
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

from paceline import Batch, Comm, Jagged, Loader, PackPlan, connect, packed
from paceline.balance import quadratic
from paceline.loader import MeanLoss, StepPacker, save_whole

LABELS_PER_ROW = NUM_CANDIDATES * len(RATINGS)


def main() -> None:
    """Train, evaluate, and print the results."""
    options = parse()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        dist.init_process_group("gloo")
    comm = connect()
    watched = read(options.data) if options.data else generate(options.users, seed=options.seed)
    model = Ranker(watched.num_items)
    trained = DistributedDataParallel(model) if comm.world_size > 1 else model
    if options.broken:
        train_with_clamped_sampler(options, comm, trained, watched)
    else:
        train(options, comm, trained, model, watched)
    if dist.is_initialized():
        del trained  # a group that its model outlives may hang at exit (torch 2.13)
        dist.destroy_process_group()


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train a ranking model on histories of different lengths.")
    parser.add_argument("--data", type=Path, help="MovieLens: u.data, ratings.csv, a parquet file, or the wheel")
    parser.add_argument("--users", type=int, default=415, help="number of users to generate, without --data")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--steps", type=int, default=0, help="stop after this many steps instead of whole epochs")
    parser.add_argument("--batch", type=int, default=64, help="rows of a step, over all ranks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0, help="loading processes for each rank")
    parser.add_argument("--no-balance", action="store_true", help="leave rows where they are")
    parser.add_argument("--packed", type=int, default=0, metavar="TOKENS", help="make packs of at most so many tokens")
    parser.add_argument("--checkpoint", type=Path, help="where to save after each epoch and --save-every steps")
    parser.add_argument("--save-every", type=int, default=0, help="steps between two checkpoints within an epoch")
    parser.add_argument("--kill-after", type=int, default=0, help="the last rank kills itself after this many steps")
    parser.add_argument("--resume", action="store_true", help="continue from --checkpoint, on any number of ranks")
    parser.add_argument("--figures", type=Path, help="write the loss of each step and the AUC, as JSON")
    parser.add_argument("--broken", action="store_true", help="the classic sampler: fewer batches on the last rank")
    options = parser.parse_args()
    if options.resume and not options.checkpoint:
        parser.error("--resume needs --checkpoint")
    return options


def train(options: argparse.Namespace, comm: Comm, trained: nn.Module, model: Ranker, watched: Watched) -> None:
    """Train all epochs, or a number of steps; save on the way; evaluate after each epoch and at the end."""
    dataset = Histories(watched, is_last=False)
    is_balanced = not options.no_balance and not options.packed  # packs are even by themselves
    settings: dict[str, Any] = {"jagged": ["events"], "comm": comm, "num_workers": options.workers}
    with (
        Loader(
            dataset,
            batch_size=options.batch // comm.world_size,
            seed=options.seed,
            cost=cost if is_balanced else None,
            **settings,
        ) as loader,
        judged_loader(options, comm, Histories(watched, is_last=True), settings) as judged,
        MeanLoss(comm) as mean,
        steps_in_packs(options, comm) as steps_of,
    ):
        job = Job(options, comm, trained, model, loader, mean)
        if options.resume:
            job.load()
        epoch = loader.epoch
        while not job.is_complete(epoch):
            loader.set_epoch(epoch)
            began, first = time.perf_counter(), len(job.losses)
            job.train_epoch(steps_of(loader))
            seconds = time.perf_counter() - began
            job.areas.append(judge(job.averaged, judged))
            if comm.rank == 0:
                tell_epoch(epoch, job.losses[first:], job.areas[-1], seconds, loader)
            epoch += 1
    if options.figures and comm.rank == 0:
        options.figures.write_text(json.dumps({"losses": job.losses, "auc": job.areas}))


class Job:
    """What is trained, how far it has come, and its checkpoints."""

    def __init__(
        self,
        options: argparse.Namespace,
        comm: Comm,
        trained: nn.Module,
        model: Ranker,
        loader: Loader,
        mean: MeanLoss,
    ) -> None:
        self._options, self._comm, self._trained, self._model = options, comm, trained, model
        self._loader, self._mean = loader, mean
        self._optimiser = make_optimiser(model)
        self.averaged = AveragedModel(model, avg_fn=follow)  # the model that is judged
        self.losses: list[float] = []  # of each step, over all ranks
        self.areas: list[float] = []  # after each epoch

    def is_complete(self, epoch: int) -> bool:
        """Return whether nothing is left to do when an epoch begins."""
        steps: int = self._options.steps
        epochs: int = self._options.epochs
        return len(self.losses) >= steps if steps else epoch >= epochs

    def train_epoch(self, steps: Iterable[list[Batch]]) -> None:
        """Train what is left of an epoch, or of the steps that were asked for; then save."""
        options = self._options
        for num_done, batches in enumerate(steps, 1):
            self.losses.append(self._step(batches))
            # batches may have been taken ahead of this step, so the loader is told which step has been done
            state = self._loader.sampler.state_dict(step=num_done)
            if len(self.losses) == options.steps:
                break
            if options.save_every and len(self.losses) % options.save_every == 0:
                self.save(state)
            if len(self.losses) == options.kill_after and self._comm.rank == self._comm.world_size - 1:
                os.kill(os.getpid(), signal.SIGKILL)
        self.save(state)

    def _step(self, batches: list[Batch]) -> float:
        """Train on the batches of a step; return the mean loss of all ranks."""
        count = self._mean.start(sum(batch.num_real for batch in batches) * LABELS_PER_ROW)
        self._optimiser.zero_grad()
        total = torch.zeros(())
        for number, batch in enumerate(batches, 1):
            with meeting_others(self._trained, is_last=number == len(batches)):
                loss_sum = loss_of(self._trained, batch)
                count.mean(loss_sum).backward()  # type: ignore[no-untyped-call]
            total += loss_sum.detach()
        self._optimiser.step()
        self.averaged.update_parameters(self._model)
        return float(self._comm.all_reduce(total)) / max(1, count.total())

    def save(self, loader_state: dict[str, Any]) -> None:
        """Write a checkpoint; if the writing rank fails, all ranks raise."""
        if self._options.checkpoint:
            state = {
                "model": self._model.state_dict(),
                "averaged": self.averaged.state_dict(),
                "optimiser": self._optimiser.state_dict(),
                "loader": loader_state,
                "losses": self.losses,
                "auc": self.areas,
            }
            save_whole(self._comm, state, self._options.checkpoint)

    def load(self) -> None:
        """Continue from a checkpoint."""
        state = torch.load(self._options.checkpoint, weights_only=True)
        self._model.load_state_dict(state["model"])
        self.averaged.load_state_dict(state["averaged"])
        self._optimiser.load_state_dict(state["optimiser"])
        self._loader.load_state_dict(state["loader"])
        self.losses, self.areas = state["losses"], state["auc"]


def make_optimiser(model: nn.Module) -> torch.optim.Optimizer:
    """Return the optimiser of all runs."""
    return torch.optim.AdamW(model.parameters(), lr=3e-3, eps=1e-6, weight_decay=0.5)


def follow(average: torch.Tensor, weight: torch.Tensor, num_averaged: torch.Tensor | int) -> torch.Tensor:
    """Move an average towards a weight: by a hundredth at each step, and by more in the first ones."""
    return torch.lerp(average, weight, max(0.01, 9 / (10 + int(num_averaged))))


def tokens_of(batch: Batch) -> torch.Tensor:
    """Return the tokens of each row: both keys have as many."""
    events = batch["events"]
    assert isinstance(events, Jagged)
    return events.lengths.view(len(events.keys), -1)[0]


def cost_of_lengths(lengths: Any) -> Any:
    """What rows of these lengths cost: four projections and one more, and attention to the square of the length."""
    return quadratic(lengths, width=WIDTH, feed_forward=WIDTH // 2)


def cost(batch: Batch) -> Any:
    """What the rows of a batch cost."""
    return cost_of_lengths(tokens_of(batch))


@contextmanager
def steps_in_packs(options: argparse.Namespace, comm: Comm) -> Iterator[Callable[[Loader], Iterable[list[Batch]]]]:
    """Give a function that makes the batches of each step of a loader: the rows of a rank, or packs of even work.

    Packs are made of the rows that the ranks have at this step, so each step is of the same samples either way.
    """
    if not options.packed:
        yield lambda loader: ([batch] for batch in loader)
        return
    with StepPacker(comm, tokens_of, max_tokens=options.packed, cost=cost_of_lengths) as packer:
        yield packer.over


def judged_loader(options: argparse.Namespace, comm: Comm, dataset: Histories, settings: dict[str, Any]) -> Loader:
    """Return the loader of what the model is judged by; all lengths are known, so packs are planned ahead."""
    if not options.packed:
        return Loader(dataset, batch_size=options.batch // comm.world_size, shuffle=False, **settings)
    plan = PackPlan(
        dataset.lengths(), world_size=comm.world_size, max_tokens=options.packed, shuffle=False, cost=cost_of_lengths
    )
    return Loader(dataset, plan=plan, **settings)


def meeting_others(model: nn.Module, *, is_last: bool) -> AbstractContextManager[None]:
    """Let ranks add up their gradients in the last batch of a step only."""
    if isinstance(model, DistributedDataParallel) and not is_last:
        return model.no_sync()
    return nullcontext()


def tell_epoch(epoch: int, losses: list[float], area: float, seconds: float, loader: Loader) -> None:
    """Print how an epoch went, or the part of it that was trained."""
    per_step = f"{seconds / len(losses) * 1e3:.0f} ms per step"
    print(f"epoch {epoch}: loss {sum(losses) / len(losses):.4f}, AUC {area:.4f}, {per_step}")
    if loader.summary is not None and loader.summary.epoch == epoch:
        print(f"  {loader.summary}", flush=True)


def loss_of(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the sum of the losses of the real rows."""
    return functional.binary_cross_entropy_with_logits(scores_of(model, batch), labels_of(batch), reduction="sum")


def labels_of(batch: Batch) -> torch.Tensor:
    """Return the labels of the real rows, (rows, candidates, ratings)."""
    labels = batch.real("labels")
    assert isinstance(labels, torch.Tensor)
    return labels


def scores_of(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the scores of the real rows. Also without any, every rank uses every parameter in every step."""
    events = batch["events"]
    assert isinstance(events, Jagged)
    items = packed(events, "item")
    lengths = items.cu_seqlens.diff().to(torch.int64)
    scores: torch.Tensor = model(items.tokens, packed(events, "action").tokens, lengths)
    return scores


@torch.no_grad()
def judge(model: nn.Module, loader: Loader) -> float:
    """Return the area under the curve over every sample exactly once, the same on all ranks."""
    scores, labels = [], []
    for batch in loader:
        scores.append(scores_of(model, batch)[..., LIKED])
        labels.append(labels_of(batch)[..., LIKED])
    results = loader.gather_real({"scores": torch.cat(scores), "labels": torch.cat(labels)})
    return area_under_curve(results["scores"].flatten(), results["labels"].flatten())


def train_with_clamped_sampler(options: argparse.Namespace, comm: Comm, trained: nn.Module, watched: Watched) -> None:
    """Train with the sampler that most people write first: ceil(N/W) samples per rank, the last clamped."""
    dataset = Histories(watched, is_last=False)
    optimiser = make_optimiser(trained)
    share = math.ceil(len(dataset) / comm.world_size)
    mine = range(comm.rank * share, min(len(dataset), (comm.rank + 1) * share))
    for _ in range(options.epochs):
        for batch in batches_of(dataset, mine, options.batch // comm.world_size):
            loss = loss_of(trained, batch) / (batch.num_real * LABELS_PER_ROW)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # the last rank makes fewer of these
            optimiser.step()
        done = torch.ones(1)
        dist.all_reduce(done)  # "all ranks have finished the epoch"


def batches_of(dataset: Histories, samples: range, batch_size: int) -> Iterator[Batch]:
    """Yield full batches, in order."""
    from paceline import Collate

    collate = Collate(batch_size, jagged=["events"])
    source = iter(samples)
    while len(rows := list(itertools.islice(source, batch_size))) == batch_size:
        yield collate([dataset[row] for row in rows])


if __name__ == "__main__":
    main()
