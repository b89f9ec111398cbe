"""Puts the hooks into a process that Python has just started, and leaves the rest as it would be without them.

It must run before the script, and must not fail: the script runs in any case.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder

_LATER = ("mpi.mpi_hooks", "torch.torch_hooks", "torch.torch_dispatcher")  # of guard.rank: loaded when they are needed


class _PackageFinder:
    """Finds this very package: the guard in the ranks must be the one that reads their records."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname != "paceline":
            return None
        return importlib.util.spec_from_file_location(
            "paceline", os.path.join(self._package, "__init__.py"), submodule_search_locations=[self._package]
        )


def start(folder: str, package: str, before: set[str]) -> None:
    """Watch this process from now on.

    Args:
        folder: Where records go.
        package: The folder of this package.
        before: The modules that were loaded before we came.
    """
    sys.meta_path.insert(0, _PackageFinder(package))
    try:
        import pathlib

        if "PACELINE_HEAD" in os.environ:
            from paceline.guard.shared_memory.host_folder import make_host_folder

            make_host_folder(folder)  # of a run that was started on another host

        from paceline.guard.rank.hooks import arrive
        from paceline.process.private_files import is_private_folder

        if is_private_folder(folder):  # a process that has outlived its run may find what another user put there
            arrive(pathlib.Path(folder))
        make_way(before)
    except Exception as error:  # the script must run as it would have; the judge says that it is not watched
        try:
            from paceline.process.private_files import write_private

            write_private(os.path.join(folder, f"problem.{os.getpid()}"), f"{type(error).__name__}: {error}".encode())
        except (OSError, ImportError):
            pass  # nobody can be told: the folder has gone, or is full


def make_way(before: set[str]) -> None:
    """Forget modules of Python that we have loaded, where the script has modules of its own by these names.

    Our modules keep what they have imported. The script gets its own, as it would without us.
    """
    loaded = {name.partition(".")[0] for name in set(sys.modules) - before} - before
    loaded = {name for name in loaded if _is_on_path(name)}
    hidden = {name for folder in _script_folders() for name in _modules_in(folder) & loaded if _finds(folder, name)}
    if not hidden:
        return
    for later in _LATER:  # now: afterwards they would import the script's modules
        importlib.import_module(f"paceline.guard.rank.{later}")
    for name in list(sys.modules):
        if name.partition(".")[0] in hidden:
            del sys.modules[name]


def _is_on_path(name: str) -> bool:
    """Say whether a module was found on the path: one that is built in or frozen comes first in any case."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return spec is not None and spec.origin not in (None, "built-in", "frozen") and name != "paceline"


def _script_folders() -> Iterator[str]:
    """Return the folders that Python, or a program that runs scripts, will put first on the path."""
    if sys.flags.isolated or getattr(sys.flags, "safe_path", False):
        return
    program = sys.argv[0] if sys.argv else ""
    if program in ("", "-c", "-m"):
        yield os.getcwd()
        # `python -m mpi4py train.py` and the like: the module runs a script
        scripts = [word for word in sys.orig_argv if word.endswith(".py") and os.path.isfile(word)]
        yield from (os.path.dirname(os.path.realpath(word)) for word in scripts)
    elif os.path.isdir(program):
        yield program
    else:
        yield os.path.dirname(os.path.realpath(program))


def _modules_in(folder: str) -> set[str]:
    try:
        return {name.partition(".")[0] for name in os.listdir(folder)}
    except OSError:
        return set()


def _finds(folder: str, name: str) -> bool:
    """Say whether a module would be found there; a folder without `__init__.py` would not be preferred."""
    spec = PathFinder.find_spec(name, [folder])
    return spec is not None and spec.loader is not None and spec.origin is not None
