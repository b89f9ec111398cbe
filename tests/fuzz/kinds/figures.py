"""Figures that runs of the benchmark have written: summaries that are compared, and logs of ranks that have failed."""

from __future__ import annotations

import io
import json
import random
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from tests.fuzz.kinds import Attempt, Kind
from tests.fuzz.spoiled_values import spoil_bytes, spoil_json

from paceline.bench.results.figures import figures_of
from paceline.bench.results.result_folder import summarise_failed, write_summary
from paceline.bench.results.run_summary import summary_of
from paceline.bench.training.step_log import RankLog, read_log
from paceline.bench.workload.split_plans import plan_summaries
from paceline.bench.workload.workload import load_workload
from paceline.cli.main import main
from paceline.errors import PacelineError

_WRONG_USAGE = 2


def _write_log(folder: Path, rank: int) -> Path:
    with RankLog(folder, rank) as log:
        log.note("rank", rank=rank, world_size=2, host="here", carrier="torch", cpu_count=2, memory_bytes=9, began=1.0)
        log.note("first_batch", first_batch_seconds=0.2)
        for step in range(4):
            log.step("train", 0, step, (0.1, 0.2, 0.1), 4, 400)
        log.note("epoch", phase="train", epoch=0, seconds=1.0, cpu=0.3, asked=400, from_device=0)
        log.note("checkpoint", bytes=100, save=0.1, load=0.1)
        log.note("end", ended=3.0)
    return folder / f"{rank}.jsonl"


def summaries(folder: Path) -> Attempt:
    """Spoil the summary of a run, and compare it with another."""
    workload = load_workload("small").workload
    logs = [_write_log(folder / "logs", rank) for rank in range(2)]
    ranks = [figures_of(read_log(path), exclude_start=1, exclude_end=0) for path in logs]
    summary = summary_of(ranks, workload, plans=plan_summaries(workload, 2), num_bytes=1600)
    for name in ("a", "b"):
        (folder / name).mkdir()
        write_summary(folder / name, summary)
    content = (folder / "a" / "summary.json").read_bytes()

    def attempt(chance: random.Random) -> None:
        (folder / "b" / "summary.json").write_bytes(spoil_json(chance, content))
        output = io.StringIO()
        with redirect_stdout(output), redirect_stderr(output):
            code = main(["bench", "compare", str(folder / "a"), str(folder / "b")])
        assert code in (0, _WRONG_USAGE), code
        assert "\x1b" not in output.getvalue(), "control characters reach the terminal"
        if code == _WRONG_USAGE:
            raise PacelineError(output.getvalue())

    return attempt


def logs(folder: Path) -> Attempt:
    """Spoil the log of a rank, and make the summary of a failed run of it."""
    workload = load_workload("small").workload
    good = _write_log(folder / "good", 0).read_bytes()

    def attempt(chance: random.Random) -> None:
        run = folder / "run"
        shutil.rmtree(run, ignore_errors=True)
        _write_log(run, 0)
        if chance.random() < 0.3:
            content = spoil_bytes(chance, good)
        else:
            lines = good.splitlines()
            place = chance.randrange(len(lines))
            lines[place] = spoil_json(chance, lines[place])
            content = b"\n".join(lines) + b"\n"
        (run / "1.jsonl").write_bytes(content)
        summary = summarise_failed(run, workload, world_size=2, num_bytes=1600, outcome="failed")
        json.dumps(summary)

    return attempt


KINDS = {
    "summaries of runs": Kind(prepare=summaries, allowed=PacelineError),
    "logs of ranks": Kind(prepare=logs, allowed=PacelineError),
}
