"""What a rank reads of the arguments of a call: under the library's own names, and with the user's own numbers."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch.distributed.distributed_c10d as c10d

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.mpi import mpi_collective_arguments
from paceline.guard.rank.mpi.messages import mpi_message_arguments
from paceline.guard.rank.mpi.mpi_constants import MpiConstants, number_or_outsider
from paceline.guard.rank.mpi.mpi_handles import handle_reader
from paceline.guard.rank.torch import torch_collective_arguments
from paceline.guard.rank.torch.torch_module import member_number
from paceline.guard.shared_memory.layout import ANY, NOBODY
from paceline.guard.shared_memory.nobody import decode_outsider

_WITHOUT_STATUS = ("Irecv", "irecv", "Recv_init", "Isendrecv", "Isendrecv_replace")  # read like those that have one
MPI_NAMES = """
    import json
    import mpi4py
    mpi4py.rc.initialize = False
    from mpi4py import MPI
    classes = (MPI.Intracomm, MPI.Topocomm)  # those of graphs and grids have neighbours
    print(json.dumps({name: getattr(kind, name).__doc__ for kind in classes for name in dir(kind)
                      if callable(getattr(kind, name))}))
    """


def parameters(function: Any) -> list[str]:
    """Return the names of a function's parameters but self."""
    named = inspect.signature(function).parameters.values()
    return [item.name for item in named if item.kind is item.POSITIONAL_OR_KEYWORD and item.name != "self"]


@pytest.fixture(scope="module")
def mpi_texts() -> dict[str, str]:
    """Return the first lines of what mpi4py says of its methods, which are their signatures."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(MPI_NAMES)], capture_output=True, text=True, timeout=100, check=True
    )
    return {name: text.splitlines()[0] for name, text in json.loads(done.stdout).items() if text}


def mpi_parameters(text: str) -> list[str]:
    """Return the names of a method's parameters but self from its signature."""
    names = re.findall(r"[(,] ?(\w+)(?=[:,)])", text.rpartition("->")[0])
    assert names.pop(0) == "self"
    return names


@pytest.mark.parametrize("name", mpi_collective_arguments.READERS)
def test_collectives_of_mpi4py_are_read_under_its_own_names(mpi_texts: dict[str, str], name: str) -> None:
    read = mpi_collective_arguments.READERS[name]
    ours = [item for item in parameters(read)[1:] if item != "info"]  # which only persistent ones have
    forms = [name, f"I{name.lower()}", f"{name}_init"] if name[0].isupper() else [name]
    for form in forms:
        theirs = [item for item in mpi_parameters(mpi_texts[form]) if item != "info"]
        assert ours == theirs or read is mpi_collective_arguments.CollectiveReader.nothing, form


@pytest.mark.parametrize("name", mpi_message_arguments.READERS)
def test_messages_of_mpi4py_are_read_under_its_own_names(mpi_texts: dict[str, str], name: str) -> None:
    ours, theirs = parameters(mpi_message_arguments.READERS[name])[1:], mpi_parameters(mpi_texts[name])
    assert ours == theirs or (ours == [*theirs, "status"] and name in _WITHOUT_STATUS)


@pytest.mark.parametrize("name", torch_collective_arguments.READERS)
def test_collectives_of_torch_are_read_under_its_own_names(name: str) -> None:
    function = getattr(c10d, name, None)
    if function is None:
        pytest.skip(f"this torch has no {name}")
    _, read = torch_collective_arguments.READERS[name]
    theirs = [item for item in parameters(function) if (name, item) != ("barrier", "timeout")]  # of new torches
    assert parameters(read) == theirs


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    joined = Recorder(tmp_path, "job.0.0", rank=0, world_size=4)
    yield joined
    joined.ring.words.release()
    joined.ring.bytes.close()


@pytest.mark.parametrize(
    ("rank", "group_rank", "number", "outsider"),
    [(2, None, 0, None), (3, None, 1, None), (None, 1, 1, None), (1, None, None, 1), (7, None, None, 7),
     (None, 2, None, 2), (None, -1, None, -1), (-2, None, None, -2)],
)  # fmt: skip
def test_a_member_of_a_torch_group_and_one_that_is_none(
    recorder: Recorder, rank: int | None, group_rank: int | None, number: int | None, outsider: int | None
) -> None:
    group = recorder.communicator("torch-group", "group", (2, 3), 0)
    assert group is not None
    code = member_number(group, rank, group_rank)
    assert decode_outsider(code) == outsider
    if number is not None:
        assert code == number


class Constants:
    """The constants of MPICH as far as they matter here."""

    ANY_SOURCE = -2
    ANY_TAG = -1
    PROC_NULL = -1

    def __getattr__(self, name: str) -> object:
        return object()


@pytest.mark.parametrize(
    ("rank", "expected"), [(0, 0), (numpy.int64(3), 3), (-2, ANY), (-1, NOBODY), (2**31 - 1, 2**31 - 1)]
)
def test_peers_of_messages_of_mpi(rank: Any, expected: int) -> None:
    assert MpiConstants(Constants()).peer(rank) == expected


@pytest.mark.parametrize("number", [-3, -7, -1000])
def test_peers_roots_and_tags_that_cannot_be_keep_the_users_number(number: int) -> None:
    constants = MpiConstants(Constants())
    codes = constants.peer(number), constants.tag(number), number_or_outsider(number)
    assert [decode_outsider(code) for code in codes] == [number] * 3


def test_a_root_or_a_sent_tag_of_minus_one_is_not_taken_for_none() -> None:
    assert decode_outsider(number_or_outsider(-1)) == -1
    assert MpiConstants(Constants()).tag(-1) == ANY


def test_what_is_no_number_is_left_to_mpi4py() -> None:
    with pytest.raises(TypeError, match="an integer is required, not '1'"):
        number_or_outsider("1")


def test_a_handle_is_read_as_the_version_of_mpi4py_tells_it() -> None:
    class Later:
        @property
        def handle(self) -> int:
            return 7

    class OfUser(Later):
        handle = "mine"  # type: ignore[assignment]

    class Earlier:
        pass

    assert handle_reader(SimpleNamespace(), Later)(OfUser()) == 7
    assert handle_reader(SimpleNamespace(_handleof=lambda made: 8), Earlier)(Earlier()) == 8
