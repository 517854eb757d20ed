"""Text vectors of folders in the format of sentence-transformers, computed from the hidden vectors of transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import heedful
from heedful.errors import DataError, RunError
from heedful.runs.export import export_hugging_face
from heedful.tasks.embedder import Embedder

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed (extra: hf)")

from reference.test_hugging_face import _silence_transformers, create_bert, write  # noqa: E402, F401 - a fixture

TEXTS = ["red dogs sleep", "Naïve cats don't sleep , 42", "walking", ""]
SIZE = 24
FLAGS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}


def create_folder(
    path: Path, *modes: str, more: tuple[str, ...] = (), kind: str = "BertModel", **pooling: Any
) -> nn.Module:
    """Create a BERT with the files of sentence-transformers."""
    model = create_bert(path, kind)
    names = ["", "1_Pooling", *more]
    types = ["Transformer", "Pooling", *(name.partition("_")[2] for name in more)]
    modules = [
        {"idx": number, "name": str(number), "path": name, "type": f"sentence_transformers.models.{each}"}
        for number, (name, each) in enumerate(zip(names, types, strict=True))
    ]
    write(path / "modules.json", modules)
    for name in names[1:]:
        (path / name).mkdir()
    flags = {flag: mode in modes for mode, flag in FLAGS.items()}
    write(path / "1_Pooling/config.json", {"word_embedding_dimension": SIZE, **flags, **pooling})
    return model


def compute_hidden(model: Any, path: Path, text: str) -> Tensor:
    """Compute BERT's hidden vectors of all tokens of a text, including begin and end."""
    row = transformers.AutoTokenizer.from_pretrained(path)(text, return_tensors="pt")
    with torch.no_grad():
        found: Tensor = model(**row).last_hidden_state[0]
    return found


def compute_pooling(mode: str, h: Tensor) -> Tensor:
    places = torch.arange(1, len(h) + 1).unsqueeze(1)
    return {
        "cls": h[0],
        "max": h.amax(0),
        "mean": h.sum(0) / len(h),
        "mean_sqrt_len_tokens": h.sum(0) / len(h) ** 0.5,
        "weightedmean": (h * places).sum(0) / places.sum(),
        "lasttoken": h[-1],
    }[mode]


def embed_texts(path: Path, texts: list[str]) -> np.ndarray:
    vectors: np.ndarray = heedful.load(path, kind=Embedder, device="cpu").embed(texts)
    return vectors


@pytest.mark.parametrize("mode", FLAGS)
def test_tokens_are_pooled_as_the_folder_specifies(mode: str, tmp_path: Path) -> None:
    model = create_folder(tmp_path, mode)
    expected = torch.stack([compute_pooling(mode, compute_hidden(model, tmp_path, text)) for text in TEXTS])
    np.testing.assert_allclose(embed_texts(tmp_path, TEXTS), expected, atol=1e-5)


def test_several_modes_are_concatenated(tmp_path: Path) -> None:
    model = create_folder(tmp_path, "mean", "cls", "max")
    rows = [compute_hidden(model, tmp_path, text) for text in TEXTS]
    expected = torch.stack([torch.cat([compute_pooling(mode, h) for mode in ("cls", "max", "mean")]) for h in rows])
    np.testing.assert_allclose(embed_texts(tmp_path, TEXTS), expected, atol=1e-5)


def test_a_mode_may_be_given_by_name(tmp_path: Path) -> None:
    model = create_folder(tmp_path)
    write(tmp_path / "1_Pooling/config.json", {"embedding_dimension": SIZE, "pooling_mode": "cls"})
    expected = torch.stack([compute_hidden(model, tmp_path, text)[0] for text in TEXTS])
    np.testing.assert_allclose(embed_texts(tmp_path, TEXTS), expected, atol=1e-5)


def test_the_default_is_the_mean(tmp_path: Path) -> None:
    model = create_folder(tmp_path)
    write(tmp_path / "1_Pooling/config.json", {"word_embedding_dimension": SIZE})
    expected = torch.stack([compute_hidden(model, tmp_path, text).mean(0) for text in TEXTS])
    np.testing.assert_allclose(embed_texts(tmp_path, TEXTS), expected, atol=1e-5)


def save_dense_module(path: Path, inputs: int, outputs: int, activation: str = "Tanh") -> tuple[Tensor, Tensor]:
    weight, bias = torch.randn(outputs, inputs) * 0.3, torch.randn(outputs)
    named = f"torch.nn.modules.{'linear' if activation == 'Identity' else 'activation'}.{activation}"
    config = {"in_features": inputs, "out_features": outputs, "bias": True, "activation_function": named}
    write(path / "config.json", config)
    save_file({"linear.weight": weight, "linear.bias": bias}, path / "model.safetensors")
    return weight, bias


def test_dense_layers_and_unit_length(tmp_path: Path) -> None:
    model = create_folder(tmp_path, "cls", "mean", more=("2_Dense", "3_Dense", "4_Normalize"))
    first, last = (
        save_dense_module(tmp_path / "2_Dense", 2 * SIZE, 10),
        save_dense_module(tmp_path / "3_Dense", 10, 5, "Identity"),
    )
    rows = []
    for text in TEXTS:
        h = compute_hidden(model, tmp_path, text)
        x = (first[0] @ torch.cat((h[0], h.mean(0))) + first[1]).tanh()
        y = last[0] @ x + last[1]
        rows.append(y / y.norm())
    vectors = embed_texts(tmp_path, TEXTS)
    np.testing.assert_allclose(vectors, torch.stack(rows), atol=1e-5)
    assert vectors.shape == (4, 5)
    assert export_hugging_face(tmp_path, tmp_path / "out") == (
        "the pooling of this folder, which makes one vector of a text's tokens, is not exported; means over the tokens "
        "give other vectors",
    )


def test_a_masked_language_model_can_pool_too(tmp_path: Path) -> None:
    model = create_folder(tmp_path, "cls", kind="BertForMaskedLM")
    reader = heedful.load(tmp_path, kind=heedful.MaskedLanguageModelPredictor, device="cpu")
    expected = compute_hidden(model.get_submodule("bert"), tmp_path, TEXTS[0])[0]
    np.testing.assert_allclose(reader.embed(TEXTS[:1])[0], expected, atol=1e-5)


def test_longer_texts_are_truncated(tmp_path: Path) -> None:
    model = create_folder(tmp_path, "mean")
    write(tmp_path / "sentence_bert_config.json", {"max_seq_length": 7, "do_lower_case": False})
    ours = heedful.load(tmp_path, kind=Embedder, device="cpu")
    text, cut = "red dogs sleep walking unwashed cats", list[int]()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    row = tokenizer(text, return_tensors="pt", truncation=True, max_length=7)
    with torch.no_grad():
        expected = model(**row).last_hidden_state[0].mean(0)
    np.testing.assert_allclose(ours.embed([text], cut=cut.append)[0], expected, atol=1e-5)
    assert cut == [1]
    with pytest.raises(DataError, match="this model reads at most 5; split it"):
        ours.embed([text])


def test_texts_may_be_lowercased(tmp_path: Path) -> None:
    create_folder(tmp_path, "mean")
    write(tmp_path / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "do_lower_case": False})
    plain = embed_texts(tmp_path, ["RED dogs", "red dogs"])
    assert np.abs(plain[0] - plain[1]).max() > 1e-2
    write(tmp_path / "sentence_bert_config.json", {"max_seq_length": 20, "do_lower_case": True})
    lower = embed_texts(tmp_path, ["RED dogs", "red dogs"])
    np.testing.assert_allclose(lower, plain[[1, 1]], atol=1e-6)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("1_Pooling/config.json", {"pooling_mode": "attention"}, r"pools by \['attention'\]: heedful has cls, max"),
        ("1_Pooling/config.json", {"pooling_mode_new_tokens": True}, r"pools by \['mean', 'pooling_mode_new_tokens'\]"),
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": False}, r"pools by \[\]"),
        (
            "1_Pooling/config.json",
            {"word_embedding_dimension": 7},
            "pools vectors of 7 numbers, but the encoder has 24",
        ),
        (
            "sentence_bert_config.json",
            {"max_seq_length": "long"},
            "max_seq_length = 'long' is not a whole number of 3 or more",
        ),
        ("modules.json", [{"type": "a.Transformer", "path": ""}], "does not name a Pooling"),
        ("modules.json", [{"type": "a.CLIPModel", "path": ""}], "does not begin with the Transformer of this folder"),
        ("modules.json", {"type": "a.Transformer"}, "is not a JSON list"),
        (
            "config_sentence_transformers.json",
            {"prompts": {"query": "query: "}, "default_prompt_name": "query"},
            "default_prompt_name = 'query' puts 'query: ' before each text",
        ),
    ],
)
def test_unsupported_settings_are_named_in_errors(file: str, content: Any, message: str, tmp_path: Path) -> None:
    create_folder(tmp_path, "mean")
    write(tmp_path / file, content)
    with pytest.raises(RunError, match=message):
        heedful.load(tmp_path, device="cpu")


def test_unsupported_modules_are_named_in_errors(tmp_path: Path) -> None:
    create_folder(tmp_path, "mean", more=("2_LSTM",))
    with pytest.raises(RunError, match="has the module LSTM in 2_LSTM, but heedful reads one Pooling, and Dense"):
        heedful.load(tmp_path, device="cpu")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"activation_function": "torch.nn.Softsign"}, "activation_function = 'torch.nn.Softsign': heedful has Tanh"),
        ({"in_features": 5}, "in_features = 5 and out_features = 9 do not fit"),
        ({"bias": False}, "do not fit its weights"),
    ],
)
def test_a_dense_layer_with_a_wrong_shape_is_an_error(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    create_folder(tmp_path, "mean", more=("2_Dense",))
    save_dense_module(tmp_path / "2_Dense", SIZE, 9)
    content = json.loads((tmp_path / "2_Dense/config.json").read_text())
    write(tmp_path / "2_Dense/config.json", {**content, **changes})
    with pytest.raises(RunError, match=message):
        heedful.load(tmp_path, device="cpu")


def test_pickled_layers_are_not_loaded(tmp_path: Path) -> None:
    create_folder(tmp_path, "mean", more=("2_Dense",))
    save_dense_module(tmp_path / "2_Dense", SIZE, 9)
    (tmp_path / "2_Dense/model.safetensors").rename(tmp_path / "2_Dense/pytorch_model.bin")
    with pytest.raises(
        RunError, match=r"2_Dense/pytorch_model\.bin: heedful does not read pickled weights.*save it as model"
    ):
        heedful.load(tmp_path, device="cpu")
