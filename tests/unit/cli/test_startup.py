"""Help, the resolved recipe and errors in recipes must not wait for torch, which takes longer than they do."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

SLOW = ("torch", "numpy", "sentencepiece", "sacrebleu", "safetensors", "rich.progress")
_SCRIPT = """\
import contextlib, io, json, sys
from heedful.__main__ import main
for words in json.loads(sys.argv[1]):
    told = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        code = main(words)
    print(json.dumps([code, sorted(name for name in {slow} if name in sys.modules), told.buffer.getvalue().decode()]))
"""


def loaded(commands: Sequence[Sequence[str]]) -> list[tuple[int, list[str], str]]:
    """The code of each, what was imported once it was done, and what it said, one after the other in one process."""
    command = [sys.executable, "-c", _SCRIPT.format(slow=SLOW), json.dumps(commands)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


COMMANDS: list[tuple[tuple[str, ...], int]] = [
    (("--help",), 0),
    (("--version",), 0),
    (("trian",), 2),
    (("train", "--help"), 0),
    (("curve", "--help"), 0),
    (("translate", "--help"), 0),
    (("score", "--help"), 0),
    (("evaluate", "--help"), 0),
    (("describe", "--help"), 0),
    (("quickstart", "--help"), 0),
    (("new", "--help"), 0),
    (("new",), 2),
    (("new", "{lines}", "{lines}.de", "-o", "-", "--data-folder", "{lines}-data", "--overwrite"), 0),
    (("new", "{lines}", "{lines}.de", "--also", "{lines}.tsv", "-o", "{lines}-also.toml"), 0),
    (("new", "{tags}", "-o", "-", "--data-folder", "{tags}-data", "--overwrite"), 0),
    (("new", "{lines}", "-o", "-", "--data-folder", "{lines}-data", "--overwrite"), 0),
    (("train", "{small}", "--print-config"), 0),
    (("train", "{small}", "--training.stepz", "3"), 2),
    (("train", "{small}", "--model.heads", "3"), 2),
    (("train", "nowhere.toml"), 2),
    (("describe", "{small}"), 2),
    (("translate", "x", "--n-best", "0"), 2),
    (("evaluate", "nowhere"), 2),
    (("serve", "--help"), 0),
    (("serve", "nowhere"), 2),
    (("serve", "here=.", "--limits.queue", "0"), 2),
    (("serve", "here=.", "--print-config"), 0),
    (("serve", "--new-key"), 0),
]
"""What is said, and the exit code; the first three load nothing heavy at all."""


@pytest.mark.slow
def test_what_need_not_wait_for_torch_does_not(small: Path, tmp_path: Path) -> None:
    lines, tags = tmp_path / "lines", tmp_path / "tags"
    lines.write_text("".join(f"sentence number {number} is here.\n" for number in range(50)))
    Path(f"{lines}.de").write_text("".join(f"Satz Nummer {number} ist da.\n" for number in range(50)))
    Path(f"{lines}.tsv").write_text("".join(f"text number {number}\tText Nummer {number}\n" for number in range(50)))
    tags.write_text("".join(f"word{number}\tA\nmore\tB\nend\tC\n\n" for number in range(50)))
    places = {"small": small, "lines": lines, "tags": tags}
    answers = loaded([[word.format(**places) for word in words] for words, _ in COMMANDS])
    for place, ((words, code), (found, imported, told)) in enumerate(zip(COMMANDS, answers, strict=True)):
        assert found == code, (words, told)
        assert "torch" not in imported, words
        assert place > 2 or imported == [], words


def test_import_heedful_is_light() -> None:
    script = "import sys, heedful; print(*(n for n in ('torch', 'numpy', 'pydantic', 'rich') if n in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


@pytest.mark.slow
def test_this_test_would_see_torch(trained: Path) -> None:
    ((code, imported, told),) = loaded([["translate", str(trained), "--text", "1", "--device", "cpu"]])
    assert code == 0, told
    assert {"torch", "numpy"} <= set(imported)
