"""Every mistake in a recipe is told in a sentence that names place, key, value and remedy."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest

from heedful.errors import RecipeError
from heedful.recipes import synonyms
from heedful.recipes.config import Config
from heedful.recipes.error_messages import _iter_all_keys, find_risks
from heedful.recipes.load import Recipe, build_recipe, fill_missing_keys, json_schema, load_recipe
from heedful.recipes.recipe import get_recipe_class
from heedful.registry import _TASK_SYNONYMS, list_tasks

MINIMAL = """
[data]
train = { source = "train.en", target = "train.de" }
validation = { source = "val.en", target = "val.de" }
[training]
steps = 10
"""
NO_WAY = "give source and target (lines) or path (tsv) or path and source_field and target_field (jsonl)"
KINDS = '"sinusoidal", "learned", "unit_interval", "integer", "rotary", "shaw", "alibi", "buckets", "none"'


def problems(path: Path, text: str, *words: str) -> list[str]:
    path.write_text(text)
    with pytest.raises(RecipeError) as caught:
        load_recipe(path, words)
    return [line.removeprefix(f"{path}: ") for line in str(caught.value).splitlines()]


RECURRENT = "--model.kind recurrent --model.bidirectional false"


@pytest.mark.parametrize(
    ("words", "table", "weights"),
    [
        (
            f"{RECURRENT} --model.reading.score exp_dot --model.reading.weights softmax",
            "model.reading.",
            "softmax",
        ),
        (
            f"{RECURRENT} --model.reading.kind luong --model.reading.score exp_dot --model.reading.weights sampled",
            "model.reading.",
            "sampled",
        ),
        (
            "--model.cross_attention.score exp_dot --model.cross_attention.weights softmax",
            "model.cross_attention.",
            "softmax",
        ),
        (
            "--model.kind convolutional --model.score exp_dot --model.weights straight_through",
            "model.",
            "straight_through",
        ),
    ],
)
def test_exponentials_of_exponentials_are_a_risk(tmp_path: Path, words: str, table: str, weights: str) -> None:
    (tmp_path / "r.toml").write_text(MINIMAL)
    assert list(find_risks(load_recipe(tmp_path / "r.toml", words.split()))) == [
        f'{table}weights = "{weights}" takes exponentials of the exponentials of {table}score = "exp_dot", whose '
        f'gradients overflow where states are wide: set {table}weights = "proportional", or {table}score = "dot"'
    ]
    mended = [*words.split(), f"--{table}weights", "proportional"]
    assert list(find_risks(load_recipe(tmp_path / "r.toml", mended))) == []


@pytest.mark.parametrize(
    ("words", "table"),
    [
        (f"{RECURRENT} --model.reading.kind luong", "model.reading."),
        (RECURRENT, "model.reading."),
        ("--model.self_attention.score dot", "model.self_attention."),
        ("--model.self_attention.score additive", "model.self_attention."),
        ("--model.cross_attention.score location", "model.cross_attention."),
        ("--model.kind convolutional", "model."),
    ],
)
def test_shares_of_scores_that_may_be_negative_are_a_risk(tmp_path: Path, words: str, table: str) -> None:
    (tmp_path / "r.toml").write_text(MINIMAL)
    recipe = load_recipe(tmp_path / "r.toml", [*words.split(), f"--{table}weights", "proportional"])
    (risk,) = find_risks(recipe)
    assert risk.startswith(f'{table}weights = "proportional" divides by the sum of the scores, and {table}score = "')
    assert "may be negative" in risk
    assert risk.endswith(f'set {table}weights = "softmax", or {table}score = "exp_dot"')


@pytest.mark.parametrize(
    ("words", "table"),
    [
        (RECURRENT, "model.reading."),
        (f"{RECURRENT} --model.reading.kind luong", "model.reading."),
        ("", "model.self_attention."),
        ("--model.kind convolutional", "model."),
    ],
)
def test_exponentials_bring_their_own_norm_and_older_runs_keep_theirs(tmp_path: Path, words: str, table: str) -> None:
    (tmp_path / "r.toml").write_text(MINIMAL)
    plain = load_recipe(tmp_path / "r.toml", words.split())
    exponential = load_recipe(tmp_path / "r.toml", [*words.split(), f"--{table}score", "exp_dot"])
    path = table.split(".")[:-1]
    assert [reduce(getattr, [*path, "weights"], recipe) for recipe in (plain, exponential)] == [
        "softmax",
        "proportional",
    ]
    assert list(find_risks(exponential)) == []

    stored = exponential.model_dump(mode="json", exclude_none=True)
    del reduce(getitem, path, stored)["weights"]
    assert reduce(getitem, [*path, "weights"], fill_missing_keys(stored, type(exponential))) == "softmax"


def test_the_risk_of_one_of_several_tasks_is_named_after_it() -> None:
    class Risky(Config):
        def find_risks(self, prefix: str) -> Iterator[str]:
            yield f"{prefix}x"

    class Whole(Config):
        parts: dict[str, Risky]
        part: Risky

    assert list(find_risks(Whole(parts={"a": Risky(), "b": Risky()}, part=Risky()))) == [
        "parts.a.x",
        "parts.b.x",
        "part.x",
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--model.head 4", "model.head = 4 is not a known key; did you mean model.heads?"),
        ("--model.layer 4", "model.layer = 4 is not a known key; did you mean model.layers?"),
        ("--model.heads 3", "model.heads = 3 must divide model.d_model = 256 evenly"),
        ("--model.d_model 250", "model.heads = 4 must divide model.d_model = 250 evenly"),
        ("--model.d_model true", "model.d_model = true must be a whole number"),
        ("--model.d_model 256.0", "model.d_model = 256.0 must be a whole number"),
        ("--model.dropout 1", "model.dropout = 1 must be below 1"),
        ("--model.dropout inf", "model.dropout = inf must be a finite number"),
        ("--model.dropout high", 'model.dropout = "high" must be a number'),
        ("--model.layers 0", "model.layers = 0 must be at least 1"),
        ("--model.scale_embedding 1", "model.scale_embedding = 1 must be true or false"),
        ("--model.source_vectors=", 'model.source_vectors = "" must not be empty'),
        ("--model.kind rnn", 'model.kind = "rnn" must be one of "transformer", "recurrent", "convolutional"'),
        ("--model.activation gelo", '"gelo" must be one of "relu", "gelu", "gelu_tanh", "silu"; did you mean "gelu"?'),
        ("--model.positions.kind rotry", f'"rotry" must be one of {KINDS}; did you mean "rotary"?'),
        ("--model.positions.clip 4", 'model.positions.clip needs model.positions.kind = "shaw"'),
        ("--model.positions rotary", 'model.positions = "rotary" must be a table: positions = { ... }'),
        ("--model.heads 1 --model.d_model 9", "model.d_model = 9 must be even"),
        ("--model.positions.kind rotary --model.d_model 12", "model.heads = 4 gives each head 3 numbers"),
        (
            "--model.positions.kind learned --model.positions.length 256",
            "model.positions.length = 256 must be above data.max_length = 256",
        ),
        (
            "--model.kind recurrent --model.bidirectional true --model.reading.kind luong --model.reading.score dot",
            'model.reading.score = "dot" needs states and memory slots of one width',
        ),
        (
            "--model.kind recurrent --model.reading.kind luong --model.reading.alignment_bias",
            'model.reading.alignment_bias = true is only for score = "additive": leave it out',
        ),
        ("--model.kind recurrent --model.heads 4", "model.heads = 4 is not a known key"),
        (
            "--model.kind recurrent --model.start carried",
            'model.start = "carried" passes on one state of each layer, and a bidirectional encoder ends in two: set '
            'model.bidirectional = false or model.start = "bridge"',
        ),
        (
            "--model.kind recurrent --model.start carried --model.bidirectional false --model.encoder_layers 4",
            "model.decoder_layers = 1 must equal model.encoder_layers = 4 where",
        ),
        (
            "--model.kind recurrent --model.reading.kind luong --model.readout state",
            'model.readout = "state" would leave out the context',
        ),
        (
            "--model.kind recurrent --model.readout state --model.d_embedding 128",
            'model.tie = "three_way" makes the output a table of model.d_embedding = 128 columns, and with '
            'model.readout = "state" it reads model.d_model = 256 numbers: set model.tie = "none"',
        ),
        (
            "--model.kind recurrent --training.decorrelation 0.1",
            'training.decorrelation = 0.1 makes attention heads differ, but a model of kind "recurrent" has no heads',
        ),
        (
            "--training.guided.weight 1",
            "training.guided needs word links to learn from: give data.train.alignments",
        ),
        ("--data.train.alignments a", "data.train.alignments are used only by training.guided: give that too"),
        (
            "--data.train.alignments a --training.guided.weight 0",
            "training.guided.weight = 0 must be above 0",
        ),
        ("--data.train.alignments a --training.guided.head most", 'training.guided.head = "most" must be '),
        ("--data.train.alignments a --training.guided.layer -1", "training.guided.layer = -1 must be at least 0"),
        (
            "--data.validation.alignments a",
            "data.validation.alignments have no effect there: they belong to the training text",
        ),
        (
            "--data.validation.sentence_weights a",
            "data.validation.sentence_weights have no effect there: they belong to the training text",
        ),
        (
            "--data.train.alignments a --training.guided.weight 1 --model.kind recurrent "
            "--model.reading.weights sampled",
            "training.guided does not support attention that is sampled: leave training.guided out",
        ),
        (
            "--model.freeze_vectors",
            "model.freeze_vectors = true has nothing to keep: give source_vectors or target_vectors, or leave it out",
        ),
        (
            "--model.freeze_vectors --model.source_vectors v --training.optimizer.weight_decay 0.1",
            "training.optimizer.weight_decay = 0.1 would shrink the vectors that model.freeze_vectors keeps",
        ),
        ("--model.encoder_visibility.kind window --model.encoder_visibility.before 1", "after is missing"),
        (
            "--model.d_model 12 --model.positions.kind rotary --model.aggregation mean",
            "model.heads = 4 gives each head 3 numbers, but rotary positions turn pairs",
        ),
        (
            "--model.d_model 9 --model.heads 3 --model.positions.kind rotary --model.aggregation mean "
            "--model.shared_key_value",
            "model.heads = 3 gives each head 9 numbers, but rotary positions turn pairs",
        ),
        (
            "--tokenizer.target.kind words --tokenizer.joint true",
            "tokenizer.joint = true must be false where tokenizer.target cuts one of the languages in another way",
        ),
        ("--tokenizer.target.kind words", 'model.tie = "three_way" needs one vocabulary'),
        ("--tokenizer.joint false", 'model.tie = "three_way" needs one vocabulary'),
        (
            "--tokenizer.joint false --model.tie two_way --model.copy true",
            "model.copy = true needs one vocabulary for both languages: set tokenizer.joint = true",
        ),
        ("--tokenizer.kind words --tokenizer.character_coverage 0.99", "= 0.99 has no meaning for"),
        ("--tokenizer.size none", 'must be a number for tokenizer.kind = "bpe", as in size = 8000'),
        ("--generation.top_k 3", 'generation.top_k needs generation.kind = "sampling"'),
        ("--generation.max_ratio 0 --generation.max_extra 0", "must be above 0"),
        ("--data.test.max_length 3", f"data.test is not complete: {NO_WAY}"),
        ("--data.test.source a --data.test.target a", "must be another file than source"),
        ("--data.test.path a --data.test.source_column 1", "must be another column than source_column"),
        ("--training.steps none", "give training.steps, epochs or minutes, or training never ends"),
        ("--training.schedule.kind cosine --training.schedule.floor 1", "must not exceed"),
        (
            "--training.optimizer.kind sgd --training.optimizer.nesterov true",
            "needs training.optimizer.momentum above 0",
        ),
        ("--training.schedule.kind step --training.schedule.every 9", "training.schedule.start is missing"),
        (
            "--training.schedule.kind plateau --training.schedule.patience 2 --training.patience 2",
            "training.patience = 2 must exceed training.schedule.patience = 2, or training stops before the rate",
        ),
        ("--training.average 4 --training.keep 3", "must be at least training.average = 4"),
        (
            "--training.schedule.rat 1",
            'training.schedule.rate needs training.schedule.kind = "inverse_sqrt" or',
        ),
        ("--trainnig.steps 3", "trainnig is not a known key; did you mean training?"),
        ("--heads 3", "heads = 3 is not a known key; did you mean model.heads?"),
        ("--dropout 0.1", "dropout = 0.1 is not a known key; the share of numbers that is dropped is model.dropout"),
        (
            "--data.dropout 0.1",
            "data.dropout = 0.1 is not a known key; the share of numbers that is dropped is model.dr",
        ),
        (
            "--training.lr 0.1",
            "training.lr = 0.1 is not a known key; the peak learning rate is training.schedule.rate, which needs "
            'training.schedule.kind = "inverse_sqrt" or "cosine" or "linear" or "constant" or "step" or "plateau"',
        ),
        (
            "--training.lr 0.1 --training.schedule.kind cosine",
            "training.lr = 0.1 is not a known key; the peak learning rate is training.schedule.rate",
        ),
        (
            "--model.hidden-size 64",
            "model.hidden_size = 64 is not a known key; the width of the model is model.d_model",
        ),
        ("--model.n_layers 2", "the number of layers is model.layers"),
        ("--num_heads 2", "the number of heads is model.heads"),
        ("--training.batch-size 2", "the size of a batch, in tokens, is training.batch_tokens"),
        (
            "--data.epochs 2",
            "data.epochs = 2 is not a known key; the number of passes over the text is training.epochs",
        ),
        ("--rate 0.1", "did you mean training.schedule.rate, which needs training.schedule.kind = "),
        ("--data.path x", "did you mean data.train.path or data.validation.path or data.test.path?"),
        ("--gpu 0", "gpu = 0 is not a known key; the device is set by --device, an option of heedful train"),
        ("--stpes 5", "stpes = 5 is not a known key; did you mean training.steps?"),
        ("--training.precision float32", 'must be one of "auto", "fp32", "bf16"; did you mean "fp32"?'),
        (
            "--training.optimizer.kind adamw",
            'must be one of "adam", "sgd", "adadelta", "adafactor"; did you mean "adam"?',
        ),
        ("--model.kind lstm", 'did you mean "recurrent"?'),
        (
            "--frobnicate 3",
            "is not a known key; known here: format, task, seed, output, engine, data, init, tokenizer, model",
        ),
        ("--seed -1", "seed = -1 must be at least 0"),
        ("--training.steps", "--training.steps needs a value"),
        ("--seed.x 3", "--seed.x cannot be set, because seed is not a table in the recipe"),
        ("training.steps 3", "'training.steps' is not an option; a recipe is changed by --key value"),
        ("--training..steps 3", "'--training..steps' is not an option"),
        (
            "--format 2",
            "command line: format = 2 is a recipe format that this heedful does not know; set format",
        ),
    ],
)
def test_the_sentence_for_each_mistake(tmp_path: Path, words: str, sentence: str) -> None:
    found = problems(tmp_path / "r.toml", "seed = 1\n" + MINIMAL, *words.split())
    assert len(found) == 1, found
    assert sentence in found[0]


SEVERAL = """
task = "multitask"
[training]
steps = 10
[tasks.tone]
data = { train = { path = "a.tsv" }, validation = { path = "b.tsv" } }
[tasks.ewt]
kind = "tagging"
data = { train = { path = "a.txt" }, validation = { path = "b.txt" } }
"""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--tasks.tone.data.positiv x", "is not a known key; did you mean tasks.tone.data.positive?"),
        ("--tasks.ewt.data.positiv x", 'tasks.ewt.data.positive needs tasks.ewt.kind = "classification"'),
        ("--tasks.ewt.data.strid 4", 'tasks.ewt.data.stride needs tasks.ewt.kind = "spans"'),
        ("--tasks.ewt.data.train.fieldz x", "known here: kind, path, word_column, tag_column"),
        ("--tasks.ewt.monitr f1", "did you mean tasks.ewt.monitor?"),
    ],
)
def test_tables_below_names_have_their_remedies(tmp_path: Path, words: str, sentence: str) -> None:
    found = problems(tmp_path / "r.toml", SEVERAL, *words.split())
    assert len(found) == 1, found
    assert sentence in found[0]


def test_the_place_is_the_side_that_said_it(tmp_path: Path) -> None:
    text = MINIMAL + "batch_tokens = 0\nbatch_token = 1\n"
    path = tmp_path / "r.toml"
    path.write_text(text)
    with pytest.raises(RecipeError) as caught:
        load_recipe(path, ["--training.clip", "0", "--training.kepe=4", "--model.dropout=2"])
    assert sorted(str(caught.value).splitlines()) == sorted(
        [
            f"{path}: training.batch_tokens = 0 must be at least 1",
            f"{path}: training.batch_token = 1 is not a known key; did you mean training.batch_tokens?",
            "command line: training.clip = 0 must be above 0",
            "command line: training.kepe = 4 is not a known key; did you mean training.keep?",
            "command line: model.dropout = 2 must be below 1",
        ]
    )


def test_what_is_missing_is_explained(tmp_path: Path) -> None:
    assert problems(tmp_path / "r.toml", "") == [
        "data is missing: the table [data] names the texts to train and validate on",
        "training is missing: the table [training] says at least when training ends, as in steps = 10000",
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"[data]\ntrain = \n", "is not valid TOML: Invalid value (at line 2"),
        (b"a = 1\na = 2\n", "is not valid TOML: Cannot overwrite a value (at line 2"),
        (b"a = '\xff'\n", "byte 5 is not UTF-8; save the recipe as UTF-8"),
        (b"a = " + b"[" * 100_000, "is nested too deeply for a recipe"),
        (b"seed = " + b"1" * 5000, "is not valid TOML"),
        (b"format = 2\nnew_key = 1\n", "format = 2 is a recipe format that this heedful does not know"),
        (b"format = true\n", "format = True is a recipe format"),
        (b"format = '1'\n", "format = '1' is a recipe format"),
        (b"data = 2024-01-01\n", "data must be a table"),
    ],
)
def test_files_that_are_no_recipes(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "r.toml"
    path.write_bytes(content)
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    assert str(caught.value).startswith(f"{path}: {sentence}")


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        (
            r'path = "C:\Users\x.txt"',
            r"write a path in single quotes, as in 'C:\new\train.txt', or with forward slashes",
        ),
        (r'path = "data\src.txt"', "or with forward slashes"),
        ("task = tagging", 'text must be in quotes, as in task = "tagging"'),
        ("path = data/train.tsv # here", 'text must be in quotes, as in path = "data/train.tsv"'),
        ("tensorboard = True", "True is written true"),
        ("tensorboard = off", "off is written false"),
        ("patience = None", "None is not a value: leave the key out"),
        ("task = \u201ctagging\u201d", 'quotes must be straight ones, as in task = "tagging"'),
        ("task: tagging", "write a key and its value as in key = value; a table begins with [name]"),
    ],
)
def test_what_others_write_is_told_as_toml_has_it(tmp_path: Path, line: str, remedy: str) -> None:
    path = tmp_path / "r.toml"
    path.write_text(f"seed = 1\n{line}\n", encoding="utf-8")
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    assert str(caught.value).startswith(f"{path}: is not valid TOML: ")
    assert "(at line 2" in str(caught.value)
    assert str(caught.value).endswith(remedy)


def test_escapes_in_a_path_of_windows_are_noticed(tmp_path: Path) -> None:
    (told,) = problems(tmp_path / "r.toml", MINIMAL.replace('"train.en"', r'"C:\new\train.en"'))
    assert told.startswith("data.train.source = ")
    assert told.endswith("write a Windows path in single quotes, or with forward slashes")
    for right in (r"'C:\new\train.en'", '"C:/new/train.en"', r'"C:\\new\\train.en"'):
        (tmp_path / "r.toml").write_text(MINIMAL.replace('"train.en"', right))
        load_recipe(tmp_path / "r.toml")


LABELLED = """
[data]
train = { path = "a.tsv", label = "tone" }
validation = { path = "b.tsv", label = "tone" }
[training]
epochs = 3
"""


@pytest.mark.parametrize(
    ("text", "suggested"),
    [
        (LABELLED, 'task is not given, and these are keys of another one: is it task = "classification"?'),
        ('[data]\ntrain.pth = "a"\n', None),
        (MINIMAL + "stepz = 3\n", None),
        ('task = "translation"\n' + LABELLED, None),
    ],
)
def test_a_task_that_was_forgotten_is_guessed(tmp_path: Path, text: str, suggested: str | None) -> None:
    *_, last = problems(tmp_path / "r.toml", text)
    assert (last == suggested) if suggested else "is it task" not in last


@pytest.mark.parametrize(
    ("word", "meant"),
    [("ner", "tagging"), ("Sentiment", "classification"), ("clasification", "classification"), ("qa", "spans")],
)
def test_the_task_that_was_meant(tmp_path: Path, word: str, meant: str) -> None:
    (told,) = problems(tmp_path / "r.toml", f'task = "{word}"\n')
    assert told.endswith(f'; did you mean "{meant}"?')
    (tmp_path / "r.toml").write_text(MINIMAL)
    with pytest.raises(RecipeError) as caught:
        load_recipe(tmp_path / "r.toml", ["--task", word])
    assert f'write task = "{meant}" at the top of {tmp_path / "r.toml"}' in str(caught.value)
    assert load_recipe(tmp_path / "r.toml", ["--task", "translation"]).task == "translation"


def test_no_task_is_called_as_another_one() -> None:
    for word, task in _TASK_SYNONYMS.items():
        assert task in list_tasks()
        assert word not in list_tasks()


def test_synonyms_lead_to_keys_that_there_are() -> None:
    """Of every task together; each key that is named is one of some task, and no synonym hides a key of its place."""
    known = {key for task in list_tasks() for key in _iter_all_keys(get_recipe_class(task))}
    for name, (about, called) in synonyms.KEY_SYNONYMS.items():
        assert set(called) <= known, name
        assert about
    choices = set(re.findall(r'"(\w+)"', " ".join(json_schema(task) for task in list_tasks())))
    for word, meant in synonyms.VALUE_SYNONYMS.items():
        assert set(meant) & choices, word


def test_files_that_are_none(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.toml", tmp_path):
        with pytest.raises(RecipeError, match="cannot read this recipe"):
            load_recipe(path)


GARBAGE = (
    None,
    True,
    -1,
    0,
    10**30,
    0.5,
    float("nan"),
    "",
    "x",
    "\0",
    "\ud800",
    [],
    [1],
    {},
    {"kind": 3},
    {"a": {}},
)


def corrupt(table: dict[str, Any], dice: random.Random) -> list[str]:
    """Puts something unexpected at a random place, and says where."""
    key = dice.choice([*table, "unheard"])
    if isinstance(table.get(key), dict) and dice.random() < 0.8:
        return [key, *corrupt(table[key], dice)]
    if dice.random() < 0.3:
        key = dice.choice((f"{key}x", key[:-1], "nothing", "kind", ""))
    table[key] = dice.choice(GARBAGE)
    return [key]


@pytest.mark.parametrize("seed", range(150))
def test_nothing_but_a_sentence_comes_of_garbage(draw: Callable[[int], Recipe], seed: int) -> None:
    dice = random.Random(seed)
    table = draw(seed % 20).model_dump(mode="json", exclude_none=True)
    places = [corrupt(table, dice) for _ in range(dice.randint(1, 3))]
    try:
        recipe = build_recipe(table, source="here")
    except RecipeError as error:
        lines = str(error).splitlines()
        assert all(line.startswith("here: ") for line in lines)
        named = {line.removeprefix("here: ").split(" ")[0] for line in lines}
        # A problem is told at the place, at the table around it, or at a key that no longer agrees with it.
        roots = {place[0] for place in places} | {"model", "training"}
        assert {name.split(".")[0] for name in named} <= roots, ascii((places, lines))
    else:
        assert recipe == build_recipe(recipe.model_dump(), source="there")


def test_a_mistyped_kind_does_not_speak_for_another_task() -> None:
    table = {
        "data": {"train": {"path": "a.tsv", "kind": "tsv"}, "validation": {"path": "a.tsv", "kind": "tsv"}},
        "model": {"kind": "cosin"},
        "training": {"steps": 3},
        "output": "x",
    }
    with pytest.raises(RecipeError) as caught:
        build_recipe(table, source="r.toml")
    assert str(caught.value) == (
        'r.toml: model.kind = "cosin" must be one of "transformer", "recurrent", "convolutional"; did you mean '
        'training.schedule.kind = "cosine"?'
    )


def test_a_long_unknown_key_is_told_in_a_short_sentence(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text(f"[training]\n{'optimizer' * 2000} = 1\n")
    with pytest.raises(RecipeError, match=r"training\.optimizeropti.*\.\.\. = 1 is not a known key") as caught:
        load_recipe(tmp_path / "r.toml")
    assert len(str(caught.value)) < 2000
