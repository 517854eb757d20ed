"""Dialogues, as turns of speakers, and what of them is read before each reply."""

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

from heedful.data.batches import PairBatch, padded, tokens_of
from heedful.data.corpus import CHARACTERS_PER_TOKEN, Corpus, Encoding
from heedful.data.labels import Labels
from heedful.data.readers import Reader, Record, read_lines, records
from heedful.data.tokenizers import Special, Tokenizer
from heedful.errors import DataError
from heedful.files import NestedTooDeeplyError, parse_data
from heedful.inspection.record import Span
from heedful.tasks.kind import placed
from heedful.values import Tokens

Part = Literal["train", "validation", "test"]
_SHARES: Final[dict[Part, tuple[int, int]]] = {"train": (0, 3), "validation": (3, 4), "test": (4, 5)}
"""Fifths of CamRest's dialogues, in the order of the file."""


class Turn(NamedTuple):
    """Who says what."""

    speaker: str
    text: str


class Dialogue(NamedTuple):
    """Turns in their order, and where they stand."""

    turns: tuple[Turn, ...]
    place: str


class Exchange(NamedTuple):
    """A turn, those before it that are read, where the dialogue stands, and what is learned together with it."""

    context: tuple[Turn, ...]
    reply: Turn
    place: str = ""
    further: tuple[Turn, ...] = ()


class DialogueReader(Reader[Dialogue]):
    """Dialogues of a file.

    Abstract: how turns stand there belongs to the format.
    """

    @final
    def __iter__(self) -> Iterator[Dialogue]:
        for dialogue in self._dialogues():
            if not dialogue.turns:
                raise DataError(f"{dialogue.place}: a dialogue without turns; mend it or take it out")
            yield dialogue

    @abstractmethod
    def _dialogues(self) -> Iterator[Dialogue]: ...


@final
class JsonlDialogues(DialogueReader):
    """A JSON object on each line whose `turns` are objects with `speaker` and `text`; other fields are ignored."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)

    def _dialogues(self) -> Iterator[Dialogue]:
        for _, record in records(self.paths[0]):
            yield Dialogue(turns_of(record), record.place)


@final
class CamRest(DialogueReader):
    """CamRest676 (Wen et al. 2017): one JSON list behind lines of comment, a user and a system that take turns.

    Args:
        path: the file, plain or gzipped.
        part: of the dialogues in the order of the file the first three fifths, the fourth or the last.
    """

    def __init__(self, path: Path, *, part: Part) -> None:
        super().__init__(path)
        self._part = part

    def _dialogues(self) -> Iterator[Dialogue]:
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
        found = Record({"dialogues": value}, place=str(path)).inners("dialogues")
        first, last = (len(found) * fifths // 5 for fifths in _SHARES[self._part])
        for record in found[first:last]:
            pairs = [(each.inner("usr"), each.inner("sys")) for each in record.inners("dial")]
            said = ((Turn("user", u.text("transcript")), Turn("system", s.text("sent"))) for u, s in pairs)
            yield Dialogue(tuple(turn for both in said for turn in both if turn.text), record.place)


def turns_of(record: Record) -> tuple[Turn, ...]:
    """The turns of a JSON object; those of nothing but white space are left out."""
    turns = (Turn(each.text("speaker"), each.text("text")) for each in record.inners("turns"))
    found = []
    for turn in turns:
        if not turn.speaker:
            raise DataError(f"{record.place}: a turn without a speaker; name one")
        if turn.text:
            found.append(turn)
    return tuple(found)


@final
class Exchanges(Reader[Exchange]):
    """What is learned from dialogues, or measured: turns behind those before them.

    Args:
        dialogues: whole ones.
        window: turns that are read, at most.
        replier: whose turns are replied; everybody's where None.
        whole: all turns of a dialogue are one reply to nothing.
    """

    def __init__(self, dialogues: Reader[Dialogue], *, window: int, replier: str | None, whole: bool = False) -> None:
        super().__init__(*dialogues.paths)
        self.dialogues = dialogues
        self._window = window
        self._replier = replier
        self._whole = whole

    def __iter__(self) -> Iterator[Exchange]:
        for dialogue in self.dialogues:
            if self._whole:
                first, *others = dialogue.turns
                yield Exchange((), first, dialogue.place, tuple(others))
            else:
                yield from exchanges(dialogue, window=self._window, replier=self._replier)


def exchanges(dialogue: Dialogue, *, window: int, replier: str | None = None) -> Iterator[Exchange]:
    """Each turn of `replier`, or of everybody, with the turns in the window before it."""
    for number, turn in enumerate(dialogue.turns):
        if replier is None or turn.speaker == replier:
            yield Exchange(dialogue.turns[max(0, number - window) : number], turn, dialogue.place)


@final
@dataclass(frozen=True)
class Script:
    """How turns become ids: a token for who speaks, the text, and an end.

    Speakers have ids of their own, behind those of the text; a context begins with the begin of sequence, so that it is
    never empty, and a reply is read from its speaker on.

    Attributes:
        tokenizer: of the text.
        speakers: their names.
        window: turns of a context, at most.
        max_length: ids of a context, and of a reply, at most.
    """

    tokenizer: Tokenizer
    speakers: Labels
    window: int
    max_length: int

    @property
    def size(self) -> int:
        """Ids there are."""
        return self.tokenizer.size + self.speakers.size

    @property
    def special(self) -> Special:
        """The ids that no text is made of, speakers among them."""
        own = self.tokenizer.special
        others = own.others | frozenset(range(self.tokenizer.size, self.size))
        return Special(own.bos, own.eos, own.unk, own.mask, others)

    def speaker(self, name: str) -> int:
        """The id that begins a speaker's turns; `DataError` where the training text does not know him."""
        number = self.speakers.id(name)
        if number is None:
            raise DataError(f"speaker {name!r}: the training text knows {', '.join(map(repr, self.speakers.names))}")
        return self.tokenizer.size + number

    def turn(self, turn: Turn) -> list[int]:
        """The ids of a turn; none where its text has none."""
        ids = self.tokenizer.encode(turn.text[: CHARACTERS_PER_TOKEN * self.max_length])
        return [self.speaker(turn.speaker), *ids, self.tokenizer.special.eos] if ids else []

    def context(self, turns: Sequence[Turn]) -> list[list[int]]:
        """The ids of the newest turns, as many as fit; of the newest, where it does not fit alone, its newer end."""
        room, found = self.max_length - 1, list[list[int]]()
        for ids in map(self.turn, reversed(turns[len(turns) - min(self.window, len(turns)) :])):
            if len(ids) > room and any(found):
                break
            found.append([*ids[:1], *ids[max(1, len(ids) - room + 1) :]])
            room -= len(found[-1])
        return found[::-1]

    def read(self, turns: Sequence[Turn]) -> list[int]:
        """All that is read of turns before a reply."""
        return [self.tokenizer.special.bos, *(number for ids in self.context(turns) for number in ids)]

    def encoding(self) -> Encoding[Exchange]:
        """Two sides: the context, and the reply with who speaks and its end, and so all that is learned with it."""

        def encode(exchange: Exchange) -> tuple[list[int], list[int] | None]:
            with placed(exchange.place):
                context = self.read(exchange.context)
                reply = [number for turn in (exchange.reply, *exchange.further) for number in self.turn(turn)]
            return context, reply if len(reply) <= self.max_length else None

        def identity(exchange: Exchange) -> object:
            turns = (*exchange.context, exchange.reply, *exchange.further)
            return [(turn.speaker, turn.text) for turn in turns]

        return Encoding({"source": self.size, "target": self.size}, encode, identity)

    def tokens(self, rows: Int[np.ndarray, "B T"]) -> Tokens:
        """Ids with -1 behind them as a model reads them; the segment of each is the number of who speaks."""
        tokens = tokens_of(rows)
        columns = np.maximum.accumulate(np.where(rows >= self.tokenizer.size, np.arange(rows.shape[1]), 0), axis=1)
        speaking = np.take_along_axis(rows, columns, axis=1) - self.tokenizer.size
        return Tokens(tokens.ids, tokens.positions, torch.from_numpy(np.maximum(speaking, 0)))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Each id as something to look at; a speaker is `<name>`."""
        first = self.tokenizer.size
        return [
            f"<{self.speakers.names[each - first]}>" if each >= first else self.tokenizer.pieces([each])[0]
            for each in ids
        ]

    def spans(self, ids: Sequence[int]) -> tuple[Span, ...]:
        """The turns of a text, each from who speaks on; what stands before the first is nobody's."""
        starts = [place for place, number in enumerate(ids) if number >= self.tokenizer.size]
        names = [self.speakers.names[ids[start] - self.tokenizer.size] for start in starts]
        return tuple(map(Span, names, starts, [*starts[1:], len(ids)]))

    def batch(
        self, sources: Sequence[Sequence[int] | np.ndarray], targets: Sequence[Sequence[int]]
    ) -> PairBatch[Tokens]:
        """Contexts and replies side by side."""
        return self._paired(padded(sources), padded(targets))

    def collate(self, corpus: Corpus, rows: Integer[np.ndarray, " B"]) -> PairBatch[Tokens]:
        """The exchanges in `rows`, padded on the right."""
        return self._paired(corpus["source"].padded(rows), corpus["target"].padded(rows))

    def _paired(self, source: Int[np.ndarray, "B S"], target: Int[np.ndarray, "B T"]) -> PairBatch[Tokens]:
        """What a reply is read from on, its speaker, is no label."""
        labels = target[:, 1:]
        read = np.where(labels < 0, -1, target[:, :-1])
        return PairBatch(self.tokens(source), self.tokens(read), torch.from_numpy(np.ascontiguousarray(labels)))
