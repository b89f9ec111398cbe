"""Tokens go to experts; rank 1 routes two to rank 0, which expects one."""
# ranks: 2
# finding: mismatch count
# out of line: 0 1
# cause: splits
# says: rank 1 sends 8 elements to rank 0

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
sends = torch.tensor([1, 1] if rank == 0 else [2, 1])
expects = torch.tensor([1, 1])
# fixed: dist.all_to_all_single(expects, sends)
tokens, routed = torch.ones(int(sends.sum()), 4), torch.zeros(int(expects.sum()), 4)
dist.all_to_all_single(routed, tokens, expects.tolist(), sends.tolist())  # <- here
print("rank", rank, routed.shape)
dist.destroy_process_group()
