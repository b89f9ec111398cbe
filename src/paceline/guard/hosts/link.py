"""The transport: ZeroMQ with CURVE. Only who has the secret of the run gets in, and nobody else can read along.

Messages may be lost when a connection breaks: settling.py finds that by their numbers.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence

import zmq
from zmq.utils import z85

from paceline.guard.hosts.host_messages import MOST_BYTES
from paceline.guard.hosts.keys import derive_secret

_MOST_CONNECTIONS = 16_384
_MOST_AT_ONCE = 2000  # messages that are taken in before anything else is done
_HANDSHAKE_MS = 2000
_UNHEARD_MS = (
    6000  # for which what was sent may stay without an answer of the kernel there: then the connection is dead
)
_LET_IN_EVERY = 16  # messages, after which it is looked who asks to be let in
# plain numbers: operators of the enumerations of pyzmq cost more than a message
_NOW, _MORE_FOLLOW, _HAS_MORE = int(zmq.NOBLOCK), int(zmq.SNDMORE), int(zmq.RCVMORE)
LINK_ERRORS = (OSError, zmq.ZMQError)  # what making a link may raise
_ZAP = "inproc://zeromq.zap.01"
_CONNECT_SECONDS = 2.0


def _pair(secret: bytes, role: str) -> tuple[bytes, bytes]:
    """Return the public and the private key of a role."""
    private = z85.encode(derive_secret(secret, role))
    return zmq.curve_public(private), private


def _set_keys(link: zmq.Socket[bytes], keys: tuple[bytes, bytes]) -> None:
    link.setsockopt(zmq.CURVE_PUBLICKEY, keys[0])
    link.setsockopt(zmq.CURVE_SECRETKEY, keys[1])


def _set_limits(link: zmq.Socket[bytes]) -> None:
    link.setsockopt(zmq.MAXMSGSIZE, MOST_BYTES)
    link.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
    # watchers beat, so something is always on its way: heartbeats of the transport would be as much again for nothing
    link.setsockopt(zmq.TCP_MAXRT, _UNHEARD_MS)
    link.setsockopt(zmq.LINGER, 0)


def listen(address: str, port: int = 0) -> socket.socket:
    """Return a socket that listens on one address, for `HeadLink`; 0 is any port that is free."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.listen(_MOST_CONNECTIONS)
    except OSError:
        listening.close()
        raise
    return listening


class HeadLink:
    """The head's side: many watchers.

    Args:
        listening: A socket that listens already, so that the port is known before any thread of ours runs.
        secret: The secret of the run.
    """

    def __init__(self, listening: socket.socket, secret: bytes) -> None:
        self._context = zmq.Context()
        self._context.setsockopt(zmq.MAX_SOCKETS, 2 * _MOST_CONNECTIONS)
        self._guard = self._context.socket(zmq.REP)  # is asked who gets in, before the watchers' socket is there
        self._guard.bind(_ZAP)
        self._allowed = z85.decode(_pair(secret, "host")[0])
        self._socket = self._context.socket(zmq.ROUTER)
        _set_limits(self._socket)
        self._socket.setsockopt(zmq.CURVE_SERVER, 1)
        _set_keys(self._socket, _pair(secret, "head"))
        self._socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.setsockopt(zmq.IPV6, int(listening.family == socket.AF_INET6))
        host, port = listening.getsockname()[:2]
        self._socket.setsockopt(zmq.USE_FD, listening.detach())
        self._socket.bind(f"tcp://{f'[{host}]' if ':' in host else host}:{port}")

    def wait(self, seconds: float, *descriptors: int) -> None:
        """Wait until something comes in, one of the descriptors is readable, or the time is up."""
        _wait(seconds, self.sockets(), descriptors)

    def sockets(self) -> list[zmq.Socket[bytes]]:
        """Return what can be waited for together with other connections."""
        return [self._socket, self._guard]

    def receive(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield who says what."""
        for number in range(_MOST_AT_ONCE):
            if number % _LET_IN_EVERY == 0:
                self._let_in()
            try:
                parts = [self._socket.recv(_NOW)]
            except zmq.Again:
                return
            parts.append(
                self._socket.recv(_NOW)
            )  # the parts of a message come together, and this socket adds the first
            while self._socket.get(_HAS_MORE):
                parts.append(self._socket.recv(_NOW))
            if len(parts) == 2:
                yield parts[0], parts[1]

    def _let_in(self) -> None:
        """Answer the transport's question who gets in: one key, and no other."""
        while self._guard.poll(0):
            version, request, _, _, _, mechanism, *credentials = self._guard.recv_multipart()
            allowed = mechanism == b"CURVE" and credentials == [self._allowed]
            verdict = (b"200", b"OK") if allowed else (b"400", b"No")
            self._guard.send_multipart([version, request, *verdict, b"", b""])

    def send(self, watcher: bytes, content: bytes) -> bool:
        """Say something to a watcher; return whether it is connected and has room for it."""
        try:
            self._socket.send(watcher, _NOW | _MORE_FOLLOW)
            self._socket.send(content, _NOW)
        except zmq.ZMQError:  # it has gone, or takes nothing in
            return False
        return True

    def close(self, linger_seconds: float = 0.0) -> None:
        """Let go of all connections; what was said last gets some time to leave."""
        self._socket.close(int(linger_seconds * 1000))
        self._guard.close(0)
        self._context.term()


class WatcherLink:
    """A watcher's side: one head.

    Args:
        addresses: Where the head may be reached, as HOST:PORT.
        secret: The secret of the run.
        name: Under which the head knows us.
        context: Of the transport; one of its own if there is none.

    Attributes:
        address: Where the head is.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        secret: bytes,
        name: bytes,
        context: zmq.Context[zmq.Socket[bytes]] | None = None,
    ) -> None:
        self._context, self._is_own = context or zmq.Context(), context is None
        self._socket = self._context.socket(zmq.DEALER)
        _set_limits(self._socket)
        self._socket.setsockopt(zmq.CURVE_SERVERKEY, _pair(secret, "head")[0])
        _set_keys(self._socket, _pair(secret, "host"))
        self._socket.setsockopt(zmq.ROUTING_ID, name)
        self._socket.setsockopt(zmq.IMMEDIATE, 1)  # what is said while nobody is there is not kept
        self._socket.setsockopt(zmq.RECONNECT_IVL, 100)
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, 2000)
        self.address = address = _reachable(addresses)
        self._socket.setsockopt(zmq.IPV6, int(_needs_ipv6(address)))
        self._socket.connect(f"tcp://{address}")

    def wait(self, seconds: float, *descriptors: int, others: Sequence[zmq.Socket[bytes]] = ()) -> None:
        """Wait until something comes in here or by other connections, a descriptor is readable, or the time is up."""
        _wait(seconds, [*self.sockets(), *others], descriptors)

    def sockets(self) -> list[zmq.Socket[bytes]]:
        """Return what can be waited for together with other connections."""
        return [self._socket]

    def receive(self) -> Iterator[bytes]:
        """Yield what the head says."""
        for _ in range(_MOST_AT_ONCE):
            try:
                yield self._socket.recv(_NOW)
            except zmq.Again:
                return

    def send(self, content: bytes) -> bool:
        """Say something; return whether the head is connected and has room for it."""
        try:
            self._socket.send(content, _NOW)
        except zmq.ZMQError:
            return False
        return True

    def close(self, linger_seconds: float = 0.0) -> None:
        """Let go; what was said last gets some time to leave."""
        self._socket.close(int(linger_seconds * 1000))
        if self._is_own:
            self._context.term()


def _wait(seconds: float, sockets: Sequence[zmq.Socket[bytes]], descriptors: Sequence[int]) -> None:
    poller = zmq.Poller()
    for readable in (*sockets, *descriptors):
        poller.register(readable, zmq.POLLIN)
    poller.poll(max(0, int(seconds * 1000)))


def own_address(head: str) -> str:
    """Return the address of this host by which it reaches the head."""
    host, _, port = head.rpartition(":")
    family, kind, protocol, _, where = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(where)  # sends nothing
        return str(probe.getsockname()[0])


def _reachable(addresses: Sequence[str]) -> str:
    """Return the first address that answers, or the first one: the head may not be there yet."""
    for address in addresses if len(addresses) > 1 else ():
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS):
                return address
        except OSError:
            time.sleep(0.01)
    return addresses[0]


def _needs_ipv6(address: str) -> bool:
    """Say whether a host has addresses of IPv6 alone: if it has both, the head listens on the other one."""
    try:
        found = socket.getaddrinfo(address.rpartition(":")[0].strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # nobody knows it yet
        return False
    return all(family == socket.AF_INET6 for family, *_ in found)
