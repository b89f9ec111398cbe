"""Three hosts for the tests of one file that need them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.guard.hosts.cluster import Cluster, hosts_up
from tests.guard.hosts.host_programs import write_programs


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    write_programs(folder)
    with hosts_up(folder) as made:
        yield made
