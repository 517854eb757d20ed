"""Hugging Face folders with weights in 8 bits: the numbers of `--engine int8`, and every command."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import audio_samples
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import heedful
from heedful.__main__ import main
from heedful.engines import int8
from heedful.engines.int8 import Int8Linear
from heedful.engines.int8_weights import SCALE_SUFFIX
from heedful.errors import RunError
from heedful.foreign.hugging_face import open_hugging_face
from heedful.foreign.quantized_folders import QUANTIZED_FILE
from heedful.native import load_library
from heedful.runs.export import export_hugging_face, quantize

transformers = pytest.importorskip("transformers")
from reference import test_hugging_face as text_models  # noqa: E402 - needs transformers
from reference import test_vit as picture_models  # noqa: E402 - likewise
from reference import test_whisper as speech_models  # noqa: E402 - likewise

CPU = torch.device("cpu")
MAKERS = {
    **text_models.MAKERS,
    "bert_tagger": lambda folder: text_models.create_bert(folder, "BertForTokenClassification", num_labels=3),
    "distilbert_classifier": lambda folder: text_models.create_distilbert(
        folder, "DistilBertForSequenceClassification", num_labels=3
    ),
    "roberta_one_segment": lambda folder: text_models.create_roberta(folder, type_vocab_size=1),
    "vit": picture_models.create_vit,
    "whisper": speech_models.write_whisper,
}


@pytest.fixture(autouse=True)
def _quantize_small_matrices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Quantize the matrices of tiny models too."""
    monkeypatch.setattr(int8, "MIN_ELEMENTS", 64)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)  # as in their files
    transformers.logging.set_verbosity_error()
    yield
    torch.set_default_dtype(default)


def load_model(folder: Path, *, engine: Any = None) -> nn.Module:
    """Load the model of a folder as its predictor has it."""
    predictor: Any = open_hugging_face(folder).build_predictor(device=CPU, engine=engine)
    for name in ("model", "encoder"):
        if isinstance(found := getattr(predictor, name, None), nn.Module):
            return found
    (model,) = predictor.models
    assert isinstance(model, nn.Module)
    return model


def list_weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """List the parameters of a model, and the integers and scales of its int8 matrices."""
    found = dict(model.named_parameters())
    for name, module in model.named_modules():
        if (matrix := getattr(module, "matrix", None)) is not None:
            found |= {f"{name}.rows": matrix.rows, f"{name}.scale": matrix.scale}
    return found


@pytest.mark.parametrize("name", MAKERS)
def test_the_numbers_are_those_of_the_engine(name: str, tmp_path: Path) -> None:
    MAKERS[name](tmp_path / "model")
    old_bytes, new_bytes = quantize(tmp_path / "model", tmp_path / "small")
    assert new_bytes < 0.6 * old_bytes
    stored = load_file(tmp_path / "small" / QUANTIZED_FILE)
    assert {stored[each.removesuffix(SCALE_SUFFIX)].dtype for each in stored if each.endswith(SCALE_SUFFIX)} == {
        torch.int8
    }
    assert not (tmp_path / "small" / "model.safetensors").exists()
    expected, found = (
        list_weights(load_model(tmp_path / folder, engine=engine))
        for folder, engine in (("model", "int8"), ("small", None))
    )
    assert any(each.endswith(".rows") for each in expected)
    assert expected.keys() == found.keys()
    for each, tensor in expected.items():
        torch.testing.assert_close(found[each], tensor, rtol=0, atol=0)
    exact = load_model(tmp_path / "small", engine="torch")
    assert not any(isinstance(module, Int8Linear) for module in exact.modules())


@pytest.mark.parametrize("name", ["bert", "gpt2", "roberta_one_segment", "t5", "vit", "whisper"])
def test_an_export_has_the_rounded_weights(name: str, tmp_path: Path) -> None:
    """Every number of the exported folder is that of the original to half a level of its row."""
    theirs = MAKERS[name](tmp_path / "model")
    quantize(tmp_path / "model", tmp_path / "small")
    export_hugging_face(tmp_path / "small", tmp_path / "again")
    again = type(theirs).from_pretrained(tmp_path / "again").state_dict()
    for each, tensor in theirs.state_dict().items():
        if name == "roberta_one_segment" and ("token_type" in each or "position" in each):
            continue  # the vector of the only segment is added to the positions
        tolerance = float(tensor.abs().max()) / int8.WEIGHT_LEVELS if tensor.is_floating_point() else 0.0
        torch.testing.assert_close(again[each], tensor, atol=0.51 * tolerance + 1e-6, rtol=0)


def run_command(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    code = main([*map(str, arguments)])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def test_the_command_and_what_reads_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, small = tmp_path / "model", tmp_path / "small"
    text_models.create_bert(model)
    (model / "README.md").write_text("words")
    (model / "pytorch_model.bin").write_bytes(b"pickled")
    (model / "1_Pooling").mkdir()
    (model / "1_Pooling" / "config.json").write_text('{"word_embedding_dimension": 24, "pooling_mode_cls_token": true}')
    (model / "onnx").mkdir()
    run_command(capsys, "quantize", model, small)
    assert {path.name for path in small.iterdir()} == {
        "1_Pooling", "README.md", "config.json", QUANTIZED_FILE, "heedful.int8.json", "tokenizer_config.json",
        "vocab.txt",
    }  # fmt: skip
    for command in (("fill", "red [MASK] sleep"), ("embed", "red dogs")):
        verb, text = command
        engine = "int8" if load_library() is None else "native"
        expected = run_command(capsys, verb, model, "--text", text, "--engine", engine)
        assert run_command(capsys, verb, small, "--text", text) == expected
    assert "encoder" in run_command(capsys, "describe", small)
    recipe = tmp_path / "recipe.toml"
    (tmp_path / "texts.tsv").write_text("text\tlabel\n" + "red dogs\tx\nwashed cats\ty\n" * 8)
    recipe.write_text(
        f'task = "classification"\ninit = "small"\noutput = "{tmp_path}/run"\n[data]\nmax_length = 20\n'
        'train = { path = "texts.tsv" }\nvalidation = { path = "texts.tsv" }\n[training]\nsteps = 2\n'
        'batch_tokens = 100\nevaluate_every = 2\nadapter = { kind = "lora", rank = 2 }\n'
    )
    run_command(capsys, "train", recipe)
    assert run_command(capsys, "classify", tmp_path / "run", "--text", "red dogs").partition("\t")[0] in ("x", "y")


@pytest.mark.parametrize("name", ["vit", "whisper"])
def test_models_of_pictures_and_sounds_are_described(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = MAKERS[name](tmp_path / "model")
    quantize(tmp_path / "model", tmp_path / "small")
    key_biases = sum(module.weight.size(0) for path, module in theirs.named_modules() if path.endswith("k_proj"))
    count = sum(parameter.numel() for parameter in theirs.parameters()) + (key_biases if name == "whisper" else 0)
    for folder in ("model", "small"):
        assert f"parameters  {count:,} (" in run_command(capsys, "describe", tmp_path / folder)


def test_a_quantized_whisper_is_inspected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Gradients pass through matrices that were used without gradients before, to find the language."""
    speech_models.write_whisper(tmp_path / "model")
    quantize(tmp_path / "model", tmp_path / "small")
    audio_samples.write_recordings(tmp_path, "train", 1, seed=1)
    run_command(capsys, "inspect", tmp_path / "small", "--text", tmp_path / "train/0.wav", "-o", tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 1000


def test_an_adapter_on_a_quantized_folder_is_computed_in_int8(tmp_path: Path) -> None:
    """The merged matrices are rounded again, as `--engine int8` rounds them."""
    text_models.create_gpt2(tmp_path / "model")
    quantize(tmp_path / "model", tmp_path / "small")
    opened = open_hugging_face(tmp_path / "small")
    adapted: Any = opened.build_predictor(device=CPU, adapt=lambda origin: origin)
    merged: Any = opened.build_predictor(device=CPU, adapt=lambda origin: replace(origin, tensors=dict(origin.tensors)))
    for predictor in (adapted, merged):
        assert any(isinstance(module, Int8Linear) for module in predictor.model.modules())


def test_what_cannot_be_quantized(tmp_path: Path) -> None:
    model, small = tmp_path / "model", tmp_path / "small"
    text_models.create_gpt2(model)
    quantize(model, small)
    with pytest.raises(RunError, match="is quantized already; give the model that it was made from"):
        quantize(small, tmp_path / "again")
    with pytest.raises(RunError, match="has no checkpoint of step 3"):
        quantize(model, tmp_path / "again", step=3)
    with pytest.raises(RunError, match="is not empty"):
        quantize(model, small)
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("damage", ["names", "no_names", "cut", "scale", "matrix", "extra"])
def test_damaged_folders_name_the_remedy(damage: str, tmp_path: Path) -> None:
    model, small = tmp_path / "model", tmp_path / "small"
    text_models.create_gpt2(model)
    quantize(model, small)
    weights, names = small / QUANTIZED_FILE, small / "heedful.int8.json"
    stored = load_file(weights)
    matrix = next(each for each in stored if each + SCALE_SUFFIX in stored)
    match damage:
        case "names":
            names.write_text('{"published_names": 3}')
        case "no_names":
            names.unlink()
        case "cut":
            weights.write_bytes(weights.read_bytes()[:-100])
        case "scale":
            save_file({**stored, matrix + SCALE_SUFFIX: stored[matrix + SCALE_SUFFIX][1:]}, weights)
        case "matrix":
            save_file({each: tensor for each, tensor in stored.items() if each != matrix}, weights)
        case "extra":
            save_file({**stored, "unknown.weight": torch.zeros(2)}, weights)
    with pytest.raises(RunError, match=r"quantize again|restore|take a complete copy|unknown\.weight"):
        heedful.load(small, device="cpu")


def test_a_folder_without_its_names_is_not_read_as_a_published_one(tmp_path: Path) -> None:
    """Weights in 8 bits under other names are never taken for those of transformers."""
    text_models.create_gpt2(tmp_path / "model")
    quantize(tmp_path / "model", tmp_path / "small")
    shutil.copy(tmp_path / "small" / QUANTIZED_FILE, tmp_path / "model")
    with pytest.raises(RunError, match=r"heedful\.int8\.json"):
        heedful.load(tmp_path / "model", device="cpu")
