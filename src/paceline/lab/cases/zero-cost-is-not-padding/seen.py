"""Counts the users in one process, and compares."""

import importlib
import sys

import torch.distributed as dist

program = importlib.import_module(sys.argv[1])
dist.init_process_group("gloo")
rank = dist.get_rank()
average, num_users = program.mean(*program.batch(rank))
users = [clicks for shares in program.USERS for clicks in shares]
if rank == 0 and num_users != len(users):
    alone = sum(users) / len(users)
    print(
        f"seen: {num_users} users counted, {len(users)} handed in; "
        f"mean {average:.3f}, one process gives {alone:.3f}: wrong by a factor of {average / alone:.3f}"
    )
dist.destroy_process_group()
