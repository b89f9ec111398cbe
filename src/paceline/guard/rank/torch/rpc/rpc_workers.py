"""The workers of torch.distributed.rpc as this process knows them, and its calls that wait for an answer."""

from __future__ import annotations

import weakref
from types import ModuleType
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.request_slots import NO_REQUEST
from paceline.guard.rank.thread_watch import count_running_threads
from paceline.guard.rank.torch.torch_groups import job_name
from paceline.guard.rank.torch.torch_module import WATCH
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory import layout

NOT_GIVEN = object()  # stands for an argument that the script leaves out
NO_LIMIT = 0  # as torch's own timeouts say it
_UNSET = -1.0


class RpcWatch:
    """What is known of torch.distributed.rpc in this process."""

    def __init__(self, package: ModuleType) -> None:
        self.package: Any = package
        self.api: Any = package.api
        self.inside: Any = WATCH[0].inside  # what torch calls by itself inside of a watched function is not recorded
        self.unwatched = WATCH[0].unwatched
        self.workers: Communicator | None = None
        self.pending: weakref.WeakKeyDictionary[Any, tuple[PendingCall, ...]] = weakref.WeakKeyDictionary()
        self._has_own_limit = False
        self._number = 0

    def join(self, rank: int, world_size: int, options: Any) -> Communicator | None:
        """Become one of the workers; None if they cannot be watched."""
        if not 0 <= rank < world_size:
            return None  # torch will say so
        self._number += 1
        method = getattr(options, "init_method", None)
        job = job_name((None, method), {})
        if SESSION.join("rpc", rank=rank, world_size=world_size, job=job, number=self._number) is None:
            return None
        recorder = SESSION.recorder
        assert recorder is not None
        count_running_threads()
        usual = self.package._DEFAULT_RPC_TIMEOUT_SEC
        self._has_own_limit = getattr(options, "rpc_timeout", usual) not in (usual, NO_LIMIT)
        name = "rpc" if self._number == 1 else f"rpc {self._number}"
        return recorder.communicator(f"{layout.RPC_PREFIX}{self._number}", name, range(world_size), rank)

    def leave(self) -> None:
        """Be a worker no more."""
        workers, self.workers = self.workers, None
        if workers is not None and SESSION.recorder is not None:
            SESSION.recorder.give_up(workers)

    def member(self, to: Any) -> int | None:
        """Return the number of a worker, by its name, number or description; None if there is none such."""
        try:
            return int(getattr(to if hasattr(to, "id") else self.api.get_worker_info(to), "id"))  # noqa: B009
        except (AttributeError, RuntimeError, TypeError, ValueError):
            return None  # torch will say so

    def limit_flags(self, timeout: Any) -> int:
        """Return the flag of a call that ends after a limit that the script has set, and not by torch's own."""
        if timeout in (NOT_GIVEN, _UNSET):
            return layout.OWN_TIMEOUT if self._has_own_limit else 0
        return 0 if timeout == NO_LIMIT else layout.OWN_TIMEOUT


class PendingCall:
    """A call whose answer nobody has waited for yet. Its request is given back when it is answered or dropped."""

    __slots__ = ("_recorder", "record", "request")

    def __init__(self, recorder: Recorder, request: int, record: int) -> None:
        self._recorder, self.request, self.record = recorder, request, record

    def release(self) -> None:
        """Give the request's number back."""
        request, self.request = self.request, NO_REQUEST
        if request and self._recorder is SESSION.recorder:
            self._recorder.requests.free(request)

    def __del__(self) -> None:
        self.release()


def read_argument(name: str, args: tuple[Any, ...], named: dict[str, Any], index: int) -> Any:
    """Return an argument, by its name or its place; NOT_GIVEN if it is left out."""
    return named.get(name, args[index] if len(args) > index else NOT_GIVEN)
