"""Asks a process where it is: by a signal, which the process answers by writing its stack to a file.

Both sides are here: what a rank does to answer (`StackAnswers`), how to ask it, and how to read what it wrote. There
are two questions, because frames that are looked at while Python makes them may crash the process:

- The gentle one is answered by Python itself, between two instructions. It is safe, but a thread that is inside
  compiled code does not come to it before that returns.
- The urgent one is answered at once, wherever the thread is. It is for a process that has not answered the gentle one:
  its thread is in compiled code, and its frames lie still.

A question may come late. When Python ends it takes its handlers away, and a signal that nobody handles kills; so does
one that comes after the process has become another program. So the kernel is asked first whether the process would
handle it and still has the file open. A process is not asked while compiled code of it waits in a call that a signal
would make return early, such as `poll`.
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO, NamedTuple

_set_handler = signal.signal  # as it is now: the guard makes it tell of handlers that the script sets
_POLL_SECONDS = 0.01
_SETTLE_SECONDS = 0.03  # an answer is written piece by piece; one that has not grown for so long is whole
_MOST_SECONDS = 1.0  # to settle
_HEAD = "(most recent call first):"  # ends the line before each stack
_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+|\?\?\?) in (?P<function>.*)$')


class StackSignals(NamedTuple):
    """The two signals by which one side asks."""

    gentle: int
    urgent: int


# A signal has one handler, which writes to one file. Whoever has started a rank may ask it (the launcher, the lab), and
# so may the judge of the guard that watches it, at the same time: each has signals of its own.
# Not SIGUSR1, by which hydra tells ranks that another has failed, nor SIGUSR2, which programs use themselves.
OF_STARTER = StackSignals(signal.SIGRTMIN + 7, signal.SIGRTMIN + 8)
OF_JUDGE = StackSignals(signal.SIGRTMIN + 9, signal.SIGRTMIN + 10)


class StackAnswers:
    """Lets this process answer where it is, from when it is made; `stop` must be called before Python ends."""

    def __init__(self, file: IO[str], signals: StackSignals, *, all_threads: bool = False) -> None:
        """Begin to answer.

        Args:
            file: Where stacks are written to; it is held open from now on.
            signals: By which it will be asked.
            all_threads: Whether to write the stacks of all threads, and not that of the main thread alone.
        """
        self._file, self._signals, self._all_threads = file, signals, all_threads
        self._answers = all(signal.getsignal(number) is signal.SIG_DFL for number in signals)
        if not self._answers:  # the program uses these signals itself: they stay its own
            file.close()  # whoever would ask sees that
            return
        is_main = threading.current_thread() is threading.main_thread()  # only it may set handlers of Python
        if is_main:
            _set_handler(signals.urgent, signal.SIG_IGN)  # what faulthandler puts back when Python has ended
        faulthandler.register(signals.urgent, file=file, all_threads=all_threads)
        signal.siginterrupt(signals.urgent, False)  # a call of the system that it interrupts is made again
        if is_main:
            _set_handler(signals.gentle, self._answer_gentle_question)
            signal.siginterrupt(signals.gentle, False)
        else:
            faulthandler.register(signals.gentle, file=file, all_threads=all_threads)

    def stop(self) -> None:
        """Ignore gentle questions from now on, because Python ends: one that came afterwards would kill the process.

        Urgent ones are still answered as long as Python is there: a rank may hang in MPI_Finalize.
        """
        if self._answers and threading.current_thread() is threading.main_thread():
            _set_handler(self._signals.gentle, signal.SIG_IGN)

    def give_up(self, number: int) -> None:
        """Leave the signals to the program, which is about to handle one of them itself."""
        is_main = threading.current_thread() is threading.main_thread()  # another thread is about to be refused
        if self._answers and is_main and number in self._signals:
            self._answers = False
            for own in self._signals:
                faulthandler.unregister(own)
                _set_handler(own, signal.SIG_DFL)
            self._file.close()

    def _answer_gentle_question(self, number: int, frame: FrameType | None) -> None:
        faulthandler.dump_traceback(self._file, all_threads=self._all_threads)


_OWN_FRAME = StackAnswers._answer_gentle_question.__name__


def ask_for_stacks(files: Mapping[int, Path], signals: StackSignals, *, seconds: float = 0.4) -> dict[int, str]:
    """Ask processes for their stacks, and return what they wrote; empty for one that did not answer.

    Args:
        files: Where each process writes, by its pid. The caller sees to it that no pid has become another process's.
        signals: Those by which they answer.
        seconds: How long to wait for the answer to each question.
    """
    from paceline.process.fragile_calls import signal_would_harm  # ranks load this module, and do not need that

    sizes = {pid: path.stat().st_size for pid, path in files.items() if path.exists()}
    for question in signals:
        silent = [pid for pid, size in sizes.items() if files[pid].stat().st_size == size]
        for pid in silent:
            with suppress(OSError):
                if _would_answer(pid, question, files[pid]) and not signal_would_harm(pid):
                    os.kill(pid, question)
        end = time.monotonic() + seconds
        while any(files[pid].stat().st_size == sizes[pid] for pid in silent) and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
    _let_settle(files[pid] for pid in sizes)
    texts = {pid: files[pid].read_bytes()[size:].decode(errors="replace") for pid, size in sizes.items()}
    return {pid: _without_own_frame(texts.get(pid, "")) for pid in files}


def _would_answer(pid: int, number: int, file: Path) -> bool:
    """Say whether a process handles the signal, and is still the program that has opened the file for its answers."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    bit = 1 << (number - 1)
    if not int(status["SigCgt"], 16) & bit or int(status["SigBlk"], 16) & bit:
        return False
    wanted = file.stat()
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        with suppress(OSError):  # it was closed meanwhile
            if os.path.samestat(os.stat(f"/proc/{pid}/fd/{descriptor}"), wanted):
                return True
    return False


def _let_settle(paths: Iterable[Path]) -> None:
    paths, end = list(paths), time.monotonic() + _MOST_SECONDS
    before: list[int] = []
    while (now := [path.stat().st_size for path in paths]) != before and time.monotonic() < end:
        before = now
        time.sleep(_SETTLE_SECONDS)


def _without_own_frame(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.rstrip("\n").endswith(_OWN_FRAME))


class StackFrame(NamedTuple):
    """One frame of a stack that was written."""

    file: str
    line: str  # ??? where Python does not know
    function: str


def parse_stacks(text: str) -> list[tuple[StackFrame, ...]]:
    r"""Return all stacks of a text in the order in which they were written, each with the innermost frame first.

    The last one may be cut off, if its process is still writing.

    >>> parse_stacks('Current thread 0x1 (most recent call first):\n  File "/a/b.py", line 3 in f\n')
    [(StackFrame(file='/a/b.py', line='3', function='f'),)]
    """
    stacks: list[list[StackFrame]] = []
    for line in _without_own_frame(text).splitlines():
        if line.endswith(_HEAD):
            stacks.append([])
        elif stacks and (found := _FRAME.match(line)) is not None:
            stacks[-1].append(StackFrame(**found.groupdict()))
    return [tuple(stack) for stack in stacks]
