"""What is shared by all that watches torch.distributed: its groups, its element types, and whose calls are recorded."""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

from paceline.guard.rank.buffer_size import UNKNOWN_SIZE, Size
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.compiled_recorder import COMPILED
from paceline.guard.rank.posted_request import PostedRequest
from paceline.guard.rank.remarks.live_handles import LiveHandles
from paceline.guard.rank.remarks.rank_remarks import DroppedRequest
from paceline.guard.rank.thread_watch import count_running_threads
from paceline.guard.rank.watched_process import SESSION, identity_of
from paceline.guard.shared_memory.layout import ENQUEUED, ENQUEUES, SIDE_STREAMS
from paceline.guard.shared_memory.nobody import encode_outsider
from paceline.guard.shared_memory.operations import DTYPE_CODES, REDUCTION_CODES, UNKNOWN_REDUCTION

_DTYPES = {
    "bool": "b1", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2",
    "uint32": "u4", "uint64": "u8", "float16": "f2", "bfloat16": "bf16", "float32": "f4", "float64": "f8",
    "complex32": "c4", "complex64": "c8", "complex128": "c16", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2",
}  # fmt: skip
_REDUCTIONS = {
    "SUM": "SUM", "AVG": "AVG", "PRODUCT": "PROD", "MIN": "MIN", "MAX": "MAX", "BAND": "BAND", "BOR": "BOR",
    "BXOR": "BXOR", "PREMUL_SUM": "PREMUL_SUM",
}  # fmt: skip


# Backends whose calls and waits return when the communication is over. Every other may only enqueue, as NCCL does.
_BLOCKING_BACKENDS = {"gloo", "mpi"}


def _is_in_side_stream() -> bool:
    """Say whether this thread enqueues work of the accelerator, if there is one, in another than the default stream."""
    import torch

    accelerator: Any = getattr(torch, "accelerator", None)
    if accelerator is None:  # a torch that does not tell
        return True
    return bool(accelerator.is_available()) and accelerator.current_stream().stream_id != 0


def _has_data(tensor_class: type) -> bool:
    """Say whether tensors of a class have data, unless they are on the device "meta"."""
    fakes = sys.modules.get("torch._subclasses.fake_tensor")
    return fakes is None or not issubclass(tensor_class, getattr(fakes, "FakeTensor", ()))


class _Nesting(threading.local):
    """How many watched functions this thread is in: one that torch calls inside another is not the user's call."""

    depth = 0


class NoDataError(TypeError):
    """A tensor has a shape and no data, so a call with it communicates nothing and is not recorded."""


class TorchWatch:
    """What is known of torch.distributed in this process."""

    def __init__(self, module: ModuleType) -> None:
        import torch

        self.module: Any = module
        self.inside: Any = _Nesting() if COMPILED is None else COMPILED.Nesting()
        self.dtypes: dict[Any, int] = {}
        for name, code in _DTYPES.items():
            if hasattr(torch, name):
                self.dtypes[getattr(torch, name)] = DTYPE_CODES[code]
        self._reductions: dict[Any, int] = {}
        reduce_op: Any = getattr(module, "ReduceOp")  # noqa: B009
        for name, known in _REDUCTIONS.items():
            if hasattr(reduce_op, name):
                self._reductions[getattr(reduce_op, name)] = REDUCTION_CODES[known]
        self._sum, self._sum_code = reduce_op.SUM, REDUCTION_CODES["SUM"]
        self.groups: dict[Any, Communicator] = {}
        self.world: Communicator | None = None
        self.works: weakref.WeakKeyDictionary[Any, PostedRequest] = weakref.WeakKeyDictionary()
        self.work_classes: set[type] = set()  # those whose waits are watched
        self.handles: LiveHandles | None = None
        self.size: Callable[[Any], Size] = self._size
        self.arguments: Any = None  # what compiled functions need to read theirs, if there are such functions
        if COMPILED is not None:
            sizes = {dtype: (code, dtype.itemsize) for dtype, code in self.dtypes.items() if hasattr(dtype, "itemsize")}
            compiled = COMPILED.TensorSizes(sizes, self._size, torch.Tensor, _has_data)
            self.size = compiled.size
            reductions = ((None, self._sum_code), (self._sum, self._sum_code), *self._reductions.items())
            self.arguments = COMPILED.TorchArguments(SESSION, self, self.inside, compiled, reductions)
        self.on_other_sizes: list[Callable[[Callable[[Any], Size]], None]] = []  # of readers that keep `size`
        self.on_join: list[Callable[[Recorder], None]] = []
        self._number = 1  # of the world that is made next, or in use: attempts to make one do not count

    def read_sizes_by(self, size: Callable[[Any], Size]) -> None:
        """Read what tensors hold by another function from now on."""
        self.size = size
        for tell in self.on_other_sizes:
            tell(size)

    def _size(self, tensor: Any) -> Size:
        """Return element type, bytes and elements of a tensor.

        Raises:
            NoDataError: If it has no data.
        """
        if not self.has_data(tensor):
            raise NoDataError("a tensor without data")
        try:
            count = tensor.numel()
            return self.dtypes.get(tensor.dtype, 0), count * tensor.element_size(), count
        except (AttributeError, RuntimeError):
            return UNKNOWN_SIZE

    def has_data(self, tensor: Any) -> bool:
        """Say whether a tensor has data: those on the device "meta", and those by which torch traces, have none."""
        return _has_data(type(tensor)) and not getattr(tensor, "is_meta", False)

    def reduction(self, op: Any) -> int:
        """Return the code of a reduction; None stands for the default, which is SUM."""
        if op is None or op is self._sum:  # asking for the hash of one takes longer than all else
            return self._sum_code
        try:
            return self._reductions.get(op, UNKNOWN_REDUCTION)
        except TypeError:
            return UNKNOWN_REDUCTION

    def communicator(self, group: Any) -> Communicator | None:
        """Return the communicator of a group; None if it is not followed."""
        if group is None:
            return self.world
        known = self.groups.get(group)
        if known is None and SESSION.recorder is not None and self.world is not None:
            known = self._adopt(group)
        return known

    def _adopt(self, group: Any) -> Communicator | None:
        """Follow a group that was made in a way that we did not see."""
        module = self.module
        if not isinstance(group, module.ProcessGroup):
            return self.world if group is module.GroupMember.WORLD else None
        ranks = tuple(module.get_process_group_ranks(group))
        return self.add_group(group, ranks, module._get_process_group_name(group))

    def add_group(self, group: Any, ranks: tuple[int, ...], name: str) -> Communicator | None:
        """Follow a group from now on."""
        recorder, world = SESSION.recorder, self.world
        if recorder is None or world is None:
            return None
        rank = world.member
        if rank not in ranks:
            return None
        identity = "torch-" + identity_of(world.identity, ranks, name)
        communicator = recorder.communicator(identity, f"group {name}", ranks, ranks.index(rank))
        if communicator is not None:
            self.groups[group] = communicator
            self.learn_backend(group, communicator)
        return communicator

    def learn_backend(self, group: Any, communicator: Communicator) -> None:
        """Learn whether calls on a group may return before they have completed."""
        recorder = SESSION.recorder
        backends = self._backends_of(group)
        if recorder is None or backends <= _BLOCKING_BACKENDS:
            return
        communicator.call_flags = ENQUEUED
        words = recorder.ring.words
        words[ENQUEUES] = 1
        if backends & _BLOCKING_BACKENDS:  # which of them takes a call depends on the tensor: there is no one order
            words[SIDE_STREAMS] = 1

    def _backends_of(self, group: Any) -> set[str]:
        """Return the backends of a group, by device: "cpu:gloo,cuda:nccl" as torch has it."""
        try:
            return {part.rpartition(":")[2] for part in self.module.get_backend_config(group).split(",")}
        except (AttributeError, KeyError, RuntimeError, ValueError):
            return {"unknown"}

    def flags_of(self, communicator: Communicator) -> int:
        """Return the flags that every call on a communicator has, and note if there is no one order of such calls.

        There is none once a rank enqueues in another stream than its device's default one.
        """
        flags, recorder = communicator.call_flags, SESSION.recorder
        if flags and recorder is not None and not recorder.ring.words[SIDE_STREAMS] and _is_in_side_stream():
            recorder.ring.words[SIDE_STREAMS] = 1
        return flags

    def join(self, rank: int, world_size: int, job: str) -> None:
        """Become a rank of this job."""
        if SESSION.join("torch", rank=rank, world_size=world_size, job=job, number=self._number) is None:
            return
        recorder = SESSION.recorder
        assert recorder is not None
        count_running_threads()
        if self.handles is None:
            self.handles = LiveHandles(recorder.remarks)
            recorder.remarks.ask_at_end("torch", self.left_works)
            for tell in self.on_join:
                tell(recorder)
        name = "WORLD" if self._number == 1 else f"WORLD {self._number}"
        self.world = recorder.communicator(f"torch-world-{self._number}", name, range(world_size), rank)

    def meeting(self, rank: int, world_size: int) -> Communicator | None:
        """Return where ranks meet before they have a group: in the call that makes the first one."""
        if SESSION.recorder is None or self.world is None:
            return None
        return SESSION.recorder.communicator(f"torch-init-{self._number}", "init", range(world_size), rank)

    def leave(self, group: Any) -> None:
        """Note that a group, or all, was destroyed."""
        recorder = SESSION.recorder
        if recorder is None:
            return
        everything = group is None or self.groups.get(group) is self.world
        for known, communicator in list(self.groups.items()):
            if everything or known is group:
                recorder.give_up(communicator)
                del self.groups[known]
                if self.handles is not None:
                    self.handles.remove("process group", id(known))
        if everything and self.world is not None:
            recorder.give_up(self.world)
            self.world = None
            self._number += 1

    def unwatched(self, function: Any) -> Any:
        """Return the function with everything it calls left unrecorded: those calls are torch's, not the user's."""
        nesting = self.inside

        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            nesting.depth += 1
            try:
                return function(*args, **named)
            finally:
                nesting.depth -= 1

        return call

    def make_blocked_call(
        self, recorder: Recorder, number: int, function: Any, args: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        """Do the same as watched_calls.make_blocked_call, with everything that the function calls left unrecorded.

        Written out and not made of that and `unwatched`, which would take 0.3 microseconds more per call.
        """
        nesting = self.inside
        nesting.depth = 1  # it was 0, or the call would not have been recorded
        try:
            return function(*args, **named)
        except BaseException as error:
            SESSION.note_failure(error, number)
            raise
        finally:
            nesting.depth = 0
            recorder.unblock(number)

    def make_message(
        self, recorder: Recorder, number: int, function: Any, args: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        """Send or receive a message. If that raises, it is not known what became of the message."""
        recorder.block(number)
        try:
            return self.make_blocked_call(recorder, number, function, args, named)
        except BaseException:
            recorder.remarks.doubt_message()
            raise

    def left_works(self) -> list[DroppedRequest]:
        """Return the works that nobody has waited for, at the end."""
        found = [posted.leave() for posted in list(self.works.values())]
        return [dropped for dropped in found if dropped is not None]


WATCH: list[TorchWatch] = []  # the one of this process, once torch.distributed is loaded


def member_number(communicator: Communicator, rank: Any, group_rank: Any) -> int:
    """Return the number of a peer or root in its group, from its rank in the job or, if given, its number there.

    One that is not in the group is returned as an outsider that stands for what the user wrote.
    """
    members = communicator.ranks
    if group_rank is not None:
        number = int(group_rank)
        return number if 0 <= number < len(members) else encode_outsider(number)
    number = 0 if rank is None else int(rank)
    if 0 <= number < len(members) and members[number] == number:  # always so in WORLD; other groups are searched
        return number
    return members.index(number) if number in members else encode_outsider(number)
