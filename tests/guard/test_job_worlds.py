"""Which processes make one job, and how its ranks are numbered, whatever the worlds that they are in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.guard.observe.worlds.job_worlds import JobMembers, WorldMember, group_into_jobs


def world(name: str, size: int, ranks: dict[str, int]) -> list[WorldMember]:
    """Return processes by the ranks that they have in a world."""
    return [WorldMember(process=process, world=name, size=size, rank=rank) for process, rank in ranks.items()]


def alone(processes: str) -> list[WorldMember]:
    """Return processes that are each alone in an MPI world of their own."""
    return [member for process in processes for member in world(f"alone {process}", 1, {process: 0})]


def only(members: list[WorldMember]) -> JobMembers:
    (job,) = group_into_jobs(members)
    return job


@pytest.mark.parametrize("mpi_first", [True, False])
def test_a_world_of_one_matters_to_nobody_whenever_it_was_joined(mpi_first: bool) -> None:
    torch = world("torch", 3, {"a": 2, "b": 0, "c": 1})
    job = only([*alone("abc"), *torch] if mpi_first else [*torch, *alone("abc")])
    assert (job.name, job.world_size, job.num_numbers) == ("torch", 3, 3)
    assert job.processes == {2: "a", 0: "b", 1: "c"}
    assert job.worlds == {"torch": {0: 0, 1: 1, 2: 2}}


def test_processes_that_are_alone_are_jobs_of_one() -> None:
    jobs = group_into_jobs(alone("ab"))
    assert [(job.world_size, job.processes) for job in jobs] == [(1, {0: "a"}), (1, {0: "b"})]


def test_the_ranks_of_a_second_world_are_translated() -> None:
    mpi, torch = world("mpi", 3, {"a": 0, "b": 1, "c": 2}), world("torch", 3, {"a": 1, "b": 2, "c": 0})
    job = only([*mpi, *torch])
    assert job.name == "mpi"  # it was joined first
    assert job.processes == {0: "a", 1: "b", 2: "c"}
    assert job.worlds["torch"] == {1: 0, 2: 1, 0: 2}


def test_two_torch_jobs_inside_an_mpi_job_are_one_job_with_two_worlds() -> None:
    mpi = world("mpi", 4, {"a": 0, "b": 1, "c": 2, "d": 3})
    job = only([*mpi, *world("low", 2, {"a": 0, "b": 1}), *world("high", 2, {"c": 0, "d": 1})])
    assert (job.name, job.num_numbers) == ("mpi", 4)
    assert (job.worlds["low"], job.worlds["high"]) == ({0: 0, 1: 1}, {0: 2, 1: 3})


def test_two_mpi_jobs_inside_a_torch_job_are_numbered_by_torch() -> None:
    low, high = world("low", 2, {"a": 0, "b": 1}), world("high", 2, {"c": 0, "d": 1})
    job = only([*low, *high, *world("torch", 4, {"a": 3, "b": 1, "c": 0, "d": 2})])
    assert (job.name, job.processes) == ("torch", {3: "a", 1: "b", 0: "c", 2: "d"})
    assert (job.worlds["low"], job.worlds["high"]) == ({0: 3, 1: 1}, {0: 0, 1: 2})


def test_a_rank_that_has_not_joined_a_world_of_all_is_one_that_is_left() -> None:
    mpi, torch = world("mpi", 3, {"a": 0, "b": 1, "c": 2}), world("torch", 3, {"a": 2, "c": 1})
    assert only([*mpi, *torch]).worlds["torch"] == {2: 0, 1: 2, 0: 1}


def test_a_rank_that_nobody_has_seen_gets_a_number_that_no_rank_has() -> None:
    mpi, torch = world("mpi", 3, {"a": 0, "b": 1, "c": 2}), world("torch", 2, {"c": 1})
    job = only([*mpi, *torch])
    assert (job.worlds["torch"], job.num_numbers) == ({1: 2, 0: 3}, 4)


def test_a_job_that_a_rank_starts_is_another_job() -> None:
    jobs = group_into_jobs([*world("outer", 2, {"a": 0, "b": 1}), *world("inner", 2, {"c": 0, "d": 1})])
    assert [(job.name, job.processes) for job in jobs] == [("outer", {0: "a", 1: "b"}), ("inner", {0: "c", 1: "d"})]


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 4), st.integers(0, 3)), max_size=24))
def test_every_number_is_one_of_the_job_and_of_one_process(joins: list[tuple[int, int, int]]) -> None:
    taken: dict[tuple[str, object], WorldMember] = {}
    for process, which, rank in joins:
        size = which + 1
        member = WorldMember(process=process, world=f"w{which}", size=size, rank=rank % size)
        if ("process", (process, which)) not in taken and ("rank", (which, rank % size)) not in taken:
            taken["process", (process, which)] = taken["rank", (which, rank % size)] = member
    members = list(dict.fromkeys(taken.values()))
    jobs = group_into_jobs(members)
    processes = [process for job in jobs for process in job.processes.values()]
    assert len(processes) == len(set(processes))
    assert set(processes) == {member.process for member in members}
    for job in jobs:
        assert all(0 <= number < job.num_numbers for number in job.processes)
        for name, numbers in job.worlds.items():
            (size,) = {member.size for member in members if member.world == name}
            assert sorted(numbers) == list(range(size))
            assert len(set(numbers.values())) == size
            assert all(0 <= number < job.num_numbers for number in numbers.values())
            for member in members:
                if member.world == name:
                    assert job.processes[numbers[member.rank]] == member.process
