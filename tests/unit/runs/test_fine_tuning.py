"""Runs that begin with another model: what is taken over, what stands still, and what does not fit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import heedful
from heedful.atomic_io import compute_digest, read_manifest, write_manifest
from heedful.errors import HeedfulError, RecipeError, RunError
from heedful.runs.initialization import init_model
from heedful.runs.load import load_trained_model, open_run
from heedful.runs.resolve import open_origin, resolve_recipe
from heedful.tasks.classification.predictor import Classifier
from heedful.tasks.spans.predictor import QuestionAnsweringPredictor
from heedful.tasks.tagging.predictor import Tagger

CPU = torch.device("cpu")
TASKS = ("classification", "tagging", "spans")


def begun(tuning: Path, task: str, *words: str) -> tuple[dict[str, torch.Tensor], list[str]]:
    """The parameters that training would begin with, and what is said about them."""
    from heedful.runs.initialization import create_run

    said: list[str] = []
    resolved = resolve_recipe(heedful.load_recipe(tuning / f"{task}.toml", list(words)))
    run = create_run(resolved.recipe.output, resolved.recipe, resolved.origin)
    model = init_model(run, resolved.origin, log=said.append)
    return {name: parameter.detach() for name, parameter in model.named_parameters()}, said


@pytest.mark.parametrize("task", TASKS)
def test_the_encoder_is_taken_over_and_the_rest_is_named(pretrained: Path, tuning: Path, task: str) -> None:
    origin = open_origin(pretrained)
    weights, said = begun(tuning, task)
    shared = {name for name in weights if name.startswith("encoder.")}
    assert shared
    assert all(torch.equal(weights[name], origin.tensors[name]) for name in shared)
    assert {name for name in weights if name not in shared} == {"output.weight", "output.bias"}
    count = sum(weights[name].numel() for name in shared)
    assert len(said) == 1
    assert f"{count:,} weights taken over; new: output; not used: " in said[0]
    assert "masked.dense" in said[0]


@pytest.mark.parametrize("task", TASKS)
def test_tables_that_are_stored_under_another_name_are_found(tuning: Path, task: str) -> None:
    """A detector of replaced tokens shares its embeddings with a smaller model, which has the first of their names."""
    detector = Path(__file__).parents[2] / "golden/pretraining-replaced-tokens/run"
    origin = open_origin(detector)
    weights, said = begun(tuning, task, f"--init={detector}")
    shared = [name for name in weights if name.startswith("encoder.stack.")]
    assert "encoder.stack.embedding.position.table.weight" not in origin.tensors
    assert all(torch.equal(weights[name], origin.all_tensors[name]) for name in shared)
    parts = said[0].split("not used: ")[1]
    assert "embedding" not in parts
    assert parts.startswith("dense, generator.encoder.stack.layers.0.")


def test_an_adapter_finds_them_again(tuning: Path, tmp_path: Path) -> None:
    detector = Path(__file__).parents[2] / "golden/pretraining-replaced-tokens/run"
    words = [f"--init={detector}", f"--output={tmp_path / 'run'}", "--training.adapter.kind=lora", "--training.steps=2"]
    heedful.train(heedful.load_recipe(tuning / "classification.toml", words))
    name = "encoder.stack.embedding.table.weight"
    model = heedful.load(tmp_path / "run", kind=Classifier, device="cpu").model
    assert torch.equal(model.get_parameter(name), open_origin(detector).all_tensors[name])


@pytest.mark.parametrize("task", TASKS)
def test_the_run_has_the_architecture_and_the_vocabulary_of_init(
    pretrained: Path, tuned: Callable[[str], Path], task: str
) -> None:
    run, origin = open_run(tuned(task)), open_origin(pretrained)
    assert origin.model.model_dump().items() <= run.recipe.model.model_dump().items()
    assert run.recipe.tokenizer.kind == "given"
    text = "eins zwei drei"
    assert run.tokenizer.encode(text) == origin.tokenizer.encode(text)
    stored = json.loads((tuned(task) / "config.json").read_text(encoding="utf-8"))["recipe"]
    assert (stored["tokenizer"], stored["model"]["d_model"]) == ({"kind": "given"}, 16)


def test_users_get_what_the_task_is_about(tuned: Callable[[str], Path]) -> None:
    classes = heedful.load(tuned("classification")), heedful.load(tuned("tagging")), heedful.load(tuned("spans"))
    assert tuple(map(type, classes)) == (Classifier, Tagger, QuestionAnsweringPredictor)


def test_dropout_may_be_changed_and_nothing_else(tuning: Path) -> None:
    path = tuning / "classification.toml"
    found = resolve_recipe(heedful.load_recipe(path, ["--model.dropout", "0.4"])).recipe
    assert (found.model.dropout, found.model.embedding_dropout, found.model.layers) == (0.4, 0.4, 2)
    assert resolve_recipe(found).recipe == found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model.d_model=32"], r"model.d_model = 32: init = .* has 16, and its weights fit no other value; leave"),
        (["--model.kind=recurrent"], r'model.kind = "recurrent": init = .* is of the kind "transformer"; leave'),
        (["--tokenizer.kind=words"], r"tokenizer: init = .* has its own vocabulary; leave out the table \[tokenizer\]"),
        (["--init=nowhere"], r"nowhere: no such folder; give the folder of a run"),
        (["--data.max_length=49"], r"model.positions.length = 48 must be at least data.max_length = 49"),
        (["--init=none", "--tokenizer.kind=given"], r'tokenizer.kind = "given": needs init'),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(tuning: Path, words: list[str], message: str) -> None:
    with pytest.raises(HeedfulError, match=message):
        resolve_recipe(heedful.load_recipe(tuning / "classification.toml", words))


def test_a_model_that_translates_is_no_encoder(tuning: Path, trained: Path) -> None:
    with pytest.raises(RecipeError, match=r"is a model that translates, and task = .tagging. needs an encoder"):
        resolve_recipe(heedful.load_recipe(tuning / "tagging.toml", ["--init", str(trained)]))


def test_a_language_model_goes_on_from_another(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("ab" * 300)
    (tmp_path / "l.toml").write_text(
        'task = "language_modelling"\n[data]\ntrain = { path = "t.txt" }\nvalidation = { path = "t.txt" }\n'
        "length = 16\n"
        '[tokenizer]\nkind = "characters"\n[model]\nd_model = 8\nheads = 2\nlayers = 1\n'
        'positions = { kind = "learned", length = 16 }\n'
        '[training]\nsteps = 2\nbatch_tokens = 64\nevaluate_every = 2\nprecision = "fp32"\nthreads = 1\n'
    )
    first = heedful.train(heedful.load_recipe(tmp_path / "l.toml", ["--output", str(tmp_path / "1")]), device="cpu")
    text = (tmp_path / "l.toml").read_text()
    cut = text.index("[tokenizer]"), text.index("[training]")
    (tmp_path / "m.toml").write_text(f'init = "{first.folder}"\n' + text[: cut[0]] + text[cut[1] :])
    weights, said = begun(tmp_path, "m")
    origin = open_origin(first.folder)
    assert {*weights} == {*origin.tensors}
    assert all(torch.equal(weights[name], origin.tensors[name]) for name in weights)
    assert "new: nothing; not used: nothing" in said[0]


@pytest.mark.parametrize(("freeze", "still"), [("1", 1), ("2", 2), ("encoder", 3)])
def test_what_is_frozen_keeps_its_weights_and_stays_in_the_checkpoint(
    pretrained: Path, tuning: Path, tmp_path: Path, freeze: str, still: int
) -> None:
    words = [f"--training.freeze={freeze}", "--output", str(tmp_path / "run"), "--training.optimizer.weight_decay=0.1"]
    outcome = heedful.train(heedful.load_recipe(tuning / "classification.toml", words), device="cpu")
    model, origin = load_trained_model(open_run(outcome.folder), device=CPU), open_origin(pretrained)
    same = {
        name for name, value in origin.tensors.items() if name in dict(model.named_parameters())
        if torch.equal(dict(model.named_parameters())[name], value)
    }  # fmt: skip
    encoder = {name for name, _ in model.named_parameters() if name.startswith("encoder.")}
    lowest = {name for name in encoder if ".embedding." in name or ".layers.0." in name}
    higher = {name for name in encoder if ".layers.1." in name}
    expected = {1: lowest, 2: lowest | higher, 3: encoder}[still]
    assert same == expected


def test_more_layers_cannot_be_frozen_than_there_are(tuning: Path, tmp_path: Path) -> None:
    words = ["--training.freeze=3", "--output", str(tmp_path / "run")]
    with pytest.raises(RecipeError, match=r"training.freeze = 3: this model has 2 layers; set at most that"):
        heedful.train(heedful.load_recipe(tuning / "tagging.toml", words), device="cpu")


def test_layers_below_learn_less(pretrained: Path, tuning: Path, tmp_path: Path) -> None:
    words = ["--training.layer_decay=1e-3", "--training.steps=1", "--output", str(tmp_path / "run")]
    outcome = heedful.train(heedful.load_recipe(tuning / "spans.toml", words), device="cpu")
    weights = dict(load_trained_model(open_run(outcome.folder), device=CPU).named_parameters())
    before = open_origin(pretrained).tensors
    steps = [
        float((weights[name].detach() - before[name]).abs().max())
        for name in ("layers.1.feed_forward.inner.weight", "layers.0.feed_forward.inner.weight")
        for name in (f"encoder.stack.{name}",)
    ]
    # Adam's first step is the learning rate itself, 1e-2 in the head
    assert steps[0] == pytest.approx(1e-5, rel=0.1)
    assert steps[1] <= 1e-2 * 1e-6 * 3


@pytest.mark.parametrize(
    ("task", "monitor"), [("classification", "f1"), ("classification", "pearson"), ("tagging", "loss")]
)
def test_what_cannot_be_measured_cannot_be_monitored(tuning: Path, tmp_path: Path, task: str, monitor: str) -> None:
    words = [f"--training.monitor={monitor}", "--output", str(tmp_path / "run"), "--training.steps=1"]
    recipe = heedful.load_recipe(tuning / f"{task}.toml", words)
    if monitor == "loss":
        assert heedful.train(recipe, device="cpu").signal == 0
        return
    with pytest.raises(RecipeError, match=f'training.monitor = "{monitor}": cannot be measured on these data; choose'):
        heedful.train(recipe, device="cpu")


def test_entities_are_measured_where_tags_tell_of_some(tuned: Callable[[str], Path]) -> None:
    final = json.loads((tuned("tagging") / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert {"loss", "accuracy", "f1"} <= {*final}


def test_when_to_say_nothing_is_kept_with_the_run(tuned: Callable[[str], Path], tmp_path: Path) -> None:
    record = json.loads((tuned("spans") / "silence.json").read_text(encoding="utf-8"))
    answerer = heedful.load(tuned("spans"))
    assert answerer.threshold == record["threshold"]
    assert heedful.load(tuned("spans"), step=3).threshold == 0
    import shutil

    copied = tmp_path / "run"
    shutil.copytree(tuned("spans"), copied)
    for broken in ("{", '{"format": 2, "threshold": 1}', '{"format": 1, "threshold": "x"}', "[]"):
        (copied / "silence.json").write_text(broken)
        manifest = read_manifest(copied)
        write_manifest(copied, manifest.with_file("silence.json", compute_digest(copied / "silence.json")))
        with pytest.raises(RunError, match=re.escape(f"{copied / 'silence.json'}: is damaged")):
            heedful.load(copied)
