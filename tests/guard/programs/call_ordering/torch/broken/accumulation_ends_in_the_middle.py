"""Gradients are reduced after every 4th micro-batch; rank 1 has lost one and never completes its last round."""
# ranks: 3
# finding: mismatch operation
# out of line: 1
# cause: uneven-steps | skipped-call

import torch
import torch.distributed as dist

ACCUMULATE = 4


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def reduce_gradients(self):
        for parameter in self.model.parameters():
            dist.all_reduce(parameter.grad)  # <- here
            parameter.grad /= dist.get_world_size()

    def run(self, batches):
        for number, batch in enumerate(batches, start=1):
            loss = self.model(batch).pow(2).mean() / ACCUMULATE
            loss.backward()
            if number % ACCUMULATE == 0:
                self.reduce_gradients()
                self.optimizer.step()
                self.optimizer.zero_grad()
        return float(loss)


dist.init_process_group("gloo")
torch.manual_seed(0)
batches = [torch.randn(2, 3) for _ in range(12)]
if dist.get_rank() == 1:
    del batches[-1]  # fixed: pass
loss = Trainer(torch.nn.Linear(3, 2)).run(batches)
losses = [None] * dist.get_world_size()
dist.all_gather_object(losses, loss)
print("rank", dist.get_rank(), len(losses))
dist.destroy_process_group()
