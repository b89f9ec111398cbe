"""What the head hears of hosts: who they are, what they report, through whom they speak, and who is not heard of.

The head keeps nothing that hosts do not know: whoever it does not know is asked to tell everything.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from paceline.guard.hosts import host_messages
from paceline.guard.hosts.classes.large_jobs import MOST_HOSTS, LargeJobs
from paceline.guard.hosts.known_hosts import KnownHost, beat_pause, silent_hosts
from paceline.guard.hosts.link import HeadLink
from paceline.guard.hosts.mirror import RingMirror, write_note
from paceline.guard.hosts.remote_process import RemoteProcess, is_elsewhere, process_number
from paceline.guard.hosts.settling import TakenReports
from paceline.guard.hosts.stretches.passed_calls import PassedCalls
from paceline.guard.hosts.taking_over import head_name, remove_mirrors
from paceline.guard.hosts.tree.host_tree import HostTree, TreePlace
from paceline.guard.hosts.viewing.glances_asked import AskedGlances
from paceline.guard.hosts.viewing.view_messages import GlanceReport
from paceline.guard.observe.kernel_view import ProcessHandle
from paceline.guard.observe.local_rings import LocalRings

_END_AGAIN_SECONDS = 1.0  # after which hosts are told again to end their ranks
_COUNT_SECONDS = 0.1  # between two looks at who is not heard of: there may be thousands of hosts


class HeardHosts(LocalRings):
    """Rings of this host, and mirrors of those that other hosts tell of.

    Args:
        folder: The folder of the run.
        link: By which watchers are spoken to.
        owns_hosts: Whether ranks on other hosts must not outlive the launcher here; otherwise they have their own.
    """

    def __init__(self, folder: Path, link: HeadLink, *, owns_hosts: bool = True) -> None:
        remove_mirrors(folder)
        super().__init__(folder, self._find_process)
        self._link, self._owns_hosts = link, owns_hosts
        self._name = head_name(folder)
        self._hosts: dict[bytes, KnownHost] = {}
        self._tree = HostTree()
        self._taken: TakenReports[bytes] = TakenReports()
        self._elsewhere: dict[int, RemoteProcess] = {}
        self._troubles: list[str] = []
        self._finding = b""  # as JSON, once there is one
        self._is_quiet = False  # nobody judges any more
        self._large = LargeJobs()
        self._glances = AskedGlances()
        self._passed = PassedCalls(self._send_to_number)
        self._mirrored: list[KnownHost] = []  # hosts with ranks whose rings are held
        self._has_looked = self._is_look_due = False  # whether everybody looks who still lives, and is to look again
        self._counted_at = 0.0  # when it was last looked who is not heard of

    def _find_process(self, number: int, began: int) -> ProcessHandle:
        return self._elsewhere[number] if is_elsewhere(number) else ProcessHandle(number, began)

    def hear(self) -> None:
        """Take in what watchers have said."""
        self._has_looked = self._is_look_due = False
        for link, content in self._link.receive():
            message = host_messages.decode_upward(content)
            if message is None:
                self._note_trouble("a watcher has sent something that cannot be read")
            elif isinstance(message, host_messages.Beat):
                self._hear_beat(link, message)
            elif isinstance(message, host_messages.Hello):
                self._welcome(link, message)
            elif link in self._tree.direct:  # others speak through their relay
                self._hear_host(self._hosts[link], message)
        if self._is_look_due:
            self._ask_who_lives()
        for host in self._mirrored:
            for pid in host.waiting_to_go_on():
                self._send(host, host_messages.GoOn(pid=pid))
        now = time.monotonic()
        if now - self._counted_at > _COUNT_SECONDS:
            self._counted_at = now
            for host in silent_hosts(self._tree.direct.values(), now, len(self._hosts)):
                self._lose(host)

    def _send(self, host: KnownHost, message: host_messages.Downward) -> None:
        """Say something to a host, through its relay if it has one."""
        content = host_messages.encode(message)
        if host.parent is None:
            self._link.send(host.link, content)
        else:
            self._link.send(host.parent.link, host_messages.encode(host_messages.PassOn(host.link, content)))

    def _send_to_number(self, number: int, message: host_messages.Downward) -> None:
        self._send(list(self._hosts.values())[number], message)

    def _does_well(self, act: Callable[[], None], otherwise: str, *, is_told: bool = False) -> bool:
        """Do something that the job is judged without; if it fails, say what is missing.

        Raises:
            ValueError: It takes in what a host has told (`is_told`), and that cannot be used.
        """
        try:
            act()
        except Exception as error:
            if is_told and isinstance(error, ValueError):
                raise
            self._note_trouble(f"{otherwise}: {type(error).__name__}: {error}")
            return False
        return True

    def _note_trouble(self, text: str) -> None:
        if text not in self._troubles and len(self._troubles) < 100:
            self._troubles.append(text)

    def _hear_beat(self, link: bytes, beat: host_messages.Beat) -> None:
        host = self._tree.direct.get(link)
        number = -1 if host is None else self._taken.numbers.get(link, 0)
        if host is not None:
            host.heard_at = time.monotonic()
        pause = beat_pause(len(self._hosts))
        name = self._name if host is None else ""
        answer = host_messages.Beat(time.monotonic_ns(), echo_ns=beat.sent_ns, number=number, pause=pause, head=name)
        self._link.send(link, host_messages.encode(answer))

    def _welcome(self, link: bytes, hello: host_messages.Hello) -> None:
        if why := host_messages.refusal(hello):
            self._note_trouble(why)
        elif not self._owns_hosts and any(host.has_left_as(hello.identity) for host in self._hosts.values()):
            pass  # its own head will listen here after us
        elif link in self._hosts or len(self._hosts) < MOST_HOSTS:
            self._place(link, hello)

    def _place(self, link: bytes, hello: host_messages.Hello) -> None:
        """Let a host speak to us, or send it to a relay; as long as there is none, it asks again."""
        now, host = time.monotonic(), self._hosts.get(link)
        place = self._tree.place(host, now) if not hello.address else TreePlace(is_direct=True)
        if not place.is_direct:
            for other in self._tree.to_serve(now):
                self._send(other, host_messages.Serve())
            if place.relay is None:
                return
        if host is None:
            host = KnownHost(link, len(self._hosts), hello.host, hello.identity, now, address=hello.address)
            self._hosts[link] = host
            if place.is_direct:
                self._tree.add(host, asked=hello.identity.encode())
        if place.relay is not None:
            if host.parent is not place.relay:
                self._doubt(host)
                self._tree.give(host, place.relay, now)
            self._link.send(link, host_messages.encode(host_messages.MoveTo(place.relay.address)))

    def _hear_host(self, host: KnownHost, message: host_messages.Upward) -> None:
        host.heard_at = time.monotonic()
        try:
            if isinstance(message, host_messages.Report):
                # of one that speaks through a relay, the relay has looked at the number
                if host.parent or self._taken.takes(host.link, message.number, is_whole=message.is_whole):
                    (self._take_relayed if host.address else self._take_report)(host, message)
                    self._passed.note_recalled(host.number, message.recalled)
            elif isinstance(message, host_messages.Stretches):
                told = partial(self._passed.take, host.number, message)
                self._does_well(told, "calls of a host are not compared", is_told=True)
            elif isinstance(message, host_messages.Passed):
                self._hear_passed(host, message)
            elif isinstance(message, host_messages.FreshFacts):
                for pid, facts in message.facts.items():
                    if pid in host.processes:
                        host.processes[pid].note_facts(facts)
            elif isinstance(message, GlanceReport):
                told = partial(self._glances.take, host.number, message, self._large.tables)
                self._does_well(told, "what ranks of a host do is not shown", is_told=True)
            elif isinstance(message, host_messages.Past):
                if message.pid in host.mirrors:
                    host.mirrors[message.pid].take_parts(message.parts)
            elif isinstance(message, host_messages.Answer):
                self._taken.note_answer(host.link, message.question, is_same=message.is_same)
            elif isinstance(message, host_messages.Bye):
                host.has_left = host.parent is not None or message.number == self._taken.numbers.get(host.link)
                for child in host.children.values():
                    self._doubt(child)
        except ValueError as error:
            self._refuse(host, f"{host.name} has sent something that cannot be used: {error}")
        except OSError as error:  # no room for what it tells
            self._refuse(host, f"{host.name} is not watched, because there is no place for its records: {error}")

    def _take_report(self, host: KnownHost, report: host_messages.Report) -> None:
        for problem in report.problems:
            self._note_trouble(f"{host.name}: {problem}")
        if report.is_whole:
            host.is_lost = False
            if host.parent is not None:
                self._large.note_relay(host.number, host.parent.number)
            for mirror in host.mirrors.values():
                mirror.clear()
        for note in report.notes:
            process = self._process_on(host, note.pid)
            write_note(self._folder, note, process.pid)
            if note.end is not None:
                process.note_end_facts(note.end)
        for world in report.worlds:
            host.has_states = True
            self._large.take(host.number, world)
        for ring in report.rings:
            if ring.pid in host.mirrors or not self._large.is_full(ring.names):
                self._take_ring(host, ring)

    def _take_relayed(self, relay: KnownHost, report: host_messages.Report) -> None:
        """Take in what a relay tells, in the order in which it happened."""
        if report.is_whole:
            relay.is_lost = False
            for child in relay.children.values():
                self._doubt(child)
        for link in report.lost:
            if link in relay.children:
                self._lose(relay.children[link])
        for passed in report.passed:
            self._hear_passed(relay, passed)
        for world in report.worlds:
            self._large.take_relayed(relay.number, world)

    def _hear_passed(self, relay: KnownHost, passed: host_messages.Passed) -> None:
        """Take in what a host has said to its relay, if it still speaks through it."""
        child, message = relay.children.get(passed.link), host_messages.decode_upward(passed.content)
        if child is not None and message is not None:
            self._hear_host(child, message)

    def _take_ring(self, host: KnownHost, ring: host_messages.RingReport) -> None:
        process = self._process_on(host, ring.pid)
        if ring.pid not in host.mirrors:
            if len(host.mirrors) >= host_messages.MOST_RINGS:
                raise ValueError(f"it tells of more than {host_messages.MOST_RINGS} ranks")
            if not host.mirrors:
                self._mirrored.append(host)
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
        """Have everybody look at once who still lives: that tells who was first from those that a launcher ends.

        Many may end together: then everybody looks when the first and when the last is heard of.
        """
        self._is_look_due = self._has_looked
        if not self._has_looked:
            self._has_looked = True
            self._ask_who_lives()

    def _ask_who_lives(self) -> None:
        super().wait(0.0)
        ask = host_messages.encode(host_messages.Ask(question=0, number=0, num_calls=0))
        for host in filter(KnownHost.may_move, self._tree.direct.values()):
            self._link.send(host.link, ask)

    def _process_on(self, host: KnownHost, pid: int) -> RemoteProcess:
        if pid not in host.processes:
            number = process_number(host.number, pid)
            process = RemoteProcess(number, host.name, lambda: host.is_lost, lambda: self._end_host(host))
            host.processes[pid] = self._elsewhere[number] = process
        return host.processes[pid]

    def _lose(self, host: KnownHost) -> None:
        """Believe nothing of a host any more, until it is heard of again and has told everything."""
        if self._finding and (host.parent or host).end_sent_at:  # the job ends, and its launcher may end watchers too
            self._doubt(host)
            return
        why = "does not report: until it does, nothing is concluded about its ranks, and nobody sees if they fail"
        self._distrust(host, f"{host.name} {why}")

    def _refuse(self, host: KnownHost, why: str) -> None:
        """Take nothing more of a host, which has sent what cannot be used, until it has told everything anew."""
        self._distrust(host, why)
        if host.parent is not None:  # its relay has taken it in, and would not ask for it again
            self._link.send(host.parent.link, host_messages.encode(host_messages.TellAnew(host.link)))

    def _distrust(self, host: KnownHost, why: str) -> None:
        """Believe nothing of a host, of which something was not taken in, until it has told everything."""
        self._doubt(host)
        self._note_trouble(why)

    def _doubt(self, host: KnownHost) -> None:
        """The same without a word: for a host, or a relay and all who speak through it."""
        if host.has_left:
            return
        host.is_lost = True
        self._taken.drop(host.link)
        self._passed.forget(host.number)
        if not host.address:
            self._large.distrust(host.number)
        for child in host.children.values():
            self._doubt(child)

    def _end_host(self, host: KnownHost) -> None:
        """Have a host end its ranks; ask again if that takes long."""
        now, host = time.monotonic(), host.parent or host  # a relay tells all
        if now - host.end_sent_at > _END_AGAIN_SECONDS:
            host.end_sent_at = now
            self._link.send(host.link, host_messages.encode(host_messages.EndJob(finding=self._finding)))
        if not self._is_quiet:
            self.hear()
