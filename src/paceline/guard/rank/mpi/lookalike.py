"""Makes what is watched look like what it stands for: names, texts, `isinstance`."""

from __future__ import annotations

from typing import Any


class LookalikeMeta(type):
    """Makes a watched class answer `isinstance` as the class it stands for: mpi4py itself makes objects of that one."""

    def __instancecheck__(cls, instance: object) -> bool:
        base = cls.__dict__.get("_paceline_base")
        return isinstance(instance, base) if base is not None else super().__instancecheck__(instance)

    def __subclasscheck__(cls, other: type) -> bool:
        base = cls.__dict__.get("_paceline_base")
        return issubclass(other, base) if base is not None else super().__subclasscheck__(other)


def named_like(function: Any, like: Any) -> Any:
    """Give a function the name and the text of the one it stands for."""
    function.__name__ = like.__name__
    function.__qualname__ = getattr(like, "__qualname__", like.__name__)
    function.__doc__ = like.__doc__
    return function
