"""Keeps a head that is a process of its own: if it is killed, it is started again, and takes over the hosts.

The keeper holds the lock of the judge and the port of the head meanwhile, so ranks that have stopped wait a moment
longer, and hosts are not refused. It does nothing else, and holds little memory that somebody could miss.
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


def judge_in_child(say: Callable[[str], None]) -> None:
    """Go on in a child process, and in another one if that is killed. This process ends when its child does.

    No thread may run yet.

    Args:
        say: Tells people that a head was killed.

    Raises:
        SystemExit: In this process, if head after head was killed, or somebody has told it to end.
    """
    keeper = os.getpid()
    for number in range(1, MOST_STARTS + 1):
        child = os.fork()
        if not child:
            _die_with(keeper)
            return
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status >= 0:
            os._exit(status)  # it has cleaned up, and said what there was to say
        if -status in _WISHES:
            raise SystemExit(signal_code(-status))
        how = f"the process that judges this job was killed by {signal.Signals(-status).name}"
        if number < MOST_STARTS:
            say(f"{how}; it is started again, and hosts tell it everything")
    say(f"{how}, for the {MOST_STARTS}th time: the job goes on, and nobody notices if it hangs")
    raise SystemExit(1)


def _die_with(keeper: int) -> None:
    """End when the keeper is killed: whoever kills it wants no judge."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != keeper:
        os._exit(1)
