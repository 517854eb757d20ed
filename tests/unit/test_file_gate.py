"""The one way in which files are opened: what is not a regular file, too large, too deep, or has no possible name."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import heedful
from heedful.atomic_io import (
    MANIFEST,
    RunManifest,
    compute_digest,
    load_tensors,
    read_header,
    read_manifest,
    save_tensors,
)
from heedful.data.corpus import Corpus
from heedful.data.labels import LabelVocabulary
from heedful.data.readers import read_json_object
from heedful.data.tokenizer_files import load_tokenizer
from heedful.errors import DataError, HeedfulError, RecipeError, RunError
from heedful.files import (
    MAX_JSON_DEPTH,
    MAX_TOML_DEPTH,
    NestedTooDeeplyError,
    UnsuitableFileError,
    find_name_problem,
    is_plain_name,
    open_regular,
    parse_json,
    parse_toml,
    read_bytes,
    resolve_inside,
)
from heedful.inspection.record_files import load_record
from heedful.recipes.load import load_recipe
from heedful.retrieval.index_folder import read_index_manifest
from heedful.runs.metrics_log import read_curve
from heedful.serving.settings import load_settings


@pytest.fixture(autouse=True)
def no_waiting() -> Iterator[None]:
    """What waits for a pipe is interrupted."""

    def end(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


def listening(path: Path) -> None:
    here = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as each:
            each.bind(path.name)
    finally:
        os.fchdir(here)
        os.close(here)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        try:
            file.truncate(2**42)
        except OSError:
            pytest.skip("the file system has no files of 4 TiB")


SPECIAL = (pipe, endless, folder, listening, huge)


@pytest.mark.parametrize("make", SPECIAL)
@pytest.mark.parametrize(
    ("name", "read"),
    [
        (MANIFEST, lambda path: read_manifest(path.parent)),
        (MANIFEST, lambda path: read_index_manifest(path.parent)),
        ("config.json", lambda path: heedful.load(path.parent)),
        ("r.toml", load_recipe),
        ("settings.toml", lambda path: load_settings(path, [], {})),
        ("text", load_tokenizer),
        ("labels", LabelVocabulary.load),
        ("record.safetensors", load_record),
        ("corpus.json", lambda path: Corpus.open(path.parent)),
    ],
)
def test_what_is_no_regular_file_of_a_possible_size_is_refused_at_once(
    tmp_path: Path, make: Callable[[Path], None], name: str, read: Callable[[Path], object]
) -> None:
    make(tmp_path / name)
    with pytest.raises(HeedfulError):
        read(tmp_path / name)


@pytest.mark.parametrize("make", SPECIAL)
def test_weights_that_are_no_regular_file_are_refused_before_they_are_read(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "x.safetensors")
    with pytest.raises(RunError, match=r"cannot be read|leads out of the folder"):
        load_tensors(tmp_path, "x.safetensors", manifest=RunManifest(files={"x.safetensors": "0" * 64}))


def test_a_curve_of_a_pipe_is_empty(tmp_path: Path) -> None:
    pipe(tmp_path / "metrics.jsonl")
    assert read_curve(tmp_path / "metrics.jsonl").validation == ()


def test_a_file_says_what_it_is_instead(tmp_path: Path) -> None:
    for make, words in zip(SPECIAL, ("named pipe", "device", "folder", "socket|No such device", "bytes"), strict=True):
        make(tmp_path / make.__name__)
        with pytest.raises(OSError, match=words):
            read_bytes(tmp_path / make.__name__)
    (tmp_path / "plain").write_bytes(b"12345")
    assert read_bytes(tmp_path / "plain", max_bytes=5) == b"12345"
    with pytest.raises(UnsuitableFileError, match="5 bytes; the maximum is 4"):
        read_bytes(tmp_path / "plain", max_bytes=4)
    with open_regular(tmp_path / "plain") as file:
        assert file.read() == b"12345"


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("é" * 127, False),
        ("é" * 128, True),
        ("a" * 255, False),
        ("a" * 256, True),
        ("a/" * 3000, True),
        ("a\0b", True),
        ("\ud800", True),
        ("\udcff", False),
    ],
)
def test_names_that_no_file_has(name: str, wrong: bool) -> None:
    assert (find_name_problem(name) is not None) is wrong


def test_folders_of_impossible_names_are_told(tmp_path: Path) -> None:
    for name in ("a" * 300, "b\0", "\ud800"):
        for read in (read_manifest, read_index_manifest, heedful.load):
            if "\0" in name and read is heedful.load:  # its arguments are judged before any folder is
                expected, message = RecipeError, "contains a null character"
            else:
                expected, message = RunError, "cannot be a path"
            with pytest.raises(expected, match=message):
                read(tmp_path / name)  # type: ignore[operator]


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "", ".", "a\0", "x" * 300, "..\\x", "C:x"])
def test_names_that_lead_out_of_a_folder(tmp_path: Path, name: str) -> None:
    assert not is_plain_name(name)
    with pytest.raises(UnsuitableFileError):
        resolve_inside(tmp_path, name)
    (tmp_path / MANIFEST).write_text(json.dumps({"format": 1, "checkpoints": [], "files": {name: "0" * 64}}))
    with pytest.raises(RunError, match="is damaged"):
        read_manifest(tmp_path)


def test_links_lead_out_of_no_folder(tmp_path: Path) -> None:
    inner = tmp_path / "run"
    inner.mkdir()
    sum_ = save_tensors(tmp_path / "secret.safetensors", {"a": torch.ones(2)})
    (inner / "x.safetensors").symlink_to(tmp_path / "secret.safetensors")
    with pytest.raises(RunError, match="a link leads out of the folder"):
        load_tensors(inner, "x.safetensors", manifest=RunManifest(files={"x.safetensors": sum_}))
    (inner / "inside").mkdir()
    (tmp_path / "secret.safetensors").rename(inner / "inside" / "y.safetensors")
    (inner / "z.safetensors").symlink_to("inside/y.safetensors")
    assert list(load_tensors(inner, "z.safetensors", manifest=RunManifest(files={"z.safetensors": sum_}))) == ["a"]


# --- structured text ---------------------------------------------------------------------------------------------


def test_json_is_bounded_in_depth_and_in_its_numbers() -> None:
    fits = "[" * (MAX_JSON_DEPTH + 1) + "]" * (MAX_JSON_DEPTH + 1)
    assert parse_json(fits) is not None
    for text in (f"[{fits}]", "[" * 100_000, '{"a":' * 900 + "1" + "}" * 900):
        with pytest.raises(NestedTooDeeplyError):
            parse_json(text)
    for text in ("9" * 5000, str(2**64), "[-" + "1" * 30 + "]", '["\\ud800"]', '"\\udfff"', "[" * 5 + "{}"):
        with pytest.raises(ValueError):
            parse_json(text)
    assert parse_json('{"a": [18446744073709551615, "\\ud83d\\ude00", 0.12345678901234567890123]}')["a"][:2] == [
        2**64 - 1,
        "😀",
    ]
    with pytest.raises(ValueError, match="lists and objects"):
        parse_json("[" + "[]," * (2**22) + "[]]")


def test_toml_is_bounded_in_depth_and_quickly_judged() -> None:
    assert parse_toml('a.b.c = 1\nx = "1.2.3"\n')["a"] == {"b": {"c": 1}}
    for text in (
        ".".join("a" * 200_000) + " = 1",
        "[" + ".".join("a" * 200_000) + "]",
        "x = {" + ".".join('"a"' for _ in range(50_000)) + " = 1}",
        "x = " + "[" * 5000 + "]" * 5000,
        "x = " + "[" * (MAX_TOML_DEPTH + 2) + "]" * (MAX_TOML_DEPTH + 2),
        "x = " + "9" * 5000,
    ):
        with pytest.raises(ValueError):
            parse_toml(text)


def test_recipes_of_too_many_keys_are_told_in_few_lines(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text("".join(f"unknown_{n} = {n}\n" for n in range(5000)))
    with pytest.raises(RecipeError, match=r"more problems; correct these first") as caught:
        load_recipe(path)
    assert len(str(caught.value).splitlines()) < 60
    with pytest.raises(RecipeError, match="a key of 20,000 parts"):
        load_recipe(path, ["--" + ".".join("a" * 20_000), "1"])
    with pytest.raises(RecipeError, match="more than 1,000 options"):
        load_recipe(path, [word for n in range(1100) for word in (f"--a{n}", "1")])


def test_data_of_people_may_be_large_and_not_endless(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_text(json.dumps({"images": [[n] for n in range(100)]}))
    assert len(read_json_object(path).fields["images"]) == 100  # type: ignore[arg-type]
    for text in ('{"a":' * 5000, '{"a": ' + "9" * 5000 + "}"):
        path.write_text(text)
        with pytest.raises(DataError):
            read_json_object(path)


# --- tensors ---------------------------------------------------------------------------------------------------


def tensors(path: Path, header: bytes, *, length: int | None = None) -> str:
    path.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header)
    return compute_digest(path)


@pytest.mark.parametrize(
    ("header", "length", "message"),
    [
        (b"{}", 2**40, "its header is longer than the file"),
        (b"[" * 100_000, None, "nested too deeply"),
        (b"[]", None, "its header is not an object"),
        (b'{"a": ' + b"9" * 5000 + b"}", None, "5,000 digits"),
    ],
)
def test_headers_that_are_none(tmp_path: Path, header: bytes, length: int | None, message: str) -> None:
    sum_ = tensors(tmp_path / "x", header, length=length)
    with pytest.raises(RunError, match=message):
        load_tensors(tmp_path, "x", manifest=RunManifest(files={"x": sum_}))


def test_more_tensors_than_a_model_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.atomic_io._MAX_TENSORS", 100)
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    for count in (100, 101):
        tensors(tmp_path / "x", json.dumps({f"{n:x}": entry for n in range(count)}).encode())
        if count == 100:
            assert len(read_header(tmp_path / "x")) == count
    with pytest.raises(ValueError, match="it names 101 tensors; the maximum is 100"):
        read_header(tmp_path / "x")
    with (tmp_path / "x").open("wb") as file:
        file.write(struct.pack("<Q", 2**26))
        file.truncate(2**27)
    with pytest.raises(ValueError, match="its header has 67,108,864 bytes"):
        read_header(tmp_path / "x")


def test_weights_larger_than_the_memory_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sum_ = save_tensors(tmp_path / "x", {"a": torch.zeros(1000)})
    manifest = RunManifest(files={"x": sum_})
    for limit, fits in ((4000, False), (10_000, True), (None, True)):
        monkeypatch.setattr("heedful.atomic_io.get_memory_limit", lambda limit=limit: limit)
        if fits:
            assert load_tensors(tmp_path, "x", manifest=manifest)["a"].shape == (1000,)
            continue
        with pytest.raises(RunError, match="this machine has 4,000 bytes of memory"):
            load_tensors(tmp_path, "x", manifest=manifest)
