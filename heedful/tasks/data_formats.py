"""Formats of data from which `heedful new` recognises what a task can learn from (`Recipe.forms`); needs no torch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from heedful.data.detect.dialogues import DialogueFormat
from heedful.data.detect.format import DataFormat, HintOnlyFormat
from heedful.data.detect.parallel import ParallelColumnsFormat, ParallelLinesFormat
from heedful.data.detect.registry import PARALLEL_FORMATS
from heedful.data.detect.sniff import (
    BinaryShape,
    FileSniff,
    FolderShape,
    JsonObjectsShape,
    JsonValueShape,
    PlainLinesShape,
    has_file_names,
)
from heedful.data.documents import PlainTextFormat, TextFieldFormat
from heedful.data.labelled import LabelledTableFormat
from heedful.data.questions import QuestionFormat
from heedful.data.tagged import TaggedWordsFormat

LABELLED_TEXTS: Final[Sequence[DataFormat]] = (LabelledTableFormat(),)
TAGGED_SENTENCES: Final[Sequence[DataFormat]] = (TaggedWordsFormat(),)
QUESTIONS: Final[Sequence[DataFormat]] = (QuestionFormat(),)
PARALLEL_TEXT: Final = PARALLEL_FORMATS
TEXT_PAIRS: Final[Sequence[DataFormat]] = (ParallelLinesFormat(confidence=0.3), ParallelColumnsFormat(confidence=0.3))
"""Parallel text for tasks that it suits less than translation."""
DOCUMENTS: Final[Sequence[DataFormat]] = (
    PlainTextFormat(confidence=0.3, allows_single_text=False),
    TextFieldFormat(confidence=0.3),
)
"""Plain text for tasks that it suits less than language modelling."""


_PICTURE_SUFFIXES: Final = (".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp")
_CLIP_SUFFIXES: Final = (".mp4", ".avi", ".mkv", ".mov", ".webm")
_SOUND_SUFFIXES: Final = (".wav", ".flac", ".mp3", ".ogg", ".m4a", ".opus")
_FACT_PATTERN: Final = re.compile(r"\d+ \S")
_CAPTIONING_HINT: Final = "copy a recipe with heedful recipes flickr8k-soft and name your files there"
_STORIES_HINT: Final = "copy a recipe with heedful recipes babi-task and name your files there"


def _holds_files(file: FileSniff, suffixes: tuple[str, ...]) -> bool:
    """Return whether a folder holds files with one of the suffixes, or a table names some."""
    if isinstance(file.shape, FolderShape):
        return any(file.shape.ending_counts.get(ending, 0) for ending in suffixes)
    return has_file_names(file.shape, suffixes)


def _is_picture(file: FileSniff) -> bool:
    if isinstance(file.shape, BinaryShape):
        return "picture" in file.shape.kind
    return _holds_files(file, _PICTURE_SUFFIXES)


def _is_coco(file: FileSniff) -> bool:
    document = file.shape.value if isinstance(file.shape, JsonValueShape) else None
    return isinstance(document, dict) and {"images", "annotations"} <= {*document}


def _is_clip(file: FileSniff) -> bool:
    is_folder = isinstance(file.shape, FolderShape)
    return (not is_folder and file.path.suffix.lower() in _CLIP_SUFFIXES) or _holds_files(file, _CLIP_SUFFIXES)


def _is_sound(file: FileSniff) -> bool:
    if isinstance(file.shape, BinaryShape) and "sound" in file.shape.kind:
        return file.path.suffix.lower() not in (".avi", ".webp")
    return _holds_files(file, _SOUND_SUFFIXES)


def _is_babi(file: FileSniff) -> bool:
    """Return whether a file has numbered lines, some with a question, an answer and supporting facts between tabs."""
    if not isinstance(file.shape, PlainLinesShape):
        return False
    lines = file.shape.lines
    return all(map(_FACT_PATTERN.match, lines)) and any("\t" in line for line in lines) and len(lines) > 2


def _has_facts(file: FileSniff) -> bool:
    return isinstance(file.shape, JsonObjectsShape) and "facts" in file.shape.nested


def _is_camrest(file: FileSniff) -> bool:
    value = file.shape.value if isinstance(file.shape, JsonValueShape) else None
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "dial" in value[0]


PICTURES: Final[Sequence[DataFormat]] = (
    HintOnlyFormat(
        _is_picture,
        f"these are pictures, or names of their files; captioning needs pictures and captions: {_CAPTIONING_HINT}",
    ),
    HintOnlyFormat(_is_coco, f"this is COCO's JSON; {_CAPTIONING_HINT}"),
)
CLIPS: Final[Sequence[DataFormat]] = (
    HintOnlyFormat(
        _is_clip,
        "these are clips, or files of them; captioning needs clips and captions: copy a recipe with heedful recipes "
        "video and name your files there",
    ),
)
SOUNDS: Final[Sequence[DataFormat]] = (
    HintOnlyFormat(
        _is_sound,
        "these are sounds; speech training needs a table of their files and the spoken texts: copy a recipe with "
        "heedful recipes speech-transformer and name your files there",
    ),
)
STORIES: Final[Sequence[DataFormat]] = (
    HintOnlyFormat(_is_babi, f"these are stories with questions, as bAbI has them; {_STORIES_HINT}"),
    HintOnlyFormat(_has_facts, f"these are facts with questions about them; {_STORIES_HINT}"),
)
DIALOGUES: Final[Sequence[DataFormat]] = (
    DialogueFormat(),
    HintOnlyFormat(
        _is_camrest,
        "these are dialogues of CamRest676; copy their recipe with heedful recipes camrest and name this file there",
    ),
)
TEXTS: Final[Sequence[DataFormat]] = (PlainTextFormat(), TextFieldFormat())
"""Plain text that a language model learns from."""
