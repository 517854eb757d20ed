"""What the faces of all tasks share: one batched loop, how lines are read and written, how one text is looked at."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import islice
from typing import Any, ClassVar, Final, Generic, TypeVar, final

import numpy as np
import torch
from torch import Tensor, nn

from heedful.data.bucketing import batch_by_length
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizers import Tokenizer
from heedful.deprecation import keep_old_names
from heedful.errors import RecipeError
from heedful.inspection.record import InspectionRecord
from heedful.tasks.batch_executor import BatchJob, SearchCall, TokenCallback, current_executor, run_streaming
from heedful.tasks.inspection_records import InspectionSelection

Example = TypeVar("Example")
Output = TypeVar("Output")
Input = TypeVar("Input")
Answer = TypeVar("Answer")

READ_IN_PARTS: Final = "longer than the model reads, read in parts"
"""What is told of a text (`LineFormat.input_notes`)."""
_CACHED_NUMBERS, _MIN_CPU_TOKENS, _MAX_CPU_TOKENS, _GPU_TOKENS = 2**18, 256, 4096, 16384
"""Tokens times width that stay in a processor's cache, and the bounds of what `default_batch_tokens` gives."""
READ_TRUNCATED: Final = "longer than the model reads, the end not read"
"""Likewise."""


@final
@dataclass(frozen=True)
class BatchMethod(Generic[Example, Output]):
    """Answers a batch by a method, as every one does that is equal to it: what their callers ask is answered together.

    Attributes:
        method: of a face, given the batch.
        args: what else it is given.
    """

    method: Callable[..., Iterable[Output]]
    args: tuple[Any, ...] = ()

    def __call__(self, batch: list[Example]) -> Iterable[Output]:
        """What the method says of each."""
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
    """What a model says of each example, in their order; long ones go first, as many at a time as fit.

    An example holds all that its answer depends on, so that those of several callers may stand beside each other, and
    do, where the thread has `BatchExecutor`: those of callers whose `answer_batch` is equal.

    Args:
        examples: encoded.
        answer_batch: answers one batch, in its order and in inference mode: a method, a `BatchMethod` or a `SearchCall`, since functions
            that are made for each call are equal to no other.
        size: ids of an example.
        batch_tokens: ids that are read at one time, with padding.
        max_rows: examples that are, at most; `batch_tokens` unless given.
        on_answered: told the numbers of examples that have been answered, at least before the end.
        on_tokens: told how texts grow, where `answer_batch` is a `SearchCall`.
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
    """Tokens with padding that a model reads at one time unless told otherwise.

    On a processor so few, for each thread, that what a layer makes of them stays in its cache: a third faster than
    4,096 at a width of 384 (docs/performance.md).
    """
    layers = (layer for layer in model.modules() if isinstance(layer, nn.Linear))
    width = max((min(layer.in_features, layer.out_features) for layer in layers), default=1)
    if next(model.parameters()).device.type != "cpu":
        return _GPU_TOKENS
    return min(max(_CACHED_NUMBERS // width, _MIN_CPU_TOKENS), _MAX_CPU_TOKENS) * torch.get_num_threads()


def iter_chunks(items: Iterable[Input], size: int) -> Iterator[list[Input]]:
    """Lists of `size` items, the last may be shorter, so that a stream of any length can be answered."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


@final
@dataclass(frozen=True)
class UnreadableInput:
    """Stands for the answer to an input that the model cannot read; `message` says which, why, and what to do."""

    message: str


def answer_readable(
    inputs: Sequence[Input],
    errors: Mapping[int, UnreadableInput],
    answer_inputs: Callable[[list[Input]], Iterable[Answer]],
) -> list[Answer | UnreadableInput]:
    """The answers to inputs, in their order, where some cannot be read: `errors` by their places, from 0."""
    results = iter(answer_inputs([item for index, item in enumerate(inputs) if index not in errors]))
    return [errors[index] if index in errors else next(results) for index in range(len(inputs))]


class LineFormat(ABC, Generic[Input, Answer]):
    """How what a face reads and answers stands in lines: all that a command, or a server, needs to know to serve it.

    Attributes:
        chunk_size: inputs that are answered together; a stream of any length is answered in such pieces.
    """

    chunk_size: ClassVar[int] = 4096

    @abstractmethod
    def parse_lines(self, lines: Iterable[str], *, source_name: str) -> Iterator[Input]:
        """What lines say; `source_name` tells in messages where they are from.

        Raises:
            DataError: a line says nothing that can be answered.
        """

    @abstractmethod
    def answer_inputs(self, inputs: Sequence[Input], *, start: int) -> Iterable[Answer | UnreadableInput]:
        """What the model says of inputs, of which the first has the number `start`, from 1."""

    @abstractmethod
    def to_json(self, answer: Answer) -> Any:
        """An answer as JSON has it."""

    def format_answer(self, answer: Answer) -> str:
        """An answer as people read it, in complete lines; JSON, unless a face knows better."""
        return json.dumps(self.to_json(answer), ensure_ascii=False) + "\n"

    def input_notes(self, answer: Answer) -> Iterator[str]:
        """How the input was read otherwise than given, as `READ_TRUNCATED`; a command counts such inputs. No input, by default."""
        return iter(())


class TextLineFormat(LineFormat[str, Answer]):
    """A text a line.

    Abstract: answers belong to the task.
    """

    @final
    def parse_lines(self, lines: Iterable[str], *, source_name: str) -> Iterator[str]:
        """As they are."""
        return iter(lines)


def escape_cell(text: str) -> str:
    r"""Text that adds no column and no line to a table: tab, line feed and carriage return are `\t`, `\n` and `\r`."""
    return text.replace("\t", r"\t").replace("\n", r"\n").replace("\r", r"\r")


@final
@dataclass(frozen=True)
class InspectRequest:
    """What of a model is to be seen, in the words of a command line.

    Attributes:
        source: the text.
        target: the second text, whatever it is to the first.
        beam: width of the search.
        max_tokens: that are written at most.
        selection: layers, heads and details.
        log: told where not all of the text is looked at.
    """

    source: str
    target: str | None = None
    beam: int | None = None
    max_tokens: int | None = None
    selection: InspectionSelection = field(default_factory=InspectionSelection)
    log: Callable[[str], None] = lambda _: None

    def require_no_generation(self) -> InspectRequest:
        """The same of a model that only reads; `RecipeError` where it is told how to write."""
        for name, value in (("--beam", self.beam), ("--tokens", self.max_tokens)):
            if value is not None:
                raise RecipeError(f"{name}: this model writes nothing; leave it out")
        return self

    def require_single_text(self, owner: str) -> str:
        """The one text of `owner` model; `RecipeError` where there are two."""
        if self.target is not None:
            raise RecipeError(f"--pair: belongs to other models; {owner} text is all --text")
        return self.source


def _describe_parts(values: Iterable[object]) -> Iterator[str]:
    """Models and vocabularies among what a face is made of, each once, in words."""
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
    parameters = list(model.parameters())
    devices = ", ".join(dict.fromkeys(str(parameter.device) for parameter in parameters)) or "no device"
    return f"{type(model).__name__} of {sum(map(Tensor.numel, parameters)):,} parameters on {devices}"


@keep_old_names(lines="line_format", look="inspect_request")
class Predictor(ABC):
    """A trained model as its users see it."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(_describe_parts(vars(self).values()))})"

    @abstractmethod
    def line_format(self) -> LineFormat[Any, Any]:
        """How its lines are read and written, unless a command wishes otherwise."""

    @abstractmethod
    def inspect_request(self, request: InspectRequest) -> InspectionRecord:
        """Everything it attends to while it reads, or reads and writes, one text.

        Raises:
            DataError: the text cannot be read.
            RecipeError: it cannot be looked at so.
        """
