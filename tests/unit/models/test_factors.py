"""Factors of tokens: what embeddings make of them, and models of all families."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from heedful.architectures.build import DataSizes, build_sequence_to_sequence
from heedful.architectures.interface import TranslationArchitecture
from heedful.architectures.model import ConvolutionalConfig, TransformerConfig
from heedful.architectures.recurrent import RecurrentConfig
from heedful.blocks.embedding import TokenEmbedding, build_embedding
from heedful.engines.native.plan import is_supported
from heedful.tasks.inspection_records import InspectionSelection
from heedful.tensors import Tokens, select_rows

SMALL = {"layers": 2, "dropout": 0.0}
MODELS: dict[str, TranslationArchitecture] = {
    "transformer": TransformerConfig.model_validate({**SMALL, "d_model": 12, "heads": 3}),
    "pre-norm, own tables": TransformerConfig.model_validate(
        {**SMALL, "d_model": 12, "heads": 3, "residual": "pre_norm", "tie": "none", "embedding_norm": True}
    ),
    "recurrent": RecurrentConfig.model_validate({**SMALL, "d_model": 12}),
    "reversed": RecurrentConfig.model_validate({**SMALL, "d_model": 12, "source_order": "reversed"}),
    "convolutional": ConvolutionalConfig.model_validate({**SMALL, "d_model": 12, "d_hidden": 12}),
}


def tokens(rows: int, length: int, *, sizes: tuple[int, ...] = (5, 4)) -> Tokens:
    ids = torch.randint(4, 9, (rows, length))
    ids[0, -2:] = 0
    factors = torch.stack([torch.randint(size, (rows, length)) for size in sizes], 2)
    return replace(Tokens.from_ids(ids, pad=0), factors=factors)


@pytest.mark.parametrize("scaled", [True, False])
def test_an_embedding_is_the_sum_of_all_tables(scaled: bool) -> None:
    torch.manual_seed(1)
    words, *tables = (build_embedding(size, 6) for size in (9, 5, 4))
    read = tokens(2, 3)
    assert read.factors is not None
    found = TokenEmbedding(words, scaled=scaled, factors=tables)(read)
    for row in range(2):
        for place in range(3):
            numbers = read.factors[row, place].tolist()
            one = words.weight[read.ids[row, place]] + sum(
                table.weight[number] for table, number in zip(tables, numbers, strict=True)
            )
            torch.testing.assert_close(found[row, place], one * (6**0.5 if scaled else 1))


def test_tokens_and_tables_must_have_as_many_factors() -> None:
    words, *tables = (build_embedding(size, 6) for size in (9, 5, 4))
    for read, own in ((tokens(1, 3), tables[:1]), (replace(tokens(1, 3), factors=None), tables), (tokens(1, 3), [])):
        with pytest.raises(AssertionError, match="factors, but tables of"):
            TokenEmbedding(words, factors=own)(read)


def models(config: TranslationArchitecture) -> tuple[Any, Any]:
    """The same one with tables of two factors and without, in evaluation mode."""
    torch.manual_seed(3)
    found = []
    for factors in ((5, 4), ()):
        model = build_sequence_to_sequence(config, DataSizes(9, 9, 20, factors)).double().eval()
        found.append(model)
    factored, plain = found
    for name, parameter in factored.named_parameters():
        nn.init.normal_(parameter, std=0.4)
        if ".factors." not in name:
            plain.get_parameter(name).data.copy_(parameter)
    assert {name for name, _ in factored.named_parameters()} - {name for name, _ in plain.named_parameters()} == {
        name for name, _ in factored.named_parameters() if ".factors." in name
    }
    return factored, plain


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_tables_of_zeros_change_nothing_and_others_do(config: TranslationArchitecture) -> None:
    factored, plain = models(config)
    source, target = tokens(3, 5), tokens(3, 4)
    target = replace(target, factors=None)
    bare = replace(source, factors=None)
    assert sum(".factors." in name for name, _ in factored.named_parameters()) == 2, "of the source alone"
    with torch.inference_mode():
        seen = factored.step(target, factored.init_state(source))[0]
        other = factored.step(target, factored.init_state(replace(source, factors=1 + source.factors % 3)))[0]
        for name, parameter in factored.named_parameters():
            if ".factors." in name:
                parameter.zero_()
        zero = factored.step(target, factored.init_state(source))[0]
        without = plain.step(target, plain.init_state(bare))[0]
    assert not torch.allclose(seen, other, atol=1e-3)
    assert not torch.allclose(seen, zero, atol=1e-3)
    torch.testing.assert_close(zero, without)


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_factors_of_padding_and_of_other_rows_are_seen_by_nobody(config: TranslationArchitecture) -> None:
    factored, _ = models(config)
    source = tokens(3, 5)
    assert source.factors is not None
    changed = torch.where((source.positions < 0).unsqueeze(2), (source.factors + 1) % 4, source.factors)
    target = replace(tokens(3, 4), factors=None)
    with torch.inference_mode():
        whole = factored.step(target, factored.init_state(source))[0]
        padded = factored.step(target, factored.init_state(replace(source, factors=changed)))[0]
        alone = factored.step(
            select_rows(target, torch.tensor([1])), factored.init_state(select_rows(source, torch.tensor([1])))
        )[0]
        behind = InspectionSelection(padding=2).pad_tokens(source)
        longer = factored.step(target, factored.init_state(behind))[0]
    torch.testing.assert_close(whole, padded)
    torch.testing.assert_close(whole[1:2], alone)
    torch.testing.assert_close(whole, longer)
    cut = source.slice_columns(1, 3)
    assert cut.factors is not None
    assert cut.factors.tolist() == source.factors[:, 1:3].tolist()


def test_native_code_leaves_such_an_encoder_alone() -> None:
    factored, plain = models(MODELS["transformer"])
    assert is_supported(plain.encoder.stack)
    assert not is_supported(factored.encoder.stack)
    assert is_supported(factored.decoder.stack)
