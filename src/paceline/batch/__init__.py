"""What a rank hands to the model: batches of equal shape, with their padding in the open."""

from paceline.batch.adapters import Collate, UnknownDtypeError, as_batch
from paceline.batch.batch import Batch
from paceline.batch.jagged import Jagged

__all__ = ["Batch", "Collate", "Jagged", "UnknownDtypeError", "as_batch"]
