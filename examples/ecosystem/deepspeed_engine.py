"""DeepSpeed on two ranks without a GPU: `torchrun --nproc-per-node 2 examples/ecosystem/deepspeed_engine.py`.

Set DS_ACCELERATOR=cpu where there is no GPU. The engine averages gradients over ranks, as DDP does, so the loss is the
same. DeepSpeed clips gradients to a norm of 1 unless the configuration says otherwise.
"""

import deepspeed
import torch
from problem import EPOCHS, GLOBAL_BATCH, Points, loss_sum, make_model

from paceline import Loader, connect, mean_loss

deepspeed.init_distributed("gloo")
comm = connect()
model = make_model()
batch_size = GLOBAL_BATCH // comm.world_size
engine, *_ = deepspeed.initialize(
    model=model,
    optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    config={"train_micro_batch_size_per_gpu": batch_size, "gradient_clipping": 0.0},
)
with Loader(Points(), batch_size=batch_size, seed=0, comm=comm) as loader:
    for epoch in range(EPOCHS):
        loader.set_epoch(epoch)
        total = torch.zeros(1)
        for batch in loader:
            loss = loss_sum(engine, batch)
            engine.backward(mean_loss(loss, batch.num_real, comm))
            engine.step()
            total += loss.detach()
        used = loader.summary.num_used
        mean = comm.all_reduce(total).item() / used
        if comm.rank == 0:
            print(f"epoch {epoch}: {used} samples, loss {mean:.6f}", flush=True)
torch.distributed.destroy_process_group()
