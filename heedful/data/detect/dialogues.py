"""Detect dialogues: a JSON object on each line whose turns name their speakers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from heedful.data.detect.checks import ENCODING_CHECKS, LeakageCheck, RepeatCheck, count_faults
from heedful.data.detect.file_names import DatasetPart
from heedful.data.detect.format import (
    DataCheck,
    DataFormat,
    DatasetExample,
    DetectedDataset,
    LinePartWriter,
    PartWriter,
    find_single_files,
)
from heedful.data.detect.languages import guess_language
from heedful.data.detect.sniff import FileSniff, JsonObjectsShape, read_json_objects

_DEFAULT_REPLIER: Final = "system"
"""Speaker whose turns are learned by default."""


@final
@dataclass(frozen=True, kw_only=True)
class DetectedDialogues(DetectedDataset):
    """A dataset of dialogues between several speakers.

    Attributes:
        speakers: the speakers of the first dialogues, the one who opens dialogues least often first.
    """

    noun: str = "dialogues"
    speakers: Sequence[str]

    @property
    def format_description(self) -> str:
        """Description of the format."""
        return "a JSON object on each line, with turns of speakers"

    @property
    def replier(self) -> str:
        """Speaker whose turns are to be learned."""
        return _DEFAULT_REPLIER if _DEFAULT_REPLIER in self.speakers else self.speakers[0]

    @property
    def learning_description(self) -> str:
        """Description of whose turns are learned."""
        others = ", ".join(map(repr, self.speakers[1:]))
        return f"the turns of {self.replier!r} are learned, as replies to those of {others}"

    @property
    def data_keys(self) -> Mapping[str, Any]:
        """The key `replier`, if it is not the default."""
        return {} if self.replier == _DEFAULT_REPLIER else {"replier": self.replier}

    def read_examples(self, part: DatasetPart) -> Iterator[DatasetExample]:
        """Read one example for each dialogue in the file of a part; its text is that of all turns."""
        for line_number, record in read_json_objects(self.get_first_file(part)):
            text = "\n".join(turn.get_text("text") for turn in record.get_objects("turns"))
            yield DatasetExample((text,), (), line_number, json.dumps(record.fields, ensure_ascii=False), (text,))

    def to_recipe_table(self, files: Sequence[str]) -> Mapping[str, Any]:
        """Return the path of the file."""
        return {"path": files[0]}

    def build_writer(self, folder: Path, part: DatasetPart, *, compress: bool) -> PartWriter:
        """Build a writer of unchanged lines."""
        return LinePartWriter(folder / f"{part}.jsonl{'.gz' * compress}")

    def build_checks(self) -> Sequence[DataCheck]:
        """Return the checks for plain text."""
        return [LeakageCheck(), RepeatCheck(self.noun), *count_faults(self.noun, *ENCODING_CHECKS)]


@final
@dataclass(frozen=True)
class DialogueFormat(DataFormat):
    """Format of dialogues: objects whose `turns` have a `speaker` and a `text` each."""

    confidence: float = 0.95

    def detect(self, files: Sequence[FileSniff], columns: Sequence[str]) -> Iterator[DetectedDataset]:
        """Yield a dataset if no columns are named and all files have dialogues, by the names of fields; the speaker who
        opens dialogues least often is the replier.
        """
        parts = find_single_files(files)
        if columns or parts is None:
            return
        turns_by_file = [turns for file in files for turns in [_read_turns(file)] if turns]
        if len(turns_by_file) < len(files):
            return
        turns = _read_turns(next(iter(parts.values())))
        num_opened = Counter(dialogue[0][0] for dialogue in turns)
        num_turns = Counter(speaker for dialogue in turns for speaker, _ in dialogue)
        speakers = sorted(num_turns, key=lambda name: (num_opened[name] / num_turns[name], -num_turns[name]))
        yield DetectedDialogues(
            files={part: [file.path] for part, file in parts.items()},
            confidence=self.confidence if len(speakers) == 2 else 0.7,
            languages=[guess_language(text for dialogue in turns for _, text in dialogue)],
            speakers=speakers,
            notes=[]
            if len(speakers) == 2 or _DEFAULT_REPLIER in speakers
            else [f"there are {len(speakers)} speakers; data.replier selects the one whose turns are learned"],
        )


def _read_turns(file: FileSniff) -> list[list[tuple[str, str]]]:
    """Return speakers and texts of the first dialogues of a file; empty if it does not hold dialogues."""
    if not isinstance(file.shape, JsonObjectsShape) or "turns" not in file.shape.nested:
        return []
    dialogues = []
    for row in file.shape.sample:
        turns = row.get("turns")
        if not isinstance(turns, list) or not all(
            isinstance(turn, dict) and {"speaker", "text"} <= {*turn} for turn in turns
        ):
            return []
        dialogue = [(str(turn["speaker"]), str(turn["text"])) for turn in turns]
        dialogues += [dialogue] if dialogue else []
    return dialogues
