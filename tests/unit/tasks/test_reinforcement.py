"""REINFORCE for translation: its expected gradient by enumeration of all draws, and the baseline that steadies it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from heedful.architectures.build import DataSizes, build_sequence_to_sequence
from heedful.architectures.recurrent import RecurrentConfig
from heedful.attention import MovingBaseline, normalizers
from heedful.data.batches import PairBatch, collate_pairs
from heedful.data.corpus import Corpus, build_pair_encoder, write_corpus
from heedful.data.readers import SentencePair
from heedful.data.tokenizers import BOS, CharacterTokenizer
from heedful.inspection.capture import watch_attention
from heedful.models.predictions import SoftmaxPredictions
from heedful.tasks.generation_objective import GenerationObjective, LikelihoodCriterion, ReinforceCriterion

LETTERS = CharacterTokenizer("abcd", lowercase=False)
PAIRS = (("ab", "ba"), ("d", "c"), ("cab", "d"))
READINGS = ("bahdanau", "luong")
likeliest = normalizers._select_keys


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    pairs = [SentencePair(source, target, "x") for source, target in PAIRS]
    return write_corpus(tmp_path / "c", pairs, encoder=build_pair_encoder(LETTERS, LETTERS, max_length=20))


def task(corpus: Corpus, *, smoothing: float = 0.0, **reinforce: float) -> GenerationObjective:
    return GenerationObjective(
        corpus,
        corpus,
        criterion=ReinforceCriterion(LikelihoodCriterion(smoothing), **reinforce),
        batch_tokens=100,
        seed=1,
        device=torch.device("cpu"),
        collate_fn=partial(collate_pairs, bos=BOS),
    )


def baseline(what: GenerationObjective) -> MovingBaseline:
    assert isinstance(what.criterion, ReinforceCriterion)
    return what.criterion.baseline


def model(reading: str) -> Any:
    options = {"d_model": 3, "dropout": 0.0, "reading": {"kind": reading, "weights": "sampled"}}
    made = build_sequence_to_sequence(
        RecurrentConfig.model_validate(options), DataSizes(LETTERS.size, LETTERS.size, 20)
    )
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.7)
    return made.double().train()


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[int]], None]:
    """From now on, the attention of one sentence takes these slots, one at each step."""

    def force(slots: Sequence[int]) -> None:
        steps = itertools.cycle(slots)

        def taken(probabilities: Tensor, visible: Tensor, *, sample: bool) -> Tensor:
            assert sample
            assert probabilities.shape[:2] == (1, 1)
            return (torch.arange(probabilities.size(-1)) == next(steps)) & visible

        monkeypatch.setattr(normalizers, "_select_keys", taken)

    return force


@pytest.fixture
def outcomes(draw: Callable[[Sequence[int]], None]) -> Callable[..., Iterator[tuple[Tensor, Tensor, Tensor]]]:
    """Of one sentence, for all draws there are: log p(target | draws), log p(draws) and the entropy on the way."""

    def each(made: Any, batch: PairBatch) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        labels = batch.labels[0]
        for slots in itertools.product(range(batch.source.ids.size(1)), repeat=len(labels)):
            draw(slots)
            with watch_attention(made, detach=False) as seen:
                hidden = made(batch.source, batch.target)
            log_p = made.output(hidden)[0].log_softmax(-1)
            (name,) = (name for name in seen if name.endswith(".choose"))
            chances = torch.cat(seen[name], 1)[0]
            yield (
                log_p[range(len(labels)), labels].sum(),
                chances[range(len(labels)), list(slots)].log().sum(),
                -(chances * chances.log()).sum(),
            )

    return each


def slopes(value: Tensor, made: nn.Module) -> list[Tensor]:
    found = torch.autograd.grad(value, list(made.parameters()), allow_unused=True, retain_graph=True)
    return [torch.zeros_like(p) if f is None else f for f, p in zip(found, made.parameters(), strict=True)]


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("row", [0, 1])
def test_the_expected_gradient_is_that_of_the_expected_likelihood(
    corpus: Corpus, outcomes: Callable[..., Iterator[tuple[Tensor, ...]]], reading: str, row: int
) -> None:
    """Over all draws of a sentence: the gradient of E[log p(target | draws)], whatever the baseline, and beside it the
    mean gradient of the entropy, which draws are not blamed for.
    """
    made, what = model(reading), task(corpus, entropy=0.3)
    what.on_update(2.5)
    batch = what.build_batch(np.array([row]))
    estimate = [torch.zeros_like(p) for p in made.parameters()]
    expected, spread = torch.zeros(()), torch.zeros(())
    for log_likelihood, log_chance, entropy in outcomes(made, batch):
        chance = log_chance.exp()
        expected = expected + chance * log_likelihood
        spread = spread + chance.detach() * entropy
        loss = what.loss(made, batch)
        assert float(loss.total.detach()) == pytest.approx(-float(log_likelihood.detach()))
        assert float(loss.parts["nll"].total) == pytest.approx(-float(log_likelihood.detach()))
        assert float(loss.parts["entropy"].total) == pytest.approx(float(entropy.detach()))
        assert loss.count == batch.labels.size(1)
        beyond = log_likelihood.detach() + (0.1 * 2.5) * loss.count
        found = slopes(loss.total, made)
        for slope, wanted in zip(
            found, slopes(-(log_likelihood + beyond * log_chance + 0.3 * entropy), made), strict=True
        ):
            torch.testing.assert_close(slope, wanted)
        estimate = [total + float(chance.detach()) * slope for total, slope in zip(estimate, found, strict=True)]
    truth = slopes(-expected - 0.3 * spread, made)
    for (name, _), mean, wanted in zip(made.named_parameters(), estimate, truth, strict=True):
        torch.testing.assert_close(mean, wanted, msg=name)
    score = dict(zip([name for name, _ in made.named_parameters()], truth, strict=True))
    assert any(slope.abs().max() > 1e-3 for name, slope in score.items() if ".score." in name)


def test_the_baseline_makes_the_gradient_quieter(
    corpus: Corpus, outcomes: Callable[..., Iterator[tuple[Tensor, ...]]]
) -> None:
    """E|g|^2 over all draws, the mean of g being the same."""
    made = model("bahdanau")
    batch = task(corpus).build_batch(np.array([0]))
    score = made.decoder.reading.across.score.query.weight

    def noise(what: GenerationObjective) -> float:
        total = 0.0
        for _, log_chance, _ in outcomes(made, batch):
            (slope,) = torch.autograd.grad(what.loss(made, batch).total, score)
            total += float(log_chance.detach().exp() * slope.square().sum())
        return total

    found = [(float(value.detach()), float(chance.detach().exp())) for value, chance, _ in outcomes(made, batch)]
    mean = sum(value * chance for value, chance in found) / batch.labels.size(1)
    told, naive = task(corpus, entropy=0.0), task(corpus, entropy=0.0)
    for _ in range(200):
        told.on_update(-mean)
    assert baseline(told).value == pytest.approx(mean)
    assert noise(told) < 0.5 * noise(naive)


@pytest.mark.parametrize("reading", READINGS)
def test_sentences_side_by_side_learn_what_they_learn_alone(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, reading: str
) -> None:
    """Padding draws nothing, earns nothing, and is no label of the baseline."""
    monkeypatch.setattr(normalizers, "_select_keys", lambda p, visible, **_: likeliest(p, visible, sample=False))
    made, what = model(reading), task(corpus, smoothing=0.1, reward=0.7, entropy=0.2)
    what.on_update(1.3)
    together = what.build_batch(np.arange(3))
    assert (together.labels < 0).any()
    assert (together.source.positions < 0).any()
    losses = [what.loss(made, what.build_batch(np.array([row]))) for row in range(3)]
    whole = what.loss(made, together)
    assert whole.count == sum(loss.count for loss in losses)
    for part in ("nll", "entropy"):
        assert float(whole.parts[part].total) == pytest.approx(sum(float(loss.parts[part].total) for loss in losses))
    alone = slopes(torch.stack([loss.total for loss in losses]).sum(), made)
    for found, expected in zip(slopes(whole.total, made), alone, strict=True):
        torch.testing.assert_close(found, expected)


def test_the_weights_are_those_of_reward_and_entropy(corpus: Corpus) -> None:
    """The gradient is linear in both; without them it is that of the likelihood of what was drawn."""
    made = model("luong")

    def found(reward: float, entropy: float) -> Tensor:
        what = task(corpus, reward=reward, entropy=entropy)
        what.on_update(1.1)
        torch.manual_seed(4)
        total = what.loss(made, what.build_batch(np.arange(3))).total
        return torch.cat([slope.flatten() for slope in slopes(total, made)])

    nothing = found(0.0, 0.0)
    torch.manual_seed(4)
    plain = LikelihoodCriterion().loss(made, task(corpus).build_batch(np.arange(3))).total
    torch.testing.assert_close(nothing, torch.cat([slope.flatten() for slope in slopes(plain, made)]))
    reward, entropy = found(1.0, 0.0) - nothing, found(0.0, 1.0) - nothing
    torch.testing.assert_close(found(0.3, 2.0), nothing + 0.3 * reward + 2.0 * entropy)
    assert reward.abs().max() > 1e-3
    assert entropy.abs().max() > 1e-3


def test_the_baseline_is_remembered_to_the_last_bit(corpus: Corpus) -> None:
    what = task(corpus, decay=0.8)
    for nll in (2.3, 1.7, 0.1):
        what.on_update(nll)
    assert baseline(what).value == pytest.approx(-(0.2 * 0.1 + 0.8 * 0.2 * 1.7 + 0.64 * 0.2 * 2.3))
    later = task(corpus, decay=0.8)
    later.load_state_dict(what.state_dict())
    assert baseline(later) == baseline(what)
    what.on_update(1 / 3)
    later.on_update(1 / 3)
    assert baseline(later) == baseline(what)


def test_measuring_draws_nothing(corpus: Corpus) -> None:
    made, what = model("bahdanau").eval(), task(corpus)
    state = torch.get_rng_state()
    with torch.no_grad():
        first, second = what.evaluate(made), what.evaluate(made)
    assert first == second
    assert torch.equal(torch.get_rng_state(), state)
    assert baseline(what).value == 0


def test_each_label_has_its_own_likelihood_and_no_gradient() -> None:
    """More rows than are dealt with at one time."""
    output = nn.Linear(4, 6).double()
    hidden, labels = torch.randn(2100, 4, dtype=torch.float64, requires_grad=True), torch.randint(6, (2100,))
    found = SoftmaxPredictions(hidden, output).compute_log_likelihoods(labels)
    assert not found.requires_grad
    chances = output(hidden).exp()
    torch.testing.assert_close(found, (chances[range(2100), labels] / chances.sum(1)).log().detach())
