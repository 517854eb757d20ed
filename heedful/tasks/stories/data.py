"""Stories, questions about them and the facts that answer these: bAbI's files, and JSON lines."""

from __future__ import annotations

import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, final

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor

from heedful.data.corpus import Corpus, Encoding
from heedful.data.labels import Labels
from heedful.data.readers import JsonRecords, Reader, Record, read_lines
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.models.memory_network import Story

_FILE: Final = re.compile(r"qa(\d+)(?:_.*)?_(train|valid|test)\.txt")
_NUMBERED: Final = re.compile(r"(\d+)\s+(.*\S)\s*")


@dataclass(frozen=True)
class Asked:
    """A question about a story.

    Attributes:
        facts: what is told, sentence by sentence.
        question: about all of it.
        answer: a class: a word, or a list such as `milk,football`.
        supporting: numbers of the facts that answer it, from 0; None where nobody says.
        task: which of several kinds of questions it is.
        place: where it stands (`file:line`).
    """

    facts: tuple[str, ...]
    question: str
    answer: str
    supporting: tuple[int, ...] | None
    task: str
    place: str


@final
class Babi(Reader[Asked]):
    """bAbI's questions (Weston et al. 2015), versions 1.0 to 1.2, from a folder or a .tar.gz of its files.

    Args:
        path: holds files such as `qa1_single-supporting-fact_train.txt` and `qa1_valid.txt`, at any depth.
        part: train, valid or test.
        tasks: their numbers; all that there are if none is given.
        folder: the name of the folder that holds the files, where there are several, as `en` and `en-10k`.

    Raises:
        DataError: there are no such files, or a task's file stands in several folders.
    """

    def __init__(self, path: Path, *, part: str, tasks: Sequence[int] = (), folder: str | None = None) -> None:
        self._path = path
        if path.is_dir():
            files = {file.relative_to(path).as_posix(): file for file in sorted(path.rglob("*.txt"))}
            self._named = _of_tasks(files, path, part, tasks, folder)
            super().__init__(*(files[name] for name in self._named.values()))
        else:
            super().__init__(path)
            self._named = _of_tasks(self._members, path, part, tasks, folder)

    def __iter__(self) -> Iterator[Asked]:
        for task, name in self._named.items():
            if self._path.is_dir():
                yield from _questions(read_lines(self._path / name), task=str(task), place=str(self._path / name))
            else:
                yield from _questions(self._members[name].splitlines(), task=str(task), place=f"{self._path}:{name}")

    @cached_property
    def _members(self) -> Mapping[str, str]:
        """The files of an archive that may be bAbI's."""
        try:
            with tarfile.open(self._path) as archive:
                found = [each for each in archive if each.isfile() and _FILE.fullmatch(Path(each.name).name)]
                return {each.name: _text(archive, each, place=self._path) for each in found}
        except (tarfile.TarError, EOFError, OSError, zlib.error):
            raise DataError(f"{self._path}: is no tar archive; name that of bAbI, or its folder") from None


def _text(archive: tarfile.TarFile, member: tarfile.TarInfo, *, place: Path) -> str:
    file = archive.extractfile(member)
    assert file is not None  # it is a file
    try:
        return file.read().decode()
    except UnicodeDecodeError:
        raise DataError(f"{place}:{member.name}: is not UTF-8; fetch the archive again") from None


def _of_tasks(
    names: Mapping[str, object], path: Path, part: str, tasks: Sequence[int], folder: str | None
) -> dict[int, str]:
    """The file of each task, in the order of their numbers."""
    found: dict[int, list[str]] = {}
    for name in names:
        match = _FILE.fullmatch(Path(name).name)
        if match and match[2] == part and folder in (None, Path(name).parent.name):
            found.setdefault(int(match[1]), []).append(name)
    where = f"{path}" if folder is None else f"{path} ({folder})"
    for task in tasks or sorted(found):
        if len(of_task := found.get(task, [])) != 1:
            several = f"several files of task {task} ({', '.join(of_task)}); choose one with folder"
            raise DataError(f"{where}: {several if of_task else f'has no qa{task}_..._{part}.txt; choose other tasks'}")
    if not found:
        raise DataError(f"{where}: has no file such as qa1_{part}.txt; name the folder or .tar.gz of bAbI")
    return {task: found[task][0] for task in tasks or sorted(found)}


def _questions(lines: Iterator[str] | Sequence[str], *, task: str, place: str) -> Iterator[Asked]:
    """The questions of one file; numbers begin again with each story, and supporting facts are told by them."""
    facts: list[str] = []
    numbers: dict[str, int] = {}
    for line_number, line in enumerate(lines, 1):
        where = f"{place}:{line_number}"
        if not line.strip():
            continue
        if (match := _NUMBERED.fullmatch(line)) is None:
            raise DataError(f"{where}: no number and sentence; a line of bAbI is such as `1 Mary went home.`")
        if match[1] == "1":
            facts, numbers = [], {}
        question, *rest = (cell.strip() for cell in match[2].split("\t"))
        if not rest:
            numbers[match[1]] = len(facts)
            facts.append(question)
            continue
        told = rest[1].split() if len(rest) == 2 else []
        if len(rest) > 2 or not rest[0] or any(each not in numbers for each in told):
            raise DataError(
                f"{where}: a question needs an answer and the numbers of facts above it, between tabs; mend the line"
            )
        yield Asked(
            tuple(facts), question, rest[0], tuple(numbers[each] for each in told) if told else None, task, where
        )


def jsonl(path: Path) -> Reader[Asked]:
    """Objects with `facts`, `question` and `answer`, and perhaps `supporting` (from 0) and `task`, one a line."""
    return JsonRecords(path, lambda record: [_asked(record)])


def _asked(record: Record) -> Asked:
    facts, supporting = record.texts("facts"), None
    if "supporting" in record:
        supporting = tuple(record.integers("supporting"))
        if not all(0 <= number < len(facts) for number in supporting):
            raise DataError(f"{record.place}: 'supporting' names a fact that is not there; count from 0")
    task = record.scalar("task") if "task" in record else ""
    answer = record.text("answer").strip()
    if not answer:
        raise DataError(f"{record.place}: an empty answer; mend the line")
    return Asked(facts, record.text("question"), answer, supporting, task, record.place)


@final
@dataclass(frozen=True)
class Words:
    """Words as ids: those that are an answer have its number, so that answers and words share embeddings.

    Attributes:
        tokenizer: of facts and questions.
        answers: all that occurred.
        memory: facts that are read, the last ones of a story.
        longest: words of a sentence at most.
    """

    tokenizer: Tokenizer
    answers: Labels
    memory: int
    longest: int

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        pairs = ((self.tokenizer.normalise(name), number) for number, name in enumerate(self.answers.names))
        return dict(reversed(list(pairs)))

    @property
    def size(self) -> int:
        """How many ids there are."""
        return self.answers.size + self.tokenizer.size

    def ids(self, sentence: str) -> list[int] | None:
        """Of each word, without punctuation; -1 for one that was never seen, and where there is none at all.

        None where they are more than `longest`.
        """
        found = [number for _, number in self._read(sentence)]
        return None if len(found) > self.longest else found or [-1]

    def unknown(self, sentence: str) -> list[str]:
        """The words that were never seen."""
        return [word for word, number in self._read(sentence) if number < 0]

    def _read(self, sentence: str) -> Iterator[tuple[str, int]]:
        unknown, first = self.tokenizer.special.unk, self.answers.size
        for word, number in zip(self.tokenizer.surfaces(sentence), self.tokenizer.encode(sentence), strict=True):
            if any(map(str.isalnum, word)):
                yield word, self._numbers.get(word, -1 if number == unknown else first + number)

    def encoding(self) -> Encoding[Asked]:
        """The words of all facts, how many each has, the question, and the answer; words count from 1, 0 is unknown.

        An answer that the training text lacks has a number that no model can say.
        """

        def encode(asked: Asked) -> list[list[int] | None]:
            facts = [self.ids(fact) for fact in asked.facts[-self.memory :]]
            known, question = [fact for fact in facts if fact is not None], self.ids(asked.question)
            answer = self.answers.id(asked.answer)
            return [
                None if question is None else [number + 1 for number in question],
                [self.answers.size if answer is None else answer],
                None if len(known) < len(facts) else [len(fact) for fact in known],
                [number + 1 for fact in known for number in fact],
            ]

        words = self.size + 1
        sizes = {"question": words, "answer": self.answers.size + 1, "sizes": self.longest + 1, "words": words}
        return Encoding(sizes, encode, identity=lambda asked: (asked.facts, asked.question, asked.answer))


def story_of(
    sizes: Int[np.ndarray, "B S"], words: Int[np.ndarray, "B W"], question: Int[np.ndarray, "B Q"], *, longest: int = 1
) -> Story:
    """Facts from the words of all of them: how many each has, and ids with 0 for unknown, -1 behind them."""
    width = max(longest, int(sizes.max(initial=1)))
    facts = np.full((*sizes.shape, width), -1)
    facts[np.arange(width) < sizes[..., None]] = words[words >= 0] - 1
    there = sizes >= 0
    ages = np.where(there, there.sum(1, keepdims=True) - 1 - np.arange(sizes.shape[1]), -1)
    return Story(*(torch.from_numpy(each) for each in (facts, ages, np.maximum(question - 1, -1))))


@dataclass(frozen=True)
class StoryBatch:
    """Stories with a question about each, and the number of the right answer."""

    story: Story
    answers: Int[Tensor, " B"]


def collate_stories(corpus: Corpus, rows: Integer[np.ndarray, " B"]) -> StoryBatch:
    """The stories in `rows`."""
    sizes, words, question = (corpus[side].padded(rows) for side in ("sizes", "words", "question"))
    answers = corpus["answer"].padded(rows)[:, 0]
    return StoryBatch(story_of(sizes, words, question), torch.from_numpy(answers))
