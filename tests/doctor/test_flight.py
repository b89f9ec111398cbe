"""Dumps of torch's Flight Recorder: where ranks parted, and files that would rather run something."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.doctor.flight import read_flight_records
from paceline.doctor.flight_entries import DumpReader
from paceline.errors import InputError
from paceline.report.text.doctor_text import doctor_as_json, flight_as_text


def entry(sequence: int, operation: str, *, line: int = 7, retired: bool = True, size: int = 4) -> dict[str, Any]:
    """Return an entry as torch 2.13 writes it on gloo."""
    library = "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
    return {
        "frames": [{"name": operation, "filename": library, "line": 3245},
                   {"name": "train", "filename": "/home/me/train.py", "line": line}],
        "record_id": sequence, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": sequence,
        "p2p_seq_id": 0, "op_id": sequence, "profiling_name": f"gloo:{operation}", "input_sizes": [[size]],
        "input_dtypes": ["Float"], "output_sizes": [[size]], "output_dtypes": ["Float"], "state": "scheduled",
        "retired": retired, "timeout_ms": 1800000, "is_p2p": False,
    }  # fmt: skip


def write(
    folder: Path, rank: int, entries: list[dict[str, Any]], *, as_json: bool = False, **more: dict[str, Any]
) -> None:
    dump = {"version": "2.10", "pg_config": {}, "entries": entries, **more}
    if as_json:
        (folder / f"trace_{rank}.json").write_text(json.dumps(dump))
    else:
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump, protocol=2))


def test_the_first_call_that_differs_is_named(tmp_path: Path) -> None:
    for rank in range(3):
        write(tmp_path, rank, [entry(1, "all_reduce"), entry(2, "all_reduce" if rank else "barrier", line=9 + rank)])
    found = read_flight_records(tmp_path)
    assert found.mismatch == (
        "call 2 of group 0 (default_pg) differs: ranks 1-2 all_reduce at /home/me/train.py:10; "
        "rank 0 barrier at /home/me/train.py:9"
    )
    assert (found.ranks, found.odd_ranks) == ((0, 1, 2), (0,))
    finding = doctor_as_json(90, [], found)["finding"]
    assert (finding["kind"], finding["ranks"], finding["summary"]) == ("mismatch", [0], found.mismatch)
    assert [(group["ranks"], group["call"], group["sequence"]) for group in finding["groups"]] == [
        ([1, 2], "all_reduce", 2),
        ([0], "barrier", 2),
    ]


def test_sizes_count_where_they_must_be_equal_and_only_there(tmp_path: Path) -> None:
    write(tmp_path, 0, [entry(1, "all_gather", size=3), entry(2, "all_reduce", size=3)], as_json=True)
    write(tmp_path, 1, [entry(1, "all_gather", size=4), entry(2, "all_reduce", size=4)], as_json=True)
    found = read_flight_records(tmp_path)
    assert found.mismatch is not None
    assert found.mismatch.startswith("call 2 of group")


def test_a_rank_that_is_behind_is_said_and_no_finding(tmp_path: Path) -> None:
    write(tmp_path, 0, [entry(1, "barrier"), entry(2, "all_reduce", retired=False)])
    write(tmp_path, 1, [entry(1, "barrier")])
    found = read_flight_records(tmp_path)
    assert found.mismatch is None
    assert "rank 0 in call 2 of group 0 (default_pg), all_reduce at /home/me/train.py:7" in found.says[0]
    assert "rank 1 to call 1" in found.says[0]


def of_group(name: str, value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "process_group": (name, f"mesh_{name}"), "pg_id": int(name)}


# four ranks in two rows and two columns, and all of them
CONFIG: dict[str, dict[str, Any]] = {
    "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"},
    "1": {"name": "1", "desc": "mesh_1", "ranks": "[0, 1]"},
    "2": {"name": "2", "desc": "mesh_2", "ranks": "[2, 3]"},
    "3": {"name": "3", "desc": "mesh_3", "ranks": [0, 2]},
}


def test_those_who_are_waited_for_and_wait_for_nobody_are_the_place_to_look(tmp_path: Path) -> None:
    """Rank 3 stands still outside of any call; rank 2 waits for it, rank 0 for rank 2, and rank 1 for rank 0."""
    write(tmp_path, 0, [entry(1, "barrier"), of_group("3", entry(1, "all_gather", retired=False))], pg_config=CONFIG)
    write(tmp_path, 1, [entry(1, "barrier"), of_group("1", entry(1, "all_reduce", retired=False))], pg_config=CONFIG)
    write(tmp_path, 2, [entry(1, "barrier"), of_group("2", entry(1, "all_reduce", retired=False))], pg_config=CONFIG)
    write(tmp_path, 3, [entry(1, "barrier")], pg_config=CONFIG)
    found = read_flight_records(tmp_path)
    assert (found.mismatch, found.look_at) == (None, (3,))
    assert len(found.says) == 4
    assert found.says[-1] == "probably the place to look: rank 3, waited for, and seen to wait for nobody"
    assert doctor_as_json(0, [], found)["flight_recorder"]["look_at"] == [3]


@pytest.mark.parametrize("left", ["without calls", "nothing"])
def test_ranks_that_stand_still_and_left_no_calls_are_found_by_their_group(tmp_path: Path, left: str) -> None:
    for rank in (0, 2):
        write(tmp_path, rank, [entry(1, "barrier"), entry(2, "all_reduce", retired=False)], pg_config=CONFIG)
    for rank in (1, 3) if left == "without calls" else ():
        write(tmp_path, rank, [], pg_config=CONFIG)
    found = read_flight_records(tmp_path)
    assert found.look_at == (1, 3)
    how = "left a dump without calls" if left == "without calls" else "left no dump"
    assert found.says[0] == (
        "ranks 0, 2 in call 2 of group 0 (default_pg), all_reduce at /home/me/train.py:7, for ranks 1, 3; when the "
        f"dumps were made, those had come only so far: rank 1 {how}, rank 3 {how}"
    )


def test_what_has_fallen_out_of_the_buffer_is_told_by_the_status(tmp_path: Path) -> None:
    """Rank 1 has long made call 2, and only remembers calls of another group and how far it came in this one."""
    write(tmp_path, 0, [entry(2, "all_reduce", retired=False)], pg_config=CONFIG)
    p2p = {**entry(9, "send"), "is_p2p": True}
    status = {"0": {"last_enqueued_collective": 7, "last_started_collective": 7, "last_completed_collective": 6}}
    write(tmp_path, 1, [p2p], pg_config={"0": {**CONFIG["0"], "ranks": "[0, 1]"}}, pg_status=status)
    found = read_flight_records(tmp_path)
    assert (found.says, found.look_at) == ((), ())


@pytest.mark.parametrize("ranks", ["[0, 1", "{}", [10**30], ["x"], "[-5]", None])
def test_a_list_of_members_that_is_none_makes_a_dump_unreadable(tmp_path: Path, ranks: Any) -> None:
    write(tmp_path, 0, [entry(1, "barrier")])
    write(tmp_path, 1, [entry(1, "barrier")], pg_config={"0": {"name": "0", "desc": "x", "ranks": ranks}})
    found = read_flight_records(tmp_path)
    assert (found.ranks, len(found.problems)) == ((0,), 1)


def test_one_list_named_by_many_groups_does_not_fill_the_memory(tmp_path: Path) -> None:
    members = list(range(1_000_000))
    groups = {str(number): {"name": str(number), "desc": "x", "ranks": members} for number in range(6)}
    write(tmp_path, 0, [entry(1, "barrier")])
    write(tmp_path, 1, [entry(1, "barrier")], pg_config=groups)
    found = read_flight_records(tmp_path)
    assert found.ranks == (0,)
    assert "more than 4,000,000 members together" in found.problems[0]


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch owned",)


def test_a_pickle_that_wants_more_than_data_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, 0, [entry(1, "barrier")])
    (tmp_path / "nccl_trace_rank_1").write_bytes(pickle.dumps({"entries": [_Evil()]}))
    (tmp_path / "nccl_trace_rank_2").write_bytes(b"\x80")
    (tmp_path / "notes.txt").write_text("no dump")
    found = read_flight_records(tmp_path)
    assert found.ranks == (0,)
    assert not (tmp_path / "owned").exists()
    assert len(found.problems) == 2
    assert "nccl_trace_rank_1 is not a readable dump: it asks for posix.system" in found.problems[0]
    assert "\x1b" not in flight_as_text(found)


def test_a_folder_without_dumps_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no dump of the Flight Recorder"):
        read_flight_records(tmp_path)
    with pytest.raises(InputError, match="there is no folder"):
        read_flight_records(tmp_path / "nowhere")


CALLS = st.builds(
    entry, st.integers(1, 4), st.sampled_from(["all_reduce", "barrier"]), line=st.integers(7, 8), retired=st.booleans(),
    size=st.integers(3, 4),
)  # fmt: skip
AS_OLDER = CALLS.map(lambda value: {name: told for name, told in value.items() if name != "input_dtypes"})
MESSAGES = CALLS.map(lambda value: {**value, "is_p2p": True})


@given(st.lists(st.lists(CALLS | AS_OLDER | MESSAGES, max_size=6), max_size=5))
def test_what_was_read_of_other_ranks_changes_nothing(pasts: list[list[dict[str, Any]]]) -> None:
    """Equal calls are found again and not read again: each dump must say what it would say alone."""
    status = {"0": {"last_enqueued_collective": 3}}
    dumps = [{"entries": calls, "pg_config": CONFIG, "pg_status": status} for calls in pasts]
    together = DumpReader()
    assert [together.read(dump) for dump in dumps] == [DumpReader().read(dump) for dump in dumps]


def test_ranks_with_equal_calls_share_them() -> None:
    reader = DumpReader()
    first, second, other = (reader.read({"entries": [entry(1, "barrier"), entry(2, name)]}) for name in "aab")
    assert first.entries is second.entries
    assert other.entries[0] is first.entries[0]
    assert other.entries[1] is not first.entries[1]
