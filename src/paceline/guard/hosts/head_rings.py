"""The head: the rings of this host, and mirrors of those of other hosts, as one source of records for the judge.

A finding is returned only after the second question: see settling.py. Hosts that are not heard of are taken to do
anything. The head keeps nothing that hosts do not know: whoever it does not know is asked to tell everything.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from paceline.guard.hosts import host_messages
from paceline.guard.hosts.classes.reduced_job import ReducedJob
from paceline.guard.hosts.ends_elsewhere import ends_of, may_be_stopped, was_first
from paceline.guard.hosts.heard_hosts import HeardHosts
from paceline.guard.hosts.known_hosts import HostProcess, KnownHost, beat_pause, with_host_names
from paceline.guard.hosts.link import LINK_ERRORS, HeadLink
from paceline.guard.hosts.viewing.sampled_job import ranks_to_show, sampled_job
from paceline.guard.hosts.viewing.view_messages import WantGlances
from paceline.guard.hosts.viewing.view_service import ViewService
from paceline.guard.observe.kernel_view import ProcessHandle
from paceline.guard.observe.local_rings import rank_of
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.observe.worlds.job_worlds import OutOfSight
from paceline.guard.verdict.finding import Finding, FindingKind
from paceline.guard.verdict.finding_json import finding_to_json
from paceline.guard.verdict.rules.passed import Passed

_SETTLE_SECONDS = 2.0  # for all hosts to answer the second question; more if they are thousands
_LAST_SECONDS, _LAST_FAILED_SECONDS = 2.0, 5.0  # for the last words of ranks, once the launcher has ended
_START_SECONDS = 10.0  # for which nothing is said while ranks of other hosts are not seen, since one was seen last
_END_SECONDS = 5.0  # for hosts to end their ranks
_LEAVE_SECONDS = 0.5  # for which a batch system waits that may kill watchers together with ranks
_MANY_RANKS, _LONG_PAST, _SHORT_PAST = 256, 2000, 64


class HeadRings(HeardHosts):
    """Rings of all hosts.

    Args:
        folder: The folder of the run.
        link: By which watchers are spoken to.
        address: Where they find us, as people read it.
        owns_hosts: Whether ranks on other hosts must not outlive the launcher here; otherwise they have their own.
        serve_viewers: Begins to show the run to whoever looks from elsewhere; None if nobody can.
    """

    def __init__(
        self,
        folder: Path,
        link: HeadLink,
        address: str,
        *,
        owns_hosts: bool = True,
        serve_viewers: Callable[[], ViewService] | None = None,
    ) -> None:
        super().__init__(folder, link, owns_hosts=owns_hosts)
        self.address = address
        self._viewing: ViewService | None = None
        try:
            self._viewing = serve_viewers() if serve_viewers is not None else None
        except LINK_ERRORS as error:  # hosts are watched all the same
            self._note_trouble(f"nobody else can look at this run: {error}")
        self._unseen: frozenset[object] = frozenset()
        self._unseen_since = time.monotonic()
        self._is_viewed = self._is_compared = True  # as long as that does not fail
        self._settled: dict[bytes, int] | None = None  # reports of which all hosts have said that they still hold

    # what comes in

    def wait(self, seconds: float) -> None:
        """Wait for the given time, until a process here has ended or until a watcher says something."""
        if self._is_quiet:
            super().wait(seconds)
        else:
            self._link.wait(seconds, self.ends_descriptor)
            super().wait(0.0)
            self.hear()
            if self._is_viewed and self._glances.is_due():
                self._is_viewed = self._does_well(
                    self._ask_glances, "nobody sees ranks of other hosts move from now on"
                )
        self._serve_viewers()

    def stop_answering(self) -> None:
        """Leave watchers without an answer: they let ranks go on that wait for a word of ours."""
        self._is_quiet = True

    # large jobs

    def jobs(self) -> list[WatchedJob]:
        """Return the jobs that are known now; of large ones, have ranks followed that stand for others."""
        jobs = super().jobs()
        for world, wanted in self._large.to_follow(jobs):
            hosts = list(self._hosts.values()) if wanted else []
            for number, ranks in wanted.items():
                self._send(hosts[number], host_messages.Follow(world, ranks))
        return jobs

    def _make_jobs(self) -> list[WatchedJob]:
        large, others = self._large.split(self._rings)
        return (self._jobs_of(others) if others else []) + self._large.jobs(large, self._hidden, self._early)

    # what a view asks

    def shown_jobs(self) -> list[WatchedJob]:
        """Return the jobs for a view: as long as somebody looks, hosts tell once a second what their ranks do."""
        return self._shown(self.jobs())

    def _shown(self, jobs: Sequence[WatchedJob]) -> list[WatchedJob]:
        self._glances.note_viewer()
        hosts = [host.name for host in self._hosts.values()]
        large: list[WatchedJob] = [
            sampled_job(world, table, self._glances.sampled(world), hosts, _reduced_job(world, jobs))
            for world, table in self._large.tables.items()
        ]
        return [job for job in jobs if not isinstance(job, ReducedJob)] + large

    def _serve_viewers(self) -> None:
        """Show the run to viewers elsewhere. A fault in that never reaches the run."""
        if self._viewing is None:
            return
        try:
            self._viewing.turn(lambda: self._shown(self.known_jobs()))
        except Exception as error:
            why = f"nobody else can look at this run any more: {type(error).__name__}: {error}"
            self._note_trouble(why)
            viewing, self._viewing = self._viewing, None
            viewing.give_up(why)

    def _ask_glances(self) -> None:
        """Ask all hosts whose rings are mirrored, and those of large jobs for ranks that are shown."""
        jobs, hosts = self.known_jobs(), list(self._hosts.values())
        wanted = {world: ranks_to_show(table, _reduced_job(world, jobs)) for world, table in self._large.tables.items()}
        self._glances.begin(map(rank_of, self.held_rings()), wanted)
        asked: dict[int, dict[str, list[int]]] = {host.number: {} for host in self._mirrored}
        for world, ranks in wanted.items():
            for rank in ranks:
                number = self._large.tables[world].host_of(rank)
                if number >= 0:
                    asked.setdefault(number, {}).setdefault(world, []).append(rank)
        for number, by_world in asked.items():
            if hosts[number].may_move():
                self._send(hosts[number], WantGlances(by_world))

    # what the judge asks

    def confirmed(self, look: Callable[[], Finding | None]) -> Finding | None:
        """Look, and return a finding if all hosts say that what it was made from still holds.

        They are asked once. If new reports come in meanwhile, the next look asks again; signals are seen in between.
        """
        finding = look()
        if finding is None or self._expects_more():
            return None
        if not self._is_settled():
            finding = look() if self._settle() else None  # again, with the past calls that hosts have sent along
        return self.checked(finding) if finding is not None and self._is_settled() else None

    def passed_differences(self) -> list[tuple[WatchedJob, Passed]]:
        """Return what does not fit between ranks of several hosts, which may have gone on.

        Nobody is asked whether that still holds: what was called stays so, whatever ranks do next.
        """
        found: list[tuple[WatchedJob, Passed]] = []

        def look() -> None:
            here = [held for held in self.held_rings() if not rank_of(held).process.host]
            found.extend(self._passed.look(here, self.known_jobs()))

        if self._is_compared:
            self._is_compared = self._does_well(
                look, "calls of several hosts are compared only if ranks wait, from now on"
            )
        return found

    def _is_settled(self) -> bool:
        return self._settled is not None and self._settled == self._asked_numbers()

    def _expects_more(self) -> bool:
        """Say whether ranks are not seen yet that may be seen in a moment: watchers need a while to start."""
        unseen = frozenset((each.world_size, each.ranks) for each in self.out_of_sight())
        if unseen != self._unseen:
            self._unseen, self._unseen_since = unseen, time.monotonic()
        return bool(unseen) and time.monotonic() - self._unseen_since < _START_SECONDS

    def checked(self, finding: Finding) -> Finding | None:
        """Return a finding with the names of hosts; None if ranks of it ended, and others may have been before them."""
        for job in self.known_jobs():
            ends = ends_of(job)
            if not was_first(finding.ranks, ends):
                return None
            is_about_ends = finding.kind is FindingKind.PEER_GONE
            if is_about_ends and may_be_stopped(finding.ranks, ends, time.monotonic_ns()):
                return None
        return self._with_hosts(finding)

    def _asked_numbers(self) -> dict[bytes, int]:
        """Return the last reports of the hosts whose ranks may still move."""
        living = [host.link for host in filter(KnownHost.may_move, self._tree.direct.values())]
        return {link: self._taken.numbers[link] for link in living if link in self._taken.numbers}

    def _settle(self) -> bool:
        """Ask the second question; say whether all hosts have said yes."""
        asked = self._taken.ask(set(self._asked_numbers()))
        num_calls = _LONG_PAST if len(self._elsewhere) <= _MANY_RANKS else _SHORT_PAST
        for link, number in asked.items():
            ask = host_messages.Ask(question=self._taken.question, number=number, num_calls=num_calls)
            self._link.send(link, host_messages.encode(ask))
        deadline = time.monotonic() + _SETTLE_SECONDS * beat_pause(len(self._hosts))
        while self._taken.silent() and time.monotonic() < deadline:
            self.wait(0.05)
        for link in self._taken.silent():
            self._lose(self._hosts[link])
        self._settled = asked if self._taken.is_settled() else None
        return self._settled is not None

    def _with_hosts(self, finding: Finding) -> Finding:
        """Add the names of hosts to the groups of a finding."""
        hosts = [host.name for host in self._hosts.values()]
        for job in self.known_jobs():
            if isinstance(job, ReducedJob) and job.has_given(finding):
                return self._large.with_all_ranks(finding, job, hosts, here=socket.gethostname())
        if not self._elsewhere:
            return finding
        return with_host_names(finding, self.known_jobs(), [started for started, _ in self.started()])

    def hear_last_words(self, *, failed: bool) -> None:
        """After the launcher has ended: wait until all hosts have told how their ranks ended, or for a moment."""
        super().hear_last_words(failed=failed)
        deadline = time.monotonic() + (_LAST_FAILED_SECONDS if failed else _LAST_SECONDS)
        while time.monotonic() < deadline and (
            any(not process.ended_ns and not process.is_lost for process in self._elsewhere.values())
            or any(host.has_states and not host.has_left and not host.is_lost for host in self._hosts.values())
            or (failed and self.out_of_sight())
        ):
            self.wait(0.05)
            self.jobs()

    def problems(self) -> list[str]:
        """Return why processes could not be watched, here and elsewhere."""
        return sorted({*super().problems(), *self._troubles, *self._large.problems()})

    def out_of_sight(self) -> list[OutOfSight]:
        """Return the ranks of each job that no host tells of."""
        return [replace(unseen, head=self.address) for unseen in super().out_of_sight()]

    # the end

    def tell_finding(self, finding: Finding) -> None:
        """Have the finding told wherever somebody started ranks of the job."""
        self._finding = json.dumps(finding_to_json(finding)).encode()
        for host in self._tree.direct.values():
            self._end_host(host)

    def await_leaving(self) -> None:
        """Give hosts that were told of a finding a moment to remove what ranks would leave."""
        deadline = time.monotonic() + _LEAVE_SECONDS
        while time.monotonic() < deadline and not self._is_quiet and self._asked_numbers():
            self.wait(0.02)

    def end_elsewhere(self, *, after_launcher: bool) -> None:
        """Have other hosts end their ranks; wait until they have told so, or have left to do it by themselves."""
        may_end = (self._owns_hosts or not after_launcher) and not self._is_quiet
        deadline = time.monotonic() + (_END_SECONDS if may_end else 0.0)
        while time.monotonic() < deadline and (numbers := self._asked_numbers()):
            for link in numbers:
                self._end_host(self._hosts[link])
            self.wait(0.02)

    def processes_to_end(self, *, after_launcher: bool = False) -> list[ProcessHandle]:
        """Return the ranks that are to be ended, as far as they can be reached and we hear of it."""
        by_state = [host for host in self._hosts.values() if host.has_states and not host.has_left]
        # a watcher that leaves before them ends them
        left = {process.pid for host in self._hosts.values() if host.has_left for process in host.processes.values()}
        processes = super().processes_to_end() + [HostProcess(host, partial(self._end_host, host)) for host in by_state]
        processes = [process for process in processes if not process.is_lost and process.pid not in left]
        processes = [process for process in processes if not (self._is_quiet and process.host)]
        return [process for process in processes if not process.host or self._owns_hosts or not after_launcher]

    def close(self) -> None:
        """End watchers whose job is over, and let go of everything."""
        for host in self._hosts.values():
            if self._owns_hosts and not host.has_left and host.parent is None:
                self._link.send(host.link, host_messages.encode(host_messages.EndJob()))
            for mirror in host.mirrors.values():
                mirror.close()
        super().close()
        if self._viewing is not None:
            self._viewing.close()
        self._link.close(linger_seconds=0.5)


def _reduced_job(world: str, jobs: Sequence[WatchedJob]) -> ReducedJob | None:
    """Return the job of the followed ranks of a world."""
    return next((job for job in jobs if isinstance(job, ReducedJob) and job.name == world), None)
