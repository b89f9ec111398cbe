"""Warnings, on jobs that are made by hand: what is said, of which ranks and lines, and when nothing may be said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.guard.verdict.simulated import SPLIT, WORLD, communicators, message

from paceline.errors import InputError
from paceline.guard.shared_memory.layout import ANY
from paceline.guard.verdict.finding_json import (
    diagnosis_to_json,
    warning_from_json,
    warning_to_json,
    warnings_from_json,
)
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.job_warning import JobWarning, WarningCause, read_causes
from paceline.guard.verdict.snapshot import Call, End, EndKind, RankState, Remark, Snapshot
from paceline.guard.verdict.warnings.find_warnings import find_warnings
from paceline.guard.verdict.warnings.ignore_comment import is_ignored

ENDED = End(kind=EndKind.EXITED, exit_code=0)
ONE = JobWarning(
    cause=WarningCause.HANDLE_LEAK, ranks=(0, 2), summary="many", advice="free them", sites=("train.py:3",)
)


def warnings_of(*states: RankState, ended_well: bool = True, split: tuple[int, ...] = ()) -> list[JobWarning]:
    snapshot = Snapshot(ranks=states, communicators=communicators(len(states), split))
    return find_warnings(Inspection(snapshot), ended_well=ended_well)


def sends(rank: int, line: int, *, times: int = 1, to: int = 0, tag: int = 0, on: str = WORLD) -> RankState:
    """Return a rank that has sent messages and ended."""
    calls = tuple(
        message("Send", line, to, tag, on, dtype="f8", num_bytes=16, count=2, message_number=number + 1)
        for number in range(times)
    )
    return RankState(rank=rank, end=ENDED, sent={(on, to, tag): times}, history=calls)


def receives(rank: int, *calls: Call, received: dict[Any, int] | None = None, **more: Any) -> RankState:
    return RankState(rank=rank, end=ENDED, received=received or {}, history=calls, **more)


def test_the_classic_one_receive_from_anybody_and_three_senders() -> None:
    took = receives(0, message("Recv", 5, ANY, ANY), received={(WORLD, 2, 0): 1})
    (warning,) = warnings_of(took, *(sends(rank, 9) for rank in (1, 2, 3)))
    assert warning.cause is WarningCause.MESSAGE_NEVER_RECEIVED
    assert (warning.ranks, warning.sites) == ((1, 3), ("train.py:9", "train.py:5"))
    assert warning.summary == (
        "rank 0 never received 2 messages of ranks 1, 3 (Send at train.py:9, 2 x f8, tag 0); "
        "the receive from any rank at train.py:5 took the message of rank 2"
    )
    assert "receive on rank 0 once for every message" in warning.advice


def test_messages_do_not_overtake_so_the_last_ones_are_lost() -> None:
    calls = tuple(message("Send", line, 0, message_number=number) for number, line in ((1, 3), (2, 4), (3, 5)))
    sender = RankState(rank=1, end=ENDED, sent={(WORLD, 0, 0): 3}, history=calls)
    found = warnings_of(receives(0, received={(WORLD, 1, 0): 1}), sender)
    assert [warning.sites for warning in found] == [("train.py:4",), ("train.py:5",)]


def test_messages_of_one_line_are_one_warning_even_if_most_are_no_longer_remembered() -> None:
    sender = replace(sends(1, 9, times=500), history=sends(1, 9, times=500).history[-20:])
    (first, second) = sorted(warnings_of(receives(0), sender), key=lambda warning: warning.sites)
    assert (first.sites, second.sites) == ((), ("train.py:9",))
    assert "20 messages" in second.summary
    assert "480 messages of rank 1 (by a call that is no longer remembered" in first.summary


def test_messages_of_one_line_to_several_ranks_are_one_warning() -> None:
    rings = [sends(rank, 9, to=(rank + 1) % 3) for rank in range(3)]
    (warning,) = warnings_of(*rings)
    assert warning.summary.startswith("ranks 0-2 never received 3 messages of ranks 0-2 (Send at train.py:9")
    assert "sent to them" in warning.advice


def test_a_persistent_send_is_named_by_the_line_that_prepared_it() -> None:
    sender = RankState(rank=1, end=ENDED, sent={(WORLD, 0, 3): 2}, history=(message("Send_init", 7, 0, 3),))
    (warning,) = warnings_of(receives(0, received={(WORLD, 1, 3): 1}), sender)
    assert warning.sites == ("train.py:7",)


@pytest.mark.parametrize(
    "more",
    [{"messages_known": False}, {"num_uncertain": 1}, {"forgotten": frozenset({WORLD})}],
    ids=["not all is known", "something was cancelled", "the counts are gone"],
)
@pytest.mark.parametrize("whose", [0, 1])
def test_nothing_is_said_where_messages_are_not_all_known(more: dict[str, Any], whose: int) -> None:
    states = [receives(0), sends(1, 9)]
    assert warnings_of(*states)
    states[whose] = replace(states[whose], **more)
    assert not warnings_of(*states)


def test_nothing_is_said_of_a_job_that_runs_or_has_failed_or_was_aborted() -> None:
    assert not warnings_of(receives(0), sends(1, 9), ended_well=False)
    aborted = replace(sends(1, 9), end=End(kind=EndKind.ABORTED))
    assert not warnings_of(receives(0), aborted)


def test_a_communicator_that_both_have_freed_is_certain_while_the_job_runs() -> None:
    freed = frozenset({SPLIT})
    sender = replace(sends(1, 9, on=SPLIT), end=None, freed=freed)
    receiver = replace(receives(0, freed=freed), end=None)
    (warning,) = warnings_of(receiver, sender, ended_well=False, split=(0, 1))
    assert "on Split" in warning.summary
    assert not warnings_of(replace(receiver, freed=frozenset()), sender, ended_well=False, split=(0, 1))
    assert not warnings_of(receiver, replace(sender, freed=frozenset()), ended_well=False, split=(0, 1))


def test_a_receive_that_is_still_posted_may_have_taken_the_message() -> None:
    assert not warnings_of(receives(0, posted=(message("Irecv", 5, 1),)), sends(1, 9))


def test_every_message_received_is_no_warning() -> None:
    assert not warnings_of(receives(0, received={(WORLD, 1, 0): 4}), sends(1, 9, times=4))


def remark(about: WarningCause, what: str, *, count: int = 1, line: int = 4, **more: Any) -> Remark:
    return Remark(about=about, site=f"train.py:{line}", what=what, count=count, **more)


def remarking(rank: int, *remarks: Remark) -> RankState:
    return RankState(rank=rank, end=ENDED, remarks=remarks)


DROPPED: dict[str, Any] = {"about": WarningCause.REQUEST_NEVER_COMPLETED, "how": "dropped"}


def test_a_dropped_request_is_told_for_all_ranks_at_once() -> None:
    dropped = remark(what="Isend", **DROPPED)
    (warning,) = warnings_of(*(remarking(rank, dropped) for rank in range(3)))
    assert warning.summary == (
        "3 requests of Isend at train.py:4 were dropped before anybody waited for them (ranks 0-2)"
    )
    assert (warning.ranks, warning.sites) == ((0, 1, 2), ("train.py:4",))


def test_a_work_of_torch_is_called_a_work_and_its_operation_by_its_name() -> None:
    (warning,) = warnings_of(remarking(0, remark(what="torch.all_reduce", **DROPPED)))
    assert warning.summary.startswith("a work of all_reduce at train.py:4 was dropped")


def test_ways_that_lead_to_one_line_count_together() -> None:
    (warning,) = warnings_of(remarking(0, remark(what="Isend", **DROPPED), remark(what="Isend", count=4, **DROPPED)))
    assert warning.summary.startswith("5 requests")


def test_a_few_dropped_requests_wait_for_a_good_end_and_many_do_not() -> None:
    assert not warnings_of(remarking(0, remark(what="Isend", count=7, **DROPPED)), ended_well=False)
    assert warnings_of(remarking(0, remark(what="Isend", count=8, **DROPPED)), ended_well=False)


@pytest.mark.parametrize("how", ["left", "restarted", "freed", "uncompleted", "held"])
def test_each_end_of_a_request_has_its_own_advice(how: str) -> None:
    (warning,) = warnings_of(remarking(0, remark(WarningCause.REQUEST_NEVER_COMPLETED, "Recv_init", how=how)))
    (usual,) = warnings_of(remarking(0, remark(what="Recv_init", **DROPPED)))
    assert warning.advice != usual.advice


def test_a_leak_names_the_number_and_the_limit_of_the_library() -> None:
    facts = {"dropped": 64, "limit": 2048, "library": "MPICH"}
    (warning,) = warnings_of(remarking(1, remark(WarningCause.HANDLE_LEAK, "communicator", count=66, facts=facts)))
    for words in ("66 communicators made at train.py:4", "64 of them", "MPICH has room for about 2,048"):
        assert words in warning.summary
    assert "call Free on each" in warning.advice


def test_a_leak_is_told_while_the_job_runs() -> None:
    leak = remark(WarningCause.HANDLE_LEAK, "process group", count=32, facts={"dropped": 0})
    (warning,) = warnings_of(remarking(0, leak), ended_well=False)
    assert "destroy_process_group" in warning.advice


@pytest.mark.parametrize(
    ("how", "facts", "words", "sites"),
    [
        ("overlaps", {"other": "Irecv", "other_at": "train.py:2"}, "memory that Irecv at train.py:2 still uses", 2),
        ("used", {"other": "Irecv", "other_at": "train.py:2"}, "used the buffer of Irecv at train.py:2 before", 2),
        ("changed", {"other": "Wait", "other_at": "train.py:2"}, "not known before Wait at train.py:2", 2),
        ("changed", {}, "was written to before the call had completed (ranks 0-1, 6 times)", 1),
        ("overlaps", {"other": "Isend", "other_at": "train.py:4"}, "memory that Isend at train.py:4 still uses", 1),
        ("used", {"other": "Irecv", "other_at": "?:0"}, "used the buffer of a request", 1),
    ],
)
def test_a_buffer_in_use_is_told_with_both_lines_while_the_job_runs(
    how: str, facts: dict[str, Any], words: str, sites: int
) -> None:
    used = remark(WarningCause.BUFFER_IN_USE, "Isend", how=how, count=3, facts=facts)
    (warning,) = warnings_of(remarking(0, used), remarking(1, used), ended_well=False)
    assert "Isend at train.py:4" in warning.summary
    assert words in warning.summary
    assert warning.sites == ("train.py:4", "train.py:2")[:sites]


def racing(*sent_at: tuple[int, int], tag: int = 0, own_tag: int = ANY, num: int | None = None) -> list[JobWarning]:
    """Return what is said of rank 0, which receives at 10, 20, ...; ranks send at given moments, as (rank, moment)."""
    num_ranks = 1 + max(rank for rank, _ in sent_at)
    num = len(sent_at) if num is None else num
    receives_made = tuple(
        message("Recv", 5, ANY, own_tag, number=step, entered_ns=1, left_ns=10 * (step + 1)) for step in range(num)
    )
    senders = []
    for rank in range(1, num_ranks):
        moments = sorted(moment for sender, moment in sent_at if sender == rank)
        calls = tuple(message("Send", 9, 0, tag, entered_ns=moment, number=at) for at, moment in enumerate(moments))
        senders.append(RankState(rank=rank, end=ENDED, sent={(WORLD, 0, tag): len(calls)}, history=calls))
    received = {(WORLD, state.rank, tag): state.sent[WORLD, 0, tag] for state in senders}
    return warnings_of(RankState(rank=0, end=ENDED, received=received, history=receives_made), *senders)


def test_a_receive_from_anybody_that_two_ranks_had_sent_to_is_a_race() -> None:
    (warning,) = racing((1, 2), (2, 3))
    assert warning.cause is WarningCause.MESSAGE_RACE
    assert (warning.ranks, warning.sites) == ((0,), ("train.py:5", "train.py:9"))
    assert (
        "of messages of ranks 1-2 that were under way at the same time (Send at train.py:9; rank 0)" in warning.summary
    )


@pytest.mark.parametrize(
    "sent_at",
    [[(1, 2), (2, 13)], [(1, 2), (1, 3)], [(1, 2), (1, 3), (2, 25)], [(1, 2), (2, 12), (1, 22)]],
    ids=["one after the other", "of one rank", "two of one rank, then another", "in turn"],
)
def test_messages_that_come_one_by_one_or_from_one_rank_are_no_race(sent_at: list[tuple[int, int]]) -> None:
    assert not racing(*sent_at)


def test_a_receive_with_a_tag_races_only_with_messages_of_that_tag() -> None:
    assert racing((1, 2), (2, 3), tag=4, own_tag=4)
    assert not racing((1, 2), (2, 3), tag=4, own_tag=3, num=1)


def differing(call: int, **sums: int) -> Remark:
    """Return what a rank says of checksums that it saw, as r0=1, r1=2."""
    seen = [[int(rank[1:]), checksum] for rank, checksum in sums.items()]
    facts = {"on": WORLD, "call": call, "sums": seen}
    return remark(WarningCause.RESULTS_DIFFER, "Allreduce", facts=facts)


def test_the_rank_that_got_another_result_than_most_is_named_at_the_first_such_call() -> None:
    states = [
        remarking(0, differing(6, r0=1, r1=2)),
        remarking(1, differing(5, r0=7, r1=8)),
        remarking(2, differing(5, r0=7, r1=8, r2=7)),
    ]
    (warning,) = warnings_of(*states, ended_well=False)
    assert warning.summary == "Allreduce at train.py:4 gave rank 1 a different result than ranks 0, 2 (call 5 on WORLD)"
    assert (warning.ranks, warning.sites) == ((1,), ("train.py:4",))


def test_where_no_most_is_all_ranks_are_named() -> None:
    (warning,) = warnings_of(remarking(0), remarking(1, differing(5, r0=7, r1=8)))
    assert warning.ranks == (0, 1)
    assert "(call 5 on WORLD; those that agree: rank 0; rank 1)" in warning.summary


def test_a_line_that_is_not_known_is_not_warned_about() -> None:
    unknown = replace(remark(what="Isend", **DROPPED), site="?:0")
    assert not warnings_of(remarking(0, unknown))


# JSON, options and comments


def test_warnings_go_through_json_and_come_back() -> None:
    assert warning_from_json(warning_to_json(ONE)) == ONE
    assert list(warning_to_json(ONE)) == ["cause", "ranks", "summary", "advice", "sites"]
    assert warnings_from_json(diagnosis_to_json(0, None, [ONE])) == (ONE,)
    assert diagnosis_to_json(0, None)["warnings"] == []
    assert warnings_from_json({"version": 1}) == ()


@pytest.mark.parametrize(
    "wrong", [{"cause": "odd"}, {"ranks": None}, {"summary": 3}, {"sites": "train.py:3"}, {"sites": [3]}]
)
def test_what_is_not_a_warning_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        warning_from_json({**warning_to_json(ONE), **wrong})


def test_every_cause_has_a_sentence_of_its_own() -> None:
    sentences = [cause.sentence for cause in WarningCause]
    assert all(sentence and not sentence.endswith(".") for sentence in sentences)
    assert len(set(sentences)) == len(sentences)


def test_a_cause_that_does_not_exist_is_an_error_that_lists_them() -> None:
    with pytest.raises(InputError, match=r"--ignore: there is no cause 'leak'; .*handle-leak"):
        read_causes("--ignore", ["handle-leak,leak"])


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("x = comm.Dup()", 1, False),
        ("x = comm.Dup()  # paceline: ignore", 1, True),
        ("x = comm.Dup()  #paceline:ignore[handle-leak]", 1, True),
        ("x = comm.Dup()  # fine. paceline: ignore[handle-leak]", 1, False),
        ("x = comm.Dup()  # paceline: ignore[message-race, handle-leak] it is meant", 1, True),
        ("x = comm.Dup()  # paceline: ignore[message-race]", 1, False),
        ("x = comm.Split(\n    0,\n)  # paceline: ignore[handle-leak]", 1, True),
        ("x = comm.Split(  # paceline: ignore[handle-leak]\n    0,\n)", 2, True),
        ("for _ in range(9):  # paceline: ignore[handle-leak]\n    x = comm.Dup()", 2, False),
        ("x = comm.Dup()\ny = 1  # paceline: ignore", 1, False),
        ("x = (  # paceline: ignore", 1, True),
        ("x = comm.Dup()", 7, False),
    ],
)
def test_a_comment_at_the_line_silences_a_cause(text: str, line: int, expected: bool) -> None:
    assert is_ignored(text, line, WarningCause.HANDLE_LEAK) is expected


def reaching(*sides: tuple[int, int, str], target: int = 0) -> Remark:
    """Return what a rank says of two accesses to one place: rank, line and operation of each."""
    pair = [(rank, f"train.py:{line}" if line else "?:0", name) for rank, line, name in sides]
    facts = {"on": WORLD, "target": target, "pair": pair}
    return remark(WarningCause.BUFFER_IN_USE, "Win.Put", how="conflict", facts=facts)


def test_accesses_to_one_place_are_told_once_with_the_one_that_writes_first() -> None:
    put_and_get = ((2, 9, "Win.Get"), (1, 7, "Win.Put"))
    states = [remarking(0), remarking(1, reaching(*put_and_get)), remarking(2, reaching(*put_and_get[::-1]))]
    (warning,) = warnings_of(*states)
    assert (warning.cause, warning.ranks) == (WarningCause.BUFFER_IN_USE, (1, 2))
    assert warning.sites == ("train.py:7", "train.py:9")
    assert warning.summary == (
        "Win.Put at train.py:7 (rank 1) and Win.Get at train.py:9 (rank 2) access the same bytes of the window of "
        "rank 0, not only to read them, and nothing that the guard sees orders these accesses"
    )


def test_ranks_that_reach_for_one_place_by_one_line_are_told_together() -> None:
    same_line = [reaching((0, 7, "Win.Put"), (rank, 7, "Win.Put"), target=3) for rank in (1, 2)]
    (warning,) = warnings_of(remarking(0), *(remarking(rank + 1, one) for rank, one in enumerate(same_line)))
    assert warning.summary.startswith(
        "ranks 0-2 access the same bytes of the window of rank 3 by Win.Put at train.py:7"
    )
    assert warning.sites == ("train.py:7",)


def test_an_access_whose_line_has_not_been_read_yet_waits_for_the_next_look() -> None:
    assert not warnings_of(remarking(0, reaching((0, 7, "Win.Put"), (1, 0, "Win.Put"))))


def test_an_access_outside_of_any_epoch_has_words_of_its_own() -> None:
    outside = remark(WarningCause.BUFFER_IN_USE, "Win.Get", how="outside")
    (warning,) = warnings_of(remarking(0, outside))
    assert warning.summary.startswith("Win.Get at train.py:4 accessed memory of a window outside any epoch")
