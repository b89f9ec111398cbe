"""Exit codes: those that we give, and what the codes of other processes mean.

Python gives a process that a signal has ended the negative number of the signal. A shell, and so everything that
people see, gives it 128 and the number.
"""

from __future__ import annotations

import signal

FINDING_CODE = 90  # a finding ended the job, or a check found a broken contract


def shell_code(returncode: int) -> int:
    """Return the code of an ended process, as Python has it, as a shell gives it.

    >>> shell_code(3), shell_code(-9)
    (3, 137)
    """
    return signal_code(-returncode) if returncode < 0 else returncode


def signal_code(number: int) -> int:
    """Return the code by which a shell tells that a signal has ended a process.

    >>> signal_code(15)
    143
    """
    return 128 + number


def signal_of(code: int) -> int | None:
    """Return the signal that a shell's code tells of, or None; codes just above 128 may also be a program's own.

    >>> signal_of(137), signal_of(90), signal_of(255)
    (9, None, None)
    """
    number = code - 128
    return number if number in signal.valid_signals() else None


def signal_name(number: int) -> str:
    """Name a signal.

    >>> signal_name(9), signal_name(36)
    ('SIGKILL', 'signal 36')
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
