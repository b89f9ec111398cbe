"""What a host tells of the end of a process is known of it here."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from paceline.guard.hosts import host_messages
from paceline.guard.hosts.host_reports import HostReports
from paceline.guard.hosts.remote_process import RemoteProcess
from paceline.guard.observe.kernel_view import ProcessHandle
from paceline.guard.observe.local_rings import LocalRings
from paceline.process.procfs import start_time


@pytest.mark.parametrize("with_others", [True, False])
def test_how_and_with_whom_a_process_ended_is_told(with_others: bool, tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "1000"])
    process = ProcessHandle(child.pid, start_time(child.pid))
    child.kill()
    child.wait()
    process.note_closed(5_000)
    process.with_others = with_others
    assert process.has_ended()
    rings = LocalRings(tmp_path)
    facts = HostReports(rings)._end_facts(process, 0)
    sent = host_messages.decode_upward(host_messages.encode(_report(facts)))
    assert isinstance(sent, host_messages.Report)
    (ring,) = sent.rings
    assert ring.end is not None
    told = RemoteProcess(1 << 40, "n2", lambda: False, lambda: None)
    told.note_end_facts(ring.end)
    assert (told.closed_ns, told.with_others, told.ended_ns) == (5_000, with_others, process.ended_ns)
    assert told.status in (signal.SIGKILL, None), "older kernels do not tell it"
    rings.close()
    process.close()


def _report(facts: host_messages.EndFacts) -> host_messages.Report:
    ring = host_messages.RingReport(7, 1, ["ring.abc.0.0"], b"", host_messages.KernelFacts(), facts)
    return host_messages.Report(1, True, [ring], [], [])
