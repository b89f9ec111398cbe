"""How long the head takes for a job on many hosts: real messages of watchers over real sockets, and the judge as it is.

The ranks are made up: they wait in one collective, eight on each host, and the last rank of all makes another one.
Each host has a connection of its own, with encryption, and says what its watcher would say: first that its ranks move,
then, all at once, the state that they stand still in; and the rings of ranks that the head asks for. All of them
are in a few processes. Hosts beyond the first 512 speak through relays, as they would in a job; these are real ones,
in the processes of the hosts. What is reported: seconds from the last of these reports, which is the event, and from
the first one to the finding; processor time of the head since the first (and of all others, who share its machine
here); bytes of a report, and what goes over the network at rest. A watcher waits 0.05 s before it calls a rank still.

    python benchmarks/hosts.py --ranks 1024 10240 102400 --ranks-per-host 8 8 64

Bytes on the network are those of the loopback device: run it under `unshare --net` (see the record) to count no others.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import zmq

from paceline.guard.hosts.classes.state_digest import MOVES, state_digest
from paceline.guard.hosts.head_rings import HeadRings
from paceline.guard.hosts.host_messages import (
    PROTOCOL,
    AlikeRanks,
    Answer,
    Ask,
    Beat,
    Follow,
    Hello,
    KernelFacts,
    MoveTo,
    Report,
    RingReport,
    Serve,
    WorldReport,
    decode_downward,
    encode,
    package_version,
)
from paceline.guard.hosts.keys import new_secret
from paceline.guard.hosts.link import HeadLink, WatcherLink, listen
from paceline.guard.hosts.ring_image import RingImage
from paceline.guard.hosts.tree.relay import Relay
from paceline.guard.judge.judge import Judge
from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.shared_memory.number_ranges import to_ranges
from paceline.guard.shared_memory.operations import BY_NAME
from paceline.guard.verdict.finding import Finding
from record import write_record

DEADLINE_SECONDS = 900.0
REST_SECONDS = 10.0
TURNS = 100  # parts of the hosts that beat one after the other
AT_ONCE = 64  # hosts of one process that connect together
HOSTS_OF_PROCESS = 4300  # a process may have some ten thousand files open; a host needs two, its relay another
WORLD = "3f1c9a.0"


@dataclass
class SimulatedJob:
    """What hosts have in common."""

    folder: Path
    world_size: int
    ranks_per_host: int
    digests: dict[str, int] = field(default_factory=dict)

    def operation(self, rank: int) -> str:
        """Return what a rank calls."""
        return "torch.barrier" if rank == self.world_size - 1 else "torch.all_reduce"

    def write_ring(self, rank: int) -> RingReader:
        """Write the ring of a rank that waits in a collective, as the rank itself would."""
        recorder = Recorder(self.folder, f"{WORLD}.{rank}", rank=rank, world_size=self.world_size)
        world = recorder.communicator("torch-world-1", "WORLD", range(self.world_size), rank)
        assert world is not None
        recorder.begin_collective(world, BY_NAME[self.operation(rank)].code, depth=1)
        reader = RingReader(self.folder / f"ring.{WORLD}.{rank}")
        for path in (reader.path, *self.folder.glob("board.*")):
            path.unlink()
        return reader

    def digest(self, rank: int) -> int:
        """Return the number of a rank's state, read from a ring of a rank that does the same."""
        operation = self.operation(rank)
        if operation not in self.digests:
            reader = self.write_ring(rank)
            digest = state_digest(reader, has_ended=False)
            assert digest is not None
            self.digests[operation] = digest
            reader.close()
        return self.digests[operation]

    def ring_report(self, rank: int) -> RingReport:
        """Return what a watcher sends of a rank that is followed."""
        reader = self.write_ring(rank)
        parts = RingImage().changes(reader.content(), shift_ns=0, is_still=True, num_calls=16)
        reader.close()
        return RingReport(rank % self.ranks_per_host + 2, 1, [f"ring.{WORLD}.{rank}"], parts, KernelFacts(state="S"))


@dataclass
class SimulatedHost:
    """A watcher's connection, and what it says."""

    link: WatcherLink
    job: SimulatedJob
    ranks: range
    context: zmq.Context[zmq.Socket[bytes]]
    secret: bytes
    relay: Relay | None = None
    number: int = 0  # of its last report
    told_ns: int = 0  # when it was sent
    is_still: bool = False
    is_known: bool = False  # the head has had its last report
    pause: int = 1  # seconds between two beats
    followed: list[int] = field(default_factory=list)

    def report(self, *, is_whole: bool, followed: list[int], with_states: bool = True) -> int:
        """Send a report; return its bytes."""
        self.number += 1
        states: dict[int, list[int]] = {}
        for rank in self.ranks if with_states else ():
            states.setdefault(self.job.digest(rank) if self.is_still else MOVES, []).append(rank)
        alike = [AlikeRanks(digest, to_ranges(ranks)) for digest, ranks in states.items()]
        worlds = [WorldReport(WORLD, self.job.world_size, alike)] if alike else []
        rings = [self.job.ring_report(rank) for rank in followed]
        content = encode(Report(self.number, is_whole, rings, [], [], worlds))
        self.link.send(content)
        self.told_ns = time.monotonic_ns()
        return len(content)

    def stand_still(self) -> int:
        """Tell that all ranks stand still; return the bytes of the report."""
        self.is_still = True
        return self.report(is_whole=False, followed=[])

    @property
    def name(self) -> str:
        """Its name, for the head and for people."""
        return f"n{self.ranks.start // len(self.ranks)}"

    def move_to(self, address: str) -> None:
        """Speak through a relay."""
        if address and address != self.link.address:
            self.link.close()
            self.link = WatcherLink([address], self.secret, self.name.encode(), self.context)
            self.is_known = False

    def beat(self) -> None:
        """Give a sign of life."""
        self.link.send(encode(Beat(sent_ns=time.monotonic_ns(), number=self.number)))

    def hear(self) -> None:
        """Answer the head as a watcher does."""
        if self.relay is not None:
            self.relay.turn()
        for content in list(self.link.receive()):
            message = decode_downward(content)
            if isinstance(message, Beat) and message.number == -1:
                self.link.send(encode(Hello(PROTOCOL, package_version(), self.name, self.name)))
                self.beat()
            elif isinstance(message, MoveTo):
                self.move_to(message.address)
            elif isinstance(message, Serve) and self.relay is None:
                self.relay = Relay(self.link.address, self.secret, self.name.encode(), clock=lambda: (0, 0))
            elif isinstance(message, Beat):
                self.pause = message.pause
                self.is_known = bool(self.number) and message.number == self.number
                if not self.is_known and message.echo_ns > self.told_ns:
                    self.report(is_whole=True, followed=self.followed)
                    self.beat()
            elif isinstance(message, Follow):
                self.followed += message.ranks
                self.report(is_whole=False, followed=message.ranks, with_states=False)
            elif isinstance(message, Ask):
                self.link.send(encode(Answer(question=message.question, is_same=message.number == self.number)))


def simulate(pipe: Connection, world_size: int, ranks: range, ranks_per_host: int, address: str, secret: bytes) -> None:
    """Be the watchers of all hosts of these ranks, until the head has its verdict."""
    gc.disable()
    context = zmq.Context()
    context.set(zmq.MAX_SOCKETS, 65_000)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        job = SimulatedJob(Path(name), world_size, ranks_per_host)
        job.digest(0), job.digest(world_size - 1)
        hosts: list[SimulatedHost] = []
        for begin in ranks[::ranks_per_host]:
            link = WatcherLink([address], secret, f"n{begin // ranks_per_host}".encode(), context)
            hosts.append(SimulatedHost(link, job, range(begin, begin + ranks_per_host), context, secret))
            if len(hosts) % AT_ONCE == 0:
                _beat_until(hosts, is_over=lambda: all(host.is_known for host in hosts[-AT_ONCE:]))
        _beat_until(hosts, is_over=lambda: all(host.is_known for host in hosts))
        pipe.send("known")
        _beat_until(hosts, is_over=pipe.poll)
        pipe.recv()
        began = time.monotonic()
        processor = time.process_time()
        num_bytes = sum(host.stand_still() for host in hosts)
        pipe.send((began, time.monotonic(), num_bytes))
        _beat_until(hosts, is_over=pipe.poll)
        pipe.recv()
        pipe.send((time.process_time() - processor, sum(host.relay is not None for host in hosts)))
    os._exit(0)  # connections need no farewell


def _beat_until(hosts: list[SimulatedHost], *, is_over: Callable[[], bool]) -> None:
    """Answer the head, with a beat of each host in each pause, spread over it; those that are not known beat faster."""
    begun = beat_at = time.monotonic()
    turn = 0
    while not is_over():
        now = time.monotonic()
        while turn < TURNS * (now - begun) / hosts[-1].pause:
            turn += 1
            for host in hosts[turn % TURNS :: TURNS]:
                host.beat()
        if now - beat_at > 0.1:
            beat_at = now
            for host in hosts[-AT_ONCE:]:
                if not host.is_known:
                    host.beat()
        for host in hosts:
            host.hear()
        time.sleep(0.001)


def look_until(rings: HeadRings, judge: Judge, is_over: Callable[[], bool]) -> Finding | None:
    """Do what the head does, until something is found or it is over."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_over():
        assert time.monotonic() < deadline, "there was no finding"
        assert multiprocessing.active_children(), "the hosts have failed"
        rings.wait(0.02)
        finding = rings.confirmed(judge.look)
        if finding is not None:
            return finding
    return None


def network_bytes() -> int:
    """Return how many bytes have gone over the loopback device."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return int(next(line for line in lines if line.strip().startswith("lo:")).split()[1])


def measure(world_size: int, ranks_per_host: int) -> dict[str, float]:
    """Return how long the head takes, from the first report to the finding."""
    secret, listening = new_secret(), listen("127.0.0.1")
    address = f"127.0.0.1:{listening.getsockname()[1]}"
    pipes = []
    step = HOSTS_OF_PROCESS * ranks_per_host
    for ranks in (range(world_size)[begin : begin + step] for begin in range(0, world_size, step)):
        ours, theirs = multiprocessing.Pipe()
        multiprocessing.Process(
            target=simulate, args=(theirs, world_size, ranks, ranks_per_host, address, secret)
        ).start()
        pipes.append(ours)
    num_hosts = world_size // ranks_per_host
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        rings = HeadRings(Path(name), HeadLink(listening, secret), address)
        judge = Judge(rings, Path(name))
        begun = time.process_time()
        assert look_until(rings, judge, lambda: all(pipe.poll() for pipe in pipes)) is None
        assert {pipe.recv() for pipe in pipes} == {"known"}
        to_connect = time.process_time() - begun
        at_rest = network_bytes(), time.process_time(), time.monotonic()
        assert look_until(rings, judge, lambda: time.monotonic() - at_rest[2] > REST_SECONDS) is None
        rested = time.monotonic() - at_rest[2]
        rest_bytes, rest_cpu = network_bytes() - at_rest[0], time.process_time() - at_rest[1]
        for pipe in pipes:
            pipe.send("stand still")
        begun = time.process_time()
        finding = look_until(rings, judge, lambda: False)
        ended, cpu = time.monotonic(), time.process_time() - begun
        assert finding is not None
        assert finding.ranks == (world_size - 1,), finding.summary
        assert sum(len(group.ranks) for group in finding.groups) == world_size
        told = [pipe.recv() for pipe in pipes]
        for pipe in pipes:
            pipe.send("done")
        ended_hosts = [pipe.recv() for pipe in pipes]
        rings.close()
    for process in multiprocessing.active_children():
        process.join()
    print(finding.summary, flush=True)
    return {
        "ranks": world_size,
        "hosts": num_hosts,
        "relays": sum(num_relays for _, num_relays in ended_hosts),
        "seconds_to_finding": round(ended - max(last for _, last, _ in told), 3),
        "seconds_from_first_report_to_finding": round(ended - min(first for first, _, _ in told), 3),
        "head_processor_seconds": round(cpu, 3),
        "processor_seconds_of_all_hosts_and_relays": round(sum(spent for spent, _ in ended_hosts), 2),
        "bytes_of_report_per_host": round(sum(num_bytes for *_, num_bytes in told) / num_hosts, 1),
        "network_bytes_per_second_and_host_at_rest": round(rest_bytes / rested / num_hosts, 1),
        "head_processor_share_at_rest": round(rest_cpu / rested, 4),
        "head_processor_seconds_to_connect": round(to_connect, 2),
    }


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="*", default=[1024])
    parser.add_argument("--ranks-per-host", type=int, nargs="*", default=[8], help="for each number of ranks, or all")
    parser.add_argument("--record", action="store_true", help="keep the figures in benchmarks/results")
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    figures = []
    ranks_per_host = options.ranks_per_host * (len(options.ranks) if len(options.ranks_per_host) == 1 else 1)
    for world_size, own in zip(options.ranks, ranks_per_host, strict=True):
        figures.append(measure(world_size, own))
        print("\n".join(f"{name:42} {value:,}" for name, value in figures[-1].items()), flush=True)
    if options.record:
        write_record("hosts", figures, packages=["paceline", "pyzmq", "msgspec"], seed=0)


if __name__ == "__main__":
    main()
