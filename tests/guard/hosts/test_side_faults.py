"""What a job is judged without may fail: the job is judged all the same, and somebody says what is missing."""

from __future__ import annotations

import pytest
from tests.guard.hosts.linked_job import ALL_REDUCE, BARRIER, LinkedJob, settled

from paceline.guard.hosts.stretches.passed_calls import PassedCalls
from paceline.guard.hosts.stretches.told_stretches import ToldStretches
from paceline.guard.hosts.viewing.glances_asked import AskedGlances
from paceline.guard.hosts.viewing.glances_told import ToldGlances
from paceline.guard.judge.judge import Judge

_FAULTS = [
    (AskedGlances, "begin", "nobody sees ranks of other hosts move from now on"),
    (ToldGlances, "answer", "not all of its calls are compared or shown"),
    (ToldGlances, "sample", "what its ranks do is not shown"),
    (PassedCalls, "look", "calls of several hosts are compared only if ranks wait, from now on"),
    (AskedGlances, "take", "what ranks of a host do is not shown"),
    (ToldStretches, "look", "not all of its calls are compared or shown"),
]


@pytest.mark.parametrize(("kind", "name", "said"), _FAULTS)
def test_a_fault_in_what_is_not_needed_is_told_and_harms_nobody(
    job: LinkedJob, monkeypatch: pytest.MonkeyPatch, kind: type, name: str, said: str
) -> None:
    error = KeyError if name == "take" else ValueError  # the latter says there that the host is to be refused

    def fail(*_: object, **__: object) -> None:
        raise error("nobody has thought of this")

    monkeypatch.setattr(kind, name, fail)
    ranks = [job.rank(number) for number in range(3)]
    job.until(lambda: job.num_seen() == 3)

    def is_told() -> bool:
        job.head.shown_jobs()  # somebody looks
        job.head.passed_differences()
        return any(said in problem for problem in job.head.problems())

    job.until(is_told)
    for number, rank in enumerate(ranks):
        rank.call(BARRIER if number == 2 else ALL_REDUCE)
    finding = settled(job, Judge(job.head, job.folders[0]), monkeypatch)
    assert finding.ranks == (2,)


def test_a_head_that_is_started_again_asks_with_numbers_of_its_own() -> None:
    """Hosts repeat the last number that they have answered, be it one of the head before."""
    numbers = [PassedCalls(lambda host, recall: None)._num_questions for _ in range(2)]
    assert numbers[0] < numbers[1]
