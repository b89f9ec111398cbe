"""How long the head takes for a job on many hosts: real messages of watchers over real sockets, and the judge as it is.

The ranks are made up: each host sends what its watcher would send of eight ranks that wait in one collective, of which
the last rank of all makes another one. A watcher is a connection of its own; all of them are threads of one process, so
their time is left out, and what is reported is the processor time of the head.

    python benchmarks/hosts.py --ranks 1024
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from paceline.guard.hosts.head_rings import HeadRings
from paceline.guard.hosts.host_messages import (
    PROTOCOL,
    Answer,
    Ask,
    Beat,
    Hello,
    KernelFacts,
    Report,
    RingReport,
    decode_downward,
    encode,
    package_version,
)
from paceline.guard.hosts.keys import new_secret
from paceline.guard.hosts.link import HeadLink, WatcherLink, listen
from paceline.guard.hosts.ring_image import RingImage
from paceline.guard.judge.judge import Judge
from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.shared_memory.operations import BY_NAME

RANKS_PER_HOST = 8
DEADLINE_SECONDS = 600.0


@dataclass
class SimulatedHost:
    """A watcher's connection, and what it will say."""

    link: WatcherLink
    first: bytes
    number: int = 0

    def hear(self) -> int:
        """Answer the head; return how many bytes the report had, if it was sent now."""
        sent = 0
        for content in self.link.receive():
            message = decode_downward(content)
            if isinstance(message, Beat) and message.number == -1:
                self.link.send(encode(Hello(PROTOCOL, package_version(), "simulated", "simulated")))
            elif isinstance(message, Beat) and message.number == 0 and not self.number:
                self.number = 1
                self.link.send(self.first)
                sent = len(self.first)
            elif isinstance(message, Ask):
                self.link.send(encode(Answer(question=message.question, is_same=message.number == self.number)))
        return sent


def ring_parts(folder: Path, world_size: int, rank: int, operation: str) -> bytes:
    """Return what a watcher sends of a rank that waits in a collective."""
    recorder = Recorder(folder, f"abc.0.{rank}", rank=rank, world_size=world_size)
    world = recorder.communicator("torch-world-1", "WORLD", range(world_size), rank)
    assert world is not None
    recorder.begin_collective(world, BY_NAME[operation].code, depth=1)
    path = folder / f"ring.abc.0.{rank}"
    reader = RingReader(path)
    parts = RingImage().changes(reader.content(), shift_ns=0, is_still=True, num_calls=16)
    reader.close()
    path.unlink()
    for board in folder.glob("board.*"):
        board.unlink()
    return parts


def host_report(folder: Path, host: int, world_size: int) -> bytes:
    """Return the first report of a host."""
    rings = []
    for rank in range(host * RANKS_PER_HOST, (host + 1) * RANKS_PER_HOST):
        operation = "torch.barrier" if rank == world_size - 1 else "torch.all_reduce"
        parts = ring_parts(folder, world_size, rank, operation)
        facts = KernelFacts(state="S")
        rings.append(RingReport(rank % RANKS_PER_HOST + 2, 1, [f"ring.abc.0.{rank}"], parts, facts))
    return encode(Report(number=1, is_whole=True, rings=rings, notes=[], problems=[]))


def simulate(pipe: Connection, world_size: int, address: str, secret: bytes) -> None:
    """Be all watchers, until the head has its verdict."""
    num_hosts = world_size // RANKS_PER_HOST
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        hosts = [
            SimulatedHost(
                WatcherLink([address], secret, f"h{host}".encode()), host_report(Path(name), host, world_size)
            )
            for host in range(num_hosts)
        ]
    pipe.send("ready")
    num_bytes, beat_at = 0, 0.0
    while not pipe.poll():
        if time.monotonic() - beat_at > 1.0:
            beat_at = time.monotonic()
            for host in hosts:
                host.link.send(encode(Beat(sent_ns=time.monotonic_ns(), number=host.number)))
        num_bytes += sum(host.hear() for host in hosts)
        time.sleep(0.002)
    pipe.send(num_bytes / num_hosts)
    os._exit(0)  # connections need no farewell


def measure(world_size: int) -> dict[str, float]:
    """Return how long the head takes, from the first report to the finding."""
    secret, listening = new_secret(), listen("127.0.0.1")
    address = f"127.0.0.1:{listening.getsockname()[1]}"
    ours, theirs = multiprocessing.Pipe()
    watchers = multiprocessing.Process(target=simulate, args=(theirs, world_size, address, secret))
    watchers.start()
    ours.recv()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        rings = HeadRings(Path(name), HeadLink(listening, secret), address)
        judge = Judge(rings, Path(name))
        begun, finding = (0.0, 0.0), None
        deadline = time.monotonic() + DEADLINE_SECONDS
        while finding is None and time.monotonic() < deadline:
            if not rings.held_rings():
                begun = time.monotonic(), time.process_time()
            rings.wait(0.02)
            finding = rings.confirmed(judge.look)
        assert finding is not None, "there was no finding"
        assert finding.ranks == (world_size - 1,), finding.summary
        figures = {
            "ranks": world_size,
            "hosts": world_size // RANKS_PER_HOST,
            "seconds": round(time.monotonic() - begun[0], 3),
            "head_processor_seconds": round(time.process_time() - begun[1], 3),
        }
        ours.send("done")
        figures["bytes_of_first_report_per_host"] = round(ours.recv())
        rings.close()
    watchers.join()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="*", default=[64, 1024])
    for world_size in parser.parse_args().ranks:
        print(measure(world_size), flush=True)


if __name__ == "__main__":
    main()
