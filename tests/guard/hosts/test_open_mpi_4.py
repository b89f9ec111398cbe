"""Real jobs of Debian's Open MPI 4 on three hosts, as people start them: with `-x`, without, and with several programs.

The hosts are made of this machine (cluster.py), and only root may do that: elsewhere these tests are skipped.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.guard.hosts.cluster import Cluster, hosts_up, why_no_hosts
from tests.guard.hosts.host_jobs import end_watched, nothing_is_left, run_watched, start_watched
from tests.guard.hosts.host_programs import line_of, write_programs

from paceline.process.procfs import environ_of

_ROOT = Path(__file__).parents[3]
_UNPACKED = _ROOT / ".openmpi4" / "unpacked"
_SETUP = """
mount -t overlay overlay -o lowerdir={unpacked}/usr:/usr /usr
mount -t overlay overlay -o lowerdir={unpacked}/etc:/etc /etc
"""
_RANK = [
    "env", "MPI4PY_LIBMPI=/usr/lib/x86_64-linux-gnu/libmpi.so.40",
    str(_ROOT / ".venv-openmpi" / "bin" / "python"), "mpi.py",
]  # fmt: skip
pytestmark = [
    pytest.mark.openmpi4,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(why_no_hosts()), reason=f"OPEN MPI 4 ON SEVERAL HOSTS IS NOT TESTED: {why_no_hosts()}"),
]
_NAMED = ["-x", "OMP_NUM_THREADS", "-x", "HOME"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("openmpi4")
    write_programs(folder)
    with hosts_up(folder, setup=_SETUP.format(unpacked=_UNPACKED)) as made:
        yield made


def _job(cluster: Cluster, kind: str, *options: str, seconds: str = "1") -> list[str]:
    shell = ["--mca", "plm_rsh_agent", str(cluster.remote_shell)]
    carrier = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]
    place = ["--oversubscribe", "--host", "n1:2,n2:2,n3:2"]
    return ["/usr/bin/mpirun", "--allow-run-as-root", *shell, *carrier, *place, *options, *_RANK, kind, seconds]


def _several(cluster: Cluster, kind: str) -> list[str]:
    """Return a command of two programs, of which only the second has names of variables."""
    return [*_job(cluster, kind, "-n", "4"), ":", "-n", "2", *_NAMED, *_RANK, kind, "1"]


@pytest.mark.parametrize("options", [[], _NAMED, ["-x", "PYTHONUNBUFFERED=1"]], ids=["bare", "names", "a value"])
@pytest.mark.parametrize(
    ("kind", "cause", "line"),
    [("mismatch", "rank-conditional-call", "world.bcast"), ("raises", "exception", "raise ValueError")],
)
def test_the_rank_out_of_line_is_named_with_its_line(
    cluster: Cluster, kind: str, cause: str, line: str, options: list[str]
) -> None:
    done, finding = run_watched(cluster, _job(cluster, kind, "-n", "6", *options))
    assert done.returncode == 90, done.stderr
    assert (finding["cause"], finding["ranks"]) == (cause, [5])
    (group,) = [group for group in finding["groups"] if group["ranks"] == [5]]
    assert line in line_of(cluster.folder / "mpi.py", group["site"])
    assert group["hosts"] == ["n3"]
    nothing_is_left(cluster)


def test_several_programs_are_one_job(cluster: Cluster) -> None:
    done, finding = run_watched(cluster, _several(cluster, "mismatch"))
    assert (done.returncode, finding["ranks"]) == (90, [5]), done.stderr


@pytest.mark.parametrize("options", [[], _NAMED], ids=["bare", "names"])
def test_a_correct_job_ends_as_it_would_bare(cluster: Cluster, options: list[str]) -> None:
    done, finding = run_watched(cluster, _job(cluster, "correct", "-n", "6", *options))
    assert (done.returncode, finding, done.stdout) == (0, None, "end\n" * 6), done.stderr
    assert done.stderr.count("paceline:") == 1, done.stderr
    nothing_is_left(cluster)


@pytest.mark.parametrize("options", [[], _NAMED], ids=["bare", "names"])
def test_the_key_is_on_no_command_line(cluster: Cluster, options: list[str]) -> None:
    """Everybody on a host can read those; processes of all hosts can be seen from here."""
    for name in ("here.*", "gone.*", "go"):  # of the job before
        for file in cluster.folder.glob(name):
            file.unlink()
    job = start_watched(cluster, _job(cluster, "correct", "-n", "6", *options, seconds="go"))
    deadline = time.monotonic() + 300
    while len(list(cluster.folder.glob("here.*"))) < 6:
        assert job.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    keys, lines = set(), []
    for process in Path("/proc").glob("[0-9]*"):
        keys.add(environ_of(int(process.name)).get("PACELINE_KEY"))
        try:
            lines.append((process / "cmdline").read_text(errors="replace"))
        except OSError:
            print(f"{process} has just ended", file=sys.stderr)
    (key,) = keys - {None}
    assert any("orted" in line for line in lines)
    assert [line for line in lines if str(key) in line] == []
    (cluster.folder / "go").touch()
    done, _ = end_watched(cluster, job)
    assert done.returncode == 0, done.stderr
