"""Rows of an embedding table are exchanged in each step; one rank keeps the counts of the first one."""
# ranks: 3
# finding: mismatch count
# out of line: 1
# cause: splits

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
kept = None
for step in range(3):
    asked = torch.tensor([1 + (rank * size + shard + step) % 4 for shard in range(size)])
    answers = torch.empty_like(asked)
    dist.all_to_all_single(answers, asked)
    if rank == 1 and kept is not None:  # fixed: if False:
        answers = kept
    kept = answers
    rows, gathered = torch.ones(int(answers.sum()), 8), torch.empty(int(asked.sum()), 8)
    work = dist.all_to_all_single(  # <- here
        gathered, rows, asked.tolist(), answers.tolist(), async_op=True
    )
    work.wait()
print("rank", rank, gathered.sum().item())
dist.destroy_process_group()
