"""A language model whose source is a prompt is that language model, reading both as one text."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import TypeAdapter

from heedful.architectures.build import build_conditional_model
from heedful.architectures.interface import DataSizes
from heedful.architectures.model import ConditionalModelConfig
from heedful.models.generative import DecoderOnly
from heedful.tensors import Tokens

DECODERS: dict[str, dict[str, Any]] = {
    "transformer": {"kind": "transformer", "d_model": 16, "heads": 2, "layers": 2, "dropout": 0.0},
    "recurrent": {"kind": "recurrent", "d_model": 12, "layers": 1, "dropout": 0.0},
}


def model(name: str) -> DecoderOnly:
    torch.manual_seed(3)
    config = TypeAdapter(ConditionalModelConfig).validate_python({"kind": "decoder_only", "decoder": DECODERS[name]})
    found = build_conditional_model(config, DataSizes(9, 9, 12)).double().eval()
    assert isinstance(found, DecoderOnly)
    return found


@pytest.mark.parametrize("name", DECODERS)
@torch.no_grad()
def test_each_row_reads_as_its_texts_behind_each_other(name: str) -> None:
    made = model(name)
    sources, targets = [[5, 6, 7, 8], [4], [3, 3, 5]], [[1, 4, 5], [1, 6, 6], [1, 3]]
    width = max(map(len, sources))
    # padding stands behind the source, between it and the target
    source = Tokens.from_ids(torch.tensor([[*each, *[0] * (width - len(each))] for each in sources]), pad=0)
    target = Tokens.from_ids(torch.tensor([[*each, *[0] * (3 - len(each))] for each in targets]), pad=0)
    hidden = made(source, target)
    whole, read = made.forward_all_tokens(source, target)
    stepped, _ = made.step(target, made.init_state(source))
    torch.testing.assert_close(made.output(hidden), stepped)
    torch.testing.assert_close(whole[:, width:], hidden)
    for row, (before, after) in enumerate(zip(sources, targets, strict=True)):
        text = Tokens.from_ids(torch.tensor([[*before, *after]]), pad=0)
        alone, _ = made.decoder(text, made.decoder.init_state(None))
        torch.testing.assert_close(hidden[row, : len(after)], alone[0, len(before) :])
        real = read.positions[row] >= 0
        assert read.ids[row][real].tolist() == [*before, *after]
        assert read.positions[row][real].tolist() == list(range(len(before) + len(after)))


def test_the_table_of_the_language_model_decides() -> None:
    table = {
        "kind": "decoder_only",
        "decoder": DECODERS["transformer"] | {"positions": {"kind": "learned", "length": 9}},
    }
    config = TypeAdapter(ConditionalModelConfig).validate_python(table)
    assert config.d_model == 16
    assert config.length_limit is not None
    assert (config.length_limit.key, config.length_limit.tokens) == ("model.decoder.positions.length", 9)
    assert config.count_positions(5, 4) == 9
    assert TypeAdapter(ConditionalModelConfig).validate_python({}).count_positions(5, 4) == 5
