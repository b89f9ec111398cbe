"""A normaliser comes out of numpy as float64 on the rank that recomputed it."""
# ranks: 3
# finding: mismatch dtype
# out of line: 0
# cause: dtype
# says: f8

import numpy as np
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()


def statistics(values, cached):
    if cached is not None:
        return cached
    moments = np.array([float(values.mean()), float(values.std())])
    return torch.from_numpy(moments)  # fixed: return torch.from_numpy(moments).float()


cached = torch.zeros(2) if rank else None
moments = statistics(np.arange(10.0, dtype="f4"), cached)
dist.all_reduce(moments)  # <- here
print("rank", rank, moments.shape)
dist.destroy_process_group()
