"""Stories with questions and answers: readers of bAbI's files and of JSON lines, and their encoding."""

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

from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.labels import LabelVocabulary
from heedful.data.readers import ExampleReader, JsonRecord, JsonRecordReader, list_folder_files, read_lines
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.models.memory_network import StoryInputs

_TASK_FILE_PATTERN: Final = re.compile(r"qa(\d+)(?:_.*)?_(train|valid|test)\.txt")
_NUMBERED_LINE_PATTERN: Final = re.compile(r"(\d+)\s+(.*\S)\s*")


@dataclass(frozen=True)
class StoryQuestion:
    """A question about a story.

    Attributes:
        facts: the sentences of the story.
        question: about all of it.
        answer: a class: a word, or a list such as `milk,football`.
        supporting: indices of the facts that answer it, from 0; None if unknown.
        task: name of the kind of question.
        location: where it is written (`file:line`).
    """

    facts: tuple[str, ...]
    question: str
    answer: str
    supporting: tuple[int, ...] | None
    task: str
    location: str


@final
class BabiReader(ExampleReader[StoryQuestion]):
    """Reader of bAbI's questions (Weston et al. 2015), versions 1.0 to 1.2, from a folder or a .tar.gz of its files.

    Args:
        path: holds files such as `qa1_single-supporting-fact_train.txt` and `qa1_valid.txt`, at any depth.
        part: train, valid or test.
        tasks: task numbers; all available ones if empty.
        folder: name of the folder that holds the files, if there are several, as `en` and `en-10k`.

    Raises:
        DataError: there are no such files, or a task's file is in several folders.
    """

    def __init__(self, path: Path, *, part: str, tasks: Sequence[int] = (), folder: str | None = None) -> None:
        self._path = path
        if path.is_dir():
            files = {file.relative_to(path).as_posix(): file for file in list_folder_files(path, ".txt")}
            self._task_files = _select_task_files(files, path, part, tasks, folder)
            super().__init__(*(files[name] for name in self._task_files.values()))
        else:
            super().__init__(path)
            self._task_files = _select_task_files(self._archive_files, path, part, tasks, folder)

    def __iter__(self) -> Iterator[StoryQuestion]:
        for task, name in self._task_files.items():
            if self._path.is_dir():
                yield from _parse_questions(read_lines(self._path / name), task=str(task), path=str(self._path / name))
            else:
                yield from _parse_questions(
                    self._archive_files[name].splitlines(), task=str(task), path=f"{self._path}:{name}"
                )

    @cached_property
    def _archive_files(self) -> Mapping[str, str]:
        """The text of each bAbI file in the archive, by name."""
        try:
            with tarfile.open(self._path) as archive:
                members = [
                    member
                    for member in archive
                    if member.isfile() and _TASK_FILE_PATTERN.fullmatch(Path(member.name).name)
                ]
                return {member.name: _read_member(archive, member, path=self._path) for member in members}
        except (tarfile.TarError, EOFError, OSError, zlib.error):
            raise DataError(f"{self._path}: is not a tar archive; name the archive of bAbI, or its folder") from None


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo, *, path: Path) -> str:
    """Read a file of an archive as UTF-8; raise `DataError` if it is not. `path` is the archive's file, for the error
    message.
    """
    file = archive.extractfile(member)
    assert file is not None  # it is a file
    try:
        return file.read().decode()
    except UnicodeDecodeError:
        raise DataError(f"{path}:{member.name}: is not UTF-8; fetch the archive again") from None


def _select_task_files(
    names: Mapping[str, object], path: Path, part: str, tasks: Sequence[int], folder: str | None
) -> dict[int, str]:
    """Return the file name of each wanted task, in the order of `tasks`, or of all. `part` is train, valid or test, and
    `folder` the name of the folder if several have the files; raise `DataError` if a task has none or several files.
    """
    names_by_task: dict[int, list[str]] = {}
    for name in names:
        match = _TASK_FILE_PATTERN.fullmatch(Path(name).name)
        if match and match[2] == part and folder in (None, Path(name).parent.name):
            names_by_task.setdefault(int(match[1]), []).append(name)
    location = f"{path}" if folder is None else f"{path} ({folder})"
    for task in tasks or sorted(names_by_task):
        if len(of_task := names_by_task.get(task, [])) != 1:
            problem = f"several files of task {task} ({', '.join(of_task)}); choose one with folder"
            raise DataError(
                f"{location}: {problem if of_task else f'has no qa{task}_..._{part}.txt; choose other tasks'}"
            )
    if not names_by_task:
        raise DataError(f"{location}: has no file such as qa1_{part}.txt; name the folder or .tar.gz of bAbI")
    return {task: names_by_task[task][0] for task in tasks or sorted(names_by_task)}


def _parse_questions(lines: Iterator[str] | Sequence[str], *, task: str, path: str) -> Iterator[StoryQuestion]:
    """Yield the questions of the lines of one bAbI file; `task` is its task number, and `path` names the file in
    locations.

    Line numbers restart with each story; supporting facts are given by line number.
    """
    facts: list[str] = []
    numbers: dict[str, int] = {}
    for line_number, line in enumerate(lines, 1):
        location = f"{path}:{line_number}"
        if not line.strip():
            continue
        if (match := _NUMBERED_LINE_PATTERN.fullmatch(line)) is None:
            raise DataError(f"{location}: has no number and sentence; a line of bAbI looks like `1 Mary went home.`")
        if match[1] == "1":
            facts, numbers = [], {}
        question, *rest = (cell.strip() for cell in match[2].split("\t"))
        if not rest:
            numbers[match[1]] = len(facts)
            facts.append(question)
            continue
        supporting_numbers = rest[1].split() if len(rest) == 2 else []
        if len(rest) > 2 or not rest[0] or any(number not in numbers for number in supporting_numbers):
            raise DataError(
                f"{location}: a question needs an answer and the numbers of facts above it, between tabs; correct the "
                "line"
            )
        yield StoryQuestion(
            tuple(facts),
            question,
            rest[0],
            tuple(numbers[number] for number in supporting_numbers) if supporting_numbers else None,
            task,
            location,
        )


def read_stories_jsonl(path: Path) -> ExampleReader[StoryQuestion]:
    """Read a file with a JSON object per line: `facts`, `question` and `answer`.

    Optional fields are `supporting` (indices from 0) and `task`.
    """
    return JsonRecordReader(path, lambda record: [_parse_question(record)])


def _parse_question(record: JsonRecord) -> StoryQuestion:
    """Convert a JSON object to a question; raise `DataError` if the answer is empty or a supporting fact does not
    exist.
    """
    facts, supporting = record.get_texts("facts"), None
    if "supporting" in record:
        supporting = tuple(record.get_ints("supporting"))
        if not all(0 <= number < len(facts) for number in supporting):
            raise DataError(f"{record.location}: 'supporting' names a fact that does not exist; count from 0")
    task = record.get_scalar("task") if "task" in record else ""
    answer = record.get_text("answer").strip()
    if not answer:
        raise DataError(f"{record.location}: an empty answer; correct the line")
    return StoryQuestion(facts, record.get_text("question"), answer, supporting, task, record.location)


@final
@dataclass(frozen=True)
class StoryEncoder:
    """Converts words of stories into ids; answers and words share ids, and so embeddings.

    Attributes:
        tokenizer: of facts and questions.
        answers: all known answers.
        max_facts: number of facts that are read, the last ones of a story.
        max_words: maximal number of words of a sentence.
    """

    tokenizer: Tokenizer
    answers: LabelVocabulary
    max_facts: int
    max_words: int

    @cached_property
    def _answer_ids(self) -> Mapping[str, int]:
        """Number of each answer by its normalised words."""
        pairs = ((self.tokenizer.normalise(name), number) for number, name in enumerate(self.answers.names))
        return dict(reversed(list(pairs)))

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return self.answers.size + self.tokenizer.size

    def encode_sentence(self, sentence: str) -> list[int] | None:
        """Return the id of each word without punctuation, -1 for unknown words; [-1] if there are no words.

        Returns None if there are more than `max_words` words.
        """
        ids = [number for _, number in self._iter_words(sentence)]
        return None if len(ids) > self.max_words else ids or [-1]

    def find_unknown_words(self, sentence: str) -> list[str]:
        """Return the words of a sentence that do not occur in the training text."""
        return [word for word, number in self._iter_words(sentence) if number < 0]

    def _iter_words(self, sentence: str) -> Iterator[tuple[str, int]]:
        """Yield each word of a sentence with its id, -1 if it is unknown."""
        unknown, offset = self.tokenizer.special.unk, self.answers.size
        for word, number in zip(self.tokenizer.get_surfaces(sentence), self.tokenizer.encode(sentence), strict=True):
            if any(map(str.isalnum, word)):
                yield word, self._answer_ids.get(word, -1 if number == unknown else offset + number)

    def build_encoding(self) -> ExampleEncoder[StoryQuestion]:
        """Return the encoding of a question: words of all facts, words per fact, question, and answer.

        Word ids are shifted by 1; 0 is unknown. An answer that the training text lacks has a number that no model can
        predict.
        """

        def encode(story_question: StoryQuestion) -> list[list[int] | None]:
            """Return the four sides of a question; None where a sentence is too long."""
            facts = [self.encode_sentence(fact) for fact in story_question.facts[-self.max_facts :]]
            encoded_facts, question = (
                [fact for fact in facts if fact is not None],
                self.encode_sentence(story_question.question),
            )
            answer = self.answers.get_id(story_question.answer)
            return [
                None if question is None else [number + 1 for number in question],
                [self.answers.size if answer is None else answer],
                None if len(encoded_facts) < len(facts) else [len(fact) for fact in encoded_facts],
                [number + 1 for fact in encoded_facts for number in fact],
            ]

        words = self.vocab_size + 1
        sizes = {
            "question": words,
            "answer": self.answers.size + 1,
            "sizes": self.max_words + 1,
            "words": words,
        }
        return ExampleEncoder(sizes, encode, identity_key=lambda asked: (asked.facts, asked.question, asked.answer))


def build_story(
    sizes: Int[np.ndarray, "B S"],
    words: Int[np.ndarray, "B W"],
    question: Int[np.ndarray, "B Q"],
    *,
    min_width: int = 1,
) -> StoryInputs:
    """Build a batch of stories from the number of words of each fact (`sizes`), the word ids of all facts and those of
    the questions, where 0 is an unknown word and -1 is padding. Facts are padded to `min_width` words or more.
    """
    width = max(min_width, int(sizes.max(initial=1)))
    facts = np.full((*sizes.shape, width), -1)
    facts[np.arange(width) < sizes[..., None]] = words[words >= 0] - 1
    is_fact = sizes >= 0
    ages = np.where(is_fact, is_fact.sum(1, keepdims=True) - 1 - np.arange(sizes.shape[1]), -1)
    return StoryInputs(*(torch.from_numpy(array) for array in (facts, ages, np.maximum(question - 1, -1))))


@dataclass(frozen=True)
class StoryBatch:
    """A batch of stories with a question about each, and the number of the correct answer."""

    story: StoryInputs
    answers: Int[Tensor, " B"]


def collate_stories(corpus: Corpus, rows: Integer[np.ndarray, " B"]) -> StoryBatch:
    """Collate the stories in `rows` of a corpus, with their questions and answers."""
    sizes, words, question = (corpus[side].collate_ids(rows) for side in ("sizes", "words", "question"))
    answers = corpus["answer"].collate_ids(rows)[:, 0]
    return StoryBatch(build_story(sizes, words, question), torch.from_numpy(answers))
