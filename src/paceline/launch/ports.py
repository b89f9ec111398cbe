"""Finds a port for ranks to meet at, some seconds before the first of them listens on it."""

from __future__ import annotations

import random
import socket

from paceline.process.procfs import first_outgoing_port

_FIRST, _TRIES = 15_000, 100


def free_port() -> int:
    """Return a port of this machine that nobody has now.

    It is not one of those that the system gives to outgoing connections: any of them could take it before it is used.
    """
    end = first_outgoing_port()
    draw = random.SystemRandom()
    for _ in range(_TRIES if end > _FIRST else 0):
        port = draw.randrange(_FIRST, end)
        try:
            with socket.create_server(("", port)):
                return port
        except OSError:
            continue  # somebody has it
    with socket.create_server(("", 0)) as server:
        return int(server.getsockname()[1])
