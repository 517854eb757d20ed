"""ONNX Runtime computes the same as heedful: encoders with and without heads, translators and language models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from reference.test_hugging_face import MAKERS
from shape_checks import disable_shape_checks
from untrained_runs import create_language_model_run, create_untrained_run

import heedful
from heedful.errors import MissingExtraError, RunError
from heedful.generation import SuppressTokens
from heedful.generation.search import GreedySearch
from heedful.runs.export import export_onnx
from heedful.runs.load import load_trained_model, open_run
from heedful.tasks.search_factory import LengthLimits
from heedful.tensors import Tokens

GOLDEN = Path(__file__).parents[1] / "golden"
TEXTS = ["the dog", "a red dog sees the old man", "never", "the old man sees a dog never a red man"]
SHAPES = [[[7]], [[5, 6, 7, 8, 9, 10, 11], [4], [9, 5, 8]], [[6, 5], [8, 8]]]
"""Batches of one token, of rows of different lengths, and of full rows."""


def export_model(model: Path, folder: Path) -> tuple[str, ...]:
    """Export a model and return what is left out. Shapes have no numbers during the export, so they are not checked."""
    with disable_shape_checks():
        return export_onnx(model, folder)


class OnnxRuntime:
    """The graphs of a folder, as used by a program without heedful."""

    def __init__(self, folder: Path) -> None:
        self.card = json.loads((folder / "heedful.json").read_text(encoding="utf-8"))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.sessions = {
            name: onnxruntime.InferenceSession(folder / each["file"], options, providers=["CPUExecutionProvider"])
            for name, each in self.card["graphs"].items()
        }
        for name, session in self.sessions.items():
            said = self.card["graphs"][name]
            assert {each.name: each.shape for each in session.get_inputs()} == said["inputs"]
            assert [each.name for each in session.get_outputs()] == said["outputs"]
            assert b".py" not in (folder / said["file"]).read_bytes()  # files of the exporter

    def __call__(self, graph: str, **inputs: NDArray[Any]) -> dict[str, NDArray[Any]]:
        named = {name.replace("_", "."): each for name, each in inputs.items()}
        outputs = self.card["graphs"][graph]["outputs"]
        return dict(zip(outputs, self.sessions[graph].run(outputs, named), strict=True))

    def read(self, graph: str, tokens: Tokens) -> dict[str, NDArray[Any]]:
        """Run a graph on texts whose first three tokens are one part, if it knows parts."""
        inputs = {"ids": tokens.ids, "positions": tokens.positions, "segments": find_parts(tokens)}
        known = self.card["graphs"][graph]["inputs"]
        return self(graph, **{name: each.numpy() for name, each in inputs.items() if name in known})

    def build_state(self, source: Tokens) -> dict[str, NDArray[Any]]:
        """Return the inputs of a step besides the tokens."""
        state = {}
        if "begin" in self.sessions:
            positions = source.positions.numpy()
            hidden = self("encoder", ids=source.ids.numpy(), positions=positions)["hidden"]
            state = self("begin", hidden=hidden, positions=positions) | {"memory.positions": positions}
        sizes = {"batch": len(source.ids), "past": 0}
        for name, shape in self.card["graphs"]["step"]["inputs"].items():
            if name.startswith("past."):
                kind = np.int64 if name == "past.positions" else np.float32
                state[name] = np.zeros([sizes.get(size, size) for size in shape], kind)
        return state

    def step(self, tokens: Tokens, state: dict[str, NDArray[Any]]) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
        found = self("step", ids=tokens.ids.numpy(), positions=tokens.positions.numpy(), **state)
        logits = found.pop("logits")
        return logits, state | {name.replace("next", "past"): each for name, each in found.items()}


def find_parts(tokens: Tokens) -> torch.Tensor:
    return (tokens.positions > 2).long()


def decode_greedily(
    runtime: OnnxRuntime, source: Tokens, start: Tokens, *, side: str, limit: int, never: Sequence[int]
) -> Any:
    """Choose the most probable token until all rows have ended."""
    end, state, read, rows = runtime.card[side]["end"], runtime.build_state(source), start, []
    position = start.positions.amax(1)
    for _ in range(limit):
        logits, state = runtime.step(read, state)
        last = (read.positions == read.positions.amax(1, keepdim=True)).byte().argmax(1)
        logits = logits[np.arange(len(last)), last.numpy()]
        logits[:, never] = -np.inf
        rows.append(torch.from_numpy(logits.argmax(-1)))
        position = position + 1
        read = Tokens(rows[-1].unsqueeze(1), position.unsqueeze(1))
    written = torch.stack(rows, 1).tolist()
    return [row[: row.index(end)] if end in row else row for row in written]


def batch(rows: Sequence[Sequence[int]], *, left: bool = False) -> Tokens:
    """Build rows with padding on one side or the other."""
    longest = max(map(len, rows))
    block = np.full((len(rows), longest), -1)
    for line, row in zip(block, rows, strict=True):
        line[slice(longest - len(row), None) if left else slice(len(row))] = row
    places = np.where(block < 0, -1, np.cumsum(block >= 0, 1) - 1)
    return Tokens(torch.from_numpy(np.maximum(block, 0)), torch.from_numpy(places))


def require_near(found: NDArray[Any], expected: torch.Tensor, tokens: Tokens, *, atol: float = 1e-4) -> None:
    """Require equal numbers at positions with tokens, and finite numbers elsewhere."""
    real = tokens.positions.numpy() >= 0
    assert np.isfinite(found).all()
    assert expected.std() > 0.1
    np.testing.assert_allclose(found[real], expected.numpy()[real], atol=atol, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "bert",
        "bert_masked",
        "bert_plain",
        "roberta_prelayernorm",
        "roberta_prelayernorm_plain",
        "distilbert",
        "mpnet",
        "albert_masked",
    ],
)
def test_an_encoder_computes_the_same_vectors(kind: str, tmp_path: Path) -> None:
    MAKERS[kind](tmp_path / "theirs")
    export_model(tmp_path / "theirs", tmp_path / "onnx")
    ours, runtime = heedful.load(tmp_path / "theirs", device="cpu"), OnnxRuntime(tmp_path / "onnx")
    model = getattr(ours, "model", ours)
    assert ("masked" in runtime.sessions) == hasattr(model, "masked")
    for rows, left in product(SHAPES, (False, True)):
        tokens = batch(rows, left=left)
        found = runtime.read("encoder", tokens)
        with torch.no_grad():
            memory = model.encoder(replace(tokens, segments=find_parts(tokens)))
        require_near(found["hidden"], memory.values, tokens, atol=1e-5)
        if "masked" in runtime.sessions:
            logits = runtime("masked", hidden=found["hidden"].reshape(-1, memory.values.size(2)))["logits"]
            with torch.no_grad():
                expected = model.masked.output(model.masked(memory.values))
            require_near(logits.reshape(expected.shape), expected, tokens)
    card, embedder = runtime.card["text"], getattr(ours, "embedder", ours)
    tokens = batch([[*card["before"], *embedder.tokenizer.encode(text), *card["after"]] for text in TEXTS])
    inputs = {"ids": tokens.ids, "positions": tokens.positions, "segments": torch.zeros_like(tokens.ids)}
    known = runtime.card["graphs"]["encoder"]["inputs"]
    found = runtime("encoder", **{name: each.numpy() for name, each in inputs.items() if name in known})
    np.testing.assert_allclose(found["embedding"], embedder.embed(TEXTS), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "of"),
    [
        pytest.param("classification", "class", marks=pytest.mark.slow),
        ("classification-numbers", "number"),
        pytest.param("classification-choice", "candidate", marks=pytest.mark.slow),
        pytest.param("tagging-transformer", "token", marks=pytest.mark.slow),
        pytest.param("spans", "ends", marks=pytest.mark.slow),
    ],
)
def test_heads_give_the_same_answers(run: str, of: str, tmp_path: Path) -> None:
    card, model = require_same_head(GOLDEN / run / "run", tmp_path / "onnx")
    assert (card["kind"], card["head"]["of"]) == ("classifier", of)
    assert len(card["head"]["names"]) == (model.output.out_features if of in ("class", "token") else 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [{"summary": {"kind": "self_attentive", "hops": 2, "d_alignment": 5}}, {"summary": {"kind": "mean"}}]
)
def test_heads_of_any_kind(model: dict[str, Any], tmp_path: Path) -> None:
    run = create_classification_run(tmp_path, d_hidden=12, segments=1, residual="pre_norm", **model)
    card, _ = require_same_head(run, tmp_path / "onnx")
    assert card["head"] == {"of": "class", "names": ["outside", "home"]}
    assert list(card["graphs"]["classifier"]["inputs"]) == ["ids", "positions"]


def test_n_gram_classifiers_cannot_be_exported(tmp_path: Path) -> None:
    run = create_classification_run(tmp_path, bag={"longest": 2, "buckets": 64})
    with pytest.raises(RunError, match=r"model\.bag\.longest = 2: the export to ONNX has no n-grams; train a model w"):
        export_model(run, tmp_path / "onnx")


def require_same_head(folder: Path, into: Path) -> tuple[dict[str, Any], Any]:
    """Require the same logits; return the card and the model."""
    assert export_model(folder, into) == ()
    model, runtime = heedful.load(folder, device="cpu").model, OnnxRuntime(into)
    card = runtime.card
    parted = "segments" in card["graphs"]["classifier"]["inputs"]
    for rows, left in product(SHAPES, (False, True)):
        tokens = batch(rows, left=left)
        found = runtime.read("classifier", tokens)["logits"]
        with torch.no_grad():
            expected = model.output(model(replace(tokens, segments=find_parts(tokens) if parted else None)))
        real = tokens.positions.numpy() >= 0 if expected.dim() == 3 else np.full(len(rows), True)
        np.testing.assert_allclose(found[real], expected.numpy()[real], atol=1e-4)
    return card, model


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "left"),
    [
        ("matching", ""),
        ("pretraining-replaced-tokens", "activation, dense, generator, verdict"),
        ("multitask", "head-"),
    ],
)
def test_other_encoders_export_only_vectors(run: str, left: str, tmp_path: Path) -> None:
    folder = GOLDEN / run / "run"
    notes = export_model(folder, tmp_path / "onnx")
    assert notes == () if not left else f"left out of the graphs: {left}" in notes[0]
    runtime = OnnxRuntime(tmp_path / "onnx")
    assert runtime.card["kind"] == "encoder"
    encoder = load_trained_model(open_run(folder), device=torch.device("cpu")).get_submodule("encoder")
    tokens = batch(SHAPES[1])
    parted = "segments" in runtime.card["graphs"]["encoder"]["inputs"]
    with torch.no_grad():
        memory = encoder(replace(tokens, segments=find_parts(tokens) if parted else None))
    require_near(runtime.read("encoder", tokens)["hidden"], memory.values, tokens, atol=1e-5)


TRANSLATORS: dict[str, dict[str, Any]] = {
    "plain": {},
    "pre_norm": {"residual": "pre_norm", "output_bias": True, "activation": "gelu"},
    "learned": {"positions": {"kind": "learned", "length": 300}, "embedding_norm": True, "tie": "three_way"},
    "rotary": {"positions": {"kind": "rotary"}, "scale_embedding": False},
    "shaw": {"positions": {"kind": "shaw", "clip": 2}, "residual": "pre_norm"},
    "integer": {"positions": {"kind": "integer"}, "residual": "pre_norm"},
    "unit_interval": {"positions": {"kind": "unit_interval"}},
    "window": {
        "encoder_visibility": {"kind": "window", "before": 1, "after": 2},
        "decoder_visibility": {"kind": "window", "before": 2},
    },
    "mean": {"aggregation": "mean", "shared_key_value": True, "positions": {"kind": "none"}},
    "additive": {"cross_attention": {"score": "additive"}, "self_attention": {"score": "general"}},
    "proportional": {"cross_attention": {"score": "exp_dot", "weights": "proportional"}, "aggregation": "concat"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSLATORS)
def test_translators_of_any_kind(name: str, tmp_path: Path) -> None:
    run = create_translation_run(tmp_path, **TRANSLATORS[name])
    assert export_model(run, tmp_path / "onnx") == ()
    require_same_translator(heedful.load(run, kind=heedful.Translator, device="cpu"), tmp_path / "onnx", TEXTS)


@pytest.mark.slow
def test_graphs_have_no_fixed_length(tmp_path: Path) -> None:
    """heedful uses other kernels for long texts than for short ones, and computes windows block by block."""
    run = create_translation_run(tmp_path, positions={"kind": "rotary"}, **TRANSLATORS["window"])
    export_model(run, tmp_path / "onnx")
    model, runtime = heedful.load(run, kind=heedful.Translator, device="cpu").models[0], OnnxRuntime(tmp_path / "onnx")
    dice = np.random.default_rng(1)
    rows = [dice.integers(4, 12, length).tolist() for length in (300, 7, 290)]
    require_same_logits(runtime, model, batch(rows), batch(rows[::-1]), sizes=(300, 70))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["marian", "marian_apart", "bart"])
def test_translators_of_hugging_face(kind: str, tmp_path: Path) -> None:
    MAKERS[kind](tmp_path / "theirs")
    assert export_model(tmp_path / "theirs", tmp_path / "onnx") == ()
    translator = heedful.load(tmp_path / "theirs", kind=heedful.Translator, device="cpu")
    require_same_translator(translator, tmp_path / "onnx", TEXTS)


@pytest.mark.slow
def test_a_trained_translator(tmp_path: Path) -> None:
    folder = GOLDEN / "translation-transformer/run"
    export_model(folder, tmp_path / "onnx")
    translator = heedful.load(folder, kind=heedful.Translator, device="cpu")
    texts = ["the dog hears the sea .", "my friend likes a child .", "a bird", "a bird sees the cat ."]
    found = require_same_translator(translator, tmp_path / "onnx", texts)
    assert found[0] == "der hund hört das meer."
    assert len(set(found)) == 4


def require_same_translator(translator: heedful.Translator, folder: Path, texts: list[str]) -> list[str]:
    """Require the same logits and translations; return both."""
    runtime, model = OnnxRuntime(folder), translator.models[0]
    targets: list[list[list[int]]] = [[[4, 5, 6]], [[4], [5, 6, 7, 4, 9], [8, 4]], [[6], [7]]]
    for (source_rows, target_rows), left in product(zip(SHAPES, targets, strict=True), (False, True)):
        require_same_logits(runtime, model, batch(source_rows, left=left), batch(target_rows, left=left))
    card = runtime.card
    rows = [
        [*card["source"]["before"], *encode_plain(translator.source, text), *card["source"]["after"]] for text in texts
    ]
    start, never = batch([card["target"]["start"]] * len(rows)), card["target"]["never"]
    found = decode_greedily(runtime, batch(rows), start, side="target", limit=12, never=never)
    unspeakable = translator.target.special.suppressed_ids
    search = GreedySearch(translator.target.special.eos, (SuppressTokens(unspeakable),) if unspeakable else ())
    opening = card["target"]["start"][1:]
    expected = translator.translate(texts, search=search, length=LengthLimits(0.0, 12 + len(opening)))
    assert [[*opening, *row] for row in found] == [list(each.candidates[0].ids) for each in expected]
    return [translator.target.decode(row) for row in found]


def encode_plain(tokenizer: Any, text: str) -> list[int]:
    """Return the ids without the prefix that heedful adds."""
    ids: list[int] = tokenizer.encode(text)
    return ids[len(tokenizer.prefix_ids) :]


def require_same_logits(
    runtime: OnnxRuntime, model: Any, source: Tokens, target: Tokens, *, sizes: tuple[int, ...] = (99, 1, 2)
) -> None:
    """Require the same for chunks of several sizes, the first of which is everything; heedful reads in one chunk."""
    with torch.no_grad():
        expected, _ = model.step(target, model.init_state(source if "begin" in runtime.sessions else None))
    length = target.ids.size(1)
    for size in sizes:
        state, parts = runtime.build_state(source), []
        for start in range(0, length, size):
            logits, state = runtime.step(target.slice_columns(start, start + size), state)
            parts.append(logits)
        require_near(np.concatenate(parts, 1), expected, target)
    assert state["past.positions"].tolist() == target.positions.tolist()


WRITERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "sinusoidal": {"positions": {"kind": "sinusoidal"}, "residual": "post_norm", "bias": False},
    "rotary": {"positions": {"kind": "rotary"}, "tie": False, "output_bias": True},
    "grouped": {
        "positions": {"kind": "rotary", "share": 0.5, "base": 500.0},
        "key_value_heads": 1,
        "query_key_norm": True,
        "gated": True,
        "norm": "rms",
    },
    "shaw": {"positions": {"kind": "shaw", "clip": 3, "values": False}},
    "window": {"visibility": {"kind": "window", "before": 2}},
}


@pytest.mark.slow
def test_a_trained_writer(tmp_path: Path) -> None:
    folder = GOLDEN / "language-transformer/run"
    assert export_model(folder, tmp_path / "onnx") == ()
    writer = heedful.load(folder, kind=heedful.TextGenerator, device="cpu")
    found = require_same_writer(writer, tmp_path / "onnx")
    assert len(set(found)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITERS)
def test_writers_of_any_kind(name: str, tmp_path: Path) -> None:
    run = create_language_model_run(tmp_path, TEXTS, **WRITERS[name])
    assert export_model(run, tmp_path / "onnx") == ()
    require_same_writer(heedful.load(run, kind=heedful.TextGenerator, device="cpu"), tmp_path / "onnx")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt2", "gpt2_untied"])
def test_language_models_of_hugging_face(kind: str, tmp_path: Path) -> None:
    MAKERS[kind](tmp_path / "theirs")
    assert export_model(tmp_path / "theirs", tmp_path / "onnx") == ()
    require_same_writer(heedful.load(tmp_path / "theirs", kind=heedful.TextGenerator, device="cpu"), tmp_path / "onnx")


def require_same_writer(writer: heedful.TextGenerator, folder: Path) -> list[str]:
    """Require the same logits and continuations; return both."""
    runtime, tokenizer, prompts = OnnxRuntime(folder), writer.tokenizer, ["a", "the old", ""]
    for rows, left in product(([[4]], [[4, 5, 6, 7, 8], [5], [6, 4]], [[7, 8], [9, 4]]), (False, True)):
        tokens = batch(rows, left=left)
        require_same_logits(runtime, writer.model, tokens, tokens)
    card = runtime.card["text"]
    forbidden = (*tokenizer.special.suppressed_ids, *([] if tokenizer.special.unk is None else [tokenizer.special.unk]))
    assert (card["end"], card["never"]) == (tokenizer.special.eos, sorted(forbidden))
    search = GreedySearch(tokenizer.special.eos, (SuppressTokens(forbidden),) if forbidden else ())
    expected = [each[0].tokens for each in writer.write(prompts, search=search, limit=6)]
    for left in (False, True):
        read = batch([[*card["start"], *encode_plain(tokenizer, text)] for text in prompts], left=left)
        found = decode_greedily(runtime, read, read, side="text", limit=6, never=card["never"])
        assert [tuple(tokenizer.to_pieces(row)) for row in found] == expected
    return ["".join(each) for each in expected]


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (
            {"cross_attention": {"score": "location"}},
            r"model\.cross_attention\.score = location: the export to ONNX has only scaled_dot or dot .* train a model",
        ),
        (
            {"self_attention": {"weights": "straight_through"}},
            r"model\.self_attention\.weights = straight_through: the export to ONNX has only softmax or proportional;",
        ),
    ],
)
def test_models_that_no_graph_can_express_are_errors(model: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    run = create_translation_run(tmp_path, **model)
    with pytest.raises(RunError, match=complaint):
        export_model(run, tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()


@pytest.mark.parametrize(
    ("run", "found"),
    [
        ("translation-recurrent", "recurrent"),
        ("translation-convolutional", "convolutional"),
        ("captioning", "captioner"),
        ("speech", "transformer"),
        ("conversation-decoder-only", "decoder_only"),
    ],
)
def test_models_of_other_kinds_are_errors(run: str, found: str, tmp_path: Path) -> None:
    complaint = rf"{run}/run: its model is of the kind {found}.*; only Transformers .*: give a run that has one"
    with pytest.raises(RunError, match=complaint):
        export_model(GOLDEN / run / "run", tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()


def test_missing_packages_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.foreign.onnx_export.find_spec", lambda name: None if name == "onnxscript" else name)
    with pytest.raises(MissingExtraError, match=r"needs the package onnxscript: pip install 'heedful\[onnx\]'"):
        export_model(GOLDEN / "language-transformer/run", tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()


def test_a_conversation_with_three_vocabularies_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="conversation-transformer/run: encoder and decoder read more than two texts"):
        export_model(GOLDEN / "conversation-transformer/run", tmp_path / "onnx")


def create_translation_run(folder: Path, **model: Any) -> Path:
    """Create a run with random weights."""
    for name, texts in (("a", TEXTS), ("b", TEXTS[::-1])):
        (folder / f"{name}.txt").write_text("\n".join(texts * 9), encoding="utf-8")
    paths = {"source": str(folder / "a.txt"), "target": str(folder / "b.txt")}
    return create_untrained_run(
        {
            "output": str(folder / "run"),
            "data": {"train": paths, "validation": paths},
            "tokenizer": {"kind": "characters"},
            "model": {
                "d_model": 16,
                "heads": 2,
                "d_ff": 24,
                "encoder_layers": 1,
                "decoder_layers": 2,
                "tie": "none",
                **model,
            },
            "training": {"steps": 1},
        }
    )


def create_classification_run(folder: Path, **model: Any) -> Path:
    golden = GOLDEN / "classification"
    return create_untrained_run(
        {
            "task": "classification",
            "output": str(folder / "run"),
            "data": {name: {"path": str(golden / f"{name}.tsv")} for name in ("train", "validation")},
            "tokenizer": {"kind": "words"},
            "model": {"d_model": 16, "heads": 2, "d_ff": 24, "layers": 1, **model},
            "training": {"steps": 1},
        }
    )
