"""A pack as one row of tokens: samples are kept apart, and training gives what it gives without packing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from paceline import Jagged, packed
from paceline.errors import InputError

WIDTH, WORDS = 8, 11


def lists_of(lengths: list[int]) -> Jagged:
    values = torch.arange(sum(lengths)) * 7 % WORDS
    return Jagged(keys=["word"], values=values, lengths=torch.tensor(lengths, dtype=torch.int64))


class TinyModel(torch.nn.Module):
    """One layer of attention over words with their positions; attention is left to the caller."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.words = torch.nn.Embedding(WORDS, WIDTH, dtype=torch.float64)
        self.places = torch.nn.Embedding(64, WIDTH, dtype=torch.float64)
        self.heads = torch.nn.Linear(WIDTH, 3 * WIDTH, dtype=torch.float64)
        self.out = torch.nn.Linear(WIDTH, WORDS, dtype=torch.float64)

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        states = self.words(tokens) + self.places(positions)
        query, key, value = self.heads(states)[None].chunk(3, dim=-1)
        states = states + functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)[0]
        scores: torch.Tensor = self.out(states)
        return scores


def gradients(model: TinyModel, loss: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    return [torch.zeros_like(each) if each.grad is None else each.grad.clone() for each in model.parameters()]


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Tensors this small are computed by one thread: several wait for each other where cores are shared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("lengths", "num_padded"), [([9, 11, 5], 0), ([1, 0, 4, 1, 12], 7), ([2], 3), ([1, 1], 0), ([0, 3, 0, 3], 1)]
)
def test_loss_and_gradients_are_those_of_samples_one_by_one(lengths: list[int], num_padded: int) -> None:
    model, lists = TinyModel(), lists_of(lengths)
    row = packed(lists, pad_to=sum(lengths) + num_padded)
    scores = model(row.tokens, row.positions, row.attention_mask())
    loss = functional.cross_entropy(scores, row.next_tokens(), reduction="sum")
    alone = torch.zeros((), dtype=torch.float64)
    for tokens in lists["word"]:
        if len(tokens) > 1:
            causal = torch.ones(len(tokens), len(tokens), dtype=torch.bool).tril()
            scores = model(tokens, torch.arange(len(tokens)), causal)
            alone = alone + functional.cross_entropy(scores[:-1], tokens[1:], reduction="sum")
    if sum(length > 1 for length in lengths):
        torch.testing.assert_close(loss, alone)
        torch.testing.assert_close(gradients(model, loss), gradients(model, alone))
    else:
        assert (row.next_tokens() == -100).all()


@given(st.lists(st.integers(0, 12), min_size=1, max_size=8), st.integers(0, 9))
def test_sequences_positions_and_documents_say_the_same(lengths: list[int], num_padded: int) -> None:
    row = packed(lists_of(lengths), pad_to=sum(lengths) + num_padded)
    real = [length for length in lengths if length]
    assert row.cu_seqlens.dtype == torch.int32
    assert row.cu_seqlens.diff().tolist() == real + [num_padded] * (num_padded > 0)
    assert row.positions.tolist() == [place for length in [*lengths, num_padded] for place in range(length)]
    assert row.documents.tolist() == [
        document for document, length in enumerate([*lengths, num_padded]) for _ in range(length)
    ]
    assert row.max_seqlen == max([*lengths, num_padded])
    assert row.is_real.sum() == row.num_real == sum(lengths)
    assert row.attention_mask(causal=False).sum() == sum(length**2 for length in [*lengths, num_padded])


def test_samples_that_are_longer_than_planned_are_refused() -> None:
    with pytest.raises(InputError, match="have 5 tokens, and do not fit into a row of 4"):
        packed(lists_of([3, 2]), pad_to=4)


def test_one_key_is_taken_of_several() -> None:
    lists = Jagged(keys=["item", "action"], values=torch.arange(5), lengths=torch.tensor([2, 1, 1, 1]))
    assert packed(lists, "action").tokens.tolist() == [3, 4]
    with pytest.raises(InputError, match="name one of item, action"):
        packed(lists)
