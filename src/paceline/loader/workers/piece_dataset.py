"""A dataset whose samples are pieces of longer ones, as a plan of packs has cut them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import Any

from paceline.errors import InputError
from paceline.plan import PackPlan


class PieceDataset:
    """Hands out the pieces of a dataset's samples: of the fields that hold lists, what the piece has of them.

    Args:
        dataset: The samples: dicts or dataclasses of fields.
        plan: What says which sample a piece is of, and where it begins.
        jagged: Names of the fields that hold a list with an entry for each token, or a dict of such lists by key.
    """

    def __init__(self, dataset: Any, plan: PackPlan, jagged: Collection[str]) -> None:
        if not jagged:
            raise InputError(
                f"{plan.num_cut} samples are longer than a pack and were cut or split: pass the names of the fields "
                f"that hold their tokens as jagged, so that these are cut"
            )
        self._dataset, self._plan, self._jagged = dataset, plan, frozenset(jagged)

    def __len__(self) -> int:
        return self._plan.num_pieces

    def __getitem__(self, piece: int) -> Any:
        sample, begin, num_tokens = self._plan.span_of(piece)
        return self._cut(self._dataset[sample], slice(begin, begin + num_tokens))

    def __getitems__(self, pieces: Sequence[int]) -> list[Any]:
        """Return several pieces; the dataset is asked for all samples at once if it can do that."""
        if not hasattr(self._dataset, "__getitems__"):
            return [self[piece] for piece in pieces]
        spans = [self._plan.span_of(piece) for piece in pieces]
        samples = self._dataset.__getitems__([sample for sample, _, _ in spans])
        return [
            self._cut(sample, slice(begin, begin + num_tokens))
            for sample, (_, begin, num_tokens) in zip(samples, spans, strict=True)
        ]

    def _cut(self, sample: Any, part: slice) -> Any:
        if isinstance(sample, Mapping):
            return {name: _part_of(value, part) if name in self._jagged else value for name, value in sample.items()}
        if is_dataclass(sample) and not isinstance(sample, type):
            return replace(sample, **{name: _part_of(getattr(sample, name), part) for name in self._jagged})
        raise InputError(f"samples that are cut must be dicts or dataclasses of fields, got {type(sample).__name__}")


def _part_of(value: Any, part: slice) -> Any:
    if isinstance(value, Mapping):
        return {key: tokens[part] for key, tokens in value.items()}
    return value[part]
