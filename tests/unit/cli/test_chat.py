"""`heedful chat`: lines in, replies out, and commands that begin with a slash."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.__main__ import main
from heedful.tasks.conversation.predictor import ChatPredictor

_RECIPE = """
task = "conversation"
output = "{folder}/run"
[data]
train = {{ path = "d.jsonl" }}
validation = {{ path = "d.jsonl" }}
window = 1
max_length = 24
[tokenizer]
kind = "words"
[model]
d_model = 16
heads = 2
layers = 1
dropout = 0.0
residual = "pre_norm"
[training]
steps = 30
batch_tokens = 100
schedule = {{ kind = "constant", rate = 3e-2 }}
precision = "fp32"
threads = 1
[generation]
tokens = 6
"""


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that says yes to a and no to b."""
    folder = tmp_path_factory.mktemp("talks")
    dice = random.Random(1)
    lines = []
    for _ in range(40):
        asked = [dice.choice("ab") for _ in range(2)]
        turns = [(s, t) for each in asked for s, t in (("user", each), ("system", "yes" if each == "a" else "no"))]
        lines.append(json.dumps({"turns": [{"speaker": s, "text": t} for s, t in turns]}) + "\n")
    (folder / "d.jsonl").write_text("".join(lines))
    (folder / "r.toml").write_text(_RECIPE.format(folder=folder))
    return heedful.train(heedful.load_recipe(folder / "r.toml"), device="cpu").folder


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def say(talks: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """What a chat answers to lines: its code, what it prints and what it tells."""

    def run(text: str | bytes, *words: object, kind: type[io.TextIOWrapper] = io.TextIOWrapper) -> tuple[int, str, str]:
        stream = kind(io.BytesIO(text if isinstance(text, bytes) else text.encode()))
        monkeypatch.setattr("sys.stdin", stream)
        monkeypatch.setattr("sys.stdout.reconfigure", lambda **_: None, raising=False)
        code = main(["chat", str(talks), "--device", "cpu", *map(str, words)])
        found = capsys.readouterr()
        return code, found.out, found.err

    return run


def test_each_line_is_answered(say: Callable[..., Any]) -> None:
    code, out, _ = say("a\n\n  b \nb\na")
    assert (code, out) == (0, "yes\nno\nno\nyes\n")
    assert say("") == (0, "", "")
    assert say("a\n/quit\nb\n")[:2] == (0, "yes\n")


def test_what_was_said_is_saved_and_forgotten(say: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "said.jsonl"
    code, out, err = say(f"a\nb\n/save {path}\n/reset\nb\n/save {path}\n")
    assert (code, out) == (0, "yes\nno\nno\n")
    first, second = map(json.loads, path.read_text().splitlines())
    assert [turn["text"] for turn in first["turns"]] == ["a", "yes", "b", "no"]
    assert second["turns"] == [{"speaker": "user", "text": "b"}, {"speaker": "system", "text": "no"}]
    assert f"{path}: 4 turns added" in err


def test_what_cannot_be_done_is_told_and_the_chat_goes_on(say: Callable[..., Any], tmp_path: Path) -> None:
    code, out, err = say(f"/save {tmp_path}\n/save\n/sing\n/a/b\na\n")
    assert (code, out) == (0, "yes\n")
    assert f"{tmp_path}: cannot be written (Is a directory)" in err
    assert [line.split(":")[0] for line in err.splitlines()[1:]] == ["/save", "/sing", "/a/b"]
    assert say("//a\n/save /dev/null\n")[0] == 0


def test_two_slashes_say_one(say: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "said.jsonl"
    say(f"//quit it\n/save {path}\n")
    assert json.loads(path.read_text())["turns"][0]["text"] == "/quit it"


def test_a_page_shows_the_dialogue(say: Callable[..., Any], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert say("a\nb\n", "--page", page)[0] == 0
    assert page.read_text().count("looked most at turn") == 2
    assert say("", "--page", page)[0] == 0, "nothing said is a page too"
    code, out, err = say("a\n", "--page", tmp_path / "no" / "page.html")
    assert (code, out) == (2, "")
    assert "choose another --page" in err


def test_sampling_is_decided_by_the_seed(say: Callable[..., Any]) -> None:
    words = ("--temperature", "30", "--tokens", "5")
    one = say("a\na\na\n", *words, "--seed", "3")[1]
    assert one == say("a\na\na\n", *words, "--seed", "3")[1]
    assert one != say("a\na\na\n", *words, "--seed", "4")[1]
    assert len(set(one.splitlines())) > 1, "each reply has its own chance"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--search", "beam"), "--search"),
        (("--top-p", "3"), "--top-p"),
        (("--stop", ""), "stop"),
    ],
)
def test_options_that_do_not_fit_are_explained(say: Callable[..., Any], words: tuple[str, ...], complaint: str) -> None:
    code, out, err = say("a\n", *words)
    assert (code, out) == (2, "")
    assert complaint in err
    assert "Traceback" not in err


def test_lines_that_are_no_text_are_named(say: Callable[..., Any]) -> None:
    code, _, err = say(b"a\n\xff\n")
    assert code == 2
    assert "standard input:2: byte 1 of the line (0xff) is not UTF-8" in err


def test_whoever_interrupts_a_reply_keeps_what_was_said(
    say: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stream(*_: object, **__: object) -> Iterator[str]:
        yield "ye"
        raise KeyboardInterrupt

    monkeypatch.setattr(ChatPredictor, "stream", stream)
    path = tmp_path / "said.jsonl"
    code, out, _ = say(f"a\n/save {path}\n")
    assert (code, out) == (0, "ye\n")
    assert [turn["text"] for turn in json.loads(path.read_text())["turns"]] == ["a", "ye"]


def test_who_types_is_told_whose_turn_it_is(
    say: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    typed = iter(["a", "b"])

    def read(prompt: str) -> str:
        asked.append(prompt)
        try:
            return next(typed)
        except StopIteration:
            raise (EOFError if len(asked) < 5 else KeyboardInterrupt) from None

    asked: list[str] = []
    monkeypatch.setattr("builtins.input", read)
    code, out, err = say("", kind=_Terminal)
    assert (code, out) == (0, "system: yes\nsystem: no\n\n")
    assert asked == ["user: "] * 3
    assert "/reset" in err
    asked += [""] * 3
    assert say("", kind=_Terminal)[0] == 0, "an interrupted prompt ends it too"
