"""Classification and spans: losses and metrics against each example alone, and what users are told."""

from __future__ import annotations

import math
import random
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from heedful.architectures.build import build_text_classifier
from heedful.architectures.build_classifiers import build_span_classifier
from heedful.architectures.classifiers import EncoderClassifierConfig, RecurrentClassifierConfig, SelfAttentiveConfig
from heedful.architectures.model import ClassifierConfig
from heedful.architectures.stack import EncoderConfig
from heedful.data.corpus import write_corpus
from heedful.data.encoder_inputs import ContextWindow
from heedful.data.labelled import LabelledExample, MultipleChoiceExample
from heedful.data.labels import LabelVocabulary
from heedful.data.questions import ExtractiveQuestion, ReferenceAnswer
from heedful.data.tokenizers import CharacterTokenizer
from heedful.errors import DataError
from heedful.inspection.capture import watch_attention
from heedful.metrics.spans import compute_answer_metrics
from heedful.models.heads import TextClassifier, TokenClassifier
from heedful.tasks.classification.data import build_example_encoding
from heedful.tasks.classification.objective import ClassificationObjective, define_custom_task
from heedful.tasks.classification.predictor import Classifier
from heedful.tasks.classification.recipe import AnswerType, ClassificationDataConfig
from heedful.tasks.spans.data import WindowSettings, build_window_encoding, label_windows, split_into_windows
from heedful.tasks.spans.predictor import QuestionAnsweringPredictor, choose_best_answer
from heedful.tasks.spans.task import SpanObjective

CPU = torch.device("cpu")
LETTERS = CharacterTokenizer("abcdefg ", lowercase=False)
LABELS = LabelVocabulary(["x", "y", "z"])
HOPS = SelfAttentiveConfig(hops=3, d_alignment=4)
CONFIGS: list[ClassifierConfig] = [
    EncoderClassifierConfig(d_model=8, heads=2, layers=1, dropout=0.0),
    RecurrentClassifierConfig(d_model=4, dropout=0.0),
    RecurrentClassifierConfig(d_model=4, dropout=0.0, summary=HOPS, d_hidden=5),
    EncoderClassifierConfig(d_model=8, heads=2, layers=1, dropout=0.0, summary=HOPS),
]
KINDS = ["transformer", "recurrent", "hops", "hops-on-transformer"]
CUTTING = WindowSettings(max_length=14, stride=4, max_question=4)
ANSWERER = partial(QuestionAnsweringPredictor, tokenizer=LETTERS, settings=CUTTING, max_answer=4)


def classifier(config: ClassifierConfig, outputs: int) -> TextClassifier:
    made = build_text_classifier(config, vocabulary=LETTERS.size, outputs=outputs, longest=20)
    torch.manual_seed(1)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5)
    return made.eval()


def text(dice: random.Random) -> str:
    return "".join(dice.choices("abcdefg", k=dice.randint(1, 9)))


def example(dice: random.Random, answered: AnswerType) -> LabelledExample | MultipleChoiceExample:
    if answered == "choice":
        count = dice.randint(2, 4)
        candidates = tuple((text(dice), text(dice)) for _ in range(count))
        return MultipleChoiceExample(
            candidates, ("n",) * count, tuple(dice.sample(range(count), dice.randint(1, 2))), (), "f:1"
        )
    texts = tuple(text(dice) for _ in range(dice.randint(1, 2)))
    return LabelledExample(texts, dice.choice("xyz") if answered == "class" else dice.gauss(0, 1), "f:1")


@pytest.mark.parametrize("config", CONFIGS, ids=KINDS)
@pytest.mark.parametrize("answered", ["class", "number", "choice"])
@torch.no_grad()
def test_loss_and_metrics_are_those_of_each_example_alone(
    tmp_path: Path, config: ClassifierConfig, answered: AnswerType
) -> None:
    dice = random.Random(2)
    examples = [example(dice, answered) for _ in range(25)]
    labels = LABELS if answered == "class" else None
    encoding = build_example_encoding(LETTERS, labels, answer_type=answered, max_length=20)
    corpus = write_corpus(tmp_path / "c", examples, encoder=encoding)
    made = classifier(config, 3 if answered == "class" else 1)
    what = ClassificationObjective(
        corpus, corpus, answer_type=answered, labels=labels, batch_tokens=90, seed=1, device=CPU,
        positive="y" if answered == "class" else None,
    )  # fmt: skip
    user = Classifier(made, tokenizer=LETTERS, answer_type=answered, labels=labels, max_length=20)
    total, right = 0.0, []
    for each in examples:
        if isinstance(each, MultipleChoiceExample):
            assert each.correct_indices is not None
            chosen = user.choose([each.candidates])[0]
            total -= math.log(sum(chosen.probabilities[number] for number in each.correct_indices))
            right.append(chosen.number in each.correct_indices)
            continue
        found = user.classify([each.texts])[0]
        if isinstance(each.label, float):
            total += (float(found.label) - each.label) ** 2
        else:
            total -= math.log(found.probabilities[str(each.label)])
            right.append(found.label == each.label)
    measured = what.evaluate(made)
    assert measured["loss"] == pytest.approx(total / len(examples), rel=1e-4)
    assert {*measured} == what.metric_names
    if right:
        assert measured["accuracy"] == pytest.approx(sum(right) / len(right))
    losses = [what.loss(made, what.build_batch(rows)) for rows in what.plan_epoch(0)]
    assert len(losses) > 1
    assert sum(loss.count for loss in losses) == len(examples)
    assert sum(float(loss.total) for loss in losses) == pytest.approx(total, rel=1e-4)


def test_the_penalty_on_hops_is_added_and_told(tmp_path: Path) -> None:
    """Its weight times the sum over texts, which is not measured on validation texts; its gradient as well."""
    dice = random.Random(3)
    encoding = build_example_encoding(LETTERS, LABELS, answer_type="class", max_length=20)
    corpus = write_corpus(tmp_path / "c", [example(dice, "class") for _ in range(9)], encoder=encoding)
    made = classifier(CONFIGS[2], 3)
    assert made.summary is not None
    losses, gradients, tasks = {}, {}, {}
    for weight in (0.0, 0.5):
        tasks[weight] = ClassificationObjective(
            corpus,
            corpus,
            answer_type="class",
            labels=LABELS,
            decorrelation=weight,
            batch_tokens=900,
            seed=1,
            device=CPU,
        )
        batch = tasks[weight].build_batch(tasks[weight].plan_epoch(0)[0])
        losses[weight] = tasks[weight].loss(made, batch)
        made.zero_grad()
        losses[weight].total.backward()  # type: ignore[no-untyped-call]  # torch has no annotation here
        gradients[weight] = [
            parameter.grad.clone() for parameter in made.summary.parameters() if parameter.grad is not None
        ]
    expected = 0.0
    with watch_attention(made.summary) as weights:
        made(batch.tokens)
    ((attention,),) = weights.values()
    for matrix in attention.squeeze(2):
        expected += float((matrix @ matrix.T - torch.eye(3)).square().sum())
    assert losses[0.5].count == losses[0.0].count == 9
    assert float(losses[0.5].parts["decorrelation"].total) == pytest.approx(expected, rel=1e-4)
    assert float(losses[0.5].parts["nll"].total) == pytest.approx(float(losses[0.0].total.detach()), rel=1e-5)
    assert float(losses[0.5].total.detach()) == pytest.approx(
        float(losses[0.0].total.detach()) + 0.5 * expected, rel=1e-4
    )
    assert not any(torch.allclose(one, other) for one, other in zip(gradients[0.0], gradients[0.5], strict=True))
    with torch.no_grad():
        assert tasks[0.5].evaluate(made) == tasks[0.0].evaluate(made)


@pytest.mark.parametrize("config", CONFIGS, ids=KINDS)
def test_neighbours_and_padding_change_nothing(config: ClassifierConfig) -> None:
    user = Classifier(classifier(config, 3), tokenizer=LETTERS, answer_type="class", labels=LABELS, max_length=20)
    texts = ["a", ("ab", "cd"), "abcdefgabc", "", ("", "g")]
    together = user.classify(texts)
    for each, alone in zip(together, (user.classify([one])[0] for one in texts), strict=True):
        assert each.label == alone.label
        assert dict(each.probabilities) == pytest.approx(dict(alone.probabilities), abs=1e-5)
    assert list(together[0].probabilities.values()) == sorted(together[0].probabilities.values(), reverse=True)
    assert user.classify([]) == []


def test_what_was_cut_is_told_and_what_makes_no_sense_refused() -> None:
    made = classifier(CONFIGS[0], 3)
    user = Classifier(made, tokenizer=LETTERS, answer_type="class", labels=LABELS, max_length=8)
    assert [each.cut for each in user.classify(["abcdef", "abcdefg", ("abcdef", "ab")])] == [0, 1, 3]
    with pytest.raises(DataError, match="3 texts were given together"):
        user.classify([("a", "b", "c")])
    with pytest.raises(DataError, match="does not choose"):
        user.choose([["a", "b"]])
    chooser = Classifier(classifier(CONFIGS[0], 1), tokenizer=LETTERS, answer_type="choice", labels=None, max_length=8)
    with pytest.raises(DataError, match="chooses among candidates"):
        chooser.classify(["a"])
    with pytest.raises(DataError, match="choice 2: has no candidates"):
        chooser.choose([["a"], []])


def finder() -> TokenClassifier:
    config = EncoderConfig(d_model=8, heads=2, layers=1, dropout=0.0)
    made = build_span_classifier(config, vocabulary=LETTERS.size, longest=14)
    torch.manual_seed(3)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5)
    return made.eval()


def asked(dice: random.Random, number: int) -> ExtractiveQuestion:
    context = "".join(dice.choices("abcdefg", k=dice.randint(2, 20)))
    start = dice.randrange(len(context))
    answers = () if number % 3 == 0 else (ReferenceAnswer(context[start : start + 2], start),)
    return ExtractiveQuestion(text(dice)[:4], context, answers, str(number), f"f:{number}")


@torch.no_grad()
def test_the_loss_of_spans_is_that_of_each_window_alone(tmp_path: Path) -> None:
    dice, made = random.Random(4), finder()
    questions = [asked(dice, number) for number in range(12)]
    found = list(label_windows(LETTERS, questions, settings=CUTTING))
    corpus = write_corpus(tmp_path / "c", found, encoder=build_window_encoding(LETTERS, max_length=14))
    what = SpanObjective(
        corpus, corpus, questions=questions, make_predictor=ANSWERER, batch_tokens=60, seed=1, device=CPU
    )
    total = 0.0
    for target in found:
        logits = torch.from_numpy(ANSWERER(made, threshold=None).compute_logits([target.window], batch_tokens=9)[0])
        begin, end = logits.log_softmax(0).unbind(1)
        total -= float(begin[target.answer_start] + end[target.answer_end]) / 2
    losses = [what.loss(made, what.build_batch(rows)) for rows in what.plan_epoch(0)]
    assert sum(float(loss.total) for loss in losses) == pytest.approx(total, rel=1e-4)
    measured = what.evaluate(made)
    assert measured["loss"] == pytest.approx(total / len(found), rel=1e-4)
    assert what.threshold is not None
    assert math.isfinite(what.threshold)
    asking = [(q.question, q.context) for q in questions]
    every = ANSWERER(made, threshold=None).answer_all(asking)
    for other in (-math.inf, *(each.no_answer_margin + more for each in every for more in (-1e-3, 1e-3))):
        silenced = ["" if each.no_answer_margin >= other else each.text for each in every]
        value = compute_answer_metrics(silenced, [[a.text for a in q.answers] for q in questions])["answer_f1"].value
        assert value <= measured["f1"] + 1e-9, "no other threshold is better"
    answers = ANSWERER(made, threshold=what.threshold).answer_all(asking)
    metrics = compute_answer_metrics([each.text for each in answers], [[a.text for a in q.answers] for q in questions])
    expected = (metrics["exact_match"].value, metrics["answer_f1"].value)
    assert (measured["exact_match"], measured["f1"]) == pytest.approx(expected)
    for question, each in zip(questions, answers, strict=True):
        alone = ANSWERER(made, threshold=what.threshold).answer(question.question, question.context)
        assert (alone.text, alone.no_answer_margin) == (each.text, pytest.approx(each.no_answer_margin, abs=1e-4))


@pytest.mark.parametrize("seed", range(20))
def test_the_best_span_is_the_best_of_all_that_are_allowed(seed: int) -> None:
    dice, noise = random.Random(seed), np.random.default_rng(seed)
    context = "".join(dice.choices("abcdefg", k=dice.randint(1, 30)))
    windows = split_into_windows(LETTERS, "ab", context, settings=CUTTING, location="here")
    logits = [noise.normal(size=(len(window.ids), 2)) for window in windows]
    found = choose_best_answer(windows, logits, context, max_answer=3, threshold=0.0, n_best=4)
    every = sorted(brute_force(windows, logits), reverse=True)
    assert [span.score for span in found.spans] == pytest.approx([score for score, *_ in every[:4]])
    assert all(context[span.start : span.stop] == span.text for span in found.spans)
    assert (found.spans[0].start, found.spans[0].stop) == every[0][1:]
    silent = min(values[0].sum() for values in logits)
    assert found.no_answer_margin == pytest.approx(silent - every[0][0])
    assert found.text == ("" if found.no_answer_margin >= 0 else found.spans[0].text)
    assert found.no_answer_probability + sum(span.probability for span in found.spans) <= 1 + 1e-6
    for threshold, said in (
        (found.no_answer_margin, ""),
        (math.nextafter(found.no_answer_margin, math.inf), found.spans[0].text),
    ):
        assert choose_best_answer(windows, logits, context, max_answer=3, threshold=threshold).text == said, (
            "at or above it"
        )


def brute_force(windows: list[ContextWindow], logits: list[np.ndarray]) -> list[tuple[float, int, int]]:
    """Every span of at most three letters by its best score, from the windows in which its begin is central."""
    best: dict[tuple[int, int], float] = {}
    for window, values in zip(windows, logits, strict=True):
        for first in range(len(window.offsets)):
            for last in range(first, min(first + 3, len(window.offsets))):
                if window.is_most_central[first]:
                    place = (window.offsets[first][0], window.offsets[last][1])
                    score = float(values[window.context_start + first, 0] + values[window.context_start + last, 1])
                    best[place] = max(score, best.get(place, -math.inf))
    return [(score, *place) for place, score in best.items()]


def test_an_empty_context_answers_nothing() -> None:
    found = ANSWERER(finder(), threshold=None).answer("ab", "")
    assert (found.text, found.spans, found.no_answer_margin) == ("", (), math.inf)


def test_the_class_that_a_recipe_calls_positive_is_the_last_of_its_definition() -> None:
    """`f1` is that of the last class."""
    data = ClassificationDataConfig.model_validate(
        {"train": {"path": "a.tsv"}, "validation": {"path": "b.tsv"}, "positive": "x"}
    )
    definition = define_custom_task(data, ("x", "y", "z"))
    assert definition.labels == ("y", "z", "x")
    assert "f1" in definition.metrics
