"""What models write, whatever they read: looking for it, forcing it, and watching it being written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, final

import torch
from torch import Tensor, nn

from heedful.data.batches import padded, tokens_of
from heedful.data.spelling import joined
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.generation import Ban, Hypotheses, Hypothesis, NotBefore, score
from heedful.generation.completion import PartialWord
from heedful.generation.search import Search
from heedful.generation.start import Looked
from heedful.generation.start import Request as Wish
from heedful.generation.terms import Terms
from heedful.inspection.record import Axis, Record
from heedful.inspection.scored import Width
from heedful.models.interface import Engine
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
from heedful.tasks.partial_words import begun, completions
from heedful.values import Tokens, move

Source = TypeVar("Source")


@dataclass(frozen=True)
class Candidate:
    """One of the texts that were found for a source.

    Attributes:
        text: as one reads it.
        ids: what was generated, without begin and end.
        tokens: the same as pieces of text.
        log_probability: of the tokens and the end, in nats.
        score: what the search ranked by.
        finished: whether the text ended by itself.
    """

    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    log_probability: float
    score: float
    finished: bool

    @property
    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "text": self.text,
            "score": round(self.score, 5),
            "log_probability": round(self.log_probability, 5),
            "tokens": list(self.tokens),
            "finished": self.finished,
        }


@dataclass(frozen=True)
class ForcedScore:
    """How probable a given text is: nats, its end included, over `count` tokens."""

    log_probability: float
    count: int
    token_log_probabilities: tuple[float, ...]
    tokens: tuple[str, ...]


@final
@dataclass(frozen=True)
class Request:
    """What is wanted for one source.

    Attributes:
        limit: tokens that are written at most, the end included.
        stream: its source of chance when sampling; a number of its own.
        prefix: ids that the text begins with.
        least: tokens that are written at least, the end not included, where the limit leaves room for them.
        terms: ids that the text must hold, one term after the other or not; for beams alone.
        word: characters that follow the prefix, in whatever tokens.
    """

    limit: int
    stream: int = 1
    prefix: Sequence[int] = ()
    least: int = 0
    terms: Sequence[tuple[int, ...]] = ()
    word: PartialWord | None = None


@final
class Target:
    """The side that is written.

    Args:
        tokenizer: of what is written.
        device: where the models are.
        longest: longest text in tokens, its end included; None where the model's positions have no end.
    """

    def __init__(self, tokenizer: Tokenizer, *, device: torch.device, longest: int | None = None) -> None:
        self.tokenizer = tokenizer
        self.device = device
        self.longest = longest

    def find(
        self,
        model: Engine[Source],
        source: Source,
        requests: Sequence[Request],
        *,
        search: Search,
        looked: Looked | None = None,
    ) -> Hypotheses:
        """What a search finds for each row of a source, in inference mode; `looked` says what texts looked at."""
        wish = self.wish(requests, looked=looked)
        with torch.inference_mode():
            return search.answer(model.step, model.begin(source), wish).hypotheses

    def wish(self, requests: Sequence[Request], *, looked: Looked | None = None) -> Wish:
        """What is asked of a search, for each row of a source."""
        limit = torch.tensor([each.limit for each in requests], device=self.device).clamp(min=1, max=self.longest)
        prefix = torch.from_numpy(padded([each.prefix for each in requests])).to(self.device)
        prompt = Tokens(
            torch.full((len(requests), 1), self.tokenizer.special.bos, device=self.device),
            torch.zeros(len(requests), 1, dtype=torch.long, device=self.device),
        )
        words = [0 if each.word is None else each.word.tokens for each in requests]
        limit = torch.maximum(limit, (prefix >= 0).sum(1) + torch.tensor(words, device=self.device) + 1)
        return Wish(
            prompt,
            limit,
            prefix if prefix.numel() else None,
            streams=torch.tensor([each.stream for each in requests], device=self.device),
            bans=self._bans(requests, limits=limit.tolist()),
            terms=self._terms(requests),
            looked=looked,
        )

    def _bans(self, requests: Sequence[Request], *, limits: Sequence[int]) -> tuple[Ban, ...]:
        missing = tuple(
            min(each.least, limit - 1) - len(each.prefix) for each, limit in zip(requests, limits, strict=True)
        )
        late = (NotBefore(self.tokenizer.special.eos, missing),) if max(missing, default=0) > 0 else ()
        return (*completions([each.word for each in requests], tokenizer=self.tokenizer), *late)

    def _terms(self, requests: Sequence[Request]) -> Terms | None:
        if not any(each.terms for each in requests):
            return None
        return Terms(tuple(tuple(each.terms) for each in requests), joined(self.tokenizer))

    def candidate(self, found: Hypothesis) -> Candidate:
        """As its reader has it."""
        text, pieces = self.tokenizer.decode(found.ids), tuple(self.tokenizer.pieces(found.ids))
        return Candidate(text, found.ids, pieces, found.log_probability, found.score, found.finished)

    def encode(self, text: str, *, place: str) -> list[int]:
        """A given text, without its end; `DataError`, which names its place, where it is too long to be read."""
        ids = self.tokenizer.encode(text)
        if self.longest is not None and len(ids) >= self.longest:
            raise DataError(
                f"{place} is given {len(ids)} tokens, this model reads at most {self.longest - 1}; split it"
            )
        return ids

    def begun(self, text: str, *, place: str) -> tuple[list[int], PartialWord | None]:
        """How a text begins; `DataError`, which names its place, where that is too long to be read."""
        self.encode(text, place=place)
        return begun(self.tokenizer, text)

    def forced(self, texts: Sequence[Sequence[int]]) -> tuple[Tokens, Tensor]:
        """Given texts as the model reads them, and the labels that follow; -1 is none."""
        special = self.tokenizer.special
        read = tokens_of(padded([[special.bos, *ids] for ids in texts]))
        return move((read, torch.from_numpy(padded([[*ids, special.eos] for ids in texts]))), self.device)

    def scores(self, model: Engine[Source], source: Source, texts: Sequence[Sequence[int]]) -> Iterator[ForcedScore]:
        """How probable given texts are, a row of the source for each."""
        read, labels = self.forced(texts)
        scores = score(model.step, model.begin(source), read, labels=labels).token_log_probabilities.tolist()
        for ids, each in zip(texts, scores, strict=True):
            found = tuple(each[: len(ids) + 1])
            yield ForcedScore(sum(found), len(found), found, tuple(self.tokenizer.pieces(ids)))

    def look(
        self,
        model: nn.Module,
        source: Any,
        wanted: Sequence[int] | Request,
        *,
        search: Search,
        scope: Scope,
        axes: Sequence[Axis],
        title: str,
        looked: Looked | None = None,
    ) -> Record:
        """Everything a model attends to while it reads one source and writes a text.

        Args:
            model: in evaluation mode; an Engine.
            source: one row.
            wanted: the ids of a given text, or else what is to be found, whose beam is recorded too.
            search: for that.
            scope: what is kept.
            axes: of the source.
            title: the source as one reads it.
            looked: says what texts looked at, for searches that ask.

        Raises:
            RecipeError: no such layer or head.
        """
        engine: Engine[Any] = model  # type: ignore[assignment]  # a module that is an Engine; mypy has no type for both
        grown = None
        if isinstance(wanted, Request):
            search, grown = growing(search)
            ids = list(self.find(engine, source, [wanted], search=search, looked=looked)[0][0].ids)
        else:
            ids = list(wanted)
        read, labels = self.forced([ids])

        def step() -> Tensor:
            logits, _ = engine.step(read, engine.begin(source))
            return logits

        pieces = self.tokenizer.pieces(ids)
        along = [*axes, *text_axes(read=["<s>", *pieces], wrote=[*pieces, "</s>"])]
        record, logits = recorded(model, step, scope=scope, axes=along, title=title)
        said = labels[0].tolist()
        texts = written(logits, said, tokenizer=self.tokenizer, alternatives=scope.alternatives)
        tree = () if grown is None else branches(grown, said, tokenizer=self.tokenizer)
        widths = (*record.widths, Width("output", "decoder", logits.size(-1)))
        record = replace(record, written=texts, tree=tree, said=self.tokenizer.decode(ids), widths=widths)

        def values(rows: int) -> Tensor:
            logits, _ = engine.step(repeated(read, rows), engine.begin(repeated(source, rows)))
            return likelihoods(logits, said)

        return attributed(record, model, values, scope=scope, about="written")
