"""What a rank knows of the others, and the few collectives that they share, over several carriers."""

from paceline.comm.comm import Comm, CommError, Reduction
from paceline.comm.connect import connect
from paceline.comm.place import Place, find_place

__all__ = ["Comm", "CommError", "Place", "Reduction", "connect", "find_place"]
