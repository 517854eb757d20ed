"""The task: its loss is the sum over labels, padding is none, and metrics do not depend on how one batches."""

# ruff: noqa: RUF001  # marks that look like others are meant

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import heedful
from heedful.architectures.build import DataSizes, build_sequence_to_sequence
from heedful.architectures.model import TransformerConfig
from heedful.data.batches import PairBatch, collate_pairs
from heedful.data.corpus import Corpus, build_pair_encoder, write_corpus
from heedful.data.readers import SentencePair
from heedful.data.tokenizers import BOS, PAD, UNK, CharacterTokenizer, Tokenizer
from heedful.inspection.capture import watch_attention
from heedful.tasks.generation_objective import (
    DecorrelationCriterion,
    GenerationMetrics,
    GenerationObjective,
    LikelihoodCriterion,
    decorrelation_penalty,
)
from heedful.tasks.translation.recipe import TranslationRecipe
from heedful.tasks.translation.task import SOURCE_TOKENIZER, TARGET_TOKENIZER, TASK
from heedful.tensors import Tokens

LETTERS = CharacterTokenizer("abcdef", lowercase=False)
PAIRS = 14


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    chance = np.random.default_rng(3)
    sides = [["".join(chance.choice(list("abcdef"), size=chance.integers(1, 9))) for _ in range(PAIRS)] for _ in "st"]
    pairs = [SentencePair(source, target, "x") for source, target in zip(*sides, strict=True)]
    return write_corpus(tmp_path / "c", pairs, encoder=build_pair_encoder(LETTERS, LETTERS, max_length=20))


@pytest.fixture
def model() -> Any:
    config = {"d_model": 12, "heads": 3, "layers": 1, "dropout": 0.0, "output_bias": True}
    built = build_sequence_to_sequence(
        TransformerConfig.model_validate(config), DataSizes(LETTERS.size, LETTERS.size, 20)
    )
    for parameter in built.parameters():
        nn.init.normal_(parameter, std=0.4)
    return built.double()


def translation(
    corpus: Corpus, *, batch_tokens: int = 30, smoothing: float = 0.0, decorrelation: float = 0.0
) -> GenerationObjective:
    likelihood = LikelihoodCriterion(smoothing)
    return GenerationObjective(
        corpus,
        corpus,
        criterion=DecorrelationCriterion(likelihood, weight=decorrelation) if decorrelation else likelihood,
        batch_tokens=batch_tokens,
        seed=5,
        device=torch.device("cpu"),
        collate_fn=partial(collate_pairs, bos=BOS),
    )


def longhand(model: Any, batch: PairBatch, smoothing: float) -> tuple[float, float, int]:
    """Sentence by sentence, label by label, without any padding."""
    total, plain, count = 0.0, 0.0, 0
    for row in range(len(batch.labels)):
        source = batch.source.ids[row][batch.source.positions[row] >= 0][None]
        target = batch.target.ids[row][batch.target.positions[row] >= 0][None]
        labels = batch.labels[row][batch.labels[row] >= 0]
        logits, _ = model.step(Tokens.from_ids(target, pad=PAD), model.init_state(Tokens.from_ids(source, pad=PAD)))
        for each, label in zip(logits[0].log_softmax(-1).tolist(), labels.tolist(), strict=True):
            plain -= each[label]
            total -= (1 - smoothing) * each[label] + smoothing * sum(each) / len(each)
            count += 1
    return total, plain, count


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_sum_over_labels(corpus: Corpus, model: Any, smoothing: float) -> None:
    """Padded batches and sentences alone agree, so neither padding nor smoothing leaks into the other."""
    task = translation(corpus, smoothing=smoothing)
    batch = task.build_batch(np.arange(PAIRS))
    assert (batch.labels < 0).any()
    loss = task.loss(model, batch)
    with torch.no_grad():
        total, plain, count = longhand(model, batch, smoothing)
    assert loss.count == count == int(corpus.lengths[:, 1].sum())
    assert float(loss.total.detach()) == pytest.approx(total)
    assert float(loss.parts["nll"].total) == pytest.approx(plain)
    assert not loss.parts["nll"].total.requires_grad


def test_losses_of_parts_add_up_to_that_of_the_whole(corpus: Corpus, model: Any) -> None:
    """Also the penalty on heads, which is a sum over queries; so accumulated batches are the big batch."""
    task = translation(corpus, smoothing=0.1, decorrelation=0.3)

    def gradients(parts: list[np.ndarray]) -> tuple[float, int, list[Tensor]]:
        losses = [task.loss(model, task.build_batch(rows)) for rows in parts]
        total = torch.stack([loss.total for loss in losses]).sum()
        slopes = torch.autograd.grad(total, list(model.parameters()))
        return float(total.detach()), sum(loss.count for loss in losses), list(slopes)

    whole = gradients([np.arange(PAIRS)])
    split = gradients([np.arange(3), np.arange(3, PAIRS - 1), np.arange(PAIRS - 1, PAIRS)])
    assert split[0] == pytest.approx(whole[0], rel=1e-6)  # the penalties are added up in single precision
    assert split[1] == whole[1]
    for mine, other in zip(split[2], whole[2], strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


def test_decorrelation_adds_its_weight_times_the_penalty(corpus: Corpus, model: Any) -> None:
    task = translation(corpus)
    batch = task.build_batch(np.arange(5))
    plain = translation(corpus, smoothing=0.1).loss(model, batch)
    found = translation(corpus, smoothing=0.1, decorrelation=0.25).loss(model, batch)
    penalty = 0.0
    for row in range(5):  # alone, no sentence has padding
        single = task.build_batch(np.array([row]))
        with torch.no_grad(), watch_attention(model) as weights:
            model(single.source, single.target)
        assert len(weights) == 3, "all three attentions"
        penalty += float(decorrelation_penalty(each for calls in weights.values() for each in calls))
    assert float(found.parts["decorrelation"].total) == pytest.approx(penalty, rel=1e-6)
    assert float(found.total.detach()) == pytest.approx(float(plain.total.detach()) + 0.25 * penalty, rel=1e-6)
    assert found.count == plain.count
    assert float(found.parts["nll"].total) == pytest.approx(float(plain.parts["nll"].total))
    query = model.encoder.stack.layers[0].attention.query.weight
    slopes = [torch.autograd.grad(each.total, query)[0] for each in (plain, found)]
    assert not torch.allclose(*slopes), "the penalty teaches the heads"


@pytest.mark.parametrize("batch_tokens", [9, 40, 1000])
def test_validation_is_the_mean_over_labels_however_it_is_batched(
    corpus: Corpus, model: Any, batch_tokens: int
) -> None:
    task = translation(corpus, batch_tokens=batch_tokens, smoothing=0.3, decorrelation=2.0)
    model.eval()
    with torch.no_grad():
        metrics = task.evaluate(model)
        _, plain, count = longhand(model, task.build_batch(np.arange(PAIRS)), 0.0)
    assert metrics.keys() == task.metric_names == {"loss", "perplexity", "accuracy"}
    assert metrics["loss"] == pytest.approx(plain / count)
    assert metrics["perplexity"] == pytest.approx(math.exp(plain / count))


@pytest.mark.parametrize("batch_tokens", [9, 1000])
def test_accuracy_is_how_often_the_label_comes_first_however_sure_the_model_is(
    corpus: Corpus, model: Any, batch_tokens: int
) -> None:
    task = translation(corpus, batch_tokens=batch_tokens)
    model.eval()
    right, count = 0, 0
    for row in range(PAIRS):  # alone, no sentence has padding
        single = task.build_batch(np.array([row]))
        with torch.no_grad():
            first = model.output(model(single.source, single.target))[0].argmax(-1)
        right += sum(mine == label for mine, label in zip(first.tolist(), single.labels[0].tolist(), strict=True))
        count += single.labels.numel()
    assert 0 < right < count
    with torch.no_grad():
        before = task.evaluate(model)
        model.output.weight *= 8
        model.output.bias *= 8
        after = task.evaluate(model)
    assert before["accuracy"] == after["accuracy"] == right / count
    assert after["loss"] > before["loss"], "who is sure and wrong"


def test_bleu_is_measured_where_it_is_asked_for(corpus: Corpus, model: Any) -> None:
    task = GenerationObjective(
        corpus,
        corpus,
        criterion=LikelihoodCriterion(),
        batch_tokens=100,
        seed=1,
        device=torch.device("cpu"),
        generation_metrics=GenerationMetrics(
            frozenset({"bleu"}), lambda given: {"bleu": 12.5 if given is model else 0.0}
        ),
        collate_fn=partial(collate_pairs, bos=BOS),
    )
    with torch.no_grad():
        metrics = task.evaluate(model)
    assert metrics.keys() == task.metric_names
    assert metrics["bleu"] == 12.5


def test_a_hopeless_model_has_infinite_perplexity(corpus: Corpus, model: Any) -> None:
    with torch.no_grad():
        model.output.weight *= 1e6
        metrics = translation(corpus).evaluate(model.eval())
    assert math.isfinite(metrics["loss"])
    assert metrics["perplexity"] == math.inf


def test_epochs_are_planned_from_the_seed(corpus: Corpus) -> None:
    task = translation(corpus, batch_tokens=9)
    plans = [[rows.tolist() for rows in task.plan_epoch(epoch)] for epoch in (0, 1, 0)]
    assert plans[0] == plans[2] != plans[1]
    assert sorted(row for rows in plans[0] for row in rows) == list(range(PAIRS))


def test_the_target_may_be_cut_in_another_way(small: Path) -> None:
    """Letters become words between spaces."""
    words = ["--tokenizer.kind", "characters", "--tokenizer.target.kind", "words", "--model.tie", "two_way"]
    recipe = heedful.load_recipe(small, [*words, "--data.max_length", "40", "--training.steps", "2"])
    assert not recipe.tokenizer.joint
    run = heedful.train(recipe, device="cpu")
    face = heedful.load(run.folder, device="cpu")
    assert face.source.to_pieces(face.source.encode("12 3")) == ["1", "2", "▁", "3"]
    assert face.target.to_pieces(face.target.encode("eins zwei")) == ["eins", "zwei"]
    assert len(face.translate(["1 2"])) == 1


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("kind", ["bpe", "characters", "words"])
def test_translations_keep_their_marks_and_sources_are_read_alike(kind: str, joint: bool, tmp_path: Path) -> None:
    chinese, english = "你好，你们？（好）…½", "hello , you ( well ) ? ... 1/2 file"
    (tmp_path / "a.tsv").write_text(f"{english}\t{chinese}\n" * 20, encoding="utf-8")
    size = "size = 80" if kind == "bpe" else ""
    table = f'[tokenizer]\nkind = "{kind}"\njoint = {str(joint).lower()}\n{size}\n'
    table += '[model]\ntie = "two_way"\n[training]\nsteps = 1\n'
    (tmp_path / "r.toml").write_text(
        f'[data]\ntrain = {{ path = "a.tsv" }}\nvalidation = {{ path = "a.tsv" }}\n{table}'
    )
    recipe = heedful.load_recipe(tmp_path / "r.toml")
    assert isinstance(recipe, TranslationRecipe)
    made = TASK.learn_vocabularies(recipe, existing=None)
    for name, vocabulary in made.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        vocabulary.save(tmp_path / name)
    for found in (made, TASK.load_vocabularies(recipe, tmp_path)):
        source, target = found[SOURCE_TOKENIZER], found[TARGET_TOKENIZER]
        assert isinstance(source, Tokenizer)
        assert isinstance(target, Tokenizer)
        written = target.decode(target.encode(chinese))
        assert written.replace(" ", "") == chinese
        assert UNK not in target.encode(chinese)
        assert source.normalise("ﬁle，…") == "file,..."
        assert source.encode("hello，you") == source.encode("hello,you")
        assert (source.sha256 == target.sha256) == joint


def test_a_lowercased_vocabulary_folds_as_it_did(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("A b\tEin，B…\n" * 20, encoding="utf-8")
    table = '[tokenizer]\nkind = "characters"\nlowercase = true\n[training]\nsteps = 1\n'
    (tmp_path / "r.toml").write_text(
        f'[data]\ntrain = {{ path = "a.tsv" }}\nvalidation = {{ path = "a.tsv" }}\n{table}'
    )
    recipe = heedful.load_recipe(tmp_path / "r.toml")
    assert isinstance(recipe, TranslationRecipe)
    target = TASK.learn_vocabularies(recipe, existing=None)[TARGET_TOKENIZER]
    assert isinstance(target, Tokenizer)
    assert target.decode(target.encode("Ein，B…")) == "ein,b..."
