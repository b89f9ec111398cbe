"""The compiled part: kernels in C for what takes too long in Python. Numbers in, numbers out; it decides nothing.

Arrays are any buffers of the right kind. A function fills the last ones that it is given; its caller makes them.
"""

try:
    from paceline.compiled import extension
except ImportError as error:
    raise ImportError(
        "the compiled part of Paceline cannot be loaded: pip compiles it when it installs Paceline, and so does make "
        "in a clone"
    ) from error

__all__ = ["extension"]
