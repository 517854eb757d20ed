from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError

from heedful import atomic_io as files
from heedful.atomic_io import (
    MANIFEST,
    RunManifest,
    atomic_replace,
    compute_digest,
    load_tensors,
    read_manifest,
    save_tensors,
    verify_file,
    write_json,
    write_manifest,
)
from heedful.data.readers import list_folder_files
from heedful.errors import DataError, RunError, TrainingError
from heedful.files import is_file, is_folder, replace_durably, walk_folder


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def full_in_rust(*_: Any, **__: Any) -> None:
    raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- replacing --------------------------------------------------------------------------------------------


def test_a_reader_sees_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "x.json"
    write_json(path, {"a": "ä", "b": [1, None]})
    assert path.read_text(encoding="utf-8") == '{\n  "a": "ä",\n  "b": [\n    1,\n    null\n  ]\n}\n'
    with atomic_replace(path) as beside:
        beside.write_text("half")
        assert json.loads(path.read_text(encoding="utf-8")) == {"a": "ä", "b": [1, None]}
    assert path.read_text() == "half"
    assert names(path.parent) == ["x.json"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt(), ValueError("odd")])
def test_what_goes_wrong_leaves_the_file_as_it_was(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    expected = TrainingError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected), atomic_replace(path) as beside:
        beside.write_text("new")
        raise error
    assert path.read_text() == "old"
    assert names(tmp_path) == ["x"]


KILLED = """
import os, sys
from pathlib import Path
import torch
from heedful import atomic_io

def half(tensors, path):
    Path(path).with_name(".tmpx7Qp2z").write_bytes(b"half")  # what safetensors 0.8 writes to
    os.kill(os.getpid(), 9)

atomic_io.save_file = half
atomic_io.save_tensors(Path(sys.argv[1]), {"a": torch.zeros(2)})
"""


def test_what_a_kill_leaves_is_gone_when_the_file_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "step-1.weights.safetensors"
    save_tensors(path, {"a": torch.ones(2)})
    before = path.read_bytes()
    assert subprocess.run([sys.executable, "-c", KILLED, path], check=False).returncode == -9
    assert path.read_bytes() == before
    assert len(names(tmp_path)) == 2, "the kill came while it was written"
    save_tensors(path, {"a": torch.ones(2)})
    assert names(tmp_path) == [path.name]


@pytest.mark.parametrize("when", ["fsync", "replace"])
def test_a_disk_that_fills_up_while_the_file_settles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    path = tmp_path / "x.json"
    write_json(path, 1)
    monkeypatch.setattr(*((os, "fsync") if when == "fsync" else (Path, "replace")), full)
    with pytest.raises(TrainingError) as caught:
        write_json(path, 2)
    assert str(caught.value) == (
        f"{path}: the disk is full; free some space and start the same command again, files that were saved before are "
        "unchanged"
    )
    assert path.read_text() == "1\n"
    assert names(tmp_path) == ["x.json"]


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.EDQUOT, "the disk is full; free some space"),
        (errno.EACCES, "cannot be written (Permission denied); choose another place for it"),
        (errno.EROFS, "cannot be written (Read-only file system); choose another place for it"),
        (errno.EIO, "cannot be written ([Errno 5] Input/output error); files that were saved before are unchanged"),
    ],
)
@pytest.mark.parametrize("rust", [False, True])
def test_the_message_knows_what_went_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, remedy: str, rust: bool
) -> None:
    text = os.strerror(number)
    error = SafetensorError(f"I/O error: {text} (os error {number})") if rust else OSError(number, text)

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(files, "save_file", fail)
    with pytest.raises(TrainingError) as caught:
        save_tensors(tmp_path / "x", {})
    told = str(caught.value)
    assert told.startswith(f"{tmp_path / 'x'}: ")
    assert (text in told and "unchanged" in told) if rust and number == errno.EIO else remedy in told
    assert names(tmp_path) == []


# --- tensors ----------------------------------------------------------------------------------------------


def test_tensors_come_back_bit_for_bit(tmp_path: Path) -> None:
    tensors = {
        "float": torch.randn(3, 5),
        "view": torch.randn(4, 6)[:, ::2].T,
        "half": torch.randn(7).bfloat16(),
        "count": torch.tensor(2**40),
        "gradient": torch.randn(2, requires_grad=True),
        "none": torch.empty(0, 3),
        "odd": torch.tensor([-0.0, float("inf"), 1e-45]),
    }
    path = tmp_path / "x.safetensors"
    found = save_tensors(path, tensors)
    assert found == compute_digest(path)
    loaded = load_tensors(tmp_path, path.name, manifest=RunManifest(files={path.name: found}))
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype
        assert torch.equal(loaded[name], tensor.detach())
    assert torch.signbit(loaded["odd"][0])
    expected = tmp_path / "other"
    expected.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(expected.stat().st_mode), "others may read it too"


@pytest.mark.parametrize("writer", [full, full_in_rust])
def test_a_full_disk_leaves_older_tensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: Callable[..., None]
) -> None:
    path = tmp_path / "x.safetensors"
    before = save_tensors(path, {"a": torch.ones(3)})
    monkeypatch.setattr(files, "save_file", writer)
    with pytest.raises(TrainingError, match="the disk is full; free some space and start the same command again"):
        save_tensors(path, {"a": torch.zeros(3)})
    assert compute_digest(path) == before
    assert names(tmp_path) == ["x.safetensors"]


def test_every_changed_bit_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    manifest = RunManifest(files={path.name: save_tensors(path, {"a": torch.arange(4.0)})})
    good = path.read_bytes()
    for place in range(len(good)):
        path.write_bytes(good[:place] + bytes([good[place] ^ (1 << place % 8)]) + good[place + 1 :])
        with pytest.raises(RunError, match="not the file that was saved") as caught:
            load_tensors(tmp_path, path.name, manifest=manifest)
        assert str(path) in str(caught.value)
    for length in (0, 1, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:length])
        with pytest.raises(RunError, match="not the file that was saved"):
            verify_file(tmp_path, path.name, manifest=manifest)
    path.unlink()
    with pytest.raises(RunError, match=r"cannot be read .No such file"):
        verify_file(tmp_path, path.name, manifest=manifest)
    with pytest.raises(RunError, match="not part of this run's manifest"):
        verify_file(tmp_path, "other", manifest=manifest)


def test_what_was_saved_but_is_no_tensors(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"something else")
    manifest = RunManifest(files={"x": compute_digest(tmp_path / "x")})
    with pytest.raises(RunError, match=r"cannot be read .*; restore it from a copy or train again"):
        load_tensors(tmp_path, "x", manifest=manifest)


# --- the manifest -----------------------------------------------------------------------------------------


def test_a_manifest_comes_back(tmp_path: Path) -> None:
    manifest = RunManifest(files={"a": "1"}, checkpoints=(1, 2), last=2, best=1).with_file("b", "2").with_file("a", "3")
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest
    assert manifest.files == {"a": "3", "b": "2"}
    assert manifest.without_files("a", "c").files == {"b": "2"}
    assert manifest.files == {"a": "3", "b": "2"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "3",
        "null",
        "{}",
        "\0",
        "[" * 100_000,
        '{"format": 1}',
        '{"format": 1, "checkpoints": 3}',
        '{"format": 1, "checkpoints": [], "files": {"a": 3}}',
        '{"format": 1, "checkpoints": [], "files": ["a"]}',
        '{"format": 1, "checkpoints": ["a"], "files": {}}',
        '{"format": 1, "checkpoints": [], "files": {}, "last": "x"}',
        '{"format": 1, "checkpoints": [], "files": {}, "unknown": 1}',
    ],
)
def test_damaged_manifests(tmp_path: Path, content: str) -> None:
    (tmp_path / MANIFEST).write_text(content)
    with pytest.raises(RunError, match=r"is damaged .*; restore it from a copy or train again") as caught:
        read_manifest(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / MANIFEST}: ")


def test_manifests_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no such run folder; check the path, or train first"):
        read_manifest(tmp_path / "nowhere")
    with pytest.raises(RunError, match=r"contains no manifest\.json"):
        read_manifest(tmp_path)
    (tmp_path / MANIFEST).write_bytes(b'{"format": "\xff"}')
    with pytest.raises(RunError, match="is damaged"):
        read_manifest(tmp_path)
    (tmp_path / MANIFEST).unlink()
    (tmp_path / MANIFEST).mkdir()
    with pytest.raises(RunError, match=r"cannot be read \(it is a folder and not a regular file"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("version", [2, 0, "1", None])
def test_manifests_of_other_versions(tmp_path: Path, version: object) -> None:
    content = {"format": version, "something": "new"}
    (tmp_path / MANIFEST).write_text(json.dumps(content))
    with pytest.raises(RunError, match="this version of heedful reads 1; install the version that wrote it"):
        read_manifest(tmp_path)


def test_a_file_of_holes_is_refused_before_all_of_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "get_memory_limit", lambda: 1000)
    with (tmp_path / "x").open("wb") as file:
        file.truncate(1001)
    with pytest.raises(RunError, match=r"x: cannot be read .it has 1,001 bytes; the maximum is 1,000"):
        verify_file(tmp_path, "x", manifest=RunManifest(files={"x": "0" * 64}))


def test_weights_without_what_belongs_to_them_say_what_is_missing(tmp_path: Path) -> None:
    save_tensors(tmp_path / "model.safetensors", {"a": torch.ones(3)})
    with pytest.raises(RunError, match=r"neither manifest\.json, as a run does, nor a valid config\.json"):
        read_manifest(tmp_path)


def test_a_folder_that_cannot_be_listed_leaves_nothing_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As glob does."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c.txt").touch()
    assert {path.name for path in walk_folder(tmp_path)} == {"a", "b", "c.txt"}
    iterdir = Path.iterdir

    def refuse(self: Path) -> Any:
        if self.name == "b":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))
        return iterdir(self)

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(PermissionError):
        list(walk_folder(tmp_path))
    with pytest.raises(DataError, match=r"a/b: cannot be listed \(Permission denied\)"):
        list_folder_files(tmp_path, ".txt")


def test_names_that_no_file_can_have_are_those_of_none(tmp_path: Path) -> None:
    for name in ("a" * 300, "b\0c", "d/" * 3000):
        assert not is_file(tmp_path / name)
        assert not is_folder(tmp_path / name)
    (tmp_path / "e").touch()
    assert is_file(tmp_path / "e") and not is_folder(tmp_path / "e")
    assert is_folder(tmp_path)


def test_a_file_is_flushed_before_it_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "new").write_text("new")
    flushed: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda _: flushed.append((tmp_path / "new").read_text()))
    replace_durably(tmp_path / "new", tmp_path / "x")
    assert flushed == ["new"]
    assert names(tmp_path) == ["x"]
