"""The launcher of a head that may be killed: another process, the keeper, has started it, and holds it.

The keeper waits for both. It tells the head through a few bytes of shared memory how the launcher ended, and passes on
the signals that reach only itself.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
import time
from collections.abc import Callable, Iterable

from paceline.guard.observe.kernel_view import ProcessHandle, end_all
from paceline.guard.run.several_hosts.kept_head import judge_in_child
from paceline.guard.run.started_launcher import StartedLauncher
from paceline.guard.run.stopping_job import ForwardedSignals
from paceline.launch.launcher_command.batch_clients import batch_clients
from paceline.process.exit_codes import signal_code

_STATUS = struct.Struct("<i")  # how the launcher ended
_HAS_ENDED = _STATUS.size  # where the keeper notes that it has; last, so that who sees it sees how
_ENDING = _HAS_ENDED + 1  # where the head notes that it ends the job
_SI_KERNEL = 0x80  # the sender of a signal that comes from the terminal
_POLL_SECONDS = 0.005
_LOOK_SECONDS = 1.0  # between two looks of the keeper, if it is told of nothing


class KeptLauncher(StartedLauncher):
    """A launcher that the parent of this process holds."""

    def __init__(self, launcher: StartedLauncher, keeper: int, note: mmap.mmap) -> None:
        self.handle, self._keeper, self._note = launcher.handle, keeper, note

    @property
    def returncode(self) -> int | None:
        """How it ended, as far as the keeper has noticed."""
        return int(_STATUS.unpack_from(self._note)[0]) if self._note[_HAS_ENDED] else None

    def poll(self) -> int | None:
        """Ask how it ended; None while it runs."""
        return self.returncode

    def wait(self) -> int:
        """Wait until it has ended, and return how."""
        while (status := self.returncode) is None:
            time.sleep(_POLL_SECONDS)
        return status

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        self.handle.send_signal(number)

    def clients(self) -> list[int]:
        """Return the clients of a batch system in it."""
        return batch_clients(self._keeper)

    def end_all(self, also: Iterable[ProcessHandle]) -> None:
        """Kill it and everything that it has started, and other processes; not the keeper, and not us."""
        self._note[_ENDING] = True
        end_all([self._keeper], also=also, spared=[os.getpid()])


def judge_beside(
    launcher: StartedLauncher, signals: ForwardedSignals, say: Callable[[str], None]
) -> tuple[StartedLauncher, str | None]:
    """Go on in a head that is started again if it is killed, while this process holds the launcher.

    Returns:
        The launcher, and why there is no head any more: a sentence in this process, None in the head.
    """
    keeper, note = os.getpid(), mmap.mmap(-1, mmap.PAGESIZE)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, *signals.numbers])
    try:
        fault = judge_in_child(say, lambda head: _wait_for(head, launcher, signals, note, say))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return (launcher if fault is not None else KeptLauncher(launcher, keeper, note)), fault


def _wait_for(
    head: int, launcher: StartedLauncher, signals: ForwardedSignals, note: mmap.mmap, say: Callable[[str], None]
) -> int:
    """Wait for a head, and return how it ended; meanwhile wait for the launcher, and pass signals on to the head."""
    while True:
        if launcher.poll() is not None:
            _STATUS.pack_into(note, 0, launcher.returncode)
            note[_HAS_ENDED] = True
        pid, status = os.waitpid(head, os.WNOHANG)
        if pid:
            break
        received = signal.sigtimedwait([signal.SIGCHLD, *signals.numbers], _LOOK_SECONDS)
        if received is not None and received.si_signo != signal.SIGCHLD:
            signals.note(received.si_signo)
            # a terminal sends its keys to the whole group, but a hangup to the leader of the session alone
            if received.si_code != _SI_KERNEL or received.si_signo == signal.SIGHUP:
                os.kill(head, received.si_signo)
    ended = os.waitstatus_to_exitcode(status)
    if ended < 0 and note[_ENDING]:
        # another head would take ranks that this one has killed for ranks that have failed
        launcher.end_all([])
        say("the process that judges this job was killed while it ended the job")
        raise SystemExit(signal_code(-ended))
    return ended
