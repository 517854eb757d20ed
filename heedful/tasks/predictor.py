"""The base class of predictors, batched inference, lines and records of answers, and predictors of several tasks."""

from __future__ import annotations

import json
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from itertools import islice
from typing import Any, ClassVar, Final, Generic, TypeVar, final

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from torch import Tensor, nn

from heedful.data.batches import batch_by_length
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizers import Tokenizer
from heedful.deprecation import keep_old_names
from heedful.errors import RecipeError, RunError
from heedful.inspection.record import InspectionRecord
from heedful.tasks.batch_executor import BatchJob, SearchCall, TokenCallback, current_executor, run_streaming
from heedful.tasks.inspection_records import InspectionSelection

Example = TypeVar("Example")
Output = TypeVar("Output")
Input = TypeVar("Input")
Answer = TypeVar("Answer")

READ_IN_PARTS: Final = "longer than the model reads, read in parts"
"""Note on a text that was split into parts (see `LineFormat.input_notes`)."""
_CACHED_NUMBERS, _MIN_CPU_TOKENS, _MAX_CPU_TOKENS, _GPU_TOKENS = 2**18, 256, 4096, 16384
"""Tokens times width that fit into a CPU cache; then the minimum and maximum of `default_batch_tokens` on a CPU, and
its value on other devices."""
READ_TRUNCATED: Final = "longer than the model reads, the end not read"
"""Note on a text whose end was not read."""


@final
@dataclass(frozen=True)
class BatchMethod(Generic[Example, Output]):
    """A method with bound arguments that answers a batch; equal objects may answer the requests of several callers in
    one batch.

    Attributes:
        method: a predictor's method that takes the batch.
        args: its further arguments.
    """

    method: Callable[..., Iterable[Output]]
    args: tuple[Any, ...] = ()

    def __call__(self, batch: list[Example]) -> Iterable[Output]:
        """Return the method's answer to each example."""
        return self.method(batch, *self.args)


def run_batched(
    examples: Sequence[Example],
    answer_batch: Callable[[list[Example]], Iterable[Output]],
    *,
    size: Callable[[Example], int],
    batch_tokens: int,
    max_rows: int | None = None,
    on_answered: Callable[[Sequence[int]], None] = lambda _: None,
    on_tokens: TokenCallback | None = None,
) -> list[Output]:
    """Answer examples in batches of similar length, longest first, and return the answers in the order of the examples.
    `size` counts the ids of an example, and a batch has at most `batch_tokens` padded ids.

    An answer depends on its own example only. If the thread has a `BatchExecutor`, examples of several callers whose
    `answer_batch` is equal may share a batch.

    Args:
        examples: encoded examples.
        answer_batch: answers one batch, in its order and in inference mode: a method, a `BatchMethod` or a
            `SearchCall`, because functions that are created for each call are equal to no other.
        size: returns the number of ids of an example.
        batch_tokens: padded ids in a batch.
        max_rows: examples in a batch at most; `batch_tokens` by default.
        on_answered: called with the indices of answered examples.
        on_tokens: called with the tokens of texts that are being generated, if `answer_batch` is a `SearchCall`.
    """
    sizes = [size(example) for example in examples]
    if (executor := current_executor()) is not None:
        answers: list[Output] = executor.run_job(
            BatchJob(examples, answer_batch, sizes, batch_tokens, max_rows or batch_tokens, on_tokens)
        )
        on_answered(range(len(examples)))
        return answers
    lengths = np.array(sizes, dtype=np.int64)
    results: dict[int, Output] = {}
    with torch.inference_mode():
        for batch in batch_by_length(lengths, max_tokens=batch_tokens, max_rows=max_rows or batch_tokens):
            indices = batch.tolist()
            batch_examples = [examples[index] for index in indices]
            if isinstance(answer_batch, SearchCall) and on_tokens is not None:
                batch_answers: Iterable[Output] = run_streaming(
                    answer_batch, batch_examples, on_tokens, numbers=indices
                )
            else:
                batch_answers = answer_batch(batch_examples)
            results.update(zip(indices, batch_answers, strict=True))
            on_answered(indices)
    return [results[index] for index in range(len(examples))]


def default_batch_tokens(model: nn.Module) -> int:
    """Return the default number of padded tokens in a batch for a model and its device.

    On a CPU, per thread, few enough that a layer's outputs stay in its cache: a third faster than 4,096 at a width of
    384 (docs/performance.md).
    """
    layers = (layer for layer in model.modules() if isinstance(layer, nn.Linear))
    width = max((min(layer.in_features, layer.out_features) for layer in layers), default=1)
    if next(model.parameters()).device.type != "cpu":
        return _GPU_TOKENS
    return min(max(_CACHED_NUMBERS // width, _MIN_CPU_TOKENS), _MAX_CPU_TOKENS) * torch.get_num_threads()


def iter_chunks(items: Iterable[Input], size: int) -> Iterator[list[Input]]:
    """Split a stream into lists of `size` items; the last may be shorter."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


@final
@dataclass(frozen=True)
class UnreadableInput:
    """Placeholder for the answer to an input that the model cannot read; `message` says which, why, and what to do."""

    message: str


def answer_readable(
    inputs: Sequence[Input],
    errors: Mapping[int, UnreadableInput],
    answer_inputs: Callable[[list[Input]], Iterable[Answer]],
) -> list[Answer | UnreadableInput]:
    """Answer the inputs whose index is not in `errors`, and insert the given errors at the positions of the others."""
    results = iter(answer_inputs([item for index, item in enumerate(inputs) if index not in errors]))
    return [errors[index] if index in errors else next(results) for index in range(len(inputs))]


class LineFormat(ABC, Generic[Input, Answer]):
    """Text-line format of a predictor's inputs and answers, used by commands and the server.

    Attributes:
        chunk_size: number of inputs answered at a time, so that a stream of any length can be answered.
    """

    chunk_size: ClassVar[int] = 4096

    @abstractmethod
    def parse_lines(self, lines: Iterable[str], *, source_name: str) -> Iterator[Input]:
        """Parse lines into inputs.

        Args:
            lines: the lines.
            source_name: where they come from, for error messages.

        Raises:
            DataError: a line contains nothing that can be answered.
        """

    @abstractmethod
    def answer_inputs(self, inputs: Sequence[Input], *, start: int) -> Iterable[Answer | UnreadableInput]:
        """Answer inputs; the first one has the number `start`, counted from 1."""

    def to_record(self, answer: Answer) -> Any:
        """Return the record of an answer (see `dump_record`), a pydantic model or a dataclass; by default the answer is
        its own record.
        """
        return answer

    def to_json(self, answer: Answer) -> Any:
        """Return the record of an answer as JSON data."""
        return dump_record(self.to_record(answer))

    def format_answer(self, answer: Answer) -> str:
        """Format an answer as complete text lines; JSON by default."""
        return json.dumps(self.to_json(answer), ensure_ascii=False) + "\n"

    def input_notes(self, answer: Answer) -> Iterator[str]:
        """Return notes on how the input was read if not in full; commands count them.

        By default `READ_TRUNCATED` if the answer has an attribute `cut`, the number of tokens that were not read, above
        0.
        """
        return iter([READ_TRUNCATED] if getattr(answer, "cut", 0) else [])


class TextLineFormat(LineFormat[str, Answer]):
    """Line format with one text per line.

    Abstract: subclasses define the answers.
    """

    @final
    def parse_lines(self, lines: Iterable[str], *, source_name: str) -> Iterator[str]:
        """Return the lines unchanged; `source_name` is not used."""
        return iter(lines)


def escape_cell(text: str) -> str:
    r"""Text that adds no column and no line to a table: tab, line feed and carriage return are `\t`, `\n` and `\r`."""
    return text.replace("\t", r"\t").replace("\n", r"\n").replace("\r", r"\r")


def _ignore_message(_: str) -> None:
    """Discard a message; unlike a lambda, this function can be pickled."""


@final
@dataclass(frozen=True)
class InspectRequest:
    """A request to inspect a model on one text, with the options of the command line.

    Attributes:
        source: the text.
        target: the second text, such as a given translation.
        beam: width of the beam.
        max_tokens: tokens to generate at most.
        selection: layers, heads and details to record.
        log: called with a message if not all of the text is inspected.
    """

    source: str
    target: str | None = None
    beam: int | None = None
    max_tokens: int | None = None
    selection: InspectionSelection = field(default_factory=InspectionSelection)
    log: Callable[[str], None] = _ignore_message

    def require_no_generation(self) -> InspectRequest:
        """Return the request itself; raise `RecipeError` if it sets the beam or the number of tokens, because this
        model does not generate text.
        """
        for name, value in (("--beam", self.beam), ("--tokens", self.max_tokens)):
            if value is not None:
                raise RecipeError(f"{name}: this model does not write text; leave it out")
        return self

    def require_single_text(self, owner: str) -> str:
        """Return the only text of the request; raise `RecipeError` if there are two, with `owner` as the model whose
        text is asked for ("a detector's").
        """
        if self.target is not None:
            raise RecipeError(f"--pair: is an option of other models; give {owner} text with --text alone")
        return self.source


def _describe_parts(values: Iterable[object]) -> Iterator[str]:
    """Describe each model and vocabulary among a predictor's attributes once, also inside tuples and dataclasses."""
    described: list[object] = []
    pending = list(values)
    while pending:
        value = pending.pop(0)
        if any(value is field for field in described):
            continue
        described.append(value)
        if isinstance(value, nn.Module):
            yield _describe_model(value)
        elif isinstance(value, Tokenizer | LabelVocabulary):
            yield repr(value)
        elif isinstance(value, tuple | list):
            pending[:0] = value
        elif is_dataclass(value) and not isinstance(value, type | Predictor):
            pending += [getattr(value, field.name) for field in fields(value)]


def _describe_model(model: nn.Module) -> str:
    """Describe a model by its class, parameter count and device."""
    parameters = list(model.parameters())
    devices = ", ".join(dict.fromkeys(str(parameter.device) for parameter in parameters)) or "no device"
    return f"{type(model).__name__} of {sum(map(Tensor.numel, parameters)):,} parameters on {devices}"


@keep_old_names(lines="line_format", look="inspect_request")
class Predictor(ABC):
    """Base class of the objects through which users call a trained model.

    Attributes:
        command: the command of heedful for such a model.
    """

    command: ClassVar[str] = "predict"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(_describe_parts(vars(self).values()))})"

    @abstractmethod
    def line_format(self) -> LineFormat[Any, Any]:
        """Return the default line format of inputs and answers."""

    @abstractmethod
    def inspect_request(self, request: InspectRequest) -> InspectionRecord:
        """Record everything the model attends to while it processes the request's text.

        Raises:
            DataError: the text cannot be read.
            RecipeError: the model does not support the requested options.
        """


PredictorType = TypeVar("PredictorType")


@keep_old_names(only="find_head")
class MultiHeadPredictor:
    """Predictors of several tasks that share an encoder, by task name.

    Args:
        predictors: predictor of each task.
        location: folder of the model, for messages.
    """

    def __init__(self, predictors: Mapping[str, Any], *, location: str) -> None:
        self._predictors = dict(predictors)
        self._location = location

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}: {predictor!r}" for name, predictor in self._predictors.items())
        return f"MultiHeadPredictor({parts})"

    @property
    def names(self) -> tuple[str, ...]:
        """Task names, in the recipe's order."""
        return tuple(self._predictors)

    def head(self, name: str) -> Any:
        """Return the predictor of one task; raise `RunError` if there is no such task."""
        if name not in self._predictors:
            raise RunError(f"{self._location}: has no task {name!r}; choose one of {', '.join(self.names)}")
        return self._predictors[name]

    def find_head(
        self, predictor_class: type[PredictorType], *, purpose: str, name: str | None = None
    ) -> PredictorType:
        """Return the only predictor of a class, or that of the task `name`; `purpose` says in error messages what it
        does.

        Args:
            predictor_class: a class or protocol.
            purpose: what it does, for messages.
            name: name of its task; not needed if only one predictor is of that class.

        Raises:
            RunError: there is no such predictor, or there are several and no task is named.
        """
        matches = {
            task_name: predictor
            for task_name, predictor in self._predictors.items()
            if isinstance(predictor, predictor_class)
        }
        named = ", ".join(matches)
        if name is not None:
            self.head(name)
        if not matches:
            raise RunError(f"{self._location}: none of its tasks {purpose} ({', '.join(self.names)}); name another run")
        if name is None and len(matches) > 1:
            raise RunError(f"{self._location}: more than one of its tasks {purpose}; choose one of {named} with --task")
        if name is not None and name not in matches:
            raise RunError(f"{self._location}: {name} is not a task that {purpose}; choose one of {named}")
        return matches[name] if name is not None else next(iter(matches.values()))


OMIT_EMPTY: Final[Any] = Field(exclude_if=operator.not_)
"""Annotation of a field that is absent if its value is empty, zero or None."""


class AnswerRecord(BaseModel):
    """Base of records that are not the answer of a predictor itself.

    Unknown fields are allowed, since records may gain fields. Abstract.
    """

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)


class CandidateRecord(AnswerRecord):
    """One of the texts that a search found."""

    text: str
    score: float
    """score by which the search ranked the text"""
    log_probability: float
    tokens: list[str]
    finished: bool
    """whether the text ended by itself"""


def dump_record(record: Any) -> Any:
    """Return a record (a pydantic model or a dataclass), or a list of records of one class, as JSON data.

    Fields of a model that were not set are absent, and so are empty ones that are marked with `OMIT_EMPTY`.
    """
    if record == []:
        return []
    record_class: Any = type(record)
    if record_class is list:
        record_class = list[type(record[0])]  # type: ignore[misc]
    return _build_adapter(record_class).dump_python(record, mode="json", by_alias=True, exclude_unset=True)


@cache
def _build_adapter(record_class: Any) -> TypeAdapter[Any]:
    return TypeAdapter(record_class)
