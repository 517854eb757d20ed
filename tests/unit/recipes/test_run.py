from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from heedful.errors import RecipeError
from heedful.recipes import toml
from heedful.recipes.config import Config, get_key_types
from heedful.recipes.load import build_recipe, dump, json_schema, load_recipe
from heedful.recipes.recipe import Recipe, get_recipe_class
from heedful.registry import list_tasks

MINIMAL = """
[data]
train = { source = "train.en", target = "train.de" }
validation = { source = "val.en", target = "val.de" }
[training]
steps = 10
"""
LEAST = {
    "translation": MINIMAL,
    **{
        task: f"""
task = "{task}"
[data]
train = {{ path = "train.jsonl" }}
validation = {{ path = "validation.jsonl" }}
[training]
steps = 10
"""
        for task in list_tasks()
        if task not in ("translation", "multitask")
    },
    "multitask": 'task = "multitask"\n[training]\nsteps = 10\n',
}
Draw = Callable[[int], Recipe]


@pytest.fixture
def minimal(tmp_path: Path) -> Path:
    path = tmp_path / "minimal.toml"
    path.write_text(MINIMAL)
    return path


def leaves(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


SEEDS = [seed for seed in range(41) if seed != 31]
"""Seeds of random recipes; of seed 31, thousands are drawn before one is valid."""


def hyphened(key: str) -> str:
    """With `-` for `_`, except in a name of the user's own, which is as it is typed where the recipe has none yet."""
    words = key.split(".")
    own = {number + 1 for number, word in enumerate(words) if word in ("tasks", "factors")}
    return ".".join(word if number in own else word.replace("_", "-") for number, word in enumerate(words))


def sections(section: type[Config]) -> Iterator[type[Config]]:
    yield section
    for key_type in get_key_types(section).values():
        for inner in (key_type.value_type or key_type).config_classes:
            yield from sections(inner)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_dump_loads_as_the_same_recipe(draw: Draw, seed: int, tmp_path: Path) -> None:
    recipe = load_dumped(draw(seed), tmp_path / "first.toml")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    again = load_dumped(recipe, elsewhere / "second.toml")
    assert again == recipe
    assert dump(again) == dump(recipe)


def load_dumped(recipe: Recipe, path: Path) -> Recipe:
    path.write_text(dump(recipe), encoding="utf-8")
    return load_recipe(path)


@pytest.mark.parametrize("seed", SEEDS)
def test_json_holds_the_whole_recipe(draw: Draw, seed: int) -> None:
    recipe = draw(seed)
    assert build_recipe(json.loads(recipe.model_dump_json()), source="config.json") == recipe
    assert type(recipe).model_validate_json(recipe.model_dump_json()) == recipe


@pytest.mark.parametrize("seed", SEEDS)
def test_a_command_line_can_say_everything_that_a_file_can(draw: Draw, seed: int, minimal: Path) -> None:
    dice = random.Random(seed)
    recipe = load_dumped(draw(seed), minimal.with_name("wanted.toml"))
    minimal.write_text(LEAST[recipe.task])
    found = list(leaves(recipe.model_dump(mode="json", exclude_none=True)))
    words = []
    for key, value in dice.sample(found, len(found)):
        plain = isinstance(value, str) and value[0] not in "'\"" and dice.random() < 0.5
        text = value if plain else toml.format_value(value)
        flag = "--" + (hyphened(key) if dice.random() < 0.5 else key)
        words += [f"{flag}={text}"] if dice.random() < 0.5 else [flag, text]
    assert load_recipe(minimal, words) == recipe


def test_what_is_left_out_is_derived(minimal: Path) -> None:
    recipe = load_recipe(minimal, ["--model.d_model", "96", "--model.dropout", "0.3", "--training.average", "7"])
    assert recipe.output == Path("runs/minimal")
    assert recipe.model.d_ff == 384
    assert recipe.model.embedding_dropout == 0.3
    assert recipe.training.keep == 7
    words = load_recipe(minimal, ["--tokenizer.kind", "words"])
    assert (recipe.tokenizer.size, words.tokenizer.size) == (8000, None)


def test_layers_stand_for_both_sides_unless_one_is_given(minimal: Path) -> None:
    def layers(*words: str) -> tuple[int, int]:
        model = load_recipe(minimal, words).model
        return model.encoder_layers, model.decoder_layers

    assert layers("--model.layers", "5") == (5, 5)
    assert layers("--model.decoder_layers", "2", "--model.layers", "5") == (5, 2)
    minimal.write_text(MINIMAL + "[model]\nlayers = 6\ndecoder_layers = 1\n")
    assert layers() == (6, 1)
    assert layers("--model.encoder_layers", "4") == (4, 1)
    assert layers("--model.layers", "5") == (5, 5), "the command line has the last word over the whole file"


def test_a_new_kind_keeps_what_both_kinds_know(minimal: Path) -> None:
    minimal.write_text(MINIMAL + 'schedule = { kind = "inverse_sqrt", rate = 0.002, warmup = 70 }\n')
    words = ["--training.schedule.floor=1e-5", "--training.schedule.kind=cosine"]
    schedule = load_recipe(minimal, words).training.schedule
    assert schedule.model_dump() == {"kind": "cosine", "rate": 0.002, "warmup": 70, "floor": 1e-5}
    schedule = load_recipe(minimal, ["--training.schedule.kind", "noam"]).training.schedule
    assert schedule.model_dump() == {"kind": "noam", "factor": 1.0, "warmup": 70}
    with pytest.raises(RecipeError, match=r"rate = 0\.002 is not a known key"):
        minimal.write_text(MINIMAL + 'schedule = { kind = "noam", rate = 0.002 }\n')
        load_recipe(minimal, ["--training.schedule.kind", "noam"])


def test_paths_are_counted_from_the_recipe_or_from_the_current_folder(
    minimal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "recipes"
    folder.mkdir()
    path = folder / "r.toml"
    path.write_text(MINIMAL.replace("train.en", "../texts/train.en").replace("train.de", "/texts/train.de"))
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    data = load_recipe(Path("../recipes/r.toml"), ["--data.validation.source", "mine.en", "--output", "out"])
    assert data.data.train.model_dump(include={"kind", "source", "target"}) == {
        "kind": "lines",
        "source": tmp_path / "texts/train.en",
        "target": Path("/texts/train.de"),
    }
    assert data.data.validation.source == here / "mine.en"
    assert data.data.validation.target == folder / "val.de"
    assert data.output == Path("out")
    inline = ['--data.validation={ path = "v.tsv" }']
    assert load_recipe(path, inline).data.validation.path == here / "v.tsv"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('source = "a", target = "b"', "lines"),
        ('path = "a.tsv.gz"', "tsv"),
        ('path = "a.jsonl", target_column = 3, source_column = 2', "tsv"),
        ('path = "a", source_field = "x", target_field = "y"', "jsonl"),
    ],
)
def test_the_keys_tell_the_kind_of_text(minimal: Path, text: str, kind: str) -> None:
    minimal.write_text(MINIMAL + f"[data.test]\n{text.replace(', ', chr(10))}\n")
    assert load_recipe(minimal).data.test.kind == kind


def test_values_become_what_their_keys_expect(minimal: Path) -> None:
    words = "--output 2024 --training.tensorboard --training.clip 2 --seed 3 --data.test.path 1"
    words += " --data.test.source_field true --data.test.target-field=[x]"
    recipe = load_recipe(minimal, words.split())
    assert recipe.output == Path("2024")
    assert recipe.training.tensorboard is True
    assert (recipe.training.clip, type(recipe.training.clip)) == (2.0, float)
    assert recipe.data.test.model_dump(include={"kind", "source_field", "target_field"}) == {
        "kind": "jsonl",
        "source_field": "true",
        "target_field": "[x]",
    }
    minimal.write_text(MINIMAL + "patience = 5\n")
    assert load_recipe(minimal, ["--training.patience", "none"]).training.patience is None


def test_byte_order_marks_and_windows_line_ends_are_read(minimal: Path) -> None:
    expected = load_recipe(minimal)
    minimal.write_bytes(b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode())
    assert load_recipe(minimal) == expected


def test_recipes_cannot_be_changed(minimal: Path) -> None:
    recipe = load_recipe(minimal)
    for owner, name in ((recipe, "seed"), (recipe.model, "heads"), (recipe.model.positions, "kind")):
        with pytest.raises(ValueError, match="frozen"):
            setattr(owner, name, 2)


def test_defaults_and_default_kinds_agree() -> None:
    compared = 0
    for section in (section for recipe in map(get_recipe_class, list_tasks()) for section in sections(recipe)):
        for name, key_type in get_key_types(section).items():
            field = section.model_fields.get(name)
            if len(key_type.config_classes) > 1 and field is not None and isinstance(field.default, Config):
                assert key_type.add_kind({})["kind"] == field.default.kind, name
                compared += 1
    assert compared >= 5


def test_every_key_is_explained() -> None:
    for section in (section for recipe in map(get_recipe_class, list_tasks()) for section in sections(recipe)):
        assert section.model_fields.keys() - section.describe_keys().keys() <= {"kind"}, section.__name__


def test_a_table_that_no_file_holds_has_keys_without_explanations() -> None:
    space: dict[str, Any] = {"__name__": "typed_in"}
    exec(
        "from heedful.recipes.config import Config\nclass Own(Config):\n    rate: float\nclass Bare(Config): ...",
        space,
    )
    assert space["Own"].describe_keys() == {}
    assert space["Own"].model_json_schema()["required"] == ["rate"]
    assert space["Bare"].model_json_schema()["additionalProperties"] is False


@pytest.mark.parametrize("task", list_tasks())
def test_the_schema_is_closed_and_knows_every_key(task: str) -> None:
    schema = json.loads(json_schema(task))
    objects = [schema, *schema["$defs"].values()]
    assert all(table["additionalProperties"] is False for table in objects)
    by_name = {table["title"]: table for table in objects}
    for section in set(sections(get_recipe_class(task))):
        assert set(by_name[section.__name__]["properties"]) == set(get_key_types(section))


def test_a_task_that_is_none_names_those_there_are(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text('task = "tagger"\n')
    with pytest.raises(RecipeError, match=r"task = .tagger. is not a task; choose one of .translation., .conv"):
        load_recipe(path)


def test_a_table_of_another_task_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(LEAST["tagging"] + '[generation]\nkind = "greedy"\n')
    with pytest.raises(RecipeError, match="generation is not a known key"):
        load_recipe(path)


SEVERAL = """
task = "multitask"
output = "run"
[tasks.sst-2.data]
train = { path = "a.tsv" }
validation = { path = "b.tsv" }
[tasks.parts_of_speech]
kind = "tagging"
weight = 0
data = { train = { path = "a.conllu" }, validation = { path = "b.conllu" }, max_length = 100 }
[training]
steps = 10
"""


@pytest.mark.parametrize(
    ("words", "read"),
    [
        ("--tasks.sst-2.weight 2", lambda r: r.tasks["sst-2"].weight == 2),
        ("--tasks.sst_2.weight=2", lambda r: r.tasks["sst-2"].weight == 2),
        ("--tasks.parts-of-speech.data.max-length 7", lambda r: r.tasks["parts_of_speech"].data.max_length == 7),
        ("--tasks.sst-2.data.train.path x.csv", lambda r: r.tasks["sst-2"].data.train.path == Path.cwd() / "x.csv"),
        (
            "--tasks.parts_of_speech.kind spans --tasks.parts_of_speech.monitor f1",
            lambda r: r.tasks["parts_of_speech"].kind == "spans",
        ),
        (
            "--tasks.more-of-it.data.train.path=x.tsv --tasks.more_of_it.data.validation.path=y.tsv",
            lambda r: list(r.tasks) == ["sst-2", "parts_of_speech", "more-of-it"],
        ),
    ],
)
def test_a_command_line_reaches_into_tables_with_names_of_their_own(
    tmp_path: Path, words: str, read: Callable[[Recipe], bool]
) -> None:
    path = tmp_path / "several.toml"
    path.write_text(SEVERAL)
    recipe = load_recipe(path, words.split())
    assert read(recipe)
    assert recipe.tasks["sst-2"].data.validation.path == tmp_path / "b.tsv"
    assert recipe.datasets.keys() == recipe.tasks.keys()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--tasks.sst-2.wieght=2", r"tasks.sst-2.wieght = 2 is not a known key; did you mean tasks.sst-2.weight\?"),
        ("--tasks.sst_2.weight=-1", "command line: tasks.sst-2.weight = -1 must be at least 0"),
        ("--tasks.sst-2.weight=x", 'command line: tasks.sst-2.weight = "x" must be a number'),
        ("--tasks.sst-2.kind=tag", 'tasks.sst-2.kind = "tag" must be one of .* did you mean "tagging"'),
        ("--tasks.sst-2.weight=0", "tasks must hold at least one task with a weight above 0"),
        ("--tasks.sst-2=3", "tasks.sst-2 = 3 must be a table"),
        ("--tasks.x/y.data.train.path=a --tasks.x/y.data.validation.path=a", "tasks.x/y is not a valid task name: use"),
        (
            "--tasks.SST_2.data.train.path=a --tasks.SST_2.data.validation.path=a",
            "tasks.SST_2 and tasks.sst-2 can be mistaken for each other",
        ),
        (
            "--tasks.more.data.train.path=a",
            "tasks.more.data.validation is missing: the labelled texts that checkpoints",
        ),
        ("--training.monitor=accuracy", 'training.monitor = "accuracy" must be "mean", "loss", or one metric of one'),
        ("--training.monitor=mrpc/f1", 'training.monitor = "mrpc/f1" must be .* as in "sst-2/accuracy"'),
        ("--training.temperature=0.5", "training.temperature = 0.5 must be at least 1"),
        ("--model.positions.length=99", r"length = 99 must be at least tasks.sst-2.data.max_length = 128, or a text"),
        (
            "--tasks.parts_of_speech.kind spans --model.kind=recurrent",
            'model.kind = "recurrent" cannot find answers, as tasks.parts_of_speech requires: set "transformer"',
        ),
    ],
)
def test_mistakes_in_them_are_told(tmp_path: Path, words: str, message: str) -> None:
    path = tmp_path / "several.toml"
    path.write_text(SEVERAL)
    with pytest.raises(RecipeError, match=message):
        load_recipe(path, words.split())
