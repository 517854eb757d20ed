"""The story predictor: a story and questions in, answers and attended facts out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Annotated, Any, Final, final

import numpy as np
import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from heedful.argument_checks import format_value, require_text, to_text_list
from heedful.data.batches import pad_rows
from heedful.data.readers import JsonRecord
from heedful.deprecation import keep_old_names
from heedful.errors import DataError, RecipeError
from heedful.inspection import record as inspected
from heedful.inspection.capture import watch_attention
from heedful.models.memory_network import FACTS_AXIS, QUESTION_AXIS, STEPS_AXIS, MemoryNetwork, StoryInputs
from heedful.tasks.inspection_records import InspectionSelection, record_attention, top_options
from heedful.tasks.predictor import AnswerRecord, InspectRequest, LineFormat, Predictor, escape_cell, run_batched
from heedful.tasks.stories.data import StoryEncoder, build_story
from heedful.tensors import move_to_device

StoryInput = tuple[Sequence[str], str]
"""The sentences of a story, and a question about it."""

_LINE_NUMBER_PATTERN: Final = re.compile(r"(\d+)[.:)]?\s+")
_SENTENCE_END_PATTERN: Final = re.compile(r"(?<=[.!?])\s+")
_FULL_SELECTION: Final = InspectionSelection()


def split_sentences(text: str) -> list[str]:
    """Split the text of a story into sentences: one per line, or at `.`, `!` and `?` if it is one line.

    Line numbers from 1 are removed; lines of white space are skipped.
    """
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if len(lines) == 1:
        return _SENTENCE_END_PATTERN.split(lines[0])
    numbers = [_LINE_NUMBER_PATTERN.match(line) for line in lines]
    if all(match is not None and int(match[1]) == number for number, match in enumerate(numbers, 1)):
        return [line[match.end() :] for line, match in zip(lines, numbers, strict=True) if match is not None]
    return lines


@dataclass(frozen=True)
class EncodedQuestion:
    """A story and a question as ids; `first_fact` is the index of the first fact that is read."""

    facts: list[list[int]]
    question: list[int]
    first_fact: int

    @property
    def size(self) -> int:
        """Number of ids in the facts, without padding."""
        return max(1, sum(map(len, self.facts)))


@final
@dataclass(frozen=True)
class StoryAnswer:
    """The answer to a question about a story.

    Attributes:
        answer: the most probable answer.
        probability: of it, among all answers.
        others: the next answers and their probabilities.
        looked: index of the fact with the largest weight for each hop, from 0; empty if there is no fact.
        weights: attention of each hop to each fact that is read; these are the last facts of the story.
    """

    answer: str
    probability: float
    others: tuple[tuple[str, float], ...]
    looked: tuple[int, ...]
    weights: Float[np.ndarray, "hops S"]


class StoryAnswerRecord(AnswerRecord):
    """The answer to a question about a story, as `heedful ask --format jsonl` writes it."""

    question: str
    answer: str
    probability: float
    others: list[Annotated[list[str | float], Field(min_length=2, max_length=2)]]
    looked: list[int]
    """the fact that each hop looks at most, from 0"""
    weights: list[list[float]]
    """of each hop on the last facts of the story"""


@keep_old_names(words="encoder", unknown="find_unknown_words")
@final
class StoryPredictor(Predictor):
    """A memory network with its word encoder; answers questions about stories."""

    command = "ask"

    def __init__(self, model: MemoryNetwork, encoder: StoryEncoder) -> None:
        self.model = model
        self.encoder = encoder
        self.device = model.sentences.weight.device

    def ask(self, story: str | Sequence[str], question: str) -> StoryAnswer:
        """Answer one question about a story, given as a text or as its sentences.

        Raises:
            DataError: a sentence has more words than the model allows.
        """
        require_text(question, name="question")
        return self.answer([(split_sentences(story) if isinstance(story, str) else story, question)])[0]

    def answer(self, questions: Sequence[StoryInput], *, batch_tokens: int = 16384) -> list[StoryAnswer]:
        """Answer questions, given as pairs of a story's sentences and a question; raise `DataError` as `ask` does.

        Args:
            questions: pairs of sentences and a question about them.
            batch_tokens: words of facts per batch.
        """
        rows = [self._encode_question(facts, question) for facts, question in map(_check_question, count(), questions)]
        return run_batched(rows, self._answer_batch, size=lambda row: row.size, batch_tokens=batch_tokens)

    def find_unknown_words(self, sentences: Iterable[str]) -> tuple[str, ...]:
        """Return the distinct words that do not occur in the training text; the model ignores them."""
        return tuple(
            dict.fromkeys(word for sentence in sentences for word in self.encoder.find_unknown_words(sentence))
        )

    def line_format(self) -> StoryLineFormat:
        """Return the line format that reads a JSON object with `facts` and `question` per line."""
        return StoryLineFormat(self)

    def inspect_request(self, request: InspectRequest) -> inspected.InspectionRecord:
        """Inspect the request: its text is the question, its second text the story."""
        if request.require_no_generation().target is None:
            raise RecipeError("--pair: the question of --text is about a story; give it, sentence by sentence")
        return self.inspect(request.target or "", request.source, scope=request.selection)

    def inspect(
        self,
        story: str | Sequence[str],
        question: str,
        *,
        supporting: Sequence[int] = (),
        scope: InspectionSelection = _FULL_SELECTION,
    ) -> inspected.InspectionRecord:
        """Record the attention of each hop to the facts of a story, given as a text or its sentences. `supporting`
        marks the facts known to answer the question, and `scope` says what to record.

        Raises:
            DataError: there is no fact, or `supporting` names one that does not exist.
        """
        require_text(question, name="question")
        facts = split_sentences(story) if isinstance(story, str) else list(story)
        row = self._encode_question(facts, question)
        if not row.facts:
            raise DataError("the story has no sentence, so there is nothing to show; give one")
        if invalid := [number for number in supporting if not 0 <= number < len(facts)]:
            raise DataError(f"fact {invalid[0]} does not exist; the story has {len(facts)} facts, counted from 0")
        axes = (
            inspected.MapAxis(QUESTION_AXIS, (question,)),
            inspected.MapAxis(STEPS_AXIS, tuple(f"hop {hop}" for hop in range(1, self.model.hops + 1))),
            inspected.MapAxis(
                FACTS_AXIS,
                tuple(facts[row.first_fact :]),
                marked=tuple(number - row.first_fact for number in sorted(set(supporting)) if number >= row.first_fact),
            ),
        )
        encoded_story = self._build_story([row])
        record, probabilities = record_attention(
            self.model, lambda: self._compute_probabilities(encoded_story), selection=scope, axes=axes, title=question
        )
        used_names = {name for attention_map in record.maps for name in (attention_map.queries, attention_map.keys)}
        names = self.encoder.answers.names
        options = top_options(
            probabilities[0], lambda ids: [names[number] for number in ids], max_options=scope.alternatives
        )
        best_answer = inspected.ModelAnswer("answer", question, None, options)
        used_axes = tuple(axis for axis in axes if axis.name in used_names)
        return replace(record, model="memory network", axes=used_axes, answers=(best_answer,))

    def _encode_question(self, facts: Sequence[str], question: str) -> EncodedQuestion:
        """Encode a question and the newest facts that the model can read."""
        first = max(0, len(facts) - self.encoder.max_facts)
        return EncodedQuestion(
            [self._encode_sentence(fact) for fact in facts[first:]], self._encode_sentence(question), first
        )

    def _encode_sentence(self, sentence: str) -> list[int]:
        """Encode a sentence; raise `DataError` if it has too many words."""
        ids = self.encoder.encode_sentence(sentence)
        if ids is None:
            raise DataError(
                f"{sentence[:40]!r}...: more than {self.encoder.max_words} words (data.max_length); cut the sentence"
            )
        return ids

    def _build_story(self, rows: Sequence[EncodedQuestion]) -> StoryInputs:
        """Build the batch of encoded stories and questions on the model's device."""
        sizes = pad_rows([[len(fact) for fact in row.facts] for row in rows])
        words = pad_rows([[number + 1 for fact in row.facts for number in fact] for row in rows])
        return move_to_device(
            build_story(sizes, words, pad_rows([[i + 1 for i in row.question] for row in rows])), self.device
        )

    def _compute_probabilities(self, story: StoryInputs) -> Float[Tensor, "B answers"]:
        logits: Tensor = self.model(story)
        return logits.float().softmax(-1)

    def _answer_batch(self, rows: list[EncodedQuestion]) -> Iterator[StoryAnswer]:
        """Yield the answer to each encoded question, with the next best ones, and the facts and weights of each hop."""
        with watch_attention(self.model) as weights_by_path:
            probabilities = self._compute_probabilities(self._build_story(rows))
        weights = (
            torch.cat([call_weights.flatten(1, -2) for calls in weights_by_path.values() for call_weights in calls], 1)
            .float()
            .cpu()
        )
        best = probabilities.topk(min(5, probabilities.size(1)))
        for row, row_weights, values, numbers in zip(
            rows, weights, best.values.tolist(), best.indices.tolist(), strict=True
        ):
            ranked = [
                (self.encoder.answers.names[number], value) for number, value in zip(numbers, values, strict=True)
            ]
            fact_weights = row_weights[:, : len(row.facts)].numpy()
            looked = tuple(int(index) + row.first_fact for index in fact_weights.argmax(1)) if row.facts else ()
            yield StoryAnswer(*ranked[0], tuple(ranked[1:]), looked, fact_weights)


def _check_question(index: int, question: Any) -> StoryInput:
    """Return a question as a pair of its story's sentences and its text; raise `DataError`, which names the index, if
    it is no such pair.
    """
    name = f"questions[{index}]"
    if isinstance(question, str) or not isinstance(question, Sequence) or len(question) != 2:
        raise DataError(
            f"{name}: {format_value(question)} is not a question about a story; give sentences, and a question"
        )
    facts, text = question
    require_text(text, name=f"{name}[1]")
    return split_sentences(facts) if isinstance(facts, str) else to_text_list(facts, name=f"{name}[0]"), text


@final
@dataclass(frozen=True)
class StoryLineFormat(LineFormat[StoryInput, tuple[StoryInput, StoryAnswer]]):
    """Reads a story and a question per line; writes the answer, and optionally the attended facts.

    Attributes:
        predictor: answers the questions.
        show_facts: whether the fact with the largest weight of each hop is written too, on a line of its own.
    """

    predictor: StoryPredictor
    show_facts: bool = False

    def parse_lines(self, lines: Iterable[str], *, source_name: str) -> Iterator[StoryInput]:
        """Parse each line that is not empty as a JSON object with `facts` and `question`; `source_name` is the file
        that error messages name.
        """
        for number, line in enumerate(lines, 1):
            if line.strip():
                record = JsonRecord.from_line(line, location=f"{source_name}:{number}")
                yield record.get_texts("facts"), record.get_text("question")

    def answer_inputs(self, inputs: Sequence[StoryInput], *, start: int) -> list[tuple[StoryInput, StoryAnswer]]:
        """Return each question with its answer; `start` is not used."""
        return list(zip(inputs, self.predictor.answer(inputs), strict=True))

    def to_record(self, answer: tuple[StoryInput, StoryAnswer]) -> StoryAnswerRecord:
        """Return the record of an answer, with probabilities and the weights of all facts."""
        (_, question), prediction = answer
        weights = prediction.weights.astype(float).round(4).tolist()
        return StoryAnswerRecord(question=question, **{**vars(prediction), "weights": weights})

    def format_answer(self, answer: tuple[StoryInput, StoryAnswer]) -> str:
        """Format the answer as a line, and with `show_facts` also a line for each hop with the attended fact."""
        (facts, _), prediction = answer
        lines = [
            f"{escape_cell(prediction.answer)}\t{prediction.probability:.3f}"
            if self.show_facts
            else escape_cell(prediction.answer)
        ]
        if self.show_facts:
            start = len(facts) - prediction.weights.shape[1]
            lines += [
                f"  hop {hop}  {weights[index - start]:.2f}  {index + 1}  {escape_cell(facts[index])}"
                for hop, (index, weights) in enumerate(zip(prediction.looked, prediction.weights, strict=True), 1)
            ]
        return "".join(f"{line}\n" for line in lines)
