"""Dialogues, the exchanges read from them, and their encoding as ids."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Int, Integer

from heedful.data.batches import PairBatch, pad_rows, to_tokens
from heedful.data.corpus import CHARACTERS_PER_TOKEN, Corpus, ExampleEncoder
from heedful.data.labels import LabelVocabulary
from heedful.data.readers import ExampleReader, JsonRecord, read_lines, read_records
from heedful.data.tokenizers import SpecialIds, Tokenizer
from heedful.errors import DataError
from heedful.files import NestedTooDeeplyError, parse_data
from heedful.inspection.record import TokenSpan
from heedful.tasks.task import prefix_data_errors
from heedful.tensors import Tokens

DialoguePart = Literal["train", "validation", "test"]
_PART_FIFTHS: Final[dict[DialoguePart, tuple[int, int]]] = {"train": (0, 3), "validation": (3, 4), "test": (4, 5)}
"""Fifths of CamRest's dialogues in each part, in the order of the file."""


class DialogueTurn(NamedTuple):
    """A speaker and the text of a turn."""

    speaker: str
    text: str


class Dialogue(NamedTuple):
    """Turns in their order, and their location in a file."""

    turns: tuple[DialogueTurn, ...]
    location: str


class Exchange(NamedTuple):
    """A reply, the turns before it that the model reads, their location, and further turns that are learned with
    the reply.
    """

    context: tuple[DialogueTurn, ...]
    reply: DialogueTurn
    location: str = ""
    further: tuple[DialogueTurn, ...] = ()


class DialogueReader(ExampleReader[Dialogue]):
    """Reads the dialogues of a file.

    Abstract: subclasses define the file format.
    """

    @final
    def __iter__(self) -> Iterator[Dialogue]:
        for dialogue in self._read_dialogues():
            if not dialogue.turns:
                raise DataError(f"{dialogue.location}: a dialogue without turns; correct it or take it out")
            yield dialogue

    @abstractmethod
    def _read_dialogues(self) -> Iterator[Dialogue]: ...


@final
class JsonlDialogueReader(DialogueReader):
    """Reads a JSON object per line whose `turns` are objects with `speaker` and `text`; other fields are ignored."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)

    def _read_dialogues(self) -> Iterator[Dialogue]:
        for _, record in read_records(self.paths[0]):
            yield Dialogue(parse_turns(record), record.location)


@final
class CamRestReader(DialogueReader):
    """Reads CamRest676 (Wen et al. 2017): one JSON list after comment lines, with the speakers user and system.

    Args:
        path: the file, plain or compressed.
        part: train, validation or test: the first three fifths of the dialogues in file order, the fourth, or the last.
    """

    def __init__(self, path: Path, *, part: DialoguePart) -> None:
        super().__init__(path)
        self._part = part

    def _read_dialogues(self) -> Iterator[Dialogue]:
        """Yield the dialogues of the reader's part of the data, without empty turns; raise `DataError` if the file is
        not valid JSON.
        """
        path = self.paths[0]
        text = "\n".join("" if line.startswith("#") else line for line in read_lines(path))
        try:
            value: object = parse_data(text)
        except NestedTooDeeplyError:
            raise DataError(f"{path}: JSON nested too deeply; is this the right file?") from None
        except json.JSONDecodeError as error:
            raise DataError(f"{path}:{error.lineno}: not valid JSON ({error.msg}); fetch the file again") from None
        except ValueError as error:
            raise DataError(f"{path}: not valid JSON ({error}); is this the right file?") from None
        records = JsonRecord({"dialogues": value}, location=str(path)).get_objects("dialogues")
        first, last = (len(records) * fifths // 5 for fifths in _PART_FIFTHS[self._part])
        for record in records[first:last]:
            pairs = [
                (exchange.get_object("usr"), exchange.get_object("sys")) for exchange in record.get_objects("dial")
            ]
            turn_pairs = (
                (DialogueTurn("user", u.get_text("transcript")), DialogueTurn("system", s.get_text("sent")))
                for u, s in pairs
            )
            yield Dialogue(tuple(turn for pair in turn_pairs for turn in pair if turn.text), record.location)


def parse_turns(record: JsonRecord) -> tuple[DialogueTurn, ...]:
    """Parse the field `turns` of a JSON object; turns without text are left out. Raise `DataError` if a turn has no
    speaker.
    """
    turns = (
        DialogueTurn(record_.get_text("speaker"), record_.get_text("text")) for record_ in record.get_objects("turns")
    )
    kept_turns = []
    for turn in turns:
        if not turn.speaker:
            raise DataError(f"{record.location}: a turn without a speaker; name one")
        if turn.text:
            kept_turns.append(turn)
    return tuple(kept_turns)


@final
class ExchangeReader(ExampleReader[Exchange]):
    """Reads the exchanges of dialogues: replies with the turns before them.

    Args:
        dialogues: reader of the dialogues.
        window: context turns at most.
        replier: speaker of the replies; None for all speakers.
        whole_dialogues: whether all turns of a dialogue form one reply without context.
    """

    def __init__(
        self, dialogues: ExampleReader[Dialogue], *, window: int, replier: str | None, whole_dialogues: bool = False
    ) -> None:
        super().__init__(*dialogues.paths)
        self.dialogues = dialogues
        self._window = window
        self._replier = replier
        self._whole_dialogues = whole_dialogues

    def __iter__(self) -> Iterator[Exchange]:
        for dialogue in self.dialogues:
            if self._whole_dialogues:
                first, *further_turns = dialogue.turns
                yield Exchange((), first, dialogue.location, tuple(further_turns))
            else:
                yield from iter_exchanges(dialogue, window=self._window, replier=self._replier)


def iter_exchanges(dialogue: Dialogue, *, window: int, replier: str | None = None) -> Iterator[Exchange]:
    """Yield each turn of the speaker `replier`, or of every speaker if it is None, with at most `window` turns before
    it.
    """
    for number, turn in enumerate(dialogue.turns):
        if replier is None or turn.speaker == replier:
            yield Exchange(dialogue.turns[max(0, number - window) : number], turn, dialogue.location)


@final
@dataclass(frozen=True)
class DialogueEncoder:
    """Encodes turns as ids: a token for the speaker, the text, and an end.

    Speakers have their own ids after those of the text; a context begins with the begin of sequence, so that it is
    never empty, and a reply is generated after its speaker token.

    Attributes:
        tokenizer: tokenizer of the text.
        speakers: names of the speakers.
        window: turns of a context at most.
        max_length: ids of a context, and of a reply, at most.
    """

    tokenizer: Tokenizer
    speakers: LabelVocabulary
    window: int
    max_length: int

    @property
    def vocab_size(self) -> int:
        """Number of ids, speakers included."""
        return self.tokenizer.size + self.speakers.size

    @property
    def special_ids(self) -> SpecialIds:
        """The ids that are not text, speakers included."""
        text_special = self.tokenizer.special
        others = text_special.others | frozenset(range(self.tokenizer.size, self.vocab_size))
        return SpecialIds(text_special.bos, text_special.eos, text_special.unk, text_special.mask, others)

    def get_speaker_id(self, name: str) -> int:
        """Return the id that begins the turns of the speaker `name`; raise `DataError` if the training data have no
        such speaker.
        """
        index = self.speakers.get_id(name)
        if index is None:
            raise DataError(
                f"speaker {name!r}: is not in the training text, which has {', '.join(map(repr, self.speakers.names))}"
            )
        return self.tokenizer.size + index

    def encode_turn(self, turn: DialogueTurn) -> list[int]:
        """Encode a turn as speaker, text and end; return no ids if its text has none."""
        ids = self.tokenizer.encode(turn.text[: CHARACTERS_PER_TOKEN * self.max_length])
        return [self.get_speaker_id(turn.speaker), *ids, self.tokenizer.special.eos] if ids else []

    def encode_context(self, turns: Sequence[DialogueTurn]) -> list[list[int]]:
        """Encode the newest turns that fit into `max_length`, oldest first, as a list for each turn; if the newest does
        not fit alone, keep its end.
        """
        remaining, encoded_turns = self.max_length - 1, list[list[int]]()
        for ids in map(self.encode_turn, reversed(turns[len(turns) - min(self.window, len(turns)) :])):
            if len(ids) > remaining and any(encoded_turns):
                break
            encoded_turns.append([*ids[:1], *ids[max(1, len(ids) - remaining + 1) :]])
            remaining -= len(encoded_turns[-1])
        return encoded_turns[::-1]

    def encode_source(self, turns: Sequence[DialogueTurn]) -> list[int]:
        """Encode the turns before a reply as one sequence that fits into `max_length`, without the oldest turns."""
        return [self.tokenizer.special.bos, *(number for ids in self.encode_context(turns) for number in ids)]

    def build_encoding(self) -> ExampleEncoder[Exchange]:
        """Build the encoding of exchanges with two sides: the context, and the reply with its speaker, end and
        further turns.
        """

        def encode_exchange(exchange: Exchange) -> tuple[list[int], list[int] | None]:
            with prefix_data_errors(exchange.location):
                context = self.encode_source(exchange.context)
                reply = [number for turn in (exchange.reply, *exchange.further) for number in self.encode_turn(turn)]
            return context, reply if len(reply) <= self.max_length else None

        def exchange_identity(exchange: Exchange) -> object:
            turns = (*exchange.context, exchange.reply, *exchange.further)
            return [(turn.speaker, turn.text) for turn in turns]

        return ExampleEncoder(
            {"source": self.vocab_size, "target": self.vocab_size}, encode_exchange, exchange_identity
        )

    def to_tokens(self, rows: Int[np.ndarray, "B T"]) -> Tokens:
        """Convert rows of ids, padded with -1 on the right, to tokens; a token's segment is its speaker's index."""
        tokens = to_tokens(rows)
        speaker_columns = np.maximum.accumulate(
            np.where(rows >= self.tokenizer.size, np.arange(rows.shape[1]), 0), axis=1
        )
        speaker_indices = np.take_along_axis(rows, speaker_columns, axis=1) - self.tokenizer.size
        return Tokens(tokens.ids, tokens.positions, torch.from_numpy(np.maximum(speaker_indices, 0)))

    def to_pieces(self, ids: Iterable[int]) -> list[str]:
        """Return each id as a string for display; a speaker is `<name>`."""
        first_speaker_id = self.tokenizer.size
        return [
            f"<{self.speakers.names[token_id - first_speaker_id]}>"
            if token_id >= first_speaker_id
            else self.tokenizer.to_pieces([token_id])[0]
            for token_id in ids
        ]

    def find_turn_spans(self, ids: Sequence[int]) -> tuple[TokenSpan, ...]:
        """Return the span of each turn in a sequence of ids, from its speaker token on."""
        starts = [index for index, token_id in enumerate(ids) if token_id >= self.tokenizer.size]
        names = [self.speakers.names[ids[start] - self.tokenizer.size] for start in starts]
        return tuple(map(TokenSpan, names, starts, [*starts[1:], len(ids)]))

    def build_batch(
        self, sources: Sequence[Sequence[int] | np.ndarray], targets: Sequence[Sequence[int]]
    ) -> PairBatch[Tokens]:
        """Build a batch of encoded contexts and replies."""
        return self._shift_targets(pad_rows(sources), pad_rows(targets))

    def collate(self, corpus: Corpus, rows: Integer[np.ndarray, " B"]) -> PairBatch[Tokens]:
        """Collate the exchanges in `rows` into a batch, padded on the right."""
        return self._shift_targets(corpus["source"].collate_ids(rows), corpus["target"].collate_ids(rows))

    def _shift_targets(self, source: Int[np.ndarray, "B S"], target: Int[np.ndarray, "B T"]) -> PairBatch[Tokens]:
        """Build a batch of contexts `source` and replies `target`, padded with -1; labels are the replies without their
        first id, the speaker.
        """
        labels = target[:, 1:]
        decoder_inputs = np.where(labels < 0, -1, target[:, :-1])
        return PairBatch(
            self.to_tokens(source), self.to_tokens(decoder_inputs), torch.from_numpy(np.ascontiguousarray(labels))
        )
