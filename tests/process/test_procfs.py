"""What /proc says of a process, whatever it is called and whenever it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.helpers.cut_name import process_with_cut_name

from paceline.process import procfs
from paceline.process.procfs import (
    ancestors_of,
    began_at,
    children_of,
    command_of,
    environ_of,
    folder_of,
    is_alive,
    is_being_ended,
    read_stat,
    start_time,
    wait_until_gone,
)


def test_a_name_that_is_cut_in_a_character_hides_nothing() -> None:
    with process_with_cut_name() as process:
        stat = read_stat(process.pid)
        assert stat.name == "aaaaaaaaaaaaaa\N{REPLACEMENT CHARACTER}"
        assert (stat.state in "RS", stat.parent, stat.status) == (True, os.getpid(), 0)
        assert is_alive(process.pid)
        assert process.pid in children_of([os.getpid()])
        assert next(iter(ancestors_of(process.pid)))[0] == process.pid


@pytest.mark.parametrize("name", [b"a) R 1 (b", b")", b"(", b"two words", b""])
def test_a_name_may_hold_what_stands_around_it(name: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procfs, "_PROC", tmp_path)
    (tmp_path / "7").mkdir()
    fields = [b"S", *(b"%d" % number for number in range(4, 53))]  # each field has its number in proc(5), but for S
    (tmp_path / "7" / "stat").write_bytes(b"7 (" + name + b") " + b" ".join(fields) + b"\n")
    stat = read_stat(7)
    assert (stat.name, stat.state, stat.parent) == (name.decode(), "S", 4)
    assert (stat.processor_ticks, stat.start_time, stat.memory_pages, stat.status) == (14 + 15, 22, 24, 52)


def test_what_has_ended_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = subprocess.Popen(["true"])
    end = time.monotonic() + 60
    while read_stat(process.pid).state != "Z" and time.monotonic() < end:
        time.sleep(0.01)
    assert procfs.is_there(process.pid)
    assert not is_alive(process.pid), "it has ended, and nobody has waited for it"
    process.wait()
    assert not procfs.is_there(process.pid)
    assert not is_alive(process.pid)
    with pytest.raises(FileNotFoundError):
        start_time(process.pid)
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_bytes(b"")  # what is read of a process that ends meanwhile
    monkeypatch.setattr(procfs, "_PROC", tmp_path)
    with pytest.raises(ProcessLookupError):
        read_stat(7)
    assert not is_alive(7)


def test_a_process_that_is_killed_is_waited_for_and_one_that_stays_not_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procfs, "_END_SECONDS", 0.1)
    began = time.monotonic()
    wait_until_gone([os.getpid()])
    assert 0.1 <= time.monotonic() - began < 30
    wait_until_gone([])


def test_a_process_as_it_was_started(tmp_path: Path) -> None:
    before, pipe = time.time(), subprocess.PIPE
    environ = {"A": "1=2", "B": ""}
    with subprocess.Popen(["cat", "-"], env=environ, cwd=tmp_path, stdin=pipe, stdout=pipe) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"runs\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"runs\n", "before that, it may still be a copy of us"
            assert command_of(process.pid) == ("cat", "-")
            assert environ_of(process.pid) == environ
            assert folder_of(process.pid) == str(tmp_path)
            assert abs(began_at(process.pid) - before) < 30
            assert procfs.user_of(process.pid) == os.getuid()
        finally:
            process.kill()
    assert environ_of(process.pid) == {}
    assert folder_of(process.pid) == ""


def test_bytes_that_were_read_are_counted(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(100_000))
    before, _ = procfs.bytes_read(os.getpid())
    (tmp_path / "data").read_bytes()
    after, _ = procfs.bytes_read(os.getpid())
    assert after - before >= 100_000


_HANDLES = """
import signal, sys
signal.signal(signal.SIGTERM, lambda number, frame: None)
print(flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(("number", "is_ended"), [(signal.SIGKILL, True), (signal.SIGTERM, True), (None, False)])
def test_a_process_is_being_ended_from_the_signal_on(number: int | None, is_ended: bool) -> None:
    process = subprocess.Popen(["sleep", "1000"])
    assert not is_being_ended(process.pid)
    _stop(process)  # it does not come to a signal, but for SIGKILL
    if number is not None:
        process.send_signal(number)
    assert is_being_ended(process.pid) is is_ended
    process.kill()
    process.wait()
    assert is_being_ended(process.pid), "it has gone"


def test_a_signal_that_a_process_handles_does_not_end_it() -> None:
    process = subprocess.Popen([sys.executable, "-c", _HANDLES], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    _stop(process)
    process.send_signal(signal.SIGTERM)
    assert not is_being_ended(process.pid)
    process.kill()
    process.communicate()


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGSTOP)
    end = time.monotonic() + 60
    while read_stat(process.pid).state != "T":
        assert time.monotonic() < end
        time.sleep(0.001)
