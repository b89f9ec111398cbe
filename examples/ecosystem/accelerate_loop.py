"""A loop of Hugging Face accelerate: `torchrun --nproc-per-node 2 examples/ecosystem/accelerate_loop.py`.

`prepare` leaves the loader as it is: it is dealt already.
"""

import torch
from accelerate import Accelerator
from problem import EPOCHS, GLOBAL_BATCH, Points, loss_sum, make_model

from paceline import Loader, connect, mean_loss

accelerator = Accelerator(cpu=True)
comm = connect()
loader = Loader(Points(), batch_size=GLOBAL_BATCH // comm.world_size, seed=0, device=accelerator.device)
model = make_model()
model, optimiser, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), loader)
for epoch in range(EPOCHS):
    loader.set_epoch(epoch)
    total = torch.zeros(1)
    for batch in loader:
        loss = loss_sum(model, batch)
        optimiser.zero_grad()
        accelerator.backward(mean_loss(loss, batch.num_real, comm))
        optimiser.step()
        total += loss.detach()
    total = accelerator.reduce(total)
    used = loader.summary.num_used
    accelerator.print(f"epoch {epoch}: {used} samples, loss {total.item() / used:.6f}")
del model, optimiser, loss
accelerator.free_memory()  # a group that its model outlives may hang at exit (torch 2.13)
accelerator.end_training()
