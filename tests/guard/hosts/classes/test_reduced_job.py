"""What is concluded of a few ranks that stand for the others is what would be concluded of all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.guard.simulation import Job

from paceline.guard.hosts.classes.rank_table import RankTable, runs_of
from paceline.guard.verdict.diagnose import find_certain, find_stuck
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.member_numbers import members_left, with_member_numbers
from paceline.guard.verdict.rank_names import WorldRank
from paceline.guard.verdict.snapshot import Call, End, EndKind, Membership, RankState, Snapshot
from paceline.guard.verdict.waits.stuck_ranks import stuck_ranks

NUM_ROWS, NUM_COLUMNS = 2, 12
NUM = NUM_ROWS * NUM_COLUMNS
GROUPS = {
    "world": Membership(name="WORLD", ranks=tuple(range(NUM))),
    **{f"row{row}": Membership(name=f"row {row}", ranks=tuple(range(row * NUM_COLUMNS, (row + 1) * NUM_COLUMNS)))
       for row in range(NUM_ROWS)},
    **{f"column{column}": Membership(name=f"column {column}", ranks=tuple(range(column, NUM, NUM_COLUMNS)))
       for column in range(NUM_COLUMNS)},
}  # fmt: skip
# what a rank calls, and on which of its groups
STEPS = st.tuples(
    st.sampled_from(["world", "row", "column"]), st.sampled_from(["Barrier", "Allreduce", "Bcast", "Reduce"]),
    st.integers(1, 9),
)  # fmt: skip
Step = tuple[str, str, int]


def call_of(rank: int, step: Step) -> Call:
    kind, operation, line = step
    name = {"world": "world", "row": f"row{rank // NUM_COLUMNS}", "column": f"column{rank % NUM_COLUMNS}"}[kind]
    root = 0 if operation in ("Bcast", "Reduce") else -1
    num_bytes = 0 if operation == "Barrier" else 8
    reduction = "SUM" if operation in ("Allreduce", "Reduce") else "none"
    return Call(
        operation=operation, communicator=name, site=f"train.py:{line}", root=root, reduction=reduction,
        num_bytes=num_bytes if operation != "Barrier" else -1,
    )  # fmt: skip


@st.composite
def stopped_jobs(draw: st.DrawFn) -> Snapshot:
    """Return a job in which most ranks make the same calls and a few others do not, at some moment."""
    steps = draw(st.lists(STEPS, min_size=1, max_size=6))
    odd = draw(st.dictionaries(st.integers(0, NUM - 1), st.lists(STEPS, max_size=6), max_size=3))
    cut = draw(st.dictionaries(st.integers(0, NUM - 1), st.integers(0, 5), max_size=3))
    programs = [[call_of(rank, step) for step in odd.get(rank, steps)[: cut.get(rank, 9)]] for rank in range(NUM)]
    ends = {rank: End(kind=EndKind.RAISED, detail="no", site="train.py:3", exit_code=1) for rank in cut}
    job = Job(programs, GROUPS, buffers=False, ends=ends)
    stays = draw(st.sets(st.integers(0, NUM - 1), max_size=2))  # ranks that are slow
    random = draw(st.randoms(use_true_random=False))
    for _ in range(draw(st.integers(0, 12 * NUM) | st.just(40 * NUM))):
        ready = [rank for rank in range(NUM) if rank not in stays and job.can_move(rank)]
        if not ready:
            break
        job.move(random.choice(ready))
    return job.snapshot()


def digest_of(state: RankState) -> int:
    """Return a number for the state of a rank, as a watcher would."""
    if state.end is None and not state.waits:
        return 0
    past = [(call.operation, call.site, call.sequence, call.root) for call in state.history]
    threads = [(waiting.call.communicator, waiting.call.sequence) for waiting in state.waiting]
    kinds = sorted((name.rstrip("0123456789"), count) for name, count in state.positions.items())
    return abs(hash((state.end, tuple(threads), tuple(past), tuple(kinds)))) % (1 << 62) + 1


def reduced(snapshot: Snapshot) -> tuple[Snapshot, dict[int, int]]:
    """Return the job of the ranks that are followed, as the head makes it, and their numbers."""
    table = RankTable(NUM)
    for rank, state in enumerate(snapshot.ranks):
        assert state is not None
        table.tell(rank // 8, digest_of(state), [(rank, rank + 1, 1)])
    moving = [rank for rank, state in enumerate(snapshot.ranks) if state is not None and not digest_of(state)]
    followed = moving[:1]
    while new := table.to_follow(followed, groups_of(snapshot, table, followed)):
        followed = sorted({*followed, *new})
    stands_for, rest = table.classes(followed, groups_of(snapshot, table, followed))
    numbers = {rank: number for number, rank in enumerate(followed)}
    left = {
        name: members_left(known.ranks, numbers, frozenset(rest.tolist()), len(followed))
        for name, known in snapshot.communicators.items()
    }
    states = [
        with_member_numbers(replace(state, rank=number), lambda name, member: left[name].renumber(member))
        for rank, number in numbers.items()
        if (state := snapshot.ranks[rank]) is not None
    ]
    if len(rest):
        states.append(
            RankState(rank=len(followed), communicators_known=False, messages_known=False, windows_known=False)
        )
    known = {name: Membership(name=snapshot.communicators[name].name, ranks=one.numbers) for name, one in left.items()}
    names = {
        numbers[rank]: WorldRank(rank=rank, world="", others=runs_of(others)) for rank, others in stands_for.items()
    }
    names = {number: WorldRank(rank=rank, world="") for rank, number in numbers.items()} | names
    if len(rest):
        names[len(followed)] = WorldRank(rank=int(rest[0]), world="", others=runs_of(rest[1:]))
    return Snapshot(ranks=states, communicators=known, world_ranks=names), numbers


def groups_of(snapshot: Snapshot, table: RankTable, followed: Sequence[int]) -> list[Sequence[int]]:
    """Return the members of communicators in which followed ranks wait, or that odd ones have used."""
    states = {rank: state for rank in followed if (state := snapshot.ranks[rank]) is not None}
    names = {waiting.call.communicator for state in states.values() for waiting in state.waiting}
    names |= {name for rank in table.small_classes(followed) for name in states[rank].positions}
    return [snapshot.communicators[name].ranks for name in sorted(names - {"world"})]


def ranks_in(finding: Finding | None) -> set[int]:
    names = finding.world_ranks if finding is not None else {}
    return {
        rank
        for number in (finding.ranks if finding is not None else ())
        for run in (names[number].runs if number in names else ((number, number + 1),))
        for rank in range(*run)
    }


@settings(deadline=None, max_examples=60)
@given(stopped_jobs(), st.booleans())
def test_who_can_never_move_is_the_same(snapshot: Snapshot, cautious: bool) -> None:
    small, numbers = reduced(snapshot)
    stuck = stuck_ranks(snapshot, cautious=cautious)
    assert stuck_ranks(small, cautious=cautious) == {numbers[rank] for rank in stuck if rank in numbers}


@settings(deadline=None, max_examples=60)
@given(stopped_jobs(), st.booleans())
def test_what_is_found_is_the_same(snapshot: Snapshot, cautious: bool) -> None:
    """Word for word, if somebody stands for each rank; nothing that is not so, if others move."""
    small, numbers = reduced(snapshot)
    all_are_known = len(small.ranks) == len(numbers)
    for find in (find_certain, lambda inspection: find_stuck(inspection, cautious=cautious)):
        expected, found = find(Inspection(snapshot)), find(Inspection(small))
        if all_are_known:
            assert told(found) == told(expected)
        elif found is not None:
            assert expected is not None
            assert (found.kind, ranks_in(found)) == (expected.kind, ranks_in(expected))


def told(finding: Finding | None) -> object:
    return finding and (finding.kind, finding.field, finding.cause, finding.summary, ranks_in(finding))
