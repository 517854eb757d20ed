"""What classification, tagging, spans and language modelling choose where a recipe leaves it open."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from heedful.data.encoder_inputs import build_windows as cut
from heedful.data.labelled import LabelledExample, MultipleChoiceExample
from heedful.data.questions import ExtractiveQuestion
from heedful.data.tokenizers import CharacterTokenizer
from heedful.errors import DataError
from heedful.recipes.load import apply_settings, build_recipe, is_unset, resume_recipe
from heedful.recipes.recipe import Recipe
from heedful.runs.resolve import fit_recipe
from heedful.tasks.auto_settings import ComputeBudget, LearningSpeed, TrainingAmount, choose_evaluation_interval
from heedful.tasks.classification import task as classes
from heedful.tasks.language.recipe import LanguageRecipe
from heedful.tasks.language.task import choose_language_settings
from heedful.tasks.spans import task as spans
from heedful.tasks.tagging.task import TaggedTextSize
from heedful.tasks.task import get_task

FILES = {
    "classification": (
        '{"text": "How far is it?", "label": "number"}\n{"text": "Who is it?", "label": "person"}\n',
        "jsonl",
    ),
    "tagging": ("Dogs\tNOUN\nrun\tVERB\n\nIt\tPRON\nrains\tVERB\n", "tsv"),
    "spans": (
        json.dumps({"question": "Who?", "context": "It was Ann.", "answers": [{"text": "Ann", "start": 7}]}) + "\n",
        "jsonl",
    ),
    "language_modelling": ("To be or not to be.\n", "txt"),
}
task = pytest.mark.parametrize("task", FILES)
SPECIAL = CharacterTokenizer("ab", lowercase=False).special
UNREAD = {
    "task": "classification",
    "output": "runs/none",
    "data": {"train": {"path": "a.jsonl"}, "validation": {"path": "b.jsonl"}},
    "training": {"minutes": 2},
}


def recipe(folder: Path, task: str, **tables: Any) -> Recipe:
    text, ending = FILES[task]
    path = folder / f"text.{ending}"
    path.write_text(text)
    data = {"train": {"path": str(path)}, "validation": {"path": str(path)}}
    table = {"task": task, "output": str(folder / "run"), "data": data, "training": {"minutes": 2}}
    return build_recipe({**table, **tables}, source="here")


@task
@pytest.mark.parametrize("seconds", [None, 1.0, 200.0, 1e6])
def test_whatever_is_chosen_is_a_recipe_and_declared(tmp_path: Path, task: str, seconds: float | None) -> None:
    for tables in ({}, {"training": {"steps": 70}}, {"training": {"epochs": 3}}):
        open_ = recipe(tmp_path, task, **tables)
        settings = get_task(open_).choose_settings(open_, ComputeBudget(seconds))
        assert settings.keys() <= set(open_.auto_keys)
        whole = apply_settings(
            open_, {key: value for key, value in settings.items() if is_unset(open_, key)}, source="here"
        )
        assert whole.training.schedule.kind == "linear"
        assert "training.epochs" not in settings or not tables, "who says when training ends is heard"


@task
def test_who_sizes_a_model_keeps_it_and_who_says_how_it_learns_keeps_all(tmp_path: Path, task: str) -> None:
    table = {"d_model": 8, "heads": 2}
    open_ = recipe(tmp_path, task, model=table)
    settings = get_task(open_).choose_settings(open_, ComputeBudget(60.0))
    assert not [key for key in settings if key.startswith("model.")]
    assert "training.schedule" in settings
    training = {"minutes": 2, "schedule": {"kind": "constant"}}
    assert not recipe(tmp_path, task, model=table, training=training).needs_fitting
    assert recipe(tmp_path, task, training=training).needs_fitting


@pytest.mark.parametrize(
    ("task", "model", "kind", "found"),
    [
        ("classification", {"dropout": 0.1}, "transformer", False),
        ("classification", {"kind": "windows"}, "windows", True),
        ("classification", {"heads": 2}, "transformer", False),
        ("classification", {"kind": "windows", "dropout": 0.1}, "windows", True),
        ("classification", {"kind": "windows", "d_model": 8}, "windows", False),
        ("classification", {"kind": "recurrent"}, "recurrent", False),
        ("tagging", {"kind": "recurrent", "dropout": 0.1}, "recurrent", True),
        ("tagging", {"kind": "transformer"}, "transformer", False),
        ("language_modelling", {"dropout": 0.1}, "transformer", True),
        ("language_modelling", {"kind": "recurrent"}, "recurrent", False),
    ],
)
def test_what_is_said_of_a_model_is_kept_and_chosen_around(
    tmp_path: Path, task: str, model: dict[str, Any], kind: str, found: bool
) -> None:
    whole = fit_recipe(recipe(tmp_path, task, model=model), device=torch.device("cpu"))
    assert whole.model.kind == kind
    assert whole.model.model_dump(include=set(model), exclude={"kind"}) == {
        k: v for k, v in model.items() if k != "kind"
    }
    assert whole.training.schedule.kind == "linear"
    assert (whole.model != type(whole.model)(**model)) == found


@task
@pytest.mark.parametrize("begun", [False, True])
def test_what_was_fitted_is_kept_whatever_becomes_of_the_text(tmp_path: Path, task: str, begun: bool) -> None:
    """Also what is nothing, as no dropout for a text that is hardly read once."""
    open_ = recipe(tmp_path, task, training={"steps": 1})
    path = Path(open_.data.train.path)  # type: ignore[attr-defined]
    path.write_text("\n".join([path.read_text()] * 400))
    whole = fit_recipe(open_, device=torch.device("cpu"))
    if task == "language_modelling":
        assert whole.model.dropout == 0 != open_.model.dropout
    path.write_text(FILES[task][0])
    assert resume_recipe(open_, whole.model_dump(mode="json"), has_checkpoint=begun) == whole


def test_what_is_wider_learns_more_carefully_and_more_slowly(tmp_path: Path) -> None:
    for task in ("classification", "tagging", "spans", "language_modelling"):
        paces = [recipe(tmp_path, task, model={"d_model": width}) for width in (64, 256)]
        narrow, wide = (
            get_task(each).choose_settings(each, ComputeBudget(60.0))["training.schedule"]["rate"] for each in paces
        )
        assert narrow > wide


@task
def test_who_begins_with_a_model_and_says_how_it_learns_keeps_that(tmp_path: Path, task: str) -> None:
    begun = recipe(tmp_path, task, init="somewhere", training={"minutes": 1})
    assert begun.needs_fitting == (task != "language_modelling")
    schedule = {"kind": "constant", "rate": 1e-3}
    assert not recipe(tmp_path, task, init="somewhere", training={"minutes": 1, "schedule": schedule}).needs_fitting


def test_texts_of_classes_are_voted_on_and_others_are_not(tmp_path: Path) -> None:
    voted = recipe(tmp_path, "classification")
    assert "model.bag" in get_task(voted).choose_settings(voted, ComputeBudget())
    path = tmp_path / "numbers.jsonl"
    path.write_text('{"text": "far", "label": 3.5}\n')
    data = {"train": {"path": str(path)}, "validation": {"path": str(path)}, "numbers": True}
    numbers = recipe(tmp_path, "classification", data=data)
    assert "model.bag" not in get_task(numbers).choose_settings(numbers, ComputeBudget())


def test_a_choice_is_as_much_to_read_as_its_candidates() -> None:
    candidates = (("Who?", "it was Ann"), ("Who?", "nobody"), ("Who?", "a dog"))
    choice = MultipleChoiceExample(candidates, ("a", "b", "c"), (0,), ("a",), "f:1")
    labelled = [LabelledExample(each, "x", "f:1") for each in candidates]
    one, each = (classes.LabelledDataStats.from_examples(examples) for examples in ([choice], labelled))
    assert (one.num_examples, one.num_words, one.training_amount) == (
        each.num_examples,
        each.num_words,
        each.training_amount,
    )


def test_fewer_texts_are_never_read_less_often() -> None:
    passes = [
        classes.LabelledDataStats(examples, 20 * examples, 2).num_epochs
        for examples in (9, 1000, 9000, 19_000, 21_000, 10**6)
    ]
    assert passes == sorted(passes, reverse=True)
    assert passes[-3] > passes[-1]
    tuned = [
        TrainingAmount(examples, 20.0 * examples).choose_tuning_settings(
            ComputeBudget(),
            recipe=open_recipe,
            model=open_recipe.model,
            rate=1e-4,
            monitor="loss",
            validation_amount=TrainingAmount(1, 1.0),
        )["training.epochs"]
        for open_recipe in [build_recipe(UNREAD, source="here")]
        for examples in (100, 4000, 10**6)
    ]
    assert tuned[0] > tuned[1] > tuned[2]


@pytest.mark.parametrize("length", [20, 300, 1000])
def test_so_many_windows_are_expected_as_there_are(length: int) -> None:
    """With 27 tokens for 20 words."""
    dice = random.Random(length)
    questions = [
        ExtractiveQuestion(
            "who was it " * dice.randint(1, 4), "word " * dice.randint(length // 2, 2 * length), (), "1", "f"
        )
        for _ in range(50)
    ]
    windows = []
    for question in questions:
        asked, context = (round(1.35 * len(text.split())) for text in (question.question, question.context))
        windows += cut(
            range(asked),
            range(context),
            [(0, 1)] * context,
            special=SPECIAL,
            max_length=128,
            stride=(128 - asked - 3) // 2,
        )
    found = spans.count_windows(questions, window=128)
    assert found.num_examples == pytest.approx(len(windows), rel=0.1)
    assert found.num_tokens == pytest.approx(sum(len(window.ids) for window in windows), rel=0.1)


def test_entities_are_judged_by_f1_and_words_by_accuracy(tmp_path: Path) -> None:
    words = recipe(tmp_path, "tagging")
    assert get_task(words).choose_settings(words, ComputeBudget())["training.monitor"] == "accuracy"
    Path(words.data.train.path).write_text("Ann\tB-PER\nruns\tO\n")  # type: ignore[attr-defined]
    assert get_task(words).choose_settings(words, ComputeBudget())["training.monitor"] == "f1"


def test_few_examples_are_seen_often_and_many_until_the_clock_ends_it(tmp_path: Path) -> None:
    open_ = recipe(tmp_path, "classification")
    found = {}
    for examples in (500, 5000, 50_000, 5_000_000):
        amount = classes.LabelledDataStats(examples, 20 * examples, 3)
        found[examples] = amount.training_amount.choose_settings(
            ComputeBudget(120.0), recipe=open_, epochs=amount.num_epochs, speed=classes.WINDOW_SPEED, monitor="loss",
            validation_amount=TrainingAmount(500, 10_000),
        )  # fmt: skip
    assert found[500]["training.epochs"] > found[5000]["training.epochs"] > found[50_000].get("training.epochs", 0)
    assert "training.epochs" not in found[5_000_000]
    assert found[500]["training.batch_tokens"] == pytest.approx(32 * 25, rel=0.05)


def test_what_learns_slowly_takes_smaller_steps(tmp_path: Path) -> None:
    open_ = recipe(tmp_path, "classification")
    batches = [
        TrainingAmount(10_000, 400_000.0).choose_settings(
            ComputeBudget(seconds),
            recipe=open_,
            epochs=3,
            speed=LearningSpeed(1e-3, 500),
            monitor="loss",
            validation_amount=TrainingAmount(1, 1.0),
        )["training.batch_tokens"]
        for seconds in (1.0, 200.0, 1e5)
    ]
    assert batches == [256, 500, 1280]


@pytest.mark.parametrize(
    "training",
    [{"steps": 70}, {"steps": 2000}, {"epochs": 2}, {"epochs": 50}, {"steps": 70, "epochs": 50}, {"minutes": 2}],
    ids=str,
)
@pytest.mark.parametrize("seconds", [None, 120.0])
@pytest.mark.parametrize("examples", [500, 50_000, 10**6])
def test_whoever_ends_training_there_are_looks_before_and_not_too_many(
    training: dict[str, Any], seconds: float | None, examples: int
) -> None:
    open_ = build_recipe({**UNREAD, "training": training}, source="here")
    lessons, pace = TrainingAmount(examples, 25.0 * examples), LearningSpeed(3e-3, 30_000)
    found = lessons.choose_settings(
        ComputeBudget(seconds),
        recipe=open_,
        epochs=4,
        speed=pace,
        monitor="loss",
        validation_amount=TrainingAmount(1000, 25_000.0),
    )
    batch = found["training.batch_tokens"]
    epochs = training.get("epochs", found.get("training.epochs", math.inf))
    by_clock = math.inf if seconds is None else seconds * pace.tokens_per_second / batch
    updates = min(training.get("steps", math.inf), epochs * lessons.num_tokens / batch, by_clock)
    every = found["training.evaluate_every"]
    # 15 % of the tokens, and to read takes a third of what it takes to learn; two looks at least, twenty at most
    looks = min(20.0, max(2.0, 0.15 * updates * batch / (25_000 / 3)))
    assert max(25.0, updates / looks) <= every <= max(25.0, updates / looks) + 1


def test_a_long_validation_text_is_read_seldom() -> None:
    assert choose_evaluation_interval(1e6, 500, validation_tokens=1e4) < choose_evaluation_interval(
        1e6, 500, validation_tokens=1e6
    )
    assert choose_evaluation_interval(1e6, 500, validation_tokens=1e9) == 1000, "twice at least"
    assert choose_evaluation_interval(1e6, 500, validation_tokens=1) == 100, "twenty times at most"
    assert choose_evaluation_interval(1e3, 500, validation_tokens=1) == 25
    # to read takes a third of what it takes to learn, so 15 % of the time are 4.5, 2.25 and 1.125 looks; two at least
    assert [choose_evaluation_interval(1e6, 500, validation_tokens=read) for read in (1e5, 2e5, 4e5)] == [
        445,
        889,
        1000,
    ]


def test_n_grams_have_more_buckets_where_there_are_more_words_and_fewer_where_there_are_more_classes() -> None:
    def buckets(words: int, labels: int) -> int:
        settings = classes.choose_word_model(classes.LabelledDataStats(words // 10, words, labels), voting=True)
        return int(settings["model.bag"]["buckets"])

    assert buckets(1000, 2) == 4096
    assert buckets(1000, 2) < buckets(20_000, 2) < buckets(10**7, 2)
    assert buckets(10**7, 1000) < buckets(10**7, 2)
    assert all(labels * buckets(10**7, labels) <= 2_000_000 for labels in range(2, 400)), "so many weights fit"


def test_a_text_that_is_read_often_is_learned_with_dropout(tmp_path: Path) -> None:
    open_ = recipe(tmp_path, "language_modelling")
    assert isinstance(open_, LanguageRecipe)

    def dropout(characters: int) -> float:
        return float(
            choose_language_settings(characters, ComputeBudget(200.0), recipe=open_, validation_characters=9000)[
                "model.dropout"
            ]
        )

    assert dropout(2_000_000) == 0
    assert dropout(30_000) > dropout(150_000) > 0


def test_more_time_never_gives_a_smaller_gpt_and_what_ends_training_first_counts(tmp_path: Path) -> None:
    open_ = recipe(tmp_path, "language_modelling")
    assert isinstance(open_, LanguageRecipe)

    def found(seconds: float | None = None, **training: int) -> Mapping[str, Any]:
        each = recipe(tmp_path, "language_modelling", training=training or {"minutes": 2})
        assert isinstance(each, LanguageRecipe)
        return choose_language_settings(2_000_000, ComputeBudget(seconds), recipe=each, validation_characters=9000)

    widths = [found(seconds)["model.d_model"] for seconds in (None, 1.0, 60.0, 1000.0, 1e4, 1e6)]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]
    assert found(steps=9, epochs=90) == found(steps=9) != found(epochs=90)
    assert found(steps=10**7, epochs=90) == found(epochs=90)
    assert found(60.0, epochs=10**4) == found(60.0) != found(epochs=10**4)


@task
def test_what_has_nothing_to_learn_from_is_an_error(tmp_path: Path, task: str) -> None:
    found = recipe(tmp_path, task)
    Path(found.datasets[""].train.path).write_text("")
    with pytest.raises(DataError, match="to learn from"):
        get_task(found).choose_settings(found, ComputeBudget())


def test_vocabularies_of_tags_grow_with_the_text() -> None:
    sizes = [
        TaggedTextSize(words // 15, words, frozenset("ab")).choose_scratch_settings()["tokenizer"]["size"]
        for words in (100, 50_000, 10**6)
    ]
    assert sizes == [500, 2000, 8000]


@pytest.mark.parametrize(
    ("keys", "more", "kind"),
    [
        ({"pair": "pair"}, {}, "siamese"),
        ({"pair": "pair"}, {"numbers": True}, "siamese"),
        ({}, {}, "windows"),
    ],
)
def test_pairs_are_compared_and_other_texts_are_not(
    tmp_path: Path, keys: dict[str, str], more: dict[str, bool], kind: str
) -> None:
    (tmp_path / "d.tsv").write_text("text\tpair\tlabel\n" + "eins zwei\tzwei drei\t1\nzwei\tvier\t2\n" * 4)
    part = {"path": str(tmp_path / "d.tsv"), **keys}
    table = {
        "task": "classification",
        "data": {"train": part, "validation": part, **more},
        "training": {"minutes": 1},
        "output": str(tmp_path / "run"),
    }
    chosen = get_task(build_recipe(table, source="here")).choose_settings(
        build_recipe(table, source="here"), ComputeBudget(60.0)
    )
    assert chosen["model.kind"] == kind
    assert chosen["tokenizer"]["kind"] == ("bpe" if kind == "siamese" else "words")
    named = build_recipe({**table, "model": {"kind": "recurrent"}}, source="here")
    assert "model.kind" not in get_task(named).choose_settings(named, ComputeBudget(60.0)), "who names a model has it"
