"""Three of five ranks have reached the accuracy and leave the loop; two train on."""
# ranks: 5
# finding: mismatch operation
# out of line: 3 4
# cause: uneven-steps

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
accuracy = 0.0
while accuracy < 0.8:
    batch = torch.ones(8)
    dist.all_reduce(batch)  # <- here
    accuracy += 0.3 if rank < 3 else 0.2  # fixed: accuracy += 0.3
result = torch.tensor([accuracy])
dist.reduce(result, 0)
dist.barrier()
print("rank", rank, "done")
dist.destroy_process_group()
