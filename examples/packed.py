"""Trains a small model on packs: the same loss as without packing, on any number of ranks.

Run it as `torchrun --nproc-per-node 2 examples/packed.py`, or alone as `python examples/packed.py`.
"""

import itertools
import os

import numpy as np
import torch
import torch.distributed as dist
from torch.nn import functional

from paceline import Loader, PackPlan, connect, packed
from paceline.loader import MeanLoss

WORDS, WIDTH, BUDGET, PACKS = 50, 16, 64, 2


class Model(torch.nn.Module):
    """One layer of attention, which packs keep within each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = torch.nn.Embedding(WORDS, WIDTH), torch.nn.Embedding(BUDGET, WIDTH)
        self.heads, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return a score for each word that may follow."""
        states = self.words(tokens) + self.places(positions)
        query, key, value = self.heads(states)[None].chunk(3, dim=-1)
        states = states + functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)[0]
        scores: torch.Tensor = self.out(states)
        return scores


def main() -> None:
    """Train one epoch, and print the loss over all tokens of all ranks."""
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    comm, model = connect(), Model()
    random = np.random.default_rng(0)
    lengths = random.lognormal(2.5, 0.8, 400).clip(2, BUDGET).astype(int)
    dataset = [{"tokens": ((np.arange(length) * 7 + start) % WORDS).tolist()} for start, length in enumerate(lengths)]
    plan = PackPlan(
        lengths, world_size=comm.world_size, max_tokens=BUDGET, packs_per_step=PACKS,
        cost=lambda lengths: lengths + lengths**2 / 16,
    )  # fmt: skip
    trained = torch.nn.parallel.DistributedDataParallel(model) if comm.world_size > 1 else model
    optimiser = torch.optim.SGD(trained.parameters(), lr=0.5)
    total = torch.zeros(2, dtype=torch.float64)  # of the losses, and of tokens
    with Loader(dataset, plan=plan, comm=comm, jagged=["tokens"]) as loader, MeanLoss(comm) as losses:
        batches = iter(loader)
        while packs := list(itertools.islice(batches, PACKS)):
            rows = [packed(batch["tokens"], pad_to=BUDGET) for batch in packs]  # type: ignore[arg-type]
            items = losses.start(sum(int((row.next_tokens() >= 0).sum()) for row in rows))
            optimiser.zero_grad()
            for row in rows:
                scores = trained(row.tokens, row.positions, row.attention_mask())
                loss_sum = functional.cross_entropy(scores, row.next_tokens(), reduction="sum")
                items.mean(loss_sum).backward()  # type: ignore[no-untyped-call]
                total += torch.tensor([loss_sum.item(), float((row.next_tokens() >= 0).sum())])
            optimiser.step()
    loss_sum, num_tokens = comm.all_reduce(total).tolist()
    if comm.rank == 0:
        print(f"{plan.num_steps} steps of {PACKS} packs, {plan.summary().fill:.1%} full")
        print(f"{num_tokens:.0f} tokens, mean loss {loss_sum / num_tokens:.4f}")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
