"""Trains on packs of 60 tokens, which a plan has made even in work."""

import time

import torch
import torch.distributed as dist

from paceline import PackPlan

LENGTHS = [60] * 3 + [2] * 180  # three documents, and many short answers
MAX_TOKENS = 60
SECONDS_PER_PAIR = 0.0002


def attend(pack):
    time.sleep(sum(length * length for length in pack) * SECONDS_PER_PAIR)  # each token sees those of its own sample
    return sum(pack)


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    plan = PackPlan(
        LENGTHS, world_size=world_size, max_tokens=MAX_TOKENS, packs_per_step=3, cost=lambda lengths: lengths * lengths
    )
    mine = [[LENGTHS[sample] for sample in pack] for step in plan.packs(rank) for pack in step]
    tokens = torch.tensor(sum(attend(pack) for pack in mine))
    dist.all_reduce(tokens)
    print(f"rank {rank}: {tokens.item()} tokens")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
