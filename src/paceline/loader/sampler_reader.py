"""Who takes the lists of a sampler: a loop, a DataLoader that may fetch ahead, or somebody who divides them again.

It looks at the frames of the calls, once for each pass, and imports neither torch nor accelerate.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import FrameType

_FARTHEST = 24  # frames between a loader and its sampler: wrappers are few
_TORCH, _STATEFUL, _ACCELERATE = "torch.utils.data.dataloader", "torchdata.", "accelerate."


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerReader:
    """What is known of who takes the lists.

    Attributes:
        fetches_ahead: Lists are taken before the loop asks for their batches, and nobody but the loop knows how far
            it has got.
        num_divided: Among how many processes the lists are divided once more; 1 if they are not.
    """

    fetches_ahead: bool = False
    num_divided: int = 1


def find_reader(frame: FrameType | None) -> SamplerReader:
    """Return who takes the lists, from the frame that asks for the first one."""
    num_divided, ahead = 1, False
    for _ in range(_FARTHEST):
        if frame is None:
            break
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(_ACCELERATE):
            # its loaders hold one batch back, to know which is the last
            num_divided, ahead = max(num_divided, _number(frame, "num_processes", 1)), True
        elif module == _TORCH:
            owner = frame.f_locals.get("self")
            if type(owner).__module__.startswith(_STATEFUL):
                return SamplerReader(num_divided=num_divided)  # it keeps count for its loop
            return SamplerReader(fetches_ahead=ahead or _number(frame, "_num_workers", 1) > 0, num_divided=num_divided)
        frame = frame.f_back
    return SamplerReader(fetches_ahead=ahead, num_divided=num_divided)


def _number(frame: FrameType, name: str, default: int) -> int:
    """Return a number of the object whose method runs in a frame; the default if it has none."""
    number = getattr(frame.f_locals.get("self"), name, default)
    return number if isinstance(number, int) else default
