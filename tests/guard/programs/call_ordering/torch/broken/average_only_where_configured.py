"""The average of the weights is broadcast now and then, by those ranks whose configuration asks for it."""
# ranks: 3
# finding: mismatch operation
# out of line: 1
# cause: rank-conditional-call | skipped-call
# differs at: the marked lines

import torch
import torch.distributed as dist


class Average:
    def __init__(self, enabled):
        self.enabled = enabled
        self.tensors = {"weight": torch.zeros(4), "bias": torch.zeros(2)}

    def share(self):
        for tensor in self.tensors.values():
            dist.broadcast(tensor, 0)  # <- here


dist.init_process_group("gloo")
average = Average(enabled=dist.get_rank() != 1)  # fixed: average = Average(enabled=True)
for step in range(12):
    dist.all_reduce(torch.ones(4))  # <- here
    if average.enabled and step % 5 == 4:
        average.share()
print("rank", dist.get_rank(), "done")
dist.destroy_process_group()
