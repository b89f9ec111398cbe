"""What every carrier must do, as functions that tests run on ranks: they return what does not hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from paceline.comm import Comm


def say_rank(comm: Comm, factor: int) -> tuple[int, int, str]:
    return comm.rank * factor, comm.world_size, comm.carrier


def conform(comm: Comm) -> list[str]:
    """The conformance suite of carriers: return what does not hold on this rank."""
    import torch

    wrong: list[str] = []

    def check(what: str, holds: bool) -> None:
        if not holds:
            wrong.append(f"rank {comm.rank}: {what}")

    rank, size = comm.rank, comm.world_size
    comm.barrier()
    for kind in (np.array, torch.tensor):
        for dtype in ("float64", "float32", "int64", "int32"):
            mine: Any = np.array([[rank, 2.0], [3.0, rank]], dtype=dtype)
            mine = mine if kind is np.array else torch.from_numpy(mine)
            _check_one_kind(comm, mine, check, f"{kind.__name__} {dtype}")
    for exotic in (torch.bfloat16, torch.float16, torch.bool, torch.uint8, torch.int16, torch.complex64):
        tensor = torch.tensor([rank % 2, 1]).to(exotic)
        gathered = comm.all_gather(tensor)
        expected = torch.stack([torch.tensor([r % 2, 1]).to(exotic) for r in range(size)])
        check(f"all_gather {exotic}", gathered.dtype is expected.dtype and torch.equal(gathered, expected))
        swapped = comm.all_to_all(tensor[:1].repeat(size), [1] * size, [1] * size)
        check(f"all_to_all {exotic}", torch.equal(swapped, expected[:, 0]))
    check("all_gather of a number", comm.all_gather(np.array(rank)).tolist() == list(range(size)))
    check("all_gather of nothing", list(comm.all_gather(np.zeros((0, 3))).shape) == [size, 0, 3])
    strided = np.arange(12).reshape(3, 4)[:, ::2] + rank
    check("strided input", (comm.all_gather(strided)[-1] == np.arange(12).reshape(3, 4)[:, ::2] + size - 1).all())
    one = (torch.arange(6) + rank)[::3][:1]  # of one element any stride counts as contiguous
    check("one of a strided tensor", comm.all_gather(one).tolist() == [[each] for each in range(size)])
    reversed_one = (np.arange(3.0) + rank)[::-1][:1]
    check("one of a reversed array", comm.all_gather(reversed_one).tolist() == [[2 + each] for each in range(size)])
    big = torch.full((300_000,), rank, dtype=torch.int64)
    check("a large all_gather", comm.all_gather(big)[:, 7].tolist() == list(range(size)))
    _check_duplicate(comm, check)
    return wrong


def _check_one_kind(comm: Comm, mine: Any, check: Any, what: str) -> None:
    rank, size = comm.rank, comm.world_size
    before = mine.tolist()
    for root in range(size):
        came = comm.broadcast(mine, root=root)
        check(f"broadcast {what}", came.tolist() == [[root, 2], [3, root]] and came.dtype == mine.dtype)
    gathered = comm.all_gather(mine)
    check(f"all_gather {what}", gathered.tolist() == [[[r, 2], [3, r]] for r in range(size)])
    total = size * (size - 1) // 2
    reduced = {name: comm.all_reduce(mine, name).tolist() for name in ("sum", "product", "min", "max")}
    check(f"sum {what}", reduced["sum"] == [[total, 2 * size], [3 * size, total]])
    check(f"product {what}", reduced["product"][0][1] == 2**size and reduced["product"][1][0] == 3**size)
    check(f"min {what}", reduced["min"] == [[0, 2], [3, 0]])
    check(f"max {what}", reduced["max"] == [[size - 1, 2], [3, size - 1]])
    # rank r sends (r + s) % 3 rows to rank s: uneven, and often none
    send = [(rank + other) % 3 for other in range(size)]
    content = [[rank, other] for other in range(size) for _ in range(send[other])]
    rows: Any = np.array(content, dtype=str(mine.dtype).removeprefix("torch.")).reshape(-1, 2)
    if not isinstance(mine, np.ndarray):
        rows = mine.new_tensor(rows)
    came = comm.all_to_all(rows, send, [(other + rank) % 3 for other in range(size)])
    expected = [[other, rank] for other in range(size) for _ in range((other + rank) % 3)]
    check(f"all_to_all {what}", came.tolist() == expected and came.dtype == mine.dtype)
    nothing = comm.all_to_all(rows[:0], [0] * size, [0] * size)
    check(f"all_to_all of nothing {what}", tuple(nothing.shape) == (0, 2))
    check(f"the input is left alone {what}", mine.tolist() == before)


def _check_duplicate(comm: Comm, check: Any) -> None:
    other = comm.duplicate()
    check("duplicate", (other.rank, other.world_size, other.carrier) == (comm.rank, comm.world_size, comm.carrier))
    check("its calls", other.all_reduce(np.array([1])).tolist() == [comm.world_size])
    again = other.duplicate()
    check("a duplicate's duplicate", again.all_gather(np.array(comm.rank)).tolist() == list(range(comm.world_size)))


def refuse(comm: Comm) -> list[str]:
    """What every carrier must refuse in the same words; return what each call said."""
    import torch

    calls: tuple[Any, ...] = (
        lambda: comm.broadcast(np.zeros(1), root=comm.world_size),
        lambda: comm.all_to_all(np.zeros(2), [1] * comm.world_size, [-1] * comm.world_size),
        lambda: comm.all_to_all(np.zeros(99), [1] * comm.world_size, [1] * comm.world_size),
        lambda: comm.all_reduce(np.array([True])),
        lambda: comm.all_reduce(torch.zeros(1, dtype=torch.bfloat16)),
        lambda: comm.all_gather([1, 2]),
    )
    said = []
    for call in calls:
        try:
            call()
            said.append("nothing")
        except ValueError as error:
            said.append(str(error))
    return said


def connect_again(comm: Comm) -> tuple[str, int, int]:
    from paceline import connect

    found = connect()
    return found.carrier, found.rank, found.world_size
