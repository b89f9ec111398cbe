"""What real programs of strangers have shown: a size that differs once, and a function that calls itself."""

from __future__ import annotations

from dataclasses import replace

from tests.guard.verdict.simulated import WORLD, certain, collective, judge

from paceline.guard.verdict.finding import Cause
from paceline.guard.verdict.snapshot import Call, End, EndKind, RankState, Waiting


def _rank(rank: int, *counts: int) -> RankState:
    """Return a rank that has started a bucket of each of these sizes, and waits for the last."""
    calls = tuple(
        collective("torch.all_reduce", 7, sequence=at, number=at, dtype="f4", num_bytes=4 * count, count=count)
        for at, count in enumerate(counts, start=1)
    )
    waiting = (Waiting(call=calls[-1]),)
    return RankState(rank=rank, threads=waiting, positions={WORLD: len(calls)}, history=calls)


def test_one_bucket_of_another_size_is_not_taken_for_another_order() -> None:
    finding = certain(_rank(0, 1, 1, 1), _rank(1, 1, 1, 2, 1), _rank(2, 1, 1, 1))
    assert (finding.cause, finding.ranks) == (Cause.SHAPE, (1,))
    assert finding.explanations == ()


def test_buckets_in_another_order_are_told_as_such() -> None:
    finding = certain(_rank(0, 1, 2, 3), _rank(1, 1, 2, 4, 3), _rank(2, 1, 2, 3))
    assert finding.cause is Cause.CALL_ORDER


def test_a_rank_that_calls_itself_less_deep_is_told_by_the_depth() -> None:
    calls = [
        collective("torch.all_reduce", 4, callers=("train.py:7",) * depth + ("train.py:10",), num_bytes=4)
        for depth in range(4)
    ]
    exited = End(kind=EndKind.EXITED, detail="came to the end of the script", at_ns=1)
    finding = judge([calls, calls[:3]], ends={1: exited})
    assert (finding.cause, finding.ranks) == (Cause.UNEVEN_STEPS, (1,))
    assert "rank 1 ended after 3 calls of all_reduce at train.py:4; rank 0 is in the 4th" in finding.summary
    assert "to the same depth" in finding.advice


def test_a_rank_that_begins_the_next_round_has_left_out_a_tensor() -> None:
    finding = certain(_rank(0, 2, 8, 4, 16, 6), _rank(1, 2, 8, 4, 16, 2), _rank(2, 2, 8, 4, 16, 6))
    assert (finding.cause, finding.ranks) == (Cause.SKIPPED_CALL, (1,))
    assert "it brings 2 x f4, with which all ranks began" in finding.summary
    assert [other.cause for other in finding.explanations[1:]] == [Cause.CALL_ORDER]


def test_one_size_in_a_loop_of_steps_is_not_taken_for_one_tensor_of_several() -> None:
    source = "for step in range(5):\n    pass\n    pass\n    pass\n    pass\n    pass\n    all_reduce(x)\n"
    ranks = (_rank(0, 3, 3, 3), _rank(1, 3, 3, 2), _rank(2, 3, 3, 3))
    assert "in the same order" not in certain(*ranks, source=source).advice
    over_tensors = source.replace("step in range(5)", "name in names")
    assert "in the same order" in certain(*ranks, source=over_tensors).advice


def test_what_a_thread_has_raised_is_told_of_a_rank_that_is_out_of_line() -> None:
    raised = "KeyError: 'count' at train.py:3"
    states = [_rank(0, 1, 1), _rank(1, 1, 2), replace(_rank(2, 1, 1), thread_error="OSError at train.py:9")]
    plain = certain(*states)
    assert "thread" not in plain.summary + plain.advice
    told = certain(states[0], replace(states[1], thread_error=raised), states[2])
    assert told.summary == f"{plain.summary}; a thread of rank 1 raised {raised}, and nobody caught it"
    assert told.advice.endswith(plain.advice)


def test_depths_that_share_a_site_are_told_as_such() -> None:
    def calls(*depths: int) -> list[Call]:
        walk = [collective("allreduce", 4, callers=("train.py:7",) * deep + ("train.py:10",)) for deep in depths]
        return [*walk, collective("Barrier", 11)]

    finding = judge([calls(0, 1, 3, 3), calls(0, 1, 3, 3), calls(0, 1, 2)])
    assert (finding.cause, finding.ranks) == (Cause.UNEVEN_STEPS, (2,))
    assert "the allreduce at train.py:4 2 levels deep, where ranks 0-1 make it 3 or more levels deep" in finding.summary
