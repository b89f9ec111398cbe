"""Replaces methods of mpi4py's classes where they are, so the classes stay what they were.

A type that is written in C refuses `setattr`, but its own dictionary can be reached. Types, identities and pickles stay
as they were, and an object is watched wherever it came from: from the user, from mpi4py itself or from a C library.
"""

from __future__ import annotations

import ctypes
import functools
import gc
from collections.abc import Mapping
from typing import Any


def own_method(kind: type, name: str) -> Any:
    """Return a method that the class itself defines, None if it does not; a class method as it takes its class."""
    method = vars(kind).get(name)
    return method.__func__ if isinstance(method, classmethod) else method


def named_like(function: Any, like: Any) -> Any:
    """Give a function the name, the text and the signature of the one it stands for."""
    return functools.update_wrapper(function, like)


def replace_methods(kind: type, methods: Mapping[str, Any]) -> None:
    """Put methods into the dictionary of a class."""
    (members,) = gc.get_referents(vars(kind))  # what is seen of it otherwise is a proxy that can only be read
    members.update(methods)
    # otherwise calls would find the methods that the interpreter has cached
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
