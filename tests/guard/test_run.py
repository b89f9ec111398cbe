"""How `paceline run` behaves around a job: its output, environment, records, and what it leaves behind."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from tests.guard.small_runs import DEADLINE, ONE_IS_LATE, mpiexec, run, write

from paceline.guard.run.watch_options import WatchOptions, run_command

ONE_IS_MISSING = """
    import sys
    from mpi4py import MPI
    if MPI.COMM_WORLD.rank == 1:
        sys.exit(0)
    MPI.COMM_WORLD.Barrier()
    """


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give a command after --"),
        (["--", "no-such-program"], "there is no program 'no-such-program'"),
        (["-n", "0", "x.py"], "-n must be a whole number of at least 1"),
        (["-n", "2"], "give a script to run"),
        (["-n", "2", "no-such-script.py"], "there is no script 'no-such-script.py'"),
        (["--carrier", "mpi", "--", "true"], "goes with -n"),
        (["--notice", "0", "--", "true"], "--notice must be more than 0"),
        (["--timeout", "-1", "--", "true"], "--timeout must be more than 0"),
        (["--json", "no/such/file", "--", "true"], "no/such/file cannot be written: No such file or directory"),
        (["--out", "/proc/nowhere", "--", "true"], "/proc/nowhere cannot be written"),
        (["-n", "2", "."], "'.' is a folder, not a script"),
        (["-n", "2", "--", "mpiexec", "-n", "2", "true"], "-n starts the ranks by itself"),
        (["script.txt"], "'script.txt' is not an executable: run it with -n"),
    ],
)
def test_wrong_usage_is_said_in_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "script.txt").write_text("print()")
    done = run(tmp_path, *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_command_without_ranks_keeps_its_output_input_and_code(tmp_path: Path) -> None:
    program = "import sys; print(sys.stdin.read().upper(), end=''); print('oops', file=sys.stderr); sys.exit(7)"
    done = run(tmp_path, "--", sys.executable, "-c", program, text="hello\n")
    assert (done.returncode, done.stdout) == (7, "HELLO\n")
    assert done.stderr.splitlines() == [
        "oops",
        "paceline: no rank was seen: the job ended with code 7 before anything in it used mpi4py or torch.distributed "
        "in Python, or it started without Paceline's environment variables",
    ]


def test_a_command_that_ends_well_without_ranks_is_said_to_use_neither_library(tmp_path: Path) -> None:
    done = run(tmp_path, "--", sys.executable, "-c", "print('hello')")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert done.stderr.splitlines() == [
        "paceline: no rank was seen: nothing that was started uses mpi4py or torch.distributed in Python, or it "
        "started without Paceline's environment variables"
    ]


def test_a_command_killed_by_a_signal_gives_the_code_a_shell_would(tmp_path: Path) -> None:
    done = run(tmp_path, "--", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    assert done.returncode == 128 + 9


def test_a_finding_is_printed_once_and_kept_with_its_records(tmp_path: Path) -> None:
    script = write(tmp_path, "train.py", ONE_IS_MISSING)
    done = run(tmp_path, "--json", "outcome.json", "--out", "kept", "--", *mpiexec(3), sys.executable, str(script))
    assert done.returncode == 90
    outcome = json.loads((tmp_path / "outcome.json").read_text())
    assert (outcome["version"], outcome["outcome"], outcome["exit_code"]) == (1, "finding", 90)
    finding = outcome["finding"]
    assert (finding["kind"], finding["ranks"], finding["cause"]) == ("peer-gone", [1], "early-exit")
    assert done.stderr.count(f"paceline: {finding['summary']}") == 1
    waiting = next(group for group in finding["groups"] if group["state"] == "blocked")
    assert waiting == {
        "ranks": [0, 2], "state": "blocked", "call": "Barrier", "communicator": "WORLD", "sequence": 1,
        "site": "train.py:6", "count": None, "dtype": None, "detail": "", "has_returned": False,
    }  # fmt: skip
    (kept,) = (tmp_path / "kept").iterdir()
    assert json.loads((kept / "diagnosis.json").read_text()) == outcome
    assert len(list(kept.glob("ring.*"))) == 3
    assert sum(path.stat().st_size for path in kept.iterdir()) < 4 << 20
    assert f"records: kept/{kept.name}" in done.stderr
    about = json.loads((kept / "run.json").read_text())
    (end,) = about["worlds"][0]["ends"]  # those that the guard has ended have not ended by themselves
    assert (end["rank"], end["kind"], end["detail"], end["site"]) == (1, "exited", "sys.exit(0)", "train.py:5")
    assert end["at_ns"] <= about["ended_ns"]
    lines = json.loads((kept / "sources.json").read_text())["lines"]["train.py"]
    assert lines["6"] == "MPI.COMM_WORLD.Barrier()"


def test_a_job_that_is_right_leaves_nothing_and_says_nothing(tmp_path: Path) -> None:
    script = write(tmp_path, "train.py", "from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n")
    done = run(tmp_path, "--json", "outcome.json", "--", *mpiexec(2), sys.executable, str(script))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outcome.json", "train.py"]
    outcome = json.loads((tmp_path / "outcome.json").read_text())
    assert outcome == {"version": 1, "outcome": "ok", "exit_code": 0, "finding": None, "warnings": []}


def test_a_job_that_fails_by_itself_is_failed_and_not_a_finding(tmp_path: Path) -> None:
    script = write(tmp_path, "train.py", "from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\nraise SystemExit(3)\n")
    done = run(tmp_path, "--json", "outcome.json", "--", *mpiexec(2), sys.executable, str(script))
    outcome = json.loads((tmp_path / "outcome.json").read_text())
    assert (outcome["outcome"], outcome["exit_code"], outcome["finding"]) == ("failed", done.returncode, None)
    assert done.returncode == 3
    assert "no rank fell out of line" in done.stderr


@pytest.mark.parametrize(
    ("late", "doing"),
    [
        ("time.sleep(2.5)", "sleeping: train.py:5"),
        (
            "any(time.monotonic() > end for end in [time.monotonic() + 2.5] for _ in iter(int, 1))",
            "computing: train.py:5",
        ),
        # compiled code that a question would wake too early: it is not asked
        ("ctypes.PyDLL(None).usleep(2_500_000)", "sleeping: its stack cannot be read"),
    ],
)
def test_a_straggler_is_shown_with_its_stack_and_left_alone(tmp_path: Path, late: str, doing: str) -> None:
    script = write(tmp_path, "train.py", ONE_IS_LATE.replace("time.sleep(2.5)", late))
    done = run(tmp_path, "--notice", "1", "--", *mpiexec(2), sys.executable, str(script))
    assert (done.returncode, done.stdout) == (0, "done\ndone\n")
    notices = [line for line in done.stderr.splitlines() if line.startswith("paceline:")]
    assert notices, done.stderr
    assert "rank 0 has waited" in notices[0]
    assert "in Barrier at train.py:6 for rank 1" in notices[0]
    assert f"  rank 1 is {doing}" in done.stderr


def test_a_limit_makes_waiting_fatal(tmp_path: Path) -> None:
    script = write(tmp_path, "train.py", ONE_IS_LATE.replace("2.5", "300"))
    done = run(tmp_path, "--timeout", "1", "--json", "o.json", "--", *mpiexec(2), sys.executable, str(script))
    assert done.returncode == 90
    finding = json.loads((tmp_path / "o.json").read_text())["finding"]
    assert (finding["kind"], finding["cause"], finding["ranks"]) == ("deadlock", "timeout", [1])
    assert "longer than the limit of 1 s" in finding["summary"]
    assert "train.py:5" in finding["summary"]


def test_a_run_in_a_process_of_its_own_has_the_same_options(tmp_path: Path) -> None:
    """What `run_command` spells is what `paceline run` reads: records, JSON and the limit are as the value says."""
    script = write(tmp_path, "train.py", ONE_IS_LATE.replace("2.5", "300"))
    options = WatchOptions(
        out=tmp_path / "kept", json_file=tmp_path / "o.json", notice_seconds=0.3, timeout_seconds=1.5
    )  # fmt: skip
    command = run_command([*mpiexec(2), sys.executable, str(script)], options)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 90
    assert "rank 0 has waited" in done.stderr
    finding = json.loads((tmp_path / "o.json").read_text())["finding"]
    assert "longer than the limit of 1.5 s" in finding["summary"]
    assert len(list((tmp_path / "kept").glob("*/diagnosis.json"))) == 1


def test_a_sitecustomize_of_the_user_still_runs(tmp_path: Path) -> None:
    write(tmp_path / "custom", "sitecustomize.py", "import builtins\nbuiltins.CUSTOMIZED = 'yes'\n")
    script = write(tmp_path, "train.py", "from mpi4py import MPI\nprint(CUSTOMIZED, type(MPI.COMM_WORLD))\n")
    done = run(tmp_path, "--", sys.executable, str(script), env={"PYTHONPATH": str(tmp_path / "custom")})
    assert done.stdout == "yes <class 'mpi4py.MPI.Intracomm'>\n"
    assert done.returncode == 0


def test_a_module_and_its_arguments_run_on_every_rank(tmp_path: Path) -> None:
    write(tmp_path, "job/__init__.py", "")
    write(
        tmp_path, "job/train.py",
        "import sys\nfrom mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n"
        "print(f'{sys.argv[1:]}\\n', end='', flush=True)\n",
    )  # fmt: skip
    done = run(tmp_path, "-n", "2", "--carrier", "mpi", "--", sys.executable, "-m", "job.train", "--lr", "0.1")
    assert (done.returncode, done.stdout) == (0, "['--lr', '0.1']\n" * 2)


def test_two_jobs_one_after_the_other_under_one_run_are_kept_apart(tmp_path: Path) -> None:
    write(tmp_path, "one.py", "from mpi4py import MPI\nfor _ in range(3): MPI.COMM_WORLD.Barrier()\n")
    write(tmp_path, "two.py", "from mpi4py import MPI\nMPI.COMM_WORLD.bcast(1)\nprint('two\\n', end='', flush=True)\n")
    launch = " ".join(mpiexec(2))
    both = f"{launch} {sys.executable} one.py && {launch} {sys.executable} two.py"
    done = run(tmp_path, "--", "bash", "-c", both)
    assert (done.returncode, done.stdout, done.stderr) == (0, "two\n" * 2, "")


def test_two_scripts_of_one_launcher_are_kept_apart(tmp_path: Path) -> None:
    write(tmp_path, "one.py", "from mpi4py import MPI\nfor _ in range(3): MPI.COMM_WORLD.Barrier()\n")
    write(tmp_path, "two.py", "print('two\\n', end='', flush=True)\n")
    done = run(
        tmp_path, "--", *mpiexec(2), "bash", "-c", f"{sys.executable} one.py && {sys.executable} two.py"
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "two\n" * 2, "")


def test_an_environment_without_paceline_is_watched_too(tmp_path: Path) -> None:
    """The hooks bring their own package, so the ranks' environment need not have it."""
    script = write(tmp_path, "train.py", ONE_IS_MISSING)
    bare = write(
        tmp_path, "bare.py", "import sys\nsys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in repr(f)]\n"
    )
    done = run(
        tmp_path,
        "--",
        *mpiexec(2),
        sys.executable,
        "-c",
        f"exec(open({str(bare)!r}).read()); exec(open({str(script)!r}).read())",
    )
    assert done.returncode == 90


def test_the_guard_can_be_switched_on_inside_a_script(tmp_path: Path) -> None:
    text = "import paceline.guard\npaceline.guard.enable()\n" + textwrap.dedent(ONE_IS_MISSING)
    script = write(tmp_path, "train.py", text)
    done = subprocess.run(
        [*mpiexec(3), sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE,
        check=False,
    )  # fmt: skip
    assert done.returncode != 0
    deadline = time.monotonic() + 10
    while not list(tmp_path.glob("paceline-out/*/diagnosis.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "paceline: rank 1 ended" in done.stderr
    assert "train.py:8" in done.stderr
    (records,) = tmp_path.glob("paceline-out/*")
    diagnosis = json.loads((records / "diagnosis.json").read_text())
    assert (diagnosis["outcome"], diagnosis["exit_code"], diagnosis["finding"]["ranks"]) == ("finding", 90, [1])
    assert json.loads((records / "run.json").read_text())["command"] == ["a job that switched the guard on"]


def test_a_script_that_switches_the_guard_on_runs_as_before(tmp_path: Path) -> None:
    begin = "import paceline.guard\npaceline.guard.enable()\n"
    text = f"{begin}from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\nprint('fine\\n', end='')\n"
    script = write(tmp_path, "train.py", text)
    command = [*mpiexec(2), sys.executable, str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n" * 2, "")
    done = run(tmp_path, "--", *command)  # and under a judge that is there already
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n" * 2, "")
