"""Commands and adapters: training, describing, putting on, merging and handing over."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from unit.runs.test_adapted import ADAPTERS, _adapted, _written  # noqa: F401 - fixtures

PROMPT = ("--prompt", "sechs", "--search", "greedy", "--tokens", "12", "--device", "cpu")


@pytest.mark.slow
def test_an_adapter_is_described(
    adapted: Callable[[str], Path], written: Path, pretrained: Path, say: Callable[..., Any]
) -> None:
    said = say("describe", adapted("lora"))
    assert "encoder.stack.layers.0-1.attention.query.lora.query.down.weight" in said.out
    adapter, learned, base = said.lines[-3:]
    assert adapter == "adapter     lora, rank 3, alpha 6, dropout 0, on query and value"
    # A and B of two maps in two layers, and the head of two classes
    assert learned.startswith(f"learned     {2 * 2 * 2 * 3 * 16 + 34:,} of ")
    assert learned.endswith(" numbers, 34 of them in new parts outside the adapter")
    assert base.startswith(f"base        {pretrained.resolve()} (sha256 ")
    assert "adapter     bottleneck, width 5" in say("describe", adapted("bottleneck")).lines
    recipe = say("describe", written / "l.toml", "--training.adapter.rank", 2)
    assert recipe.lines[-1] == "adapter     lora, rank 2, alpha 16, dropout 0, on query and value"
    assert "lora" not in say("describe", written / "base").out
    whole, training = re.search(
        r"([\d.]+) MiB of weights, ([\d.]+) MiB in "
        r"training",
        said.out,
    ).groups()  # type: ignore[union-attr]
    assert float(training) < 2 * float(whole) + 0.1, "what stands still has no moments"


def test_a_run_with_a_head_is_described(tuned: Callable[[str], Path], say: Callable[..., Any]) -> None:
    lines = say("describe", tuned("classification")).lines
    assert any(re.match(r"output.weight +2 x 16 +32", line) for line in lines)


@pytest.mark.slow
def test_one_base_writes_with_one_adapter_or_another(written: Path, tmp_path: Path, say: Callable[..., Any]) -> None:
    bare = say("generate", written / "base", *PROMPT)
    own = say("generate", written / "run", *PROMPT)
    worn = say("generate", written / "base", "--adapter", written / "run", *PROMPT)
    assert (own.code, worn.code) == (0, 0), (own, worn)
    assert worn.out == own.out != bare.out
    assert say("export", written / "run", tmp_path / "peft", "--format", "peft").code == 0
    assert say("generate", written / "base", "--adapter", tmp_path / "peft", *PROMPT).out == own.out
    assert say("export", written / "run", tmp_path / "merged", "--merge").code == 0
    assert say("generate", tmp_path / "merged", *PROMPT).out == own.out
    for form in ((), ("--format", "onnx")):
        folder = tmp_path / f"other{len(form)}"
        assert say("export", written / "run", folder, *form).code == 0
    assert say("generate", tmp_path / "other0", *PROMPT).out == own.out


def test_what_is_measured_has_it_on(written: Path, say: Callable[..., Any]) -> None:
    words = ("--format", "json", "--samples", "10", "--device", "cpu")
    bare = json.loads(say("evaluate", written / "base", *words).out)
    worn = say("evaluate", written / "base", "--adapter", written / "run", "--against", written / "base", *words)
    found = json.loads(worn.out)
    assert found["nats"] > bare["nats"] + 5, "it learned another text"
    (test, *_) = found["against"]["comparisons"]
    assert abs(test["difference"]["value"]) > 0, "the second system has none on"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["export", "RUN", "OUT", "--merge", "--format", "onnx"], "--merge: writes a run of heedful; onnx is another"),
        (["export", "BASE", "OUT", "--merge"], "has no adapter that could be merged; leave out --merge"),
        (["export", "BASE", "OUT", "--format", "peft"], "has no adapter; leave out --format to export its model"),
        (["generate", "BASE", "--adapter", "BASE", *PROMPT], "contains a model and not an adapter; give a run"),
        (["generate", "BASE", "--adapter", "none", *PROMPT], "none: no such run folder; check the path"),
        (["compare", "BASE", "RUN", "--adapter", "RUN"], "--adapter: is for one model; give runs with adapters"),
        (
            ["index", "INDEX", "TEXT", "--adapter", "RUN"],
            "--adapter: is for the encoder, but no encoder is given; give",
        ),
        (["evaluate", "TEXT", "--adapter", "RUN"], "--adapter: is for a model, but"),
    ],
)
def test_what_makes_no_sense_is_told(
    written: Path, tmp_path: Path, say: Callable[..., Any], words: list[str], message: str
) -> None:
    places = {"RUN": written / "run", "BASE": written / "base", "TEXT": written / "t.txt", "OUT": tmp_path / "out"}
    places["INDEX"] = tmp_path / "index"
    assert message in say(*(places.get(word, word) for word in words)).complaint
    assert not (tmp_path / "out").exists()


def test_training_says_what_stands_still(written: Path, tmp_path: Path, say: Callable[..., Any]) -> None:
    said = say("train", written / "l.toml", "--output", tmp_path / "run", "--training.steps", 1, *ADAPTERS["lora"])
    assert said.code == 0
    assert re.search(r"training.adapter: 384 of [\d,]+ parameters are trained, and only these are stored", said.err)
