"""A trained model as somebody to talk to: the turns of a dialogue in, the next one out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, final

import torch
from torch import Tensor

from heedful.attention.probe import READ, SOURCE, WRITTEN
from heedful.data.batches import PairBatch
from heedful.errors import DataError, RecipeError
from heedful.generation import Hypothesis, score
from heedful.generation.search import Greedy, Sampling, Search
from heedful.generation.stopping import Until, never
from heedful.given_texts import item_list, text_list
from heedful.inspection.record import Axis, Record
from heedful.models.conditional import Conditional
from heedful.recipes.generation import ContinuationConfig
from heedful.tasks.conversation.data import Exchange, Script, Turn
from heedful.tasks.conversation.replying import Context, Replying
from heedful.tasks.faces import Asked, Face, TextLines, in_batches
from heedful.tasks.finding import company
from heedful.tasks.finding import written as written_ids
from heedful.tasks.inspecting import Scope, attributed, likelihoods, recorded, repeated, written
from heedful.tasks.searches import build_continuation
from heedful.tasks.stop_strings import Ends, Following, Growing, complete
from heedful.values import Tokens, move


@dataclass(frozen=True)
class Reply:
    """What a model says next.

    Attributes:
        speaker: as whom.
        text: what was written, before a stop string.
        tokens: everything that was written as pieces of text.
        log_probability: of the tokens, and of the end if it came, in nats.
        finished: whether the turn ended by itself.
        stop: the stop string that ended it, if one did.
    """

    speaker: str
    text: str
    tokens: tuple[str, ...]
    log_probability: float
    finished: bool
    stop: str | None = None


@dataclass(frozen=True)
class ScoredReply:
    """How probable a given reply is: the log-probability of each of its tokens, the one that ends it included."""

    tokens: tuple[str, ...]
    token_log_probabilities: tuple[float, ...]

    @property
    def nats(self) -> float:
        """The negative log-likelihood."""
        return -sum(self.token_log_probabilities)


class Partner(Face):
    """A model with its vocabulary, that speaks as one of those whose dialogues it learned.

    Args:
        model: in evaluation mode.
        script: how turns become ids.
        speaker: as whom it speaks.
        generation: how it writes unless a call says otherwise.
    """

    def __init__(
        self, model: Conditional[Tokens], *, script: Script, speaker: str, generation: ContinuationConfig
    ) -> None:
        self.model = model
        self.script = script
        self.speaker = speaker
        self.generation = generation
        self.device = model.device
        search, self.limit = build_continuation(generation, script.special)
        self.search: Search = search
        self.stop = tuple(generation.stop)

    @property
    def other(self) -> str:
        """Who talks to it; `RecipeError` where the dialogues have more than two speakers."""
        others = [name for name in self.script.speakers.names if name != self.speaker]
        if len(others) != 1:
            raise RecipeError(
                f"the dialogues that were learned have {len(others) + 1} speakers, so who speaks must be said"
            )
        return others[0]

    def turns(self, texts: Sequence[str]) -> tuple[Turn, ...]:
        """Texts as turns by both in turn, of which the last is the other's; empty ones are left out.

        A single text is a list of one.
        """
        both, given = (self.other, self.speaker), text_list(texts)
        named = ((both[number % 2], text) for number, text in enumerate(reversed(given)))
        return tuple(Turn(speaker, text) for speaker, text in named if text.strip())[::-1]

    def reply(
        self,
        dialogues: Sequence[Sequence[Turn]],
        *,
        search: Search | None = None,
        limit: int | None = None,
        stop: Sequence[str] | None = None,
        batch_tokens: int = 4096,
        first: int = 1,
        until: Until = never,
    ) -> list[Reply]:
        """What the model says next in each dialogue, in their order; in one without turns it begins.

        Args:
            dialogues: so far: turns, or texts as `turns` takes them. A string is a dialogue with one turn, which the
                other has said. A single dialogue, of turns or a string, is a list of one.
            search: instead of its own way; the best of what it finds is said.
            limit: most tokens of a reply, likewise.
            stop: strings before which a reply ends, likewise.
            batch_tokens: padded tokens of contexts that are read at one time.
            first: number of the first dialogue, which decides its chance when sampling.
            until: ends all of them early; what was said so far is given back.

        Raises:
            DataError: a speaker is unknown.
        """
        ends = Ends(self.stop if stop is None else stop)
        told = [self._turns(each, f"dialogues[{place}]") for place, each in enumerate(_listed(dialogues))]
        asked = [Context(self.script.read(turns), number) for number, turns in enumerate(told, first)]
        found = in_batches(
            asked,
            self._replying(search or self.search, ends, until, limit=limit),
            size=lambda each: len(each.ids),
            tokens=batch_tokens,
            rows=64,
        )
        return [self._reply(hypotheses[0], ends) for hypotheses in found]

    def _turns(self, dialogue: str | Sequence[Turn | str], name: str) -> Sequence[Turn]:
        """Return the turns of one dialogue, which may be given as texts.

        Raises:
            DataError: an element is neither a turn nor a text.
        """
        if isinstance(dialogue, str):
            return self.turns(dialogue)
        found: list[Any] = item_list(dialogue, str, Turn, name=name, noun="turn", remedy="a Turn or a string")
        if any(not isinstance(each, Turn) for each in found):
            return self.turns(text_list(found, name=name))
        return found

    def stream(
        self,
        turns: Sequence[Turn],
        *,
        search: Greedy | Sampling,
        limit: int | None = None,
        stop: Sequence[str] | None = None,
        number: int = 1,
        until: Until = never,
    ) -> Growing:
        """The reply to one dialogue as it is written, in pieces of text; `number` is that of the dialogue and decides
        its chance, the other arguments are those of `reply`."""
        ends, following = Ends(self.stop if stop is None else stop), Following(self.script.tokenizer, ())
        replying = self._replying(search, ends, until, limit=limit)
        context = Context(self.script.read(self._turns(turns, "turns")), number)
        return Growing(written_ids(replying, context), following=following, ends=ends)

    def score(self, exchanges: Sequence[Exchange], *, batch_tokens: int = 4096) -> list[ScoredReply]:
        """Log-probabilities of given replies behind given turns, in order.

        Raises:
            DataError: a reply is longer than the model can read, or a speaker is unknown.
        """
        pairs = [(self.script.read(each.context), self._target(each.reply)) for each in exchanges]
        return in_batches(pairs, self._scores, size=lambda pair: max(map(len, pair)), tokens=batch_tokens, rows=256)

    def inspect(
        self, turns: Sequence[Turn], reply: str | None = None, *, limit: int | None = None, scope: Scope | None = None
    ) -> Record:
        """Everything the model attends to while it reads turns and says what comes next, or what is given.

        Args:
            turns: so far.
            reply: instead of its own.
            limit: most tokens of its own.
            scope: layers, heads and details that are kept; all unless given.

        Raises:
            DataError: the reply is too long.
            RecipeError: no such layer or head.
        """
        scope = scope or Scope()
        said = self.reply([turns], limit=limit)[0].text if reply is None else reply
        source, target = self.script.read(turns), self._target(Turn(self.speaker, said))
        batch = self._batch([source], [target])

        def whole() -> tuple[Tensor, Tokens]:
            hidden, read = self.model.whole(scope.padded(batch.source), batch.target)
            return self.model.output(hidden), read

        with torch.inference_mode():
            ids = whole()[1].ids[0].tolist()
        names, spans, wrote = self.script.pieces, self.script.spans, [*ids[1:], target[-1]]
        axes = (
            Axis(SOURCE, scope.named(names(source)), spans=spans(source)),
            Axis(READ, tuple(names(ids)), spans=spans(ids)),
            Axis(WRITTEN, tuple(names(wrote)), spans=spans(wrote)),
        )
        title = "\n".join(f"{turn.speaker}: {turn.text}" for turn in (*turns, Turn(self.speaker, said)))
        record, (logits, _) = recorded(self.model, whole, scope=scope, axes=axes, title=title)
        used = {name for each in record.maps for name in (each.queries, each.keys)}
        record = replace(
            record,
            axes=tuple(axis for axis in axes if axis.name in used),
            written=written(logits, wrote, tokenizer=self.script, alternatives=scope.alternatives),
        )
        first = len(wrote) - len(target) + 1  # the speaker was given

        def values(rows: int) -> Tensor:
            read = repeated(scope.padded(batch.source), rows), repeated(batch.target, rows)
            hidden, _ = self.model.whole(*read)
            return likelihoods(self.model.output(hidden), wrote)[:, first:]

        return attributed(record, self.model, values, scope=scope, about="written", places=range(first, len(wrote)))

    def lines(self) -> ReplyLines:
        """A dialogue a line."""
        return ReplyLines(self)

    def look(self, asked: Asked) -> Record:
        """See `inspect`; turns stand between tabs, the last is the other's."""
        if asked.beam is not None:
            raise RecipeError("--beam: this model does not search with a beam; leave it out")
        turns = self.turns(asked.source.split("\t"))
        return self.inspect(turns, asked.target, limit=asked.tokens, scope=asked.scope)

    def _target(self, reply: Turn) -> list[int]:
        ids = self.script.turn(reply) or [self.script.speaker(reply.speaker), self.script.tokenizer.special.eos]
        if len(ids) > self.script.max_length:
            most = self.script.max_length
            raise DataError(f"the reply {reply.text[:40]!r} has {len(ids)} tokens; this model reads at most {most}")
        return ids

    def _scores(self, pairs: list[tuple[list[int], list[int]]]) -> Iterator[ScoredReply]:
        batch = self._batch(*map(list, zip(*pairs, strict=True)))
        found = score(self.model.step, self.model.begin(batch.source), batch.target, labels=batch.labels)
        for (_, target), each in zip(pairs, found.token_log_probabilities.tolist(), strict=True):
            yield ScoredReply(tuple(self.script.pieces(target[1:])), tuple(each[: len(target) - 1]))

    def _reply(self, found: Hypothesis, ends: Ends) -> Reply:
        text, stop = ends.cut(complete(self.script.tokenizer.decode(found.ids)))
        pieces = tuple(self.script.pieces(found.ids))
        return Reply(self.speaker, text, pieces, found.log_probability, found.finished, stop)

    def _replying(self, search: Search, ends: Ends, until: Until, *, limit: int | None) -> Replying:
        until = until if company() is None else never  # which ends what nobody waits for by itself
        most = min(limit or self.limit, self.script.max_length - 2)
        return Replying(self.model, search, self.script, self.speaker, most, ends.strings, until)

    def _batch(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> PairBatch[Tokens]:
        return move(self.script.batch(sources, targets), self.device)


def _listed(dialogues: Any) -> list[Any]:
    """Return dialogues as a list; one that is a string, or made of turns, is a list of one."""
    if isinstance(dialogues, str | bytes) or not isinstance(dialogues, Iterable):
        return [dialogues]
    found = list(dialogues)
    return [found] if any(isinstance(each, Turn) for each in found) else found


@final
@dataclass(frozen=True)
class ReplyLines(TextLines[Reply]):
    """A dialogue a line, its turns between tabs by both in turn, the last by the other; the reply to it."""

    partner: Partner
    search: Search | None = None

    def answers(self, inputs: Sequence[str], *, first: int) -> list[Reply]:
        """Replies."""
        dialogues = [self.partner.turns(line.split("\t")) for line in inputs]
        return self.partner.reply(dialogues, search=self.search, first=first)

    def record(self, answer: Reply) -> Any:
        """With tokens and log-probability."""
        return asdict(answer)

    def text(self, answer: Reply) -> str:
        """What is said."""
        return f"{answer.text}\n"
