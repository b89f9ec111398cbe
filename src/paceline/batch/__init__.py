"""What a rank hands to the model: batches of equal shape, with their padding in the open."""

from paceline.batch.adapters import Collate, UnknownDtypeError, as_batch
from paceline.batch.batch import Batch
from paceline.batch.jagged import Jagged
from paceline.batch.packed import Packed, packed

__all__ = ["Batch", "Collate", "Jagged", "Packed", "UnknownDtypeError", "as_batch", "packed"]
