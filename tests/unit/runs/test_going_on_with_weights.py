"""Pre-training that goes on with another model's weights, and conversations that begin from a language model."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from untrained_runs import create_language_model_run

import heedful
from heedful.errors import RecipeError, RunError
from heedful.recipes.load import build_recipe
from heedful.recipes.recipe import Recipe
from heedful.runs.initialization import create_run, init_model
from heedful.runs.resolve import open_origin, resolve_recipe
from heedful.tasks.pretraining.objective import MaskedBatch, MaskedTokenLoss
from heedful.tasks.task import Run
from heedful.tensors import Tokens

GOLDEN = Path(__file__).parents[2] / "golden"
DETECTOR = GOLDEN / "pretraining-replaced-tokens/run"


def begun(recipe: Recipe) -> tuple[Run[Any, Any], Any, str]:
    """The run, the model that it begins with, and what is said of its weights."""
    said: list[str] = []
    resolved = resolve_recipe(recipe)
    run = create_run(recipe.output, resolved.recipe, resolved.origin)
    model = init_model(run, resolved.origin, log=said.append)
    return run, model.eval(), "\n".join(said)


def reading(folder: Path, init: Path, **more: Any) -> Recipe:
    """Pre-training on a text of one's own."""
    (folder / "own.txt").write_text("Eins zwei drei.\nVier fünf.\n\n" * 12, encoding="utf-8")
    text = {"path": str(folder / "own.txt")}
    table = {
        "task": "pretraining",
        "output": str(folder / "run"),
        "init": str(init),
        "data": {"train": text, "validation": text, "max_length": 24},
        "training": {"steps": 2, "batch_tokens": 128, "precision": "fp32"},
    }
    return build_recipe({**table, **more}, source="here")


def alone(**training: Any) -> dict[str, Any]:
    return {"training": {"steps": 2, "batch_tokens": 128, "precision": "fp32", "pairing": "alone", **training}}


def test_pre_training_goes_on_where_the_other_one_ended(pretrained: Path, tmp_path: Path) -> None:
    run, model, said = begun(reading(tmp_path, pretrained))
    origin, reader = (
        open_origin(pretrained),
        heedful.load(pretrained, kind=heedful.MaskedLanguageModelPredictor, device="cpu"),
    )
    assert {name for name, _ in model.named_parameters()} == {*origin.tensors}
    assert all(torch.equal(parameter, origin.tensors[name]) for name, parameter in model.named_parameters())
    assert "new: nothing; not used: nothing" in said
    ids = torch.tensor([[1, 6, 7, 2, 8, 2]])
    segments = torch.tensor([[0, 0, 0, 0, 1, 1]])
    labels = torch.tensor([[-1, 9, -1, -1, 10, -1]])
    batch = MaskedBatch(Tokens(ids, torch.arange(6).unsqueeze(0), segments), labels, torch.tensor([1]))
    with torch.no_grad():
        found, expected = (
            MaskedTokenLoss(weight=3.0).compute_loss(each, batch).total for each in (model, reader.model)
        )
    assert float(found) == pytest.approx(float(expected), rel=1e-6)
    assert run.tokenizer.encode("eins zwei") == reader.tokenizer.encode("eins zwei")


def test_heads_that_the_other_one_lacks_are_new(tuned: Callable[[str], Path], tmp_path: Path) -> None:
    _, model, said = begun(reading(tmp_path, tuned("tagging")))
    origin = open_origin(tuned("tagging"))
    assert torch.equal(
        model.encoder.stack.embedding.table.weight, origin.all_tensors["encoder.stack.embedding.table.weight"]
    )
    assert "new: encoder.summary.dense, masked.dense, masked.norm, masked.output and 1 more" in said
    assert "not used: output" in said


def test_a_detector_goes_on_with_both_of_its_models(tmp_path: Path) -> None:
    objective = {"kind": "replaced_tokens", "generator_layers": 1}
    _, model, said = begun(reading(tmp_path, DETECTOR, **alone(objective=objective)))
    origin = open_origin(DETECTOR)
    assert all(torch.equal(parameter, origin.tensors[name]) for name, parameter in model.named_parameters())
    assert "new: nothing; not used: nothing" in said


def test_a_detector_begins_from_an_encoder(pretrained: Path, tmp_path: Path) -> None:
    """Its smaller model, which the other one lacks, has the first name of what both share."""
    _, model, said = begun(reading(tmp_path, pretrained, **alone(objective={"kind": "replaced_tokens"})))
    origin = open_origin(pretrained)
    names = {name: each for name, each in model.named_parameters(remove_duplicate=False) if name in origin.tensors}
    encoder = {name for name in origin.tensors if name.startswith("encoder.stack.")}
    assert encoder <= {*names}
    assert all(torch.equal(names[name], origin.tensors[name]) for name in encoder)
    assert "new: generator.encoder.stack.layers.0." in said


def test_a_vocabulary_must_hide_tokens(tmp_path: Path, pretrained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from heedful.runs import resolve

    given = resolve.open_predecessor(pretrained)
    (tokenizer,) = given.tokenizers
    tokenizer.special = replace(tokenizer.special, mask=None)
    monkeypatch.setattr(resolve, "open_predecessor", lambda _: given)
    with pytest.raises(RecipeError, match="its vocabulary has no piece that hides a token"):
        begun(reading(tmp_path, pretrained))


def test_pre_training_that_went_on_can_be_used(pretrained: Path, tmp_path: Path) -> None:
    folder = heedful.train(reading(tmp_path, pretrained), device="cpu").folder
    assert isinstance(heedful.load(folder, device="cpu"), heedful.MaskedLanguageModelPredictor)
    stored = json.loads((folder / "config.json").read_text(encoding="utf-8"))["recipe"]
    assert stored["tokenizer"] == {"kind": "given"}
    assert stored["model"]["d_model"] == 16


# conversations


TEXTS = ["hello there", "good day to you", "never mind"]


@pytest.fixture
def writer(tmp_path: Path) -> Path:
    """An untrained language model."""
    (tmp_path / "writer").mkdir()
    return create_language_model_run(tmp_path / "writer", TEXTS, positions={"kind": "rotary"}, dropout=0.0)


def talking(folder: Path, init: Path, **more: Any) -> Recipe:
    turns = [{"speaker": "user", "text": "hello there"}, {"speaker": "system", "text": "good day to you"}]
    (folder / "d.jsonl").write_text(f"{json.dumps({'turns': turns})}\n" * 6, encoding="utf-8")
    text = {"path": str(folder / "d.jsonl")}
    table = {
        "task": "conversation",
        "output": str(folder / "run"),
        "init": str(init),
        "data": {"train": text, "validation": text, "max_length": 24},
        "training": {"steps": 2, "batch_tokens": 128, "precision": "fp32"},
    }
    return build_recipe({**table, **more}, source="here")


def logits(model: Any, ids: Tensor) -> Tensor:
    """Of a language model, or of what reads context and reply as one text."""
    tokens = Tokens(ids, torch.arange(ids.size(1)).unsqueeze(0))
    with torch.no_grad():
        hidden, _ = model.decoder(tokens, model.decoder.init_state(None))
        found: Tensor = model.output(hidden)
    return found


def test_a_conversation_begins_from_a_language_model(writer: Path, tmp_path: Path) -> None:
    run, model, said = begun(talking(tmp_path, writer))
    other = heedful.load(writer, kind=heedful.TextGenerator, device="cpu")
    size = other.tokenizer.size
    ids = torch.tensor([[1, 6, 7, 9, 5, 8]])
    torch.testing.assert_close(logits(model, ids)[..., :size], logits(other.model, ids), atol=1e-6, rtol=0)
    assert model.output.out_features == size + 2  # and who speaks
    assert run.recipe.model.kind == "decoder_only"
    assert "new: nothing; not used: nothing" in said
    assert run.tokenizer.encode("hello") == other.tokenizer.encode("hello")


def test_an_output_of_its_own_grows_too(tmp_path: Path) -> None:
    (tmp_path / "writer").mkdir()
    writer = create_language_model_run(
        tmp_path / "writer", TEXTS, tie=False, output_bias=True, positions={"kind": "rotary"}
    )
    _, model, _ = begun(talking(tmp_path, writer))
    other = heedful.load(writer, kind=heedful.TextGenerator, device="cpu")
    size, ids = other.tokenizer.size, torch.tensor([[1, 6, 7]])
    torch.testing.assert_close(logits(model, ids)[..., :size], logits(other.model, ids), atol=1e-6, rtol=0)


@pytest.mark.parametrize("adapter", [None, {"kind": "lora", "rank": 2}], ids=["whole", "lora"])
def test_a_conversation_that_began_so_can_be_used(adapter: Any, writer: Path, tmp_path: Path) -> None:
    training = {"steps": 2, "batch_tokens": 128, "precision": "fp32", **({"adapter": adapter} if adapter else {})}
    folder = heedful.train(talking(tmp_path, writer, training=training), device="cpu").folder
    partner = heedful.load(folder, device="cpu")
    assert partner.model.output.out_features == heedful.load(writer, device="cpu").tokenizer.size + 2


def test_dropout_may_be_changed_and_nothing_else(writer: Path, tmp_path: Path) -> None:
    changed = talking(tmp_path, writer, model={"kind": "decoder_only", "decoder": {"dropout": 0.4}})
    assert resolve_recipe(changed).recipe.model.decoder.dropout == 0.4  # type: ignore[attr-defined]  # decoder_only
    wider = talking(tmp_path, writer, model={"kind": "decoder_only", "decoder": {"d_model": 32}})
    with pytest.raises(RecipeError, match=r"model\.decoder\.d_model = 32: init = .* has 16, and its weights fit"):
        resolve_recipe(wider)
    with pytest.raises(RecipeError, match=r'model\.kind = "transformer": init = .* is of the kind "decoder_only"'):
        resolve_recipe(talking(tmp_path, writer, model={"kind": "transformer", "d_model": 16}))


def test_other_models_are_refused(pretrained: Path, writer: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match='is an encoder, and task = "conversation" needs a language model'):
        resolve_recipe(talking(tmp_path, pretrained))
    with pytest.raises(RecipeError, match='is a language model, and task = "pretraining" needs an encoder'):
        resolve_recipe(reading(tmp_path, writer))


def test_a_table_that_is_too_large_is_refused(writer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from heedful.runs import resolve

    given = resolve.open_predecessor(writer)
    name = "decoder.stack.embedding.table.weight"
    larger = replace(given, tensors={**given.tensors, name: torch.zeros(999, 16)})
    monkeypatch.setattr(resolve, "open_predecessor", lambda _: larger)
    with pytest.raises(RunError, match=rf"{name} is 999 x 16, but this model has \d+ x 16; give another init"):
        begun(talking(tmp_path, writer))
