"""A ranking model in the manner of HSTU: pointwise attention over what a user has watched, then scores per candidate.

A sample is one sequence: the events of a history, and behind them the candidates, whose ratings are not known yet.
Sequences lie one after the other, without padding, and no sequence sees another. So it makes no difference to a sample
which others are in the batch, whether they are the rows of a batch or share a pack.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from data import LONGEST_HISTORY, NUM_ACTIONS, NUM_CANDIDATES, RATINGS
from torch import nn
from torch.nn import functional

WIDTH = 32
NUM_LAYERS = 1
NUM_HEADS = 2


class Ranker(nn.Module):
    """Scores the candidates at the end of each sequence."""

    def __init__(self, num_items: int, width: int = WIDTH) -> None:
        super().__init__()
        self.item = nn.Embedding(num_items, width)
        self.action = nn.Embedding(NUM_ACTIONS, width)
        self.age = nn.Embedding(LONGEST_HISTORY.bit_length() + 1, width)
        for embedding in (self.item, self.action, self.age):
            nn.init.normal_(embedding.weight, std=0.1)
        self.layers = nn.ModuleList(Layer(width) for _ in range(NUM_LAYERS))
        self.norm = nn.LayerNorm(width)
        self.score = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.Linear(width, len(RATINGS)))

    def forward(self, items: torch.Tensor, actions: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return the scores of the candidates, (sequences, candidates, ratings): one for each label.

        Args:
            items: The items of all sequences, one sequence after the other.
            actions: What the user did with each item.
            lengths: Tokens of each sequence; none is empty.
        """
        watched = self.item(items)
        states = watched + self.action(actions) + self.age(_ages(lengths))
        for layer in self.layers:
            states = layer(states, lengths.tolist())
        ends = lengths.cumsum(0)
        candidates = ends[:, None] - torch.arange(NUM_CANDIDATES, 0, -1)  # (sequences, candidates)
        scores: torch.Tensor = self.score(torch.cat([self.norm(states[candidates]), watched[candidates]], dim=-1))
        return scores


class Layer(nn.Module):
    """Attention whose weights are silu of the products, each for itself: how much was watched counts, not only what."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.out = nn.Linear(width, 4 * width), nn.Linear(width, width)

    def forward(self, states: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        """Return the states of all tokens after this layer."""
        gate, *heads = functional.silu(self.project(self.before(states))).chunk(4, dim=-1)
        value, query, key = (torch.split(_by_head(each), lengths, dim=1) for each in heads)
        rows = [attend(*row) for row in zip(query, key, value, strict=True)]
        mixed = torch.cat(rows, dim=1).transpose(0, 1).flatten(1) if rows else torch.zeros_like(states)
        changed: torch.Tensor = states + self.out(self.after(mixed) * gate)
        return changed


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Let the tokens of one sequence look at those before them; (heads, tokens, width of a head) for all three."""
    mask = _mask(query.size(1))
    products = query @ key.transpose(1, 2) * query.size(2) ** -0.5
    return functional.silu(products) * mask @ value


@cache
def _mask(num_tokens: int) -> torch.Tensor:
    """Return the weight of what each token sees: the history up to itself, but of the candidates only itself."""
    sees = torch.ones(num_tokens, num_tokens).tril()
    sees[-NUM_CANDIDATES:, -NUM_CANDIDATES:] = torch.eye(NUM_CANDIDATES)
    return sees / sees.sum(1, keepdim=True)


def _by_head(states: torch.Tensor) -> torch.Tensor:
    return states.view(states.size(0), NUM_HEADS, -1).transpose(0, 1)


def _ages(lengths: torch.Tensor) -> torch.Tensor:
    """Return how many events ago each token was, as the number of binary digits; 0 for candidates."""
    ends = torch.repeat_interleave(lengths.cumsum(0), lengths)
    ago = (ends - torch.arange(ends.numel()) - NUM_CANDIDATES).clamp(min=0)
    return torch.ceil(torch.log2(ago + 1.0)).to(torch.int64)


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
