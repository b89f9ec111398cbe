"""What is kept of a run is what was there: its records, its outcome and the lines around its calls."""

from __future__ import annotations

from pathlib import Path

from tests.guard.recorded_calls import BARRIER

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.run.kept_records import write_used
from paceline.guard.run.kept_source import keep_lines
from paceline.guard.run.run_registry import (
    OngoingRun,
    RunOutcome,
    announce_run,
    open_outcome,
    read_outcome,
    write_outcome,
)
from paceline.guard.shared_memory import layout
from paceline.guard.verdict.finding import (
    Cause,
    Finding,
    FindingField,
    FindingKind,
    FirstDifference,
    GroupState,
    RankGroup,
)


def test_a_kept_record_is_the_same_and_takes_only_the_space_that_was_used(
    recorder: Recorder, world: Communicator, tmp_path: Path
) -> None:
    recorder.begin_collective(world, BARRIER, depth=1)
    source, kept = recorder.folder / f"ring.{recorder.name}", tmp_path / "kept"
    num_bytes = write_used(source.read_bytes(), kept)
    assert kept.read_bytes() == source.read_bytes()
    assert num_bytes < layout.RING_BYTES // 16


def test_an_outcome_is_read_as_it_was_written(tmp_path: Path) -> None:
    blocked = RankGroup(
        ranks=(0, 2), state=GroupState.BLOCKED, call="Barrier", communicator="WORLD", sequence=4, site="a.py:3"
    )
    returned = RankGroup(
        ranks=(1,), state=GroupState.RUNNING, call="Bcast", site="a.py:9", detail="root 0", has_returned=True
    )
    finding = Finding(
        kind=FindingKind.MISMATCH, field=FindingField.OPERATION, ranks=(1,), summary="rank 1 calls Bcast",
        cause=Cause.CALL_ORDER, advice="call alike", groups=(blocked, returned), latency_ms=1.5,
        first_difference=FirstDifference(
            sequence=3, communicator="WORLD",
            groups=tuple(
                RankGroup(ranks=(rank,), state=GroupState.BLOCKED, call="Bcast", site=f"a.py:{rank}")
                for rank in range(2)
            ),
        ),
    )  # fmt: skip
    announce_run(tmp_path, ["mpiexec", "train"], None)
    ongoing = OngoingRun(folder=tmp_path, pid=1, command=(), cwd=tmp_path, out=None, began=0.0)
    with open_outcome(ongoing) as file:
        assert read_outcome(file) is None  # it has not ended
        for outcome in (
            RunOutcome(exit_code=None, finding=None, records=None),
            RunOutcome(exit_code=90, finding=finding, records=tmp_path / "kept"),
        ):
            write_outcome(tmp_path, outcome)
            assert read_outcome(file) == outcome
        (tmp_path / "outcome.json").write_text('{"version": 1, "outc')  # killed while it wrote
        assert read_outcome(file) is None


def test_lines_around_sites_are_kept_and_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("\n".join(f"line {number}" for number in range(1, 21)) + "\n")
    sites = [(str(tmp_path), "train.py:10"), (str(tmp_path), "gone.py:3"), (str(tmp_path), "<stdin>:1"), ("", "?:0")]
    kept = keep_lines([*sites, (str(tmp_path), "train.py:19")])
    assert list(kept) == ["train.py"]
    assert list(kept["train.py"]) == [str(number) for number in range(5, 21)]
    assert kept["train.py"]["10"] == "line 10"
