"""A step is tried again after an error of the file system; its first collective has been made by then."""
# ranks: 3
# finding: mismatch operation
# out of line: 2
# cause: extra-call
# differs at: the marked lines

import functools

import torch
import torch.distributed as dist


def again_after_errors(function):
    @functools.wraps(function)
    def call(*args):
        for number in range(3):
            try:
                return function(*args)
            except OSError:
                if number == 2:
                    raise

    return call


@again_after_errors
def run_step(step):
    dist.all_reduce(torch.ones(4))  # <- here
    if dist.get_rank() == 2 and step == 3 and not failed:
        failed.append(step)
        raise OSError("flaky file system")  # fixed: pass
    dist.broadcast(torch.ones(2), 0)  # <- here


failed = []
dist.init_process_group("gloo")
for step in range(6):
    run_step(step)
print("rank", dist.get_rank(), "done")
dist.destroy_process_group()
