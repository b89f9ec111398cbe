"""Puts the hooks into a process: at once into modules that are already imported, on import into the rest."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from paceline.guard.rank.process_end import watch_process
from paceline.guard.rank.thread_watch import watch_pool, watch_threads
from paceline.guard.rank.watched_process import SESSION, initialising_mpi


def _watch_mpi(module: ModuleType) -> None:
    from paceline.guard.rank.mpi.mpi_hooks import watch_mpi

    watch_mpi(module)


def _watch_pkl5(module: ModuleType) -> None:
    from paceline.guard.rank.mpi.mpi_pickles import watch_pkl5

    watch_pkl5(module)


def _watch_torch(module: ModuleType) -> None:
    from paceline.guard.rank.torch.torch_hooks import watch_torch

    watch_torch(module)


def _watch_ddp(module: ModuleType) -> None:
    from paceline.guard.rank.torch.torch_dispatcher import watch_ddp

    watch_ddp(module)


def _watch_rpc(module: ModuleType) -> None:
    from paceline.guard.rank.torch.rpc.rpc_hooks import watch_rpc

    watch_rpc(module)


def _watch_functional(module: ModuleType) -> None:
    from paceline.guard.rank.torch.torch_dispatcher import watch_functional

    watch_functional(module)


def _watch_compiler(module: ModuleType) -> None:
    from paceline.guard.rank.torch.torch_dispatcher import watch_compiler

    watch_compiler(module)


def _skip_own_files(module: ModuleType) -> None:
    from paceline.guard.rank.torch.torch_dispatcher import skip_own_files

    skip_own_files(module)


def _watch_training_function(module: ModuleType) -> None:
    from paceline.guard.rank.ray.training_function import watch_training_function

    watch_training_function(module)


_WATCHERS: dict[str, Callable[[ModuleType], None]] = {
    "concurrent.futures.thread": watch_pool,
    "mpi4py.MPI": _watch_mpi,
    "mpi4py.util.pkl5": _watch_pkl5,
    "torch.distributed.distributed_c10d": _watch_torch,
    "torch.distributed.rpc": _watch_rpc,
    "torch.nn.parallel.distributed": _watch_ddp,
    "torch.distributed._functional_collectives": _watch_functional,
    "torch._dynamo.callback": _watch_compiler,
    "torch._dynamo.trace_rules": _skip_own_files,
    "ray.train.v2._internal.execution.worker_group.thread_runner": _watch_training_function,
}
_NO = ("false", "no", "off", "n", "0", "")  # as mpi4py reads its variables


def arrive(folder: Path) -> None:
    """Watch this process from now on. Records go to the folder once the process joins a job."""
    if SESSION.folder is not None:
        return
    SESSION.open(folder)
    watch_process()
    watch_threads()
    sys.meta_path.insert(0, _WatchingFinder())
    for name, watch in _WATCHERS.items():
        if name in sys.modules:
            _watch_unless_it_fails(watch, sys.modules[name])


def initialises_mpi(module_name: str) -> bool:
    """Say whether the import of a module initialises MPI: scripts may ask mpi4py to leave that to them."""
    if module_name != "mpi4py.MPI":
        return False
    asked = os.environ.get("MPI4PY_RC_INITIALIZE")
    if asked is not None:
        return asked.lower() not in _NO
    return getattr(getattr(sys.modules.get("mpi4py"), "rc", None), "initialize", True) not in (False, "no")


def _watch_unless_it_fails(watch: Callable[[ModuleType], None], module: ModuleType) -> None:
    """Watch a module. One that is not as we know it, of a version to come or long gone, must not break the script."""
    try:
        watch(module)
    except Exception as error:
        version = getattr(sys.modules.get(module.__name__.partition(".")[0]), "__version__", "of unknown version")
        SESSION.note_problem(f"{module.__name__} ({version}) cannot be watched: {type(error).__name__}: {error}")


class _WatchingFinder:
    """Finds the watched modules where they would be found anyway, and has them watched when they are loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _WATCHERS:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    loader: Any = _WatchingLoader(spec.loader, _WATCHERS[fullname])
                    spec.loader = loader
                return spec
        return None


class _WatchingLoader:
    """Loads as before, then calls the watcher."""

    def __init__(self, inner: Any, watch: Callable[[ModuleType], None]) -> None:
        self._inner, self._watch = inner, watch

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        with initialising_mpi() if initialises_mpi(module.__name__) else nullcontext():
            self._inner.exec_module(module)
        # others look at a module's loader, for resources or for reloading: let them see the real one
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        module.__loader__ = self._inner
        _watch_unless_it_fails(self._watch, module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
