"""How a rank ended: exited, raised, aborted or killed, with the evidence for it.

What the rank itself said comes first. What the kernel says of its process is asked only if the rank said nothing.
"""

from __future__ import annotations

import errno
import re
import signal
from collections.abc import Mapping
from typing import Any, Protocol

from paceline.guard.observe.kernel_view import ProcessHandle
from paceline.guard.shared_memory import layout
from paceline.guard.verdict.finding import Cause
from paceline.guard.verdict.snapshot import End, EndKind
from paceline.process.exit_codes import signal_name

_MAX_MESSAGE = 200  # characters of an exception's message that are shown
# what messages of torch and MPI say when it was another rank that went away
_BY_PEER = (
    "closed by peer", "reset by peer", "broken pipe", "connection refused", "remote process",
    "eof (this error originated at tensorpipe",
)  # fmt: skip
# what they say when their own time limit ran out: whom they waited for may be well. A wrong argument may name one, too
_TIMED_OUT = re.compile(r"\btim(?:ed?[ -]?out|ing out)", re.IGNORECASE)
_WRONG_ARGUMENT = ("AttributeError", "KeyError", "NameError", "TypeError", "ValueError")
# what MPI says of a message that its buffer has no room for: at once, or, by a wait for several, in the status of one
_TRUNCATED = re.compile(r"truncated|MPI_ERROR field in MPI_Status|MPI_ERR_IN_STATUS", re.IGNORECASE)
# what MPICH says when it has no context id left, and mpi4py when it has no room for a reduction of the user's own
_TOO_MANY_HANDLES = ("Too many communicators", "too many user-defined reduction operations")
_ERROR_STACK = ", error stack:"  # from here on MPICH lists its own functions with their addresses
_NO_MEMORY = re.compile(r"(can't|cannot) allocate memory|\bout of memory\b", re.IGNORECASE)  # as torch and numpy say it
# what comes out of a call of torch.distributed.rpc whose function raised on another worker; it may be quoted
_ON_WORKER = re.compile(
    r"On WorkerInfo\(id=\d+, name=(?P<worker>[^)]*)\):(?:\n|\\n)(?P<error>.*?)(?:\n|\\n)Traceback", re.DOTALL
)
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_INSTALLED = ("/site-packages/", "/dist-packages/")
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, a quota, or a limit on file sizes is full


class RankTexts(Protocol):
    """What a rank has said of itself, in its ring or in the note of its start."""

    @property
    def texts(self) -> list[dict[str, Any]]:
        """What it has said so far."""

    def word(self, index: int) -> int:
        """Return one of the numbers that it keeps up to date."""

    def frames_text(self, frames: list[list[Any]]) -> list[str]:
        """Return frames as file:line."""


class RankEvidence(Protocol):
    """What there is to see of the end of a rank."""

    @property
    def reader(self) -> RankTexts:
        """What it has said."""

    @property
    def process(self) -> ProcessHandle:
        """Its process."""

    @property
    def kills_before(self) -> int:
        """Processes that the kernel had killed for memory when the job was first seen."""

    @property
    def memory(self) -> list[tuple[float, int]]:
        """When it has held how many bytes, the last few."""

    def memory_growth(self) -> str:
        """Say how its memory had grown, if that is worth a word."""


def rank_end(rank: RankEvidence) -> End | None:
    """Return how a rank has ended or is ending; None while it lives."""
    reader = rank.reader
    ending, ended = reader.word(layout.ENDING), rank.process.has_ended()
    if ending == layout.LIVES and not ended:
        return None
    raised = raised_end(rank)
    if raised is not None:
        return raised
    at = reader.word(layout.ENDED_AT) or rank.process.ended_ns
    if ending == layout.ABORTS:
        text = _last_text(reader, "abort")
        return End(kind=EndKind.ABORTED, detail=f"Abort({text['abort']})", site=_first_site(reader, text), at_ns=at)
    if ending in (layout.EXITS, layout.EXITS_AT_ONCE):
        return _exited_end(rank, at)
    return _unannounced_end(rank, at)


def raised_end(rank: RankEvidence) -> End | None:
    """Return the end of a rank that raised an exception which nobody caught; it may still be on its way out."""
    exception = _last_text(rank.reader, "raised").get("raised")
    if exception is None:
        return None
    return end_by_exception(rank.reader, exception, rank.reader.word(layout.ENDED_AT) or rank.process.ended_ns)


def _exited_end(rank: RankEvidence, at: int) -> End:
    """Return the end of a rank that left by itself: by a call that it told of, or else by its exit status."""
    text, status = _last_text(rank.reader, "exit"), rank.process.status
    code, finished = text.get("exit"), _last_text(rank.reader, "finished").get("finished")
    if status is None and finished:
        text, code = {}, None  # sys.exit was caught
    if status is not None and status & 0x7F == 0 and (code is None or code & 0xFF != status >> 8):
        text, code = {}, status >> 8  # sys.exit was caught, or there was none: `raise SystemExit`, a library's exit
    if text:
        detail = f"{text['how']}({code})"
    elif code:
        detail = f"exit code {code}"
    elif finished is False:
        detail = "SystemExit(0)" if code == 0 else "SystemExit, with a code that is not known"
    elif finished is None and code is None:
        detail = "came to the end of the script, or to SystemExit"
    else:
        detail = "came to the end of the script"
    at_once = rank.reader.word(layout.ENDING) == layout.EXITS_AT_ONCE
    return End(
        kind=EndKind.EXITED, detail=detail, site=_first_site(rank.reader, text), exit_code=code, at_ns=at,
        at_once=at_once,
    )  # fmt: skip


def _raised_elsewhere(reader: RankTexts, message: str) -> tuple[str, str] | None:
    r"""Return what a function on another worker raised, in words, and its line; None if it is not that.

    >>> text = "On WorkerInfo(id=1, name=ps):\nValueError('bad')\nTraceback (most recent call last):"
    >>> _ON_WORKER.search(text).group("worker", "error")
    ('ps', "ValueError('bad')")
    """
    found = _ON_WORKER.search(message)
    if found is None:
        return None
    frames = [
        match
        for match in _FRAME.finditer(message, found.end())
        if not any(folder in match["file"] for folder in _INSTALLED)
    ]
    origin = reader.frames_text([[frames[-1]["file"], frames[-1]["line"]]])[0] if frames else ""
    error = _shortened(found["error"].replace("\\'", "'"))
    return f"{error} in a function on {found['worker']}{f', at {origin}' if origin else ''}", origin


def _shortened(words: str) -> str:
    return words if len(words) <= _MAX_MESSAGE else f"{words[:_MAX_MESSAGE]}..."


def end_by_exception(reader: RankTexts, exception: Mapping[str, Any], at: int) -> End:
    """Return the end that an exception has brought about, as it was described where it was raised."""
    kind, message = exception["type"], str(exception["message"])
    elsewhere, origin = _raised_elsewhere(reader, message) or ("", "")
    words = " ".join(message.partition(_ERROR_STACK)[0].split())
    shown = elsewhere or _shortened(words)
    number = exception.get("errno")
    is_full = number in _NO_SPACE or "No space left on device" in message
    cause = Cause.DISK_FULL if is_full else None
    if any(text in message for text in _TOO_MANY_HANDLES):
        cause = Cause.HANDLE_LEAK
    if kind in ("MemoryError", "OutOfMemoryError") or _NO_MEMORY.search(message) or number == errno.ENOMEM:
        cause = Cause.OUT_OF_MEMORY
    by_peer = exception.get("of another rank") is True or any(text in message.lower() for text in _BY_PEER)
    timed_out = kind not in _WRONG_ARGUMENT and _TIMED_OUT.search(f"{kind} {message}") is not None
    return End(
        kind=EndKind.RAISED,
        detail=f"{kind}: {shown}" if shown else str(kind),
        site=_first_site(reader, exception),
        origin=origin,
        cause=cause,
        at_ns=at,
        failed_call=exception.get("call"),
        by_peer=not timed_out and by_peer,
        timed_out=timed_out,
        may_be_truncated=_TRUNCATED.search(message) is not None,
    )


def _unannounced_end(rank: RankEvidence, at: int) -> End:
    """Return the end of a rank that left without a word: a signal, or a library that called exit."""
    status = rank.process.status  # as wait gives it; None where the kernel does not tell
    number = status & 0x7F if status is not None else None
    if number == 0 and status is not None:
        code = status >> 8
        return End(kind=EndKind.EXITED, detail=f"exit code {code}, not by way of Python", exit_code=code, at_ns=at)
    detail = f"by {signal_name(number)}" if number else "by a signal, or by a library that ended the process"
    kills = rank.process.memory_kills_since(rank.kills_before)
    memory = rank.memory[-1][1] if rank.memory else 0
    if number == signal.SIGKILL and kills > 0:
        detail += f"; the kernel has killed {kills} process(es) for memory since the job began"
        return End(
            kind=EndKind.KILLED, detail=detail, cause=Cause.OUT_OF_MEMORY, signal=number, at_ns=at,
            memory_bytes=memory, closed_ns=rank.process.closed_ns, with_others=rank.process.with_others,
        )  # fmt: skip
    detail += rank.memory_growth()
    return End(
        kind=EndKind.KILLED, detail=detail, signal=number, at_ns=at, closed_ns=rank.process.closed_ns,
        with_others=rank.process.with_others,
    )  # fmt: skip


def is_leaving(rank: RankEvidence) -> bool:
    """Say whether a process that has told of its end is about to exit."""
    return bool(_last_text(rank.reader, "leaves").get("leaves"))


def _last_text(reader: RankTexts, key: str) -> dict[str, Any]:
    """Return the last of the rank's texts that has this key, or an empty one."""
    return next((text for text in reversed(reader.texts) if key in text), {})


def _first_site(reader: RankTexts, text: Mapping[str, Any]) -> str:
    frames = text.get("frames") or []
    return reader.frames_text(frames[:1])[0] if frames else ""
