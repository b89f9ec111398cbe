"""Trains on packs of 60 tokens: each is exactly full, and every rank has heavy and light ones."""

import time

import torch
import torch.distributed as dist

LENGTHS = [60] * 3 + [2] * 180  # three documents, and many short answers
MAX_TOKENS = 60
SECONDS_PER_PAIR = 0.0002


def full_packs(lengths):
    """Put samples into packs in the order of their length, until each is full."""
    packs = [[]]
    for length in sorted(lengths, reverse=True):
        if sum(packs[-1]) + length > MAX_TOKENS:
            packs.append([])
        packs[-1].append(length)
    return packs


def attend(pack):
    time.sleep(sum(length * length for length in pack) * SECONDS_PER_PAIR)  # each token sees those of its own sample
    return sum(pack)


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    packs = full_packs(LENGTHS)
    packs.sort(key=lambda pack: sum(length * length for length in pack))
    mine = packs[rank::world_size]  # packs of about the same work side by side
    tokens = torch.tensor(sum(attend(pack) for pack in mine))
    dist.all_reduce(tokens)
    print(f"rank {rank}: {tokens.item()} tokens")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
