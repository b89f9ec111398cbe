"""Three hosts for the tests of one file that need them, and a job over links for each test that needs one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.guard.hosts.cluster import Cluster, hosts_up
from tests.guard.hosts.host_programs import write_programs
from tests.guard.hosts.linked_job import LinkedJob, linked_job


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    write_programs(folder)
    with hosts_up(folder) as made:
        yield made


@pytest.fixture
def job(tmp_path: Path) -> Iterator[LinkedJob]:
    with linked_job(tmp_path) as made:
        yield made
