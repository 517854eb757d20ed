"""Texts with their begin and ends, as models read them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from heedful.data.batches import padded, tokens_of
from heedful.data.corpus import CHARACTERS_PER_TOKEN
from heedful.data.sequences import Joined, joined
from heedful.data.tokenizers import Tokenizer
from heedful.values import Tokens


def frame(tokenizer: Tokenizer, texts: Sequence[str], *, max_length: int) -> Joined:
    """One or two texts as a model reads them; of what is too long the longer text loses its end."""
    ids = [tokenizer.encode(text[: CHARACTERS_PER_TOKEN * max_length]) for text in texts]
    return joined(ids[0], ids[1] if len(ids) > 1 else None, special=tokenizer.special, max_length=max_length)


def paired_tokens(rows: Sequence[Sequence[int] | np.ndarray], firsts: Sequence[int]) -> Tokens:
    """Rows of ids of which the first ones, as many as `firsts` says, are the first part."""
    tokens = tokens_of(padded(rows))
    columns = torch.arange(tokens.ids.size(1))
    segments = (columns >= torch.tensor(firsts, dtype=torch.long).unsqueeze(1)) & (tokens.positions >= 0)
    return Tokens(tokens.ids, tokens.positions, segments.long())
