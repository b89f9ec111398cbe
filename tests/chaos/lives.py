"""One life of a job: it is started, disturbed where its fault is to come, and watched until all of it has gone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
from tests.chaos.jobs.stream import write_shards
from tests.chaos.scenarios import Fault, Place, Scenario

from paceline.launch.mpiexec import find_mpiexec
from paceline.process.own_programs import own_module
from paceline.process.procfs import environ_of, read_stat

ROOT = Path(__file__).parent.parent.parent
JOBS = Path(__file__).parent / "jobs"
MEMORY = Path("/dev/shm")
DEADLINE = 600.0  # for a job: other work may leave it a fraction of a processor
GRACE_SECONDS = 60.0  # for what was told to end: a worker looks for its rank every 5 s
_MARK = "PACELINE_CHAOS_RUN"


@dataclass(slots=True, kw_only=True)
class Life:
    """One run of a job, from its start to its end."""

    code: int | None  # None if it did not end
    output: str
    finding: dict[str, Any] | None
    seconds: float
    was_reached: bool  # whether the fault was injected
    left: list[str] = field(default_factory=list)


class ScenarioRun:
    """The folder of a scenario, and the lives of its job."""

    def __init__(self, scenario: Scenario, folder: Path, spoiled_calls: Path | None) -> None:
        self.scenario, self.folder, self._spoiled_calls = scenario, folder, spoiled_calls
        self.checkpoint, self.result = folder / "saved" / "checkpoint", folder / "result.json"
        self.checkpoint.parent.mkdir()
        if scenario.job == "stream":
            write_shards(folder / "shards")
        if scenario.job == "bench":
            self._generate()

    def _generate(self) -> None:
        command = [*own_module("paceline"), "bench", "generate", *self._workload()]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True, timeout=DEADLINE)

    def _workload(self) -> list[str]:
        settings = ["dataset.num_files_train=24", "train.epochs=2", "train.computation_time=0.1", "reader.batch_size=2"]
        return ["small", f"dataset.data_folder={self.folder}/data", *settings]

    def live(self, *, is_disturbed: bool, num_ranks: int) -> Life:
        """Run the job once."""
        chosen, run_id = self.scenario, f"{os.getpid()}-{time.monotonic_ns()}"
        temporary = Path(tempfile.mkdtemp(prefix="chaos"))
        shared_before = set(os.listdir(MEMORY))
        environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TMPDIR": str(temporary), _MARK: run_id,
            "PYTHONWARNINGS": "ignore",
        }  # fmt: skip
        for name in ("here", "done", "full", "here.new", "outcome.json"):
            (self.folder / name).unlink(missing_ok=True)
        if is_disturbed:
            told = {"place": chosen.place, "fault": chosen.fault, "victim": chosen.victim, "step": chosen.step}
            environment["PACELINE_CHAOS"] = json.dumps({**told, "folder": str(self.folder)})
            environment |= self._preloaded()
            if chosen.fault is Fault.CUT_FILE:
                self._cut_file()
        began = time.monotonic()
        with open(self.folder / "output", "wb") as output:
            process = subprocess.Popen(
                self.command(num_ranks), cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
                preexec_fn=_heed_interrupts,  # noqa: PLW1509
            )  # fmt: skip
            was_reached = self._disturb(process) if is_disturbed else False
            code = _ended(process, began + DEADLINE)
            if chosen.fault is Fault.KILL_JUDGE and is_disturbed:
                code = 0 if _all_gone(run_id, began + DEADLINE) else None
        left = self._left(run_id, shared_before, temporary, is_disturbed=is_disturbed)
        outcome = self.folder / "outcome.json"
        finding = json.loads(outcome.read_text())["finding"] if outcome.exists() and outcome.stat().st_size else None
        text = (self.folder / "output").read_text(errors="replace")
        return Life(code=code, output=text, finding=finding, seconds=time.monotonic() - began,
                    was_reached=was_reached, left=left)  # fmt: skip

    def _preloaded(self) -> dict[str, str]:
        if self._spoiled_calls is None or self.scenario.fault not in (Fault.CLOCK, Fault.NO_SPACE):
            return {}
        return {
            "LD_PRELOAD": str(self._spoiled_calls), "CHAOS_CLOCK": str(self.folder / "here"),
            "CHAOS_CLOCK_SECONDS": str(3600 if self.scenario.seed % 2 else -3600),
            "CHAOS_FULL": str(self.folder / "full"), "CHAOS_FULL_FOLDER": str(self.checkpoint.parent),
        }  # fmt: skip

    def _cut_file(self) -> None:
        # not the lists of what was generated, which a run does not read
        folder = self.folder / ("shards" if self.scenario.job == "stream" else "data/train")
        files = sorted(path for path in folder.rglob("*.*") if path.is_file())
        # a shard of the rank in question: they are dealt in turn
        path = files[self.scenario.victim % len(files)]
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size // 2)

    def command(self, num_ranks: int) -> list[str]:
        """Return the command of the job."""
        chosen = self.scenario
        if chosen.job == "bench":
            options = ["-n", str(num_ranks), "--carrier", "torch", "--json", "outcome.json", "--out", "figures"]
            return [*own_module("paceline"), "bench", "run", *self._workload(), *options, "--notice", "1000"]
        name = {"torch": "torch_calls"}.get(chosen.job, chosen.job)
        script = [str(JOBS / f"{name}.py")]
        if chosen.job == "training":
            script += [str(self.checkpoint), str(self.result), str(chosen.is_balanced), str(chosen.num_workers)]
        elif chosen.job == "stream":
            script += [str(self.folder / "shards"), str(self.result), str(chosen.num_workers)]
        carrier = "mpi" if chosen.job == "mpi" else "torch"
        if chosen.is_guarded:
            watch = ["run", "--json", "outcome.json", "--notice", "1000", "-n", str(num_ranks), "--carrier", carrier]
            return [*own_module("paceline"), *watch, *script]
        if carrier == "mpi":
            return [*find_mpiexec().command(num_ranks, clean_up=True), sys.executable, *script]
        return [*own_module("paceline.launch.local_ranks"), str(num_ranks), sys.executable, *script]

    def _disturb(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait until the rank is where the fault is to come, and do what is done from outside."""
        chosen = self.scenario
        if chosen.fault is Fault.CUT_FILE:
            return True
        pid = self._rank_of_bench(process) if chosen.job == "bench" else self._rank_that_is_there(process)
        if pid is None:
            return False
        if chosen.place is Place.INSIDE:
            time.sleep(0.2)
        match chosen.fault:
            case Fault.KILL | Fault.KILL_WORKER | Fault.TERMINATE | Fault.STOP:
                if not _strike(pid, chosen.fault):
                    return False
            case Fault.INTERRUPT:
                os.killpg(process.pid, signal.SIGINT)
            case Fault.KILL_JUDGE:
                process.kill()
            case Fault.KILL_LAUNCHER:
                _launcher_of(process, chosen).kill()
            case Fault.CLOCK:
                (self.folder / "here").touch()  # the benchmark does not say where it is
            case _:
                pass  # it is done in the rank
        (self.folder / "done").touch()
        return True

    def _rank_that_is_there(self, process: subprocess.Popen[bytes]) -> int | None:
        here = self.folder / "here"
        deadline = time.monotonic() + DEADLINE
        while not here.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                return None
            time.sleep(0.005)
        return int(here.read_text())

    def _rank_of_bench(self, process: subprocess.Popen[bytes]) -> int | None:
        """Return a rank of the benchmark when it has run for a moment."""
        deadline = time.monotonic() + DEADLINE
        while process.poll() is None and time.monotonic() < deadline:
            for child in psutil.Process(process.pid).children(recursive=True):
                if (
                    environ_of(child.pid).get("RANK") == str(self.scenario.victim)
                    and (self.folder / "figures").exists()
                ):
                    time.sleep(0.3 * self.scenario.step)
                    return int(child.pid) if psutil.pid_exists(child.pid) and process.poll() is None else None
            time.sleep(0.05)
        return None

    def _left(self, run_id: str, shared_before: set[str], temporary: Path, *, is_disturbed: bool) -> list[str]:
        """Return what the job has left behind, and remove it."""
        deadline = time.monotonic() + GRACE_SECONDS
        while (running := _running(run_id)) and time.monotonic() < deadline:
            time.sleep(0.05)
        left = []
        for process in running:
            with suppress(psutil.NoSuchProcess):  # too late all the same, but it has gone
                left.append(f"process {process.pid}: {' '.join(process.cmdline())[:200]}")
                process.kill()
        chosen = self.scenario
        (MEMORY / "filled").unlink(missing_ok=True)
        is_abandoned = is_disturbed and (
            chosen.fault is Fault.KILL_JUDGE or (chosen.fault is Fault.KILL_LAUNCHER and not chosen.is_guarded)
        )
        for name in sorted(set(os.listdir(MEMORY)) - shared_before):
            # with a judge that was killed, nobody cleans up after us; without judge and launcher, after a library
            if not is_abandoned:
                left.append(f"shared memory {name}")
            shutil.rmtree(MEMORY / name, ignore_errors=True)
            (MEMORY / name).unlink(missing_ok=True)
        if not is_abandoned:
            # multiprocessing removes its own only in a process that ends by itself
            names = [path.name for path in temporary.iterdir() if not path.name.startswith("pymp-")]
            left += [f"temporary file {name}" for name in names]
        shutil.rmtree(temporary)
        left += [f"part of a file {path.name}" for path in self.checkpoint.parent.iterdir() if path != self.checkpoint
                 and not is_disturbed]  # fmt: skip
        return left


def _strike(pid: int, fault: Fault) -> bool:
    """Stop a process, and end it or let it go on; return whether it was still alive: a benchmark may be over."""
    with suppress(ProcessLookupError, FileNotFoundError):
        os.kill(pid, signal.SIGSTOP)
        while (state := read_stat(pid).state) != "T":
            if state in "ZX":
                return False
            time.sleep(0.001)  # it is still on a processor
        if fault is Fault.STOP:
            time.sleep(3.0)
        elif fault is not Fault.TERMINATE:
            os.kill(pid, signal.SIGKILL)
            return True
        else:
            os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)
        return True
    return False


def _launcher_of(process: subprocess.Popen[bytes], chosen: Scenario) -> psutil.Process:
    if not chosen.is_guarded:
        return psutil.Process(process.pid)
    children = psutil.Process(process.pid).children()
    (launcher,) = [child for child in children if "multiprocessing" not in " ".join(child.cmdline())]
    return launcher


def _ended(process: subprocess.Popen[bytes], deadline: float) -> int | None:
    try:
        return process.wait(timeout=max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.wait(timeout=GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        return None


def _heed_interrupts() -> None:
    """Let Ctrl-C work, also where this runs in the background of a shell."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _running(run_id: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if environ_of(process.pid).get(_MARK) == run_id and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def _all_gone(run_id: str, deadline: float) -> bool:
    while _running(run_id):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
