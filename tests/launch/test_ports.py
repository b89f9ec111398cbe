"""Ports at which ranks will meet."""

from __future__ import annotations

import random
import socket
from pathlib import Path

import pytest

from paceline.launch.ports import free_port


def test_a_port_is_free_and_not_one_of_those_for_outgoing_connections() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for _ in range(50):
        port = free_port()
        assert 15_000 <= port < first
        socket.create_server(("127.0.0.1", port)).close()


def test_a_port_that_somebody_has_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = free_port()
    drawn = iter([taken, taken, taken + 1, *range(taken + 2, taken + 100)])
    monkeypatch.setattr(random.SystemRandom, "randrange", lambda *_: next(drawn))
    with socket.create_server(("", taken)):
        assert free_port() > taken
