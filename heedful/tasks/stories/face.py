"""The trained model as its users see it: a story and questions in, answers and what was looked at out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from typing import Any, Final, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from heedful.data.batches import padded
from heedful.data.readers import Record
from heedful.errors import DataError, RecipeError
from heedful.given_texts import require_text, shown, text_list
from heedful.inspection import record as inspected
from heedful.inspection.watch import watch
from heedful.models.memory_network import FACTS, QUESTION, STEPS, MemoryNetwork, Story
from heedful.tasks.faces import Asked, Face, Lines, cell, in_batches
from heedful.tasks.inspecting import Scope, best_options, recorded
from heedful.tasks.stories.data import Words, story_of
from heedful.values import move

Question = tuple[Sequence[str], str]
"""The sentences of a story, and what is asked about it."""

_NUMBER: Final = re.compile(r"(\d+)[.:)]?\s+")
_END: Final = re.compile(r"(?<=[.!?])\s+")
_ALL: Final = Scope()


def sentences(text: str) -> list[str]:
    """Those of a story: a line each, or up to `.`, `!` and `?` where it is one line; numbers from 1 are left out.

    Lines of nothing but white space are none.
    """
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if len(lines) == 1:
        return _END.split(lines[0])
    numbers = [_NUMBER.match(line) for line in lines]
    if all(match is not None and int(match[1]) == place for place, match in enumerate(numbers, 1)):
        return [line[match.end() :] for line, match in zip(lines, numbers, strict=True) if match is not None]
    return lines


@dataclass(frozen=True)
class Read:
    """A story and a question as ids; `first` is the number of its first fact that is read."""

    facts: list[list[int]]
    question: list[int]
    first: int

    @property
    def size(self) -> int:
        """Ids of facts, without padding."""
        return max(1, sum(map(len, self.facts)))


@final
@dataclass(frozen=True)
class StoryAnswer:
    """What a model says of a question.

    Attributes:
        answer: the most probable one.
        probability: among all answers.
        others: the next ones, and their probabilities.
        looked: the number of the fact that each hop looks at most, from 0; none where there is no fact.
        weights: of each hop, how much it looks at each fact that is read; the last ones of the story.
    """

    answer: str
    probability: float
    others: tuple[tuple[str, float], ...]
    looked: tuple[int, ...]
    weights: Float[np.ndarray, "hops S"]


@final
class StoryReader(Face):
    """A memory network with its words."""

    def __init__(self, model: MemoryNetwork, words: Words) -> None:
        self.model = model
        self.words = words
        self.device = model.sentences.weight.device

    def ask(self, story: str | Sequence[str], question: str) -> StoryAnswer:
        """What the model answers; a story is a text, or its sentences.

        Raises:
            DataError: a sentence has more words than the model was made for.
        """
        require_text(question, name="question")
        return self.answer([(sentences(story) if isinstance(story, str) else story, question)])[0]

    def answer(self, questions: Sequence[Question], *, batch_tokens: int = 16384) -> list[StoryAnswer]:
        """Of each question about a story what the model answers; `DataError` as `ask`.

        Args:
            questions: sentences, and a question about them.
            batch_tokens: words of facts that are read at a time.
        """
        rows = [self._read(facts, question) for facts, question in map(_checked, count(), questions)]
        return in_batches(rows, self._answers, size=lambda row: row.size, tokens=batch_tokens)

    def unknown(self, sentences: Iterable[str]) -> tuple[str, ...]:
        """Words that training never saw, which count for nothing."""
        return tuple(dict.fromkeys(word for sentence in sentences for word in self.words.unknown(sentence)))

    def lines(self) -> StoryLines:
        """A JSON object with `facts` and `question` a line."""
        return StoryLines(self)

    def look(self, asked: Asked) -> inspected.Record:
        """What each hop looks at; the question is --text, the story --pair."""
        if asked.to_read().target is None:
            raise RecipeError("--pair: the question of --text is about a story; give it, sentence by sentence")
        return self.inspect(asked.target or "", asked.source, scope=asked.scope)

    def inspect(
        self,
        story: str | Sequence[str],
        question: str,
        *,
        supporting: Sequence[int] = (),
        scope: Scope = _ALL,
    ) -> inspected.Record:
        """What each hop looks at, beside the facts that are known to answer the question, by their numbers from 0.

        Raises:
            DataError: there is no fact to look at, or none of such a number.
        """
        require_text(question, name="question")
        told = sentences(story) if isinstance(story, str) else list(story)
        row = self._read(told, question)
        if not row.facts:
            raise DataError("the story has no sentence, so there is nothing to look at; give one")
        if wrong := [number for number in supporting if not 0 <= number < len(told)]:
            raise DataError(
                f"fact {wrong[0]} of {len(told)} (from 0) is said to answer the question; there is none such"
            )
        axes = (
            inspected.Axis(QUESTION, (question,)),
            inspected.Axis(STEPS, tuple(f"hop {hop}" for hop in range(1, self.model.hops + 1))),
            inspected.Axis(
                FACTS,
                tuple(told[row.first :]),
                marked=tuple(number - row.first for number in sorted(set(supporting)) if number >= row.first),
            ),
        )
        read = self._story([row])
        record, chances = recorded(self.model, lambda: self._chances(read), scope=scope, axes=axes, title=question)
        used = {name for each in record.maps for name in (each.queries, each.keys)}
        names = self.words.answers.names
        options = best_options(chances[0], lambda ids: [names[number] for number in ids], most=scope.alternatives)
        said = inspected.Answer("answer", question, None, options)
        kept = tuple(axis for axis in axes if axis.name in used)
        return replace(record, model="memory network", axes=kept, answers=(said,))

    def _read(self, facts: Sequence[str], question: str) -> Read:
        first = max(0, len(facts) - self.words.memory)
        return Read([self._ids(fact) for fact in facts[first:]], self._ids(question), first)

    def _ids(self, sentence: str) -> list[int]:
        ids = self.words.ids(sentence)
        if ids is None:
            raise DataError(
                f"{sentence[:40]!r}...: more than {self.words.longest} words (data.max_length); cut the sentence"
            )
        return ids

    def _story(self, rows: Sequence[Read]) -> Story:
        sizes = padded([[len(fact) for fact in row.facts] for row in rows])
        words = padded([[number + 1 for fact in row.facts for number in fact] for row in rows])
        return move(story_of(sizes, words, padded([[i + 1 for i in row.question] for row in rows])), self.device)

    def _chances(self, story: Story) -> Float[Tensor, "B answers"]:
        logits: Tensor = self.model(story)
        return logits.float().softmax(-1)

    def _answers(self, rows: list[Read]) -> Iterator[StoryAnswer]:
        with watch(self.model) as watched:
            chances = self._chances(self._story(rows))
        weights = torch.cat([each.flatten(1, -2) for calls in watched.values() for each in calls], 1).float().cpu()
        best = chances.topk(min(5, chances.size(1)))
        for row, looks, values, numbers in zip(rows, weights, best.values.tolist(), best.indices.tolist(), strict=True):
            named = [(self.words.answers.names[number], value) for number, value in zip(numbers, values, strict=True)]
            seen = looks[:, : len(row.facts)].numpy()
            looked = tuple(int(place) + row.first for place in seen.argmax(1)) if row.facts else ()
            yield StoryAnswer(*named[0], tuple(named[1:]), looked, seen)


def _checked(place: int, question: Any) -> Question:
    """Return a question with the sentences of its story; `DataError` names the place of what is none."""
    name = f"questions[{place}]"
    if isinstance(question, str) or not isinstance(question, Sequence) or len(question) != 2:
        raise DataError(f"{name}: {shown(question)} is not a question about a story; give sentences, and a question")
    facts, asked = question
    require_text(asked, name=f"{name}[1]")
    return sentences(facts) if isinstance(facts, str) else text_list(facts, name=f"{name}[0]"), asked


@final
@dataclass(frozen=True)
class StoryLines(Lines[Question, tuple[Question, StoryAnswer]]):
    """Questions and answers with the facts that were looked at, a line each.

    Attributes:
        reader: answers.
        explained: whether the fact that each hop looks at most is told as well, on a line of its own.
    """

    reader: StoryReader
    explained: bool = False

    def inputs(self, lines: Iterable[str], *, name: str) -> Iterator[Question]:
        """JSON objects with `facts` and `question`."""
        for number, line in enumerate(lines, 1):
            if line.strip():
                record = Record.read(line, place=f"{name}:{number}")
                yield record.texts("facts"), record.text("question")

    def answers(self, inputs: Sequence[Question], *, first: int) -> list[tuple[Question, StoryAnswer]]:
        """Each with its question."""
        return list(zip(inputs, self.reader.answer(inputs), strict=True))

    def record(self, answer: tuple[Question, StoryAnswer]) -> Any:
        """With probabilities, and the weights of all facts."""
        (_, question), said = answer
        return {"question": question, **asdict(said), "weights": said.weights.astype(float).round(4).tolist()}

    def text(self, answer: tuple[Question, StoryAnswer]) -> str:
        """An answer, and perhaps facts."""
        (facts, _), said = answer
        lines = [f"{cell(said.answer)}\t{said.probability:.3f}" if self.explained else cell(said.answer)]
        if self.explained:
            start = len(facts) - said.weights.shape[1]
            lines += [
                f"  hop {hop}  {weights[place - start]:.2f}  {place + 1}  {cell(facts[place])}"
                for hop, (place, weights) in enumerate(zip(said.looked, said.weights, strict=True), 1)
            ]
        return "".join(f"{line}\n" for line in lines)
