"""Dropout of whole tokens in training."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from heedful.attention.dropout import Dropout
from heedful.attention.positions import LearnedPosition
from heedful.blocks.embedding import InputEmbedding, TokenEmbedding
from heedful.recipes.load import build_recipe
from heedful.tasks.translation.task import SOURCE_TOKENIZER, TARGET_TOKENIZER, TranslationTask
from heedful.tensors import Tokens

SIZES = {SOURCE_TOKENIZER: 13, TARGET_TOKENIZER: 11}


def test_whole_tokens_are_dropped_and_keep_their_positions() -> None:
    embedding = TokenEmbedding(nn.Embedding(7, 6), position=LearnedPosition(50, 6), factors=[nn.Embedding(3, 6)])
    tokens = Tokens(torch.randint(7, (40, 50)), torch.arange(50).expand(40, -1), factors=torch.randint(3, (40, 50, 1)))
    whole, position = embedding(tokens), embedding.embed_parts(tokens).positions
    assert position is not None
    embedding.token_dropout = Dropout(0.25)
    found = embedding(tokens)
    assert torch.equal(embedding.eval()(tokens), whole), "only in training"
    dropped = torch.isclose(found, position.expand_as(found)).all(-1)
    kept = torch.isclose(found - position, (whole - position) / 0.75, atol=1e-5).all(-1)
    assert torch.equal(dropped, ~kept)
    assert dropped.float().mean() == pytest.approx(0.25, abs=0.05)
    assert dropped.any(1).all(), "in each row others"
    assert len({tuple(row) for row in dropped.tolist()}) == 40


def build(source: float, target: float, **model: Any) -> Any:
    text = {"source": "a", "target": "b"}
    table = {
        "output": "r",
        "data": {"train": text, "validation": text},
        "model": {"d_model": 8, "tie": "none", **model},
        "training": {"steps": 1, "dropout_source": source, "dropout_target": target},
    }
    return TranslationTask().build_model(build_recipe(table, source="here"), SIZES)


def shares(side: nn.Module) -> set[float | None]:
    """The dropout of whole tokens of all embeddings."""
    return {
        None if module.token_dropout is None else module.token_dropout.p
        for module in side.modules()
        if isinstance(module, InputEmbedding)
    }


@pytest.mark.parametrize(
    "model",
    [
        {"heads": 2, "d_ff": 8, "layers": 1},
        {"kind": "recurrent", "reading": {"kind": "bahdanau"}},
        {"kind": "convolutional", "d_hidden": 8},
    ],
    ids=["transformer", "recurrent", "convolutional"],
)
def test_each_side_has_its_own_dropout(model: dict[str, Any]) -> None:
    """Only that which a recipe asks for; the gradient of a dropped token's vector is zero."""
    built = build(0.5, 0.0, dropout=0.0, **model)
    assert (shares(built.encoder), shares(built.decoder)) == ({0.5}, {None})
    other = build(0.0, 0.25, dropout=0.0, **model)
    assert (shares(other.encoder), shares(other.decoder)) == ({None}, {0.25})
    source = Tokens.from_ids(torch.arange(1, 11).unsqueeze(0), pad=0)
    torch.manual_seed(0)
    built(source, source).square().sum().backward()
    tables = [module for module in built.encoder.modules() if isinstance(module, TokenEmbedding)]
    without = (tables[0].table.weight.grad[1:11] == 0).all(1)
    assert 0 < int(without.sum()) < 10
