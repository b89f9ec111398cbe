"""A small ranking model: attention over the history, then one score for each candidate."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

WIDTH = 32


class Ranker(nn.Module):
    """Scores candidates by a user's history.

    Rows have histories of different lengths and are attended to one by one, without padding: the work of a row grows
    with the square of its length.
    """

    def __init__(self, num_items: int, width: int = WIDTH) -> None:
        super().__init__()
        self.watched = nn.Embedding(2 * num_items, width)  # liked or not
        self.candidate = nn.Embedding(num_items, width)
        self.nothing = nn.Parameter(torch.zeros(1, width))  # so that an empty history has a token
        self.project = nn.Linear(width, 3 * width)
        self.score = nn.Sequential(nn.Linear(3 * width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, history: torch.Tensor, lengths: torch.Tensor, candidates: torch.Tensor) -> Any:
        """Return scores (rows, candidates)."""
        tokens = self.watched(history).split(lengths.tolist())
        wanted = self.candidate(candidates)  # (rows, candidates, width)
        seen = torch.stack([self._attend(row, target) for row, target in zip(tokens, wanted, strict=True)])
        return self.score(torch.cat([seen, wanted, seen * wanted], dim=-1)).squeeze(-1)

    def _attend(self, tokens: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """Let the history look at itself, then the candidates at the history."""
        query, key, value = self.project(torch.cat([self.nothing, tokens])).chunk(3, dim=-1)
        mixed = functional.scaled_dot_product_attention(query, key, value) + value
        return functional.scaled_dot_product_attention(wanted, key, mixed)


def area_under_curve(scores: torch.Tensor, labels: torch.Tensor) -> float:
    """Return how often a liked candidate scores higher than one that was not liked; ties count half."""
    order = scores.argsort()
    equal: Any = torch.unique(scores[order], return_inverse=True, return_counts=True)
    _, place, counts = equal
    ends = counts.cumsum(0).double()
    ranks = (ends - (counts - 1) / 2)[place]  # the mean rank of equal scores
    liked = labels[order] > 0.5
    num_liked = int(liked.sum())
    num_others = len(labels) - num_liked
    if not num_liked or not num_others:
        return float("nan")
    return float((ranks[liked].sum() - num_liked * (num_liked + 1) / 2) / (num_liked * num_others))
