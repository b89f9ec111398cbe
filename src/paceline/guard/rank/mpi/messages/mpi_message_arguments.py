"""How to read the arguments of mpi4py's sends, receives, probes and exchanges: peer, tag, and what is sent or fits.

READERS is the table: operation -> the method that reads its arguments. A method gets the arguments just as the user
gave them, the communicator first, under the names that mpi4py has for them, and raises TypeError if they do not fit.
How the readers are put to use is in mpi_messages.py.
"""

# ruff: noqa: D102 (the methods are entries of a table: each is named after the operation whose arguments it reads)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paceline.guard.rank.buffer_size import UNKNOWN_SIZE, Size
from paceline.guard.rank.mpi.mpi_buffers import Buffers
from paceline.guard.rank.mpi.mpi_constants import MpiConstants, number_or_outsider

SendArguments = tuple[int, int, Size]  # peer, tag, size
# peer, tag, size, all arguments in mpi4py's order but the status, the status. A watched receive may have to pass a
# status of its own, to learn who sent the message, so it makes the call with these and not with what the user gave.
ReceiveArguments = tuple[int, int, Size, tuple[Any, ...], Any]
# what it sends, what it has room for, then as for a receive
ExchangeArguments = tuple[SendArguments, SendArguments, tuple[Any, ...], Any]
_DEFAULT: Any = object()  # for any source or any tag, whose numbers depend on the MPI


class MessageReader:
    """Reads the arguments of messages for one mpi4py."""

    __slots__ = ("_any_source", "_any_tag", "_peer", "_size", "_tag")

    def __init__(self, mpi: Any, buffers: Buffers, constants: MpiConstants) -> None:
        self._any_source, self._any_tag = mpi.ANY_SOURCE, mpi.ANY_TAG
        self._size: Callable[[Any], Size] = buffers.size
        self._peer, self._tag = constants.peer, constants.tag

    def read_sizes_by(self, size: Callable[[Any], Size]) -> None:
        """Read what buffers hold by another function from now on."""
        self._size = size

    def send(self, comm: Any, buf: Any, dest: Any, tag: Any = 0) -> SendArguments:
        return self._peer(dest), number_or_outsider(tag), self._size(buf)

    def send_object(self, comm: Any, obj: Any, dest: Any, tag: Any = 0) -> SendArguments:
        return self._peer(dest), number_or_outsider(tag), UNKNOWN_SIZE

    def receive(
        self, comm: Any, buf: Any, source: Any = _DEFAULT, tag: Any = _DEFAULT, status: Any = None
    ) -> ReceiveArguments:
        source = self._any_source if source is _DEFAULT else source
        tag = self._any_tag if tag is _DEFAULT else tag
        return self._peer(source), self._tag(tag), self._size(buf), (comm, buf, source, tag), status

    def receive_object(
        self, comm: Any, buf: Any = None, source: Any = _DEFAULT, tag: Any = _DEFAULT, status: Any = None
    ) -> ReceiveArguments:
        source = self._any_source if source is _DEFAULT else source
        tag = self._any_tag if tag is _DEFAULT else tag
        return self._peer(source), self._tag(tag), UNKNOWN_SIZE, (comm, buf, source, tag), status

    def send_in_parts(
        self, comm: Any, buf: Any, partitions: Any, dest: Any, tag: Any = 0, info: Any = None
    ) -> SendArguments:
        return self._peer(dest), number_or_outsider(tag), self._size(buf)

    def receive_in_parts(
        self, comm: Any, buf: Any, partitions: Any, source: Any = _DEFAULT, tag: Any = _DEFAULT, info: Any = None
    ) -> SendArguments:
        source = self._any_source if source is _DEFAULT else source
        return self._peer(source), self._tag(self._any_tag if tag is _DEFAULT else tag), self._size(buf)

    def probe(self, comm: Any, source: Any = _DEFAULT, tag: Any = _DEFAULT, status: Any = None) -> ReceiveArguments:
        source = self._any_source if source is _DEFAULT else source
        tag = self._any_tag if tag is _DEFAULT else tag
        return self._peer(source), self._tag(tag), UNKNOWN_SIZE, (comm, source, tag), status

    def exchange(
        self, comm: Any, sendbuf: Any, dest: Any, sendtag: Any = 0, recvbuf: Any = None, source: Any = _DEFAULT,
        recvtag: Any = _DEFAULT, status: Any = None,
    ) -> ExchangeArguments:  # fmt: skip
        source = self._any_source if source is _DEFAULT else source
        recvtag = self._any_tag if recvtag is _DEFAULT else recvtag
        send = self._peer(dest), number_or_outsider(sendtag), self._size(sendbuf)
        receive = self._peer(source), self._tag(recvtag), self._size(recvbuf)
        return send, receive, (comm, sendbuf, dest, sendtag, recvbuf, source, recvtag), status

    def exchange_in_place(
        self, comm: Any, buf: Any, dest: Any, sendtag: Any = 0, source: Any = _DEFAULT, recvtag: Any = _DEFAULT,
        status: Any = None,
    ) -> ExchangeArguments:  # fmt: skip
        source = self._any_source if source is _DEFAULT else source
        recvtag = self._any_tag if recvtag is _DEFAULT else recvtag
        size = self._size(buf)
        send = self._peer(dest), number_or_outsider(sendtag), size
        receive = self._peer(source), self._tag(recvtag), size
        return send, receive, (comm, buf, dest, sendtag, source, recvtag), status

    def exchange_objects(
        self, comm: Any, sendobj: Any, dest: Any, sendtag: Any = 0, recvbuf: Any = None, source: Any = _DEFAULT,
        recvtag: Any = _DEFAULT, status: Any = None,
    ) -> ExchangeArguments:  # fmt: skip
        source = self._any_source if source is _DEFAULT else source
        recvtag = self._any_tag if recvtag is _DEFAULT else recvtag
        send = self._peer(dest), number_or_outsider(sendtag), UNKNOWN_SIZE
        receive = self._peer(source), self._tag(recvtag), UNKNOWN_SIZE
        return send, receive, (comm, sendobj, dest, sendtag, recvbuf, source, recvtag), status


_BUFFER_SENDS = (
    "Send", "Ssend", "Rsend", "Bsend", "Isend", "Issend", "Irsend", "Ibsend", "Send_init", "Ssend_init", "Rsend_init",
    "Bsend_init",
)  # fmt: skip
_OBJECT_SENDS = ("send", "ssend", "bsend", "isend", "issend", "ibsend")
READERS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(_BUFFER_SENDS, MessageReader.send),
    **dict.fromkeys(_OBJECT_SENDS, MessageReader.send_object),
    **dict.fromkeys(("Recv", "Irecv", "Recv_init"), MessageReader.receive),
    **dict.fromkeys(("recv", "irecv"), MessageReader.receive_object),
    **dict.fromkeys(("Probe", "probe", "Mprobe", "mprobe", "Improbe", "improbe"), MessageReader.probe),
    **dict.fromkeys(("Sendrecv", "Isendrecv"), MessageReader.exchange),
    **dict.fromkeys(("Sendrecv_replace", "Isendrecv_replace"), MessageReader.exchange_in_place),
    "Psend_init": MessageReader.send_in_parts,
    "Precv_init": MessageReader.receive_in_parts,
    "sendrecv": MessageReader.exchange_objects,
}
