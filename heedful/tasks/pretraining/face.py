"""Pre-trained encoders as their users see them: gaps are filled, replaced tokens found, and texts become vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from heedful.data.corpus import CHARACTERS_PER_TOKEN
from heedful.data.parts import parts
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.given_texts import require_text, text_list
from heedful.inspection.record import Answer, Option, Record
from heedful.models.masked_language_model import MaskedLanguageModel
from heedful.models.replaced_token_detector import ReplacedTokenDetector
from heedful.tasks.embedder import Embedder
from heedful.tasks.faces import CUT, Asked, Face, Saying, TextLines, at_once, cell, in_batches
from heedful.tasks.inspecting import Scope, attributed, best_options, encoded, likelihoods, repeated
from heedful.values import Tokens

Model = TypeVar("Model", MaskedLanguageModel, ReplacedTokenDetector)
_Guessed = Iterator[tuple[list[int], list[float]]]


class EncoderFace(Face, Generic[Model]):
    """What was pre-trained, with its tokenizer; abstract: it is a `Reader` or a `Detector`.

    Args:
        model: in evaluation mode.
        tokenizer: that it was trained with.
        max_length: tokens that it reads, begin and end included.
        embedder: what makes vectors of texts with its encoder; one that takes means unless given.

    Attributes:
        embed: a vector for each text; see `Embedder.embed`.
    """

    def __init__(
        self, model: Model, *, tokenizer: Tokenizer, max_length: int, embedder: Embedder | None = None
    ) -> None:
        self.model: Model = model
        self.tokenizer = tokenizer
        self.embedder = Embedder(model.encoder, tokenizer=tokenizer, max_length=max_length)
        self.embed = (embedder or self.embedder).embed


@dataclass(frozen=True)
class Guess:
    """A token for a gap: as a piece of text, as an id, and how probable it is."""

    piece: str
    id: int
    probability: float


@dataclass(frozen=True)
class Filled:
    """A text with gaps, and what may stand in them.

    Attributes:
        text: with the most probable token in each gap, each chosen by itself.
        gaps: the guesses for each, best first.
        cut: tokens at its end that were not read, gaps among them; the text here lacks them.
    """

    text: str
    gaps: tuple[tuple[Guess, ...], ...]
    cut: int = 0


@final
class Reader(EncoderFace[MaskedLanguageModel]):
    """A masked language model with its tokenizer."""

    def fill(self, texts: Sequence[str], *, top: int = 5, blank: str = "[MASK]", first: int = 1) -> list[Filled]:
        """The `top` most probable tokens for each gap of each text, given everything else; gaps do not see each other.

        Args:
            texts: with `blank` where a token is hidden; a single one is a list of one.
            top: guesses for each gap.
            blank: what stands for a hidden token.
            first: number of the first text, for messages.

        Raises:
            DataError: a text has no gap; the message names it.
        """
        gapped = [self._gapped(text, number, blank=blank) for number, text in enumerate(text_list(texts), first)]
        say = Saying[list[int], Filled](self._fillings, (top,))
        found = in_batches([ids for ids, _ in gapped], say, size=len, tokens=at_once(self.model), rows=64)
        return [replace(filled, cut=cut) for filled, (_, cut) in zip(found, gapped, strict=True)]

    def _fillings(self, batch: list[list[int]], top: int) -> Iterator[Filled]:
        guesses = self._guesses(batch, top=top)
        return (self._filled(ids, guesses) for ids in batch)

    def lines(self) -> FillLines:
        """Texts with gaps."""
        return FillLines(self)

    def look(self, asked: Asked) -> Record:
        """See `inspect`."""
        return self.inspect(asked.to_read().source, asked.target, scope=asked.scope)

    def _gapped(self, text: str, number: int, *, blank: str) -> tuple[list[int], int]:
        """Ids between begin and end, and how many there was no room for."""
        if blank not in text:
            raise DataError(f"text {number}: has no {blank}; write it where a token is to be found")
        ids, room = self.tokenizer.cloze(text, blank=blank), self.embedder.room
        return self.embedder.framed(ids[:room], number), max(0, len(ids) - room)

    def inspect(
        self, text: str, second: str | None = None, *, scope: Scope | None = None, blank: str = "[MASK]"
    ) -> Record:
        """`Embedder.inspect` of texts with `blank` where tokens are hidden, and the candidates for each of these.

        Where the model was asked in training how passages belong together, a second text adds what it says of that.
        """
        require_text(text, name="text")
        scope, parts = scope or Scope(), [text] if second is None else [text, second]
        cloze = [self.tokenizer.cloze(each, blank=blank) for each in parts]
        tokens = self.embedder.paired(cloze)

        def said(tokens: Tokens) -> tuple[Tensor, Tensor | None]:
            memory = self.model(tokens)
            relation = self.model.relation if second is not None else None
            related = None if relation is None else relation(memory.summary)[0].softmax(-1)
            return self._chances(tokens, memory.values), related

        record, (chances, related) = encoded(
            self.model, said, tokens, tokenizer=self.tokenizer, scope=scope, title=" / ".join(parts)
        )
        ids: list[int] = tokens.ids[0].tolist()
        gaps = [place for place, number in enumerate(ids) if number == self.tokenizer.special.mask]
        named = self.tokenizer.pieces([ids[place] for place in gaps])
        answers = [
            Answer("hidden token", name, place, best_options(row, self.tokenizer.pieces, most=scope.alternatives))
            for name, place, row in zip(named, gaps, chances, strict=True)
        ]
        if related is not None:
            names = ("no", "yes")
            options = best_options(related, lambda ids: [names[number] for number in ids], most=2)
            answers.append(Answer("the second text belongs to the first", "", None, options))
        best = [int(row.argmax()) for row in (*chances, *(() if related is None else (related,)))]

        def values(rows: int) -> Tensor:
            memory = self.model(repeated(scope.padded(tokens), rows))
            hidden = memory.values[:, gaps]
            told = [self._logits(hidden.flatten(0, 1)).view(rows, len(gaps), -1)] if gaps else []
            found = [likelihoods(each, best[: len(gaps)]) for each in told]
            if related is not None and self.model.relation is not None:
                found.append(likelihoods(self.model.relation(memory.summary).unsqueeze(1), best[len(gaps) :]))
            return torch.cat(found, 1) if found else hidden.new_zeros(rows, 0)

        return attributed(replace(record, answers=tuple(answers)), self.model, values, scope=scope, about="answers")

    def _guesses(self, rows: list[list[int]], *, top: int) -> _Guessed:
        """For each gap, row by row, the best tokens and their probabilities; what is no text has none."""
        tokens = self.embedder.tokens(rows)
        chances = self._chances(tokens, self.model(tokens).values)
        best = chances.topk(min(top, chances.size(-1) - len(self.tokenizer.special.silent)))
        return iter(list(zip(best.indices.tolist(), best.values.tolist(), strict=True)))

    def _chances(self, tokens: Tokens, hidden: Float[Tensor, "B T d_model"]) -> Float[Tensor, "N V"]:
        """The probabilities of all tokens for each gap, row by row; 0 for what is no text."""
        special = self.tokenizer.special
        # an id of a padded place may be any
        gaps = (tokens.ids == special.mask) & (tokens.positions >= 0)
        return self._logits(hidden[gaps]).softmax(-1)

    def _logits(self, hidden: Float[Tensor, "N d_model"]) -> Float[Tensor, "N V"]:
        """Of all tokens; -inf for what is no text."""
        logits: Tensor = self.model.masked.output(self.model.masked(hidden))
        silent = torch.tensor(sorted(self.tokenizer.special.silent), device=logits.device)
        return logits.index_fill(-1, silent, -torch.inf)

    def _filled(self, ids: list[int], guesses: _Guessed) -> Filled:
        complete, gaps = [], []
        for number in ids:
            if number != self.tokenizer.special.mask:
                complete.append(number)
                continue
            numbers, chances = next(guesses)
            gaps.append(tuple(map(Guess, self.tokenizer.pieces(numbers), numbers, chances)))
            complete.append(numbers[0])
        return Filled(self.tokenizer.decode(complete), tuple(gaps))


@final
@dataclass(frozen=True)
class FillLines(TextLines[Filled]):
    """A text with gaps a line; the same without, and a line of guesses for each gap.

    Attributes:
        reader: who guesses.
        top: guesses for each gap.
        blank: what stands for a hidden token.
    """

    reader: Reader
    top: int = 5
    blank: str = "[MASK]"
    chunk: ClassVar = 1024

    def answers(self, inputs: Sequence[str], *, first: int) -> list[Filled]:
        """Guesses."""
        return self.reader.fill(inputs, top=self.top, blank=self.blank, first=first)

    def record(self, answer: Filled) -> Any:
        """With ids."""
        return asdict(answer)

    def text(self, answer: Filled) -> str:
        """The text, and each gap below it."""
        told = [
            "  ".join(f"{cell(guess.piece)} {guess.probability:.3f}" for guess in guesses) for guesses in answer.gaps
        ]
        names = [f"gap {number}: " for number in range(1, len(told) + 1)] if len(told) > 1 else [""]
        return "".join([f"{answer.text}\n", *(f"  {name}{each}\n" for name, each in zip(names, told, strict=True))])

    def notes(self, answer: Filled) -> Iterator[str]:
        """Of texts that are too long."""
        return iter([CUT] if answer.cut else [])


@dataclass(frozen=True)
class Suspicion:
    """A piece of a text, and how probable it is that something else was written there."""

    piece: str
    probability: float


@final
class Detector(EncoderFace[ReplacedTokenDetector]):
    """A detector of replaced tokens with its tokenizer."""

    def detect(self, texts: Sequence[str], *, first: int = 1) -> list[list[Suspicion]]:
        """For each piece of each text how probable it is that it was replaced.

        A text that is longer than the model reads is read in parts (`heedful.data.parts`).

        Args:
            texts: one string each; a single one is a list of one.
            first: number of the first text, for messages.
        """
        texts = text_list(texts)
        rows = [(place, ids) for place, text in enumerate(texts) for ids in self._parts(text)]
        framed = [self.embedder.framed(ids, first + place) for place, ids in rows]
        found: list[list[Suspicion]] = [[] for _ in texts]
        told = in_batches(framed, self._suspicions, size=len, tokens=at_once(self.model), rows=64)
        for (place, _), suspicions in zip(rows, told, strict=True):
            found[place] += suspicions
        return found

    def _parts(self, text: str) -> Iterator[list[int]]:
        """The ids of a text, or of its parts; of a word that does not fit those that do, then the others."""
        room = self.embedder.room
        ids = self.tokenizer.encode(text)
        pieces = [ids] if len(ids) <= room else map(self.tokenizer.encode, parts(text, self._fits))
        for each in pieces:
            yield from (each[at : at + room] for at in range(0, max(1, len(each)), room))

    def _fits(self, text: str) -> bool:
        room = self.embedder.room
        return len(text) <= CHARACTERS_PER_TOKEN * room and len(self.tokenizer.encode(text)) <= room

    def inspect(self, text: str, *, scope: Scope | None = None) -> Record:
        """`Embedder.inspect` of one text, and how probable it is that each piece was replaced."""
        require_text(text, name="text")
        scope = scope or Scope()
        ids = self.embedder.framed(self.tokenizer.encode(text), 1)
        record, chances = encoded(
            nn.ModuleDict({"encoder": self.model.encoder}),
            self._chances,
            self.embedder.tokens([ids]),
            tokenizer=self.tokenizer,
            scope=scope,
            title=text,
        )
        pieces, found = self.tokenizer.pieces(ids), chances[0].tolist()
        answers = [_told(pieces[place], place, found[place]) for place in range(1, len(ids) - 1)]
        signs = torch.tensor([1.0 if chance > 0.5 else -1.0 for chance in found[1 : len(ids) - 1]])

        def values(rows: int) -> Tensor:
            logits = self.model(repeated(scope.padded(self.embedder.tokens([ids])), rows))[:, 1 : len(ids) - 1].float()
            return functional.logsigmoid(logits * signs.to(logits.device))

        record = replace(record, answers=tuple(answers))
        whole = nn.ModuleDict({"encoder": self.model.encoder})
        return attributed(record, whole, values, scope=scope, about="answers")

    def lines(self) -> DetectLines:
        """A text a line."""
        return DetectLines(self)

    def look(self, asked: Asked) -> Record:
        """See `inspect`."""
        return self.inspect(asked.to_read().alone("a detector's"), scope=asked.scope)

    def _suspicions(self, rows: list[list[int]]) -> Iterator[list[Suspicion]]:
        for ids, chances in zip(rows, self._chances(self.embedder.tokens(rows)).tolist(), strict=True):
            pieces = self.tokenizer.pieces(ids[1:-1])
            yield [Suspicion(*pair) for pair in zip(pieces, chances[1 : len(pieces) + 1], strict=True)]

    def _chances(self, tokens: Tokens) -> Tensor:
        chances: Tensor = self.model(tokens).sigmoid()
        return chances


def _told(piece: str, place: int, chance: float) -> Answer:
    """What the model says of one piece, the more probable first."""
    options = (Option("yes", chance), Option("no", 1 - chance))
    return Answer("replaced", piece, place, options if chance > 0.5 else options[::-1])


@final
@dataclass(frozen=True)
class DetectLines(TextLines[list[Suspicion]]):
    """A text a line; a token and its probability between tabs on each line, and an empty line after each text."""

    detector: Detector
    chunk: ClassVar = 1024

    def answers(self, inputs: Sequence[str], *, first: int) -> list[list[Suspicion]]:
        """Suspicions."""
        return self.detector.detect(inputs, first=first)

    def record(self, answer: list[Suspicion]) -> Any:
        """All digits."""
        return [asdict(each) for each in answer]

    def text(self, answer: list[Suspicion]) -> str:
        """Two columns."""
        return "".join(f"{cell(each.piece)}\t{each.probability:.4f}\n" for each in answer) + "\n"
