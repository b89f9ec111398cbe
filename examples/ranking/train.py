"""Trains the ranking model on the ranks of torch.distributed, or alone: `paceline run -n 4 examples/ranking/train.py`.

Histories have very different lengths, so batches differ in work: rows move between ranks until all have the same.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from data import Histories, Watched, generate, read
from model import WIDTH, Ranker, area_under_curve
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from paceline import Batch, Comm, Jagged, Loader, connect
from paceline.balance import quadratic
from paceline.loader import MeanLoss, save_whole


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
    parser.add_argument("--batch", type=int, default=64, help="rows of a step, over all ranks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0, help="loading processes for each rank")
    parser.add_argument("--no-balance", action="store_true", help="leave rows where they are")
    parser.add_argument("--checkpoint", type=Path, help="where to save after each epoch and --save-every steps")
    parser.add_argument("--save-every", type=int, default=0, help="steps between two checkpoints within an epoch")
    parser.add_argument("--stop-after", type=int, default=0, help="exit after this many steps, as if interrupted")
    parser.add_argument("--resume", action="store_true", help="continue from --checkpoint, on any number of ranks")
    parser.add_argument("--losses", type=Path, help="write the loss of each step, as JSON")
    parser.add_argument("--broken", action="store_true", help="the classic sampler: fewer batches on the last rank")
    options = parser.parse_args()
    if options.resume and not options.checkpoint:
        parser.error("--resume needs --checkpoint")
    return options


def cost(batch: Batch) -> Any:
    """What the rows of a batch cost: attention grows with the square of the history."""
    history = batch["history"]
    assert isinstance(history, Jagged)
    return quadratic(history.lengths, width=WIDTH, feed_forward=0)


def train(options: argparse.Namespace, comm: Comm, trained: nn.Module, model: Ranker, watched: Watched) -> None:
    """Train all epochs; save on the way; evaluate after each."""
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    settings: dict[str, Any] = {"jagged": ["history"], "comm": comm, "num_workers": options.workers}
    batch_size = options.batch // comm.world_size
    losses: list[float] = []
    with (
        Loader(
            Histories(watched, is_last=False),
            batch_size=batch_size,
            seed=options.seed,
            cost=None if options.no_balance else cost,
            **settings,
        ) as loader,
        Loader(Histories(watched, is_last=True), batch_size=batch_size, shuffle=False, **settings) as judged,
        MeanLoss(comm) as mean,
    ):
        if options.resume:
            state = torch.load(options.checkpoint, weights_only=True)
            model.load_state_dict(state["model"])
            optimiser.load_state_dict(state["optimiser"])
            loader.load_state_dict(state["loader"])
        for epoch in range(loader.epoch, options.epochs):
            loader.set_epoch(epoch)
            began = time.perf_counter()
            for batch in loader:
                count = mean.start(batch.num_real * batch["candidates"].shape[1])  # type: ignore[union-attr]
                loss_sum = loss_of(trained, batch)
                optimiser.zero_grad()
                count.mean(loss_sum).backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                losses.append(float(comm.all_reduce(loss_sum.detach())) / max(1, count.total()))
                if options.save_every and len(losses) % options.save_every == 0:
                    save(options, comm, model, optimiser, loader)
                if len(losses) == options.stop_after:
                    return
            seconds = time.perf_counter() - began
            area = judge(trained, judged)
            if comm.rank == 0:
                steps = losses[-len(loader) :]
                per_step = f"{seconds / len(steps) * 1e3:.0f} ms per step"
                print(f"epoch {epoch}: loss {sum(steps) / len(steps):.4f}, AUC {area:.4f}, {per_step}")
                print(f"  {loader.summary}", flush=True)
            save(options, comm, model, optimiser, loader)
    if options.losses and comm.rank == 0:
        options.losses.write_text(json.dumps(losses))


def loss_of(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the sum of the losses of the real rows."""
    scores = scores_of(model, batch)
    labels = batch["labels"]
    assert isinstance(labels, torch.Tensor)
    losses = functional.binary_cross_entropy_with_logits(scores, labels, reduction="none")
    return losses[: batch.num_real].sum()


def scores_of(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the scores of all rows, including padding, so that every rank uses every parameter in every step."""
    history = batch["history"]
    assert isinstance(history, Jagged)
    scores: torch.Tensor = model(history.values, history.lengths, batch["candidates"])
    return scores


@torch.no_grad()
def judge(model: nn.Module, loader: Loader) -> float:
    """Return the area under the curve over every sample exactly once, the same on all ranks."""
    model = model.module if isinstance(model, DistributedDataParallel) else model
    scores, labels = [], []
    for batch in loader:
        scores.append(scores_of(model, batch)[: batch.num_real])
        labels.append(batch.real("labels"))
    results = loader.gather_real({"scores": torch.cat(scores), "labels": torch.cat(labels)})  # type: ignore[arg-type]
    return area_under_curve(results["scores"].flatten(), results["labels"].flatten())


def save(options: argparse.Namespace, comm: Comm, model: nn.Module, optimiser: Any, loader: Loader) -> None:
    """Write a checkpoint; if the writing rank fails, all ranks raise."""
    if options.checkpoint:
        state = {"model": model.state_dict(), "optimiser": optimiser.state_dict(), "loader": loader.state_dict()}
        save_whole(comm, state, options.checkpoint)


def train_with_clamped_sampler(options: argparse.Namespace, comm: Comm, trained: nn.Module, watched: Watched) -> None:
    """Train with the sampler that most people write first: ceil(N/W) samples per rank, the last clamped."""
    dataset = Histories(watched, is_last=False)
    optimiser = torch.optim.Adam(trained.parameters(), lr=3e-3)
    share = math.ceil(len(dataset) / comm.world_size)
    mine = range(comm.rank * share, min(len(dataset), (comm.rank + 1) * share))
    for _ in range(options.epochs):
        for batch in batches_of(dataset, mine, options.batch // comm.world_size):
            loss = loss_of(trained, batch) / batch.num_real
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # the last rank makes fewer of these
            optimiser.step()
        done = torch.ones(1)
        dist.all_reduce(done)  # "all ranks have finished the epoch"


def batches_of(dataset: Histories, samples: range, batch_size: int) -> Iterator[Batch]:
    """Yield full batches, in order."""
    from paceline import Collate

    collate = Collate(batch_size, jagged=["history"])
    source = iter(samples)
    while len(rows := list(itertools.islice(source, batch_size))) == batch_size:
        yield collate([dataset[row] for row in rows])


if __name__ == "__main__":
    main()
