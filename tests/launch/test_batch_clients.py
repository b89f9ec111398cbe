"""Clients of a batch system are told to end, and have the time to give back what they were granted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from paceline.launch.launcher_command.batch_clients import batch_clients

# a client with a child of the same name, as srun has one
_CLIENT = """
import signal, subprocess, sys, time

def give_back(number, frame):
    assert child.poll() is None, "the child was told, too"
    child.kill()
    child.wait()
    print("given back", flush=True)
    raise SystemExit(0)

signal.signal(signal.SIGTERM, give_back)
child = subprocess.Popen([sys.argv[1], "-S", "-c", "import time; print('ready', flush=True); time.sleep(1000)"])
time.sleep(1000)
"""
_PARENT = """
import os, subprocess, sys
from paceline.launch.launcher_command.batch_clients import batch_clients, end_clients
client = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)
assert client.stdout.readline() == "ready\\n"
assert batch_clients(os.getpid()) == [client.pid], batch_clients(os.getpid())
end_clients(batch_clients(os.getpid()))
print(client.stdout.read(), client.wait())
"""


def test_a_client_gives_back_what_it_was_granted(tmp_path: Path) -> None:
    srun = tmp_path / "srun"
    srun.symlink_to(Path(sys.executable).resolve())
    command = [sys.executable, "-c", _PARENT, str(srun), "-S", "-c", _CLIENT, str(srun)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout == "given back\n 0\n", done.stderr


def test_other_processes_are_left_alone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        assert batch_clients(os.getpid()) == []
        other.communicate(b"\n")
