"""Hosts of a process that was killed are removed by the next one that makes hosts; those of a living one stay."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.guard.hosts.cluster import hosts_up, why_no_hosts

_ROOT = Path(__file__).parents[3]
_SPACES = Path("/run/netns")
pytestmark = [
    pytest.mark.hosts,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(why_no_hosts()), reason=f"JOBS ON SEVERAL HOSTS ARE NOT TESTED: {why_no_hosts()}"),
]
_MAKER = """
import sys
from pathlib import Path
from tests.guard.hosts.cluster import hosts_up
with hosts_up(Path(sys.argv[1]), 1) as cluster:
    print(cluster.prefix, flush=True)
    sys.stdin.read()
"""


def _make_hosts(folder: Path) -> tuple[subprocess.Popen[str], str]:
    folder.mkdir()
    command = [sys.executable, "-c", _MAKER, str(folder)]
    maker = subprocess.Popen(command, cwd=_ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert maker.stdout is not None
    return maker, maker.stdout.readline().strip()


def _spaces(prefix: str) -> set[str]:
    return {path.name.removeprefix(prefix) for path in _SPACES.glob(f"{prefix}*")}


def test_hosts_of_a_process_that_was_killed_are_removed_and_no_others(tmp_path: Path) -> None:
    killed, left = _make_hosts(tmp_path / "killed")
    living, kept = _make_hosts(tmp_path / "living")
    with killed, living:
        killed.kill()
        killed.wait()  # not for its output, which its hosts hold open
        assert _spaces(left) == _spaces(kept) == {"n1", "sw"}
        first = int((tmp_path / "killed" / "n1.pid").read_text())
        (tmp_path / "own").mkdir()
        with hosts_up(tmp_path / "own", 1):
            assert (_spaces(left), _spaces(kept)) == (set(), {"n1", "sw"})
            assert not Path(f"/proc/{first}").exists() or "Z" in Path(f"/proc/{first}/stat").read_text()
        living.communicate("")
    assert _spaces(kept) == set()
