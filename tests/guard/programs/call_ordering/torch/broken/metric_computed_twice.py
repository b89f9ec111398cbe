"""A metric's compute() reduces and caches; on rank 0 a progress bar asks for it once more after a reset."""
# ranks: 3
# finding: mismatch count
# out of line: 0
# cause: extra-call | rank-conditional-call
# says: rank 0

import torch
import torch.distributed as dist


class Mean:
    def __init__(self):
        self.reset()

    def reset(self):
        self.state, self.result = torch.zeros(2), None

    def update(self, value):
        self.state += torch.tensor([value, 1.0])

    def compute(self):
        if self.result is None:
            state = self.state.clone()
            dist.all_reduce(state)  # <- here
            self.result = float(state[0] / state[1].clamp(min=1))
        return self.result


class ProgressBar:
    def __init__(self, enabled):
        self.enabled = enabled

    def show(self, step, metric):
        if self.enabled and step % 3 == 2:
            print(step, metric.compute())


dist.init_process_group("gloo")
metric = Mean()
bar = ProgressBar(enabled=dist.get_rank() == 0)  # fixed: bar = ProgressBar(enabled=True)
for step in range(6):
    gradient = torch.ones(6)
    dist.all_reduce(gradient)
    metric.update(0.5)
    bar.show(step, metric)
    metric.reset()
dist.barrier()
dist.destroy_process_group()
