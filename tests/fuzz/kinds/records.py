"""What a run leaves on disk and in shared memory, and what the Flight Recorder dumps."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fuzz.kinds import Attempt, Kind
from tests.fuzz.spoiled_values import spoil_bytes, spoil_json, spoil_value
from tests.report.recorded import Job

from paceline.doctor.flight import finding_of, read_flight_records
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.run import run_registry
from paceline.guard.run.run_folder import become_judge
from paceline.guard.run.run_registry import announce_run, find_runs, open_outcome, read_outcome, read_warnings
from paceline.report.evidence.run_files import find_run, read_run
from paceline.report.page.render import render_page
from paceline.report.page.run_page import page_of_run
from paceline.report.text.doctor_text import flight_as_text
from paceline.report.trace import write_trace

_SPOILED_BYTES = 2048


def record_run(folder: Path) -> Path:
    """Record a run of three ranks with a finding, the lines of its source and the notes of a loader."""
    job = Job(folder, 3)
    for _ in range(5):
        job.together("Allreduce")
    job.enter(0, "Barrier")
    job.enter(2, "Barrier")
    waiting = {
        "ranks": [0, 2], "state": "blocked", "call": "Barrier", "communicator": "WORLD", "sequence": 6,
        "site": "train.py:3", "count": None, "dtype": None, "detail": "", "has_returned": False,
    }  # fmt: skip
    finding = {
        "kind": "peer-gone", "field": None, "ranks": [1], "summary": "rank 1 ended", "cause": "early-exit",
        "advice": "let every rank make the same calls", "latency_ms": 3.0, "groups": [waiting],
        "divergence": {"sequence": 6, "communicator": "WORLD", "groups": [waiting]}, "explanations": [],
    }  # fmt: skip
    end = {"rank": 1, "kind": "exited", "detail": "sys.exit(0)", "site": "train.py:2", "at_ns": 10}
    job.finish(finding, ends=[end])
    (folder / "sources.json").write_text(json.dumps({"version": 1, "lines": {"train.py": {"2": "a", "3": "b"}}}))
    notes: list[dict[str, Any]] = [{"pass": 0, "num_steps": 2, "batch_size": 4, "rank": 0, "world_size": 3}]
    notes += [{"step": step, "rows": 4, "real": 4, "waited_us": 9, "before": 1.5, "after": 1.0} for step in range(2)]
    lines = [json.dumps({"loader": 0, "at_ns": 5 + number, **note}) for number, note in enumerate(notes)]
    (folder / f"work.{os.getpid()}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def _spoil_ring(chance: random.Random, content: bytes) -> bytes:
    """Spoil a ring where there is something: the header, the first calls, the texts."""
    start = chance.choice([0, 40_960, content.rindex(b"}\n") - 2000])
    part = spoil_bytes(chance, content[start : start + _SPOILED_BYTES])[:_SPOILED_BYTES]
    return content[:start] + part.ljust(_SPOILED_BYTES, b"\0") + content[start + _SPOILED_BYTES :]


def records(folder: Path) -> Attempt:
    """Spoil one file of a record, and make the page and the trace of it."""
    record = record_run(folder / "run")
    names = [path.name for path in sorted(record.iterdir()) if path.suffix in (".json", ".jsonl")]
    rings = [path.name for path in sorted(record.glob("ring.*"))]

    def attempt(chance: random.Random) -> None:
        spoiled = folder / "spoiled"
        shutil.rmtree(spoiled, ignore_errors=True)
        shutil.copytree(record, spoiled)
        name = chance.choice([*names, *names, *rings])
        content = (record / name).read_bytes()
        if name in rings:
            content = _spoil_ring(chance, content)
        elif name.endswith(".jsonl"):
            content = b"\n".join(spoil_json(chance, line) for line in content.splitlines())
        else:
            content = spoil_json(chance, content)
        (spoiled / name).write_bytes(content)
        files = read_run(find_run(spoiled))
        page = render_page(page_of_run(files))
        assert "<img src=x onerror" not in page
        write_trace(files, folder / "trace.json")

    return attempt


def rings(folder: Path) -> Attempt:
    """Spoil rings of a run in progress, and have the judge read them."""
    record = record_run(folder / "run")
    contents = {path.name: path.read_bytes() for path in sorted(record.glob("ring.*"))}

    def attempt(chance: random.Random) -> None:
        live = folder / "live"
        shutil.rmtree(live, ignore_errors=True)
        live.mkdir()
        for name, content in contents.items():
            (live / name).write_bytes(_spoil_ring(chance, content) if chance.random() < 0.7 else content)
        held = LocalRings(live)
        try:
            for job in held.jobs():
                job.snapshot(history=1000)
        finally:
            held.close()

    return attempt


def announcements(folder: Path) -> Attempt:
    """Spoil what a run in progress says of itself."""
    run_registry.MEMORY = folder  # type: ignore[attr-defined]
    own = folder / "paceline-run-x"
    own.mkdir(mode=0o700)
    become_judge(own)  # its lock holds until this process ends
    announce_run(own, ["mpiexec", "train"], None)
    about = (own / "about.json").read_bytes()
    (run,) = [run for run in find_runs() if run.folder == own]
    warning = {"cause": "handle-leak", "ranks": [0], "summary": "s", "advice": "a", "sites": ["a.py:3"]}
    outcome = {"version": 1, "outcome": "ok", "exit_code": 0, "finding": None, "warnings": [warning], "records": None}

    def attempt(chance: random.Random) -> None:
        (own / "about.json").write_bytes(spoil_json(chance, about))
        (own / "warnings.jsonl").write_bytes(spoil_json(chance, json.dumps(warning).encode()) + b"\n")
        (own / "outcome.json").write_bytes(spoil_json(chance, json.dumps(outcome).encode()))
        find_runs()
        read_warnings(run)
        with open_outcome(run) as file:
            read_outcome(file)

    return attempt


def flight(folder: Path) -> Attempt:
    """Spoil dumps of the Flight Recorder."""
    entry = {
        "process_group": ("0", "default"), "profiling_name": "gloo:all_reduce", "collective_seq_id": 1,
        "input_sizes": [[3]], "input_dtypes": ["Float"], "state": "scheduled", "retired": False,
        "frames": [{"filename": "/a/b.py", "line": 3, "name": "f"}],
    }  # fmt: skip
    good = {"version": "2.5", "entries": [entry, {**entry, "collective_seq_id": 2}]}
    (folder / "rank_1").write_bytes(pickle.dumps(good))

    def attempt(chance: random.Random) -> None:
        value = json.loads(json.dumps(good))
        choices: list[Callable[[], bytes]] = [
            lambda: spoil_bytes(chance, pickle.dumps(good, chance.randrange(6))),
            lambda: spoil_json(chance, json.dumps(good).encode()),
            lambda: pickle.dumps(spoil_value(chance, value)),
            # the memo of a pickle, and its long texts, have any size that the file names
            lambda: b"]r" + (1 << chance.randrange(10, 31)).to_bytes(4, "little") + b".",
            lambda: b"\x8e" + (1 << chance.randrange(10, 60)).to_bytes(8, "little") + b"x.",
            lambda: b"]" * 100_000 + b"a" * 99_999 + b".",
        ]
        weights = [20, 20, 20, 3, 3, 1]
        (folder / "rank_0").write_bytes(chance.choices(choices, weights)[0]())
        found = read_flight_records(folder)
        flight_as_text(found)
        finding_of(found)

    return attempt


KINDS = {
    "records of a run": Kind(prepare=records, share=0.2),
    # the judge tells any error as a fault of the guard, and the job goes on; what matters is that it ends
    "rings of a run in progress": Kind(prepare=rings, allowed=Exception, share=0.5),
    "what a run says of itself": Kind(prepare=announcements),
    "dumps of the Flight Recorder": Kind(prepare=flight),
}
