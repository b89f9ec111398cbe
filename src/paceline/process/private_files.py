"""Folders and files of one user in places that all users share, such as /dev/shm.

What is made here is readable by its user alone, whatever the umask. What is opened is a regular file of this user: no
link is followed, and no pipe is waited for. A lock says whether the process that made a folder still lives. It holds
across containers that share a folder but do not see each other's processes.
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat
from pathlib import Path

_OPEN_SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FILE_MODE, _FOLDER_MODE = 0o600, 0o700


def is_private_folder(path: Path | str) -> bool:
    """Say whether this is a folder of this user, and not a link to one, that nobody else may look into."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return is_ours and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def names_in(folder: Path) -> list[str]:
    """Return the names of the files of a folder; none if somebody has removed it."""
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def make_private_folder(parent: Path | str | None, prefix: str) -> Path:
    """Make a folder that only this user may look into, with a random part in its name."""
    import tempfile  # not needed by ranks

    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    os.chmod(folder, _FOLDER_MODE)  # the umask may have taken bits that we need
    return folder


def open_private(path: Path | str, flags: int = os.O_RDONLY) -> int:
    """Open a regular file of this user and return its descriptor; with `os.O_CREAT`, make it for this user alone.

    Raises:
        PermissionError: It is something else, or somebody else's.
    """
    # O_TRUNC would empty a file before we know whose it is
    descriptor = os.open(path, flags & ~os.O_TRUNC | _OPEN_SAFELY, _FILE_MODE)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise PermissionError(f"{path} is not a file of this user")
        if flags & os.O_CREAT and stat.S_IMODE(found.st_mode) != _FILE_MODE:
            os.fchmod(descriptor, _FILE_MODE)
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def write_private(path: Path | str, content: bytes, *, append: bool = False) -> None:
    """Write a file for this user alone, or add to it."""
    descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC))
    with open(descriptor, "ab" if append else "wb", buffering=0) as file:
        file.write(content)


def read_private(path: Path | str, *, most: int) -> bytes:
    """Return what is in a file of this user. Raise OSError if it is another's, or has more than `most` bytes."""
    with open(open_private(path), "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(f"{path} has more than {most:,} bytes")
    return content


def lock_file(path: Path | str, *, wait: bool = True) -> int | None:
    """Make and lock a file; return its descriptor. The lock holds until that is closed, or this process has ended.

    Args:
        path: The file.
        wait: Whether to wait for another process that holds the lock. If not, None is returned.
    """
    descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_in_use(path: Path | str) -> bool:
    """Say whether any process, of this container or of another, has a file of this user open or mapped.

    The kernel gives a lease on a file only to the one process that has it open. If it gives none on this kind of disk,
    the answer is no, and /proc must be asked.
    """
    descriptor = open_private(path, os.O_RDWR)
    try:
        # whoever opens the file meanwhile waits until we close it; we would be told by a signal that kills
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    else:
        return False
    finally:
        os.close(descriptor)


def is_locked(path: Path | str) -> bool:
    """Say whether a living process, of this container or of another, holds the lock of a file of this user."""
    try:
        descriptor = open_private(path)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: others may ask at the same time
    except BlockingIOError:
        return True
    except OSError:
        return False
    else:
        return False
    finally:
        os.close(descriptor)
