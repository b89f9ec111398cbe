"""By which addresses hosts are found."""

from __future__ import annotations

import socket
import tracemalloc

import pytest

from paceline.launch.launcher_command.host_lists import expand_hosts
from paceline.launch.launcher_command.host_names import addresses_of


def test_addresses_of_ipv4_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A head listens on the first one, and a watcher that knows both takes that of IPv4."""
    found = [
        (family, socket.SOCK_STREAM, 6, "", (address, 0))
        for family, address in ((socket.AF_INET6, "fd00::1"), (socket.AF_INET, "10.0.0.1"))
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: found)
    assert addresses_of("n1") == ["10.0.0.1", "fd00::1"]


def test_a_list_of_very_many_hosts_is_cut_short_before_it_is_made() -> None:
    tracemalloc.start()
    try:
        hosts = expand_hosts("r[1-1000]n[1-1000]")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(hosts) == 100_000
    assert most < 30 << 20
