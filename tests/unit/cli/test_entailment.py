"""Runs of self-attentive summaries and of entailment models, from a recipe to every command that reads them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.errors import DataError, HeedfulError, RecipeError
from heedful.inspection.record_files import load_record
from heedful.models.transformer import SelfAttentivePooler
from heedful.runs.load import load_trained_model, open_run

Say = Callable[..., "Any"]
WORDS = ("eins", "zwei", "drei", "vier", "sechs")
MODELS = {
    "hops": 'kind = "recurrent"\nsummary = { kind = "self_attentive", hops = 3, d_alignment = 4 }\nd_hidden = 6',
    "none": 'kind = "conditional"\nattention = "none"',
    "last": 'kind = "conditional"\nattention = "last"',
    "words": 'kind = "conditional"\nlayers = 2',
    "siamese": 'kind = "siamese"',
}
RECIPE = """\
task = "classification"
[data]
train = {{ path = "{data}", pair = "pair" }}
validation = {{ path = "{data}", pair = "pair" }}
max_length = 16
[tokenizer]
kind = "words"
[model]
{model}
d_model = 8
[training]
steps = 6
batch_tokens = 200
evaluate_every = 3
schedule = {{ kind = "constant", rate = 1e-2 }}
precision = "fp32"
threads = 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data and recipes."""
    here, dice = tmp_path_factory.mktemp("entailment"), random.Random(4)
    with (here / "pairs.jsonl").open("w", encoding="utf-8") as file:
        for _ in range(50):
            first, second = dice.choices(WORDS, k=dice.randint(1, 5)), dice.choices(WORDS, k=dice.randint(1, 3))
            row = {"text": " ".join(first), "pair": " ".join(second), "label": str(second[0] in first)}
            file.write(json.dumps(row) + "\n")
    for name, model in MODELS.items():
        (here / f"{name}.toml").write_text(RECIPE.format(model=model, data="pairs.jsonl"), encoding="utf-8")
    return here


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, Path]:
    """A finished run of each model, to be read only."""
    return {
        name: heedful.train(
            heedful.load_recipe(folder / f"{name}.toml", ["--output", str(folder / name)]), device="cpu"
        ).folder
        for name in MODELS
    }


@pytest.mark.parametrize("name", MODELS)
def test_pairs_are_classified_evaluated_and_described(say: Say, runs: dict[str, Path], name: str) -> None:
    told = say("classify", runs[name], "--text", "eins zwei", "--pair", "zwei", "--format", "jsonl")
    (found,) = heedful.load(runs[name]).classify([("eins zwei", "zwei")])
    assert json.loads(told.out)["probabilities"] == pytest.approx(dict(found.probabilities), abs=1e-4)
    assert "accuracy" in say("evaluate", runs[name]).out
    run: Any = open_run(runs[name])
    model = load_trained_model(run, device=torch.device("cpu"))
    assert run.recipe.model.requires_pairs == (name != "hops")
    assert isinstance(model.summary, SelfAttentivePooler) == (name == "hops")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hops", [("summary", "whole", "source", 3)]),
        ("none", []),
        ("last", [("summary", "whole", "premise", 1)]),
        ("words", [("summary", "hypothesis", "premise", 1)]),
        ("siamese", [("summary", "premise", "hypothesis", 1), ("summary", "hypothesis", "premise", 1)]),
    ],
)
def test_what_is_looked_at_is_recorded(
    say: Say, runs: dict[str, Path], here: Path, name: str, expected: list[tuple[str, str, str, int]]
) -> None:
    told = say("inspect", runs[name], "--text", "eins zwei", "--pair", "drei", "--save", "r.st", "-o", "p.html")
    assert told.code == 0
    record = load_record(here / "r.st")
    assert [(each.role, each.queries, each.keys, len(each.heads)) for each in record.maps] == expected
    assert ("no attention" in "".join(record.notes)) == (not expected)
    assert len((here / "p.html").read_text(encoding="utf-8")) > 10_000
    axes = {axis.name: axis.tokens for axis in record.axes}
    assert len(axes["source"]) == 6
    if "premise" in axes:
        assert axes["source"][:4] == axes["premise"]
    if "hypothesis" in axes:
        assert axes["source"][4:] == axes["hypothesis"]
    for each in record.maps:
        assert each.weights.shape == (len(each.heads), len(axes[each.queries]), len(axes[each.keys]))
        np.testing.assert_allclose(each.weights.sum(-1), 1, atol=1e-5)
        assert each.walk is not None
        np.testing.assert_allclose(
            np.einsum("hqk,hkd->hqd", each.weights, each.walk.values), each.walk.contexts, atol=1e-5
        )
    terminal = say("inspect", runs[name], "--text", "eins zwei", "--pair", "drei", "--terminal")
    assert ("summary layer 0" in terminal.out) == bool(expected)
    if expected:
        figure = ("--figure", "f.svg", "--role", "summary")
        assert say("inspect", runs[name], "--text", "eins zwei", "--pair", "drei", *figure).code == 0
        assert (here / "f.svg").read_text(encoding="utf-8").startswith("<svg")


def test_only_some_hops_are_recorded(runs: dict[str, Path]) -> None:
    from heedful.tasks.inspection_records import InspectionSelection

    model = heedful.load(runs["hops"])
    whole, some = model.inspect("eins zwei"), model.inspect("eins zwei", scope=InspectionSelection(heads=(2, 0)))
    assert some.maps[0].heads == (0, 2)
    np.testing.assert_array_equal(some.maps[0].weights, whole.maps[0].weights[[0, 2]])
    with pytest.raises(RecipeError, match="this model has heads 0 to 2"):
        model.inspect("eins", scope=InspectionSelection(heads=(3,)))


def test_the_matrix_of_a_text_is_its_embedding(say: Say, runs: dict[str, Path], here: Path) -> None:
    texts = ["eins zwei", "", "drei drei drei vier"]
    assert say("embed", runs["hops"], "--text", *texts, "--output", "v.npy").code == 0
    model = heedful.load(runs["hops"])
    vectors = np.load(here / "v.npy")
    assert vectors.shape == (3, 3 * 16), "three hops over both directions"
    for row, text in enumerate(texts):
        (each,) = model.inspect(text).maps
        assert each.walk is not None
        np.testing.assert_allclose(vectors[row].reshape(3, 16), each.walk.contexts[:, 0], atol=1e-5)
    long = " ".join(["eins"] * 20)
    with pytest.raises(DataError, match="text 8: has 22 tokens with begin and end, this model reads at most 16"):
        model.embed(["eins", long], first=7)
    cut: list[int] = []
    found = model.embed(["eins", long], first=7, cut=cut.append)
    assert cut == [8]
    np.testing.assert_allclose(found[1], model.embed([" ".join(["eins"] * 14)])[0], atol=1e-5)
    assert model.embed([]).shape[0] == 0


@pytest.mark.parametrize("command", ["classify", "inspect", "embed"])
def test_one_text_alone_is_refused(say: Say, runs: dict[str, Path], command: str) -> None:
    told = say(command, runs["words"], "--text", "eins")
    assert "'eins': is only one text, but this model reads two together; give both" in told.complaint


def test_data_without_a_second_text_are_refused(folder: Path, tmp_path: Path) -> None:
    path = folder / "words.toml"
    with pytest.raises(RecipeError, match=r'data.train.pair must name the second text: a model of kind "conditional"'):
        heedful.load_recipe(path, ["--data.train.pair", "none"])
    (tmp_path / "SST-2").mkdir()
    for part in ("train", "dev"):
        (tmp_path / "SST-2" / f"{part}.tsv").write_text("sentence\tlabel\neins zwei\t1\ndrei\t0\n", encoding="utf-8")
    text = path.read_text(encoding="utf-8")
    for split, part in (("train", "train"), ("dev", "validation")):
        table = f'benchmark = "sst-2", folder = "{tmp_path}", split = "{split}"'
        text = text.replace(f'{part} = {{ path = "pairs.jsonl", pair = "pair" }}', f"{part} = {{ {table} }}")
    (tmp_path / "r.toml").write_text(text, encoding="utf-8")
    recipe = heedful.load_recipe(tmp_path / "r.toml", ["--output", str(tmp_path / "run")])
    with pytest.raises(DataError, match=r"train.tsv:2: has only one text, but this model reads two together; name"):
        heedful.train(recipe, device="cpu")


def test_the_penalty_belongs_to_hops(folder: Path) -> None:
    recipe: Any = heedful.load_recipe(folder / "hops.toml")
    assert recipe.training.decorrelation == 1.0, "as in the paper"
    recipe = heedful.load_recipe(folder / "hops.toml", ["--training.decorrelation", "0"])
    assert recipe.training.decorrelation == 0
    assert heedful.load_recipe(folder / "words.toml").training.decorrelation is None  # type: ignore[attr-defined]
    with pytest.raises(
        RecipeError, match=r"training.decorrelation = 0.5 makes hops differ, but this model has no hops"
    ):
        heedful.load_recipe(folder / "words.toml", ["--training.decorrelation", "0.5"])
    with pytest.raises(HeedfulError, match=r'model.summary.kind = "ends"'):
        heedful.load_recipe(folder / "hops.toml", ["--model.kind", "transformer", "--model.summary.kind", "ends"])


def test_hops_look_at_what_a_pre_trained_encoder_says(pretrained: Path, tuning: Path, tmp_path: Path) -> None:
    """Its weights are taken over, those of the hops are new; another task can begin with the result."""
    words = ["--model.summary.kind", "self_attentive", "--model.summary.hops", "2", "--model.d_hidden", "5"]
    recipe = heedful.load_recipe(tuning / "classification.toml", [*words, "--output", str(tmp_path / "run")])
    said: list[str] = []
    outcome = heedful.train(recipe, device="cpu", say=said.append)
    (line,) = [line for line in said if "taken over" in line]
    assert "new: summary.keys, summary.queries, hidden, output" in line
    stored = json.loads((outcome.folder / "config.json").read_text(encoding="utf-8"))["recipe"]
    assert stored["model"]["summary"]["hops"] == 2
    assert stored["training"]["decorrelation"] == 1.0
    record = heedful.load(outcome.folder).inspect("eins zwei")
    assert [each.role for each in record.maps] == ["encoder", "encoder", "summary"]
    tagger = heedful.load_recipe(
        tuning / "tagging.toml", ["--init", str(outcome.folder), "--output", str(tmp_path / "tags")]
    )
    assert heedful.load(heedful.train(tagger, device="cpu").folder).tag([["eins", "zwei"]])
