"""Translation memories: files of approved translations, read, and asked before a model is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from heedful.data.forms.glance import Glance, Objects, Plain, Rows, Shape, Translated, glance
from heedful.data.forms.languages import agree, code_of
from heedful.data.forms.naming import plain_suffix
from heedful.data.forms.pairing import is_like
from heedful.data.forms.parallel import ParallelFound
from heedful.errors import DataError
from heedful.language_tags import is_same_variety
from heedful.localisation.documents import Languages
from heedful.localisation.files import read_document
from heedful.localisation.memory import Approved, Match, TranslationMemory
from heedful.localisation.placeholders import plain
from heedful.recipes.proposals import proposals
from heedful.tasks.faces import Lines, Unread
from heedful.tasks.translation.translations import Sentence

TAKEN: Final = "taken from the memory"
SIMILAR: Final = "similar to a text of the memory"
STRANGE: Final = "like no text of the memory"
"""What is told of a sentence (`Lines.notes`)."""


def read_memory(paths: Sequence[Path], *, languages: Languages, least: float) -> TranslationMemory:
    """The approved translations of files, as one memory.

    A TMX, PO or XLIFF gives what is finished in it, as `Confirmed` does but with all its placeholders; a table or lines
    of JSON two columns of text; of plain text two files follow each other, the source first. What is in the language
    of another region (`pt-BR` for `pt-PT`), or only likely in the same script (`zh` for `zh-TW`), is shown and never
    taken.

    Args:
        paths: of the files, the most trusted first.
        languages: of what is translated, as far as they are known; a TMX needs both unless it has two languages.
        least: how similar a text must be, from 0 to 1; see `TranslationMemory`.

    Raises:
        DataError: a file is missing or damaged, has no pairs, or is of other languages.
        MissingExtraError: rapidfuzz is not installed.
    """
    return TranslationMemory(_approved(paths, languages), least=least)


def _approved(paths: Sequence[Path], languages: Languages) -> Iterator[Approved]:
    waiting = list(map(glance, paths))
    while waiting:
        first = waiting.pop(0)
        if isinstance(first.shape, Translated):
            yield from _of_document(first, first.shape, languages)
            continue
        files = [first]
        if isinstance(first.shape, Plain):
            if not (waiting and isinstance(waiting[0].shape, Plain)):
                raise DataError(
                    f"{first.path}: is plain text, whose translations stand in a second file; name that behind it"
                )
            files.append(waiting.pop(0))
        yield from _of_text(files, languages)


def _of_document(file: Glance, shape: Translated, wanted: Languages) -> Iterator[Approved]:
    """What is finished in a file of translators."""
    there = ""
    if plain_suffix(file.path) == ".tmx":
        wanted = _between(file.path, shape.languages, wanted)
        there = f" from {wanted.source!r} to {wanted.target!r} (there: {', '.join(shape.languages) or 'none'})"
    document = read_document(file.path, source=wanted.source, target=wanted.target)
    said = document.languages
    for what, own, asked in (("sources", said.source, wanted.source), ("translations", said.target, wanted.target)):
        if own is not None and asked is not None and not agree(own, asked):
            raise DataError(f"{file.path}: its {what} are in {own!r}, and {asked!r} is wanted; name another memory")
    takeable = all(
        own is None or asked is None or is_same_variety(own, asked)
        for own, asked in ((said.source, wanted.source), (said.target, wanted.target))
    )
    empty = True
    for unit in document.units:
        if unit.state == "translated" and unit.target is not None and plain(unit.source) and plain(unit.target):
            empty = False
            yield Approved(unit.source, unit.target, file.path.name, takeable)
    if empty:
        raise DataError(f"{file.path}: has no translation that is finished{there}; name another memory")


def _between(path: Path, there: Sequence[str], wanted: Languages) -> Languages:
    """The languages of a TMX that are meant; of two, one tells the other."""
    source, target = wanted.source, wanted.target
    others = [language for language in there if not agree(language, source or target or "")]
    if len(there) == 2 and len(others) == 1:
        source, target = source or (others[0] if target else None), target or (others[0] if source else None)
    if source is None or target is None:
        raise DataError(
            f"{path}: does not say what is translated into what (there: {', '.join(there) or 'none'}); "
            "say it with --source-language en --target-language de"
        )
    return Languages(source, target)


def _of_text(files: Sequence[Glance], wanted: Languages) -> Iterator[Approved]:
    """Two columns, or two files of lines."""
    found = proposals(files, task="translation", columns=_columns(files[0].shape))[0].found
    assert isinstance(found, ParallelFound), "nothing else is translated"
    part = found.present[0]
    asked = (wanted.source, wanted.target)
    for name, own, tag in zip(found.sides(part), found.languages, asked, strict=False):
        known = code_of(tag or "")
        if own and known and not is_like(own, known):
            raise DataError(f"{name}: is in {own}, and {known} is wanted; name another memory, or turn it round")
    empty = True
    for example in found.examples(part):
        source, target = example.texts
        if plain((source,)) and plain((target,)):
            empty = False
            yield Approved((source,), (target,), files[0].path.name)
    if empty:
        raise DataError(f"{files[0].path}: has no text with a translation; name another memory")


def _columns(shape: Shape) -> Sequence[str]:
    """Those that hold source and target, where nothing else can be meant."""
    if not isinstance(shape, Rows | Objects):
        return ()
    names = [column.name for column in shape.columns]
    if {"source", "target"} <= set(names):
        return ("source", "target")
    return names if len(names) == 2 and isinstance(shape, Rows) else ()


@final
@dataclass(frozen=True)
class Remembered:
    """What became of a sentence.

    Attributes:
        sentence: that was given.
        match: what the memory has for it.
        answer: the model's, where the memory has no translation.
    """

    sentence: Sentence
    match: Match | None
    answer: Any = None


@final
@dataclass(frozen=True)
class RememberedLines(Lines[Sentence, Remembered]):
    """A sentence a line; a memory has its translation, or a model makes one.

    Attributes:
        inner: how the model answers.
        memory: that is asked first.
        accelerators: whether a sign before a letter may choose a text from a menu.
    """

    inner: Lines[Sentence, Any]
    memory: TranslationMemory
    accelerators: bool = False

    def inputs(self, lines: Iterable[str], *, name: str) -> Iterator[Sentence]:
        """Sentences whose translations may be as they like."""
        return map(Sentence, lines)

    def answers(self, inputs: Sequence[Sentence], *, first: int) -> list[Remembered | Unread]:
        """What the memory has, and what the model says of all others."""
        matches = [self.memory.find((each.text,), accelerators=self.accelerators) for each in inputs]
        asked = [each for each, match in zip(inputs, matches, strict=True) if not _is_taken(match)]
        said = iter(self.inner.answers(asked, first=first))
        found: list[Remembered | Unread] = []
        for sentence, match in zip(inputs, matches, strict=True):
            answer = None if _is_taken(match) else next(said)
            found.append(answer if isinstance(answer, Unread) else Remembered(sentence, match, answer))
        return found

    def record(self, answer: Remembered) -> Any:
        """With the text that was found, its translation, and how similar it is."""
        match = answer.match
        if match is None:
            return self.inner.record(answer.answer)
        taken = {"source": answer.sentence.text, "translation": _line(match)}
        record: dict[str, Any] = taken if _is_taken(match) else self.inner.record(answer.answer)
        similarity = round(match.similarity, 4)
        shown = {"source": match.source, "target": match.target, "similarity": similarity, "taken": _is_taken(match)}
        return {**record, "match": shown}

    def text(self, answer: Remembered) -> str:
        """The translation."""
        if answer.match is not None and _is_taken(answer.match):
            return f"{_line(answer.match)}\n"
        return self.inner.text(answer.answer)

    def notes(self, answer: Remembered) -> Iterator[str]:
        """What the memory had, and what is told of the model's answer."""
        if _is_taken(answer.match):
            yield TAKEN
            return
        yield STRANGE if answer.match is None else SIMILAR
        yield from self.inner.notes(answer.answer)


def _is_taken(match: Match | None) -> bool:
    return match is not None and match.taken is not None


def _line(match: Match) -> str:
    """What was taken, in one line."""
    return " ".join("".join(part if isinstance(part, str) else part.raw for part in match.taken or ()).split())
