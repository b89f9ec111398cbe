"""Real jobs on three hosts: broken ones are diagnosed as on one, correct ones end as they would bare.

The hosts are made of this machine (cluster.py), and only root may do that: elsewhere these tests are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.guard.hosts.cluster import Cluster, can_make_hosts, hosts_up

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not can_make_hosts(), reason="ONLY ROOT CAN MAKE HOSTS: JOBS ON SEVERAL HOSTS ARE NOT TESTED"),
]
_DEADLINE = 300.0
_BIN = Path(sys.executable).parent

# ranks begin once the watcher of their host watches, so that what is tested is not how fast a watcher starts
_READY = """
    import os, sys, time
    from paceline.guard.shared_memory.ring import judge_lives
    from pathlib import Path
    folder = os.environ.get("PACELINE_RUN_FOLDER")
    while folder and not judge_lives(Path(folder)):
        time.sleep(0.05)
    kind = sys.argv[1]
    """
MPI = """
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    for _ in range(3):
        world.allreduce(1)
    time.sleep(float(sys.argv[2]) if folder else 0.0)
    odd = world.rank == world.size - 1
    if kind == "mismatch":
        if odd:
            world.bcast(1, root=0)
        else:
            world.allreduce(1)
    elif kind == "receive" and odd:
        world.recv(source=0, tag=7)
    elif kind == "cycle":
        world.recv(source=(world.rank + 1) % world.size)
    elif kind == "raises" and odd:
        raise ValueError("no")
    elif kind == "watcher killed" and world.rank == 2:
        os.kill(int((Path(folder) / "judge").read_text().split()[0]), 9)
        time.sleep(5)
    elif kind == "leaves" and odd:
        os._exit(0)
    world.Barrier()
    print("end", flush=True)
    """
TORCH = """
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    dist.all_reduce(torch.zeros(1))
    time.sleep(1.0)
    if kind == "mismatch" and dist.get_rank() == dist.get_world_size() - 1:
        dist.broadcast(torch.zeros(1), 0)
    else:
        dist.all_reduce(torch.zeros(1))
    dist.barrier()
    dist.destroy_process_group()
    print("end", flush=True)
    """


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    programs = {"mpi.py": MPI, "torch_job.py": TORCH}
    for name, text in programs.items():
        (folder / name).write_text(textwrap.dedent(_READY) + textwrap.dedent(text))
    with hosts_up(folder) as made:
        yield made


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{_BIN}:{os.environ['PATH']}", "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}


def _mpi(cluster: Cluster, kind: str, seconds: float) -> list[str]:
    shell = ["-launcher", "rsh", "-launcher-exec", str(cluster.remote_shell)]
    place = ["-hosts", "n1,n2,n3", "-n", "6", "-ppn", "2"]
    return ["mpiexec", *shell, *place, "python", "mpi.py", kind, str(seconds)]


def _run(cluster: Cluster, command: list[str], host: str = "n1") -> tuple[subprocess.CompletedProcess[str], Any]:
    told = cluster.folder / "told.json"
    told.unlink(missing_ok=True)
    watched = ["paceline", "run", "--json", str(told), "--", *command]
    done = subprocess.run(
        cluster.on(host, watched), env=_environment(), cwd=cluster.folder, capture_output=True, text=True,
        timeout=_DEADLINE, check=False,
    )  # fmt: skip
    return done, json.loads(told.read_text())["finding"] if told.exists() else None


def _nothing_is_left(cluster: Cluster) -> None:
    """Watchers have gone, and have removed their folders and what MPI left."""
    deadline = time.monotonic() + 60
    left = ""
    while time.monotonic() < deadline:
        lists = [subprocess.run(cluster.on(name, ["ls", "/dev/shm"]), capture_output=True, text=True, check=True).stdout
                 for name in cluster.names]  # fmt: skip
        left = "".join(lists)
        if not left:
            return
        time.sleep(0.2)
    raise AssertionError(f"in shared memory is left: {left}")


@pytest.mark.parametrize(
    ("kind", "cause", "line"),
    [
        ("mismatch", "rank-conditional-call", "world.bcast"),
        ("receive", "receive-without-send", "world.recv(source=0"),
        ("raises", "exception", "raise ValueError"),
        ("leaves", "early-exit", "os._exit"),
    ],
)
def test_the_rank_out_of_line_is_named_with_its_line(cluster: Cluster, kind: str, cause: str, line: str) -> None:
    done, finding = _run(cluster, _mpi(cluster, kind, 2.0))
    assert done.returncode == 90, done.stderr
    assert finding["ranks"] == [5]
    assert finding["cause"] == cause
    program = (cluster.folder / "mpi.py").read_text().splitlines()
    (group,) = [group for group in finding["groups"] if group["ranks"] == [5]]
    assert line in program[int(group["site"].rpartition(":")[2]) - 1]
    assert group["hosts"] == ["n3"]
    _nothing_is_left(cluster)


def test_a_cycle_over_all_hosts_is_found(cluster: Cluster) -> None:
    done, finding = _run(cluster, _mpi(cluster, "cycle", 1.0))
    assert (done.returncode, finding["cause"]) == (90, "receive-receive"), done.stderr
    assert finding["ranks"] == [0, 1, 2, 3, 4, 5]


def test_a_correct_job_ends_as_it_would_bare(cluster: Cluster) -> None:
    done, finding = _run(cluster, _mpi(cluster, "correct", 1.0))
    assert (done.returncode, finding, done.stdout.count("end")) == (0, None, 6), done.stderr
    assert "watching other hosts through 10.77.0.1:" in done.stderr
    assert done.stderr.count("paceline:") == 1, done.stderr
    _nothing_is_left(cluster)


def test_a_host_that_cannot_reach_the_head_harms_nobody(cluster: Cluster) -> None:
    """Its watcher looks for the head where nobody is."""
    command = ["env", "PACELINE_HEAD=10.77.1.1:9", *_mpi(cluster, "correct", 1.0)]
    done, finding = _run(cluster, command)
    assert (done.returncode, finding, done.stdout.count("end")) == (0, None, 6), done.stderr


def test_a_watcher_that_is_killed_harms_nobody(cluster: Cluster) -> None:
    done, finding = _run(cluster, _mpi(cluster, "watcher killed", 2.0))
    assert (done.returncode, finding, done.stdout.count("end")) == (0, None, 6), done.stderr
    assert "n2 is not heard of" in done.stderr


def test_one_command_on_each_node_gives_one_finding(cluster: Cluster) -> None:
    key = "ab" * 32

    def node(number: int) -> subprocess.Popen[str]:
        torchrun = ["torchrun", "--nnodes", "2", "--nproc-per-node", "2", "--node-rank", str(number),
                    "--master-addr", "n1", "--master-port", "29400", "torch_job.py", "mismatch"]  # fmt: skip
        command = cluster.on(f"n{number + 1}", ["paceline", "run", "--", *torchrun])
        return subprocess.Popen(
            command, env=_environment() | {"PACELINE_KEY": key}, cwd=cluster.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    nodes = [node(number) for number in range(2)]
    outputs = [each.communicate(timeout=_DEADLINE)[1] for each in nodes]
    assert [each.returncode for each in nodes] == [90, 90], "\n".join(outputs)
    for output in outputs:
        assert "rank 3 (n2)" in output, output
        assert key not in output
