"""What is read of a run's files: who waited for whom, and what is said of files that are cut off or broken."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
from tests.report.recorded import WORLD, Job, finding

from paceline.errors import InputError
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.layout import ANY, NOTHING
from paceline.guard.shared_memory.operations import BY_CODE, BY_NAME
from paceline.report.evidence.call_table import Calls, gather_calls
from paceline.report.evidence.run_files import RunFiles, find_run, read_run
from paceline.report.evidence.steps import find_steps
from paceline.report.evidence.waiting import Waits, find_waits
from paceline.report.evidence.waiting_costs import find_costs
from paceline.report.evidence.work import find_work
from paceline.report.page.run_page import page_of_run


def read(folder: Path, out_of_line: tuple[int, ...] = ()) -> tuple[Calls, Waits]:
    run = read_run(folder)
    calls = gather_calls(run.ranks, run.about.get("ended_ns"))
    return calls, find_waits(calls, out_of_line)


def test_all_wait_for_the_rank_that_comes_last(tmp_path: Path) -> None:
    job = Job(tmp_path, 3)
    job.together("Barrier", late=2, seconds=0.05)
    calls, waits = read(job.finish())
    assert waits.for_rank.tolist() == [2, 2, -1]
    assert (waits.waited[:2] >= 50_000_000).all()
    assert waits.waited[2] == 0
    costs = find_costs(calls, waits)
    assert max(costs.ranks, key=lambda cost: cost.seconds_caused).rank == 2
    assert [site.mostly_for for site in costs.sites] == [2]


def test_a_broadcast_waits_for_its_root_alone(tmp_path: Path) -> None:
    job = Job(tmp_path, 3)
    first, second = job.enter(1, "Bcast", root=0), job.enter(0, "Bcast", root=0)
    job.leave(0, second)
    job.leave(1, first)
    time.sleep(0.03)
    job.leave(2, job.enter(2, "Bcast", root=0))
    _, waits = read(job.finish())
    assert waits.for_rank.tolist() == [-1, 0, -1]  # rank 2 came last, and nobody needed it


def test_a_reduction_makes_its_root_wait_and_nobody_else(tmp_path: Path) -> None:
    job = Job(tmp_path, 3)
    job.together("Reduce", late=2, seconds=0.01, root=0)
    _, waits = read(job.finish())
    assert waits.for_rank.tolist() == [2, -1, -1]


def test_a_call_that_never_returned_waits_to_the_end_for_who_is_missing(tmp_path: Path) -> None:
    job = Job(tmp_path, 3)
    job.together("Barrier")
    job.enter(0, "Barrier")
    job.enter(2, "Barrier")
    time.sleep(0.02)
    calls, waits = read(job.finish(finding()), out_of_line=(1,))
    still = np.flatnonzero(calls.is_open)
    assert calls.rank[still].tolist() == [0, 2]
    assert waits.for_rank[still].tolist() == [1, 1]
    assert (waits.waited[still] >= 20_000_000).all()


def test_a_receive_waits_until_its_message_is_sent(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    sender, receiver = job.recorders
    taken = receiver.begin_message(0, BY_NAME["Recv"].code, message_number=1, peer=0, tag=7, depth=1)
    receiver.block(taken)
    time.sleep(0.02)
    sent = sender.begin_message(0, BY_NAME["Send"].code, message_number=1, peer=1, tag=7, depth=1)
    sender.block(sent)
    sender.unblock(sent)
    receiver.unblock(taken)
    _, waits = read(job.finish())
    assert waits.sent_by.tolist() == [NOTHING, 0]
    assert waits.for_rank.tolist() == [-1, 0]
    assert waits.waited[1] >= 20_000_000


def exchanged(job: Job, *, tags: tuple[int, ...], wanted: int) -> list[int]:
    """Send a message with each tag from rank 0 to 1, which receives them; return who was matched with whom."""
    sender, receiver = job.recorders
    for tag in tags:
        sender.leave(sender.begin_message(0, BY_NAME["Send"].code, message_number=1, peer=1, tag=tag, depth=1))
    for _ in tags:
        receiver.leave(receiver.begin_message(0, BY_NAME["Recv"].code, peer=0, tag=wanted, depth=1))
    _, waits = read(job.finish())
    matched: list[int] = waits.sent_by[len(tags) :].tolist()
    return matched


def test_receives_of_any_tag_take_messages_in_their_order(tmp_path: Path) -> None:
    assert exchanged(Job(tmp_path, 2), tags=(5, 3, 4), wanted=ANY) == [0, 1, 2]


def test_receives_that_may_have_taken_another_message_are_not_matched(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    receiver = job.recorders[1]
    receiver.leave(receiver.begin_message(0, BY_NAME["Recv"].code, peer=ANY, tag=ANY, depth=1))
    assert set(exchanged(job, tags=(5, 3), wanted=ANY)) == {NOTHING}


def test_more_calls_than_a_record_holds_leave_the_last_ones(tmp_path: Path) -> None:
    job = Job(tmp_path, 1)
    for _ in range(layout.NUM_SLOTS + 10):
        job.together("Barrier")
    run = read_run(job.finish())
    record = run.ranks[0]
    assert (record.num_calls, len(record.calls)) == (layout.NUM_SLOTS + 10, layout.NUM_SLOTS)
    assert record.calls["number"].tolist() == list(range(11, layout.NUM_SLOTS + 11))
    assert "a record keeps the last 4,096 calls" in page_of_run(run).missing[0]


def test_steps_are_seen_at_the_site_of_most_calls_if_no_loader_noted_them(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    for _ in range(5):
        job.together("Barrier")
    calls, _ = read(job.finish())
    steps = find_steps(calls, {})
    assert steps is not None
    assert len(steps.marks) == 5
    assert [len(times) for times in steps.seconds.values()] == [4, 4]
    assert "Barrier at tests/report/recorded.py" in steps.source


def notes_of(rank: int, *, is_complete: bool) -> list[dict[str, object]]:
    notes: list[dict[str, object]] = [{"loader": 0, "at_ns": 10, "pass": 3, "num_steps": 2, "rank": rank}]
    for step in range(2):
        even = {"before": 1.5, "after": 1.25, "moved": 4}
        notes.append({"loader": 0, "at_ns": 20 + step, "step": step, "rows": 8, "real": 8 - rank, **even})
    if is_complete:
        summary = {"num_steps": 2, "num_used": 30, "num_padded": 2, "num_dropped": 1, "num_repeated": 0}
        notes.append({"loader": 0, "at_ns": 30, "summary": {**summary, "seconds": 2.0, "seconds_waiting": 0.5}})
    return notes


def test_work_is_added_up_over_ranks() -> None:
    work = find_work({rank: notes_of(rank, is_complete=True) for rank in range(2)})
    assert work is not None
    assert [(step.num_rows, step.num_real, step.num_moved) for step in work.steps] == [(16, 15, 4)] * 2
    (epoch,) = work.epochs
    assert (epoch.epoch, epoch.is_complete, epoch.counts["num_dropped"]) == (3, True, 1)
    assert (epoch.imbalance_before, epoch.imbalance_after, epoch.num_moved) == (1.5, 1.25, 8)
    assert epoch.padding_share == pytest.approx(1 / 16)


def test_a_pass_that_was_cut_short_is_shown_with_what_is_known() -> None:
    work = find_work({0: notes_of(0, is_complete=False)})
    assert work is not None
    assert (work.epochs[0].is_complete, work.epochs[0].counts) == (
        False,
        {"num_steps": 2, "num_used": 16, "num_padded": 0},
    )


def three_barriers(folder: Path) -> Path:
    job = Job(folder, 3)
    for _ in range(3):
        job.together("Barrier")
    return job.finish()


def broken(tmp_path: Path, name: str, raw: bytes) -> RunFiles:
    folder = three_barriers(tmp_path)
    (folder / name).write_bytes(raw)
    return read_run(folder)


@pytest.mark.parametrize("name", ["run.json", "diagnosis.json", "sources.json"])
@pytest.mark.parametrize("raw", [b"", b'{"version": 1, "fin', b"[1, 2]", b"\xff\xfe\x00", b"[" * 100_000])
def test_a_broken_file_of_values_is_said_and_the_rest_is_shown(tmp_path: Path, name: str, raw: bytes) -> None:
    run = broken(tmp_path, name, raw)
    assert [sentence for sentence in run.missing if sentence.startswith(f"{name} cannot be read")]
    page = page_of_run(run)
    assert page.timeline is not None
    assert page.timeline["num_calls"] == 9


@pytest.mark.parametrize("name", ["run.json", "diagnosis.json", "sources.json"])
def test_a_missing_file_of_values_is_said(tmp_path: Path, name: str) -> None:
    folder = three_barriers(tmp_path)
    (folder / name).unlink()
    run = read_run(folder)
    assert [sentence for sentence in run.missing if sentence.startswith(f"{name} is not there")]
    assert page_of_run(run).timeline is not None


@pytest.mark.parametrize("size", [0, 3, 4096, layout.RECORDS_AT + 64, layout.RECORDS_AT + 200, layout.TEXT_AT + 20])
def test_a_record_that_is_cut_off_is_shown_as_far_as_it_goes(tmp_path: Path, size: int) -> None:
    folder = three_barriers(tmp_path)
    path = folder / f"ring.{WORLD}.1"
    path.write_bytes(path.read_bytes()[:size])
    run = read_run(folder)
    assert any(sentence.startswith("rank 1: its record is") for sentence in run.missing)
    page = page_of_run(run)
    assert page.timeline is not None
    assert page.timeline["num_calls"] >= 6


def test_records_of_noise_do_not_pass_for_calls(tmp_path: Path) -> None:
    folder = three_barriers(tmp_path)
    noise = np.random.default_rng(0)
    path = folder / f"ring.{WORLD}.0"
    raw = bytearray(path.read_bytes())
    raw[layout.WAITED_AT :] = noise.bytes(len(raw) - layout.WAITED_AT)
    path.write_bytes(raw)
    run = read_run(folder)
    assert any(sentence.startswith("rank 0: 4,096 of its calls are not readable") for sentence in run.missing)
    assert len(run.ranks[0].calls) == 0
    assert page_of_run(run).timeline is not None


def test_any_single_bad_byte_still_gives_a_page(tmp_path: Path) -> None:
    """Each word of the header, and the records, are turned over in turn."""
    folder = three_barriers(tmp_path)
    path = folder / f"ring.{WORLD}.2"
    whole = path.read_bytes()
    offsets = [*range(0, 160, 5), *range(layout.RECORDS_AT, layout.RECORDS_AT + 384, 7), layout.TEXT_AT + 9]
    for offset in offsets:
        raw = bytearray(whole)
        raw[offset] ^= 0xFF
        path.write_bytes(raw)
        assert page_of_run(read_run(folder)).verdict is not None


def test_a_run_without_any_record_has_a_verdict(tmp_path: Path) -> None:
    folder = three_barriers(tmp_path)
    for path in folder.glob("ring.*"):
        path.unlink()
    page = page_of_run(read_run(folder))
    assert (page.timeline, page.costs) == (None, None)
    assert page.verdict is not None
    assert page.verdict.label == "ended well"
    assert any("no record of any rank" in sentence for sentence in page.missing)


def test_notes_of_a_loader_that_are_cut_off_are_counted(tmp_path: Path) -> None:
    folder = three_barriers(tmp_path)
    pid = read_run(folder).ranks[0].pid
    lines = [json.dumps(note) for note in notes_of(0, is_complete=False)]
    (folder / f"work.{pid}.jsonl").write_text("\n".join([*lines, '{"loader": 0, "at', "null", "7"]))
    run = read_run(folder)
    assert len(run.work[pid]) == 3
    assert any(sentence.startswith("3 notes of the loader") for sentence in run.missing)
    assert page_of_run(run).work is not None


def test_the_latest_run_of_a_folder_is_taken(tmp_path: Path) -> None:
    for name in ("20260101-000000", "20260101-000001"):
        three_barriers(tmp_path / name)
    assert find_run(tmp_path).name == "20260101-000001"
    assert find_run(tmp_path / "20260101-000000").name == "20260101-000000"


def test_the_folder_of_a_benchmarks_figures_leads_to_its_records(tmp_path: Path) -> None:
    three_barriers(tmp_path / "records" / "20260101-000000")
    assert find_run(tmp_path).name == "20260101-000000"


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no run in"):
        find_run(tmp_path)
    with pytest.raises(InputError, match="there is no folder"):
        find_run(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is not a folder"):
        find_run(tmp_path / "file")


def test_a_site_that_ranks_number_differently_is_one_site(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    job.together("Barrier")
    calls, _ = read(job.finish())
    assert len({calls.sites[site] for site in calls.site.tolist()}) == 1
    assert {BY_CODE[code].name for code in calls.operation.tolist()} == {"Barrier"}
