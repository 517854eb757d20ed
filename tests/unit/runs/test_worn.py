"""One model, and several adapters that are put on it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from unit.runs.test_adapted import ADAPTERS, MOST, _adapted, _written, fit, logits  # noqa: F401 - fixtures

import heedful
from heedful.errors import RunError
from heedful.runs.export import export_hugging_face, export_peft


def test_an_adapter_makes_of_its_base_what_its_own_run_is(written: Path) -> None:
    base, run = written / "base", written / "run"
    expected = logits(heedful.load(run, device="cpu"))
    assert float((expected - logits(heedful.load(base, device="cpu"))).abs().max()) > 0.1
    assert torch.equal(logits(heedful.load(base, adapter=run, device="cpu")), expected)
    twice = logits(heedful.load(run, adapter=run, device="cpu"))
    assert not torch.allclose(twice, expected), "what has one already gets another"


@pytest.mark.parametrize("kind", ADAPTERS)
@pytest.mark.parametrize("engine", [None, "int8"])
def test_every_adapter_on_a_base_of_bytes_or_not(written: Path, tmp_path: Path, kind: str, engine: str | None) -> None:
    run = fit(written / "l.toml", tmp_path / "run", *ADAPTERS[kind], "--training.steps=5")
    heedful.quantize(written / "base", tmp_path / "small")
    base = written / "base" if engine is None else tmp_path / "small"
    found = logits(heedful.load(base, adapter=run, device="cpu"))
    torch.testing.assert_close(found, logits(heedful.load(run, device="cpu", engine=engine)), atol=0.05, rtol=0.05)


def test_an_adapter_changes_what_a_base_of_bytes_computes(written: Path, tmp_path: Path) -> None:
    heedful.quantize(written / "base", tmp_path / "small")
    expected = logits(heedful.load(written / "run", device="cpu", engine="int8"))
    found = logits(heedful.load(tmp_path / "small", adapter=written / "run", device="cpu"))
    plain = logits(heedful.load(tmp_path / "small", device="cpu"))
    assert float((found - plain).abs().max()) > 0.1
    # the base was rounded before the adapter was added, and the sum is rounded again
    assert float((found - expected).abs().max()) < 0.5 * float((expected - plain).abs().max())


def test_an_adapter_changes_matrices_that_are_bytes(written: Path, tmp_path: Path) -> None:
    """Only matrices of 4,096 numbers or more become bytes, so the adapted ones must be that large."""
    base = fit(written / "b.toml", tmp_path / "wide", "--model.d_model=64", "--training.steps=1")
    run = fit(written / "l.toml", tmp_path / "run", *ADAPTERS["lora"], f"--init={base}")
    heedful.quantize(base, tmp_path / "small")
    expected = logits(heedful.load(run, device="cpu", engine="int8"))
    found = logits(heedful.load(tmp_path / "small", adapter=run, device="cpu"))
    plain = logits(heedful.load(tmp_path / "small", device="cpu"))
    assert float((expected - plain).abs().max()) > 0.1
    assert float((found - expected).abs().max()) < 0.5 * float((expected - plain).abs().max())


def test_other_weights_are_doubted_and_other_vocabularies_refused(written: Path, tmp_path: Path) -> None:
    said: list[str] = []
    other = fit(written / "b.toml", tmp_path / "other", "--seed=5")
    heedful.load(written / "base", adapter=written / "run", say=said.append)
    assert not said
    heedful.load(other, adapter=written / "run", say=said.append)
    (doubt,) = said
    assert doubt.startswith(f"warning: {written / 'run'} was trained on other weights than those in {other}; its")
    (tmp_path / "t.txt").write_text("xyz xyz xyz abc\n\n" * 40)
    text = (written / "b.toml").read_text(encoding="utf-8")
    (tmp_path / "b.toml").write_text(text, encoding="utf-8")
    strange = fit(tmp_path / "b.toml", tmp_path / "strange", "--training.steps=1")
    with pytest.raises(RunError, match=r"run: was trained with another tokenizer/text than that of .*strange; give a"):
        heedful.load(strange, adapter=written / "run")


def test_what_does_not_fit_is_told(
    written: Path, adapted: Callable[[str], Path], pretrained: Path, tuned: Callable[[str], Path], tmp_path: Path
) -> None:
    wide = fit(written / "b.toml", tmp_path / "wide", "--model.d_model=32", "--training.steps=1")
    for base, adapter, message in (
        (
            wide,
            written / "run",
            r"run: .*lora.* does not fit any map of this model; name a model of the same shape as the adapted one",
        ),
        (written / "base", written / "base", r"base: contains a model and not an adapter; give a run that was"),
        (written / "base", tmp_path / "none", r"none: no such run folder"),
        (pretrained, adapted("lora"), r"contains output.* which this model does not have; use the run itself"),
        (adapted("bottleneck"), adapted("bottleneck"), r"already has bottlenecks, and .* would add others; give its"),
    ):
        with pytest.raises(RunError, match=message):
            heedful.load(base, adapter=adapter)
    with pytest.raises(RunError, match=r"an adapter is for one model, but 2 are given; give one run"):
        heedful.load(written / "base", written / "base", adapter=written / "run")
    classes = heedful.load(tuned("classification"), adapter=adapted("lora"), kind=heedful.Classifier)
    assert classes.classify(["eins"])


def test_an_adapter_on_a_model_of_hugging_face(written: Path, tmp_path: Path) -> None:
    """Bases that others keep are adapted like runs; a run that began from one brings its vocabulary along."""
    export_hugging_face(written / "base", tmp_path / "gpt")
    expected = logits(heedful.load(written / "run", device="cpu"))
    torch.testing.assert_close(logits(heedful.load(tmp_path / "gpt", adapter=written / "run", device="cpu")), expected)
    for kind in ADAPTERS:
        words = ("--init", str(tmp_path / "gpt"), "--training.steps=5")
        run = fit(written / "l.toml", tmp_path / kind, *words, *ADAPTERS[kind])
        found = heedful.load(tmp_path / "gpt", adapter=run, device="cpu")
        torch.testing.assert_close(logits(found), logits(heedful.load(run, device="cpu")))
    shutil.rmtree(tmp_path / "gpt")
    with pytest.raises(RunError, match=r"contains only an adapter, and its model is no longer in .*gpt"):
        heedful.load(tmp_path / "lora")


@pytest.mark.parametrize("words", [(), MOST])
def test_what_peft_is_given_can_be_put_on_again(written: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    """In GPT-2 queries, keys and values are one map, of which query and value alone are adapted, or all."""
    run = fit(written / "l.toml", tmp_path / "run", *ADAPTERS["lora"], *words)
    export_peft(run, tmp_path / "peft")
    assert {path.name for path in (tmp_path / "peft").iterdir()} == {"adapter_config.json", "adapter_model.safetensors"}
    found = heedful.load(written / "base", adapter=tmp_path / "peft", device="cpu")
    torch.testing.assert_close(logits(found), logits(heedful.load(run, device="cpu")))
