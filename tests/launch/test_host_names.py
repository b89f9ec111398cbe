"""By which addresses hosts are found."""

from __future__ import annotations

import socket

import pytest

from paceline.launch.launcher_command.host_names import addresses_of


def test_addresses_of_ipv4_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A head listens on the first one, and a watcher that knows both takes that of IPv4."""
    found = [
        (family, socket.SOCK_STREAM, 6, "", (address, 0))
        for family, address in ((socket.AF_INET6, "fd00::1"), (socket.AF_INET, "10.0.0.1"))
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: found)
    assert addresses_of("n1") == ["10.0.0.1", "fd00::1"]
