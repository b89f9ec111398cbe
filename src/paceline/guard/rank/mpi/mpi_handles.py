"""Counts the handles of mpi4py that a rank makes and does not free. Python's garbage collection frees none of them.

These functions stand around the watched ones, so that whatever makes a handle is counted, followed or not.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from paceline.guard.rank.mpi.replaced_methods import named_like, own_method, replace_methods
from paceline.guard.rank.remarks.live_handles import LiveHandles
from paceline.guard.rank.remarks.rank_remarks import RankRemarks
from paceline.guard.rank.watched_process import SESSION

_COMMUNICATORS = (
    "Clone Dup Dup_with_info Split Split_type Create Create_group Create_cart Create_graph Create_dist_graph "
    "Create_dist_graph_adjacent Sub Create_intercomm Create_from_group Create_from_groups Merge Spawn Spawn_multiple "
    "Accept Connect"
)
_GROUPS = "Dup Union Intersection Difference Incl Excl Range_incl Range_excl"
_DATATYPES = (
    "Dup Create_contiguous Create_vector Create_hvector Create_indexed Create_hindexed Create_indexed_block "
    "Create_hindexed_block Create_struct Create_subarray Create_darray Create_resized"
)
# class -> methods that make a handle, and its kind
_MAKERS = (
    (("Comm", "Intracomm", "Intercomm", "Topocomm", "Cartcomm"), _COMMUNICATORS, "communicator"),
    (("Comm", "Intercomm", "Win", "File"), "Get_group Get_remote_group", "group"),
    (("Group",), _GROUPS, "group"),
    (("Datatype",), _DATATYPES, "datatype"),
    (("Op",), "Create", "reduction"),
    (("Win",), "Create Allocate Allocate_shared Create_dynamic", "window"),
    (("File",), "Open", "file"),
    (("Info",), "Create Dup", "info"),
    (("Comm", "Win", "File"), "Get_info", "info"),
)
# kind -> its class, and how one is given back
_KINDS = {
    "communicator": ("Comm", "Free free Disconnect"),
    "group": ("Group", "Free free"),
    "datatype": ("Datatype", "Free free"),
    "reduction": ("Op", "Free free"),
    "window": ("Win", "Free free"),
    "file": ("File", "Close free"),
    "info": ("Info", "Free free"),
}
_LIMITS_OF_MPICH = {"communicator": 2048}
_LIMIT_OF_MPI4PY = 32  # reductions of the user's own


def handle_reader(mpi: Any, kind: type) -> Callable[[Any], int]:
    """Return what tells MPI's handle of an object of a class: mpi4py 3 has a function for it, later ones an attribute.

    It is not read as `comm.handle`: a class of the user's may have another attribute of this name.
    """
    handle = vars(kind).get("handle")
    return mpi._handleof if handle is None else handle.__get__  # type: ignore[no-any-return]


class MpiHandles:
    """The handles of one mpi4py."""

    def __init__(self, mpi: Any) -> None:
        self._mpi = mpi
        self._live: LiveHandles | None = None
        self._handle_of = {kind: handle_reader(mpi, getattr(mpi, name)) for kind, (name, _) in _KINDS.items()}
        # they are there for ever, and may be returned by a function that makes others
        self._predefined = {
            (kind, self._handle_of[kind](constant))
            for kind, (name, _) in _KINDS.items()
            for constant in vars(mpi).values()
            if isinstance(constant, getattr(mpi, name))
        }
        self._replace()

    def join(self, remarks: RankRemarks) -> None:
        """Count from now on."""
        version = self._mpi.Get_library_version()
        limits = _LIMITS_OF_MPICH if version.startswith("MPICH") else {}
        library = "MPICH" if limits else "mpi4py"
        self._live = LiveHandles(remarks, library, {**limits, "reduction": _LIMIT_OF_MPI4PY})

    def _replace(self) -> None:
        methods: dict[str, dict[str, Any]] = {}
        for classes, names, kind in _MAKERS:
            for name in classes:
                self._collect(methods, name, names.split(), functools.partial(self._making, kind))
        for kind, (name, names) in _KINDS.items():
            self._collect(methods, name, names.split(), functools.partial(self._freeing, kind))
        for name, members in methods.items():
            replace_methods(getattr(self._mpi, name), members)

    def _collect(self, methods: dict[str, dict[str, Any]], class_name: str, names: list[str], wrap: Any) -> None:
        kind = getattr(self._mpi, class_name)
        for name in names:
            if (function := own_method(kind, name)) is not None:
                wrapped = wrap(function)
                is_of_class = isinstance(vars(kind)[name], classmethod)
                methods.setdefault(class_name, {})[name] = classmethod(wrapped) if is_of_class else wrapped

    def _making(self, kind: str, function: Any) -> Any:
        handle_of, predefined = self._handle_of[kind], self._predefined

        def call(*args: Any, **named: Any) -> Any:
            made = function(*args, **named)
            live, recorder = self._live, SESSION.recorder
            if live is not None and recorder is not None and made:
                handle = handle_of(made)
                if (kind, handle) not in predefined:
                    live.add(kind, handle, made, recorder.remarks.site_of(sys._getframe(1)))
            return made

        return named_like(call, function)

    def _freeing(self, kind: str, function: Any) -> Any:
        handle_of = self._handle_of[kind]

        def call(self_: Any, *args: Any, **named: Any) -> Any:
            handle = handle_of(self_)
            value = function(self_, *args, **named)
            if self._live is not None and SESSION.recorder is not None and handle_of(self_) != handle:
                self._live.remove(kind, handle)
            return value

        return named_like(call, function)
