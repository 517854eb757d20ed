"""Texts that are learned from beside the main one: found like it, in its direction, without what is held out of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from heedful.catalogue import tasks
from heedful.data.forms.form import Found
from heedful.data.forms.glance import Columnar, Glance, Objects, Plain, Rows, Translated, glance, is_zipped
from heedful.data.forms.languages import Language, agree
from heedful.data.forms.parallel import ParallelFound
from heedful.data.forms.saving import Saver
from heedful.data.forms.sketch import Split, fingerprint
from heedful.data.forms.survey import Survey, survey
from heedful.data.forms.tables import Table
from heedful.errors import DataError, RecipeError
from heedful.recipes.draft import told
from heedful.recipes.proposals import Proposal, proposals
from heedful.recipes.reference import keys_of

_TEXTS: Final = "data.train.texts"
_SIDES: Final = ("source_language", "target_language")
_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Beside:
    """A text beside the main one.

    Attributes:
        name: that of its table.
        found: its files, and how they are read.
        certain: whether nobody doubts that.
        saver: what writes it where it must be written anew.
        notes: what else is to be told, in sentences.
    """

    name: str
    found: ParallelFound
    certain: bool
    saver: Saver
    notes: Sequence[str] = ()

    @property
    def told(self) -> str:
        """Its name and its files."""
        return f"{self.name} ({' and '.join(path.name for path in self.found.files['train'])})"

    def look(self, held: frozenset[int]) -> Looked:
        """All of it read; `DataError` where nothing stays of it."""
        seen = survey(self.found)
        count = sum(1 for pair in self.found.examples("train") if _is_held(pair.texts, held))
        if count == seen.counts["train"]:
            raise DataError(f"--also: {self.told} has nothing but pairs that are held out; leave it away")
        return Looked(self, seen, held, count)


@dataclass(frozen=True)
class Looked:
    """A text beside the main one, all of which was read.

    Attributes:
        text: which one.
        seen: what is in it.
        held: what is held out of the main text.
        without: how many pairs are left out since they hold some of that.
    """

    text: Beside
    seen: Survey
    held: frozenset[int]
    without: int

    @property
    def size(self) -> int:
        """The pairs that stay."""
        return self.seen.counts["train"] - self.without

    @property
    def paths(self) -> Sequence[Path]:
        """The files that are to be written; none where it stays where it is."""
        return self.text.saver.paths if self.without or self.text.found.converted else ()

    @property
    def described(self) -> Sequence[str]:
        """What was seen, in lines."""
        found = self.text.found
        doubt = "" if self.text.certain else ", which is not certain"
        lines = [f"beside it, {self.text.told}: {found.seen}, {found.taken}{doubt}"]
        left = f"; {self.without:,} left out, whose source or translation is held out" if self.without else ""
        written = f", written to {self.text.saver.paths[0].parent}" if self.paths else ""
        return [
            *lines,
            f"{found.noun} of {self.text.name}: {self.size:,} for training{left}{written}",
            *self.text.notes,
        ]

    def carry_out(self) -> None:
        """Writes it where it cannot stay as it is."""
        if not self.paths:
            return
        with self.text.saver as saver:
            for pair in self.text.found.examples("train"):
                if not _is_held(pair.texts, self.held):
                    saver.add(pair.raw)

    def table(self, folder: Path) -> Mapping[str, Any]:
        """Its table in a recipe of a folder."""
        return self.text.found.table([told(path, folder) for path in self.paths or self.text.found.files["train"]])


def takes_several(task: str) -> bool:
    """Whether recipes of a task may have several texts to learn from."""
    return any(key.path == _TEXTS for key in keys_of(task))


def texts_beside(
    files: Sequence[Path], main: Proposal, folder: Path, *, columns: Sequence[str] = ()
) -> Sequence[Beside]:
    """What files hold beside the main text.

    Args:
        files: of any form; two of plain text belong together where one stands behind the other.
        main: the main text.
        folder: for those that must be written anew.
        columns: those of the main text, which are read of tables that have them.

    Raises:
        RecipeError: the task learns from one text, a file misses its partner, or languages do not fit.
        DataError: files are of no form.
    """
    if not takes_several(main.task):
        able = ", ".join(task for task in tasks() if takes_several(task))
        raise RecipeError(f'--also: task = "{main.task}" learns from one text; leave it away, or add --task {able}')
    assert isinstance(main.found, ParallelFound), "what takes several texts is parallel"
    taken = [name_of(main.found)]
    found: list[Beside] = []
    tongues = _known(main.found)
    for group in _grouped([glance(file) for file in files]):
        proposal = _proposed(group, main.task, tongues, columns)
        assert isinstance(proposal.found, ParallelFound)
        own, notes = _directed(proposal.found, tongues)
        tongues = tongues or (_known(own) if any(isinstance(each.shape, Translated) for each in group) else None)
        name = _free(name_of(own), taken)
        taken.append(name)
        saver = own.saver(folder / name, "train", zipped=is_zipped(own.first("train")))
        found.append(Beside(name, own, proposal.certain, saver, [*notes, *own.notes]))
    return found


def held_out(found: Found, split: Split | None) -> frozenset[int]:
    """Fingerprints of each side of all that validation and test are made of.

    Args:
        found: the main text, before it is split.
        split: what is split off it, if anything is.
    """
    marks: set[int] = set()
    for part in found.present:
        for example in found.examples(part):
            if part != "train" or (split is not None and split.part(example.keys) is not None):
                marks.update(_marks(example.texts))
    return frozenset(marks)


def common_languages(found: Found, beside: Sequence[Looked], task: str) -> Mapping[str, str]:
    """The keys of a recipe that say from which language into which all texts are translated.

    Args:
        found: the main text.
        beside: the others.
        task: what is learned; not each task's recipe has the keys.

    Returns:
        `source_language` and `target_language`; nothing where a language is not known, or a text seems to be of others.
    """
    if not isinstance(found, ParallelFound) or found.direction is None or not takes_several(task):
        return {}
    own = _known(found)
    others = [_known(each.text.found) for each in beside]
    if any(other is not None and (own is None or list(other) != list(own)) for other in others):
        return {}
    return dict(zip(_SIDES, found.direction, strict=True))


def in_tables(
    main: Mapping[str, Any], name: str, beside: Sequence[Looked], folder: Path, *, languages: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """The tables of all texts by their names, each with its languages.

    Args:
        main: the table of the main text.
        name: of the main text.
        beside: the others.
        folder: that of the recipe.
        languages: what they are where no file calls them otherwise.

    Raises:
        RecipeError: files call one language by different names.
    """
    tables = {name: dict(main), **{each.text.name: dict(each.table(folder)) for each in beside}}
    for side in _SIDES:
        said = list(dict.fromkeys(table[side] for table in tables.values() if side in table))
        wider = list(dict.fromkeys(re.split("[-_]", tag.lower())[0] for tag in said))
        if len(wider) > 1:
            raise RecipeError(f"--also: files call one language {' and '.join(said)}; let them call it the same")
        for table in tables.values():
            table.update({side: said[0] if len(said) == 1 else wider[0]} if said else _only(languages, side))
    return tables


def _only(languages: Mapping[str, str], side: str) -> dict[str, str]:
    return {side: languages[side]} if side in languages else {}


def name_of(found: Found) -> str:
    """What a text is called by its files: the words with which their names begin, up to a dot."""
    stems = [path.name.partition(".")[0] for path in found.files[found.present[0]]]
    words = [re.split("([-_])", stem) for stem in stems]
    common = "".join(column[0] for column in takewhile(lambda column: len({*column}) == 1, zip(*words, strict=False)))
    return _NAME.sub("-", common.rstrip("-_") or stems[0]).strip("-") or "text"


def _free(name: str, taken: Sequence[str]) -> str:
    """The name, with a number where another text has it."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free


def _grouped(files: Sequence[Glance]) -> Iterator[Sequence[Glance]]:
    """Files that belong together: plain ones two by two, each other one alone."""
    waiting = list(files)
    while waiting:
        first = waiting.pop(0)
        if not isinstance(first.shape, Plain):
            yield [first]
        elif waiting and isinstance(waiting[0].shape, Plain):
            yield [first, waiting.pop(0)]
        else:
            raise RecipeError(
                f"--also: {first.path}: {first.told}, where translations need two files; name its translation behind "
                "it, as in --also made.en made.de"
            )


def _proposed(
    group: Sequence[Glance], task: str, tongues: Sequence[Language] | None, columns: Sequence[str]
) -> Proposal:
    """What a text is for; of a memory of many languages, those of the main text."""
    (shape, *_), path = [each.shape for each in group], group[0].path
    if isinstance(shape, Translated):
        own = _of_memory(path, shape.languages, tongues) if shape.languages else ()
    else:
        own = columns if _has(group[0], columns) else ()
    try:
        return proposals(group, task=task, columns=own)[0]
    except DataError as error:
        raise DataError(f"--also: {error}") from None


def _of_memory(path: Path, there: Sequence[str], tongues: Sequence[Language] | None) -> Sequence[str]:
    if tongues is None:
        if len(there) == 2:
            return ()  # which has its own order
        raise RecipeError(
            f"--also: {path} has {', '.join(there)}, and the languages of the text itself cannot be told; name its "
            "files by them, as in train.en train.de"
        )
    found = [next((tag for tag in there if agree(tag, language.code)), None) for language in tongues]
    for tag, language in zip(found, tongues, strict=True):
        if tag is None:
            raise RecipeError(f"--also: {path} has {', '.join(there)}, and nothing in {language}; leave it away")
    return [tag for tag in found if tag is not None]


def _has(file: Glance, columns: Sequence[str]) -> bool:
    """Whether a table has all of some columns."""
    if isinstance(file.shape, Columnar):
        return {*columns} <= {*file.shape.texts}
    if not isinstance(file.shape, Rows | Objects):
        return False
    try:
        return bool([Table(file.path, file.shape).column(name) for name in columns])
    except RecipeError:
        return False


def _known(found: ParallelFound) -> Sequence[Language] | None:
    """The language that is read and the one that is written, where both can be told and differ."""
    apart = len(found.languages) == 2 and all(found.languages) and found.languages[0] != found.languages[1]
    return found.languages if apart else None


def _directed(found: ParallelFound, tongues: Sequence[Language] | None) -> tuple[ParallelFound, Sequence[str]]:
    """A text in the direction of the main one, and what is to be said of it."""
    own = _known(found)
    if own is None or tongues is None or list(own) == list(tongues):
        return found, ()
    if list(own) == list(reversed(tongues)):
        return found.turned(), ()
    first, second = tongues
    return found, [f"note: that seems to be {own[0]} to {own[1]}, and the text itself is {first} to {second}"]


def _marks(texts: Sequence[str]) -> Iterator[int]:
    """Fingerprints of the sides of a pair; an empty one has none."""
    yield from (fingerprint(str(side), text) for side, text in enumerate(texts) if text.strip())


def _is_held(texts: Sequence[str], held: frozenset[int]) -> bool:
    """Whether a side of a pair is one that is held out."""
    return any(mark in held for mark in _marks(texts))
