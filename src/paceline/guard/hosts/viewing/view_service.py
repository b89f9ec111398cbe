"""Shows a run to viewers elsewhere, over a connection of their own: nothing that comes in there reaches the job.

Viewers have a key that only this connection knows. All that they can say is that they look.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from paceline.guard.hosts.host_messages import package_version
from paceline.guard.hosts.link import HeadLink
from paceline.guard.hosts.viewing.view_messages import (
    VIEW_PROTOCOL,
    Attach,
    NoView,
    RunEnd,
    RunPicture,
    decode_attach,
    encode_view,
)
from paceline.guard.observe.gauges import Gauges
from paceline.guard.observe.watched_job import WatchedJob

_MOST_VIEWERS = 16
_SILENT_SECONDS = 5.0  # after which a viewer is taken to have gone
_SECONDS, _MOST_SECONDS = 0.5, 5.0  # between two pictures
_SECONDS_PER_RANK = 0.004  # the same for each rank, so that many ranks take no larger share of our time
_REFUSE_SECONDS = 1.0  # between two words to those that are not let in
_MOST_OUTCOME, _MOST_WHY = 4 << 20, 1000  # bytes, and characters
_LAST_SECONDS = 1.0  # for viewers to hear how the run has ended


class ViewService:
    """The viewers of one run.

    Args:
        link: By which they are spoken to; nobody else has its key.
        outcome: Returns how the run has ended, as JSON; nothing as long as it is not known.
    """

    def __init__(self, link: HeadLink, outcome: Callable[[], bytes]) -> None:
        self._link, self._outcome = link, outcome
        self._viewers: dict[bytes, float] = {}  # and when each was heard of
        self._gauges = Gauges(time.monotonic())
        self._next = self._refused_at = 0.0

    def turn(self, shown_jobs: Callable[[], Sequence[WatchedJob]]) -> None:
        """Hear who looks, and show the jobs if somebody does."""
        for link, content in self._link.receive():
            attach = decode_attach(content)
            if attach is not None:
                self._let_look(link, attach)
        now = time.monotonic()
        for link in [link for link, heard_at in self._viewers.items() if now - heard_at > _SILENT_SECONDS]:
            del self._viewers[link]
        if self._viewers:
            self._show(shown_jobs(), now)

    def _let_look(self, link: bytes, attach: Attach) -> None:
        own, why = package_version(), ""
        if attach.protocol != VIEW_PROTOCOL or attach.version != own:
            why = f"the run has Paceline {own}, and this host {attach.version}"
        elif link not in self._viewers and len(self._viewers) >= _MOST_VIEWERS:
            why = f"{_MOST_VIEWERS} others look at this run already"
        now = time.monotonic()
        if not why:
            if link not in self._viewers:
                self._next = 0.0  # it sees something at once
            self._viewers[link] = now
        elif now - self._refused_at > _REFUSE_SECONDS:
            self._refused_at = now
            self._link.send(link, encode_view(NoView(why)))

    def _show(self, jobs: Sequence[WatchedJob], now: float) -> None:
        self._gauges.sample(jobs)
        if now < self._next:
            return
        picture = RunPicture(self._gauges.views(jobs))
        num_ranks = sum(len(view.ranks) for view in picture.jobs)
        self._next = now + min(_MOST_SECONDS, max(_SECONDS, _SECONDS_PER_RANK * num_ranks))
        self._say_to_all(encode_view(picture))

    def _say_to_all(self, content: bytes) -> None:
        for link in self._viewers:
            self._link.send(link, content)

    def give_up(self, why: str) -> None:
        """Tell viewers that there is nothing to be seen any more."""
        self._say_to_all(encode_view(NoView(why[:_MOST_WHY])))
        self._link.close(linger_seconds=0.5)

    def close(self) -> None:
        """Tell viewers how the run has ended, and let go when they have heard it, or after a moment."""
        outcome = self._outcome()
        self._say_to_all(encode_view(RunEnd(outcome if len(outcome) <= _MOST_OUTCOME else b"")))
        deadline = time.monotonic() + _LAST_SECONDS
        while self._viewers and time.monotonic() < deadline:  # what was not read is lost when the connection ends
            self._link.wait(_LAST_SECONDS)
            for link, content in self._link.receive():
                attach = decode_attach(content)
                if attach is not None and attach.has_heard_end:
                    self._viewers.pop(link, None)
        self._link.close()
