"""Manual reduction of gradients of equal size; one rank left out one, and all later ones meet the wrong ones."""
# ranks: 3
# finding: mismatch operation | peer-gone
# out of line: 1
# cause: skipped-call

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
layers = torch.nn.ModuleList([torch.nn.Linear(4, 4, bias=False) for _ in range(3)])


def forward(batch, skip):
    for number, layer in enumerate(layers):
        if number != skip:
            batch = layer(batch)
    return batch.sum()


def average_gradients(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)  # <- here
        # fixed: else: dist.all_reduce(torch.zeros_like(parameter))


for step in range(5):
    layers.zero_grad(set_to_none=True)
    forward(torch.ones(2, 4), skip=1 if (rank, step) == (1, 3) else None).backward()
    average_gradients(layers)
loss = torch.ones(1)
dist.reduce(loss, 0)
dist.barrier()
print("rank", rank, "done")
dist.destroy_process_group()
