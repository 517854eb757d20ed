"""A language model as its user sees it: prompts in, continuations out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Final, final

import torch
from torch import Tensor

from heedful.data.batches import padded, tokens_of
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.generation import Hypothesis, Windowed, kept_of, score
from heedful.generation.search import Greedy, Sampling, Search
from heedful.generation.stopping import Until, never
from heedful.given_texts import require_text, text_list
from heedful.inspection.record import Record
from heedful.inspection.scored import Width
from heedful.models.interface import Engine
from heedful.models.language_model import LanguageModel
from heedful.recipes.generation import ContinuationConfig, SampledContinuationConfig
from heedful.tasks.faces import Asked, Face, TextLines, in_batches
from heedful.tasks.finding import company
from heedful.tasks.finding import written as written_ids
from heedful.tasks.inspecting import (
    Scope,
    attributed,
    branches,
    growing,
    likelihoods,
    recorded,
    repeated,
    text_axes,
    written,
)
from heedful.tasks.language.continuing import Continuing, Prompt
from heedful.tasks.language.expected import Expecting, Place, Reading
from heedful.tasks.partial_words import begun, spelling_of
from heedful.tasks.stop_strings import Ends, Following, Growing
from heedful.tasks.stop_strings import complete as without_broken
from heedful.values import Tokens, move

_TOGETHER: Final = 2**16
"""Tokens of prompts that are read at one time."""


@dataclass(frozen=True)
class Continuation:
    """How a prompt goes on.

    Attributes:
        text: what was written, without the prompt, without a stop string, and without a last character of which some
            bytes are missing.
        tokens: everything that was written as pieces of text, those of a stop string too.
        log_probability: of the tokens, and of the end if it came, in nats.
        finished: whether the document ended by itself.
        stop: the stop string that ended it, if one did.
        ids: of the tokens.
        token_log_probabilities: one for each token, and for the end if it came.
    """

    text: str
    tokens: tuple[str, ...]
    log_probability: float
    finished: bool
    stop: str | None = None
    ids: tuple[int, ...] = ()
    token_log_probabilities: tuple[float, ...] = ()


@dataclass(frozen=True)
class Surprise:
    """How probable a text is: nats over `count` tokens, each given all before it.

    Its end counts where it was asked for; it stands behind `tokens` in `token_log_probabilities` then.
    """

    log_probability: float
    count: int
    tokens: tuple[str, ...]
    token_log_probabilities: tuple[float, ...]


class Writer(Face):
    """A language model with its tokenizer.

    Where positions end, writing goes on with the newer half of the context, read again as if the text began there; see
    `heedful.generation.Windowed`. A prompt that is too long is read as far as it would then be remembered.

    Args:
        model: in evaluation mode.
        tokenizer: that it was trained with.
        search: how continuations are looked for unless a call says otherwise.
        limit: most tokens of a continuation, likewise.
        stop: strings before which a continuation ends, likewise.
        max_context: tokens that the model's positions are enough for, the one that begins a document included; None
            where they have no end.
        generation: what `search`, `limit` and `stop` were made of.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        tokenizer: Tokenizer,
        search: Search,
        limit: int,
        stop: Sequence[str] = (),
        max_context: int | None = None,
        generation: ContinuationConfig = SampledContinuationConfig(),  # noqa: B008 - frozen
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.search = search
        self.limit = limit
        self.stop = tuple(stop)
        self.max_context = max_context
        self.generation = generation
        self.device = next(model.parameters()).device
        self._reader: Engine[None] = model
        if max_context is not None:
            self._reader = Windowed(model, longest=max_context)

    def write(
        self,
        prompts: Sequence[str],
        *,
        search: Search | None = None,
        limit: int | None = None,
        stop: Sequence[str] | None = None,
        first: int = 0,
        until: Until = never,
        complete: bool = False,
    ) -> list[list[Continuation]]:
        """Continuations of each prompt, best first; an empty prompt begins a document.

        Prompts of different length are written at the same time, and none depends on its neighbours.

        Args:
            prompts: texts to go on with; a single one is a list of one.
            search: instead of the writer's own.
            limit: likewise.
            stop: likewise; none of them is in a text, and tokens that follow it are never computed.
            first: the number of the first prompt, if many prompts are handed over in parts: it decides their chance.
            until: ends all of them early; what they have then is given back.
            complete: whether the last word of a prompt may be unfinished, unless a space stands behind it. Its tokens
                are written again then, in whatever way is most probable, and count as written; the text does not
                repeat them.
        """
        ends = Ends(self.stop if stop is None else stop)
        given = text_list(prompts, name="prompts")
        asked = [self._asked(text, number, limit=limit, complete=complete) for number, text in enumerate(given, first)]
        found = in_batches(
            asked,
            self._continuing(search or self.search, ends, until),
            size=lambda each: len(each.read),
            tokens=_TOGETHER,
            rows=64,
        )
        return [
            [self._continuation(each, text=own.following.text(each.ids), ends=ends) for each in hypotheses]
            for hypotheses, own in zip(found, asked, strict=True)
        ]

    def stream(
        self,
        prompt: str,
        *,
        search: Greedy | Sampling,
        limit: int | None = None,
        stop: Sequence[str] | None = None,
        number: int = 0,
        until: Until = never,
        complete: bool = False,
    ) -> Growing:
        """One continuation as it is written, in pieces of text; what `write` gives for this prompt alone.

        What may yet turn out to be part of a stop string or of a character comes when that is decided. `number` is that
        of the prompt and decides its chance; the other arguments are those of `write`.
        """
        require_text(prompt, name="prompt")
        ends = Ends(self.stop if stop is None else stop)
        asked = self._asked(prompt, number, limit=limit, complete=complete)
        ids = written_ids(self._continuing(search, ends, until), asked)
        return Growing(ids, following=asked.following, ends=ends)

    def lines(self) -> WriteLines:
        """A prompt a line."""
        return WriteLines(self)

    def look(self, asked: Asked) -> Record:
        """See `inspect`."""
        return self.inspect(asked.alone("a language model's"), limit=asked.tokens, scope=asked.scope)

    def forgotten(self, prompt: str) -> int:
        """How many tokens at the left of a prompt the model's positions are not enough for."""
        ids = self.tokenizer.encode(prompt)
        return len(ids) - min(len(ids), len(self._remembered(ids)))

    def _asked(self, prompt: str, number: int, *, limit: int | None, complete: bool = False) -> Prompt:
        ids, limit = self.tokenizer.encode(prompt), limit or self.limit
        read, word = begun(self.tokenizer, prompt) if complete else (ids, None)
        again, unread = 0, 0
        if word is not None and not word.may_end:
            again, spelling = word.tokens, spelling_of(self.tokenizer)
            unread = len(word.characters) - sum(len(spelling.surfaces[number]) for number in ids[len(read) :])
        following = Following(self.tokenizer, ids, read=len(read), unread=unread)
        return Prompt(self._remembered(read), number, limit + again, following, word)

    def _continuing(self, search: Search, ends: Ends, until: Until) -> Continuing:
        until = until if company() is None else never  # which ends what nobody waits for by itself
        return Continuing(self._reader, search, ends.strings, until, self._tokens, self.tokenizer)

    def _continuation(self, found: Hypothesis, *, text: str, ends: Ends) -> Continuation:
        kept, stop = ends.cut(without_broken(text))
        pieces = tuple(self.tokenizer.pieces(found.ids))
        each = found.token_log_probabilities
        return Continuation(kept, pieces, found.log_probability, found.finished, stop, found.ids, each)

    def inspect(
        self, prompt: str, *, search: Search | None = None, limit: int | None = None, scope: Scope | None = None
    ) -> Record:
        """Everything the model attends to while it reads a prompt and goes on with it.

        Args:
            prompt: may be empty.
            search: instead of the writer's own; the best of its continuations is taken.
            limit: most tokens that are written; 0 reads the prompt alone. Where the model's positions end, so does
                writing.
            scope: layers, heads and details that are kept; all unless given.

        Raises:
            DataError: nothing to read and nothing to write, or more than the model's positions are enough for.
            RecipeError: no such layer or head.
        """
        require_text(prompt, name="prompt")
        scope, ids = scope or Scope(), self.tokenizer.encode(prompt)
        given, grown = len(ids), None
        limit, notes = self._room(given, limit=self.limit if limit is None else limit)
        if limit > 0:
            search, grown = growing(search or self.search)
            with torch.inference_mode():
                best = search(
                    self.model.step,
                    self.model.begin(),
                    self._tokens([[self.tokenizer.special.eos, *ids]]),
                    limit=torch.tensor([limit], device=self.device),
                    prefix=None,
                    streams=torch.zeros(1, dtype=torch.long, device=self.device),
                )[0][0]
            ids = [*ids, *best.ids, *([self.tokenizer.special.eos] if best.finished else [])]
        if not ids:
            raise DataError("nothing to look at: give a prompt, or let something be written")
        read = self._tokens([[self.tokenizer.special.eos, *ids]]).span(0, -1)
        pieces = self.tokenizer.pieces([self.tokenizer.special.eos, *ids])

        def step() -> Tensor:
            logits, _ = self.model.step(read, self.model.begin())
            return logits

        axes = text_axes(read=pieces[:-1], wrote=pieces[1:])
        text = self.tokenizer.decode(ids)
        record, logits = recorded(self.model, step, scope=scope, axes=axes, title=text)
        if 0 < given < len(ids):
            notes = (*notes, f"The first {given:,} tokens were given, the others written.")
        record = replace(
            record,
            written=written(logits, ids, tokenizer=self.tokenizer, alternatives=scope.alternatives),
            tree=() if grown is None else branches(grown, ids[given:], tokenizer=self.tokenizer),
            notes=(*record.notes, *notes),
            widths=(*record.widths, Width("output", "decoder", logits.size(-1))),
        )
        first = given if given < len(ids) else 0

        def values(rows: int) -> Tensor:
            logits, _ = self.model.step(repeated(read, rows), self.model.begin())
            return likelihoods(logits, ids)[:, first:]

        return attributed(record, self.model, values, scope=scope, about="written", places=range(first, len(ids)))

    def surprise(self, texts: Sequence[str], *, ended: bool = False, batch_tokens: int = 4096) -> list[Surprise]:
        """The log-probability of each text as the beginning of a document, or as a whole one that has `ended`.

        Args:
            texts: in any order; a single one is a list of one.
            ended: whether the end of the document counts as well.
            batch_tokens: that are read at one time, padding included.
        """
        eos = self.tokenizer.special.eos
        labels = [[*self.tokenizer.encode(text), *([eos] if ended else [])] for text in text_list(texts)]
        real = [ids for ids in labels if ids]
        scores = iter(in_batches(real, self._surprising, size=len, tokens=batch_tokens, rows=256))
        found = ((ids, next(scores) if ids else ()) for ids in labels)
        return [
            Surprise(sum(each, 0.0), len(ids), tuple(self.tokenizer.pieces(ids[: len(ids) - ended])), each)
            for ids, each in found
        ]

    def expected(self, documents: Sequence[Sequence[int]], *, most: int, batch_tokens: int = 4096) -> list[list[Place]]:
        """What the model expects at each place of documents, which are given as ids, without the one before them.

        Args:
            documents: in any order; none may be empty.
            most: ids that are told of each place.
            batch_tokens: that are read at one time, padding included.
        """
        say = Expecting(self._reader, self.tokenizer.special.eos, most)
        return in_batches(documents, say, size=len, tokens=batch_tokens, rows=256)

    def reading(self, *, most: int) -> Reading:
        """The same of one document that is read as it comes."""
        return Reading(self._reader, before=self.tokenizer.special.eos, most=most)

    def _surprising(self, labels: list[list[int]]) -> Iterator[tuple[float, ...]]:
        """Log-probabilities of ids that begin documents."""
        read = self._tokens([[self.tokenizer.special.eos, *ids[:-1]] for ids in labels])
        wanted = torch.from_numpy(padded(labels)).to(self.device)
        scores = score(self._reader.step, self._reader.begin(None), read, labels=wanted)
        for ids, each in zip(labels, scores.token_log_probabilities.tolist(), strict=True):
            yield tuple(each[: len(ids)])

    def _room(self, given: int, *, limit: int) -> tuple[int, tuple[str, ...]]:
        """Tokens that can be written where all must be seen at once, and what to say of it."""
        if self.max_context is None:
            return limit, ()
        room = self.max_context - given
        if room < 0:
            raise DataError(f"a text of {given:,} tokens: the model's positions are enough for {self.max_context:,}")
        if limit <= room:
            return limit, ()
        return room, (f"Writing ended after {room:,} tokens, where the model's positions do.",)

    def _remembered(self, ids: list[int]) -> list[int]:
        """What of a document is in the model's context when it is read, the token before the document included."""
        whole = [self.tokenizer.special.eos, *ids]
        if self.max_context is None:
            return whole
        return whole[len(whole) - kept_of(len(whole), longest=self.max_context) :]

    def _tokens(self, texts: list[list[int]]) -> Tokens:
        """What is read of each text."""
        return move(tokens_of(padded(texts)), self.device)


@final
@dataclass(frozen=True)
class WriteLines(TextLines[tuple[str, Continuation]]):
    """A prompt a line; it and what follows it, with an empty line behind, for each of its continuations.

    Attributes:
        writer: who goes on.
        search: how; the writer's way unless given.
        complete: whether the last words of prompts may be unfinished.
    """

    writer: Writer
    search: Search | None = None
    complete: bool = False
    chunk: ClassVar = 32

    def answers(self, inputs: Sequence[str], *, first: int) -> list[tuple[str, Continuation]]:
        """Continuations, those of one prompt behind each other."""
        found = self.writer.write(inputs, search=self.search, first=first - 1, complete=self.complete)
        return [(prompt, each) for prompt, continuations in zip(inputs, found, strict=True) for each in continuations]

    def record(self, answer: tuple[str, Continuation]) -> Any:
        """With tokens and log-probability."""
        prompt, continuation = answer
        return {"prompt": prompt, **asdict(continuation)}

    def text(self, answer: tuple[str, Continuation]) -> str:
        """As one reads it."""
        return f"{answer[0]}{answer[1].text}\n\n"
