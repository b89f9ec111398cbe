"""What a rank records of calls on a communicator with two sides, and of the world that it was spawned into."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.mpi.sides import mpi_intercommunicators as inter
from paceline.guard.rank.mpi.sides.spawned_world import name_of_spawned
from paceline.guard.shared_memory.layout import ANY, NOBODY, NOTHING
from paceline.guard.shared_memory.nobody import decode_outsider
from paceline.guard.shared_memory.operations import REDUCTION_CODES, UNKNOWN_REDUCTION

ROOT, PROC_NULL = -4, -2
SIZE, UNKNOWN = (13, 8, 1), (0, -1, -1)


def _side(*, first: bool) -> Communicator:
    """Return what rank 1 keeps of ranks 0-1 and 2-4, or what rank 3 keeps of them."""
    member = 1 if first else 3
    known = Communicator(index=1, identity="w.inter-2-ab", name="between", member=member, ranks=(0, 1, 2, 3, 4))
    known.remote_begin, known.num_remote = (2, 3) if first else (0, 2)
    return known


def _watch() -> Any:
    return SimpleNamespace(
        mpi=SimpleNamespace(ROOT=ROOT, PROC_NULL=PROC_NULL),
        constants=SimpleNamespace(reduction=lambda op: REDUCTION_CODES[op or "SUM"]),
        buffers=SimpleNamespace(size=lambda buffer: SIZE),
    )


def _read(name: str, *args: Any, first: bool = True, **named: Any) -> tuple[int, int, tuple[int, int, int]]:
    return inter._read(_watch(), _side(first=first), name, ("comm", *args), named)


@pytest.mark.parametrize(
    ("read", "root"),
    [
        (_read("Bcast", "buffer", ROOT), 1),
        (_read("Bcast", "buffer", 2), 4),
        (_read("bcast", None, root=1, first=False), 1),
        (_read("gather", "word", 0), 2),
        (_read("Gatherv", None, "buffer", ROOT, first=False), 3),
        (_read("Reduce", "buffer", None, "MAX", 1, first=False), 1),
        (_read("reduce", 3, "MAX", 0), 2),
        (_read("Barrier"), NOTHING),
    ],
)
def test_roots_are_numbered_among_all_members(read: tuple[int, int, Any], root: int) -> None:
    assert read[0] == root


def test_what_ranks_beside_the_root_give_is_not_known() -> None:
    assert _read("Reduce", None, None, "MAX", PROC_NULL) == (NOTHING, UNKNOWN_REDUCTION, UNKNOWN)


@pytest.mark.parametrize(("root", "first"), [(3, True), (2, False), (-1, True)])
def test_a_call_with_a_root_that_the_other_side_does_not_have_is_left_to_mpi(root: int, first: bool) -> None:
    with pytest.raises(TypeError, match="no rank"):
        _read("Bcast", "buffer", root, first=first)


def test_sizes_count_where_both_sides_must_give_the_same() -> None:
    assert _read("Allreduce", "buffer", "result", op="PROD")[1:] == (REDUCTION_CODES["PROD"], SIZE)
    assert _read("Allgather", "buffer", "result")[2] == UNKNOWN


def test_peers_of_messages_are_numbered_among_all_members() -> None:
    first, second = _side(first=True), _side(first=False)
    assert inter._across(first, (0, 7, SIZE)) == (2, 7, SIZE)
    assert inter._across(second, (1, 7, SIZE, ("values",), None)) == (1, 7, SIZE, ("values",), None)
    assert inter._across(second, (ANY, 7, SIZE)) == (ANY, 7, SIZE)
    assert inter._across(first, (NOBODY, 7, SIZE)) == (NOBODY, 7, SIZE)
    exchange = inter._across(first, ((1, 7, SIZE), (2, 8, SIZE), ("values",), None))
    assert exchange == ((3, 7, SIZE), (4, 8, SIZE), ("values",), None)
    assert decode_outsider(inter._across(second, (2, 7, SIZE))[0]) == 2


def test_ranks_that_were_spawned_together_have_one_name(tmp_path: Path) -> None:
    maps = [tmp_path / name for name in "abc"]
    line = "7f00-7f01 rw-s 00000000 00:19 {} /dev/shm/{}\n"
    maps[0].write_text("7f00-7f01 r-xp 0 0 0 /usr/lib/libmpi.so\n" + line.format(7, "mpich_shar_tmpAbc"))
    maps[1].write_text(line.format(7, "mpich_shar_tmpAbc") + line.format(8, "psm_of_another"))
    maps[2].write_text(line.format(9, "mpich_shar_tmpXyz"))
    names = [name_of_spawned({}, path) for path in maps]
    assert names[0] == names[1] != names[2]
    maps[0].write_text("")
    assert name_of_spawned({}, maps[0]) is None
    assert name_of_spawned({"PMIX_NAMESPACE": "prterun-1@2"}, maps[0]) != name_of_spawned(
        {"PMIX_NAMESPACE": "@3"}, maps[0]
    )
