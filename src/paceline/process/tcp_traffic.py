"""How much the TCP connections of a process have carried, as the kernel counts it for each of them.

The kernel answers over a netlink socket. It tells of the network that this process sees, so a process in another
container is unknown here.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST_DUMP = 0x301
_ERROR, _DONE = 2, 3  # kinds of answers
_ESTABLISHED = 1 << 1
_INFO = 2  # the attribute that holds the counters
_HEADER = struct.Struct("=IHHII")  # length, kind, flags, number, port
_QUESTION = struct.Struct("=BBBBI48x")  # family, protocol, attributes, padding, states, address
_ANSWER = struct.Struct("=4B48x5I")  # ends with the inode
_ATTRIBUTE = struct.Struct("=HH")  # length, kind
_COUNTERS = struct.Struct("=120xQQ")  # bytes acknowledged, bytes received
_ANSWER_SECONDS = 1.0

Carried = tuple[int, int]
"""Bytes that the peer has acknowledged, and bytes that have come."""


def carried_by(inodes: set[int]) -> dict[int, Carried]:
    """Return what connections have carried, by the inodes of their sockets; those that are unknown are left out.

    Raises:
        OSError: The kernel does not answer such questions.
    """
    found: dict[int, Carried] = {}
    for family in (socket.AF_INET, socket.AF_INET6) if inodes else ():
        for inode, carried in _connections(family):
            if inode in inodes:
                found[inode] = carried
    return found


def socket_inodes(pid: int) -> set[int]:
    """Return the inodes of a process's sockets.

    Raises:
        OSError: It has ended, or may not be looked at.
    """
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # it was closed
            target = os.readlink(f"/proc/{pid}/fd/{name}")
            if target.startswith("socket:["):
                inodes.add(int(target[len("socket:[") : -1]))
    return inodes


def _connections(family: int) -> Iterator[tuple[int, Carried]]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_ANSWER_SECONDS)
        question = _QUESTION.pack(family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, _ESTABLISHED)
        size = _HEADER.size + len(question)
        kernel.send(_HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0) + question)
        while True:
            data = memoryview(kernel.recv(1 << 16))
            while len(data) >= _HEADER.size:
                length, kind, _, _, _ = _HEADER.unpack_from(data)
                if kind == _DONE:
                    return
                if kind == _ERROR or length < _HEADER.size:
                    raise OSError("the kernel does not tell of connections")
                yield from _read_answer(data[_HEADER.size : length])
                data = data[_aligned(length) :]


def _read_answer(data: memoryview) -> Iterator[tuple[int, Carried]]:
    inode = _ANSWER.unpack_from(data)[-1]
    data = data[_ANSWER.size :]
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if kind == _INFO and length >= _ATTRIBUTE.size + _COUNTERS.size:
            acknowledged, came = _COUNTERS.unpack_from(data, _ATTRIBUTE.size)
            yield inode, (acknowledged, came)
        data = data[max(_aligned(length), _ATTRIBUTE.size) :]


def _aligned(length: int) -> int:
    return (length + 3) & ~3
