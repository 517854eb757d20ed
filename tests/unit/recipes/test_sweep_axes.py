"""The options of a sweep: keys, values, intervals, and the names of the runs that they give."""

from __future__ import annotations

from pathlib import Path

import pytest

from heedful.errors import RecipeError
from heedful.recipes.sweep_axes import SweepRange, build_grid, parse_sweep_axis, shorten_keys

RECIPE = Path("recipe.toml")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("model.heads=1,2,4", ("1", "2", "4")),
        ("model.heads= 1, 2", ("1", "2")),
        ('model.positions={kind="shaw",clip=4},{kind="rotary"}', ('{kind="shaw",clip=4}', '{kind="rotary"}')),
        ('generation.forbid=["a,b","c"],[]', ('["a,b","c"]', "[]")),
        ("data.x='it, is',b", ("'it, is'", "b")),
        ("training.patience=none", ("none",)),
    ],
)
def test_values_are_split_outside_of_brackets(text: str, values: tuple[str, ...]) -> None:
    axis = parse_sweep_axis(text)
    assert (axis.key, axis.values, axis.drawn_from) == (text.partition("=")[0], values, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b=1e-4..1e-2:log", SweepRange(1e-4, 1e-2, is_integer=False, is_logarithmic=True)),
        ("a.b=2..8", SweepRange(2, 8, is_integer=True, is_logarithmic=False)),
        ("a.b=-1.5..0", SweepRange(-1.5, 0, is_integer=False, is_logarithmic=False)),
    ],
)
def test_intervals(text: str, expected: SweepRange) -> None:
    assert parse_sweep_axis(text).drawn_from == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("model.heads", "write KEY=VALUE,VALUE"),
        ("=2", "write KEY=VALUE,VALUE"),
        ("model.heads=", "write KEY=VALUE,VALUE"),
        ("model.heads=1,,2", "a value is empty"),
        ("model.heads=1,2,1", "1 is given twice"),
        ("a.b=4..2", "the lower bound must be below"),
        ("a.b=0..2:log", "bounds above 0"),
        ("a.b=1e..2", "LOW..HIGH"),
    ],
)
def test_mistakes_name_the_option(text: str, problem: str) -> None:
    with pytest.raises(RecipeError, match=problem) as caught:
        parse_sweep_axis(text)
    assert text in str(caught.value)


def test_a_grid_has_all_combinations_and_the_seeds_of_each_together() -> None:
    axes = [parse_sweep_axis("model.heads=1,2"), parse_sweep_axis("training.label_smoothing=0,0.1")]
    runs = build_grid(RECIPE, axes, seeds=range(4, 6))
    assert [run.name for run in runs] == [
        f"heads={heads},label_smoothing={smoothing},seed={seed}"
        for heads in "12"
        for smoothing in ("0", "0.1")
        for seed in "45"
    ]
    assert runs[3].overrides == ["--model.heads=1", "--training.label_smoothing=0.1", "--seed=5"]
    assert [run.name for run in build_grid(RECIPE, [], seeds=range(1, 3))] == ["seed=1", "seed=2"]


def test_folders_have_plain_names_that_differ() -> None:
    (first, second) = build_grid(
        RECIPE, [parse_sweep_axis('model.positions={kind = "shaw"},{kind = "alibi"}')], seeds=[1]
    )
    assert first.name == "positions=_kind_=_shaw_,seed=1"
    assert second.name != first.name
    with pytest.raises(RecipeError, match="two values give the run folder a=_,seed=1"):
        build_grid(RECIPE, [parse_sweep_axis("x.a=/,//")], seeds=[1])


def test_keys_are_shortened_as_far_as_they_differ() -> None:
    keys = ["model.heads", "training.schedule.kind", "model.positions.kind", "seed"]
    assert shorten_keys(keys) == {
        "model.heads": "heads",
        "training.schedule.kind": "schedule.kind",
        "model.positions.kind": "positions.kind",
        "seed": "seed",
    }
