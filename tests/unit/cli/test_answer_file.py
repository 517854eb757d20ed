"""Files of answers that are continued after their process was killed anywhere."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from heedful.cli import answer_file
from heedful.cli.answer_file import AnswerFile, use_answer_file
from heedful.cli.line_commands import write_answers
from heedful.compression import read_decompressed
from heedful.errors import DataError, RunError
from heedful.tasks.predictor import TextLineFormat, UnreadableInput

CHUNK = 7


class Killed(BaseException):
    """What a killed process does not get to see; nothing catches it."""


class Numbers(TextLineFormat[str]):
    """Answers that name their line, and the lines that were answered."""

    chunk_size: ClassVar[int] = CHUNK

    def __init__(self) -> None:
        self.answered: list[str] = []

    def answer_inputs(self, inputs: Sequence[str], *, start: int) -> Iterable[str | UnreadableInput]:
        self.answered += inputs
        return [
            UnreadableInput(f"line {number}") if text == "unreadable" else f"{number}: {text}"
            for number, text in enumerate(inputs, start)
        ]

    def to_json(self, answer: str) -> Any:
        return answer

    def format_answer(self, answer: str) -> str:
        return f"{answer}\n"


def lines(count: int) -> list[str]:
    return ["unreadable" if number % 10 == 3 else f"text ü {number}" for number in range(count)]


def write(path: Path, texts: Iterable[str], *, fingerprint: str = "same", job: str = "job") -> list[str]:
    """Write the answers to a file, and return the lines that were answered."""
    answers, file = Numbers(), AnswerFile(path, fingerprint=fingerprint, job=job)
    with file.open() as has_work:
        if has_work:
            with use_answer_file(file):
                write_answers(answers, texts, as_json=False)
    return answers.answered


def expected(count: int) -> str:
    return "".join(
        "\n" if text == "unreadable" else f"{number}: {text}\n" for number, text in enumerate(lines(count), 1)
    )


def read(path: Path) -> str:
    return read_decompressed(path).decode()


def broken_off(texts: Sequence[str], at: int) -> Iterator[str]:
    """The texts until a kill."""
    yield from texts[:at]
    raise Killed


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.xz"])
@pytest.mark.parametrize("at", [0, 1, CHUNK, CHUNK + 1, 3 * CHUNK, 25])
def test_a_file_is_continued_behind_the_last_chunk(name: str, at: int, tmp_path: Path) -> None:
    path, texts = tmp_path / name, lines(25)
    with pytest.raises(Killed):
        write(path, broken_off(texts, at))
    assert not path.exists()
    stored = at // CHUNK * CHUNK
    assert write(path, texts) == texts[stored:]
    assert read(path) == expected(25)
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert write(path, texts) == []  # it is complete


@pytest.mark.parametrize("changed", [{"fingerprint": "other"}, {"job": "other"}])
def test_only_the_same_work_is_continued(changed: dict[str, str], tmp_path: Path) -> None:
    path, texts = tmp_path / "a.txt", lines(25)
    with pytest.raises(Killed):
        write(path, broken_off(texts, 15))
    answered = write(path, texts, **changed)
    assert answered == (texts if "fingerprint" in changed else texts[14:])
    assert read(path) == expected(25)


@pytest.mark.parametrize(
    "damage", ["shorter", "longer", "no progress", "damaged progress", "progress of another version"]
)
def test_a_file_without_valid_progress_is_begun_again(damage: str, tmp_path: Path) -> None:
    path, texts = tmp_path / "a.txt", lines(25)
    with pytest.raises(Killed):
        write(path, broken_off(texts, 15))
    growing, progress = tmp_path / ".a.txt.growing", tmp_path / ".a.txt.growing.json"
    if damage == "shorter":  # after a power failure
        growing.write_bytes(growing.read_bytes()[:-3])
    elif damage == "longer":
        growing.write_bytes(growing.read_bytes() + b"half of an ans" * 100)
    elif damage == "no progress":
        progress.unlink()
    elif damage == "damaged progress":
        progress.write_bytes(progress.read_bytes()[:20])
    else:
        progress.write_text("[14, 200]")
    assert write(path, texts) == texts[14 if damage == "longer" else 0 :]
    assert read(path) == expected(25)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.xz"])
def test_a_kill_at_any_step_loses_nothing_and_doubles_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, dice = lines(20), random.Random(1)
    steps = {(os, "fsync"): os.fsync, (Path, "replace"): Path.replace, (Path, "unlink"): Path.unlink}
    left = [10**9]

    def count(step: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            left[0] -= 1
            if left[0] < 0 and not after:
                raise Killed
            result = step(*args, **kwargs)
            if left[0] < 0:
                raise Killed
            return result

        return run

    num_kills = 0
    for limit in range(80):
        path = tmp_path / str(limit) / name
        path.parent.mkdir()
        after = dice.random() < 0.5
        with monkeypatch.context() as patched:
            for (owner, step), function in steps.items():
                patched.setattr(owner, step, count(function, after=after))
            left[0] = limit
            try:
                write(path, texts)
            except Killed:
                num_kills += 1
            left[0] = 10**9
        if path.exists():
            assert read(path) == expected(20)
        write(path, texts)
        assert read(path) == expected(20)
        assert [each.name for each in path.parent.iterdir() if each.name == name] == [name]
    assert 10 < num_kills < 80  # some limits are never reached


def test_unreadable_lines_before_a_kill_are_counted(tmp_path: Path) -> None:
    path, texts = tmp_path / "a.txt", lines(25)
    with pytest.raises(Killed):
        write(path, broken_off(texts, 15))
    file = AnswerFile(path, fingerprint="same", job="job")
    with file.open(), use_answer_file(file):
        assert write_answers(Numbers(), texts, as_json=False) == 2
    assert (file.num_answered, file.num_unread) == (25, 3)


def test_a_file_at_which_all_processes_end_is_given_up(tmp_path: Path) -> None:
    path, texts = tmp_path / "a.txt", lines(25)
    for _ in range(10):
        with pytest.raises(Killed):
            write(path, broken_off(texts, 10))
    with pytest.raises(DataError, match=r"10 processes ended while they answered the lines after 7.*memory"):
        write(path, texts)
    assert write(path, texts, job="another call") == texts[7:]


@pytest.mark.slow
def test_two_processes_do_not_write_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    code = (
        "import sys, time; from pathlib import Path; from heedful.cli.answer_file import AnswerFile\n"
        f"file = AnswerFile(Path({str(path)!r}), fingerprint='same')\n"
        "with file.open():\n    file.write('its own'); print('open', flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "open\n"
            monkeypatch.setattr(answer_file, "_LOCK_SECONDS", 0.1)
            with pytest.raises(DataError, match="another process is writing it"):
                write(path, lines(8))
        finally:
            other.send_signal(signal.SIGKILL)
    monkeypatch.setattr(answer_file, "_LOCK_SECONDS", 10)
    write(path, lines(8))
    assert read(path) == expected(8)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"file/a\.txt: cannot be written \(.+\); choose another folder"):
        write(tmp_path / "file" / "a.txt", lines(3))


def test_an_error_of_the_input_is_not_one_of_the_output(tmp_path: Path) -> None:
    def failing() -> Iterator[str]:
        yield "1"
        raise OSError(5, "Input/output error", "in.txt")

    with pytest.raises(OSError, match=r"in\.txt"):
        write(tmp_path / "a.txt", failing())
