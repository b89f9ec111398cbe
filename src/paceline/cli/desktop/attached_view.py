"""Attaches to a run elsewhere, by the address that its head has printed. What goes wrong is said in one sentence."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from paceline.errors import InputError
from paceline.report.safe_text import terminal_safe

if TYPE_CHECKING:
    from paceline.guard.hosts.viewing.run_viewer import RunViewer
    from paceline.guard.run.run_registry import RunOutcome

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):(\d{1,5})")
_CONNECT_SECONDS, _ANSWER_SECONDS = 5.0, 5.0  # for the first picture
_SILENT_SECONDS = 15.0  # without a picture, after which the run is given up
_WAIT_SECONDS = 0.1


def is_address(text: str) -> bool:
    """Say whether a text has the form of an address.

    >>> is_address("n1:40950"), is_address("[fd00::1]:40950"), is_address("runs/first"), is_address("n1:99999")
    (True, True, False, False)
    """
    found = _ADDRESS.fullmatch(text)
    return found is not None and 0 < int(found[2]) < 1 << 16


def attach(address: str) -> RunViewer:
    """Return a view of a run elsewhere, once it has shown something.

    Raises:
        InputError: Nobody is there, or the key does not fit.
    """
    if any(find_spec(name) is None for name in ("zmq", "msgspec")):
        raise InputError("looking at a run on another host needs an extra: pip install 'paceline[hosts]'")
    from paceline.guard.hosts.keys import viewers_secret
    from paceline.guard.hosts.link import LINK_ERRORS
    from paceline.guard.hosts.viewing.run_viewer import RunViewer

    secret = viewers_secret(is_made=False)
    _check_somebody_listens(address)
    try:
        viewer = RunViewer(address, secret)
    except LINK_ERRORS as error:
        raise InputError(f"nobody can be reached at {address}: {error}") from None
    try:
        _await_answer(viewer, address)
    except BaseException:
        viewer.close()
        raise
    return viewer


def _check_somebody_listens(address: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"nobody answers at {address} ({why}): does the run still go on, and within reach?") from None


def _await_answer(viewer: RunViewer, address: str) -> None:
    deadline = time.monotonic() + _ANSWER_SECONDS
    while viewer.views is None and viewer.outcome is None:
        viewer.wait(_WAIT_SECONDS)
        _check_it_shows(viewer, address)
        if time.monotonic() > deadline:
            raise InputError(
                f"{address} does not let this key in: it must be the address that the run has printed after `paceline "
                "watch`, and the same key there and here (~/.config/paceline/key, or PACELINE_KEY)"
            )


def _check_it_shows(viewer: RunViewer, address: str) -> None:
    if viewer.why_not:
        raise InputError(f"{address} shows nothing: {terminal_safe(viewer.why_not)}")


def follow(viewer: RunViewer, address: str, look: Callable[[], bool]) -> RunOutcome | None:
    """Look until the run ends; return how, None if nobody knows.

    Args:
        viewer: The view.
        address: Where it is, for people.
        look: Shows what is seen; says whether to go on.

    Raises:
        InputError: The run is out of reach.
    """
    from paceline.guard.run.run_registry import parse_outcome

    while viewer.outcome is None and look():
        viewer.wait(_WAIT_SECONDS)
        _check_it_shows(viewer, address)
        if viewer.is_silent(_SILENT_SECONDS):
            raise InputError(f"{address} no longer answers: it is not known how the run ended, or whether it has")
    try:
        return parse_outcome(json.loads(viewer.outcome)) if viewer.outcome else None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
