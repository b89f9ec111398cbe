"""torch on the ranks of MPI, without torch.distributed: `mpiexec -n 2 python examples/ecosystem/mpi_torch.py`.

Gradients are averaged by hand, so the loss is the same as under DDP.
"""

import torch
from mpi4py import MPI
from problem import EPOCHS, GLOBAL_BATCH, Points, loss_sum, make_model

from paceline import Loader, connect, mean_loss

comm = connect("mpi")
model = make_model()
optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
with Loader(Points(), batch_size=GLOBAL_BATCH // comm.world_size, seed=0, comm=comm) as loader:
    for epoch in range(EPOCHS):
        loader.set_epoch(epoch)
        total = 0.0
        for batch in loader:
            loss = loss_sum(model, batch)
            optimiser.zero_grad()
            mean_loss(loss, batch.num_real, comm).backward()
            for parameter in model.parameters():
                parameter.grad = comm.all_reduce(parameter.grad) / comm.world_size
            optimiser.step()
            total += loss.item()
        total = MPI.COMM_WORLD.allreduce(total)
        if comm.rank == 0:
            print(f"epoch {epoch}: {loader.summary.num_used} samples, loss {total / loader.summary.num_used:.6f}")
