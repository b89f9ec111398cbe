"""The head: the rings of this host, and mirrors of those of other hosts, as one source of records for the judge.

A finding is returned only after the second question: see settling.py. Hosts that are not heard of are taken to do
anything. The head keeps nothing that hosts do not know: whoever it does not know is asked to tell everything.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from paceline.guard.hosts import host_messages
from paceline.guard.hosts.ends_elsewhere import RankEnd, was_first
from paceline.guard.hosts.link import HeadLink
from paceline.guard.hosts.mirror import RingMirror, write_note
from paceline.guard.hosts.remote_process import RemoteProcess, is_elsewhere, process_number
from paceline.guard.hosts.settling import TakenReports
from paceline.guard.observe.kernel_view import ProcessHandle
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.observe.worlds.job_worlds import OutOfSight
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.finding_json import finding_to_json

_SILENT_SECONDS = 3.0  # without a beat, after which a host counts as not heard of
_SETTLE_SECONDS = 2.0  # for all hosts to answer the second question
_LAST_SECONDS, _LAST_FAILED_SECONDS = 2.0, 5.0  # for the last words of ranks, once the launcher has ended
_START_SECONDS = 10.0  # for which nothing is said while ranks of other hosts are not seen, since one was seen last
_END_AGAIN_SECONDS = 1.0
_MOST_HOSTS = 4096
_MANY_RANKS, _LONG_PAST, _SHORT_PAST = 256, 2000, 64


@dataclass(slots=True)
class _Host:
    """What is known of one watcher."""

    link: bytes  # by which it is spoken to
    number: int  # of the host, among all
    name: str
    heard_at: float
    mirrors: dict[int, RingMirror] = field(default_factory=dict)
    processes: dict[int, RemoteProcess] = field(default_factory=dict)
    has_left: bool = False  # all its ranks have ended, and everything was told
    is_lost: bool = False  # it was not heard of, and has not told everything since
    end_sent_at: float = 0.0

    @property
    def lives(self) -> bool:
        """Whether ranks of it may still move."""
        return not self.has_left and any(not process.ended_ns for process in self.processes.values())


class HeadRings(LocalRings):
    """Rings of all hosts.

    Args:
        folder: The folder of the run.
        link: By which watchers are spoken to.
        address: Where they find us, as people read it.
        owns_hosts: Whether ranks on other hosts must not outlive the launcher here; otherwise they have their own.
    """

    def __init__(self, folder: Path, link: HeadLink, address: str, *, owns_hosts: bool = True) -> None:
        super().__init__(folder, self._find_process)
        self._link, self._address, self._owns_hosts = link, address, owns_hosts
        self._hosts: dict[bytes, _Host] = {}
        self._taken: TakenReports[bytes] = TakenReports()
        self._elsewhere: dict[int, RemoteProcess] = {}
        self._troubles: list[str] = []
        self._unseen: frozenset[object] = frozenset()
        self._unseen_since = time.monotonic()
        self._finding = b""  # as JSON, once there is one
        self._is_quiet = False  # nobody judges any more
        self._settled: dict[bytes, int] | None = None  # reports of which all hosts have said that they still hold

    def _find_process(self, number: int, began: int) -> ProcessHandle:
        return self._elsewhere[number] if is_elsewhere(number) else ProcessHandle(number, began)

    # what comes in

    def wait(self, seconds: float) -> None:
        """Wait for the given time, until a process here has ended or until a watcher says something."""
        if self._is_quiet:
            super().wait(seconds)
            return
        self._link.wait(seconds, self.ends_descriptor)
        super().wait(0.0)
        self.hear()

    def stop_answering(self) -> None:
        """Leave watchers without an answer: they let ranks go on that wait for a word of ours."""
        self._is_quiet = True

    def hear(self) -> None:
        """Take in what watchers have said."""
        for link, content in self._link.receive():
            message = host_messages.decode_upward(content)
            if message is None:
                self._note_trouble("a watcher has sent something that cannot be read")
            elif isinstance(message, host_messages.Beat):
                self._hear_beat(link, message)
            elif isinstance(message, host_messages.Hello):
                self._welcome(link, message)
            elif link in self._hosts:
                self._hear_host(self._hosts[link], message)
        for host in self._hosts.values():
            self._look_after(host)

    def _note_trouble(self, text: str) -> None:
        if text not in self._troubles and len(self._troubles) < 100:
            self._troubles.append(text)

    def _hear_beat(self, link: bytes, beat: host_messages.Beat) -> None:
        host = self._hosts.get(link)
        number = -1 if host is None else self._taken.numbers.get(link, 0)
        if host is not None:
            host.heard_at = time.monotonic()
        answer = host_messages.Beat(sent_ns=time.monotonic_ns(), echo_ns=beat.sent_ns, number=number)
        self._link.send(link, host_messages.encode(answer))

    def _welcome(self, link: bytes, hello: host_messages.Hello) -> None:
        own = host_messages.package_version()
        if hello.protocol != host_messages.PROTOCOL or hello.version != own:
            self._note_trouble(
                f"{hello.host} has Paceline {hello.version}, and this host {own}: its ranks are not watched"
            )
        elif link not in self._hosts and len(self._hosts) < _MOST_HOSTS:
            self._hosts[link] = _Host(link, len(self._hosts), hello.host, time.monotonic())

    def _hear_host(self, host: _Host, message: host_messages.Upward) -> None:
        host.heard_at = time.monotonic()
        try:
            if isinstance(message, host_messages.Report):
                if self._taken.takes(host.link, message.number, is_whole=message.is_whole):
                    self._take_report(host, message)
            elif isinstance(message, host_messages.FreshFacts):
                for pid, facts in message.facts.items():
                    if pid in host.processes:
                        host.processes[pid].note_facts(facts)
            elif isinstance(message, host_messages.Past):
                if message.pid in host.mirrors:
                    host.mirrors[message.pid].take_parts(message.parts)
            elif isinstance(message, host_messages.Answer):
                self._taken.note_answer(host.link, message.question, is_same=message.is_same)
            elif isinstance(message, host_messages.Bye):
                host.has_left = message.number == self._taken.numbers.get(host.link)
        except ValueError as error:
            self._distrust(host, f"{host.name} has sent something that cannot be used: {error}")
        except OSError as error:  # no room for what it tells
            self._distrust(host, f"{host.name} is not watched, because there is no place for its records: {error}")

    def _take_report(self, host: _Host, report: host_messages.Report) -> None:
        for problem in report.problems:
            self._note_trouble(f"{host.name}: {problem}")
        if report.is_whole:
            host.is_lost = False
            for mirror in host.mirrors.values():
                mirror.clear()
        for note in report.notes:
            process = self._process_on(host, note.pid)
            write_note(self._folder, note, process.pid)
            if note.end is not None:
                process.note_end_facts(note.end)
        for ring in report.rings:
            self._take_ring(host, ring)

    def _take_ring(self, host: _Host, ring: host_messages.RingReport) -> None:
        process = self._process_on(host, ring.pid)
        if ring.pid not in host.mirrors:
            if len(host.mirrors) >= host_messages.MOST_RINGS:
                raise ValueError(f"it tells of more than {host_messages.MOST_RINGS} ranks")
            host.mirrors[ring.pid] = RingMirror(self._folder, process.pid)
        mirror = host.mirrors[ring.pid]
        wrong = mirror.take_names(ring.names)
        if wrong:
            raise ValueError(wrong)
        mirror.take_parts(ring.parts)
        process.note_facts(ring.facts)
        if ring.end is not None:
            if not process.ended_ns:
                self._look_who_lives()
            process.note_end_facts(ring.end, said_when=mirror.says_when_it_ends())

    def _look_who_lives(self) -> None:
        """Have everybody look at once who still lives: that tells who was first from those that a launcher ends."""
        super().wait(0.0)
        for host in self._hosts.values():
            if host.lives and not host.is_lost:
                self._link.send(host.link, host_messages.encode(host_messages.Ask(question=0, number=0, num_calls=0)))

    def _process_on(self, host: _Host, pid: int) -> RemoteProcess:
        if pid not in host.processes:
            number = process_number(host.number, pid)
            process = RemoteProcess(number, host.name, lambda: host.is_lost, lambda: self._end_host(host))
            host.processes[pid] = self._elsewhere[number] = process
        return host.processes[pid]

    def _look_after(self, host: _Host) -> None:
        """Hand on what the judge has decided, and say who is not heard of."""
        for pid, mirror in host.mirrors.items():
            if mirror.wants_to_go_on():
                self._link.send(host.link, host_messages.encode(host_messages.GoOn(pid=pid)))
        if not host.is_lost and host.lives and time.monotonic() - host.heard_at > _SILENT_SECONDS:
            self._lose(host)

    def _lose(self, host: _Host) -> None:
        """Believe nothing of a host any more, until it is heard of again and has told everything."""
        self._distrust(
            host,
            f"{host.name} is not heard of: as long as that lasts its ranks may do anything, and nobody notices if they "
            "fail or wait",
        )

    def _distrust(self, host: _Host, why: str) -> None:
        """Believe nothing of a host, of which something was not taken in, until it has told everything."""
        host.is_lost = True
        self._taken.drop(host.link)
        self._note_trouble(why)

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
            ends = [
                RankEnd.of(rank, end, job.ranks[rank].process) for rank, end in job.ends().items() if rank in job.ranks
            ]
            if not was_first(finding.ranks, ends):
                return None
        return self._with_hosts(finding)

    def _asked_numbers(self) -> dict[bytes, int]:
        """Return the last reports of the hosts whose ranks may still move."""
        living = [host.link for host in self._hosts.values() if host.lives and not host.is_lost]
        return {link: self._taken.numbers[link] for link in living if link in self._taken.numbers}

    def _settle(self) -> bool:
        """Ask the second question; say whether all hosts have said yes."""
        asked = self._taken.ask(set(self._asked_numbers()))
        num_calls = _LONG_PAST if len(self._elsewhere) <= _MANY_RANKS else _SHORT_PAST
        for link, number in asked.items():
            ask = host_messages.Ask(question=self._taken.question, number=number, num_calls=num_calls)
            self._link.send(link, host_messages.encode(ask))
        deadline = time.monotonic() + _SETTLE_SECONDS
        while self._taken.silent() and time.monotonic() < deadline:
            self.wait(0.05)
        for link in self._taken.silent():
            self._lose(self._hosts[link])
        self._settled = asked if self._taken.is_settled() else None
        return self._settled is not None

    def _with_hosts(self, finding: Finding) -> Finding:
        """Add the names of hosts to the groups of a finding."""
        if not self._elsewhere:
            return finding
        names: dict[int, str] = {}
        here = socket.gethostname()
        for job in self.known_jobs():
            names |= {rank: held.process.host for rank, held in job.ranks.items()}
        groups = tuple(
            replace(group, hosts=tuple(dict.fromkeys(names[rank] or here for rank in group.ranks if rank in names)))
            for group in finding.groups
        )
        return replace(finding, groups=groups)

    def hear_last_words(self, *, failed: bool) -> None:
        """After the launcher has ended: wait until all hosts have told how their ranks ended, or for a moment."""
        deadline = time.monotonic() + (_LAST_FAILED_SECONDS if failed else _LAST_SECONDS)
        while time.monotonic() < deadline and (
            any(not process.ended_ns and not process.is_lost for process in self._elsewhere.values())
            or (failed and self.out_of_sight())
        ):
            self.wait(0.05)
            self.jobs()

    def problems(self) -> list[str]:
        """Return why processes could not be watched, here and elsewhere."""
        return sorted({*super().problems(), *self._troubles})

    def out_of_sight(self) -> list[OutOfSight]:
        """Return the ranks of each job that no host tells of."""
        return [replace(unseen, head=self._address) for unseen in super().out_of_sight()]

    # the end

    def _end_host(self, host: _Host) -> None:
        """Have a host end its ranks; ask again if that takes long."""
        now = time.monotonic()
        if now - host.end_sent_at > _END_AGAIN_SECONDS:
            host.end_sent_at = now
            self._link.send(host.link, host_messages.encode(host_messages.EndJob(finding=self._finding)))
        if not self._is_quiet:
            self.hear()

    def tell_finding(self, finding: Finding) -> None:
        """Have the finding told wherever somebody started ranks of the job."""
        self._finding = json.dumps(finding_to_json(finding)).encode()
        for host in self._hosts.values():
            self._end_host(host)

    def processes_to_end(self, *, after_launcher: bool = False) -> list[ProcessHandle]:
        """Return the ranks that are to be ended, as far as they can be reached and we hear of it."""
        processes = super().processes_to_end()
        processes = [process for process in processes if not process.is_lost and not (self._is_quiet and process.host)]
        return [process for process in processes if not process.host or self._owns_hosts or not after_launcher]

    def close(self) -> None:
        """End watchers whose job is over, and let go of everything."""
        for host in self._hosts.values():
            if self._owns_hosts and not host.has_left:
                self._link.send(host.link, host_messages.encode(host_messages.EndJob()))
            for mirror in host.mirrors.values():
                mirror.close()
        super().close()
        self._link.close(linger_seconds=0.5)
