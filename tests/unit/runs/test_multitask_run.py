"""Runs of several tasks: alone as the single task, together as one run, resumed, begun from and begun with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import heedful
from heedful.errors import RecipeError, RunError
from heedful.models.transformer import FirstTokenPooler, TransformerEncoder
from heedful.runs.checkpoints import read_weights
from heedful.runs.evaluate import evaluate_run
from heedful.runs.initialization import init_model
from heedful.runs.load import open_run
from heedful.runs.resolve import open_init, resolve_recipe
from heedful.tasks.classification.predictor import Classifier
from heedful.tasks.spans.predictor import QuestionAnsweringPredictor
from heedful.tasks.tagging.predictor import Tagger

FILES = {"classification": "c.tsv", "tagging": "t.txt", "spans": "q.jsonl"}
Tuned = Callable[[str], Path]


def written(folder: Path, tuning: Path, tasks: Mapping[str, str], *, init: Path | None, **training: object) -> Path:
    """A recipe of tasks by name and kind, in a folder of its own."""
    tables = ""
    for name, kind in tasks.items():
        data = f'{{ path = "{tuning / FILES[kind]}" }}'
        tables += f'[tasks.{name}]\nkind = "{kind}"\n'
        tables += f"data = {{ train = {data}, validation = {data}, max_length = 24 }}\n"
    rest = '[tokenizer]\nkind = "words"\n[model]\nd_model = 16\nheads = 2\nlayers = 2\n'
    sitting: dict[str, object] = {
        "steps": 6,
        "batch_tokens": 150,
        "evaluate_every": 3,
        "schedule": '{ kind = "constant", rate = 1e-2 }',
        "precision": '"fp32"',
        "threads": 1,
    }
    lines = "".join(f"{key} = {value}\n" for key, value in (sitting | training).items())
    path = folder / "m.toml"
    path.write_text(
        f'task = "multitask"\noutput = "{folder / "run"}"\n'
        + (f'init = "{init}"\n' if init is not None else "")
        + tables
        + (rest if init is None else "")
        + f"[training]\n{lines}",
        encoding="utf-8",
    )
    return path


OF_A_RUN = ("seconds", "run_id")
"""Fields that differ from run to run."""


def fit(path: Path, *words: str) -> Path:
    return heedful.train(heedful.load_recipe(path, list(words)), device="cpu").folder


def lines(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def assert_same(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())


@pytest.mark.parametrize("task", list(FILES))
def test_one_task_alone_has_the_very_weights_of_the_single_recipe(
    tuning: Path, pretrained: Path, tmp_path: Path, task: str
) -> None:
    """With dropout, accumulation, layers that stand still and learn slower, and an average; whatever T is."""
    words = ["--training.accumulate=2", "--training.freeze=1", "--training.layer_decay=0.8", "--training.epochs=2"]
    words += ["--training.steps=none", "--training.clip=0.5", "--training.optimizer.weight_decay=0.1"]
    words += ["--training.schedule.kind=linear", "--training.schedule.warmup_share=0.2", "--training.batch_tokens=150"]
    words += ["--training.evaluate_every=3", "--training.ema=0.9"]
    single = fit(tuning / f"{task}.toml", *words, "--output", str(tmp_path / "single"))
    path = written(tmp_path, tuning, {"x": task}, init=pretrained)
    multiple = fit(path, *words, "--training.monitor=loss", "--training.temperature=3")
    renamed = {name.removeprefix("head-x."): tensor for name, tensor in read_weights(multiple).items()}
    assert_same(renamed, read_weights(single))
    for ours, theirs in zip(lines(multiple), lines(single), strict=True):
        assert ours["x/loss"] == ours["loss"]
        own = {key.removeprefix("x/"): value for key, value in ours.items() if key not in ("mean", *OF_A_RUN)}
        assert own == {key: value for key, value in theirs.items() if key not in OF_A_RUN}


@pytest.mark.parametrize("task", list(FILES))
def test_from_scratch_too_with_the_same_vocabulary(tuning: Path, tmp_path: Path, task: str) -> None:
    path = written(tmp_path, tuning, {"x": task}, init=None)
    text = path.read_text(encoding="utf-8")
    data = text[text.index("data = {") : text.index("[tokenizer]")].replace("data = {", "", 1).rstrip().rstrip("}")
    table = "[data]\n" + data.replace(", validation", "\nvalidation").replace(", max_length", "\nmax_length") + "\n"
    (tmp_path / "s.toml").write_text(f'task = "{task}"\n{table}' + text[text.index("[tokenizer]") :], encoding="utf-8")
    single = fit(tmp_path / "s.toml", "--output", str(tmp_path / "single"))
    renamed = {
        name.removeprefix("head-x."): t for name, t in read_weights(fit(path, "--training.monitor=loss")).items()
    }
    assert_same(renamed, read_weights(single))


@pytest.fixture(scope="module")
def three(tuning: Path, pretrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of three tasks, to be read only; its recipe is m.toml in the folder above."""
    folder = tmp_path_factory.mktemp("three")
    return fit(
        written(folder, tuning, {"tone": "classification", "even": "tagging", "first": "spans"}, init=pretrained)
    )


def test_training_is_told_of_each_task(tuning: Path, tmp_path: Path) -> None:
    """Weights multiply what is minimised; what each task has lost is told without them, as its validation is."""
    path = written(tmp_path, tuning, {"tone": "classification", "first": "spans"}, init=None)
    folder = fit(path, "--training.steps=50", "--training.evaluate_every=25", "--tasks.tone.weight=3")
    (line,) = (line for line in lines(folder) if line["kind"] == "training")
    assert {key for key in line if "/" in key} == {"tone/loss", "tone/nll", "first/loss", "first/nll"}
    for name in ("tone", "first"):
        assert 0 < line[f"{name}/nll"] <= line[f"{name}/loss"] < 10
    assert line["loss"] > line["nll"]
    assert min(line["tone/nll"], line["first/nll"]) < line["nll"] < max(line["tone/nll"], line["first/nll"])


def test_users_get_each_head_and_all_share_one_encoder(three: Path) -> None:
    heads = heedful.load(three)
    assert heads.names == ("tone", "even", "first")
    assert [type(heads.head(name)) for name in heads.names] == [Classifier, Tagger, QuestionAnsweringPredictor]
    assert heads.head("tone").model.encoder is heads.head("first").model.encoder
    assert heads.head("tone").classify(["eins zwei"])[0].label in ("low", "high")
    assert [tag.word for tag in heads.head("even").tag([["eins", "zwei"]])[0]] == ["eins", "zwei"]
    record = json.loads((three / "tasks/first/silence.json").read_text(encoding="utf-8"))
    assert heads.head("first").threshold == record["threshold"]
    assert heedful.load(three, step=3).head("first").threshold == 0


def test_metrics_of_all_tasks_are_reported_and_their_mean_finds_the_best(three: Path) -> None:
    *_, final = lines(three)
    assert {"tone/accuracy", "tone/loss", "even/f1", "first/exact_match", "loss", "mean"} <= final.keys()
    expected = (final["tone/accuracy"] + final["even/f1"] + final["first/f1"]) / 3
    assert final["mean"] == pytest.approx(expected)
    assert final["loss"] == pytest.approx(sum(final[f"{name}/loss"] for name in ("tone", "even", "first")))
    assert final["best"] == max(line["mean"] for line in lines(three) if line["kind"] == "validation")


def test_validation_parts_are_measured_unless_every_task_has_a_test_part(tuning: Path, tmp_path: Path) -> None:
    path = written(tmp_path, tuning, {"classes": "classification", "tags": "tagging"}, init=None, steps=1)
    for tested in (("classes",), ("classes", "tags")):
        text = path.read_text(encoding="utf-8")
        for name in tested:
            kind = {"classes": "classification", "tags": "tagging"}[name]
            data = f'{{ path = "{tuning / FILES[kind]}" }}'
            text = text.replace(f"validation = {data}, max", f"validation = {data}, test = {data}, max")
        recipe_path = tmp_path / f"{len(tested)}.toml"
        recipe_path.write_text(text, encoding="utf-8")
        folder = fit(recipe_path, "--output", str(tmp_path / f"run{len(tested)}"))
        part, _ = evaluate_run(open_run(folder), device="cpu", say=lambda _: None)
        assert part == ("test" if len(tested) == 2 else "validation")


def test_a_run_goes_on_as_if_it_had_never_stopped(tuning: Path, pretrained: Path, tmp_path: Path, three: Path) -> None:
    tasks = {"tone": "classification", "even": "tagging", "first": "spans"}
    path = written(tmp_path, tuning, tasks, init=pretrained, steps=4, evaluate_every=1)
    fit(path, "--training.evaluate_every=3")
    assert_same(read_weights(fit(path, "--training.steps=6", "--training.evaluate_every=3"), step=6),
                read_weights(three, step=6))  # fmt: skip
    for words, key in (
        ("--tasks.tone.weight=2", "tasks.tone.weight"),
        ("--training.temperature=2", "training.temperature"),
        ("--tasks.even.kind=spans", "tasks.even.kind"),
        ("--tasks.even.data.max_length=20", "tasks.even.data.max_length"),
    ):
        with pytest.raises(RunError, match=f"whose recipe differs in .*{key}"):
            fit(path, words)
    for name in ("train", "validation", "test"):
        for each in tasks:
            assert (tmp_path / "run/tasks" / each / "data" / name).exists() == (name != "test")


def test_weight_0_leaves_a_head_as_it_was_and_measures_it(tuning: Path, pretrained: Path, tmp_path: Path) -> None:
    tasks = {"tone": "classification", "even": "tagging"}
    path = written(tmp_path, tuning, tasks, init=pretrained, optimizer="{ weight_decay = 0.5 }")
    run = fit(path, "--tasks.even.weight=0")
    fresh = {name: parameter.detach() for name, parameter in open_run(run).init_model().named_parameters()}
    found = read_weights(run)
    still = {name for name, tensor in found.items() if torch.equal(tensor, fresh[name])}
    assert {name for name in found if name.startswith("head-")} & still == {
        "head-even.output.weight",
        "head-even.output.bias",
    }
    assert "even/f1" in lines(run)[-1]


def test_it_can_begin_from_another_and_others_from_it(tuning: Path, three: Path, tmp_path: Path) -> None:
    from heedful.runs.initialization import create_run

    origin = read_weights(three)
    encoder = {name for name in origin if name.startswith("encoder.")}
    again = written(tmp_path, tuning, {"other": "tagging", "tone": "classification"}, init=three)
    for path, own in ((tuning / "classification.toml", "output"), (again, "head-other.output, head-tone.output")):
        said: list[str] = []
        resolved = resolve_recipe(heedful.load_recipe(path, ["--init", str(three), "--output", str(tmp_path / "new")]))
        begun = create_run(resolved.recipe.output, resolved.recipe, resolved.origin)
        weights = dict(init_model(begun, resolved.origin, log=said.append).named_parameters())
        assert {name for name in weights if name.startswith("encoder.")} == encoder
        assert all(torch.equal(weights[name], origin[name]) for name in encoder)
        assert f"new: {own}; not used: head-even.output, head-first.output, head-tone.output" in said[0]
    assert "encoder.summary.dense.weight" in encoder, "the summary of the classifier is everybody's"


def test_what_is_frozen_stays_and_heads_learn(tuning: Path, pretrained: Path, tmp_path: Path) -> None:
    path = written(tmp_path, tuning, {"tone": "classification", "even": "tagging"}, init=pretrained)
    run = fit(path, "--training.freeze=encoder", "--training.epochs=2", "--training.steps=none")
    opened = open_run(run)
    begun = dict(init_model(opened, open_init(opened.recipe), log=lambda _: None).named_parameters())
    moved = {
        name for name, tensor in read_weights(run, step=open_step(run)).items() if not torch.equal(tensor, begun[name])
    }
    assert moved == {name for name in begun if name.startswith("head-")}


def open_step(run: Path) -> int:
    return int(lines(run)[-1]["step"])


def test_what_cannot_be_monitored_is_told_with_its_task(tuning: Path, pretrained: Path, tmp_path: Path) -> None:
    path = written(tmp_path, tuning, {"tone": "classification", "even": "tagging"}, init=pretrained)
    with pytest.raises(RecipeError, match=r'tasks.tone.monitor = "pearson": cannot be measured on these data; choose'):
        fit(path, "--tasks.tone.monitor=pearson")
    with pytest.raises(RecipeError, match=r'training.monitor = "even/pearson": cannot be measured on these data'):
        fit(path, "--training.monitor=even/pearson")
    with pytest.raises(RecipeError, match=r'tasks.tone: data.positive = "x": the training text has no such class'):
        fit(path, "--tasks.tone.data.positive=x")
    folder = fit(path, "--training.monitor=even/loss")
    assert lines(folder)[-1]["best"] == min(x["even/loss"] for x in lines(folder) if x["kind"] == "validation")


def test_texts_that_cannot_be_read_are_named_with_their_task(tuning: Path, pretrained: Path, tmp_path: Path) -> None:
    path = written(tmp_path, tuning, {"tone": "classification", "even": "tagging"}, init=pretrained)
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "other.tsv").write_text("text\tlabel\nein\tnew\n")
    for words, message in (
        (f"--tasks.even.data.train.path={tmp_path / 'empty.txt'}", r"^tasks.even.data.train: "),
        (
            f"--tasks.tone.data.validation.path={tmp_path / 'other.tsv'}",
            r"^tasks.tone.data.validation: .*'new' does not",
        ),
    ):
        with pytest.raises(heedful.DataError, match=message):
            fit(path, words, "--output", str(tmp_path / "broken"))


def test_the_encoder_is_made_once(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    begin = TransformerEncoder.__init__

    def counted(self: TransformerEncoder, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        made.append(next(self.parameters()).device.type)

    monkeypatch.setattr(TransformerEncoder, "__init__", counted)
    model = open_run(three).build_model()
    assert made.count("cpu") == 1, "others are without memory, to see whether they would fit"
    assert isinstance(model.encoder.summary, FirstTokenPooler)
    assert all(model.get_head(name).encoder is model.encoder for name in model.task_names)


@pytest.mark.slow
def test_two_processes_train_as_one(tuning: Path, pretrained: Path, tmp_path: Path) -> None:
    """Heads that an update leaves alone are left alone in every process, whatever decays.

    What moves all scores of a query or all logits of a span alike has no gradient but rounding, of which Adam would
    make whole steps; so epsilon is far above rounding.
    """
    tasks = {"tone": "classification", "even": "tagging", "first": "spans"}
    optimizer = "{ weight_decay = 0.1, epsilon = 1e-4 }"
    path = written(tmp_path, tuning, tasks, init=pretrained, accumulate=2, optimizer=optimizer)
    words = ["--model.dropout", "0", "--training.schedule.rate", "1e-3", "--training.temperature", "2"]
    alone = fit(path, *words)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-addr", "127.0.0.1"]
    command += ["--master-port", "0", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "-m", "heedful"]
    command += ["train", str(path), "--device", "cpu", *words, "--output", str(tmp_path / "two")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    ours, theirs = read_weights(tmp_path / "two", step=6), read_weights(alone, step=6)
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name], tensor, rtol=1e-4, atol=1e-5)
    for one, two in zip(lines(alone), lines(tmp_path / "two"), strict=True):
        assert one["loss"] == pytest.approx(two["loss"], rel=1e-4)
