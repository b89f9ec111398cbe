"""`paceline doctor` on real jobs that hang, started by the launchers people use, and on what is none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from paceline.errors import InputError
from paceline.launch.leftovers import remove_leftovers, shared_files_now
from paceline.launch.mpiexec import find_mpiexec
from paceline.process.native_stacks import find_py_spy, why_denied

_DEADLINE = 90.0
EXAMPLES = Path(__file__).parents[2] / "examples"

MPI = """
    import os, sys, time
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    open(f"ready.{{world.rank}}", "w").close()
    if world.rank == 1:
        {odd}
    world.Barrier()
    """
TORCH = """
    import os, sys, time
    import torch, torch.distributed as dist
    from torch.utils.data import DataLoader
    dist.init_process_group("gloo")
    batches = iter(DataLoader(range(1000), num_workers=1, multiprocessing_context="fork"))
    next(batches)
    open(f"ready.{dist.get_rank()}", "w").close()
    if dist.get_rank() == 1:
        dist.barrier()
    dist.all_reduce(torch.ones(3))
    """
PROCESSES = """
    import multiprocessing, os, sys, time
    def work(rank, meet):
        {connect}
        open(f"ready.{{rank}}", "w").close()
        if rank == 1:
            {odd}
        {call}
    if __name__ == "__main__":
        context = multiprocessing.get_context("{method}")
        ranks = [context.Process(target=work, args=(rank, "file://" + os.path.abspath("meet"))) for rank in range(2)]
        for each in ranks: each.start()
        for each in ranks: each.join()
    """

Start = Callable[..., int]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a program that will hang; end all of it afterwards."""
    before = shared_files_now()
    started: list[subprocess.Popen[bytes]] = []

    def begin(text: str, *command: str, name: str = "train.py") -> int:
        (tmp_path / name).write_text(textwrap.dedent(text))
        environ = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        started.append(
            subprocess.Popen(
                [*command, str(tmp_path / name)], cwd=tmp_path, env=environ, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )
        )  # fmt: skip
        return started[-1].pid

    yield begin
    for process in started:
        tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for each in tree:
            each.kill()
        process.wait()
        psutil.wait_procs(tree, timeout=10)
    remove_leftovers(before)


def doctor(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "paceline", "doctor", "--seconds", "0.5", *arguments], cwd=cwd, capture_output=True,
        text=True, timeout=_DEADLINE, check=False,
    )  # fmt: skip


def look_until(said: str, *arguments: str, ranks: int, cwd: Path) -> tuple[int, str, dict[str, Any]]:
    """Wait for so many ranks, and look until the job has come to where it hangs: until this is said."""
    deadline = time.monotonic() + _DEADLINE
    while len(list(cwd.glob("ready.*"))) < ranks and time.monotonic() < deadline:
        time.sleep(0.05)
    while True:
        done = doctor(*arguments, "--json", "seen.json", cwd=cwd)
        if said in done.stdout:
            return done.returncode, done.stdout, json.loads((cwd / "seen.json").read_text())
        assert time.monotonic() < deadline, f"{done.returncode}\n{done.stdout}{done.stderr}"


def test_mpi_ranks_in_different_collectives(tmp_path: Path, start: Start) -> None:
    pid = start(MPI.format(odd="world.bcast(1)"), *find_mpiexec().command(3), sys.executable)
    code, text, told = look_until("not in the same collective", str(pid), ranks=3, cwd=tmp_path)
    assert code == 90
    assert (
        "paceline: rank 1 stands in bcast at train.py:7; ranks 0, 2 in Barrier at train.py:8: "
        "they are not in the same collective" in text
    )
    assert "3 of 3 ranks of mpiexec" in text
    assert "cannot say: on which communicator a call is" in text
    finding = told["finding"]
    assert (told["outcome"], finding["kind"], finding["ranks"]) == ("finding", "mismatch", [0, 1, 2])
    assert "cannot say: who is out of line" in text  # a bcast may be left before all have come
    assert finding["groups"][1] == {
        "ranks": [1], "state": "blocked", "call": "bcast", "communicator": None, "sequence": None, "site": "train.py:7",
        "count": None, "dtype": None, "detail": "has not moved", "has_returned": False,
    }  # fmt: skip
    (job,) = told["jobs"]
    assert [stack["rank"] for stack in job["stacks"]] == [0, 1, 2]
    frames = job["stacks"][1]["threads"][0]["frames"]
    assert {"function": "<module>", "file": str(tmp_path / "train.py"), "line": 7} in frames
    pids = [str(stack["pid"]) for stack in job["stacks"]]
    assert doctor(*pids, "-o", "page.html", cwd=tmp_path).returncode == 90  # ranks named one by one
    assert "Rank 1 stands in bcast at train.py:7" in (tmp_path / "page.html").read_text()
    some = doctor(*pids[:2], cwd=tmp_path)  # what of the third is not known
    assert some.returncode == 0
    assert "only ranks 0-1 of 3 ranks were named" in some.stdout


def test_an_mpi_rank_that_has_gone(tmp_path: Path, start: Start) -> None:
    pid = start(MPI.format(odd="os._exit(0)"), *find_mpiexec().command(3), sys.executable)
    code, text, told = look_until("has exited, while", str(pid), ranks=3, cwd=tmp_path)
    assert code == 90
    assert "rank 1 has exited, while ranks 0, 2 stand in Barrier at train.py:8" in text
    assert told["finding"]["kind"] == "peer-gone"
    assert told["jobs"][0]["missing"] == [1]


@pytest.mark.programs
def test_a_rank_of_the_classic_example_is_in_finalize(tmp_path: Path, start: Start) -> None:
    """Its interpreter has gone, and py-spy finds nothing."""
    pid = start((EXAMPLES / "classic.py").read_text(), *find_mpiexec().command(7), sys.executable, name="classic.py")
    code, text, told = look_until("in MPI_Finalize, while", str(pid), ranks=0, cwd=tmp_path)
    assert code == 90
    assert (
        "paceline: rank 6 has ended its script and is in MPI_Finalize, while ranks 0-5 stand in Barrier at "
        "classic.py:23\n" in text
    )
    assert "7 of 7 ranks" in text
    finding = told["finding"]
    assert (finding["kind"], finding["ranks"], finding["cause"]) == ("peer-gone", [6], "early-exit")
    (stack,) = [stack for stack in told["jobs"][0]["stacks"] if stack["rank"] == 6]
    assert (stack["threads"], stack["exit_calls"]) == ([], ["Py_FinalizeEx", "MPI_Finalize"])


def test_an_mpi_rank_that_sleeps_is_late_and_no_finding(tmp_path: Path, start: Start) -> None:
    pid = start(MPI.format(odd="time.sleep(1000)"), *find_mpiexec().command(3), sys.executable)
    code, text, told = look_until("ranks 0, 2 wait", str(pid), ranks=3, cwd=tmp_path)
    assert (code, told["outcome"], told["finding"]) == (0, "ok", None)
    assert "nothing is provably out of line" in text
    assert "rank 1 runs, so it is late as far as can be seen" in text
    assert "train.py:7" in text
    assert "sleeps; at the same line" in text


@pytest.mark.programs
def test_torchrun_with_loader_workers(tmp_path: Path, start: Start) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    pid = start(TORCH, *launcher)
    code, text, told = look_until("not in the same collective", str(pid), ranks=2, cwd=tmp_path)
    assert code == 90
    assert "rank 1 stands in barrier at train.py:10" in text
    assert "rank 0 in all_reduce at train.py:11" in text
    assert {group["communicator"] for group in told["finding"]["groups"]} == {"WORLD"}
    (job,) = told["jobs"]
    assert [stack["rank"] for stack in job["stacks"]] == [0, 1]  # the workers of the loaders are none
    assert (job["ranks_from"], job["world_size"]) == ("RANK", 2)


LEAVES = """
    import atexit, sys, time
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    dist.barrier()
    open(f"ready.{{dist.get_rank()}}", "w").close()
    if dist.get_rank() == 1:
        {leave}
        sys.exit()
    dist.barrier()
    """


@pytest.mark.programs
@pytest.mark.parametrize(
    "leave", ["atexit.register(time.sleep, 1000)", "work = dist.all_reduce(torch.ones(3), async_op=True)"]
)
def test_a_torch_rank_that_exits(tmp_path: Path, start: Start, leave: str) -> None:
    """In a handler of its own, and in the destructor of its process group, which waits for a call that nobody joins."""
    text = LEAVES.format(leave=leave)
    pid = start(text, sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3")
    code, text, told = look_until("has ended its script", str(pid), ranks=3, cwd=tmp_path)
    assert code == 90
    assert (
        "paceline: rank 1 has ended its script and is exiting, while ranks 0, 2 stand in barrier at train.py:10" in text
    )
    assert (told["finding"]["kind"], told["finding"]["ranks"]) == ("peer-gone", [1])


RECORDED = """
    import os
    import torch, torch.distributed as dist
    from torch._C._distributed_c10d import _dump_fr_trace
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    dist.all_reduce(torch.ones(3))
    if rank == 0:
        work = dist.broadcast(torch.ones(3), src=1, async_op=True)
    else:
        work = dist.all_reduce(torch.ones(3), async_op=True)
    with open(f"dumps/rank_{rank}", "wb") as file:
        file.write(_dump_fr_trace(True, True, False))
    open(f"ready.{rank}", "w").close()
    while True:
        dist.barrier()
    """


@pytest.mark.programs
def test_dumps_of_a_real_flight_recorder(tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dumps").mkdir()
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "100")
    start(RECORDED, sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")
    code, text, told = look_until("call 2 of group", "--flight-recorder", "dumps", ranks=2, cwd=tmp_path)
    assert code == 90
    assert f"rank 0 broadcast at {tmp_path}/train.py:9; rank 1 all_reduce at {tmp_path}/train.py:11" in text
    assert told["finding"]["groups"][0]["sequence"] == 2


@pytest.mark.programs
def test_spawned_ranks_of_multiprocessing(tmp_path: Path, start: Start) -> None:
    connect = "import torch, torch.distributed as dist; dist.init_process_group('gloo', meet, rank=rank, world_size=2)"
    text = PROCESSES.format(
        method="spawn", connect=connect, odd="dist.barrier()", call="dist.all_reduce(torch.ones(3))"
    )
    pid = start(text, sys.executable)
    code, text, told = look_until("not in the same collective", str(pid), ranks=2, cwd=tmp_path)
    assert code == 90
    assert "rank 1 stands in barrier at train.py:7; rank 0 in all_reduce at train.py:8" in text
    (job,) = told["jobs"]
    assert (len(job["stacks"]), job["ranks_from"]) == (2, "a variable in their stacks")
    assert any("how many ranks there should be" in text for text in job["cannot"])


def test_forked_ranks_of_multiprocessing_that_run(tmp_path: Path, start: Start) -> None:
    text = PROCESSES.format(method="fork", connect="pass", odd="time.sleep(1000)", call="os.read(os.pipe()[0], 1)")
    pid = start(text, sys.executable)
    code, text, told = look_until("train.py:8", str(pid), ranks=2, cwd=tmp_path)
    assert code == 0
    (job,) = told["jobs"]
    assert len(job["stacks"]) == 2
    assert "ranks 0-1 run: no rank is seen waiting for another" in text
    assert "rank 0  running  train.py:8  reads from or writes to a pipe" in text
    assert "rank 1  running  train.py:7  sleeps" in text


def test_all_ranks_of_a_user(tmp_path: Path) -> None:
    """In a world of its own where that can be had, so that nobody else's job is looked at."""
    script = tmp_path / "job [red]\x1b[31m.py"
    script.write_text(textwrap.dedent(MPI.format(odd="world.bcast(1)")))
    program = tmp_path / "all.sh"
    program.write_text(
        '"$@" & job=$!\n'
        "for try in $(seq 60); do\n"
        f"  {sys.executable} -m paceline doctor --user --seconds 0.5 > said; code=$?\n"
        "  [ $code = 90 ] && break; sleep 0.2\n"
        "done\n"
        "kill $job; wait $job; exit $code\n"
    )
    alone = ["unshare", "--pid", "--fork", "--mount-proc"] if os.geteuid() == 0 else []
    before = shared_files_now()
    done = subprocess.run(
        [*alone, "bash", str(program), *find_mpiexec().command(2), sys.executable, str(script)], cwd=tmp_path,
        capture_output=True, text=True, timeout=_DEADLINE, check=False,
    )  # fmt: skip
    remove_leftovers(before)
    assert done.returncode == 90, done.stderr
    text = (tmp_path / "said").read_text()
    assert "\x1b" not in text
    assert "in bcast at job [red]\\x1b[31m.py:7" in text


# the child gives up its rights after everything is imported: another user may not be able to read this environment
AS_NOBODY = """
import os, sys
import concurrent.futures.thread, encodings.idna
import paceline.cli, paceline.doctor.look, paceline.doctor.conclude, paceline.report.text.doctor_text
import paceline.process.native_stacks
paceline.process.native_stacks.find_py_spy = lambda: sys.argv[1]
os.setgroups([]); os.setgid(65534); os.setuid(65534)
sys.exit(paceline.cli.main(["doctor", *sys.argv[2:]]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_process_of_another_user_is_said(start: Start) -> None:
    pid = start("import time\ntime.sleep(1000)\n", sys.executable)
    with tempfile.TemporaryDirectory() as folder:  # one that nobody else may enter would hide py-spy, as /root does
        os.chmod(folder, 0o755)
        program = shutil.copy(find_py_spy(), folder)
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, program, str(pid)],
            capture_output=True, text=True, timeout=_DEADLINE, check=False,
        )  # fmt: skip
    assert done.returncode == 2, done.stdout + done.stderr
    assert "no rank can be looked at" in done.stderr
    assert "belongs to another user (uid 0); look as that user, or as root" in done.stderr


def test_what_to_do_is_said_where_the_kernel_forbids_it() -> None:
    assert "--cap-add=SYS_PTRACE" in why_denied(os.geteuid()) or "ptrace_scope" in why_denied(os.geteuid())


def test_what_to_install_is_said_where_py_spy_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"pip install 'paceline\[doctor\]'"):
        find_py_spy()


def test_wrong_usage_is_said_in_one_line(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "1000"]) as sleeper:
        try:
            check_usage(tmp_path, sleeper.pid)
        finally:
            sleeper.kill()


def check_usage(cwd: Path, no_python: int) -> None:
    cases = {
        (): "give process ids",
        ("train.py",): "'train.py' is not a process id",
        ("0",): "'0' is not a process id",
        ("99999999",): "there is no process 99999999",
        (str(no_python),): f"process {no_python} ('sleep') is not a Python process and has not started one",
        ("1", "--seconds", "0"): "--seconds must be more than 0",
        ("--flight-recorder", "nowhere"): "there is no folder nowhere",
        ("1", "--json", "no/such/file"): "no/such/file cannot be written",
    }
    for arguments, said in cases.items():
        done = subprocess.run(
            [sys.executable, "-m", "paceline", "doctor", *arguments], cwd=cwd, capture_output=True, text=True,
            timeout=_DEADLINE, check=False,
        )  # fmt: skip
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
        assert "Traceback" not in done.stderr
