"""A viewer of a run elsewhere: it says that it looks, and holds what the head shows. It can do nothing else."""

from __future__ import annotations

import secrets
import time

from paceline.guard.hosts.host_messages import package_version
from paceline.guard.hosts.link import WatcherLink
from paceline.guard.hosts.viewing.view_messages import (
    VIEW_PROTOCOL,
    Attach,
    NoView,
    RunEnd,
    RunPicture,
    decode_reply,
    encode_view,
)
from paceline.guard.observe.gauges import JobView

_ATTACH_SECONDS = 1.0  # between two words that we look


class RunViewer:
    """A view of one run.

    Args:
        address: Where its head shows it, as HOST:PORT.
        secret: The secret of viewers.

    Attributes:
        views: The last picture; None before the first.
        why_not: Why there is nothing to be seen.
        outcome: How the run has ended, as JSON; empty if nobody knows, None while it is in progress.
    """

    def __init__(self, address: str, secret: bytes) -> None:
        self._link = WatcherLink([address], secret, secrets.token_hex(8).encode())
        self._attached_at = 0.0
        self._heard_at = time.monotonic()
        self.views: list[JobView] | None = None
        self.why_not = ""
        self.outcome: bytes | None = None

    def wait(self, seconds: float) -> None:
        """Wait for a moment, or until something comes in; say that we look, and take in what is shown."""
        self._link.wait(seconds)
        now = time.monotonic()
        if now - self._attached_at >= _ATTACH_SECONDS and self._say_that_we_look():
            self._attached_at = now
        for content in self._link.receive():
            reply = decode_reply(content)
            if reply is not None:
                self._heard_at = time.monotonic()
            if isinstance(reply, RunPicture):
                self.views, self.why_not = reply.jobs, ""
            elif isinstance(reply, NoView):
                self.why_not = reply.why
            elif isinstance(reply, RunEnd):
                self.outcome = reply.outcome
                self._say_that_we_look()

    def _say_that_we_look(self) -> bool:
        attach = Attach(VIEW_PROTOCOL, package_version(), has_heard_end=self.outcome is not None)
        return self._link.send(encode_view(attach))

    def is_silent(self, seconds: float) -> bool:
        """Say whether nothing was heard for so long."""
        return time.monotonic() - self._heard_at > seconds

    def close(self) -> None:
        """Look no more."""
        self._link.close(linger_seconds=0.5 if self.outcome is not None else 0.0)
