"""Folders and files that heedful writes, each with a function that uses it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def _prepare_record(folder: Path) -> tuple[Path, Callable[[], object]]:
    from random_records import build_random_record

    from heedful.cli.commands import run_command
    from heedful.errors import HeedfulError
    from heedful.inspection.record_files import load_record, save_record

    path = folder / "record.safetensors"
    record = build_random_record(layers=2, heads=2, walk=True)
    save_record(record, path)
    run_command(
        "inspect", ["--record", str(path), "-o", str(folder.with_name("page.html")), "--terminal"]
    )  # modules are imported before the fork

    def use_files() -> None:
        repr(load_record(path))
        made = [f"{folder.with_name('made')}{suffix}" for suffix in (".html", ".csv", ".npz", ".svg")]
        run_command("inspect", ["--record", str(path), "-o", made[0], "--numbers", made[1], "--terminal"])
        run_command("inspect", ["--record", str(path), "--numbers", made[2], "--heads", "0", "-o", made[0]])
        for view in ("alignment", "heads", "model", "rollout", "flow", "positions", "tree", "decoding", "unrolled"):
            try:
                run_command("inspect", ["--record", str(path), "--view", view, "--figure", made[3]])
            except HeedfulError:
                continue

    return folder, use_files


def _prepare_index(folder: Path) -> tuple[Path, Callable[[], object]]:
    from heedful.retrieval.index import load_index
    from heedful.retrieval.index_folder import build_index
    from heedful.retrieval.passages import SearchPassage

    texts = ("the cat sat on the mat", "a dog runs in the park", "panthers sacked the quarterback")
    encoder = CountingEncoder()
    build_index(
        folder / "index",
        ((f"line {n}", SearchPassage(str(n), text, "title")) for n, text in enumerate(texts)),
        encoder=encoder,  # type: ignore[arg-type]
        model=folder,
    )

    def use_files() -> None:
        index = load_index(folder / "index", model=encoder)  # type: ignore[arg-type]
        for by in ("bm25", "encoder", "product") if index.has_vectors else ("bm25",):
            index.search("the dog", by=by)  # type: ignore[arg-type]
        repr(index)
        dict(index.rows_by_id)
        index.select_rare_terms("the dog")

    return folder / "index", use_files


class CountingEncoder:
    """Encoder that computes vectors of texts without a model."""

    def embed(self, texts: Any, *, first: int = 1, cut: Any = None) -> np.ndarray:
        """Return three numbers for each text."""
        return np.array([[len(text), text.count("a"), 1] for text in texts], np.float32)


def _prepare_vocabularies(folder: Path) -> tuple[Path, Callable[[], object]]:
    """Write a vocabulary of each kind to a file."""
    from heedful.data.pretrained_tokenizers import (
        HuggingFaceTokenizer,
        MappedSentencePieceTokenizer,
        build_byte_level_json,
        build_wordpiece_json,
        list_language_tags,
    )
    from heedful.data.tokenizer_files import load_tokenizer
    from heedful.data.tokenizers import SpecialIds, learn_characters, learn_sentencepiece, learn_words

    texts = ["the cat sat on the mat", "a dog runs in the park", "Élan vital ﬁne"] * 20
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz", "##t", "the", "cat"]
    ids = {piece: number for number, piece in enumerate(pieces)}
    content = build_wordpiece_json(ids, lowercase=True, strip_accents=None, split_chinese=True)
    HuggingFaceTokenizer(content, special=SpecialIds(2, 3, 1, 4, others=frozenset({0})), size=40).save(
        folder / "wordpiece"
    )
    letters = {letter: number for number, letter in enumerate(["<|endoftext|>", *"abcdefghijklmnopqrstuvwxyzĠ", "th"])}
    bpe = build_byte_level_json(letters, ["t h"], prefix_space=False)
    HuggingFaceTokenizer(bpe, special=SpecialIds(0, 0), size=30).save(folder / "bpe")
    spm = learn_sentencepiece(texts, kind="unigram", size=50, lowercase=True)
    names = {"</s>": 0, "<unk>": 1, "▁the": 2, "▁": 3, "a": 4, "t": 5, "<pad>": 6, ">>fra<<": 7}
    model = spm._to_bytes()
    MappedSentencePieceTokenizer(model, names, special=SpecialIds(6, 0, 1), tag_ids=list_language_tags(names)).save(
        folder / "marian"
    )
    spm.save(folder / "unigram")
    learn_sentencepiece(texts, kind="bpe", size=50, lowercase=False).save(folder / "subwords")
    learn_words(texts, size=20, lowercase=True, masked=True).save(folder / "words")
    learn_characters(texts, size=20, lowercase=True, tags=("<2de>",)).save(folder / "characters")

    def use_files() -> None:
        for path in sorted(folder.iterdir()):
            tokenizer = load_tokenizer(path)
            for text in ("the cat", "Ünïcode ﬁ 漢字 \u0301 [SEP] >>fra<< x", "", "a" * 500):
                ids = tokenizer.encode(text)
                if not all(0 <= number < tokenizer.size for number in ids):
                    raise AssertionError(f"{path.name}: ids {ids} of {tokenizer.size}")
                tokenizer.decode(ids)
                tokenizer.to_pieces(ids)
                tokenizer.get_surfaces(text)
            if tokenizer.size > 2**25:
                raise AssertionError("the size is too large")
            tokenizer.get_continuation_mask()
            repr(tokenizer)
            _ = tokenizer.special.suppressed_ids

    return folder, use_files


def _prepare_golden_run(golden: str) -> Callable[[Path], tuple[Path, Callable[[], object]]]:
    def prepare(folder: Path) -> tuple[Path, Callable[[], object]]:
        import heedful

        source = Path(__file__).parents[1] / "golden" / golden / "run"
        shutil.copytree(source, folder / "run")

        def use_files() -> None:
            predictor = heedful.load(folder / "run", device="cpu")
            if hasattr(predictor, "translate"):
                predictor.translate(["a cat"])
            if hasattr(predictor, "answer_all"):
                predictor.answer_all([("who ?", "the cat sat")])

        return folder / "run", use_files

    return prepare


def _prepare_export(golden: str) -> Callable[[Path], tuple[Path, Callable[[], object]]]:
    def prepare(folder: Path) -> tuple[Path, Callable[[], object]]:
        import heedful
        from heedful.data.pretrained_tokenizers import build_wordpiece_json
        from heedful.runs.export import export_hugging_face

        target = folder / "model"
        export_hugging_face(Path(__file__).parents[1] / "golden" / golden / "run", target)
        size = json.loads((target / "config.json").read_text())["vocab_size"]
        names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<|endoftext|>", "a", "cat"]
        ids = {name: number for number, name in enumerate([*names, *(f"x{n}" for n in range(size - len(names)))])}
        if golden.startswith("pretraining"):  # otherwise the vocabulary of heedful is used
            (target / "heedful.vocabulary").unlink()
            content = build_wordpiece_json(ids, lowercase=True, strip_accents=None, split_chinese=True)
            (target / "tokenizer.json").write_text(json.dumps(content))
            (target / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True}))

        def use_files() -> None:
            predictor = heedful.load(target, device="cpu")
            if hasattr(predictor, "write"):
                predictor.write(["a cat"])
            if hasattr(predictor, "embed"):
                predictor.embed(["a cat"])
            if hasattr(predictor, "fill"):
                predictor.fill(["a [MASK]"])

        return target, use_files

    return prepare


KINDS: dict[str, Callable[[Path], tuple[Path, Callable[[], object]]]] = {
    "record": _prepare_record,
    "index": _prepare_index,
    "vocabulary": _prepare_vocabularies,
    "translation": _prepare_golden_run("translation-transformer"),
    "spans": _prepare_golden_run("spans"),
    "multitask": _prepare_golden_run("multitask"),
    "bert": _prepare_export("pretraining-hidden-tokens"),
    "gpt": _prepare_export("language-transformer"),
}
