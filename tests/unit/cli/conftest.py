"""The command line as its users see it: words in, an exit code and two streams out."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from heedful.__main__ import main


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.split("\n")[:-1]

    @property
    def complaint(self) -> str:
        """The one sentence that tells an error; nothing was printed as a result."""
        assert (self.code, self.out) == (2, ""), self
        assert "Traceback" not in self.err
        last = self.err.splitlines()[-1]
        assert last.startswith("heedful: ")
        return last.removeprefix("heedful: ")


class _Stream:
    """Standard input, on which somebody may type."""

    def __init__(self, content: bytes, *, typed: bool) -> None:
        self.buffer = io.BytesIO(content)
        self._typed = typed

    def isatty(self) -> bool:
        return self._typed


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    """Runs a command in this process."""

    def run(*words: object, stdin: bytes | str = b"", typed: bool = False) -> Said:
        content = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", _Stream(content, typed=typed))
        monkeypatch.setattr(type(sys.stdout), "reconfigure", lambda *_, **__: None, raising=False)
        capsys.readouterr()
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    return run


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model is loaded while this test runs."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a model is loaded")

    monkeypatch.setattr("heedful.runs.load.load_predictor", refuse)


@pytest.fixture(scope="session")
def second(trained: Path) -> Path:
    """Another model of the same vocabulary."""
    from heedful import load_recipe, train

    folder = trained.parent / "second"
    return train(load_recipe(trained.parent / "small.toml", ["--seed", "4", "--output", str(folder)])).folder


@pytest.fixture(autouse=True)
def _shapes(unchecked: None) -> None:
    """Commands call what is checked where it has its units, and in the runs that all tests share."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder
