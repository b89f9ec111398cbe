"""Says once which ranks of a job are not seen from here, and so are not watched by anybody."""

from __future__ import annotations

import time
from collections.abc import Sequence

from paceline.guard.observe.worlds.job_worlds import OutOfSight

_PATIENCE_SECONDS = 15.0  # ranks of one machine do not all start at the same moment
_FAR_SECONDS = 30.0  # the same, for ranks of other hosts whose watchers are expected
_CLUSTER_SECONDS = 120.0  # the same for a cluster that may have to start hosts first
_LOOK_SECONDS = 1.0
_NOBODY = (
    "no rank is seen from here: {launcher} may have started them on other machines, where nobody watches them, or they "
    "do not run Python with mpi4py or torch.distributed"
)
_NOBODY_YET = (
    "no rank is seen yet, here or elsewhere: {launcher} may still wait for its hosts, or its ranks for their first "
    "call of mpi4py or torch.distributed. If they run, check that Python starts there with the variables PYTHONPATH "
    "and PACELINE_HEAD, has paceline[hosts] installed and the same key, and can reach {head}"
)


class SightWatch:
    """Watches who is seen.

    Args:
        launcher: The launcher of the command, if it may start ranks on other machines alone.
    """

    def __init__(self, launcher: str | None = None) -> None:
        self._launcher, self._is_cluster = launcher, False
        self._since: dict[OutOfSight | None, float] = {}  # None: nobody is seen at all
        self._told: set[OutOfSight | None] = set()
        self._looked = 0.0

    def expect_workers(self, cluster: str) -> None:
        """Note that the command has asked a cluster, which has a name, for workers elsewhere."""
        self._launcher, self._is_cluster = cluster, True

    def is_time(self) -> bool:
        """Say whether it is time to look again."""
        return time.monotonic() - self._looked >= _LOOK_SECONDS

    def look(self, unseen: Sequence[OutOfSight], *, num_seen: int, at_end: bool = False, head: str = "") -> list[str]:
        """Return what is to be told now.

        Args:
            unseen: The ranks of each job that are not seen.
            num_seen: How many ranks are seen, of all jobs.
            at_end: The job has ended, so there is nothing to wait for.
            head: Where watchers of other hosts are to call, if they are expected to.
        """
        self._looked = now = time.monotonic()
        found: list[OutOfSight | None] = list(unseen)
        if not num_seen and self._launcher is not None and not (at_end and head):  # then it is too late to do something
            found.append(None)
        self._since = {each: self._since.get(each, now) for each in found}
        due = [each for each, since in self._since.items() if at_end or now - since >= self._patience(each, head)]
        due = [each for each in due if each not in self._told]
        self._told.update(due)
        nobody = (_NOBODY_YET if head else _NOBODY).format(launcher=self._launcher, head=head)
        return [nobody if each is None else each.text for each in due]

    def _patience(self, unseen: OutOfSight | None, head: str) -> float:
        if unseen is None and self._is_cluster:
            return _CLUSTER_SECONDS
        is_far = head if unseen is None else unseen.head
        return _FAR_SECONDS if is_far else _PATIENCE_SECONDS
