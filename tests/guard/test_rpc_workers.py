"""Workers of torch.distributed.rpc that cannot be: torch itself says what is wrong with them."""

from __future__ import annotations

import pytest

from paceline.guard.rank.torch.rpc.rpc_workers import RpcWatch
from paceline.guard.rank.watched_process import SESSION


@pytest.mark.parametrize("rank", [-1, 2, 7])
def test_a_rank_that_does_not_exist_joins_no_workers(rank: int) -> None:
    watch = object.__new__(RpcWatch)  # it is not asked for anything else
    assert watch.join(rank, 2, options=None) is None
    assert SESSION.recorder is None
