"""What a rank hands to the model: batches of equal shape, with their padding in the open."""

from paceline.batch.adapters import Collate, as_batch
from paceline.batch.batch import Batch
from paceline.batch.jagged import Jagged

__all__ = ["Batch", "Collate", "Jagged", "as_batch"]
