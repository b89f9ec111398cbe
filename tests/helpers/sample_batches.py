"""Batches for tests: several dtypes and dimensions, several jagged fields, weights, rows that can be told apart."""

from __future__ import annotations

from typing import Any

import torch

from paceline import Batch, Jagged


def make_batch(seed: int, num_real: int, batch_size: int) -> Batch:
    """Return a batch of random rows; the same seed gives the same."""
    random = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, 4, (2, num_real), generator=random)
    total = int(lengths.sum())
    history = Jagged(
        keys=["item", "action"],
        values=torch.randint(2**40, 2**41, (total,), generator=random),  # beyond what a float32 can hold
        lengths=lengths,
        weights=torch.rand(total, generator=random),
    )
    score_lengths = torch.randint(0, 3, (num_real,), generator=random, dtype=torch.int32)
    scores = torch.rand(int(score_lengths.sum()), 2, generator=random, dtype=torch.float64)
    fields: dict[str, Any] = {
        "label": torch.randint(0, 10**6, (num_real,), generator=random),
        "image": torch.rand(num_real, 2, 3, generator=random).to(torch.bfloat16),
        "flag": torch.rand(num_real, 1, generator=random) > 0.5,
        "history": history,
        "scores": Jagged(keys=["s"], values=scores, lengths=score_lengths),
    }
    if num_real == 0:
        return make_batch(seed, 1, 1).emptied(batch_size)
    return Batch(fields, batch_size=num_real).pad_to(batch_size)


def real_rows(batch: Batch) -> list[str]:
    """Return each real row as a text of its whole content."""
    jagged = [name for name in batch.names() if isinstance(batch[name], Jagged)]
    weights = {name: _weights(batch[name]) for name in jagged}
    return [
        repr(
            {
                name: {key: (v.tolist(), weights[name][key][row]) for key, v in part.items()}
                if isinstance(part, dict)
                else part.tolist()
                for name, part in content.items()
            }
        )
        for row, content in enumerate(batch)
    ]


def _weights(field: Any) -> dict[str, list[Any]]:
    if field.weights is None:
        return {key: [None] * field.batch_size for key in field.keys}
    twin = Jagged(keys=field.keys, values=field.weights, lengths=field.lengths)
    return {key: [part.tolist() for part in twin[key]] for key in field.keys}
