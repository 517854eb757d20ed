"""Help, the resolved recipe and errors in recipes must not wait for torch, which takes longer than they do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SLOW = ("torch", "numpy", "sentencepiece", "sacrebleu", "safetensors", "rich.progress")
_SCRIPT = """\
import sys
from heedful.__main__ import main
code = main(sys.argv[1:])
print("imported", *sorted(name for name in {slow} if name in sys.modules))
sys.exit(code)
"""


def loaded(*words: object) -> tuple[int, list[str], str]:
    script = _SCRIPT.format(slow=SLOW)
    command = [sys.executable, "-c", script, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()[-1].split()[1:], done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--help",), 0),
        (("--version",), 0),
        (("trian",), 2),
        (("train", "--help"), 0),
        (("translate", "--help"), 0),
        (("score", "--help"), 0),
        (("evaluate", "--help"), 0),
        (("describe", "--help"), 0),
        (("quickstart", "--help"), 0),
        (("train", "{small}", "--print-config"), 0),
        (("train", "{small}", "--training.stepz", "3"), 2),
        (("train", "{small}", "--model.heads", "3"), 2),
        (("train", "nowhere.toml"), 2),
        (("describe", "{small}"), 2),
        (("translate", "x", "--n-best", "0"), 2),
        (("evaluate", "nowhere"), 2),
    ],
)
def test_what_need_not_wait_for_torch_does_not(small: Path, words: tuple[str, ...], code: int) -> None:
    found, imported, told = loaded(*(word.format(small=small) for word in words))
    assert found == code, told
    assert "torch" not in imported
    if words in (("--help",), ("--version",), ("trian",)):
        assert imported == []


def test_import_heedful_is_light() -> None:
    script = "import sys, heedful; print(*(n for n in ('torch', 'numpy', 'pydantic', 'tyro') if n in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_this_test_would_see_torch(trained: Path) -> None:
    code, imported, told = loaded("translate", trained, "--text", "1", "--device", "cpu")
    assert code == 0, told
    assert {"torch", "numpy"} <= set(imported)
