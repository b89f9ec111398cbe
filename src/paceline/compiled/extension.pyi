"""What the extension module offers; kernels.h says what each function does."""

from collections.abc import Callable, Sized
from typing import Any

from numpy.typing import NDArray
from typing_extensions import Buffer

Array = Buffer | NDArray[Any]  # numpy's arrays are buffers, which its types say for Python 3.12 and later only

RING_LAYOUT: dict[str, int]  # of the records of watched calls, as it was compiled

def heaviest_first(costs: Array, order: Array, /) -> None: ...
def add_up_groups(group_of: Array, numbers: Array, sums: Array, /) -> None: ...
def list_members(group_of: Array, real: Array, members: Array, ends: Array, /) -> None: ...
def deal_longest_first(falling: Array, order: Array, num_groups: int, group_of: Array, /) -> None: ...
def deal_by_differencing(falling: Array, order: Array, num_groups: int, group_of: Array, /) -> None: ...
def swap_until_even(
    falling: Array, order: Array, num_groups: int, target: int, memory: Array, limit: int, max_sweeps: int,
    group_of: Array, /,
) -> None: ...  # fmt: skip
def even_out_hosts(
    falling: Array, order: Array, costs: Array, num_bytes: Array, real: Array, host_of: Array, host_target: int,
    target: int, limit: int, max_sweeps: int, sent: Array, received: Array, group_of: Array, /,
) -> None: ...  # fmt: skip
def best_fit(lengths: Array, room: int, pack_of: Array, /) -> int: ...
def spread_pieces(
    lengths: Array, costs: Array, order: Array, num_packs: int, room: int, most: int, pack_of: Array, /
) -> bool: ...
def shuffle_table(table: Array, key: int, /) -> None: ...
def permute(numbers: Array, size: int, key: int, backward: bool, results: Array, /) -> None: ...
def permute_along(begin: int, stride: int, size: int, key: int, results: Array, /) -> None: ...
def pack_rows(
    dense: tuple[Array, ...], jagged: tuple[tuple[Any, ...], ...], num_rows: int, rows: Array, counts: Array, /
) -> list[bytearray]: ...
def arrange_rows(
    dense: tuple[Array, ...], jagged: tuple[tuple[Any, ...], ...], num_rows: int, parcels: tuple[Array, ...],
    counts: Array, order: Array, num_new_rows: int, /,
) -> list[bytearray]: ...  # fmt: skip
def route_rows(
    groups: tuple[NDArray[Any], ...], rank: int, batch_size: int, num_real: int, found: Array, counts: Array, /
) -> tuple[int, int] | None: ...
def order_group(group: Array, num_real: Array, rank: int, batch_size: int, counts: Array, order: Array, /) -> int: ...
def count_pickle_steps(data: Buffer, most_steps: int, /) -> int: ...

class BoardMember:
    """One member of a communicator: it counts its collectives, and meets the others on the board."""

    def __new__(
        cls, index: int, member: int, num_members: int, words: Buffer | None = None, column: int = 0
    ) -> BoardMember: ...

class RecordWriter:
    """What writes the records of a rank; `open_ring` comes first. The methods are those of the guard's Recorder."""

    def open_ring(
        self, memory: Buffer, slots: dict[int, int], take_free_slot: Callable[[], int], sites: object, /
    ) -> None: ...
    def open_requests(
        self, requests: object, free_numbers: list[int], remarks: object, dropped: Sized, buffers: object, gone: Sized,
        on_writing: list[Any], table: MemoryTable, /,
    ) -> None: ...  # fmt: skip
    def begin_collective(self, communicator: object, operation: int, root: int = -1, **numbers: int) -> int: ...
    def begin_message(self, communicator: int, operation: int, **numbers: object) -> int: ...
    def block(self, number: int, /) -> None: ...
    def unblock(self, number: int, /) -> None: ...
    def leave(self, number: int, /) -> None: ...

class MpiArguments:
    """What all compiled calls of one mpi4py need: where things are, and who reads what is not plain."""

    def __new__(
        cls, session: object, communicators: dict[int, Any], handle: object, buffers: object, in_place: object,
        reductions: tuple[tuple[Any, int], ...], reduction_of: Callable[[Any], int], number_of: Callable[[Any], int],
        any_source: int, any_tag: int, status_type: Callable[[], Any], posted_type: type, followed: dict[int, Any],
        request_handle: object, compares: bool,
    ) -> MpiArguments: ...  # fmt: skip

class WatchedCollective:
    """A blocking collective of mpi4py that is recorded; `places` is a `Places`, or None."""

    def __new__(
        cls, mpi: MpiArguments, function: Callable[..., Any], in_python: Callable[..., Any], code: int,
        read: Callable[..., Any], is_rooted: bool, places: tuple[int, ...] | None,
    ) -> WatchedCollective: ...  # fmt: skip
    def __call__(self, *args: Any, **named: Any) -> Any: ...

class WatchedMessage:
    """A blocking send or receive of mpi4py that is recorded."""

    def __new__(
        cls, mpi: MpiArguments, function: Callable[..., Any], in_python: Callable[..., Any], code: int,
        helper: Callable[..., Any], sends: bool, has_buffer: bool, uses_memory: bool,
    ) -> WatchedMessage: ...  # fmt: skip
    def __call__(self, *args: Any, **named: Any) -> Any: ...

class WatchedPosting:
    """A send or receive of mpi4py that returns a request and is recorded."""

    def __new__(
        cls, mpi: MpiArguments, function: Callable[..., Any], in_python: Callable[..., Any], code: int,
        helper: Callable[..., Any], sends: bool, has_buffer: bool, uses_memory: bool,
    ) -> WatchedPosting: ...  # fmt: skip
    def __call__(self, *args: Any, **named: Any) -> Any: ...

class WatchedWait:
    """A wait of mpi4py for one request, or for all of a list, that is recorded."""

    def __new__(
        cls, mpi: MpiArguments, function: Callable[..., Any], in_python: Callable[..., Any], code: int,
        fail: Callable[..., None], waits_for_all: bool,
    ) -> WatchedWait: ...  # fmt: skip
    def __call__(self, *args: Any, **named: Any) -> Any: ...

class Nesting:
    """How many watched functions a thread is in."""

    depth: int

class OutermostCall:
    """A method that is `in_python` where no watched function calls it, and `function` where one does."""

    def __new__(
        cls, nesting: Nesting, function: Callable[..., Any], in_python: Callable[..., Any]
    ) -> OutermostCall: ...
    def __call__(self, *args: Any, **named: Any) -> Any: ...

class TensorSizes:
    """Reads what tensors hold: element type, bytes, elements."""

    def __new__(
        cls, known: dict[Any, tuple[int, int]], in_python: Callable[[Any], Any], tensor_class: type,
        has_data: Callable[[type], bool],
    ) -> TensorSizes: ...  # fmt: skip
    def size(self, tensor: Any, /) -> tuple[int, int, int]: ...

class TorchArguments:
    """What the compiled functions of one torch.distributed have in common."""

    def __new__(
        cls, session: object, watch: object, nesting: Nesting, sizes: TensorSizes,
        reductions: tuple[tuple[object, int], ...],
    ) -> TorchArguments: ...  # fmt: skip

class WatchedTorchCollective:
    """A collective of torch.distributed that is recorded; `follow` takes those that are not plain."""

    def __new__(
        cls, torch: TorchArguments, function: Callable[..., Any], follow: Callable[..., Any], code: int,
        read: Callable[..., Any], is_plain: bool, places: tuple[Any, ...] | None,
    ) -> WatchedTorchCollective: ...  # fmt: skip
    def __call__(self, *args: Any, **named: Any) -> Any: ...

class MemoryTable:
    """Memory that requests use: the same as MemoryTable of the guard."""

    num_writing: int
    def add(self, memory: Any, begin: int, end: int, writes: bool, /) -> int: ...
    def remove(self, memory: Any, begin: int, number: int, /) -> bool: ...
    def overlapping(self, begin: int, end: int, /) -> list[Any]: ...
    def __len__(self) -> int: ...

class PostedFields:
    """The fields of a posted request: the same as FieldsInPython of the guard."""

    def __init__(self, recorder: object, request: int, record: int, *, is_active: bool = True) -> None: ...
    def stand_for(self, request: object, table: dict[int, Any], /) -> None: ...
    def __call__(self, reference: object, /) -> None: ...

class ArrayMemory:
    """The memory of an array that a message uses: the same as HostMemory of the guard. Only C makes one."""
