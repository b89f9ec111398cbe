"""Sees whether a signal would harm a process: it waits in a call of the system that a signal makes return early.

After a signal the kernel makes most calls again, but not `poll`, `select`, `sleep` and their like (signal(7)). Python
makes them again itself. Compiled code of others may take the early return for an error.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
# by machine: poll, select, pselect6, ppoll, epoll_wait, epoll_pwait, pause, nanosleep, clock_nanosleep, rt_sigsuspend,
# rt_sigtimedwait, semop, semtimedop, msgsnd, msgrcv, io_getevents
_RETURN_EARLY = {
    "x86_64": {7, 23, 270, 271, 232, 281, 34, 35, 230, 130, 128, 65, 220, 69, 70, 208},
    "aarch64": {72, 73, 22, 101, 115, 133, 137, 193, 192, 189, 188, 4},
}
_STACK_BYTES = 1024  # more than the C library needs between its caller and the kernel
_NEAR_BYTES = 104  # what its frames for these calls take
_OF_C_LIBRARY = ("libc.", "libc-", "libpthread", "ld-linux", "ld-musl")  # begins of names
_OF_PYTHON = ("python", "libpython")


def signal_would_harm(pid: int) -> bool:
    """Say whether compiled code of others waits in such a call; False if that cannot be seen."""
    with suppress(OSError, ValueError):  # it runs, has ended, or may not be looked at
        number, *_, pointer, _ = (_PROC / str(pid) / "syscall").read_text().split()
        if int(number) in _RETURN_EARLY.get(os.uname().machine, ()):
            return _is_of_others(list(_callers(pid, int(pointer, 16))))
    return False


def _is_of_others(callers: Sequence[tuple[int, Path]]) -> bool:
    """Say whether the call was made by others than Python; in doubt it was not.

    The first return address outside of the C library is that of the caller, except where an older one has been left in
    a gap of the C library's frame. So Python is taken for the caller if it is the first, or near.
    """
    if not callers or _is_python(callers[0][1]):
        return False
    return not any(_is_python(path) for offset, path in callers if offset < _NEAR_BYTES)


def _callers(pid: int, pointer: int) -> Iterator[tuple[int, Path]]:
    """Yield the files that words of the stack point into as return addresses do, and where those words lie."""
    code = [part for part in _code(pid) if not part[2].name.startswith(_OF_C_LIBRARY)]
    with (_PROC / str(pid) / "mem").open("rb", buffering=0) as memory:
        memory.seek(pointer)
        stack = memory.read(_STACK_BYTES)
    for number, (word,) in enumerate(struct.iter_unpack("=Q", stack[: len(stack) // 8 * 8])):
        for start, end, path in code:
            if start < word <= end:
                yield number * 8, path


def _code(pid: int) -> Iterator[tuple[int, int, Path]]:
    for line in (_PROC / str(pid) / "maps").read_text(errors="replace").splitlines():
        span, rights, *_, name = line.split(maxsplit=5)
        if "x" in rights and name.startswith("/"):
            start, _, end = span.partition("-")
            yield int(start, 16), int(end, 16), Path(name)


def _is_python(path: Path) -> bool:
    return path.name.startswith(_OF_PYTHON) or path.parent.name == "lib-dynload"
