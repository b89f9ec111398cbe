"""Where people look at a run on several hosts, and with which key: a port of its own, which the job does not depend on.

From other hosts the key is the user's own (~/.config/paceline/key, or PACELINE_KEY). On the head's host, whoever may
read the folder of the run finds it there.
"""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from paceline.errors import InputError
from paceline.guard.hosts.keys import new_secret, read_secret, viewers_secret
from paceline.guard.hosts.link import HeadLink, listen
from paceline.guard.hosts.viewing.view_service import ViewService
from paceline.guard.run.run_registry import VIEWERS, outcome_text
from paceline.process.private_files import read_private, write_private


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewersPlace:
    """A port for viewers of one run.

    Attributes:
        listening: The socket; it is there before any thread of ours runs.
        secret: The secret of viewers.
        why_not: Why nobody on another host can look; nothing if they can.
    """

    listening: socket.socket
    secret: bytes = field(repr=False)
    why_not: str = ""

    def how_to_look(self, host: str) -> str:
        """Say how others can look on, with the name of this host as they write it."""
        if self.why_not:
            return f"nobody on other hosts can look on: {self.why_not}"
        return f"to look on: paceline watch {_address(host, self.listening.getsockname()[1])}"

    def close(self, folder: Path | None = None) -> None:
        """Have no port after all."""
        self.listening.close()
        if folder is not None:
            (folder / VIEWERS).unlink(missing_ok=True)

    def serve(self, folder: Path) -> ViewService:
        """Open the place, and announce it to who may read the folder of the run."""
        host, port = self.listening.getsockname()[:2]
        with suppress(OSError):  # no room: then others on this host see less
            content = json.dumps({"address": _address(host, port), "key": self.secret.hex()})
            write_private(folder / VIEWERS, content.encode())
        return ViewService(HeadLink(self.listening, self.secret), partial(outcome_text, folder))


def viewers_place(address: str) -> ViewersPlace:
    """Return a place for viewers on one address of this host.

    Raises:
        OSError: There is no port for it.
    """
    try:
        secret, why_not = viewers_secret(is_made=True), ""
    except InputError as error:
        secret, why_not = new_secret(), str(error)
    return ViewersPlace(listening=listen(address), secret=secret, why_not=why_not)


def find_place(folder: Path) -> tuple[str, bytes] | None:
    """Return where a run of this host is shown, and the secret for it; None if it is on this host alone."""
    try:
        about = json.loads(read_private(folder / VIEWERS, most=4096))
        return str(about["address"]), read_secret(about["key"])
    except (OSError, ValueError, KeyError, TypeError):  # there is none, or it is just being written
        return None


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
