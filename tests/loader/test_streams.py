"""Streams of unknown length on real ranks: all make the same steps, and no sample comes twice or is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline import Batch, in_step, run_ranks
from paceline.comm import Comm
from paceline.comm.alone_comm import AloneComm
from paceline.errors import InputError
from paceline.launch import Outcome
from paceline.loader import DisagreementError, LoadError, ShardStream, StreamLoader

CARRIERS = ["threads", "torch", "mpi"]


def values(outcomes: list[Outcome]) -> list[Any]:
    assert [outcome.traceback for outcome in outcomes if not outcome.ok] == []
    return [outcome.value for outcome in outcomes]


def step_through(comm: Comm, cases: list[tuple[list[int], str, int]]) -> list[Any]:
    """Go through streams of so many items on each rank, with a collective of the job's own in each step."""
    found = []
    for counts, tail, ahead in cases:
        items = (10 * comm.rank + number for number in range(counts[comm.rank]))
        got = []
        with in_step(items, comm, tail=tail, empty=lambda: -1, ahead=ahead) as steps:
            for item in steps:
                got.append(item)
                assert comm.all_reduce(np.ones(1))[0] == comm.world_size
        found.append((got, steps.num_steps, steps.num_padded, steps.num_dropped))
    return found


def check_steps(counts: list[int], tail: str, told: list[Any]) -> None:
    num_steps = min(counts) if tail == "drop" else max(counts)
    for rank, (got, counted, num_padded, num_dropped) in enumerate(told):
        own = [10 * rank + number for number in range(counts[rank])]
        assert got == own[:num_steps] + [-1] * (num_steps - len(own))
        assert (counted, num_padded) == (num_steps, max(0, num_steps - len(own)))
        assert (num_dropped > 0) <= (len(own) > num_steps)


@settings(max_examples=25)
@given(
    counts=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    tail=st.sampled_from(["drop", "pad"]),
    ahead=st.integers(1, 9),
)
def test_ranks_make_the_same_steps_whatever_they_have(counts: list[int], tail: str, ahead: int) -> None:
    told = values(run_ranks(step_through, len(counts), args=([(counts, tail, ahead)],), carrier="threads"))
    check_steps(counts, tail, [rank_told[0] for rank_told in told])


@pytest.mark.parametrize("carrier", ["torch", "mpi"])
def test_streams_end_together_on_real_ranks(carrier: str) -> None:
    cases = [([5, 0, 17], "drop", 8), ([5, 0, 17], "pad", 8), ([30, 31, 29], "pad", 4), ([30, 31, 29], "drop", 4)]
    told = values(run_ranks(step_through, 3, args=(cases,), carrier=carrier, deadline=100))
    for case, (counts, tail, _) in enumerate(cases):
        check_steps(counts, tail, [rank_told[case] for rank_told in told])


def batches_of(comm: Comm) -> list[tuple[int, int]]:
    batches = (Batch({"x": torch.ones(2)}, batch_size=2) for _ in range(3 * comm.rank))  # rank 0 has none
    with in_step(batches, comm, tail="pad") as steps:
        return [(batch.batch_size, batch.num_real) for batch in steps]


def test_a_rank_without_any_batch_learns_its_fields_from_others() -> None:
    told = values(run_ranks(batches_of, 3, carrier="threads"))
    assert told == [[(2, 0)] * 6, [(2, 2)] * 3 + [(2, 0)] * 3, [(2, 2)] * 6]


def failing(comm: Comm, tail: str) -> tuple[int, str]:
    def numbers() -> Iterator[int]:
        for number in range(20):
            if comm.rank == 1 and number == 13:
                raise OSError("shard 7 is truncated")
            yield number

    num_steps = 0
    with in_step(numbers(), comm, tail=tail, empty=int, epoch=4) as steps:
        try:
            for _ in steps:
                num_steps += 1
                comm.all_reduce(np.ones(1))
        except LoadError as error:
            return num_steps, str(error)
    return num_steps, ""


@pytest.mark.parametrize("tail", ["drop", "pad"])
def test_an_error_on_one_rank_is_raised_on_all_at_the_same_step(tail: str) -> None:
    told = values(run_ranks(failing, 3, args=(tail,), carrier="threads"))
    assert len(set(told)) == 1
    assert told[0][0] == 13
    assert "rank 1 could not make its batch at step 13 of epoch 4: OSError: shard 7 is truncated" in told[0][1]


def differing(comm: Comm, what: str) -> str:
    tail = "drop" if what == "tail" and comm.rank else "pad"
    items = range(3)
    with in_step(items, comm, tail=tail, empty=int if what == "tail" else None) as steps:
        try:
            list(steps)
        except (DisagreementError, InputError) as error:
            return str(error)
    return ""


def test_ranks_that_cannot_go_on_say_so_on_all_ranks() -> None:
    assert set(values(run_ranks(differing, 3, args=("tail",), carrier="threads"))) == {
        "ranks disagree on tail: pad on rank 0; drop on ranks 1-2"
    }
    assert set(values(run_ranks(differing, 3, args=("empty",), carrier="threads"))) == {
        "items are not batches: pass `empty` to say what a rank that has run out should yield"
    }
    with pytest.raises(InputError, match="the tail of a stream is 'drop' or 'pad', got 'repeat'"):
        in_step([], AloneComm(), tail="repeat")


# Shards.

SIZES = [3, 0, 11, 7, 1, 9, 4]  # samples of each shard


def read_shard(shard: int) -> Iterator[dict[str, int]]:
    yield from ({"sample": 100 * shard + number} for number in range(SIZES[shard]))


def every_sample() -> list[int]:
    return sorted(100 * shard + number for shard, size in enumerate(SIZES) for number in range(size))


def stream(comm: Comm, tail: str, num_workers: int, state: Any, stop_after: int | None) -> Any:
    shards = ShardStream(range(len(SIZES)), read_shard, seed=2, sizes=SIZES if num_workers == 1 else None)
    loader = StreamLoader(shards, batch_size=2, tail=tail, num_workers=num_workers, comm=comm)
    if state is not None:
        loader.load_state_dict(state)
    got: list[int] = []
    shapes = []
    for step, batch in enumerate(loader, start=1):
        sample = batch.real("sample")
        assert isinstance(sample, torch.Tensor)
        got += sample.tolist()
        shapes.append(batch.batch_size)
        if step == stop_after:
            break
    return got, shapes, loader.gather_state()


@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_every_sample_of_every_shard_comes_once(num_workers: int) -> None:
    if num_workers:  # workers are started by threads here: one rank is enough
        told = values(run_ranks(stream, 1, args=("pad", num_workers, None, None), carrier="threads"))
    else:
        told = values(run_ranks(stream, 3, args=("pad", 0, None, None), carrier="threads"))
    assert sorted(number for got, *_ in told for number in got) == every_sample()
    assert len({tuple(shapes) for _, shapes, _ in told}) == 1
    assert set(told[0][1]) == {2}


def test_with_drop_all_ranks_stop_at_the_first_that_has_no_full_batch() -> None:
    told = values(run_ranks(stream, 3, args=("drop", 0, None, None), carrier="threads"))
    assert len({tuple(shapes) for _, shapes, _ in told}) == 1
    got = [number for got, *_ in told for number in got]
    assert len(got) == len(set(got)) == 2 * 3 * len(told[0][1])


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 5])
def test_a_stream_goes_on_with_other_ranks_where_it_was(num_ranks: int) -> None:
    first = values(run_ranks(stream, 3, args=("pad", 0, None, 3), carrier="threads"))
    state = first[0][2]
    rest = values(run_ranks(stream, num_ranks, args=("pad", 0, state, None), carrier="threads"))
    assert sorted(number for got, *_ in [*first, *rest] for number in got) == every_sample()


def test_a_stream_may_be_interrupted_again_and_again() -> None:
    state, got = None, []
    for num_ranks in (2, 2, 3, 2):
        told = values(run_ranks(stream, num_ranks, args=("pad", 0, state, 2), carrier="threads"))
        got += [number for rank_got, *_ in told for number in rank_got]
        state = told[0][2]
    told = values(run_ranks(stream, 2, args=("pad", 0, state, None), carrier="threads"))
    got += [number for rank_got, *_ in told for number in rank_got]
    assert sorted(got) == every_sample()
    assert told[0][2]["epoch"] == 1  # the epoch has ended: the state leads to the next one
    assert told[0][2]["read"] == {}


def after_a_rest(comm: Comm, state: Any) -> list[list[int]]:
    loader = StreamLoader(ShardStream(range(len(SIZES)), read_shard, seed=2), batch_size=2, tail="pad", comm=comm)
    loader.load_state_dict(state)
    with loader:
        return [[number for batch in loader for number in batch.real("sample").tolist()] for _ in range(2)]  # type: ignore[union-attr]


def test_after_the_rest_of_a_stream_the_next_pass_is_whole() -> None:
    state = values(run_ranks(stream, 3, args=("pad", 0, None, 3), carrier="threads"))[0][2]
    told = values(run_ranks(after_a_rest, 2, args=(state,), carrier="threads"))
    assert 0 < sum(len(passes[0]) for passes in told) < len(every_sample())
    assert sorted(number for passes in told for number in passes[1]) == every_sample()


def unlike(comm: Comm, what: str) -> str:
    shards = ShardStream(range(3 if what == "shards" and comm.rank else 4), read_other if what == "dtype" and comm.rank
                         else read_shard, seed=comm.rank if what == "seed" else 0)  # fmt: skip
    loader = StreamLoader(shards, batch_size=3 if what == "batch" and comm.rank else 2, comm=comm)
    try:
        list(loader)
    except DisagreementError as error:
        return str(error)
    return ""


def read_other(shard: int) -> Iterator[dict[str, float]]:
    yield from ({"sample": float(number)} for number in range(4))


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("shards", "num_shards: 4 on rank 0; 3 on rank 1"),
        ("seed", "seed: 0 on rank 0; 1 on rank 1"),
        ("batch", "batch_size: 2 on rank 0; 3 on rank 1"),
        ("dtype", "field 'sample': dense int64 [] on rank 0; dense float32 [] on rank 1"),
    ],
)
def test_streams_that_differ_between_ranks_are_an_error_on_all(what: str, text: str) -> None:
    told = set(values(run_ranks(unlike, 2, args=(what,), carrier="threads")))
    assert len(told) == 1
    assert text in told.pop()


def test_a_collate_function_that_loses_a_sample_is_an_error() -> None:
    def collate(samples: list[Any]) -> Any:
        return {"sample": torch.tensor([sample["sample"] for sample in samples[1:]])}

    loader = StreamLoader(ShardStream(range(4), read_shard), batch_size=3, collate=collate, comm=AloneComm())
    with pytest.raises(LoadError, match="the collate function made 2 real rows of 3 samples"):
        list(loader)
    with pytest.raises(InputError, match="leave out persistent_workers"):
        StreamLoader(ShardStream([1], read_shard), batch_size=3, comm=AloneComm(), persistent_workers=True)
    with pytest.raises(InputError, match="StreamLoader has no setting 'timout': did you mean 'timeout'"):
        StreamLoader(ShardStream([1], read_shard), batch_size=3, comm=AloneComm(), timout=3)  # type: ignore[call-arg]


def test_states_of_some_ranks_only_are_refused() -> None:
    shards = ShardStream(range(3), read_shard)
    with pytest.raises(InputError, match=r"states must be those of all ranks of one job at one time, got ranks \[1\]"):
        shards.load_states([shards.state_of({}, 1, 3)])
    with pytest.raises(InputError, match="saved with another num_shards: 3, here it is 4"):
        ShardStream(range(4), read_shard).load_states([shards.state_of({}, 0, 1)])


@given(
    num_shards=st.integers(1, 30), world_size=st.integers(1, 7), num_workers=st.integers(1, 4), epoch=st.integers(0, 3)
)
def test_shards_are_dealt_to_one_worker_each_and_ranks_differ_by_one(
    num_shards: int, world_size: int, num_workers: int, epoch: int
) -> None:
    sizes = [shard * 7 % 5 for shard in range(num_shards)] if epoch % 2 else None
    shards = ShardStream(range(num_shards), read_shard, sizes=sizes)
    shards.set_epoch(epoch)
    dealt = [
        [shards.deal(rank, world_size, worker, num_workers) for worker in range(num_workers)]
        for rank in range(world_size)
    ]
    assert sorted(shard for rank in dealt for worker in rank for shard in worker) == list(range(num_shards))
    counts = [sum(map(len, rank)) for rank in dealt]
    assert max(counts) - min(counts) <= 1


def test_ranks_get_shards_of_about_the_same_size() -> None:
    sizes = [100, 1, 1, 1, 99, 1, 50, 50]
    shards = ShardStream(range(8), read_shard, sizes=sizes, shuffle=False)
    loads = [sum(sizes[shard] for shard in shards.deal(rank, 3)) for rank in range(3)]
    assert sorted(loads) == [101, 101, 101]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"epoch": "x"}, "epoch of a state"),
        ({"epoch": 10**400}, "epoch of a state"),
        ({"ranks": 3}, "ranks must be a list"),
        ({"ranks": [[]]}, "rank of a state"),
        ({"world_size": 10**12}, "all ranks of one job"),
        ({"read": [1]}, "how much was read"),
        ({"read": {"0": "much"}}, "what was read of shard 0"),
        ({"read": {9: 1}}, "a shard of a state"),
        ({"read": {0: 10**30}}, "what was read of shard 0"),
        ({"seed": [0]}, "another seed"),
        ({"read": None}, "how much was read"),
    ],
)
def test_what_is_no_state_of_a_stream_is_refused_with_a_sentence(change: dict[str, Any], sentence: str) -> None:
    stream = ShardStream(["a", "b", "c"], list)
    state = stream.state_of({0: 1, 1: -1}, 0, 1)
    stream.load_states([state])
    stream.load_states([{**state, "read": {"0": 1, "1": -1}}])  # as JSON has it
    with pytest.raises(InputError, match=sentence):
        stream.load_states([{**state, **change}])
    not_states: tuple[Any, ...] = (3, "state", [3], [{}], None)
    for wrong in not_states:
        with pytest.raises(InputError):
            stream.load_states(wrong)


def _run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)


LEAVES_AMID_A_READ = """
import threading, time
from paceline import in_step
from paceline.comm.alone_comm import AloneComm

is_read = threading.Event()

def items():
    for item in range(100):
        if item == 2:
            is_read.set()
        print("begin", flush=True)
        time.sleep(0.1)
        print("end", flush=True)
        yield item

steps = in_step(items(), AloneComm(), ahead=1)
next(steps), next(steps)
is_read.wait()
"""


def test_a_process_that_ends_amid_a_stream_finishes_the_read_that_is_under_way_and_begins_no_other() -> None:
    ended = _run(LEAVES_AMID_A_READ)
    assert (ended.returncode, ended.stderr) == (0, "")
    words = ended.stdout.split()
    assert words == ["begin", "end"] * (len(words) // 2)
    assert len(words) < 20


FINISHES_AT_EXIT = """
import atexit
from paceline import in_step
from paceline.comm.alone_comm import AloneComm

def finish():
    with steps:
        print(list(steps), flush=True)

atexit.register(finish)  # before there is a stream, so it is called after what the stream does at exit
steps = in_step(iter(range(6)), AloneComm())
next(steps)
"""


def test_an_exit_handler_may_finish_a_stream() -> None:
    ended = _run(FINISHES_AT_EXIT)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "[1, 2, 3, 4, 5]\n", "")
