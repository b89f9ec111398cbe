"""The keys of a run. One secret is all there is to hand on: both pairs of keys of the transport follow from it.

The secret travels in the environment, or lies in a file that only its user can read. It is never put on a command line,
into a log or into a record.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from paceline.errors import InputError
from paceline.process.private_files import open_private, read_private

KEY = "PACELINE_KEY"  # the variable that holds the secret of a run, as hexadecimal digits
_NUM_BYTES = 32
_FIRST_PORT, _NUM_PORTS = 20_000, 8_000
_FILE = Path(".config") / "paceline" / "key"


def new_secret() -> bytes:
    """Return the secret of a new run."""
    return secrets.token_bytes(_NUM_BYTES)


def read_secret(text: str) -> bytes:
    """Return a secret from its hexadecimal digits.

    Raises:
        InputError: It is not one. The message does not show what it is.
    """
    try:
        secret = bytes.fromhex(text)
    except ValueError:
        secret = b""
    if len(secret) != _NUM_BYTES:
        raise InputError(f"{KEY} is not a key: it must be {2 * _NUM_BYTES} hexadecimal digits")
    return secret


def derive_secret(secret: bytes, purpose: str) -> bytes:
    """Return a secret that follows from another one and from what it is for.

    >>> derive_secret(bytes(32), "head") != derive_secret(bytes(32), "host")
    True
    """
    return hashlib.blake2b(purpose.encode(), key=secret, digest_size=_NUM_BYTES).digest()


def port_of(secret: bytes) -> int:
    """Return the port at which the head of a job is found by all that have its secret.

    It is away from those that launchers take, and from those that systems hand out by themselves.

    >>> port_of(bytes(32)) == port_of(bytes(32)), 20_000 <= port_of(bytes(32)) < 28_000
    (True, True)
    """
    return _FIRST_PORT + int.from_bytes(derive_secret(secret, "port")[:8], "big") % _NUM_PORTS


def key_file() -> Path:
    """Return where the key of this user is, for jobs that are started by one command on each host."""
    return Path.home() / _FILE


def user_secret(*, is_made: bool = True) -> bytes:
    """Return this user's secret. On a shared home folder all hosts find the same.

    Args:
        is_made: Whether it is made if there is none.

    Raises:
        InputError: Others can read the file, or it cannot be made; or there is none, and none is to be made.
    """
    try:
        path = key_file()
    except RuntimeError as error:
        raise InputError(f"there is no home folder for a key: {error}") from None
    try:
        if not path.exists():
            if not is_made:
                raise InputError(f"there is no key in {path}: copy it from a host of the run, or set {KEY}")
            _make_file(path)
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise InputError(f"others can read {path}: make it yours alone (chmod 600), or remove it for a new one")
        return read_secret(read_private(path, most=4096).decode().strip())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the key in {path} cannot be used: {error}") from None


def job_secret(environ: Mapping[str, str], job: str) -> bytes:
    """Return the secret of a job that is not handed on: it follows from the user's key, which all hosts have.

    Raises:
        InputError: The key cannot be used.
    """
    own = environ.get(KEY)
    return derive_secret(read_secret(own) if own else user_secret(), job)


def viewers_secret(*, is_made: bool) -> bytes:
    """Return the secret of those who look at runs of this user: it follows from the user's, and opens nothing else.

    Args:
        is_made: Whether a secret of the user is made if there is none.

    Raises:
        InputError: There is none, or it cannot be used.
    """
    own = os.environ.get(KEY)
    return derive_secret(read_secret(own) if own else user_secret(is_made=is_made), "viewers")


def _make_file(path: Path) -> None:
    """Make the file in one step: two hosts may do so at the same time, and must agree."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"key.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with open(open_private(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w") as file:
            file.write(f"{new_secret().hex()}\n")
        with suppress(FileExistsError):  # the other one was first
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
