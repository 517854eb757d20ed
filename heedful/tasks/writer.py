"""A language model as its user sees it: prompts in, continuations out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from heedful.data.tokenizers import EOS, PAD, Tokenizer
from heedful.errors import DataError
from heedful.generation import score
from heedful.generation.sampling import AtToken, sample
from heedful.generation.search import Sampling, Search
from heedful.inspection.record import Record
from heedful.models.language_model import LanguageModel
from heedful.tasks.inspecting import Scope, branches, growing, recorded, text_axes, written
from heedful.values import Tokens, move


@dataclass(frozen=True)
class Continuation:
    """How a prompt goes on.

    Attributes:
        text: what was written, without the prompt.
        tokens: the same as pieces of text.
        log_probability: of the tokens, and of the end if it came, in nats.
        finished: whether the document ended by itself.
    """

    text: str
    tokens: tuple[str, ...]
    log_probability: float
    finished: bool


@dataclass(frozen=True)
class Surprise:
    """How probable a text is: nats over `count` tokens, each given all before it; its end is not counted."""

    log_probability: float
    count: int
    tokens: tuple[str, ...]
    token_log_probabilities: tuple[float, ...]


class Writer:
    """A language model with its tokenizer.

    Args:
        model: in evaluation mode.
        tokenizer: that it was trained with.
        search: how continuations are looked for unless a call says otherwise.
        limit: most tokens of a continuation, likewise.
    """

    def __init__(self, model: LanguageModel, *, tokenizer: Tokenizer, search: Search, limit: int) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.search = search
        self.limit = limit
        self.device = next(model.parameters()).device

    def write(
        self, prompts: Sequence[str], *, search: Search | None = None, limit: int | None = None
    ) -> list[list[Continuation]]:
        """Continuations of each prompt, best first; an empty prompt begins a document.

        Prompts of different length are written at the same time, and none depends on its neighbours.
        """
        if not prompts:
            return []
        prompt = self._tokens([self.tokenizer.encode(text) for text in prompts])
        numbers = torch.arange(len(prompts), device=self.device)
        limits = torch.full_like(numbers, limit or self.limit)
        with torch.inference_mode():
            found = (search or self.search)(
                self.model.step, self.model.begin(), prompt, limit=limits, prefix=None, streams=numbers
            )
        return [
            [
                Continuation(
                    self.tokenizer.decode(each.ids),
                    tuple(self.tokenizer.pieces(each.ids)),
                    each.log_probability,
                    each.finished,
                )
                for each in hypotheses
            ]
            for hypotheses in found
        ]

    def stream(self, prompt: str, *, search: Sampling, limit: int | None = None) -> Iterator[str]:
        """One continuation as it is written, in pieces of text; what `write` gives for this prompt alone."""
        columns = sample(
            self.model.step,
            self.model.begin(),
            self._tokens([self.tokenizer.encode(prompt)]),
            pick=search.pick,
            stop=AtToken(search.eos),
            limit=limit or self.limit,
        )
        ids: list[int] = []
        shown = ""
        for column in columns:
            ids.append(int(column.ids[0, 0]))
            text = self.tokenizer.decode(ids)
            yield text[len(shown) :]
            shown = text

    def inspect(
        self, prompt: str, *, search: Search | None = None, limit: int | None = None, scope: Scope | None = None
    ) -> Record:
        """Everything the model attends to while it reads a prompt and goes on with it.

        Args:
            prompt: may be empty.
            search: instead of the writer's own; the best of its continuations is taken.
            limit: most tokens that are written; 0 reads the prompt alone.
            scope: layers, heads and details that are kept; all unless given.

        Raises:
            DataError: nothing to read and nothing to write.
            RecipeError: no such layer or head.
        """
        scope, ids = scope or Scope(), self.tokenizer.encode(prompt)
        given, grown = len(ids), None
        if limit is None or limit > 0:
            search, grown = growing(search or self.search)
            with torch.inference_mode():
                best = search(
                    self.model.step,
                    self.model.begin(),
                    self._tokens([ids]),
                    limit=torch.tensor([limit or self.limit], device=self.device),
                    prefix=None,
                    streams=torch.zeros(1, dtype=torch.long, device=self.device),
                )[0][0]
            ids = [*ids, *best.ids, *([EOS] if best.finished else [])]
        if not ids:
            raise DataError("nothing to look at: give a prompt, or let something be written")
        read = self._tokens([ids]).span(0, -1)
        pieces = self.tokenizer.pieces([EOS, *ids])

        def step() -> Tensor:
            logits, _ = self.model.step(read, self.model.begin())
            return logits

        axes = text_axes(source=None, read=pieces[:-1], wrote=pieces[1:])
        text = self.tokenizer.decode(ids)
        record, log_probabilities = recorded(self.model, step, scope=scope, axes=axes, title=text)
        assert log_probabilities is not None, "a model that writes has logits"
        notes = (f"The first {given:,} tokens were given, the others written.",) if 0 < given < len(ids) else ()
        return replace(
            record,
            written=written(log_probabilities, ids, tokenizer=self.tokenizer, alternatives=scope.alternatives),
            tree=() if grown is None else branches(grown, ids[given:], tokenizer=self.tokenizer),
            notes=(*record.notes, *notes),
        )

    def surprise(self, texts: Sequence[str]) -> list[Surprise]:
        """The log-probability of each text as the beginning of a document."""
        found = []
        for text in texts:
            ids = self.tokenizer.encode(text)
            if not ids:
                found.append(Surprise(0.0, 0, (), ()))
                continue
            read = self._tokens([ids])
            labels = torch.tensor([ids], device=self.device)
            with torch.inference_mode():
                scores = score(self.model.step, self.model.begin(), read.span(0, -1), labels=labels)
            each = scores.token_log_probabilities[0].tolist()
            found.append(Surprise(sum(each), len(ids), tuple(self.tokenizer.pieces(ids)), tuple(each)))
        return found

    def _tokens(self, texts: list[list[int]]) -> Tokens:
        """What precedes a document, which is the end of another, and each text."""
        longest = max(map(len, texts))
        ids: Tensor = torch.tensor([[EOS, *text, *[PAD] * (longest - len(text))] for text in texts])
        return move(Tokens.of(ids, pad=PAD), self.device)
