"""Keeps a head that is a process of its own: if it is killed, it is started again, and takes over the hosts.

The keeper holds the lock of the judge, the port of the head and the launcher, if there is one. So ranks that have
stopped wait a moment longer, hosts are not refused, and the job goes on. It does nothing else, and holds little memory
that somebody could miss.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

from paceline.process.exit_codes import signal_code

MOST_STARTS = 4  # the first one, and three again
_WISHES = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # of people who want it to end
_PR_SET_PDEATHSIG = 1


def judge_in_child(
    say: Callable[[str], None], wait_for: Callable[[int], int] | None = None, does: str = "judges this job"
) -> str | None:
    """Go on in a child process, and in another one if that is killed. This process ends when its child does.

    No thread may run yet.

    Args:
        say: Tells people that a child was killed and is started again.
        wait_for: Waits for a child, and returns how it ended, as `os.waitstatus_to_exitcode` does.
        does: What the child does, for people.

    Returns:
        None in the child; in this process, once head after head was killed, a sentence that says so.

    Raises:
        SystemExit: In this process, if somebody has told the child to end.
    """
    keeper = os.getpid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # whoever ignores it is not told how children end
    for number in range(1, MOST_STARTS + 1):
        child = os.fork()
        if not child:
            _die_with(keeper)
            return None
        status = (wait_for or _wait_for)(child)
        if status >= 0:
            os._exit(status)  # it has cleaned up, and said what there was to say
        if -status in _WISHES:
            raise SystemExit(signal_code(-status))
        how = f"the process that {does} was killed by {signal.Signals(-status).name}"
        if number < MOST_STARTS:
            say(f"{how}; it is started again, and knows everything in a moment")
    return f"{how}, for the {MOST_STARTS}th time: the job goes on, and nobody notices if it hangs"


def _wait_for(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _die_with(keeper: int) -> None:
    """End when the keeper is killed: whoever kills it wants no judge."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != keeper:
        os._exit(1)
