"""Evaluation runs on rank 0 every third epoch, with a metric that reduces over all ranks."""
# ranks: 3
# finding: mismatch count
# out of line: 0
# cause: rank-conditional-call
# says: rank == 0

import torch
import torch.distributed as dist


class Accuracy:
    def __init__(self):
        self.right = torch.zeros(())
        self.total = torch.zeros(())

    def update(self, outputs, targets):
        self.right += (outputs.argmax(1) == targets).sum()
        self.total += len(targets)

    def compute(self):
        state = torch.stack([self.right, self.total])
        dist.all_reduce(state)  # <- here
        return float(state[0] / state[1])


def evaluate(model):
    metric = Accuracy()
    for _ in range(2):
        metric.update(model(torch.randn(4, 3)), torch.zeros(4, dtype=torch.long))
    return metric.compute()


dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Linear(3, 2)
for epoch in range(6):
    for _step in range(3):
        gradient = torch.ones(8)
        dist.all_reduce(gradient)
    if rank == 0 and epoch % 3 == 2:  # fixed: if epoch % 3 == 2:
        print("accuracy", evaluate(model))
dist.destroy_process_group()
