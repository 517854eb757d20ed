"""Recordings with transcripts: readers, encoding and batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from jaxtyping import Integer

from heedful.data.batches import PairBatch, build_pair_batch
from heedful.data.corpus import ArraySpec, Corpus, ExampleEncoder
from heedful.data.readers import (
    ExampleReader,
    SentencePair,
    list_folder_files,
    read_numbered_lines,
    read_records,
    split_columns,
)
from heedful.data.sound import Frontend, PaddedLogMel
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.files import is_file
from heedful.generation.ctc import count_needed_frames
from heedful.tensors import FeatureBatch

FRAMES: Final = "frames"
TEXT: Final = "text"
_SOUND_SUFFIXES: Final = (".flac", ".wav")


class Utterance(NamedTuple):
    """A sound file, its transcript, and where the transcript is written (`file:line`)."""

    sound: Path
    text: str
    location: str


class UtteranceReader(ExampleReader[Utterance]):
    """Reader of utterances, which are listed at once; its `paths` are the transcripts and the sound files.

    It raises `DataError` if a transcript is broken, or names a missing file.
    """

    def __init__(self, transcripts: Sequence[Path], utterances: Iterable[Utterance]) -> None:
        super().__init__(*transcripts)
        self._utterances = list(utterances)
        for utterance in self._utterances:
            if not is_file(utterance.sound):
                raise DataError(
                    f"{utterance.location}: {utterance.sound}: there is no such file; correct the line or add the file"
                )
        self.paths = (*transcripts, *(utterance.sound for utterance in self._utterances))

    def __iter__(self) -> Iterator[Utterance]:
        return iter(self._utterances)


def read_recordings_table(path: Path, *, sound_column: int = 0, text_column: int = 1) -> UtteranceReader:
    """Read a table with a sound file and its text in two tab-separated columns of each line.

    Files are relative to the table's folder. Lines of white space are skipped.
    """
    num_columns = max(sound_column, text_column) + 1
    rows = (
        (split_columns(line, num_columns, location=location), location)
        for _, location, line in read_numbered_lines(path)
    )
    return UtteranceReader(
        [path],
        (_make_utterance(path, fields[sound_column], fields[text_column], location) for fields, location in rows),
    )


def read_recordings_jsonl(path: Path, *, sound_field: str = "sound", text_field: str = "text") -> UtteranceReader:
    """Read a file with a JSON object per line: a sound file and its text; files are relative to its folder."""
    utterances = (
        _make_utterance(path, record.get_text(sound_field), record.get_text(text_field), record.location)
        for _, record in read_records(path)
    )
    return UtteranceReader([path], utterances)


def read_recording_pairs(pairs: ExampleReader[SentencePair]) -> UtteranceReader:
    """Read utterances from translation pairs: the source is a sound file, the target its text.

    Files are relative to the folder of the pairs' file.
    """
    path = pairs.paths[0]
    return UtteranceReader([path], (_make_utterance(path, pair.source, pair.target, pair.location) for pair in pairs))


def read_librispeech(path: Path) -> UtteranceReader:
    """Read LibriSpeech folders: files `*.trans.txt` of lines with a name and a text, beside NAME.flac or NAME.wav."""
    if not path.is_dir():
        raise DataError(f"{path}: there is no such folder; check the path")
    transcripts = list_folder_files(path, ".trans.txt")
    if not transcripts:
        raise DataError(
            f"{path}: has no file *.trans.txt, here or in its subfolders; name a folder in LibriSpeech's format"
        )

    return UtteranceReader(transcripts, (utterance for table in transcripts for utterance in _iter_transcript(table)))


def _iter_transcript(table: Path) -> Iterator[Utterance]:
    """Yield the utterances of one of LibriSpeech's transcript files; a sound file ends with .flac or .wav."""
    for _, location, line in read_numbered_lines(table):
        name, _, text = line.strip().partition(" ")
        sounds = [_make_utterance(table, name + suffix, text, location) for suffix in _SOUND_SUFFIXES]
        yield next((utterance for utterance in sounds if is_file(utterance.sound)), sounds[0])


def _make_utterance(table: Path, sound: str, text: str, location: str) -> Utterance:
    """Return an utterance whose sound file `sound` is named relative to the folder of a table; raise `DataError` if no
    file is named.
    """
    if not sound.strip():
        raise DataError(f"{location}: no file is named; correct the line")
    return Utterance(table.parent / sound.strip(), text.strip(), location)


def count_slots(num_frames: int, *, frames_per_slot: int) -> int:
    """Return the number of memory slots for a number of frames."""
    return -(-num_frames // frames_per_slot)


def build_speech_encoding(
    tokenizer: Tokenizer,
    frontend: Frontend,
    *,
    max_seconds: float,
    max_length: int,
    frames_per_token: int | None = None,
) -> ExampleEncoder[Utterance]:
    """Return the encoding of an utterance: ids of the text with its end token, and acoustic frames. Sounds or texts
    that are too long are left out, and with `frames_per_token` sounds that are too short for their text.

    Args:
        tokenizer: of the text.
        frontend: computes frames.
        max_seconds: longest sound.
        max_length: longest text, in tokens with its end token.
        frames_per_token: number of frames that each token needs for a slot of its own (CTC); sounds that are too short
            for their text are left out. None if tokens need no slot.
    """
    frames_per_second = 1000 / frontend.hop

    def encode(utterance: Utterance) -> tuple[list[int] | None, np.ndarray | None]:
        """Return the ids and frames of an utterance, or None for both if it is too long or too short."""
        try:
            sound = frontend.read(utterance.sound)
            frames = frontend.compute_frames(sound)
        except DataError as error:
            raise DataError(f"{utterance.location}: {error}") from None
        ids = tokenizer.encode(utterance.text)
        is_padded = isinstance(frontend, PaddedLogMel)
        num_frames = len(sound.samples) / sound.rate * frames_per_second if is_padded else len(frames)
        if num_frames > max_seconds * frames_per_second or len(ids) >= max_length:
            return None, None
        if frames_per_token is not None:
            slots = count_slots(len(frames), frames_per_slot=frames_per_token)
            if 0 < slots < count_needed_frames(ids):
                return None, None
        return [*ids, tokenizer.special.eos] if ids else [], frames.numpy()

    # sounds stand last, since the last side is what batches are planned by
    return ExampleEncoder({TEXT: tokenizer.size, FRAMES: ArraySpec("<f4", (frontend.bands,))}, encode)


def collate_speech(corpus: Corpus, rows: Integer[np.ndarray, " B"], *, bos: int) -> PairBatch[FeatureBatch]:
    """Collate the utterances in `rows` of a corpus, padded on the right; `bos` is the id that begins decoder inputs."""
    frames, positions = corpus[FRAMES].collate_arrays(rows)
    source = FeatureBatch(torch.from_numpy(frames), torch.from_numpy(positions))
    return build_pair_batch(source, corpus[TEXT].collate_ids(rows), bos=bos)


def pad_frames(frames: Sequence[torch.Tensor]) -> FeatureBatch:
    """Pad the frames of several sounds on the right and stack them."""
    vectors = torch.nn.utils.rnn.pad_sequence(list(frames), batch_first=True)
    counts = torch.tensor([len(sound_frames) for sound_frames in frames]).unsqueeze(1)
    columns = torch.arange(vectors.size(1))
    return FeatureBatch(vectors, torch.where(columns < counts, columns, -1))
