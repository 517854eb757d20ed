"""Recordings beside what is said in them, and both as a model reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from jaxtyping import Integer

from heedful.data.batches import PairBatch, pair_batch
from heedful.data.corpus import Corpus, Encoding, Items
from heedful.data.readers import Pair, Reader, columns, placed_lines, records
from heedful.data.sound import LogMel, read_sound
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.generation.ctc import frames_needed
from heedful.values import Vectors

FRAMES: Final = "frames"
TEXT: Final = "text"
SHORTENED: Final = 4
"""Frames that become one slot of a memory."""
_KINDS: Final = (".flac", ".wav")


class Utterance(NamedTuple):
    """A file of sound, what is said in it, and where that is written (`file:line`)."""

    sound: Path
    text: str
    place: str


class Recordings(Reader[Utterance]):
    """Utterances, listed at once; `paths` are transcripts and files of sound, for both are what is learned from.

    Raises `DataError` where a transcript is broken, or names a file that is missing.
    """

    def __init__(self, transcripts: Sequence[Path], utterances: Callable[[Path], Iterable[Utterance]]) -> None:
        super().__init__(*transcripts)
        self._utterances = [each for path in transcripts for each in utterances(path)]
        for each in self._utterances:
            if not each.sound.is_file():
                raise DataError(f"{each.place}: {each.sound}: there is no such file; mend the line or bring the file")
        self.paths = (*transcripts, *(each.sound for each in self._utterances))

    def __iter__(self) -> Iterator[Utterance]:
        return iter(self._utterances)


def tabled(path: Path, *, sound_column: int = 0, text_column: int = 1) -> Recordings:
    """A file and its text on each line, in two of its tab-separated columns; files are counted from the table's folder.

    Lines of nothing but white space are left out.
    """

    def utterances(table: Path) -> Iterator[Utterance]:
        for _, place, line in placed_lines(table):
            fields = columns(line, max(sound_column, text_column) + 1, place=place)
            yield Utterance(_beside(table, fields[sound_column], place), fields[text_column].strip(), place)

    return Recordings([path], utterances)


def listed(path: Path, *, sound_field: str = "sound", text_field: str = "text") -> Recordings:
    """A JSON object on each line with a file and its text; files are counted from the folder of the list."""

    def utterances(table: Path) -> Iterator[Utterance]:
        for _, record in records(table):
            sound = _beside(table, record.text(sound_field), record.place)
            yield Utterance(sound, record.text(text_field).strip(), record.place)

    return Recordings([path], utterances)


def paired(pairs: Reader[Pair]) -> Recordings:
    """Files of sound whose texts stand where translations do; files are counted from the folder of the table."""

    def utterances(table: Path) -> Iterator[Utterance]:
        return (Utterance(_beside(table, pair.source, pair.place), pair.target.strip(), pair.place) for pair in pairs)

    return Recordings([pairs.paths[0]], utterances)


def in_folders(path: Path) -> Recordings:
    """LibriSpeech's folders: files `*.trans.txt` of lines with a name and a text, and beside them NAME.flac or .wav."""
    if not path.is_dir():
        raise DataError(f"{path}: there is no such folder; check the path")
    transcripts = sorted(path.rglob("*.trans.txt"))
    if not transcripts:
        raise DataError(f"{path}: no file *.trans.txt in this folder or below it; name a folder of LibriSpeech's form")

    def utterances(table: Path) -> Iterator[Utterance]:
        for _, place, line in placed_lines(table):
            name, _, text = line.strip().partition(" ")
            found = [file for kind in _KINDS if (file := _beside(table, name + kind, place)).is_file()]
            yield Utterance(found[0] if found else table.parent / f"{name}{_KINDS[0]}", text.strip(), place)

    return Recordings(transcripts, utterances)


def _beside(table: Path, name: str, place: str) -> Path:
    if not name.strip():
        raise DataError(f"{place}: no file is named; mend the line")
    return table.parent / name.strip()


def slots_of(frames: int) -> int:
    """How many slots of a memory so many frames become."""
    return -(-frames // SHORTENED)


def spoken_encoding(
    tokenizer: Tokenizer, front: LogMel, *, seconds: float, max_length: int, aligned: bool
) -> Encoding[Utterance]:
    """The ids of a text with its end, and the frames of its sound.

    Args:
        tokenizer: of the text.
        front: makes frames.
        seconds: longest sound.
        max_length: longest text, in tokens with its end.
        aligned: whether each token needs a slot of its own; sounds that are too short for their texts are left out.
    """
    most = seconds * 1000 / front.hop

    def encode(utterance: Utterance) -> tuple[list[int] | None, np.ndarray | None]:
        try:
            frames = front.frames(read_sound(utterance.sound))
        except DataError as error:
            raise DataError(f"{utterance.place}: {error}") from None
        ids = tokenizer.encode(utterance.text)
        crowded = aligned and 0 < slots_of(len(frames)) < frames_needed(ids)
        if len(frames) > most or len(ids) >= max_length or crowded:
            return None, None
        return [*ids, tokenizer.special.eos] if ids else [], frames.numpy()

    # sounds stand last, since the last side is what batches are planned by
    return Encoding({TEXT: tokenizer.size, FRAMES: Items("<f4", (front.bands,))}, encode)


def collate_spoken(corpus: Corpus, rows: Integer[np.ndarray, " B"], *, bos: int) -> PairBatch[Vectors]:
    """The utterances in `rows`, padded on the right."""
    frames, positions = corpus[FRAMES].block(rows)
    source = Vectors(torch.from_numpy(frames), torch.from_numpy(positions))
    return pair_batch(source, corpus[TEXT].padded(rows), bos=bos)


def stacked(frames: Sequence[torch.Tensor]) -> Vectors:
    """Frames of several sounds, padded on the right."""
    vectors = torch.nn.utils.rnn.pad_sequence(list(frames), batch_first=True)
    counts = torch.tensor([len(each) for each in frames]).unsqueeze(1)
    places = torch.arange(vectors.size(1))
    return Vectors(vectors, torch.where(places < counts, places, -1))
