"""The benchmark's matrix products are exactly those of a training update."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from heedful import fused_operators
from heedful.architectures.build import DataSizes, build_language_model, build_sequence_to_sequence
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig
from heedful.attention import kernels
from heedful.models.predictions import cross_entropy
from heedful.tensors import Tokens

ROOT = Path(__file__).parents[3]
MODEL = {"d_model": 16, "heads": 2, "d_ff": 24, "layers": 2}
VOCABULARY = 11


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import products

    yield products
    sys.modules.pop("products")


def draw_tokens(rows: int, length: int) -> Tokens:
    ids = torch.randint(VOCABULARY, (rows, length))
    return Tokens(ids, torch.arange(length).expand(rows, -1))


def count_operations(work: Callable[[], None]) -> int:
    """Count the operations of all products that torch's counter knows, two for each pair of numbers."""
    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def test_products_of_a_translation_model(products: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "prefer_fused", lambda *_: False)
    monkeypatch.setattr(fused_operators, "load_library", lambda: None)  # products in native code are not counted
    model = build_sequence_to_sequence(
        TransformerConfig.model_validate({**MODEL, "dropout": 0.1}), DataSizes(VOCABULARY, VOCABULARY, 32)
    ).train()
    source, target = draw_tokens(3, 7), draw_tokens(3, 5)

    def update() -> None:
        hidden = model(source, target).flatten(0, 1)
        cross_entropy(hidden, target.ids.flatten(), output=model.output, smoothing=0.1)[0].backward()

    limit = products.list_translation_products(MODEL, (3, 7), (3, 5), labels=15, vocabulary=VOCABULARY)
    in_place = 2 * 15 * 16 * VOCABULARY  # the counter ignores the output's gradient, which is added in place
    expected = count_operations(update) + in_place
    assert count_operations(lambda: products.ProductRunner(torch.float32).run(limit)) == expected
    assert products.count_operations(limit) == expected


def test_products_of_a_language_model(products: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "prefer_fused", lambda *_: False)
    monkeypatch.setattr(fused_operators, "load_library", lambda: None)  # products in native code are not counted
    config = {"d_model": 16, "heads": 2, "layers": 2, "dropout": 0.0, "positions": {"kind": "learned", "length": 6}}
    model = build_language_model(DecoderConfig.model_validate(config), vocabulary=VOCABULARY).train()
    text = draw_tokens(4, 6)

    def update() -> None:
        hidden = model(text, model.init_state())[0].flatten(0, 1)
        cross_entropy(hidden, text.ids.flatten(), output=model.output)[0].backward()

    sizes = {"d_model": 16, "heads": 2, "layers": 2}
    limit = products.list_language_model_products(sizes, 4, 6, vocabulary=VOCABULARY)
    in_place = 2 * 24 * 16 * VOCABULARY
    expected = count_operations(update) + in_place
    assert count_operations(lambda: products.ProductRunner(torch.bfloat16).run(limit)) == expected
    assert products.count_operations(limit) == expected
