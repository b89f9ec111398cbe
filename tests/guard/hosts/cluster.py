"""Hosts of one machine: a network, a name, shared memory, processes and a clock of their own each. Only for root.

The first host shares the processes of this machine, so that a launcher there can start something on the others: a
remote shell is a script that enters them. It takes no variable of ours along: launchers have to hand them on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.guard.hosts.network_spaces import own_prefix, remove, remove_stale

# for files of each host alone: daemons name theirs by process numbers, which hosts have in common
_TEMPORARY = "/var/tmp"
_CLOCK_SECONDS, _START_SECONDS = 100_000, 60
_INIT = """
set -e
hostname {name}
mount --make-rprivate /
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs {temporary}
{setup}
mount --bind {folder}/hosts /etc/hosts
{begin}
echo ready > {folder}/{name}.ready
{stay}
"""
# the first process of a host waits for all that lose their parent: Slurm takes one that nobody waits for to be alive
_OWN_PROCESSES = ("sleep infinity &", "wait")
_SHARED_PROCESSES = ("", "exec sleep infinity")
_REMOTE_SHELL = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do case "$1" in -[lop]) shift;; esac; shift; done
host=$1; shift
unset PYTHONPATH $(env | grep -oE '^(PACELINE|OMPI_MCA)_[A-Za-z_]*')
export TMPDIR={temporary}
exec nsenter --target $(cat {folder}/$host.pid) --net --mount --uts --ipc --pid --time --wdns={folder} -- sh -c "$*"
"""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Hosts that are up.

    Attributes:
        folder: For files that all of them see.
        names: Of the hosts.
        remote_shell: The script that runs a command on a host.
        prefix: What the names of their network spaces begin with.
    """

    folder: Path
    names: tuple[str, ...]
    remote_shell: Path
    prefix: str

    def on(self, name: str, command: Sequence[str]) -> list[str]:
        """Return the command that runs a command on a host."""
        pid = (self.folder / f"{name}.pid").read_text().strip()
        enter = ["--net", "--mount", "--uts", "--ipc", "--pid", "--time"]
        own = ["env", f"TMPDIR={_TEMPORARY}"]
        return ["nsenter", "--target", pid, *enter, f"--wdns={self.folder}", "--", *own, *command]

    @contextmanager
    def unplugged(self, name: str) -> Iterator[None]:
        """Take the cable of a host out until the end of the block."""
        cable = ["ip", "-n", f"{self.prefix}sw", "link", "set", f"v{self.names.index(name) + 1}"]
        _run(*cable, "down")
        try:
            yield
        finally:
            _run(*cable, "up")

    @contextmanager
    def blackhole(self, name: str, address: str) -> Iterator[None]:
        """Let everything vanish that a host sends to an address, HOST:PORT, until the end of the block."""
        host, _, port = address.rpartition(":")
        rule = ["to", host, "ipproto", "tcp", "dport", port, "blackhole"]
        space = ["ip", "-n", f"{self.prefix}{name}", "rule"]
        _run(*space, "add", *rule)
        try:
            yield
        finally:
            _run(*space, "del", *rule)


@cache
def why_no_hosts() -> str:
    """Return why this machine does not let us make hosts; nothing if it does."""
    if os.geteuid() != 0:
        return "only root can make hosts of this machine"
    missing = [name for name in ("ip", "unshare", "nsenter") if shutil.which(name) is None]
    if missing:
        return f"these programs are missing (on Debian: apt-get install iproute2 util-linux): {', '.join(missing)}"
    for command in (
        ["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--net", "--time", "--monotonic", "1", "true"],
        ["ip", "netns", "list"],
    ):
        tried = subprocess.run(command, check=False, capture_output=True, text=True)
        if tried.returncode != 0:
            return f"`{' '.join(command)}` fails: {tried.stderr.strip()}"
    return ""


@contextmanager
def hosts_up(folder: Path, num: int = 3, *, setup: str = "", first_shares: bool = True) -> Iterator[Cluster]:
    """Bring hosts up, and take them down again; first take down what was left by a process that was killed.

    Args:
        folder: For files that all of them see.
        num: How many hosts.
        setup: What the shell of each host does before it is up.
        first_shares: Whether the first host has the processes of this machine, so that it can enter the others.
    """
    remove_stale()
    prefix = own_prefix()
    names = tuple(f"n{number}" for number in range(1, num + 1))
    lines = ["127.0.0.1 localhost", *(f"10.77.0.{number} {name}" for number, name in enumerate(names, start=1))]
    (folder / "hosts").write_text("\n".join(lines) + "\n")
    shell = folder / "remote_shell"
    shell.write_text(_REMOTE_SHELL.format(folder=folder, temporary=_TEMPORARY))
    shell.chmod(0o755)
    inits = []
    try:
        _run("ip", "netns", "add", f"{prefix}sw")
        _run("ip", "-n", f"{prefix}sw", "link", "add", "br0", "type", "bridge")
        _run("ip", "-n", f"{prefix}sw", "link", "set", "br0", "up")
        for number, name in enumerate(names, start=1):
            _add_network(prefix, name, number)
            shares = first_shares and number == 1
            begin, stay = _SHARED_PROCESSES if shares else _OWN_PROCESSES
            script = _INIT.format(
                name=name, folder=folder, setup=setup, begin=begin, stay=stay, temporary=_TEMPORARY
            )  # fmt: skip
            inits.append(_start_init(f"{prefix}{name}", script, [] if shares else _own_processes(number)))
        for name, init in zip(names, inits, strict=True):
            _note_pid(folder, name, init, forks=name != names[0] or not first_shares)
        yield Cluster(folder=folder, names=names, remote_shell=shell, prefix=prefix)
    finally:
        for init in inits:
            init.kill()
            init.wait()
        for name in (*names, "sw"):
            remove(f"{prefix}{name}")


def _add_network(prefix: str, name: str, number: int) -> None:
    space, switch = f"{prefix}{name}", f"{prefix}sw"
    _run("ip", "netns", "add", space)
    _run("ip", "-n", space, "link", "set", "lo", "up")
    _run("ip", "-n", switch, "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", space)
    _run("ip", "-n", switch, "link", "set", f"v{number}", "master", "br0", "up")
    _run("ip", "-n", space, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
    _run("ip", "-n", space, "link", "set", "eth0", "up")


def _own_processes(number: int) -> list[str]:
    clock = str(number * _CLOCK_SECONDS)
    return ["--pid", "--fork", "--kill-child", "--mount-proc", "--time", "--monotonic", clock]


def _start_init(space: str, script: str, own: Sequence[str]) -> subprocess.Popen[bytes]:
    command = ["ip", "netns", "exec", space, "unshare", "--mount", "--uts", "--ipc", *own, "sh", "-c", script]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL)


def _note_pid(folder: Path, name: str, init: subprocess.Popen[bytes], *, forks: bool) -> None:
    """Wait until a host is up, and note its first process."""
    deadline = time.monotonic() + _START_SECONDS
    while not (folder / f"{name}.ready").exists():
        if init.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{name} did not come up")
        time.sleep(0.01)
    children = Path(f"/proc/{init.pid}/task/{init.pid}/children").read_text().split()
    (folder / f"{name}.pid").write_text(children[0] if forks else str(init.pid))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=sys.stderr)


if __name__ == "__main__":  # before the tests: those that are skipped would look as if all was well
    why = why_no_hosts()
    if why:
        print(f"NOT TESTED: jobs on several hosts. {why}", file=sys.stderr)
    sys.exit(1 if why else 0)
