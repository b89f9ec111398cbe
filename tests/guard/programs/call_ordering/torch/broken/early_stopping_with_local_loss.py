"""Early stopping looks at the loss of one rank, so ranks stop in different epochs."""
# ranks: 2
# finding: mismatch operation
# out of line: 0 1
# cause: uneven-steps
# says: decide it together

import torch
import torch.distributed as dist


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.best, self.bad = patience, float("inf"), 0

    def should_stop(self, loss):
        self.bad = 0 if loss < self.best else self.bad + 1
        self.best = min(self.best, loss)
        return self.bad >= self.patience


dist.init_process_group("gloo")
rank = dist.get_rank()
stopping = EarlyStopping(patience=2)
losses = [[0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [0.9, 0.8, 0.85, 0.86, 0.5, 0.4]][rank]
for epoch, loss in enumerate(losses):
    gradient = torch.full((16,), loss)
    dist.all_reduce(gradient)  # <- here
    # fixed: loss = float(gradient[0]) / 2
    if stopping.should_stop(loss):
        print("rank", rank, "stops in epoch", epoch)
        break
state = torch.ones(4)
dist.broadcast(state, 0)
dist.destroy_process_group()
