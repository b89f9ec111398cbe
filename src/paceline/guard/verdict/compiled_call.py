"""A call that a rank stands in without a record of it: one that a compiled library makes below Python. A value."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.guard.shared_memory.operations import Family


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCall:
    """A function of MPI or gloo that a thread is inside, as its native stack shows it.

    Attributes:
        function: The outermost such function, as C names it: MPI_Barrier, gloo::allreduce.
        library: The file that called it; empty if that was Python itself.
        site: The innermost line of the user's Python code, as file:line; empty if there is none.
        family: How it meets its partners; None if that is not known.
        waits: Whether the thread certainly waits for other ranks: the function is one that blocks until another rank
            acts, and inside it is nothing but the MPI library and what carries its messages.
    """

    function: str
    library: str = ""
    site: str = ""
    family: Family | None = None
    waits: bool = False

    @property
    def is_of_gloo(self) -> bool:
        """Whether it is a call of gloo, and not of MPI."""
        return not self.function.startswith("MPI_")

    @property
    def text(self) -> str:
        """The call as a sentence names it: MPI_Barrier, called by libhalo.so from solver.py:31."""
        by = f", called by {self.library}" if self.library else ""
        at = f"{' from' if by else ' at'} {self.site}" if self.site else ""
        return f"{self.function}{by}{at}"
