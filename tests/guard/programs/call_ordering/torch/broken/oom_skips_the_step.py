"""An out-of-memory handler skips the batch on the rank that it happened on."""
# ranks: 3
# finding: mismatch operation
# out of line: 2
# cause: skipped-call | uneven-steps
# says: rank 2 left out

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Linear(4, 4)


def forward_backward(batch):
    if len(batch) > 30:
        raise RuntimeError("out of memory: tried to allocate 20.00 GiB")
    model(batch).sum().backward()


def train_step(batch):
    model.zero_grad()
    try:
        forward_backward(batch)
    except RuntimeError as error:
        if "out of memory" not in str(error):
            raise
        print("rank", rank, "skips a batch", flush=True)
        return False  # fixed: model.weight.grad = torch.zeros(4, 4)
    dist.all_reduce(model.weight.grad)  # <- here
    return True


for step in range(12):
    size = 32 if (rank, step) == (2, 7) else 8
    train_step(torch.ones(size, 4))
    if step % 4 == 3:
        loss = torch.ones(1)
        dist.reduce(loss, 0)
dist.barrier()
dist.destroy_process_group()
