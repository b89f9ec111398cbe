"""A loop with accelerate in which every rank reads its own shard; without `even` rank 1 has one batch less."""

import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True)
uneven = accelerator.process_index == 1 and "even" not in sys.argv
shard = TensorDataset(torch.randn(12 if uneven else 16, 4))
model = torch.nn.Linear(4, 1)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
for (inputs,) in DataLoader(shard, batch_size=4):
    optimizer.zero_grad()
    loss = model(inputs).square().mean()
    accelerator.backward(loss)  # <- here
    optimizer.step()
accelerator.wait_for_everyone()
print("rank", accelerator.process_index, "trained")
del model, optimizer, loss
accelerator.free_memory()  # a group that its model outlives may hang at exit (torch 2.13)
accelerator.end_training()
