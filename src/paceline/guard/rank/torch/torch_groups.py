"""Watches how torch.distributed's groups are made and given up."""

from __future__ import annotations

import functools
import os
import re
import sys
from typing import Any

from paceline.guard.rank.torch.torch_module import TorchWatch
from paceline.guard.rank.watched_calls import CALLED_BY_WRAPPER, make_blocked_call
from paceline.guard.rank.watched_process import SESSION, identity_of
from paceline.guard.shared_memory.operations import BY_NAME


def watched_init(watch: TorchWatch, function: Any) -> Any:
    """Return an init_process_group that makes this process a rank of the job."""
    code = BY_NAME["torch.init_process_group"].code
    module, unwatched = watch.module, watch.unwatched(function)

    @functools.wraps(function)
    def init_process_group(*args: Any, **named: Any) -> Any:
        membership = None if module.is_initialized() else _read_membership(args, named)
        meeting = None
        if membership is not None:
            watch.join(*membership)
            meeting = watch.meeting(*membership[:2])  # so that the first collective on WORLD is the user's
        recorder = SESSION.recorder
        if recorder is not None and meeting is not None:
            number = recorder.begin_collective(meeting, code, depth=CALLED_BY_WRAPPER)
            try:
                value = make_blocked_call(recorder, number, unwatched, args, named)
            finally:
                recorder.give_up(meeting)
        else:
            value = unwatched(*args, **named)
        if watch.world is None and module.is_initialized():
            watch.join(module.get_rank(), module.get_world_size(), job_name(args, named))
        if watch.world is not None:
            watch.groups[module.GroupMember.WORLD] = watch.world
            watch.learn_backend(module.GroupMember.WORLD, watch.world)
        return value

    return init_process_group


def _read_membership(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[int, int, str] | None:
    """Return rank, number of ranks and name of the job from the arguments or the environment, if they say."""
    # init_process_group(backend, init_method, timeout, world_size, rank, store, ...)
    world_size = named.get("world_size", args[3] if len(args) > 3 else -1)
    rank = named.get("rank", args[4] if len(args) > 4 else -1)
    method = named.get("init_method", args[1] if len(args) > 1 else None)
    try:
        if method is None or method.startswith("env://") or rank >= 0:
            rank = rank if rank >= 0 else int(os.environ["RANK"])
            world_size = world_size if world_size > 0 else int(os.environ["WORLD_SIZE"])
            return rank, world_size, job_name(args, named)
    except (KeyError, ValueError, AttributeError, TypeError):
        return None
    return None


# an address that every host has for itself alone
_LOOPBACK = re.compile(r"(tcp://)?(localhost(?![\w.-])|127\.|::1$|\[::1\])")


def job_name(args: tuple[Any, ...], named: dict[str, Any]) -> str:
    """Return what tells this job from others that run at the same time."""
    method = named.get("init_method", args[1] if len(args) > 1 else None)
    store = named.get("store", args[5] if len(args) > 5 else None)
    if store is not None:
        return f"store {getattr(store, 'host', '')}:{getattr(store, 'port', getattr(store, 'path', ''))}"
    # a launcher may start the same job again at the same address
    attempt = [os.environ.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")]
    if method is not None and not method.startswith("env://"):
        return " ".join([_of_host(method.partition("?")[0]), *attempt])
    return " ".join([_of_host(os.environ.get("MASTER_ADDR", "")), os.environ.get("MASTER_PORT", ""), *attempt])


def _of_host(address: str) -> str:
    """Return an address so that it is the same on two hosts only if it leads to the same place from both."""
    return f"{address} {os.uname().nodename}" if _LOOPBACK.match(address) else address


def watched_destroy(watch: TorchWatch, function: Any) -> Any:
    """Return a destroy_process_group that notes which groups this rank will not use again."""

    @functools.wraps(function)
    def destroy_process_group(group: Any = None) -> Any:
        if watch.module.is_initialized():  # what a failed init has left is nothing that a rank could leave
            watch.leave(None if group is watch.module.GroupMember.WORLD else group)
        return function(group)

    return destroy_process_group


def watched_new_group(watch: TorchWatch, function: Any) -> Any:
    """Return a new_group that records which ranks it lists: every rank must call it with the same ones."""
    code, unwatched = BY_NAME["torch.new_group"].code, watch.unwatched(function)

    @functools.wraps(function)
    def new_group(ranks: Any = None, *args: Any, **named: Any) -> Any:
        recorder, world = SESSION.recorder, watch.world
        if recorder is None or world is None or named.get("use_local_synchronization"):
            return function(ranks, *args, **named)
        listed = _members(ranks, sort=named.get("sort_ranks", True)) if ranks is not None else world.ranks
        stands_for = int(identity_of(listed)[:12], 16)  # two ranks that list others make different groups
        if not watch.inside.depth:
            recorder.tell_group(stands_for, listed)
        number = recorder.begin_collective(world, code, members_hash=stands_for, depth=CALLED_BY_WRAPPER)
        group = make_blocked_call(recorder, number, unwatched, (ranks, *args), named)
        if isinstance(group, watch.module.ProcessGroup):  # a rank that is not in it gets something else
            watch.add_group(group, listed, watch.module._get_process_group_name(group))
            if watch.handles is not None and group in watch.groups:  # which keeps the object, so its id is its own
                site = recorder.remarks.site_of(sys._getframe(1))
                watch.handles.add("process group", id(group), group, site, alike=listed)
        return group

    return new_group


def _members(ranks: Any, *, sort: bool) -> tuple[int, ...]:
    """Return the ranks of a new group in the order in which torch numbers them."""
    return tuple(sorted(ranks) if sort else ranks)
