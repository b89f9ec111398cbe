"""Run as `python -m package_of_a_user.train`."""

import sys

import torch
import torch.distributed as dist

from package_of_a_user.total import total


def main():
    """Train."""
    dist.init_process_group("gloo")
    value = total(torch.ones(1)).item()
    sys.stdout.write(f"rank {dist.get_rank()} {value} {sys.argv[1:]} {__name__}\n")  # at once: torchrun runs python -u
    sys.stderr.write(f"a word on stderr from rank {dist.get_rank()}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
