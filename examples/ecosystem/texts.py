"""What the examples with packs train: short texts of several lengths, and a model that says which token comes next."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from paceline import Jagged, packed

NUM_TEXTS = 61
WORDS, WIDTH, BUDGET = 20, 8, 32
GLOBAL_PACKS = 4  # of all ranks together, in each step
LENGTHS = np.random.default_rng(0).lognormal(2.0, 0.6, NUM_TEXTS).clip(2, BUDGET).astype(int)


class Packs:
    """A dataset whose items are packs: what a list of texts becomes as one row of tokens."""

    def __len__(self) -> int:
        return NUM_TEXTS

    def __getitem__(self, texts: list[int]) -> dict[str, torch.Tensor]:
        values = [torch.arange(LENGTHS[text]) * 7 + text for text in texts]
        lengths = torch.tensor([len(tokens) for tokens in values], dtype=torch.int64)
        tokens = torch.cat([torch.empty(0, dtype=torch.int64), *values]) % WORDS
        row = packed(Jagged(keys=["token"], values=tokens, lengths=lengths), pad_to=BUDGET)
        return {
            "tokens": row.tokens,
            "positions": row.positions,
            "documents": row.documents,
            "following": row.next_tokens(),
        }


class NextToken(nn.Module):
    """One layer of attention, which keeps within each text."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(BUDGET, WIDTH)
        self.heads, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor, documents: torch.Tensor) -> torch.Tensor:
        """Return a score for each word that may follow: (pack, token, word)."""
        states = self.words(tokens) + self.places(positions)
        query, key, value = self.heads(states).chunk(3, dim=-1)
        may_attend = (documents[:, :, None] == documents[:, None, :]).tril()
        states = states + functional.scaled_dot_product_attention(query, key, value, attn_mask=may_attend)
        return self.out(states)


def token_losses(model: Any, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, int]:
    """Return the sum of the losses of all tokens that another follows, and how many these are."""
    scores = model(batch["tokens"], batch["positions"], batch["documents"])
    loss = functional.cross_entropy(scores.flatten(0, 1), batch["following"].flatten(), reduction="sum")
    return loss, int((batch["following"] >= 0).sum())
