"""`/v1/completions` of OpenAI's interface: language models go on with prompts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, final

from heedful.serving.house import Model
from heedful.serving.openai.completion import Completion, CompletionChoice, CompletionRequest
from heedful.serving.openai.events import streamed
from heedful.serving.openai.tokens import Entry, Ledger, Logprobs, logprobs_of
from heedful.serving.openai.writing import Ending, Usage, Way, require_within, way_of
from heedful.serving.refusal import wrong
from heedful.serving.routes import Answer, Asked
from heedful.serving.settings import Limits
from heedful.tasks.faces import chunked
from heedful.tasks.language.expected import Place
from heedful.tasks.language.face import Continuation, Writer
from heedful.tasks.stop_strings import Growing

T = TypeVar("T")

_PART: Final = 256
"""Tokens of a prompt that are read before it is asked whether anybody waits."""


async def complete(asked: Asked, message: CompletionRequest) -> Answer:
    """The completions of all prompts."""
    model = asked.house.model(Writer, message.model, use="write")
    writer: Writer = model.face
    limits = _require(asked, message)
    way = way_of(
        message,
        writer.generation,
        special=writer.tokenizer.special,
        size=writer.tokenizer.size,
        tokens=min(message.most, limits.tokens),
        first=0,
        n=message.tried,
    )
    job = Job(asked, message, model, way)
    if message.stream:
        return await streamed(asked, model, job.stream)
    return await model.ask(asked.term, job.whole)


def _require(asked: Asked, message: CompletionRequest) -> Limits:
    """The limits; `Refusal` where a request contradicts itself, or asks for too much."""
    limits = require_within(asked, message, message.prompts, tokens={"max_tokens": message.max_tokens})
    name = "n" if message.best_of is None else "best_of"
    if message.tried < (message.n or 1):
        raise wrong(f"best_of: {message.tried} completions to choose {message.n} from; ask for more", param="best_of")
    if message.tried > limits.alternatives + 1:
        raise wrong(f"{name}: {message.tried}; at most {limits.alternatives + 1} are written here", param=name)
    if (count := len(message.prompts) * message.tried) > limits.batch:
        raise wrong(f"{count:,} completions; a request may have {limits.batch:,}: send fewer prompts", param="prompt")
    if message.stream and message.tried > 1:
        raise wrong(f"{name}: a stream has one completion of each prompt; ask for 1, or without stream", param=name)
    if not message.most and not message.echo:
        raise wrong("max_tokens: 0 writes nothing; ask for 1 or more, or for echo", param="max_tokens")
    return limits


@final
@dataclass(frozen=True)
class Job:
    """A request as it is worked for, in a thread of its own."""

    asked: Asked
    message: CompletionRequest
    model: Model[Writer]
    way: Way
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def writer(self) -> Writer:
        """Who goes on."""
        return self.model.face

    def over(self) -> bool:
        """Whether nobody waits any more."""
        return self.asked.term.over

    def whole(self) -> Mapping[str, Any]:
        """All completions at once."""
        prompts, n = self.message.prompts, self.message.n or 1
        found = self._written(prompts)
        self.asked.term.check()
        chosen = [(prompt, each) for prompt, own in zip(prompts, found, strict=True) for each in own[:n]]
        ledgers = [Ledger(self.writer.tokenizer, prompt) for prompt, _ in chosen]
        told = self._told(ledgers, [each for _, each in chosen])
        self.asked.term.check()
        choices = [
            CompletionChoice(
                index=index,
                text=(prompt if self.message.echo else "") + each.text,
                logprobs=logprobs,
                finish_reason="stop" if each.finished or each.stop is not None else "length",
            )
            for index, ((prompt, each), logprobs) in enumerate(zip(chosen, told, strict=True))
        ]
        read = sum(len(ledger.prompt_ids) for ledger in ledgers[::n])
        usage = Usage.of(read, sum(len(each.ids) for own in found for each in own))
        return self._completion(choices, usage=usage, **self._notes())

    def stream(self, say: Callable[[Mapping[str, Any]], None]) -> None:
        """All completions as they are written, a piece of each in turn."""
        parts = [_Part(self, prompt, index) for index, prompt in enumerate(self.message.prompts)]
        usage, notes = {"usage": None} if self.message.tells_usage else {}, self._notes()
        growing = [(part, part.pieces()) for part in parts]
        while growing:
            for each in tuple(growing):
                choice = next(each[1], None)
                if choice is None:
                    growing.remove(each)
                else:
                    say(self._completion([choice], **usage, **notes))
                    notes = {}
        if self.message.tells_usage:
            read = sum(len(part.ledger.prompt_ids) for part in parts)
            say(self._completion([], usage=Usage.of(read, sum(part.written for part in parts))))

    def _written(self, prompts: Sequence[str]) -> list[list[Continuation]]:
        """The completions of each prompt, those that are wanted first."""
        if not self.message.most:
            return [[Continuation("", (), 0.0, finished=False)] * self.message.tried for _ in prompts]
        way = self.way
        found = self.writer.write(
            prompts, search=way.search, limit=way.limit, stop=way.stop, first=way.first, until=self.over
        )
        if self.message.best_of is None:
            return found
        return [sorted(own, key=_by_token, reverse=True) for own in found]

    def _told(self, ledgers: Sequence[Ledger], chosen: Sequence[Continuation]) -> Sequence[Logprobs | None]:
        """The tokens of each completion, if they are asked for."""
        most, echo = self.message.logprobs, bool(self.message.echo)
        if most is None:
            return [None] * len(chosen)
        read: Iterator[list[Place]] = iter(())
        if most or echo:
            documents = ([*ledger.prompt_ids, *each.ids] for ledger, each in zip(ledgers, chosen, strict=True))
            read = iter(self.writer.expected([ids for ids in documents if ids], most=most))
        told = []
        for ledger, each in zip(ledgers, chosen, strict=True):
            count = len(ledger.prompt_ids)
            if most or echo:
                places = next(read) if ledger.prompt_ids or each.ids else []
                before, behind = places[:count], places[count:]
            else:
                before, behind = [], [Place(value, ()) for value in each.token_log_probabilities[: len(each.ids)]]
            entries = ledger.prompt(self.awaited(before)) if echo else []
            written = ledger.more(each.ids, self.awaited(behind))
            end = len(ledger.text) + len(each.text)
            entries += written if each.stop is None else (entry for entry in written if entry.start < end)
            told.append(logprobs_of(entries, most=most))
        return told

    def awaited(self, items: Iterable[T]) -> Iterator[T]:
        """Each of these, as long as somebody waits."""
        for item in items:
            self.asked.term.check()
            yield item

    def _completion(self, choices: Sequence[CompletionChoice], **more: Any) -> Mapping[str, Any]:
        found = Completion(
            id=f"cmpl-{self.asked.id}",
            object="text_completion",
            created=self.created,
            model=self.model.name,
            choices=list(choices),
            **more,
        )
        return found.model_dump(mode="json", exclude_unset=True)

    def _notes(self) -> dict[str, list[str]]:
        """What of prompts the model does not read, if anything."""
        if not self.message.most:
            return {}
        lost = ((number, self.writer.forgotten(prompt)) for number, prompt in enumerate(self.message.prompts, 1))
        notes = [
            f"prompt {number} is too long for the model's {self.writer.max_context:,} positions; its first {count:,} "
            "tokens are not read"
            for number, count in lost
            if count
        ]
        return {"notes": notes} if notes else {}


def _by_token(found: Continuation) -> float:
    return found.log_probability / max(1, len(found.token_log_probabilities))


@final
class _Part:
    """One completion of a stream.

    Attributes:
        ledger: its tokens.
        written: how many there are, when it has ended.
    """

    def __init__(self, job: Job, prompt: str, index: int) -> None:
        self.ledger = Ledger(job.writer.tokenizer, prompt)
        self.written = 0
        self._job = job
        self._index = index
        most = job.message.logprobs
        self._reading = None if most is None else job.writer.reading(most=most)

    def pieces(self) -> Iterator[CompletionChoice]:
        """The prompt if it is to be sent, the text as it comes, and how it ended."""
        message, prompt = self._job.message, self.ledger.text
        before = self._read(self.ledger.prompt_ids)
        if message.echo and prompt:
            told = self._reading is not None
            yield self._choice(prompt, self.ledger.prompt(self._job.awaited(before)) if told else [])
        if not message.most:
            yield self._choice("", [], ended="length")
            return
        way, shown, waiting = self._job.way, len(prompt), list[Entry]()
        growing = self._job.writer.stream(
            prompt,
            search=way.search,
            limit=way.limit,
            stop=way.stop,
            number=way.first + self._index,
            until=self._job.over,
        )
        for piece in growing:
            waiting += self._come(growing)
            shown += len(piece)
            yield self._choice(piece, [each for each in waiting if each.start < shown])
            waiting = [each for each in waiting if each.start >= shown]
        self._job.asked.term.check()
        waiting += self._come(growing)
        ended = growing.stop is not None or self.written < len(growing.ids)
        yield self._choice("", waiting if growing.stop is None else [], ended="stop" if ended else "length")

    def _come(self, growing: Growing) -> list[Entry]:
        """The tokens that came since the last time; the one that ends the document is none."""
        eos = self._job.writer.tokenizer.special.eos
        ids = [number for number in growing.ids[self.written :] if number != eos]
        self.written += len(ids)
        return [] if self._reading is None else self.ledger.more(ids, self._read(ids))

    def _read(self, ids: Sequence[int]) -> list[Place]:
        """What the model expected in the place of each, if that is to be told; it reads them a part after the other."""
        if self._reading is None:
            return []
        return [place for part in self._job.awaited(chunked(ids, _PART)) for place in self._reading.on(part)]

    def _choice(self, text: str, entries: Sequence[Entry], *, ended: Ending | None = None) -> CompletionChoice:
        most = self._job.message.logprobs
        told = None if most is None else logprobs_of(entries, most=most)
        return CompletionChoice(index=self._index, text=text, logprobs=told, finish_reason=ended)
