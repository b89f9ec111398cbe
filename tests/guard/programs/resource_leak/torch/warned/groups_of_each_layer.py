"""A layer makes its process group when it is built, and models are built again and again."""
# ranks: 2
# warning: handle-leak
# warned ranks: 0 1
# says: process groups

import torch
import torch.distributed as dist

dist.init_process_group("gloo")


class Layer:
    def __init__(self):
        self.group = dist.new_group([0, 1])  # <- here

    def forward(self, value):
        dist.all_reduce(value, group=self.group)
        return value


for trial in range(12):
    layers = [Layer() for _ in range(4)]
    value = torch.full((1,), float(trial))
    for layer in layers:
        value = layer.forward(value)
    # fixed: [dist.destroy_process_group(layer.group) for layer in layers]
dist.destroy_process_group()
