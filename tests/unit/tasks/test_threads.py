"""Threads that share one model get what each would get alone."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from heedful.architectures.build import build_sequence_to_sequence
from heedful.architectures.interface import DataSizes
from heedful.architectures.model import TransformerConfig
from heedful.data.tokenizers import BOS, EOS, PAD, CharacterTokenizer
from heedful.generation import GNMTLengthPenalty, SuppressTokens
from heedful.generation.search import BeamSearch
from heedful.tasks.search_factory import LengthLimits
from heedful.tasks.translation.translator import Translator

THREADS = 8
LETTERS = CharacterTokenizer("abcdef ", lowercase=False)


@pytest.fixture(scope="module")
def translator() -> Translator:
    torch.manual_seed(1)
    config = TransformerConfig(d_model=12, heads=3, encoder_layers=2, decoder_layers=2)
    model: Any = build_sequence_to_sequence(config, DataSizes(LETTERS.size, LETTERS.size, 40))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    search = BeamSearch(EOS, 3, GNMTLengthPenalty(0.6), 1, (SuppressTokens((PAD, BOS)),))
    return Translator(
        (model.double().eval(),),
        source=LETTERS,
        target=LETTERS,
        search=search,
        length=LengthLimits(1.0, 3),
        max_source=30,
    )


def aligned(translator: Translator, source: str, target: str) -> list[np.ndarray]:
    return list(translator.align(source, target).weights.values())


def inspected(translator: Translator, source: str, target: str) -> list[np.ndarray]:
    record = translator.inspect(source, target)
    walks = [each.walk for each in record.maps]
    return [*(each.weights for each in record.maps), *(each.scores for each in walks if each)]


def translated(translator: Translator, source: str, _target: str) -> list[np.ndarray]:
    return [np.array([each.log_probability for each in translator.translate([source])[0].candidates])]


USES = [aligned, inspected, translated]


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("use", "pairs"),
    [(aligned, 64), (inspected, 24), (translated, 24), (None, 48)],
    ids=["align", "inspect", "translate", "all at once"],
)
def test_many_threads_get_what_one_gets(
    translator: Translator, use: Callable[[Translator, str, str], list[np.ndarray]] | None, pairs: int
) -> None:
    dice = np.random.default_rng(1)
    texts = [["".join(dice.choice(list("abcdef"), dice.integers(2, 12))) for _ in range(2)] for _ in range(pairs)]
    jobs = [(use or USES[number % 3], pair) for number, pair in enumerate(texts)]
    alone = [each(translator, *pair) for each, pair in jobs]
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(lambda job: job[0](translator, *job[1]), jobs))
    wrong = [number for number, (one, other) in enumerate(zip(alone, together, strict=True)) if not _same(one, other)]
    assert wrong == [], f"{len(wrong)} of {pairs}"
    assert not any(each._forward_hooks for each in translator.models[0].modules())


def _same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    """The same sums in the same order, so that nothing but another text's numbers could differ by so much."""
    if [each.shape for each in one] != [each.shape for each in other]:
        return False
    return all(np.allclose(mine, others, atol=1e-6) for mine, others in zip(one, other, strict=True))
