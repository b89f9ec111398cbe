"""Three hosts for the tests of one file that need them, and a job over links for each test that needs one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.guard.hosts.cluster import Cluster, hosts_up
from tests.guard.hosts.host_programs import write_programs
from tests.guard.hosts.linked_job import LinkedJob

from paceline.guard.hosts.head_rings import HeadRings
from paceline.guard.hosts.keys import new_secret
from paceline.guard.hosts.link import HeadLink, listen
from paceline.guard.hosts.watching import Watching
from paceline.guard.observe.local_rings import LocalRings


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    write_programs(folder)
    with hosts_up(folder) as made:
        yield made


@pytest.fixture
def job(tmp_path: Path) -> Iterator[LinkedJob]:
    folders = [tmp_path / name for name in ("head", "first", "second")]
    for folder in folders:
        folder.mkdir()
    secret, listening = new_secret(), listen("127.0.0.1")
    address = f"127.0.0.1:{listening.getsockname()[1]}"
    head = HeadRings(folders[0], HeadLink(listening, secret), address)
    rings = [LocalRings(folder) for folder in folders[1:]]
    watchers = [Watching(each, [address], secret) for each in rings]
    yield LinkedJob(folders, secret, head, rings, watchers)
    for watcher in watchers:
        watcher.close()
    head.close()
    for each in rings:
        each.close()
