"""Finds the function that a user names as `module:function` or `file.py:function`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from paceline.errors import InputError


def load_factory(name: str) -> Callable[[int, int], Any]:
    """Return the function that `name` stands for; the current folder is searched first, as `python -m` does."""
    module_name, colon, function_name = name.rpartition(":")
    if not (colon and module_name and function_name):
        raise InputError(f"{name!r} does not name a factory: write MODULE:FACTORY or FILE.py:FACTORY")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    is_file = module_name.endswith(".py")
    try:
        module = _load_file(Path(module_name)) if is_file else _load_module(module_name)
    except InputError:
        raise
    except Exception as error:
        trace = "".join(traceback.format_exception_only(error)).strip()
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
        frames = [frame for frame in frames if not frame.filename.startswith("<frozen")]
        where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
        raise InputError(f"{module_name} cannot be imported: {trace}{where}") from error
    factory = module
    for part in function_name.split("."):
        factory = getattr(factory, part, None)  # type: ignore[assignment]
    if not callable(factory):
        raise InputError(f"{module_name} has no function {function_name!r}")
    return factory


def _load_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there, but something that it imports is not
        raise InputError(f"there is no module {name!r} here or on the Python path") from None


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # a .py file always has a loader
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # so that DataLoader workers can find what it defines
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    return module
