"""Recordings beside what is said in them, and both as a model reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from jaxtyping import Integer

from heedful.data.batches import PairBatch, build_pair_batch
from heedful.data.corpus import ArraySpec, Corpus, ExampleEncoder
from heedful.data.readers import ExampleReader, SentencePair, read_numbered_lines, read_records, split_columns
from heedful.data.sound import LogMel, read_sound
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.generation.ctc import count_needed_frames
from heedful.tensors import FeatureBatch

FRAMES: Final = "frames"
TEXT: Final = "text"
SUBSAMPLING: Final = 4
"""Frames that become one slot of a memory."""
_SOUND_SUFFIXES: Final = (".flac", ".wav")


class Utterance(NamedTuple):
    """A file of sound, what is said in it, and where that is written (`file:line`)."""

    sound: Path
    text: str
    location: str


class UtteranceReader(ExampleReader[Utterance]):
    """Utterances, listed at once; `paths` are transcripts and files of sound, for both are what is learned from.

    Raises `DataError` where a transcript is broken, or names a file that is missing.
    """

    def __init__(self, transcripts: Sequence[Path], parse_transcript: Callable[[Path], Iterable[Utterance]]) -> None:
        super().__init__(*transcripts)
        self._utterances = [utterance for path in transcripts for utterance in parse_transcript(path)]
        for utterance in self._utterances:
            if not utterance.sound.is_file():
                raise DataError(
                    f"{utterance.location}: {utterance.sound}: there is no such file; mend the line or bring the file"
                )
        self.paths = (*transcripts, *(utterance.sound for utterance in self._utterances))

    def __iter__(self) -> Iterator[Utterance]:
        return iter(self._utterances)


def read_recordings_table(path: Path, *, sound_column: int = 0, text_column: int = 1) -> UtteranceReader:
    """A file and its text on each line, in two of its tab-separated columns; files are counted from the table's folder.

    Lines of nothing but white space are left out.
    """

    def iter_utterances(table: Path) -> Iterator[Utterance]:
        for _, location, line in read_numbered_lines(table):
            fields = split_columns(line, max(sound_column, text_column) + 1, location=location)
            yield Utterance(
                _resolve_sound_path(table, fields[sound_column], location), fields[text_column].strip(), location
            )

    return UtteranceReader([path], iter_utterances)


def read_recordings_jsonl(path: Path, *, sound_field: str = "sound", text_field: str = "text") -> UtteranceReader:
    """A JSON object on each line with a file and its text; files are counted from the folder of the list."""

    def iter_utterances(table: Path) -> Iterator[Utterance]:
        for _, record in read_records(table):
            sound = _resolve_sound_path(table, record.get_text(sound_field), record.location)
            yield Utterance(sound, record.get_text(text_field).strip(), record.location)

    return UtteranceReader([path], iter_utterances)


def read_recording_pairs(pairs: ExampleReader[SentencePair]) -> UtteranceReader:
    """Files of sound whose texts stand where translations do; files are counted from the folder of the table."""

    def iter_utterances(table: Path) -> Iterator[Utterance]:
        return (
            Utterance(_resolve_sound_path(table, pair.source, pair.location), pair.target.strip(), pair.location)
            for pair in pairs
        )

    return UtteranceReader([pairs.paths[0]], iter_utterances)


def read_librispeech(path: Path) -> UtteranceReader:
    """LibriSpeech's folders: files `*.trans.txt` of lines with a name and a text, and beside them NAME.flac or .wav."""
    if not path.is_dir():
        raise DataError(f"{path}: there is no such folder; check the path")
    transcripts = sorted(path.rglob("*.trans.txt"))
    if not transcripts:
        raise DataError(f"{path}: no file *.trans.txt in this folder or below it; name a folder of LibriSpeech's form")

    def iter_utterances(table: Path) -> Iterator[Utterance]:
        for _, location, line in read_numbered_lines(table):
            name, _, text = line.strip().partition(" ")
            sound_files = [
                file
                for suffix in _SOUND_SUFFIXES
                if (file := _resolve_sound_path(table, name + suffix, location)).is_file()
            ]
            yield Utterance(
                sound_files[0] if sound_files else table.parent / f"{name}{_SOUND_SUFFIXES[0]}", text.strip(), location
            )

    return UtteranceReader(transcripts, iter_utterances)


def _resolve_sound_path(table: Path, name: str, location: str) -> Path:
    if not name.strip():
        raise DataError(f"{location}: no file is named; mend the line")
    return table.parent / name.strip()


def count_slots(num_frames: int) -> int:
    """How many slots of a memory so many frames become."""
    return -(-num_frames // SUBSAMPLING)


def build_speech_encoding(
    tokenizer: Tokenizer, frontend: LogMel, *, max_seconds: float, max_length: int, needs_alignment: bool
) -> ExampleEncoder[Utterance]:
    """The ids of a text with its end, and the frames of its sound.

    Args:
        tokenizer: of the text.
        frontend: makes frames.
        max_seconds: longest sound.
        max_length: longest text, in tokens with its end.
        needs_alignment: whether each token needs a slot of its own; sounds that are too short for their texts are left out.
    """
    max_frames = max_seconds * 1000 / frontend.hop

    def encode(utterance: Utterance) -> tuple[list[int] | None, np.ndarray | None]:
        try:
            frames = frontend.compute_frames(read_sound(utterance.sound))
        except DataError as error:
            raise DataError(f"{utterance.location}: {error}") from None
        ids = tokenizer.encode(utterance.text)
        is_too_short = needs_alignment and 0 < count_slots(len(frames)) < count_needed_frames(ids)
        if len(frames) > max_frames or len(ids) >= max_length or is_too_short:
            return None, None
        return [*ids, tokenizer.special.eos] if ids else [], frames.numpy()

    # sounds stand last, since the last side is what batches are planned by
    return ExampleEncoder({TEXT: tokenizer.size, FRAMES: ArraySpec("<f4", (frontend.bands,))}, encode)


def collate_speech(corpus: Corpus, rows: Integer[np.ndarray, " B"], *, bos: int) -> PairBatch[FeatureBatch]:
    """The utterances in `rows`, padded on the right."""
    frames, positions = corpus[FRAMES].collate_arrays(rows)
    source = FeatureBatch(torch.from_numpy(frames), torch.from_numpy(positions))
    return build_pair_batch(source, corpus[TEXT].collate_ids(rows), bos=bos)


def pad_frames(frames: Sequence[torch.Tensor]) -> FeatureBatch:
    """Frames of several sounds, padded on the right."""
    vectors = torch.nn.utils.rnn.pad_sequence(list(frames), batch_first=True)
    counts = torch.tensor([len(sound_frames) for sound_frames in frames]).unsqueeze(1)
    columns = torch.arange(vectors.size(1))
    return FeatureBatch(vectors, torch.where(columns < counts, columns, -1))
