"""Hosts of one machine: a network, a name, shared memory, processes and a clock of their own each. Only for root.

The first host shares the processes of this machine, so that a launcher there can start something on the others: a
remote shell is a script that enters them.
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
from pathlib import Path

_CLOCK_SECONDS = 100_000
_INIT = """
set -e
hostname {name}
mount --make-rprivate /
mount -t tmpfs tmpfs /dev/shm
mount --bind {folder}/hosts /etc/hosts
echo ready > {folder}/{name}.ready
exec sleep infinity
"""
_REMOTE_SHELL = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do case "$1" in -[lop]) shift;; esac; shift; done
host=$1; shift
exec nsenter --target $(cat {folder}/$host.pid) --net --mount --uts --ipc --pid --time --wdns={folder} -- sh -c "$*"
"""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Hosts that are up.

    Attributes:
        folder: For files that all of them see.
        names: Of the hosts.
        remote_shell: The script that runs a command on a host.
    """

    folder: Path
    names: tuple[str, ...]
    remote_shell: Path

    def on(self, name: str, command: Sequence[str]) -> list[str]:
        """Return the command that runs a command on a host."""
        pid = (self.folder / f"{name}.pid").read_text().strip()
        enter = ["--net", "--mount", "--uts", "--ipc", "--pid", "--time"]
        return ["nsenter", "--target", pid, *enter, f"--wdns={self.folder}", "--", *command]


def can_make_hosts() -> bool:
    """Say whether this machine lets us make hosts."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "unshare", "nsenter"))):
        return False
    tried = subprocess.run(["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--net", "true"], check=False)
    return tried.returncode == 0


@contextmanager
def hosts_up(folder: Path, num: int = 3) -> Iterator[Cluster]:
    """Bring hosts up, and take them down again."""
    prefix = f"p{os.getpid() % 100000}"
    names = tuple(f"n{number}" for number in range(1, num + 1))
    lines = ["127.0.0.1 localhost", *(f"10.77.0.{number} {name}" for number, name in enumerate(names, start=1))]
    (folder / "hosts").write_text("\n".join(lines) + "\n")
    shell = folder / "remote_shell"
    shell.write_text(_REMOTE_SHELL.format(folder=folder))
    shell.chmod(0o755)
    inits = []
    try:
        _run("ip", "netns", "add", f"{prefix}sw")
        _run("ip", "-n", f"{prefix}sw", "link", "add", "br0", "type", "bridge")
        _run("ip", "-n", f"{prefix}sw", "link", "set", "br0", "up")
        for number, name in enumerate(names, start=1):
            _add_network(prefix, name, number)
            inits.append(_start_init(prefix, folder, name, number))
        for name, init in zip(names, inits, strict=True):
            _note_pid(folder, name, init)
        yield Cluster(folder=folder, names=names, remote_shell=shell)
    finally:
        for init in inits:
            init.kill()
            init.wait()
        for name in (*names, "sw"):
            subprocess.run(["ip", "netns", "del", f"{prefix}{name}"], check=False, capture_output=True)


def _add_network(prefix: str, name: str, number: int) -> None:
    space, switch = f"{prefix}{name}", f"{prefix}sw"
    _run("ip", "netns", "add", space)
    _run("ip", "-n", space, "link", "set", "lo", "up")
    _run("ip", "-n", switch, "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", space)
    _run("ip", "-n", switch, "link", "set", f"v{number}", "master", "br0", "up")
    _run("ip", "-n", space, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
    _run("ip", "-n", space, "link", "set", "eth0", "up")


def _start_init(prefix: str, folder: Path, name: str, number: int) -> subprocess.Popen[bytes]:
    own = [] if number == 1 else ["--pid", "--fork", "--kill-child", "--mount-proc", "--time",
                                  "--monotonic", str(number * _CLOCK_SECONDS)]  # fmt: skip
    script = _INIT.format(name=name, folder=folder)
    command = ["ip", "netns", "exec", f"{prefix}{name}", "unshare", "--mount", "--uts", "--ipc", *own, "sh", "-c"]
    return subprocess.Popen([*command, script], stdin=subprocess.DEVNULL)


def _note_pid(folder: Path, name: str, init: subprocess.Popen[bytes]) -> None:
    """Wait until a host is up, and note its first process."""
    deadline = time.monotonic() + 30
    while not (folder / f"{name}.ready").exists():
        if init.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{name} did not come up")
        time.sleep(0.01)
    children = Path(f"/proc/{init.pid}/task/{init.pid}/children").read_text().split()
    (folder / f"{name}.pid").write_text(children[0] if children and name != "n1" else str(init.pid))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=sys.stderr)
