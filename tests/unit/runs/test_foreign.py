"""Other programs must compute what ours does from what was exported to them."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from untrained_runs import create_untrained_run

import heedful
from heedful.data.batches import collate_sources
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import BOS, EOS, PAD
from heedful.errors import RunError
from heedful.generation import NoLengthPenalty, SuppressTokens
from heedful.generation.search import BeamSearch, GreedySearch
from heedful.runs.export import export_ctranslate2, export_marian
from heedful.runs.load import open_run
from heedful.tasks.search_factory import LengthLimits
from heedful.tensors import Tokens

WORDS = ["red", "blue", "green", "dogs", "cats", "birds", "run", "sleep", "sing", "today", "never", "often"]
SENTENCES = ["red dogs run", "never", "blue birds sing often today never run", "green cats sleep today"]


def text(path: Path, seed: int) -> Path:
    dice = random.Random(seed)
    path.write_text("".join(f"{' '.join(dice.choices(WORDS, k=dice.randint(1, 9)))}\n" for _ in range(200)))
    return path


def random_run(folder: Path, *, tokenizer: dict[str, Any] | None = None, **model: Any) -> Path:
    """A run with weights that nobody trained, all of them different from 0 and 1."""
    paths = {"source": str(text(folder / "a.txt", 1)), "target": str(text(folder / "b.txt", 2))}
    return create_untrained_run(
        {
            "output": str(folder / "run"),
            "data": {"train": paths, "validation": paths},
            "tokenizer": tokenizer or {"kind": "words"},
            "model": {"d_model": 16, "heads": 2, "d_ff": 24, "encoder_layers": 2, "decoder_layers": 3, **model},
            "training": {"steps": 1},
        }
    )


def marian(folder: Path) -> Any:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return transformers.MarianMTModel.from_pretrained(folder).eval()


def logits_of_both(run: Path, folder: Path) -> tuple[Tensor, Tensor, Tensor]:
    """Ours and Marian's for random pairs, and where there is a target token."""
    export_marian(run, folder)
    theirs, translator = marian(folder), heedful.load(run, device="cpu")
    ours: Any = translator.models[0]
    sizes = translator.source.size, translator.target.size
    source = collate_sources([torch.randint(4, sizes[0], (n,)).tolist() for n in (6, 1, 9)], eos=EOS)
    target = Tokens.from_ids(torch.randint(4, sizes[1], (3, 7)), pad=PAD)
    with torch.no_grad():
        mine, _ = ours.step(target, ours.init_state(source))
        found = theirs(
            input_ids=source.ids, attention_mask=(source.positions >= 0).long(), decoder_input_ids=target.ids
        )
    return mine, found.logits, target.positions >= 0


@pytest.mark.parametrize(
    "model",
    [
        {},
        {"activation": "gelu", "scale_embedding": False, "output_bias": True},
        {"tie": "two_way"},
        {"tie": "none", "output_bias": True},
    ],
    ids=["plain", "gelu", "two_way", "none"],
)
def test_marian_has_the_same_logits(tmp_path: Path, model: dict[str, Any]) -> None:
    mine, theirs, real = logits_of_both(random_run(tmp_path, **model), tmp_path / "marian")
    assert mine.std() > 0.1
    torch.testing.assert_close(theirs[real], mine[real], rtol=1e-4, atol=1e-5)


def test_marian_with_two_vocabularies(tmp_path: Path) -> None:
    run = random_run(tmp_path, tokenizer={"kind": "words", "joint": False, "size": 12}, tie="two_way")
    mine, theirs, real = logits_of_both(run, tmp_path / "marian")
    torch.testing.assert_close(theirs[real], mine[real], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("width", [1, 3])
def test_marian_writes_the_same_translations(tmp_path: Path, width: int) -> None:
    run = random_run(tmp_path)
    export_marian(run, tmp_path / "marian")
    model, translator = marian(tmp_path / "marian"), heedful.load(run, device="cpu")
    ids = [translator.source.encode(sentence) for sentence in SENTENCES]
    source = collate_sources(ids, eos=EOS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.generate(
            source.ids,
            attention_mask=(source.positions >= 0).long(),
            max_length=None,
            max_new_tokens=8,
            num_beams=width,
            length_penalty=0.0,
            early_stopping="never" if width > 1 else False,
        )
    expected = ours(translator, width=width, limit=8)
    for row, sentence in zip(found.tolist(), expected, strict=True):
        assert row[0] == BOS
        kept = [number for number in row if number not in {PAD, BOS, EOS}]
        assert tuple(translator.target.to_pieces(kept)) == sentence


def ours(translator: Any, *, width: int, limit: int) -> list[tuple[str, ...]]:
    translator.length = LengthLimits(0.0, limit)
    forbid = (SuppressTokens((PAD, BOS)),)
    search = GreedySearch(EOS, forbid) if width == 1 else BeamSearch(EOS, width, NoLengthPenalty(), filters=forbid)
    found = translator.translate(SENTENCES, search=search)
    return [each.candidates[0].tokens for each in found]


@pytest.mark.parametrize(
    "model",
    [
        {},
        {"activation": "gelu", "scale_embedding": False, "output_bias": True, "tie": "none"},
        {"residual": "pre_norm", "tie": "two_way"},
        {"positions": {"kind": "learned", "length": 300}},
        {"positions": {"kind": "integer"}, "residual": "pre_norm"},
    ],
    ids=["plain", "gelu", "pre_norm", "learned", "integer"],
)
def test_ctranslate2_writes_the_same_translations(tmp_path: Path, model: dict[str, Any]) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    run = random_run(tmp_path, **model)
    export_ctranslate2(run, tmp_path / "ct2")
    theirs = ctranslate2.Translator(str(tmp_path / "ct2"), intra_threads=1)
    translator = heedful.load(run, device="cpu")
    pieces = [translator.source.to_pieces(translator.source.encode(sentence)) for sentence in SENTENCES]
    for limit in (3, 9):
        found = theirs.translate_batch(
            pieces, beam_size=1, max_decoding_length=limit, suppress_sequences=[["<pad>"], ["<s>"]]
        )
        assert [tuple(each.hypotheses[0]) for each in found] == ours(translator, width=1, limit=limit)
    # A beam of theirs is cut and ended in another way, so only what it thinks of given sentences is compared.
    targets = [" ".join(random.choices(WORDS, k=n)) for n in (1, 4, 7, 2)]
    scored = theirs.score_batch(pieces, [target.split() for target in targets])
    mine = translator.score(list(zip(SENTENCES, targets, strict=True)))
    for score, each in zip(scored, mine, strict=True):
        assert score.log_probs == pytest.approx(each.token_log_probabilities, abs=1e-4)


@pytest.mark.parametrize("kind", ["bpe", "words", "characters"])
def test_ctranslate2_has_its_tokenizers_beside_it(tmp_path: Path, kind: str) -> None:
    """Text in, text out, with nothing but the folder."""
    ctranslate2 = pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    size = {"size": 40} if kind == "bpe" else {}
    run = random_run(tmp_path, tokenizer={"kind": kind, **size})
    folder = tmp_path / "ct2"
    export_ctranslate2(run, folder)
    names = [f"{side}.spm" if kind == "bpe" else f"heedful.{side}" for side in ("source", "target")]
    source, target = (load_tokenizer(folder / name) for name in names)
    translator = heedful.load(run, device="cpu")
    pieces = [source.to_pieces(source.encode(sentence)) for sentence in SENTENCES]
    assert pieces == [translator.source.to_pieces(translator.source.encode(sentence)) for sentence in SENTENCES]
    for sentence in SENTENCES:
        assert target.decode_pieces(target.to_pieces(target.encode(sentence))) == target.decode(target.encode(sentence))
    found = ctranslate2.Translator(str(folder), intra_threads=1).translate_batch(
        pieces, beam_size=1, max_decoding_length=9, suppress_sequences=[["<pad>"], ["<s>"]]
    )
    wanted = ours(translator, width=1, limit=9)
    assert [tuple(each.hypotheses[0]) for each in found] == wanted
    texts = [target.decode_pieces(each.hypotheses[0]) for each in found]
    assert texts == [translator.target.decode_pieces(tokens) for tokens in wanted]
    assert any(texts)


def test_int8_is_smaller_and_close(tmp_path: Path) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    run = random_run(tmp_path, d_model=64, d_ff=256)
    export_ctranslate2(run, tmp_path / "exact")
    export_ctranslate2(run, tmp_path / "int8", quantization="int8")
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("exact", "int8")]
    assert sizes[1] < 0.8 * sizes[0]  # the table of positions, most of so small a model, stays exact
    scores = []
    for name in ("exact", "int8"):
        translator = ctranslate2.Translator(
            str(tmp_path / name), intra_threads=1, compute_type=name.replace("exact", "float32")
        )
        found = translator.score_batch([["red", "dogs"]], [["blue", "cats", "never"]])
        scores.append(torch.tensor(found[0].log_probs))
    assert scores[0].std() > 0.1
    torch.testing.assert_close(scores[1], scores[0], atol=0.3, rtol=0)


def test_marian_reads_text_as_we_do(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    run = random_run(tmp_path, tokenizer={"kind": "bpe", "size": 60})
    export_marian(run, tmp_path / "marian")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path / "marian")
    for sentence in SENTENCES:
        ids = open_run(run).get_tokenizer("tokenizer/source").encode(sentence)
        assert tokenizer(sentence).input_ids == [*ids, EOS]
        assert tokenizer.decode([*ids, EOS], skip_special_tokens=True) == sentence


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ({"positions": {"kind": "rotary"}}, "model.positions.kind = rotary"),
        ({"positions": {"kind": "learned", "length": 300}}, "model.positions.kind = learned"),
        ({"residual": "pre_norm"}, "model.residual = pre_norm"),
        ({"aggregation": "concat"}, "model.aggregation = concat"),
        ({"shared_key_value": True}, "model.shared_key_value = True"),
        ({"positions": {"kind": "unit_interval"}}, "model.positions.kind = unit_interval"),
        ({"encoder_visibility": {"kind": "window", "before": 1, "after": 1}}, "model.encoder_visibility.kind = window"),
        ({"decoder_visibility": {"kind": "window", "before": 1}}, "model.decoder_visibility.kind = window"),
    ],
    ids=lambda value: value.split(".")[1].split(" ")[0] if isinstance(value, str) else "",
)
def test_what_a_format_has_not_is_named(tmp_path: Path, model: dict[str, Any], key: str) -> None:
    run = random_run(tmp_path, **model)
    with pytest.raises(RunError, match=key.replace(".", r"\.")):
        export_marian(run, tmp_path / "marian")
    assert not (tmp_path / "marian").exists()
    if "encoder_visibility" in model or "decoder_visibility" in model:
        pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
        with pytest.raises(RunError, match=key.replace(".", r"\.")):
            export_ctranslate2(run, tmp_path / "ct2")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    run = random_run(tmp_path)
    with pytest.raises(RunError, match="not empty"):
        export_marian(run, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        export_marian(run, tmp_path / "file" / "inside")


def test_an_export_that_was_cut_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = random_run(tmp_path)
    before = sorted(tmp_path.iterdir())

    def cut(*_: object, **__: object) -> list[str]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("heedful.foreign.hugging_face_export._write_vocabularies", cut)
        with pytest.raises(KeyboardInterrupt):
            export_marian(run, tmp_path / "marian")
    assert sorted(tmp_path.iterdir()) == before
    export_marian(run, tmp_path / "marian")
    assert (tmp_path / "marian" / "config.json").exists()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            {"positions": {"kind": "unit_interval"}},
            r"model\.positions\.of = sentence: CTranslate2 has one vector for each",
        ),
        ({"aggregation": "mean"}, r"model\.aggregation = mean: CTranslate2 has only project or concat"),
        (
            {"self_attention": {"score": "general"}},
            r"self_attention\.score = general: CTranslate2 has only scaled_dot or",
        ),
    ],
    ids=["unit_interval", "mean", "general"],
)
def test_what_ctranslate2_has_not_is_named(tmp_path: Path, model: dict[str, Any], message: str) -> None:
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    with pytest.raises(RunError, match=message):
        export_ctranslate2(random_run(tmp_path, **model), tmp_path / "ct2")
