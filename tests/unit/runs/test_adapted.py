"""Runs that learn an adapter: what is stored, what comes of it, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import heedful
from heedful.errors import HeedfulError, RecipeError, RunError
from heedful.models.generative import LanguageModel
from heedful.runs.adapter_runs import count_parameters
from heedful.runs.evaluate import describe_system
from heedful.runs.export import export_ctranslate2, export_hugging_face, export_merged, export_peft
from heedful.runs.initialization import build_model_to_resume
from heedful.runs.load import load_trained_model, open_run
from heedful.runs.resolve import fit_recipe, open_init, open_origin, resolve_recipe
from heedful.tensors import Tokens

CPU = torch.device("cpu")
TEXTS = ["eins zwei drei", "neun", "null null acht fünf"]
ADAPTERS = {
    "lora": ("--training.adapter.rank=3", "--training.adapter.alpha=6"),
    "bottleneck": ("--training.adapter.kind=bottleneck", "--training.adapter.width=5"),
}
MOST = ("--training.adapter.on", '["query","key","value","output","feed_forward"]')


def fit(recipe: Path, output: Path, *words: str) -> Path:
    return heedful.train(heedful.load_recipe(recipe, [*words, "--output", str(output)]), device="cpu").folder


@pytest.fixture(scope="session", name="adapted")
def _adapted(tuning: Path) -> Callable[[str], Path]:
    """A finished classification run of each adapter, to be read only."""

    @cache
    def one(kind: str) -> Path:
        return fit(tuning / "classification.toml", tuning / f"adapted-{kind}", *ADAPTERS[kind])

    return one


@pytest.fixture(scope="session", name="written")
def _written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a language model, `base`, the recipe of another that adapts it, `l.toml`, and that run, `run`."""
    folder = tmp_path_factory.mktemp("written")
    (folder / "t.txt").write_text("eins zwei drei vier fünf sechs\n\n" * 40, encoding="utf-8")
    (folder / "u.txt").write_text("sechs fünf vier drei zwei eins\n\n" * 40, encoding="utf-8")
    text = (
        'task = "language_modelling"\n[data]\ntrain = {{ path = "{0}" }}\nvalidation = {{ path = "{0}" }}\n'
        "length = 16\n{1}"
        "[training]\nsteps = 20\nbatch_tokens = 128\nevaluate_every = 10\n"
        'schedule = {{ kind = "constant", rate = 1e-2 }}\nprecision = "fp32"\nthreads = 1\n'
    )
    model = (
        '[tokenizer]\nkind = "characters"\n[model]\nd_model = 16\nheads = 2\nlayers = 2\nresidual = "pre_norm"\n'
        'positions = { kind = "learned", length = 16 }\nscale_embedding = false\n'
    )
    (folder / "b.toml").write_text(text.format("t.txt", model), encoding="utf-8")
    base = fit(folder / "b.toml", folder / "base")
    (folder / "l.toml").write_text(f'init = "{base}"\n' + text.format("u.txt", ""), encoding="utf-8")
    fit(folder / "l.toml", folder / "run", *ADAPTERS["lora"])
    return folder


def probabilities(classifier: heedful.Classifier) -> torch.Tensor:
    return torch.tensor([[*found.probabilities.values()] for found in classifier.classify(TEXTS)])


def logits(writer: heedful.TextGenerator, text: str = "sechs fünf") -> torch.Tensor:
    """Of each next token."""
    ids = torch.tensor([writer.tokenizer.encode(text)])
    model = writer.model
    assert isinstance(model, LanguageModel)
    with torch.no_grad():
        hidden, _ = model.decoder(Tokens(ids, torch.arange(ids.size(1)).unsqueeze(0)), model.decoder.init_state(None))
        found: torch.Tensor = model.output(hidden)
    return found


def test_a_checkpoint_holds_the_adapter_and_the_head_alone(adapted: Callable[[str], Path], pretrained: Path) -> None:
    run = adapted("lora")
    stored = load_file(run / "model.safetensors")
    maps = [
        f"encoder.stack.layers.{n}.attention.{m}" for n in (0, 1) for m in ("query.lora.query", "key_value.lora.value")
    ]
    assert {*stored} == {f"{each}.{side}.weight" for each in maps for side in ("down", "up")} | {
        "output.weight",
        "output.bias",
    }
    weights = [path for path in run.glob("checkpoints/*.safetensors") if ".training" not in path.name]
    assert weights
    assert all({*load_file(path)} == {*stored} for path in weights)
    moments = {name for path in run.glob("checkpoints/*.training.safetensors") for name in load_file(path)}
    assert moments
    assert all("lora" in name or "output" in name for name in moments)
    about = json.loads((run / "adapter.json").read_text(encoding="utf-8"))
    assert about["base"]["folder"] == str(pretrained.resolve())
    assert about["adapter"] == {"kind": "lora", "rank": 3, "alpha": 6.0, "dropout": 0.0, "on": ["query", "value"]}


@pytest.mark.parametrize("kind", ADAPTERS)
def test_what_was_trained_is_what_is_loaded(adapted: Callable[[str], Path], kind: str) -> None:
    """The last line is measured with the loaded model; those before with the one that learned."""
    text = (adapted(kind) / "metrics.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    measured = [line["loss"] for line in lines if line["kind"] == "validation"]
    (final,) = [line["loss"] for line in lines if line["kind"] == "final"]
    assert final == pytest.approx(min(measured), rel=1e-5)
    assert min(measured) < measured[0] - 1e-4, "nothing was learned"


def test_the_weights_are_those_of_the_base_and_ba_longhand(adapted: Callable[[str], Path], pretrained: Path) -> None:
    run = adapted("lora")
    base, own = open_origin(pretrained).tensors, load_file(run / "model.safetensors")
    found = dict(load_trained_model(open_run(run), device=CPU).named_parameters())
    for name, parameter in found.items():
        if name.startswith("output."):
            wanted = own[name]
        else:
            wanted = base[name].clone()
            layer = name.removesuffix(".weight")
            if name.endswith("attention.query.weight"):
                wanted += 2 * own[f"{layer}.lora.query.up.weight"] @ own[f"{layer}.lora.query.down.weight"]
            elif name.endswith("attention.key_value.weight"):
                wanted[16:] += 2 * own[f"{layer}.lora.value.up.weight"] @ own[f"{layer}.lora.value.down.weight"]
        torch.testing.assert_close(parameter.detach(), wanted, msg=name)


@pytest.mark.parametrize("words", [ADAPTERS["lora"], ADAPTERS["bottleneck"], (*ADAPTERS["lora"], "--training.ema=0.5")])
def test_a_run_that_was_interrupted_goes_on_bit_for_bit(tuning: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    recipe, words = tuning / "classification.toml", (*words, "--training.evaluate_every=2")
    if "bottleneck" not in words[0]:
        words = (*words, "--training.adapter.dropout=0.3")
    whole = fit(recipe, tmp_path / "whole", *words)
    fit(recipe, tmp_path / "parts", *words, "--training.steps=2")
    parts = fit(recipe, tmp_path / "parts", *words)
    for name in ("model.safetensors", "checkpoints/step-00000006.training.safetensors"):
        first, second = load_file(whole / name), load_file(parts / name)
        assert first.keys() == second.keys()
        assert all(torch.equal(first[each], second[each]) for each in first)


@pytest.mark.parametrize("kind", ADAPTERS)
@pytest.mark.parametrize("task", ["tagging", "spans"])
def test_all_tasks_of_labels_have_adapters(tuning: Path, tmp_path: Path, task: str, kind: str) -> None:
    run = fit(tuning / f"{task}.toml", tmp_path / "run", *ADAPTERS[kind], "--training.steps=2")
    names = load_file(run / "model.safetensors")
    assert all(name.startswith("output.") or ".lora." in name or ".behind." in name for name in names)
    assert type(heedful.load(run)).__name__ == {"tagging": "Tagger", "spans": "QuestionAnsweringPredictor"}[task]


def test_several_tasks_share_an_adapter(tuning: Path, pretrained: Path, tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(
        f'task = "multitask"\ninit = "{pretrained}"\n'
        f'[tasks.a.data]\ntrain = {{ path = "{tuning}/c.tsv" }}\nvalidation = {{ path = "{tuning}/c.tsv" }}\n'
        f'max_length = 24\n[tasks.b]\nkind = "tagging"\n[tasks.b.data]\ntrain = {{ path = "{tuning}/t.txt" }}\n'
        f'validation = {{ path = "{tuning}/t.txt" }}\nmax_length = 24\n'
        '[training]\nsteps = 2\nbatch_tokens = 300\nevaluate_every = 2\nprecision = "fp32"\nadapter = { rank = 2 }\n',
        encoding="utf-8",
    )
    run = fit(tmp_path / "m.toml", tmp_path / "run")
    names = {*load_file(run / "model.safetensors")}
    assert {name for name in names if ".lora." not in name} == {
        f"head-{task}.output.{each}" for task in "ab" for each in ("weight", "bias")
    }
    assert heedful.load(run, task="a", kind=heedful.Classifier).classify(TEXTS)


@pytest.mark.parametrize("kind", ADAPTERS)
def test_engines_compute_an_adapted_model(adapted: Callable[[str], Path], kind: str) -> None:
    exact = probabilities(heedful.load(adapted(kind), device="cpu"))
    for engine in ("int8", "native"):
        if engine == "native":
            pytest.importorskip("heedful_native", reason="heedful-native is not installed")
        found = probabilities(heedful.load(adapted(kind), device="cpu", engine=engine))
        torch.testing.assert_close(found, exact, atol=0.02, rtol=0.05)


@pytest.mark.parametrize("kind", ADAPTERS)
def test_an_adapted_run_can_be_quantized(adapted: Callable[[str], Path], tmp_path: Path, kind: str) -> None:
    heedful.quantize(adapted(kind), tmp_path / "small")
    assert not (tmp_path / "small" / "adapter.json").exists()
    found = probabilities(heedful.load(tmp_path / "small", device="cpu"))
    torch.testing.assert_close(found, probabilities(heedful.load(adapted(kind), device="cpu")), atol=0.02, rtol=0.05)


def test_precision_is_bf16_for_what_stands_still_too(tuning: Path, tmp_path: Path) -> None:
    run = fit(tuning / "classification.toml", tmp_path / "run", *ADAPTERS["lora"], "--training.precision=bf16")
    found = load_file(run / "model.safetensors")
    assert all(tensor.dtype == torch.float32 for tensor in found.values())
    assert any(tensor.abs().sum() > 0 for name, tensor in found.items() if ".up." in name)


def test_merged_it_is_an_ordinary_run(adapted: Callable[[str], Path], tuning: Path, tmp_path: Path) -> None:
    run, merged = adapted("lora"), tmp_path / "merged"
    export_merged(run, merged)
    assert not (merged / "adapter.json").exists()
    assert open_run(merged).recipe.training.adapter is None
    assert torch.equal(
        probabilities(heedful.load(merged, device="cpu")), probabilities(heedful.load(run, device="cpu"))
    )
    base, found = open_origin(run).tensors, load_file(merged / "model.safetensors")
    assert all(torch.equal(found[name], base[name]) for name in found)
    next_ = fit(tuning / "tagging.toml", tmp_path / "next", "--init", str(merged), "--training.steps=1")
    assert heedful.load(next_, kind=heedful.Tagger)
    with pytest.raises(RunError, match=r"merged: was written by heedful quantize or heedful export for use only, and"):
        fit(tuning / "classification.toml", merged)


def test_what_cannot_be_merged_or_exported_is_told(
    adapted: Callable[[str], Path], tuned: Callable[[str], Path], tmp_path: Path
) -> None:
    bottleneck, plain, out = adapted("bottleneck"), tuned("classification"), tmp_path / "out"
    for export, run, message in (
        (
            export_merged,
            bottleneck,
            r"has bottlenecks, whose function cannot be expressed by weights of the model; only",
        ),
        (export_merged, plain, r"has no adapter that could be merged; leave out --merge"),
        (export_peft, bottleneck, r"has bottlenecks, which PEFT does not support; train an adapter of kind lora"),
        (export_peft, plain, r"has no adapter; leave out --format to export its model"),
        (export_hugging_face, bottleneck, r"uses bottlenecks, which transformers does not support; export a run that"),
        (export_ctranslate2, bottleneck, r"uses bottlenecks, which CTranslate2 does not support; export a run that"),
    ):
        with pytest.raises(HeedfulError, match=message):
            export(run, out)
        assert not out.exists()


def test_an_adapted_run_may_be_begun_from(adapted: Callable[[str], Path], tuning: Path, tmp_path: Path) -> None:
    """Of a chain each link knows the one before."""
    recipe = tuning / "tagging.toml"
    run = fit(recipe, tmp_path / "run", "--init", str(adapted("lora")), "--training.steps=2", *ADAPTERS["lora"])
    names = load_file(run / "model.safetensors")
    found, above = (
        dict(load_trained_model(open_run(run), device=CPU).named_parameters()),
        open_origin(adapted("lora")).tensors,
    )
    still = "encoder.stack.layers.0.feed_forward.inner.weight"
    assert still not in names
    assert torch.equal(found[still], above[still])
    with pytest.raises(
        RunError, match=r"init = .*: computes with bottlenecks, which are not part of its weights; give"
    ):
        fit(recipe, tmp_path / "other", "--init", str(adapted("bottleneck")), "--training.steps=2")


def moved(tuning: Path, pretrained: Path, folder: Path) -> tuple[Path, Path]:
    """A base and an adapted run, both in a folder of their own."""
    base = folder / "base"
    shutil.copytree(pretrained, base)
    return base, fit(tuning / "classification.toml", folder / "run", "--init", str(base), *ADAPTERS["lora"])


def test_the_base_must_be_there_and_what_it_was(tuning: Path, pretrained: Path, tmp_path: Path) -> None:
    base, run = moved(tuning, pretrained, tmp_path / "first")
    expected = probabilities(heedful.load(run, device="cpu"))
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    shutil.move(base, tmp_path / "elsewhere")
    with pytest.raises(RunError, match=rf"{re.escape(str(run))}: contains only an adapter, and its model"):
        heedful.load(run)
    # moved together, and the first place is gone
    assert torch.equal(probabilities(heedful.load(tmp_path / "second" / "run", device="cpu")), expected)
    shutil.copytree(open_other(tuning, tmp_path), base)
    with pytest.raises(RunError, match=r"contains only an adapter, and .*base has other weights than those that"):
        heedful.load(run)
    with pytest.raises(RunError, match=r"init = .*base: its weights have changed since the run in .*run began"):
        fit(tuning / "classification.toml", run, "--init", str(base), *ADAPTERS["lora"], "--training.steps=8")


def open_other(tuning: Path, folder: Path) -> Path:
    """Another pre-trained model of the same shape and vocabulary."""
    recipe = open_run(Path(str(heedful.load_recipe(tuning / "tagging.toml").init))).recipe  # type: ignore[attr-defined]
    training = recipe.training.model_copy(update={"steps": 1})
    return heedful.train(recipe.model_copy(update={"output": folder / "other", "seed": 9, "training": training})).folder


def test_a_damaged_file_is_refused(adapted: Callable[[str], Path], tmp_path: Path) -> None:
    shutil.copytree(adapted("lora"), tmp_path / "run")
    (tmp_path / "run" / "adapter.json").write_text("{}")
    with pytest.raises(RunError, match=r"adapter.json: is not the file that was saved"):
        heedful.load(tmp_path / "run")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--init=none", *ADAPTERS["lora"]], r"training.adapter needs init, the folder of the model whose weights"),
        (["--training.freeze=1", *ADAPTERS["lora"]], r"training.freeze .*has no effect with training.adapter"),
        (["--training.adapter.rank=0"], r"training.adapter.rank"),
        (["--training.adapter.alpha=0"], r"training.adapter.alpha"),
        (["--training.adapter.dropout=1"], r"training.adapter.dropout"),
        (["--training.adapter.kind=prefix"], r"training.adapter.kind"),
        (["--training.adapter.on", '["query","gate"]'], r"training.adapter.on"),
        (["--training.adapter.on", "[]"], r"training.adapter.on"),
        (["--training.adapter.on", '["key","key"]'], r'training.adapter.on .*names "key" twice: leave one of them'),
        (["--training.adapter.rank=17"], r"training.adapter.rank = 17: a map of this model has only 16 dimensions"),
        (["--training.adapter.kind=bottleneck", "--training.adapter.rank=2"], r"training.adapter.rank"),
    ],
)
def test_recipes_that_cannot_be_are_told(tuning: Path, tmp_path: Path, words: list[str], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        fit(tuning / "classification.toml", tmp_path / "run", *words)


def test_numbers_are_counted(adapted: Callable[[str], Path]) -> None:
    for kind in ADAPTERS:
        run = open_run(adapted(kind))
        found = count_parameters(run)
        assert found is not None
        assert found.trainable == sum(each.numel() for each in load_file(run.folder / "model.safetensors").values())
        assert (
            describe_system(run).required_summary.trainable_parameters,
            describe_system(run).required_summary.parameters,
        ) == (found.trainable, found.total)
        assert found.total - found.adapter == sum(
            p.numel() for name, p in run.init_model().named_parameters()
        )  # fmt: skip


def test_an_adapter_learns_faster_where_nobody_says_how_fast(tuning: Path, tmp_path: Path) -> None:
    text = (tuning / "tagging.toml").read_text(encoding="utf-8")
    whole, table, _ = text.partition("[training]\n")
    recipe = tmp_path / "t.toml"
    recipe.write_text(whole.replace('path = "', f'path = "{tuning}/') + table + "epochs = 1\n", encoding="utf-8")
    rates = [
        fit_recipe(resolve_recipe(heedful.load_recipe(recipe, words)).recipe, device=CPU).training.schedule.rate  # type: ignore[union-attr]
        for words in ([], list(ADAPTERS["lora"]))
    ]
    assert rates[1] == pytest.approx(5 * rates[0])


@pytest.mark.parametrize("kind", ADAPTERS)
def test_what_stands_still_asks_for_no_gradient(adapted: Callable[[str], Path], kind: str) -> None:
    run = open_run(adapted(kind))
    model = build_model_to_resume(run, open_init(run.recipe))
    learned = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert learned == {*load_file(adapted(kind) / "model.safetensors")}
