"""What a rank knows of the other ranks of its job."""

from paceline.comm.place import Place, find_place

__all__ = ["Place", "find_place"]
