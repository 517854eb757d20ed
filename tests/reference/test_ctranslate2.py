"""CTranslate2 computes what ours does: of generators, encoders and translators, of runs and of Hugging Face."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from untrained import untrained_writer

import heedful
from heedful.data.tokenizer_files import load_tokenizer
from heedful.errors import RunError
from heedful.runs.export import export_ctranslate2
from heedful.values import Tokens

ctranslate2 = pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from reference.test_hugging_face import MAKERS  # noqa: E402 - which needs transformers

TEXTS = ["the dog", "a red dog sees the old man", "never"]


def encoders(folder: Path) -> tuple[Any, Any]:
    return ctranslate2.Encoder(str(folder), intra_threads=1), load_tokenizer(folder / "heedful.text")


@pytest.mark.parametrize(
    "kind", ["bert", "bert_masked", "bert_plain", "roberta_prelayernorm", "roberta_prelayernorm_plain"]
)
def test_an_encoder_makes_the_same_vectors(kind: str, tmp_path: Path) -> None:
    MAKERS[kind](tmp_path / "theirs")
    notes = export_ctranslate2(tmp_path / "theirs", tmp_path / "ct2")
    assert bool(notes) == (kind not in ("bert_plain", "roberta_prelayernorm_plain"))
    ours = heedful.load(tmp_path / "theirs", device="cpu")
    encoder = getattr(ours, "model", ours).encoder
    theirs, tokenizer = encoders(tmp_path / "ct2")
    rows = [[7, 8, 9, 10, 11], [12, 13]]
    segments = [[0, 0, 0, 1, 1], [0, 0]] if kind.startswith("bert") else [[0] * 5, [0] * 2]
    found = theirs.forward_batch(rows, token_type_ids=segments)
    hidden = np.array(found.last_hidden_state)
    for number, (ids, parts) in enumerate(zip(rows, segments, strict=True)):
        with torch.no_grad():
            memory = encoder(Tokens(torch.tensor([ids]), torch.arange(len(ids)).unsqueeze(0), torch.tensor([parts])))
        np.testing.assert_allclose(hidden[number, : len(ids)], memory.values[0], atol=1e-4)
        if found.pooler_output is not None:
            np.testing.assert_allclose(np.array(found.pooler_output)[number], memory.summary[0], atol=1e-4)
    own = getattr(ours, "embedder", ours).tokenizer
    assert tokenizer.encode(TEXTS[0]) == own.encode(TEXTS[0])


@pytest.mark.parametrize("kind", ["gpt2", "gpt2_untied"])
def test_a_generator_thinks_the_same_of_texts(kind: str, tmp_path: Path) -> None:
    MAKERS[kind](tmp_path / "theirs")
    assert export_ctranslate2(tmp_path / "theirs", tmp_path / "ct2") == ()
    writer = heedful.load(tmp_path / "theirs", kind=heedful.Writer, device="cpu")
    require_alike(writer, tmp_path / "ct2")


def require_alike(writer: heedful.Writer, folder: Path) -> None:
    generator = ctranslate2.Generator(str(folder), intra_threads=1)
    size = writer.tokenizer.size
    for ids in ([5, 9, 7, 11, 8, 6], [size - 1, 5]):
        tokens = Tokens(torch.tensor([ids]), torch.arange(len(ids)).unsqueeze(0))
        with torch.no_grad():
            logits, _ = writer.model.step(tokens, writer.model.begin())
        expected = logits[0].log_softmax(-1)[torch.arange(len(ids) - 1), ids[1:]]
        (found,) = generator.score_batch([writer.tokenizer.pieces(ids)])
        assert found.log_probs == pytest.approx(expected.tolist(), abs=1e-4)


@pytest.mark.parametrize("kind", ["marian", "marian_apart", "bart"])
def test_translators_of_hugging_face_go_on_to_ctranslate2(kind: str, tmp_path: Path) -> None:
    MAKERS[kind](tmp_path / "theirs")
    assert export_ctranslate2(tmp_path / "theirs", tmp_path / "ct2") == ()
    ours = heedful.load(tmp_path / "theirs", kind=heedful.Translator, device="cpu")
    translator = ctranslate2.Translator(str(tmp_path / "ct2"), intra_threads=1)
    sources, targets = TEXTS, [TEXTS[1], TEXTS[2], TEXTS[0]]
    found = translator.score_batch(
        [ours.source.pieces(ours.source.encode(text)) for text in sources],
        [ours.target.pieces(ours.target.encode(text)) for text in targets],
    )
    for each, mine in zip(found, ours.score(list(zip(sources, targets, strict=True))), strict=True):
        assert each.log_probs == pytest.approx(mine.token_log_probabilities, abs=1e-4)


def test_language_models_of_runs(tmp_path: Path, language: Callable[..., Path]) -> None:
    plain = language(tmp_path / "plain", positions={"kind": "sinusoidal"}, residual="post_norm", bias=False)
    export_ctranslate2(plain, tmp_path / "ct2")
    require_alike(heedful.load(plain, kind=heedful.Writer, device="cpu"), tmp_path / "ct2")
    rotary = language(tmp_path / "rotary", positions={"kind": "rotary"})
    with pytest.raises(RunError, match=r"model\.positions\.kind = rotary: CTranslate2 has only sinusoidal or learned"):
        export_ctranslate2(rotary, tmp_path / "none")
    window = language(tmp_path / "window", visibility={"kind": "window", "before": 2})
    with pytest.raises(RunError, match=r"model\.visibility\.kind = window: CTranslate2 has only causal"):
        export_ctranslate2(window, tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.fixture
def language() -> Callable[..., Path]:
    """A run of a small GPT with random weights, most of them not 0 or 1."""

    def make(folder: Path, **model: Any) -> Path:
        folder.mkdir()
        return untrained_writer(folder, TEXTS, **model)

    return make
