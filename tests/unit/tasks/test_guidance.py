"""Guided alignment: the cross entropy that it adds, and where it looks for the attention."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from heedful.architectures.build import DataSizes, build_sequence_to_sequence
from heedful.architectures.model import ModelConfig, TransformerConfig
from heedful.architectures.recurrent import RecurrentConfig
from heedful.data.corpus import Corpus, build_pair_encoder, write_corpus
from heedful.data.readers import SentencePair
from heedful.data.tokenizers import BOS, CharacterTokenizer
from heedful.data.word_alignments import LINKS_SIDE, build_aligned_encoder, collate_aligned_pairs
from heedful.errors import RecipeError
from heedful.inspection.capture import watch_attention
from heedful.tasks.generation_objective import DecorrelationCriterion, GenerationObjective, LikelihoodCriterion
from heedful.tasks.objective import TrainingObjective
from heedful.tasks.translation.guided_alignment import GuidedAttention, GuidedCriterion
from heedful.tasks.translation.recipe import GuidedConfig

LETTERS = CharacterTokenizer("abcdef ", lowercase=False)
TRANSFORMER = TransformerConfig.model_validate({"d_model": 12, "heads": 3, "layers": 2, "dropout": 0.0})
RECURRENT = RecurrentConfig.model_validate({"d_model": 12, "dropout": 0.0})


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    dice = np.random.default_rng(3)
    pairs = []
    for number in range(9):
        counts = dice.integers(1, 4, size=2)
        sides = [
            " ".join("".join(dice.choice(list("abcdef"), size=dice.integers(1, 4))) for _ in range(n)) for n in counts
        ]
        links = tuple(
            (int(dice.integers(counts[0])), t) for t in range(counts[1]) if number % 3 and dice.random() < 0.8
        )
        pairs.append(SentencePair(sides[0], sides[1], "x", links=links))
    encoding = build_aligned_encoder(build_pair_encoder(LETTERS, LETTERS, max_length=30), LETTERS, LETTERS)
    return write_corpus(tmp_path / "c", pairs, encoder=encoding)


def network(config: ModelConfig) -> Any:
    torch.manual_seed(2)
    built = build_sequence_to_sequence(config, DataSizes(LETTERS.size, LETTERS.size, 30))
    for parameter in built.parameters():
        nn.init.normal_(parameter, std=0.4)
    return built.double()


def task(corpus: Corpus, criterion: Any) -> TrainingObjective[Any]:
    paired = partial(collate_aligned_pairs, bos=BOS)
    return GenerationObjective(
        corpus, corpus, criterion=criterion, batch_tokens=30, seed=5, device=torch.device("cpu"), collate_fn=paired
    )


@pytest.mark.parametrize(
    ("model", "config", "path", "head"),
    [
        (TRANSFORMER, GuidedConfig(weight=0.3), "decoder.stack.layers.1.across", 0),
        (TRANSFORMER, GuidedConfig(weight=0.3, layer=0, head=2), "decoder.stack.layers.0.across", 2),
        (TRANSFORMER, GuidedConfig(weight=2.0, layer=1, head="mean"), "decoder.stack.layers.1.across", None),
        (RECURRENT, GuidedConfig(weight=0.3), "", 0),
    ],
    ids=["last layer", "one head", "mean of heads", "recurrent"],
)
def test_it_adds_the_cross_entropy_with_the_links(
    corpus: Corpus, model: ModelConfig, config: GuidedConfig, path: str, head: int | None
) -> None:
    """Against sums over single sentences, piece by piece, none of them with padding."""
    ours = network(model)
    plain, guided = (
        task(corpus, criterion)
        for criterion in (LikelihoodCriterion(0.1), GuidedCriterion(LikelihoodCriterion(0.1), config))
    )
    everything = np.arange(len(corpus))
    wanted, count = 0.0, 0
    for row in everything:
        single = guided.build_batch(np.array([row]))
        with torch.no_grad(), watch_attention(ours) as seen:
            ours(single.source, single.target)
        if path:
            weights = seen[path][0][0]
            weights = weights.mean(0) if head is None else weights[head]
        else:
            (calls,) = seen.values()
            weights = torch.cat(calls, 1)[0]
        for t in range(len(corpus["target"][row])):
            mine = [s for s, label in corpus[LINKS_SIDE][row].tolist() if label == t]
            wanted -= sum(math.log(float(weights[t, s])) / len(mine) for s in mine)
            count += bool(mine)
    batch = guided.build_batch(everything)
    found, other = guided.loss(ours, batch), plain.loss(ours, batch)
    assert float(found.parts["guided"].total) == pytest.approx(wanted, rel=1e-5)
    assert found.parts["guided"].count == count < found.count == other.count
    assert float(found.total.detach()) == pytest.approx(float(other.total.detach()) + config.weight * wanted, rel=1e-5)
    assert float(found.parts["nll"].total) == pytest.approx(float(other.parts["nll"].total))
    assert found.parts.keys() == guided.part_names


def test_its_gradient_is_that_of_the_sum_and_reaches_attention(corpus: Corpus) -> None:
    ours = network(TRANSFORMER)
    guided = task(corpus, GuidedCriterion(LikelihoodCriterion(), GuidedConfig(weight=1.0)))
    plain = task(corpus, LikelihoodCriterion())
    query = ours.decoder.stack.layers[1].across.query.weight

    def slope(rows: list[int], each: TrainingObjective[Any]) -> torch.Tensor:
        return torch.autograd.grad(each.loss(ours, each.build_batch(np.array(rows))).total, query)[0]

    rows = list(range(len(corpus)))
    whole = slope(rows, guided)
    torch.testing.assert_close(whole, sum(slope([row], guided) for row in rows), rtol=1e-4, atol=1e-6)
    taught = whole - slope(rows, plain)
    d_head = query.size(0) // 3
    assert taught[:d_head].abs().max() > 1e-3, "the head learns"
    assert taught[d_head:].abs().max() < 1e-6, "no other one does"


def test_a_chance_of_nothing_is_finite(corpus: Corpus) -> None:
    ours = network(TRANSFORMER)
    with torch.no_grad():
        ours.decoder.stack.layers[1].across.query.weight.mul_(1e4)
    loss = task(corpus, GuidedCriterion(LikelihoodCriterion(), GuidedConfig())).loss(
        ours, collate_aligned_pairs(corpus, np.arange(len(corpus)), bos=BOS)
    )
    loss.total.backward()
    assert math.isfinite(float(loss.total.detach()))
    assert all(p.grad is None or bool(torch.isfinite(p.grad).all()) for p in ours.parameters())


def test_it_stands_beside_any_other_criterion(corpus: Corpus) -> None:
    ours, config = network(TRANSFORMER), GuidedConfig()
    both = GuidedCriterion(DecorrelationCriterion(LikelihoodCriterion(), weight=0.5), config)
    batch = collate_aligned_pairs(corpus, np.arange(len(corpus)), bos=BOS)
    parts = [each.loss(ours, batch) for each in (both, both.base, GuidedCriterion(LikelihoodCriterion(), config))]
    assert parts[0].parts.keys() == both.part_names == {"nll", "decorrelation", "guided"}
    added = config.weight * float(parts[2].parts["guided"].total)
    assert float(parts[0].total.detach()) == pytest.approx(float(parts[1].total.detach()) + added, rel=1e-5)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            GuidedConfig(layer=2),
            r"training\.guided\.layer = 2: this model attends to the source in 2 layers, counted from 0",
        ),
        (GuidedConfig(head=3), r"training\.guided\.head = 3: that attention has 3 heads, counted from 0"),
    ],
)
def test_what_a_model_has_not_is_told(config: GuidedConfig, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        GuidedAttention.from_config(network(TRANSFORMER), config)


def test_a_model_without_attention_cannot_be_guided() -> None:
    blind = RecurrentConfig.model_validate({"d_model": 12, "reading": {"kind": "context"}})
    with pytest.raises(RecipeError, match="attention to the source, but this model has none"):
        GuidedAttention.from_config(network(blind), GuidedConfig())
