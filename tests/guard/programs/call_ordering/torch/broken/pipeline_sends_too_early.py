"""Stages of a pipeline exchange activations and gradients; the last stage sends its gradient before it receives."""
# ranks: 2
# finding: deadlock | message | peer-gone
# out of line: 0 1
# cause: receive-receive | message-order | send-send

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()


class Stage:
    def __init__(self, rank):
        self.rank = rank

    def forward(self, micro_batch):
        if self.rank == 0:
            gradient = torch.empty(4)
            dist.recv(gradient, src=1)  # <- here  # fixed: pass
            dist.send(torch.full((4,), float(micro_batch)), dst=1)
            # fixed: dist.recv(gradient, src=1)
        else:
            activation = torch.empty(4)
            dist.recv(activation, src=0)  # <- here
            dist.send(activation * 2, dst=0)


stage = Stage(rank)
for micro_batch in range(3):
    stage.forward(micro_batch)
print("rank", rank, "done")
dist.destroy_process_group()
