"""Watches how torch.distributed's groups are made and given up."""

from __future__ import annotations

import functools
import os
from typing import Any

from paceline.guard.rank.torch.torch_module import TorchWatch
from paceline.guard.rank.watched_process import SESSION, identity_of
from paceline.guard.shared_memory.operations import BY_NAME
from paceline.process.launchers import TORCH_JOB_VARIABLES, TORCHRUN


def watched_init(watch: TorchWatch, function: Any) -> Any:
    """Return an init_process_group that makes this process a rank of the job."""
    code = BY_NAME["torch.init_process_group"].code

    @functools.wraps(function)
    def init_process_group(*args: Any, **named: Any) -> Any:
        place = _place(args, named)
        number = None
        if place is not None and not watch.module.is_initialized():
            watch.join(*place)
            recorder = SESSION.recorder
            comm = watch.meeting(*place[:2])  # of its own, so that the first collective on WORLD is the user's
            if recorder is not None and comm is not None:
                number = recorder.begin_collective(comm, code)
                watch.enter()
        try:
            value = function(*args, **named)
        except BaseException as error:
            if number is not None:
                SESSION.note_failure(error, number)
            raise
        finally:
            watch.exit()
            if number is not None and recorder is not None and comm is not None:
                recorder.unblock(number)
                recorder.give_up(comm)
        if watch.world is None and watch.module.is_initialized():
            module = watch.module
            watch.join(module.get_rank(), module.get_world_size(), _job(args, named))
        if watch.world is not None:
            watch.groups[watch.module.GroupMember.WORLD] = watch.world
        return value

    return init_process_group


def _place(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[int, int, str] | None:
    """Return rank, number of ranks and job from the arguments or the environment, if they say."""
    # init_process_group(backend, init_method, timeout, world_size, rank, store, ...)
    world_size = named.get("world_size", args[3] if len(args) > 3 else -1)
    rank = named.get("rank", args[4] if len(args) > 4 else -1)
    method = named.get("init_method", args[1] if len(args) > 1 else None)
    try:
        if method is None or method.startswith("env://") or rank >= 0:
            rank = rank if rank >= 0 else int(os.environ[TORCHRUN.rank])
            world_size = world_size if world_size > 0 else int(os.environ[TORCHRUN.world_size])
            return rank, world_size, _job(args, named)
    except (KeyError, ValueError, AttributeError, TypeError):
        return None
    return None


def _job(args: tuple[Any, ...], named: dict[str, Any]) -> str:
    """Return what tells this job from others that run at the same time."""
    method = named.get("init_method", args[1] if len(args) > 1 else None)
    store = named.get("store", args[5] if len(args) > 5 else None)
    if store is not None:
        return f"store {getattr(store, 'host', '')}:{getattr(store, 'port', getattr(store, 'path', ''))}"
    address, port, *again = (os.environ.get(name, "") for name in TORCH_JOB_VARIABLES)
    if method is not None and not method.startswith("env://"):
        return " ".join([method.partition("?")[0], *again])
    return " ".join([address, port, *again])


def watched_destroy(watch: TorchWatch, function: Any) -> Any:
    """Return a destroy_process_group that notes what is given up."""

    @functools.wraps(function)
    def destroy_process_group(group: Any = None) -> Any:
        if group is None or group is watch.module.GroupMember.WORLD:
            watch.leave(None)
        else:
            watch.leave(group)
        return function(group)

    return destroy_process_group


def watched_new_group(watch: TorchWatch, function: Any) -> Any:
    """Return a new_group that every rank must call with the same ranks."""
    code = BY_NAME["torch.new_group"].code

    @functools.wraps(function)
    def new_group(ranks: Any = None, *args: Any, **named: Any) -> Any:
        recorder, world = SESSION.recorder, watch.world
        if recorder is None or world is None or named.get("use_local_synchronization"):
            return function(ranks, *args, **named)
        listed = tuple(sorted(ranks)) if ranks is not None else world.ranks
        stands_for = int(identity_of(listed)[:12], 16)  # two ranks that list others make different groups
        if not watch.inside.depth:
            recorder.ring.write_text({"group": stands_for, "ranks": list(listed)[:1000]})
        number = recorder.begin_collective(world, code, members_hash=stands_for)
        watch.enter()
        try:
            made = function(ranks, *args, **named)
        except BaseException as error:
            SESSION.note_failure(error, number)
            raise
        finally:
            watch.exit()
            recorder.unblock(number)
        if isinstance(made, watch.module.ProcessGroup):
            watch.add_group(made, listed, watch.module._get_process_group_name(made))
        return made

    return new_group
