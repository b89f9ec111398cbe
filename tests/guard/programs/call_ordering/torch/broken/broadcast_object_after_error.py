"""Rank 0 loads the configuration and tells the others; if it fails, it returns a default without telling."""
# ranks: 3
# finding: mismatch operation
# out of line: 0
# cause: skipped-call

import torch
import torch.distributed as dist


def load_config(path):
    content = [None]
    if dist.get_rank() == 0:
        try:
            with open(path) as file:
                content = [file.read()]
        except FileNotFoundError:
            return {"lr": 0.1}  # fixed: content = ["default"]
    dist.broadcast_object_list(content, src=0)  # <- here
    return {"lr": 0.2, "text": content[0]}


dist.init_process_group("gloo")
config = load_config("no/such/file.yaml")
weights = torch.zeros(4)
for _step in range(3):
    gradient = torch.ones(4)
    dist.all_reduce(gradient)
    weights -= config["lr"] * gradient
print("rank", dist.get_rank(), "done")
dist.destroy_process_group()
