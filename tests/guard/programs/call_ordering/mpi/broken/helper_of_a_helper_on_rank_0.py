"""A metric reduces through a helper; training computes it on all ranks, an evaluation on rank 0 alone."""
# ranks: 3
# finding: mismatch operation
# out of line: 0
# cause: rank-conditional-call
# says: under `if epoch == 2 and comm.rank == 0`

from mpi4py import MPI

comm = MPI.COMM_WORLD


def mean_over_ranks(value):
    return comm.allreduce(value) / comm.size  # <- here


class Metric:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value):
        self.total += value
        self.count += 1

    def compute(self):
        return mean_over_ranks(self.total / self.count)


def train(epoch):
    metric = Metric()
    for batch in range(3):
        metric.update(batch)
    comm.Barrier()
    return metric.compute()


def evaluate(epoch):
    metric = Metric()
    metric.update(epoch)
    return metric.compute()


def main():
    for epoch in range(4):
        train(epoch)
        if epoch == 2 and comm.rank == 0:  # fixed: if epoch == 2:
            print("evaluated", evaluate(epoch))
    comm.Barrier()


main()
