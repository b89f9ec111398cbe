"""How objects travel between ranks: what is ours as JSON, and only values of the user as pickles, from one place."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.outcomes import values
from tests.helpers.sample_datasets import Histories, seen

import paceline
from paceline import Loader, run_ranks
from paceline.comm import Comm
from paceline.comm.alone_comm import AloneComm
from paceline.loader import LoadError, OneRankError, ShardStream, StreamLoader, on_one_rank

SOURCE = Path(paceline.__file__).parent
# each with what keeps strangers from what it reads
READERS_OF_PICKLES = {
    "doctor/flight.py": "it makes plain data and refuses everything else",
    "launch/job_folder.py": "the folder is private to the user",
    "launch/rank_keeper.py": "the same folder",
    "launch/rank_processes.py": "it only writes",
    "loader/agreement/objects.py": "values of the user, over the carrier of the job",
}


def test_few_modules_know_pickles() -> None:
    found = {}
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        if names & {"pickle", "dill", "cloudpickle", "marshal", "shelve"}:
            found[path.relative_to(SOURCE).as_posix()] = path
    assert sorted(found) == sorted(READERS_OF_PICKLES)


def test_nothing_else_unpickles_in_disguise() -> None:
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                assert ast.unparse(node.func) not in ("torch.load", "pd.read_pickle", "yaml.load"), path
                assert "allow_pickle" not in {keyword.arg for keyword in node.keywords}, path


class _SomeUnreadable(Histories):
    def __getitem__(self, index: int) -> Any:
        if index == 7:
            raise OSError(f"sample {index} is \udcff")
        return super().__getitem__(index)


def skipping(comm: Comm) -> Any:
    with Loader(_SomeUnreadable(11), batch_size=2, comm=comm, jagged=["words"], on_error="skip") as loader:
        num_rows = sum(len(seen(batch)[2]) for batch in loader)
        assert loader.summary is not None
        return num_rows, loader.summary.num_skipped, loader.summary.skipped[0][0]


def raising(comm: Comm) -> Any:
    with (
        Loader(_SomeUnreadable(11), batch_size=2, comm=comm, jagged=["words"]) as loader,
        pytest.raises(LoadError) as told,
    ):
        for _ in loader:
            pass
    return str(told.value)


def read(shard: str) -> Any:
    return ({"x": int(shard) * 10 + number} for number in range(5))


def streaming(comm: Comm) -> Any:
    stream = ShardStream([f"{number}" for number in range(5)], read, shuffle=False)
    with StreamLoader(stream, batch_size=2, tail="pad", comm=comm) as loader:
        for _ in zip(range(2), loader, strict=False):
            state = loader.gather_state()
    return state


@pytest.fixture
def no_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **settings: Any) -> Any:
        raise AssertionError("a pickle")

    for name in ("loads", "load", "dumps", "dump"):
        monkeypatch.setattr(pickle, name, refuse)


@pytest.mark.usefixtures("no_pickle")
def test_what_paceline_tells_other_ranks_is_no_pickle() -> None:
    told = values(run_ranks(skipping, 3, carrier="threads"))
    assert sum(rows for rows, _, _ in told) == 10
    assert {each[1:] for each in told} == {(1, 7)}
    (text,) = set(values(run_ranks(raising, 3, carrier="threads")))
    assert "could not load sample 7" in text
    first, *others = values(run_ranks(streaming, 3, carrier="threads"))
    assert others == [first, first]
    assert first["ranks"] == [0, 1, 2]
    assert all(isinstance(shard, int) for shard in first["read"])


def test_what_one_rank_returns_may_be_anything() -> None:
    assert on_one_rank(AloneComm(), lambda: {1: (2, {3})}) == {1: (2, {3})}
    with pytest.raises(OneRankError, match="rank 0 failed: ValueError: \udcff"):
        on_one_rank(AloneComm(), _fail)


def _fail() -> None:
    raise ValueError("\udcff")


def whose(comm: Comm) -> Any:
    errors = []
    with Loader(_SomeUnreadable(11), batch_size=2, comm=comm, jagged=["words"]) as loader:
        try:
            for _ in loader:
                pass
        except LoadError as error:
            errors.append((error.rank, error.is_of_another_rank))
    try:
        on_one_rank(comm, _fail, rank=1)
    except OneRankError as error:
        errors.append((error.rank, error.is_of_another_rank))
    return errors


def test_an_error_that_all_ranks_raise_says_whose_it_is() -> None:
    told = values(run_ranks(whose, 3, carrier="threads"))
    for rank, errors in enumerate(told):
        assert len(errors) == 2
        assert all((of == rank) != of_another for of, of_another in errors)
