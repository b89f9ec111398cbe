"""The command line as a user has it: real processes, real output, real exit codes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

from paceline.cli.check_verb import _progress

EXAMPLES = Path(__file__).parents[2] / "examples"


def paceline(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "paceline", *arguments], capture_output=True, text=True, timeout=60, cwd=cwd, check=False
    )


def test_plan_shows_each_tail_and_the_classic_bug() -> None:
    done = paceline("plan", "--samples", "100", "--ranks", "7", "--batch", "3")
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("drop", "even", "pad", "repeat", "5 on ranks 0-5; 3 on rank 6", "will deadlock"):
        assert words in done.stdout


def test_plan_prints_json() -> None:
    done = paceline("plan", "--samples", "100", "--ranks", "7", "--batch", "3", "--tail", "pad", "--json")
    value = json.loads(done.stdout)
    assert value["tails"] == [
        {
            "tail": "pad",
            "num_steps": 5,
            "num_used": 100,
            "num_dropped": 0,
            "num_padded": 5,
            "num_repeated": 0,
            "last_step_real_rows": [3, 3, 2, 2, 2, 2, 2],
            "problem": None,
        }
    ]
    assert value["clamped_ceil"] == {"batches": [5, 5, 5, 5, 5, 5, 3], "will_deadlock": True}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("plan --samples 0 --ranks 7 --batch 3", "num_samples must be a whole number from 1"),
        ("plan --samples 10 --ranks -1 --batch 3", "world_size must be"),
        ("plan --samples 1.5 --ranks 7 --batch 3", "invalid int value: '1.5'"),
        ("plan --samples 10 --ranks 7 --batch 3 --tail wag", "invalid choice: 'wag'"),
        ("plan --samples 10 --ranks 7 --batch 3 --tail drop", "10 samples do not fill one step"),
        ("plan --samples 10", "required: --ranks"),
        ("plan --ranks 2", "pass --samples and --batch, or --lengths and --max-tokens"),
        ("plan --ranks 2 --samples 9 --batch 3 --max-tokens 9", "--max-tokens and --width are for packs"),
        ("plan --ranks 2 --lengths lengths.txt", "--max-tokens is missing"),
        ("plan --ranks 2 --lengths lengths.txt --max-tokens 9 --batch 3", "leave out --samples, --batch and --tail"),
        ("plan --ranks 2 --lengths gone.txt --max-tokens 9", "gone.txt cannot be read: No such file"),
        ("plan --ranks 2 --lengths demo.py --max-tokens 9", "demo.py must have one whole number for each sample"),
        ("plan --ranks 2 --lengths lengths.txt --max-tokens 9", "is longer than the budget"),
        ("check loaders.py:nothing --ranks 2", "loaders.py has no function 'nothing'"),
        ("check no_such_module:f --ranks 2", "no module 'no_such_module'"),
        ("check gone.py:f --ranks 2", "no file 'gone.py'"),
        ("check loaders --ranks 2", "does not name a factory"),
        ("check loaders.py:planned --ranks 0", "world_size must be"),
        ("check loaders.py:planned --ranks 2 --ids nope", "the batch has no ids at 'nope'"),
        ("dance", "invalid choice: 'dance'"),
        ("", "required: VERB"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_why(arguments: str, words: str) -> None:
    done = paceline(*arguments.split(), cwd=EXAMPLES)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_check_ends_with_90_and_names_rank_and_step() -> None:
    done = paceline("check", "loaders.py:clamped", "--ranks", "7", cwd=EXAMPLES)
    assert (done.returncode, done.stderr) == (90, "")
    assert "BROKEN" in done.stdout
    assert "from step 3 on" in done.stdout
    assert "rank 6: 3 steps" in done.stdout


def test_check_counts_no_time_before_the_first_batch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr("paceline.cli.check_verb.time.monotonic", lambda: now)
    with _progress(2) as on_step:
        now += 60.0  # an import on a busy machine
        on_step(0, 0)
        assert capsys.readouterr().err == ""
        now += 11.0
        on_step(0, 7)
        assert "rank 0 is at step 7; if its batches never end, give --max-steps" in capsys.readouterr().err
        now += 2.0
        on_step(0, 8)
        assert capsys.readouterr().err == ""


def test_check_of_a_module_on_the_current_path_holds() -> None:
    done = paceline("check", "loaders:planned", "--ranks", "7", "--exactly-once", "--json", cwd=EXAMPLES)
    value = json.loads(done.stdout)
    assert (done.returncode, value["outcome"], value["steps"]) == (0, "ok", [5] * 7)
    assert value["ids"]["num_distinct"] == 100


def test_an_error_inside_the_module_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("\nimport not_installed_anywhere\n")
    (tmp_path / "torn.py").write_text("def f(:\n")
    for name, words in (("mine", "No module named 'not_installed_anywhere'"), ("torn.py", "SyntaxError")):
        done = paceline("check", f"{name}:f", "--ranks", "2", cwd=tmp_path)
        assert done.returncode == 2
        assert f"{name} cannot be imported" in done.stderr
        assert words in done.stderr
    assert "mine.py:2" in paceline("check", "mine:f", "--ranks", "2", cwd=tmp_path).stderr


def test_what_the_factory_prints_stays_out_of_the_json(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text("def f(rank, world_size):\n    print('hello')\n    return [[rank]]\n")
    done = paceline("check", "loud:f", "--ranks", "2", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["outcome"] == "ok"
    assert "hello" in done.stderr


def test_check_has_a_progress_bar_on_a_terminal_only(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import time\n"
        "def factory(rank, world_size):\n"
        "    for step in range(30):\n"
        "        time.sleep(0.01)\n"
        "        yield [0]\n"
    )
    master, slave = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "paceline", "check", "slow.py:factory", "--ranks", "3"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=slave,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(slave)
    shown = os.read(master, 1 << 20).decode(errors="replace")
    os.close(master)
    assert done.returncode == 0
    assert "rank 1" in shown
    assert "step" in shown
    assert "contract holds" in done.stdout


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{sys.executable} -m paceline plan --samples 100 --ranks 7 --batch 3 | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith("100 samples")
    assert "Traceback" not in done.stderr


def test_output_that_cannot_be_written_is_said_in_one_line() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "paceline", "plan", "--samples", "100", "--ranks", "7", "--batch", "3"],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "paceline plan: standard output cannot be written: No space left on device\n"


_WITHOUT = "import sys; sys.modules[{package!r}] = None; "
_MAIN = "from paceline.cli import main; sys.exit(main"


@pytest.mark.parametrize(
    ("package", "code", "words", "exit_code"),
    [
        ("torch", "from paceline import Loader", "paceline.Loader: this needs torch, which is not installed", 1),
        ("torch", "from paceline import Batch", "pip install 'paceline[torch]'", 1),
        ("yaml", _MAIN + "(['bench', 'list']))", "paceline[bench]", 2),
        ("torch", _MAIN + "(['lab', 'run', 'rows-stripped']))", "paceline[torch]", 2),
        ("fsspec", _MAIN + "(['bench', 'list']))", "", 0),
    ],
)
def test_a_missing_extra_is_one_sentence_with_the_line_to_install(
    tmp_path: Path, package: str, code: str, words: str, exit_code: int
) -> None:
    before = _WITHOUT.format(package=package)
    done = subprocess.run(
        [sys.executable, "-c", before + code], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path
    )
    assert done.returncode == exit_code, done.stderr
    assert words in done.stderr
    if exit_code == 2:
        assert done.stderr.count("\n") == 1


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """What a run of three ranks has left, of which one left the loop early."""
    lines = [
        "from mpi4py import MPI",
        "comm = MPI.COMM_WORLD",
        "for _ in range(5 - comm.rank // 2):",
        "    comm.Barrier()",
    ]
    (tmp_path / "train.py").write_text("\n".join([*lines, "comm.allreduce(1)", ""]))
    done = paceline("run", "--out", "out", "--trace", "trace.json", "-n", "3", "train.py", cwd=tmp_path)
    assert done.returncode == 90, done.stderr
    return tmp_path


def test_report_makes_a_page_and_a_trace_of_a_real_run(run_folder: Path) -> None:
    (kept,) = (run_folder / "out").iterdir()
    about = json.loads((kept / "run.json").read_text())
    assert about["command"] == ["paceline", "run", "-n", "3", "train.py"]
    assert json.loads((kept / "sources.json").read_text())["lines"]["train.py"]["4"] == "    comm.Barrier()"
    assert len(json.loads((run_folder / "trace.json").read_text())["traceEvents"]) > 20
    done = paceline("report", "out", "-o", "page.html", "--trace", "again.json.gz", cwd=run_folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "written: page.html (open it in a browser)"
    page = (run_folder / "page.html").read_text()
    for words in ("train.py:4", "train.py:5", "comm.allreduce(1)", "out of line"):
        assert words in page
    done = paceline("report", str(kept), cwd=run_folder)
    assert (done.returncode, (kept / "report.html").read_text()) == (0, page)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["report", "nowhere"], "there is no folder 'nowhere'"),
        (["report", "."], "there is no run in '.'"),
        (["report", "one", "-o", "no/such/page.html"], "no/such/page.html cannot be written"),
        (["report", "one", "--trace", "no/such/file"], "no/such/file cannot be written"),
    ],
)
def test_report_says_what_is_wrong_with_its_arguments(tmp_path: Path, arguments: list[str], words: str) -> None:
    if "one" in arguments:
        (tmp_path / "one").mkdir()
        (tmp_path / "one" / "run.json").write_text("{}")
    done = paceline(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_report_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    done = paceline("report", ".", cwd=tmp_path)
    assert done.returncode == 0
    assert "not everything could be read: run.json cannot be read" in done.stdout
    assert "there is no record of any rank" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("verb", ["run", "doctor", "watch", "report", "lab", "bench", "bench run", "check", "plan"])
@pytest.mark.parametrize("columns", [60, 100])
def test_help_is_wrapped_to_the_terminal_but_for_examples(verb: str, columns: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "paceline", *verb.split(), "--help"], capture_output=True, text=True, timeout=60,
        check=True, env=os.environ | {"COLUMNS": str(columns)},
    )  # fmt: skip
    text, _, examples = done.stdout.partition("\nexamples:\n")
    assert [line for line in text.splitlines() if len(line) > columns] == []
    assert ("paceline" in examples) == (verb in ("run", "doctor"))


def test_a_plan_of_packs_is_told_from_lengths_in_text_and_in_numpy_files(tmp_path: Path) -> None:
    numpy.save(tmp_path / "lengths.npy", numpy.loadtxt(EXAMPLES / "lengths.txt", dtype=int))
    packs = ("--ranks", "3", "--max-tokens", "512", "--too-long", "split", "--packs", "2", "--width", "64", "--json")
    text = paceline("plan", "--lengths", "lengths.txt", *packs, cwd=EXAMPLES)
    binary = paceline("plan", "--lengths", str(tmp_path / "lengths.npy"), *packs, cwd=EXAMPLES)
    assert text.stdout == binary.stdout
    told = json.loads(text.stdout)
    assert told["packs"]["num_used"] == 500
    assert told["packs"]["num_cut"] > 0
    assert told["packed_in_turn"]["will_deadlock"]


def test_a_file_of_lengths_without_content_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "empty.npy").touch()
    done = paceline("plan", "--ranks", "2", "--lengths", "empty.npy", "--max-tokens", "9", cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "empty.npy" in done.stderr


def test_check_writes_a_page_and_keeps_its_output_and_exit_code(tmp_path: Path) -> None:
    page = tmp_path / "check.html"
    done = paceline("check", "loaders.py:clamped", "--ranks", "7", "--json", "--page", str(page), cwd=EXAMPLES)
    assert done.returncode == 90
    assert json.loads(done.stdout)["outcome"] == "broken"
    assert f"written: {page}" in done.stderr
    text = page.read_text()
    assert "From step 3 on (counted from 0) not all ranks have a batch." in text
    assert "How ranks differ" in text


def test_a_page_of_a_check_that_cannot_be_written_is_refused_before_the_check() -> None:
    done = paceline("check", "loaders.py:clamped", "--ranks", "7", "--page", "/no/such/folder/page.html", cwd=EXAMPLES)
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be written" in done.stderr
