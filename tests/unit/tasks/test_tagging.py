"""Tagging: what is learned, what is measured, and what is told."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from heedful.architectures.build import build_tagger
from heedful.architectures.recurrent import RecurrentEncoderConfig
from heedful.data.corpus import Corpus, write_corpus
from heedful.data.labels import LabelVocabulary
from heedful.data.tagged import TaggedSentence
from heedful.data.tokenizers import CharacterTokenizer
from heedful.models.heads import TokenClassifier
from heedful.tasks.tagging.data import build_tagging_encoding
from heedful.tasks.tagging.predictor import Tagger
from heedful.tasks.tagging.task import TaggingObjective

LETTERS = CharacterTokenizer("abcdefg", lowercase=False)
TAGS = LabelVocabulary(["X", "Y", "Z"])


def corpus(folder: Path, count: int = 30) -> Corpus:
    dice = random.Random(1)
    sentences = []
    for _ in range(count):
        words = tuple("".join(dice.choices("abcdefg", k=dice.randint(1, 4))) for _ in range(dice.randint(1, 8)))
        sentences.append(TaggedSentence(words, tuple(dice.choice("XYZ") for _ in words), ("x:1",) * len(words)))
    return write_corpus(folder, sentences, encoder=build_tagging_encoding(LETTERS, TAGS, max_length=50))


def model(**options: object) -> TokenClassifier:
    config = RecurrentEncoderConfig.model_validate({"d_model": 8, "dropout": 0.0, **options})
    made = build_tagger(config, vocabulary=LETTERS.size, tags=TAGS.size)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.4)
    return made.double().eval()


@pytest.mark.parametrize("options", [{}, {"bidirectional": False, "cell": "elman"}, {"layers": 2, "cell": "gru"}])
@torch.no_grad()
def test_loss_and_accuracy_are_those_of_each_sentence_alone(tmp_path: Path, options: dict[str, object]) -> None:
    text, made = corpus(tmp_path / "c"), model(**options)
    what = TaggingObjective(text, text, batch_tokens=40, seed=1, device=torch.device("cpu"), tags=TAGS)
    total, right, count = 0.0, 0, 0
    for row in range(len(text)):
        batch = what.build_batch(np.array([row]))
        logits = made.output(made(batch.tokens))[0]
        for scores, tag in zip(logits, batch.tags[0], strict=True):
            if tag >= 0:
                total -= float(scores.log_softmax(-1)[tag])
                right += int(scores.argmax() == tag)
                count += 1
    measured = what.evaluate(made)
    assert measured == pytest.approx({"loss": total / count, "accuracy": right / count})
    losses = [what.loss(made, what.build_batch(rows)) for rows in what.plan_epoch(0)]
    assert sum(loss.count for loss in losses) == count
    assert sum(float(loss.total) for loss in losses) == pytest.approx(total)


def test_smoothing_takes_from_the_right_tag_and_gives_to_all(tmp_path: Path) -> None:
    text, made = corpus(tmp_path / "c"), model()
    what = TaggingObjective(text, text, smoothing=0.3, batch_tokens=40, seed=1, device=torch.device("cpu"), tags=TAGS)
    batch = what.build_batch(np.arange(6))
    chances = made.output(made(batch.tokens)).log_softmax(-1)[batch.tags >= 0]
    right = float(chances[range(len(chances)), batch.tags[batch.tags >= 0]].sum().detach())
    loss = what.loss(made, batch)
    assert float(loss.total.detach()) == pytest.approx(-0.7 * right - 0.3 * float(chances.mean(-1).sum().detach()))
    assert float(loss.parts["nll"].total) == pytest.approx(-right)
    assert what.evaluate(made)["loss"] == pytest.approx(
        TaggingObjective(text, text, batch_tokens=40, seed=1, device=torch.device("cpu"), tags=TAGS).evaluate(made)[
            "loss"
        ]
    )


def test_sentences_side_by_side_are_tagged_as_alone() -> None:
    who = Tagger(model(), tokenizer=LETTERS, tags=TAGS)
    sentences = [["abc", "d"], [], ["g"], ["fed", "cab", "ab", "zz"], []]
    together = who.tag(sentences, batch_tokens=5)
    assert [[tag.word for tag in found] for found in together] == sentences
    for sentence, found in zip(sentences, together, strict=True):
        alone = who.tag([sentence])[0]
        assert [tag.name for tag in found] == [tag.name for tag in alone]
        assert [tag.probability for tag in found] == pytest.approx([tag.probability for tag in alone])
    assert all(1 / 3 <= tag.probability <= 1 for found in together for tag in found)
    assert who.tag([]) == []


def test_each_word_of_a_sentence_in_parts_is_tagged_once_with_context() -> None:
    """Words of one letter, read six at a time: a part overlaps the next by half, and its middle counts."""
    made, words = model(), list("abcdefgabc")
    long, short = (Tagger(made, tokenizer=LETTERS, tags=TAGS, max_length=length) for length in (6, None))
    (found,) = long.tag([words])
    assert [tag.word for tag in found] == words
    (beginning,) = short.tag([words[:6]])
    assert [tag.probability for tag in found[:4]] == pytest.approx([tag.probability for tag in beginning[:4]])


@torch.no_grad()
def test_a_tag_that_the_training_text_lacks_is_got_wrong_and_has_no_likelihood(tmp_path: Path) -> None:
    made, known = model(), ("X", "Y", "Z", "X")
    for name, tags in (("known", known), ("new", ("X", "W", "Z", "V"))):
        sentence = TaggedSentence(("ab", "c", "de", "f"), tags, ("x:1",) * 4)
        encoding = build_tagging_encoding(LETTERS, TAGS, max_length=50)
        text = write_corpus(tmp_path / name, [sentence], encoder=encoding)
        what = TaggingObjective(text, text, batch_tokens=40, seed=1, device=torch.device("cpu"), tags=TAGS)
        batch, measured = what.build_batch(np.array([0])), what.evaluate(made)
        logits = made.output(made(batch.tokens))[0][batch.tags[0] >= 0]
        right = [number for number, tag in enumerate(tags) if tag in "XYZ"]
        labels = [TAGS.names.index(tags[number]) for number in right]
        nll = -logits.log_softmax(-1)[right, labels].sum() / len(right)
        assert measured["loss"] == pytest.approx(float(nll))
        assert measured["accuracy"] == int((logits[right].argmax(-1) == torch.tensor(labels)).sum()) / 4
