"""Folders that somebody changed and signed anew load, or are refused in a sentence, in little time and memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import hostile, mutations, stored_folders
from random_records import build_random_record
from safetensors.numpy import save_file

from heedful.data.pretrained_tokenizers import HuggingFaceTokenizer, MappedSentencePieceTokenizer, build_wordpiece_json
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import SpecialIds, learn_sentencepiece
from heedful.errors import DataError, RunError
from heedful.inspection.record_files import load_record, save_record
from heedful.retrieval.index import load_index


@pytest.mark.parametrize("kind", ["index", "vocabulary"])
def test_changed_files_load_or_are_refused(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("bm25s" if kind == "index" else "tokenizers", reason="an extra is not installed")
    assert list(hostile.find_faults(kind, tmp_path / kind, seed=1, count=4)) == []


# --- vocabularies of others --------------------------------------------------------------------------------------


def vocabulary(**changes: Any) -> HuggingFaceTokenizer:
    pytest.importorskip("tokenizers", reason="the extra [hf] is not installed")
    ids = {piece: number for number, piece in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"])}
    content = build_wordpiece_json(ids, lowercase=True, strip_accents=None, split_chinese=True)
    given: dict[str, Any] = {"special": SpecialIds(2, 3, 1, 4, others=frozenset({0})), "size": 8}
    return HuggingFaceTokenizer(content, **(given | changes))


def changed(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"size": 10**11},
        {"size": 2**62},
        {"size": -1},
        {"size": "8"},
        {"others": [10**11]},
        {"others": [[1]]},
        {"others": ["a"]},
        {"opening": [-1]},
        {"opening": [8]},
        {"special": {"bos": 2, "eos": 99, "unk": 1, "mask": 4}},
        {"special": {"bos": None, "eos": 3, "unk": 1, "mask": 4}},
    ],
)
def test_vocabularies_of_others_say_nothing_that_cannot_be(tmp_path: Path, changes: Mapping[str, Any]) -> None:
    path = tmp_path / "text"
    vocabulary().save(path)
    assert load_tokenizer(path).size == 8
    changed(path, **changes)
    with pytest.raises(RunError, match="is not a tokenizer, or is damaged"):
        load_tokenizer(path)


def test_a_vocabulary_that_lacks_what_it_needs_says_so_when_it_is_asked() -> None:
    content = build_wordpiece_json(
        {"[CLS]": 0, "[SEP]": 1, "a": 2}, lowercase=True, strip_accents=None, split_chinese=True
    )
    found = HuggingFaceTokenizer(content, special=SpecialIds(0, 1))
    with pytest.raises(DataError, match="the package tokenizers cannot read it"):
        found.encode("z")


@pytest.mark.parametrize("ids", [{"</s>": 0, "<unk>": 1, "▁the": 10**11}, {"</s>": 0, "<unk>": 1, "a": -1}, {}])
def test_lists_of_pieces_with_impossible_ids(ids: dict[str, int]) -> None:
    model = learn_sentencepiece(["the cat sat"] * 9, kind="unigram", size=16, lowercase=True)._to_bytes()
    with pytest.raises(DataError):
        MappedSentencePieceTokenizer(model, ids, special=SpecialIds(1, 0, 1))
    with pytest.raises(DataError, match="no piece for unknown text"):
        MappedSentencePieceTokenizer(model, {"</s>": 0}, special=SpecialIds(0, 0))


# --- records and indices -------------------------------------------------------------------------------------------


def record_with(path: Path, **changes: Any) -> None:
    """A record's file of which the JSON has these values at these dotted places."""
    from safetensors import safe_open

    save_record(build_random_record(layers=1, heads=2), path)
    with safe_open(path, framework="numpy") as file:
        header, arrays = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    content = json.loads(header["heedful.record"])
    for place, value in changes.items():
        *above, last = (int(part) if part.isdecimal() else part for part in place.split("__"))
        holder = content["record"]
        for part in above:
            holder = holder[part]
        holder[last] = value
    save_file(arrays, path, metadata={"heedful.record": json.dumps(content)})


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("maps__0__heads", [0, 1, 2]),
        ("maps__0__heads", [0, 0]),
        ("maps__0__layer", -1),
        ("maps__0__layer", "0"),
        ("maps__0__role", "king"),
        ("maps__0__queries", "nowhere"),
        ("maps__0__weights", 3),
        ("maps__0__weights", {"array": "maps.0.visible"}),
        ("axes__0__tokens", ["a"]),
        ("axes__0__tokens", [1, 2]),
        ("title", None),
        ("tree", [{"parent": 0, "token": "a", "log_probability": 0, "score": None, "fate": "lived", "best": True}]),
        ("answers", [{"about": "tag", "subject": "", "place": 10**9, "options": [], "number": 1.0}]),
        ("answers", [{"about": "tag", "subject": "", "place": None, "options": []}]),
        ("unknown", 1),
    ],
)
def test_records_whose_parts_do_not_fit(tmp_path: Path, place: str, value: Any) -> None:
    path = tmp_path / "r.safetensors"
    record_with(path)
    assert load_record(path).maps
    record_with(path, **{place: value})
    with pytest.raises(RunError, match="the record in it cannot be read"):
        load_record(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("offsets.npy", np.array([0, 10**12, 5, 7], np.int64)),
        ("offsets.npy", np.array([0, 1, 2], np.int64)),
        ("offsets.npy", np.array([0.0, 1, 2, 3])),
        ("vectors.npy", np.zeros((3, 4), np.float32)),
        ("vectors.npy", np.full((3, 3), np.nan, np.float32)),
        ("bm25/indices.csc.index.npy", np.full(14, 10**8, np.int32)),
        ("bm25/indptr.csc.index.npy", np.zeros(3, np.int64)),
        ("bm25/data.csc.index.npy", np.full(14, np.inf, np.float32)),
    ],
)
def test_indices_whose_arrays_do_not_fit(tmp_path: Path, name: str, content: np.ndarray) -> None:
    pytest.importorskip("bm25s", reason="the extra [search] is not installed")
    folder, use = stored_folders.KINDS["index"](tmp_path)
    use()
    if name.startswith("bm25"):
        content = content[: len(np.load(folder / "1" / name))]
    np.save(folder / "1" / name, content)
    mutations.update_digests(folder)
    with pytest.raises(RunError, match="build the index again"):
        use()


def test_an_index_may_have_been_killed_while_its_manifest_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a kill leaves, made by an error that nothing tidies up after."""
    pytest.importorskip("bm25s", reason="the extra [search] is not installed")

    class Killed(BaseException):
        pass

    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("heedful.atomic_io.shutil.rmtree", lambda *_, **__: None)
        patch.setattr(Path, "write_text", die)
        with pytest.raises(Killed):
            stored_folders.KINDS["index"](tmp_path)
    left = sorted(path.name for path in (tmp_path / "index").iterdir())
    assert left == [".lock", ".manifest.json.writing", "1"]
    folder, use = stored_folders.KINDS["index"](tmp_path)
    use()
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "2", "manifest.json"]
    assert len(load_index(folder)) == 3
