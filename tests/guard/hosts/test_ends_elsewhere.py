"""Who was first, where ranks ended on different hosts: certainly, or nobody says."""

from __future__ import annotations

import signal
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from paceline.guard.hosts.ends_elsewhere import RankEnd, may_be_stopped, was_first

_ERRORS = st.integers(0, 20)


def _killed(rank: int, host: str, at_ns: int, alive_ns: int, error_ns: int = 0) -> RankEnd:
    return RankEnd(
        rank=rank, host=host, is_killed=True, is_failure=True, at_ns=at_ns, alive_ns=alive_ns, error_ns=error_ns
    )


def test_one_that_was_killed_is_not_named_if_another_may_have_been_before() -> None:
    """The other host has noticed later, but has not seen its rank alive since."""
    assert not was_first([5], [_killed(5, "n3", 100, 95), _killed(0, "", 130, 80)])


def test_ranks_of_one_host_are_in_the_order_of_their_kernel() -> None:
    assert was_first([5], [_killed(5, "n3", 100, 95), _killed(4, "n3", 101, 95)])


def test_one_that_raised_is_named_if_others_raised_later() -> None:
    first = RankEnd(rank=5, host="n3", is_killed=False, is_failure=True, at_ns=100, alive_ns=90, error_ns=5)
    late = RankEnd(rank=0, host="", is_killed=False, is_failure=True, at_ns=106, alive_ns=90)
    assert was_first([5], [first, late])
    assert not was_first([0], [first, late])


@given(st.integers(0, 100), st.integers(0, 100), _ERRORS, _ERRORS, st.integers(0, 40), st.data())
def test_whoever_is_called_first_was_first(
    true_first: int, true_second: int, error: int, other_error: int, late: int, data: st.DataObject
) -> None:
    """Clocks are wrong by up to their error, and ends are noticed late: it is never said of the second."""
    shift = data.draw(st.integers(-error, error))
    other_shift = data.draw(st.integers(-other_error, other_error))
    seen_alive = data.draw(st.integers(-50, true_second))
    first = _killed(5, "n3", 1000 + true_first + late + shift, 900, error)
    second = _killed(0, "n1", 1000 + true_second + 7 + other_shift, 1000 + seen_alive + other_shift, other_error)
    if was_first([5], [first, second]):
        assert true_first <= true_second


_MS = 1_000_000


def _stopped(*at_ms: int, number: int = signal.SIGTERM) -> list[RankEnd]:
    """Return ranks that a signal has killed, two on each host."""
    hosts = ("", "", "n2", "n2")
    ends = [_killed(rank, hosts[rank], at * _MS, at * _MS - 1) for rank, at in enumerate(at_ms)]
    return [replace(end, signal=number) for end in ends]


def test_a_signal_that_stops_jobs_and_comes_to_several_hosts_may_end_the_whole_job() -> None:
    assert may_be_stopped([0], _stopped(100, 101, 400, 402), 500 * _MS)


def test_it_may_also_if_ranks_failed_because_their_peers_were_gone_or_live_for_a_moment() -> None:
    ends = _stopped(100, 101, 400)
    failed = RankEnd(rank=3, host="n2", is_killed=False, is_failure=False, at_ns=105 * _MS, alive_ns=0)
    assert may_be_stopped([0], [*ends, failed], 500 * _MS)
    assert may_be_stopped([0], ends, 500 * _MS)


def test_it_is_not_the_whole_job_if_ranks_of_one_host_end_or_others_do_otherwise_or_much_later() -> None:
    assert not may_be_stopped([0], _stopped(100, 101), 500 * _MS), "of one host the kernel tells more"
    assert not may_be_stopped([0], _stopped(100, 101, 1400, 1402), 1500 * _MS)
    assert not may_be_stopped([0], _stopped(100, 101, 400, 402, number=signal.SIGKILL), 500 * _MS)
    killed = _stopped(100, 101, 400, 402, number=signal.SIGKILL)[2:]
    assert not may_be_stopped([0], [*_stopped(100, 101), *killed], 500 * _MS)


def test_a_job_that_was_ended_long_ago_says_nothing_of_one_that_was_started_since() -> None:
    assert not may_be_stopped([0], _stopped(100, 101, 400, 402), 100_000 * _MS)
