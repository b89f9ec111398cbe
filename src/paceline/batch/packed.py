"""The samples of a pack as one row of tokens, with what attention needs to keep them apart."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from paceline.batch.jagged import Jagged
from paceline.errors import InputError, whole_number


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Packed:
    """Tokens of several samples, one sample after the other, and then padding.

    Attributes:
        tokens: All tokens, (num_tokens, ...).
        cu_seqlens: Where each sample begins, and where the last ends, as kernels for samples of several lengths take
            it: int32, (num_sequences + 1). Padding is one more sequence; samples without a token are left out.
        positions: The position of each token in its sample.
        documents: The row of each token's sample in the batch; padding has the number of rows.
        num_real: Tokens that are not padding.
        max_seqlen: Tokens of the longest sequence, also of the padding.
    """

    tokens: torch.Tensor
    cu_seqlens: torch.Tensor
    positions: torch.Tensor
    documents: torch.Tensor
    num_real: int
    max_seqlen: int

    @property
    def is_real(self) -> torch.Tensor:
        """Which tokens are not padding."""
        return torch.arange(self.tokens.size(0), device=self.tokens.device) < self.num_real

    def attention_mask(self, *, causal: bool = True) -> torch.Tensor:
        """Return which token may attend to which, (num_tokens, num_tokens): to those of its own sample.

        For torch's `scaled_dot_product_attention`. Every token may attend to itself, so that no row is empty.

        Args:
            causal: Whether a token sees only itself and those before it.
        """
        same = self.documents[:, None] == self.documents[None, :]
        return same.tril() if causal else same

    def next_tokens(self, *, ignored: int = -100) -> torch.Tensor:
        """Return for each token the one that follows it in its sample, and `ignored` where none does.

        >>> lists = Jagged(keys=["word"], values=torch.tensor([5, 6, 7, 8, 9]), lengths=torch.tensor([3, 2]))
        >>> packed(lists, pad_to=6).next_tokens().tolist()
        [6, 7, -100, 9, -100, -100]
        """
        following = self.tokens.new_full(self.tokens.shape, ignored)
        is_followed = (self.documents[1:] == self.documents[:-1]) & self.is_real[1:]
        following[:-1][is_followed] = self.tokens[1:][is_followed]
        return following


def packed(jagged: Jagged, key: str | None = None, *, pad_to: int | None = None, pad_value: float = 0) -> Packed:
    """Return the lists of a jagged field as one row of tokens.

    >>> lists = Jagged(keys=["word"], values=torch.tensor([5, 6, 7, 8, 9]), lengths=torch.tensor([3, 2]))
    >>> row = packed(lists, pad_to=8)
    >>> row.tokens.tolist(), row.cu_seqlens.tolist()
    ([5, 6, 7, 8, 9, 0, 0, 0], [0, 3, 5, 8])
    >>> row.positions.tolist(), row.documents.tolist()
    ([0, 1, 2, 0, 1, 0, 1, 2], [0, 0, 0, 1, 1, 2, 2, 2])

    Args:
        jagged: The field of a batch that is a pack.
        key: Which of its keys; the only one, if none is named.
        pad_to: Tokens of the row, so that all packs have the same shape; as many as there are, if not given.
        pad_value: What padding holds.
    """
    if key is None and len(jagged.keys) > 1:
        raise InputError(f"a row of tokens is of one key: name one of {', '.join(jagged.keys)}")
    index = 0 if key is None else list(jagged.keys).index(key)
    values = torch.split(jagged.values, jagged.values_per_key())[index]
    lengths = jagged.lengths.view(len(jagged.keys), -1)[index].to(torch.int64)
    num_real = int(values.size(0))
    num_tokens = num_real if pad_to is None else whole_number("pad_to", pad_to, least=0)
    if num_tokens < num_real:
        raise InputError(
            f"the samples have {num_real} tokens, and do not fit into a row of {num_tokens}: the lengths that the plan "
            f"was made of are not those of the samples"
        )
    lengths = torch.cat([lengths, lengths.new_tensor([num_tokens - num_real])])  # padding is the last sequence
    starts = lengths.cumsum(0) - lengths
    documents = torch.repeat_interleave(torch.arange(lengths.numel(), device=lengths.device), lengths)
    positions = torch.arange(num_tokens, device=lengths.device) - starts[documents]
    padding = values.new_full((num_tokens - num_real, *values.shape[1:]), pad_value)
    sequences = lengths[lengths > 0]
    return Packed(
        tokens=torch.cat([values, padding]),
        cu_seqlens=torch.cat([sequences.new_zeros(1), sequences.cumsum(0)]).to(torch.int32),
        positions=positions,
        documents=documents,
        num_real=num_real,
        max_seqlen=int(sequences.max()) if sequences.numel() else 0,
    )
