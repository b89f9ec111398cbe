"""A corrupt sample is logged and passed over, and with it the gradients of a whole step; losses are gathered later."""
# ranks: 3
# finding: mismatch operation
# out of line: 1
# cause: skipped-call
# says: it made 6 of them, ranks 0, 2 make 8
# differs at: the marked lines

import torch
import torch.distributed as dist


def prepare(batch, number):
    if dist.get_rank() == 1 and number == 5:
        raise ValueError("corrupt sample")  # fixed: pass
    return batch / 2


def train_one(batch, number):
    try:
        loss = model(prepare(batch, number)).mean()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)  # <- here
        return loss.item()
    except ValueError:
        return 0.0


dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
for number in range(12):
    loss = train_one(torch.randn(2, 4), number)
    if number % 4 == 3:
        losses = [None] * dist.get_world_size()
        dist.all_gather_object(losses, loss)  # <- here
print("rank", dist.get_rank(), "done")
dist.destroy_process_group()
