"""What is chosen by the data and the time, where a recipe leaves it open."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from heedful.errors import DataError
from heedful.recipes.load import apply_settings, build_recipe, is_unset
from heedful.recipes.training import TrainingConfig
from heedful.tasks.auto_settings import ComputeBudget
from heedful.tasks.translation.auto_settings import CorpusSize, choose_settings
from heedful.tasks.translation.recipe import TranslationRecipe

TABLE = {
    "output": "runs/none",
    "data": {"train": {"source": "a", "target": "b"}, "validation": {"source": "c", "target": "d"}},
    "training": {"minutes": 8},
}
AMOUNT = CorpusSize(pairs=20_000, letters=2_000_000, alphabet=90)


def recipe(**tables: Any) -> TranslationRecipe:
    found = build_recipe({**TABLE, **tables}, source="here")
    assert isinstance(found, TranslationRecipe)
    return found


def weight(settings: dict[str, Any]) -> int:
    return int(settings["model.d_model"] ** 2 * settings["model.encoder_layers"])


BY_LETTERS = {"kind": "characters"}
SECONDS = [60.0 * 1.3**number for number in range(30)]
SIZED = {"d_model": 64, "layers": 2}


@pytest.mark.parametrize("tables", [{}, {"tokenizer": BY_LETTERS}, {"model": SIZED}], ids=str)
def test_whatever_is_chosen_is_a_recipe_and_declared(tables: dict[str, Any]) -> None:
    open_ = recipe(**tables)
    for _ in range(300):
        pairs = int(10 ** random.uniform(0, 7))
        amount = CorpusSize(pairs, int(pairs * 10 ** random.uniform(0, 3)) + 1, random.randint(1, 9000))
        means = ComputeBudget(random.choice([None, 10 ** random.uniform(-1, 6)]))
        settings = choose_settings(amount, means, recipe=open_)
        assert ("tokenizer.size" in settings) == ("tokenizer" not in tables)
        assert any(key.startswith("model.") for key in settings) == ("model" not in tables)
        assert settings.keys() <= set(TranslationRecipe.auto_keys)
        whole = apply_settings(open_, settings, source="here")
        assert all(not is_unset(whole, key) for key in settings)
        assert settings.get("tokenizer.size", math.inf) > amount.alphabet


def test_more_time_never_gives_a_smaller_model_and_more_text_never_a_smaller_vocabulary() -> None:
    by_time = [
        choose_settings(AMOUNT, ComputeBudget(seconds), recipe=recipe())
        for seconds in (1.0, 60.0, 600.0, 6e3, 6e4, 6e5)
    ]
    by_time.append(choose_settings(AMOUNT, ComputeBudget(None), recipe=recipe()))
    assert all(weight(dict(less)) <= weight(dict(more)) for less, more in pairwise(by_time))
    assert weight(dict(by_time[0])) < weight(dict(by_time[-1]))
    by_text = [
        choose_settings(replace(AMOUNT, pairs=pairs, letters=100 * pairs), ComputeBudget(600.0), recipe=recipe())
        for pairs in (100, 1000, 10_000, 100_000, 1_000_000)
    ]
    assert all(less["tokenizer.size"] <= more["tokenizer.size"] for less, more in pairwise(by_text))
    assert by_text[0]["tokenizer.size"] < by_text[-1]["tokenizer.size"]


def test_more_pairs_never_give_a_smaller_model_and_few_no_large_one_however_long_they_are_read() -> None:
    by_pairs = [
        weight(
            dict(
                choose_settings(replace(AMOUNT, pairs=pairs, letters=100 * pairs), ComputeBudget(None), recipe=recipe())
            )
        )
        for pairs in (100, 3000, 30_000, 300_000)
    ]
    assert by_pairs == sorted(by_pairs)
    assert by_pairs[0] == by_pairs[1] < by_pairs[2] < by_pairs[3]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ({}, False),
        ({"dropout": 0.2, "residual": "pre_norm"}, False),
        ({"d_model": 64}, True),
        ({"layers": 2}, True),
        ({"decoder_layers": 2}, True),
        ({"d_ff": 64}, True),
        ({"heads": 2}, True),
    ],
)
def test_who_says_one_size_says_them_all_and_who_says_the_rate_too_says_everything(
    model: dict[str, Any], expected: bool
) -> None:
    paced = {"minutes": 8, "schedule": {"kind": "constant"}}
    assert recipe(model=model).model.has_size == expected
    assert recipe(model=model).needs_fitting
    assert recipe(model=model, training=paced).needs_fitting != expected
    assert not recipe(model={"kind": "recurrent"}).needs_fitting


def test_what_is_wider_or_deeper_learns_more_carefully() -> None:
    def rate(residual: str, **model: int) -> float:
        table = {"residual": residual, **model}
        return float(
            choose_settings(AMOUNT, ComputeBudget(600.0), recipe=recipe(model=table))["training.schedule"]["rate"]
        )

    assert rate("pre_norm", d_model=128, layers=2) == 5e-3
    for residual in ("pre_norm", "post_norm"):
        rates = [rate(residual, d_model=width, layers=2) for width in (128, 256, 512)]
        assert rates == sorted(set(rates), reverse=True)
        assert rate(residual, d_model=256, layers=2) >= rate(residual, d_model=256, layers=6)
        assert rate(residual, d_model=512, layers=6) == pytest.approx(7e-4, rel=0.5), "that of the paper's base model"
    assert rate("post_norm", d_model=128, layers=2) == rate("post_norm") < rate("pre_norm")


def test_a_vocabulary_that_is_given_tells_how_long_a_pass_takes() -> None:
    """A smaller one makes updates faster, so that a larger model is worth its time."""
    few, many = (
        [
            weight(dict(choose_settings(AMOUNT, ComputeBudget(seconds), recipe=recipe(tokenizer={"size": size}))))
            for seconds in SECONDS
        ]
        for size in (500, 30_000)
    )
    assert all(more >= less for more, less in zip(few, many, strict=True))
    assert few != many


def test_the_best_checkpoint_is_the_one_that_is_right_most_often() -> None:
    found = choose_settings(AMOUNT, ComputeBudget(600.0), recipe=recipe())
    assert found["training.monitor"] == "accuracy"
    assert "training.monitor" in TranslationRecipe.auto_keys, "so what a recipe says itself goes before it"


@pytest.mark.parametrize(("limit", "often"), [({"epochs": 90}, True), ({"epochs": 5}, False), ({"steps": 9}, False)])
def test_a_text_that_is_read_often_is_learned_with_more_dropout(limit: dict[str, int], often: bool) -> None:
    dropout = choose_settings(AMOUNT, ComputeBudget(None), recipe=recipe(training=limit))["model.dropout"]
    assert dropout == (0.3 if often else 0.1)


@pytest.mark.parametrize("given", [{}, {"batch_tokens": 512}, {"accumulate": 4}])
def test_updates_are_as_many_passes_as_their_batches_make(given: dict[str, int]) -> None:
    """Dropout is that of so many epochs."""
    kinds = set()
    for steps in (round(500 * 1.2**number) for number in range(25)):
        by_steps = choose_settings(AMOUNT, ComputeBudget(None), recipe=recipe(training={"steps": steps, **given}))
        batch = given.get("batch_tokens", by_steps["training.batch_tokens"])
        epochs = math.ceil(steps * given.get("accumulate", 1) * batch / AMOUNT.num_tokens)
        by_epochs = choose_settings(AMOUNT, ComputeBudget(None), recipe=recipe(training={"epochs": epochs, **given}))
        assert by_steps["model.dropout"] == by_epochs["model.dropout"]
        kinds.add(by_steps["model.dropout"])
    assert len(kinds) == 3


def test_an_amount_is_counted_from_the_pairs() -> None:
    from heedful.data.readers import SentencePair

    assert CorpusSize.from_pairs([SentencePair("ab", "c", ""), SentencePair("", "aad", "")]) == CorpusSize(
        pairs=2, letters=6, alphabet=4
    )
    with pytest.raises(DataError, match=r"^there is no text to learn from; check the training files$"):
        CorpusSize.from_pairs([SentencePair("", "", "")])


def test_means_are_minutes_times_cores_and_never_measured() -> None:
    config = TrainingConfig.model_validate({"minutes": 2})
    one = ComputeBudget.from_config(config, threads=1, processes=1, gpu=False)
    assert one == ComputeBudget(120.0)
    two = [ComputeBudget.from_config(config, threads=t, processes=p, gpu=False).seconds for t, p in ((2, 1), (1, 2))]
    assert two[0] == two[1]
    assert 120 < (two[0] or 0) < 240
    gpus = [ComputeBudget.from_config(config, threads=16, processes=p, gpu=True).seconds or 0 for p in (1, 2)]
    assert (two[0] or 0) < gpus[0] < gpus[1] < 2 * gpus[0]
    assert ComputeBudget.from_config(
        TrainingConfig.model_validate({"steps": 5}), threads=4, processes=1, gpu=False
    ) == ComputeBudget(None)
