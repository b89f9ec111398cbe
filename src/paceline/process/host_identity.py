"""Which machine this process runs on, by a name that all its processes share and no other machine has."""

from __future__ import annotations

import socket
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def host_identity(boot_id: Path = _BOOT_ID) -> str:
    """Return what the kernel calls its present life; the machine's name where it does not say.

    Containers of one machine have names of their own, but one kernel: memory that they can share.
    """
    try:
        return boot_id.read_text().strip()
    except OSError:
        return socket.gethostname()
