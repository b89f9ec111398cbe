"""The outputs of an evaluation are gathered; the last batch is shorter on the rank that has fewer samples."""
# ranks: 3
# finding: mismatch count
# out of line: 2
# cause: shape
# says: 6 x f4

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
num_samples = 15 if rank == 2 else 16  # fixed: num_samples = 16
loader = DataLoader(TensorDataset(torch.randn(num_samples, 2)), batch_size=4)
model = torch.nn.Linear(2, 2)
predictions = []
with torch.no_grad():
    for (inputs,) in loader:
        outputs = model(inputs)
        gathered = [torch.empty_like(outputs) for _ in range(world_size)]
        dist.all_gather(gathered, outputs)  # <- here
        predictions.append(torch.cat(gathered))
print("rank", rank, len(predictions))
dist.destroy_process_group()
