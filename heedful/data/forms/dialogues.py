"""Dialogues: a JSON object on each line whose turns say who speaks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from heedful.data.forms.faults import Fault, Garbled, Leaked, Repeated
from heedful.data.forms.form import Example, Form, Found, by_part
from heedful.data.forms.glance import Glance, Objects, objects
from heedful.data.forms.languages import guessed
from heedful.data.forms.naming import Part
from heedful.data.forms.saving import LineSaver, Saver

_USUAL: Final = "system"
"""Whose turns are learned unless a recipe says otherwise."""


@final
@dataclass(frozen=True, kw_only=True)
class DialoguesFound(Found):
    """Dialogues of several speakers.

    Attributes:
        speakers: those of the first dialogues, who speaks least often to open one first.
    """

    noun: str = "dialogues"
    speakers: Sequence[str]

    @property
    def seen(self) -> str:
        """The format."""
        return "a JSON object on each line, with turns of speakers"

    @property
    def replier(self) -> str:
        """Whose turns are to be learned."""
        return _USUAL if _USUAL in self.speakers else self.speakers[0]

    @property
    def taken(self) -> str:
        """Who replies."""
        return f"the turns of {self.replier!r} are learned, behind those of {', '.join(map(repr, self.speakers[1:]))}"

    @property
    def keys(self) -> Mapping[str, Any]:
        """Who replies, where that is not the usual one."""
        return {} if self.replier == _USUAL else {"replier": self.replier}

    def examples(self, part: Part) -> Iterator[Example]:
        """Dialogue by dialogue."""
        for number, record in objects(self.first(part)):
            text = "\n".join(turn.text("text") for turn in record.inners("turns"))
            yield Example((text,), (), number, json.dumps(record.fields, ensure_ascii=False), (text,))

    def table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """The file."""
        return {"path": files[0]}

    def saver(self, folder: Path, part: Part, *, zipped: bool) -> Saver:
        """The lines as they are."""
        return LineSaver(folder / f"{part}.jsonl{'.gz' * zipped}")

    def faults(self) -> Sequence[Fault]:
        """Those of bare text."""
        return [Leaked(), Repeated(self.noun), Garbled(self.noun)]


@final
@dataclass(frozen=True)
class Dialogues(Form):
    """Objects whose `turns` have a `speaker` and a `text` each."""

    certainty: float = 0.95

    def find(self, files: Sequence[Glance], columns: Sequence[str]) -> Iterator[Found]:
        """By the names of fields; who never opens a dialogue, or does so least often, replies."""
        parts = by_part(files)
        if columns or any(len(each) > 1 for each in parts.values()):
            return
        first = (parts.get("train") or next(iter(parts.values())))[0]
        found = [turns for file in files for turns in [_turns(file)] if turns]
        if len(found) < len(files):
            return
        turns = _turns(first)
        opened = Counter(dialogue[0][0] for dialogue in turns)
        speaks = Counter(speaker for dialogue in turns for speaker, _ in dialogue)
        speakers = sorted(speaks, key=lambda name: (opened[name] / speaks[name], -speaks[name]))
        yield DialoguesFound(
            files={part: [each[0].path] for part, each in parts.items()},
            certainty=self.certainty if len(speakers) == 2 else 0.7,
            languages=[guessed(text for dialogue in turns for _, text in dialogue)],
            speakers=speakers,
            notes=[]
            if len(speakers) == 2 or _USUAL in speakers
            else [f"there are {len(speakers)} speakers; data.replier says who is learned"],
        )


def _turns(file: Glance) -> list[list[tuple[str, str]]]:
    """Speakers and texts of the first dialogues; none where they are no dialogues."""
    if not isinstance(file.shape, Objects) or "turns" not in file.shape.nested:
        return []
    found = []
    for row in file.shape.sample:
        turns = row.get("turns")
        if not isinstance(turns, list) or not all(
            isinstance(turn, dict) and {"speaker", "text"} <= {*turn} for turn in turns
        ):
            return []
        said = [(str(turn["speaker"]), str(turn["text"])) for turn in turns]
        found += [said] if said else []
    return found
