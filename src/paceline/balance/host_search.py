"""The search for even groups on several hosts: samples cross between hosts only for what a host cannot do by itself."""

from __future__ import annotations

from paceline.balance.costs import LARGEST_SUM, Numbers
from paceline.balance.group_hosts import NO_BYTES_LIMIT, GroupHosts, HostTraffic
from paceline.balance.group_search import MAX_SWEEPS, least_target, refine, share_real, target_load
from paceline.balance.kernels import even_out_hosts
from paceline.balance.partition_task import PartitionTask


def find_groups_on_hosts(task: PartitionTask, hosts: GroupHosts, placement: Numbers, tolerance: float) -> Numbers:
    """Return the group of each sample, starting from where they are.

    Without a limit of bytes, groups that are still too heavy may then swap with any other.
    """
    target = min(least_target(task, target_load(task, tolerance)), LARGEST_SUM)
    traffic = HostTraffic(hosts)
    shared = share_real(task, placement, traffic)
    group_of = shared.copy()
    even_out_hosts(
        task.falling, task.order, task.costs, hosts.sample_bytes, task.real, hosts.host_of, group_of, traffic.counts,
        host_target=task.bound + (target - task.bound) // 2, target=target, limit=hosts.bytes_limit,
        max_sweeps=MAX_SWEEPS,
    )  # fmt: skip
    heaviest = task.heaviest(group_of)
    if heaviest > target and hosts.bytes_limit == NO_BYTES_LIMIT:
        group_of = refine(task, group_of, target, in_place=True)
        heaviest = task.heaviest(group_of)
    # a host may have taken what it cannot spread over its groups: then everything stays as it was
    return group_of if heaviest <= target or heaviest <= task.heaviest(shared) else shared
