"""Which tensors a batch can hold: rows of numbers in memory, that can be sliced, copied and sent byte by byte."""

from __future__ import annotations

import torch

from paceline.errors import InputError


def check_is_plain(name: str, tensor: torch.Tensor) -> None:
    """Refuse a tensor that cannot be a field, by the field's name.

    >>> check_is_plain("user", torch.ones(2, device="meta"))
    Traceback (most recent call last):
    paceline.errors.InputError: field 'user' is a meta tensor: it has a shape but no numbers

    Raises:
        InputError: It is sparse, quantised, in a layout of a library, or has no numbers (meta).
    """
    if tensor.layout is not torch.strided:
        kind = str(tensor.layout).removeprefix("torch.").removeprefix("_")
        raise InputError(f"field {name!r} is a {kind} tensor: make it dense (to_dense), or give its lists as jagged")
    if tensor.is_quantized:
        raise InputError(f"field {name!r} is quantised: give its numbers (int_repr or dequantize)")
    if tensor.is_meta:
        raise InputError(f"field {name!r} is a meta tensor: it has a shape but no numbers")
