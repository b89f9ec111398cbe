"""Wrong arguments on one rank alone: torch refuses them before anything is sent, the script goes on."""
# ranks: 2

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()


def refused(function, *arguments, **named):
    """Tell how a call fails."""
    try:
        function(*arguments, **named)
    except (ValueError, RuntimeError, TypeError) as error:
        return type(error).__name__
    return "nothing"


if rank == 1:
    print(refused(dist.send, torch.ones(1), dst=1))
    print(refused(dist.isend, torch.ones(1), dst=1))
    print(refused(dist.get_group_rank, dist.group.WORLD, 17))
value = torch.ones(2)
dist.all_reduce(value)
print("rank", rank, value.tolist())
dist.destroy_process_group()
