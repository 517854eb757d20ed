"""Parts of a data set that has none: written beside each other, so that no text stands in two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from heedful.data.forms.form import Found
from heedful.data.forms.glance import is_zipped
from heedful.data.forms.naming import PARTS, Part
from heedful.data.forms.saving import Saver
from heedful.data.forms.sketch import Split, Splitter


@dataclass(frozen=True)
class Plan:
    """Which files are to be written.

    Attributes:
        split: the parts that are taken out of the data for training.
        savers: what writes each part, those that stay as they are left out.
    """

    split: Sequence[Part]
    savers: Mapping[Part, Saver]

    @property
    def paths(self) -> list[Path]:
        """All files that are to be written."""
        return [path for saver in self.savers.values() for path in saver.paths]

    def files(self, found: Found) -> dict[Part, Sequence[Path]]:
        """The files of each part, once it is carried out."""
        files = {part: self.savers[part].paths if part in self.savers else found.files.get(part, ()) for part in PARTS}
        return {part: each for part, each in files.items() if each}


def plan(found: Found, folder: Path) -> Plan:
    """What is to be done: validation is split off where there is none, and test too where there is neither."""
    missing: list[Part] = [] if "validation" in found.files else ["validation"]
    if missing and "test" not in found.files:
        missing.append("test")
    return planned(found, folder, missing)


def planned(found: Found, folder: Path, missing: Sequence[Part]) -> Plan:
    """The files that are to be written where these parts are split off."""
    written = list(PARTS) if found.converted else ["train", *missing] if missing else []
    present = {*found.files, *missing}
    savers = {
        part: found.saver(folder, part, zipped=is_zipped(found.first(part if part in found.files else "train")))
        for part in PARTS
        if part in written and part in present
    }
    return Plan(missing, savers)


def division(
    todo: Plan, found: Found, splitter: Splitter, sizes: Mapping[Part, int] = MappingProxyType({})
) -> Split | None:
    """Which texts are split off, None where none are; `DataError` where there are too few different ones."""
    return splitter.split([sizes.get(part) for part in todo.split], noun=found.noun) if todo.split else None


def carry_out(
    todo: Plan,
    found: Found,
    splitter: Splitter,
    counts: Mapping[Part, int],
    *,
    sizes: Mapping[Part, int] = MappingProxyType({}),
) -> dict[Part, int]:
    """Writes the files, and says how many examples each part has then.

    Args:
        todo: which files.
        found: the data.
        splitter: which has seen the examples for training.
        counts: examples of each part so far.
        sizes: of parts that are split off, where they are not left to chance.

    Raises:
        DataError: there are too few different texts to split.
    """
    counts = dict(counts)
    if not todo.savers:
        return counts
    split = division(todo, found, splitter, sizes)
    for part in todo.savers:
        counts[part] = 0
    with ExitStack() as stack:
        savers = {part: stack.enter_context(saver) for part, saver in todo.savers.items()}
        for part in found.present:
            if part not in savers:
                continue
            for example in found.examples(part):
                if not found.usable(example):
                    continue
                number = split.part(example.keys) if split is not None and part == "train" else None
                goal = part if number is None else todo.split[number]
                savers[goal].add(example.raw)
                counts[goal] += not found.parts_documents(example)
    return {part: counts[part] for part in PARTS if part in counts}
