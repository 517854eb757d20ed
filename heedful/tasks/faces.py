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

from heedful.data.bucketing import plan_by_length
from heedful.data.labels import Labels
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RecipeError
from heedful.inspection.record import Record
from heedful.tasks.finding import Finder, Heard, Questions, company, overheard
from heedful.tasks.inspecting import Scope

Example = TypeVar("Example")
Said = TypeVar("Said")
Input = TypeVar("Input")
Answer = TypeVar("Answer")

IN_PARTS: Final = "longer than the model reads, read in parts"
"""What is told of a text (`Lines.notes`)."""
_CACHED, _LEAST, _MOST, _MOST_ELSEWHERE = 2**18, 256, 4096, 16384
"""Tokens times width that stay in a processor's cache, and the bounds of what `at_once` gives."""
CUT: Final = "longer than the model reads, the end not read"
"""Likewise."""


@final
@dataclass(frozen=True)
class Saying(Generic[Example, Said]):
    """Answers a batch by a method, as every one does that is equal to it: what their callers ask is answered together.

    Attributes:
        method: of a face, given the batch.
        given: what else it is given.
    """

    method: Callable[..., Iterable[Said]]
    given: tuple[Any, ...] = ()

    def __call__(self, batch: list[Example]) -> Iterable[Said]:
        """What the method says of each."""
        return self.method(batch, *self.given)


def in_batches(
    examples: Sequence[Example],
    say: Callable[[list[Example]], Iterable[Said]],
    *,
    size: Callable[[Example], int],
    tokens: int,
    rows: int | None = None,
    told: Callable[[Sequence[int]], None] = lambda _: None,
    heard: Heard | None = None,
) -> list[Said]:
    """What a model says of each example, in their order; long ones go first, as many at a time as fit.

    An example holds all that its answer depends on, so that those of several callers may stand beside each other, and
    do, where the thread has `Company`: those of callers whose `say` is equal.

    Args:
        examples: encoded.
        say: answers one batch, in its order and in inference mode: a method, a `Saying` or a `Finder`, since functions
            that are made for each call are equal to no other.
        size: ids of an example.
        tokens: ids that are read at one time, with padding.
        rows: examples that are, at most; `tokens` unless given.
        told: told the numbers of examples that have been answered, at least before the end.
        heard: told how texts grow, where `say` is a `Finder`.
    """
    sizes = [size(example) for example in examples]
    if (others := company()) is not None:
        answers: list[Said] = others.answers(Questions(examples, say, sizes, tokens, rows or tokens, heard))
        told(range(len(examples)))
        return answers
    lengths = np.array(sizes, dtype=np.int64)
    found: dict[int, Said] = {}
    with torch.inference_mode():
        for batch in plan_by_length(lengths, tokens=tokens, rows=rows or tokens):
            places = batch.tolist()
            part = [examples[place] for place in places]
            if isinstance(say, Finder) and heard is not None:
                said: Iterable[Said] = overheard(say, part, heard, numbers=places)
            else:
                said = say(part)
            found.update(zip(places, said, strict=True))
            told(places)
    return [found[place] for place in range(len(examples))]


def at_once(model: nn.Module) -> int:
    """Tokens with padding that a model reads at one time unless told otherwise.

    On a processor so few, for each thread, that what a layer makes of them stays in its cache: a third faster than
    4,096 at a width of 384 (docs/performance.md).
    """
    maps = (each for each in model.modules() if isinstance(each, nn.Linear))
    width = max((min(each.in_features, each.out_features) for each in maps), default=1)
    if next(model.parameters()).device.type != "cpu":
        return _MOST_ELSEWHERE
    return min(max(_CACHED // width, _LEAST), _MOST) * torch.get_num_threads()


def chunked(items: Iterable[Input], size: int) -> Iterator[list[Input]]:
    """Lists of `size` items, the last may be shorter, so that a stream of any length can be answered."""
    waiting = iter(items)
    while chunk := list(islice(waiting, size)):
        yield chunk


@final
@dataclass(frozen=True)
class Unread:
    """Stands for the answer to an input that the model cannot read; `message` says which, why, and what to do."""

    message: str


def despite(
    inputs: Sequence[Input], unread: Mapping[int, Unread], answers: Callable[[list[Input]], Iterable[Answer]]
) -> list[Answer | Unread]:
    """The answers to inputs, in their order, where some cannot be read: `unread` by their places, from 0."""
    found = iter(answers([each for place, each in enumerate(inputs) if place not in unread]))
    return [unread[place] if place in unread else next(found) for place in range(len(inputs))]


class Lines(ABC, Generic[Input, Answer]):
    """How what a face reads and answers stands in lines: all that a command, or a server, needs to know to serve it.

    Attributes:
        chunk: inputs that are answered together; a stream of any length is answered in such pieces.
    """

    chunk: ClassVar[int] = 4096

    @abstractmethod
    def inputs(self, lines: Iterable[str], *, name: str) -> Iterator[Input]:
        """What lines say; `name` tells in messages where they are from.

        Raises:
            DataError: a line says nothing that can be answered.
        """

    @abstractmethod
    def answers(self, inputs: Sequence[Input], *, first: int) -> Iterable[Answer | Unread]:
        """What the model says of inputs, of which the first has the number `first`, from 1."""

    @abstractmethod
    def record(self, answer: Answer) -> Any:
        """An answer as JSON has it."""

    def text(self, answer: Answer) -> str:
        """An answer as people read it, in complete lines; JSON, unless a face knows better."""
        return json.dumps(self.record(answer), ensure_ascii=False) + "\n"

    def notes(self, answer: Answer) -> Iterator[str]:
        """How the input was read otherwise than given, as `CUT`; a command counts such inputs. No input, by default."""
        return iter(())


class TextLines(Lines[str, Answer]):
    """A text a line.

    Abstract: answers belong to the task.
    """

    @final
    def inputs(self, lines: Iterable[str], *, name: str) -> Iterator[str]:
        """As they are."""
        return iter(lines)


def cell(text: str) -> str:
    r"""Text that adds no column and no line to a table: tab, line feed and carriage return are `\t`, `\n` and `\r`."""
    return text.replace("\t", r"\t").replace("\n", r"\n").replace("\r", r"\r")


@final
@dataclass(frozen=True)
class Asked:
    """What of a model is to be seen, in the words of a command line.

    Attributes:
        source: the text.
        target: the second text, whatever it is to the first.
        beam: width of the search.
        tokens: that are written at most.
        scope: layers, heads and details.
        say: told where not all of the text is looked at.
    """

    source: str
    target: str | None = None
    beam: int | None = None
    tokens: int | None = None
    scope: Scope = field(default_factory=Scope)
    say: Callable[[str], None] = lambda _: None

    def to_read(self) -> Asked:
        """The same of a model that only reads; `RecipeError` where it is told how to write."""
        for name, value in (("--beam", self.beam), ("--tokens", self.tokens)):
            if value is not None:
                raise RecipeError(f"{name}: this model writes nothing; leave it out")
        return self

    def alone(self, whose: str) -> str:
        """The one text of `whose` model; `RecipeError` where there are two."""
        if self.target is not None:
            raise RecipeError(f"--pair: belongs to other models; {whose} text is all --text")
        return self.source


def _parts(values: Iterable[object]) -> Iterator[str]:
    """Models and vocabularies among what a face is made of, each once, in words."""
    told: list[object] = []
    waiting = list(values)
    while waiting:
        part = waiting.pop(0)
        if any(part is each for each in told):
            continue
        told.append(part)
        if isinstance(part, nn.Module):
            yield _sized(part)
        elif isinstance(part, Tokenizer | Labels):
            yield repr(part)
        elif isinstance(part, tuple | list):
            waiting[:0] = part
        elif is_dataclass(part) and not isinstance(part, type | Face):
            waiting += [getattr(part, each.name) for each in fields(part)]


def _sized(model: nn.Module) -> str:
    parameters = list(model.parameters())
    places = ", ".join(dict.fromkeys(str(parameter.device) for parameter in parameters)) or "no device"
    return f"{type(model).__name__} of {sum(map(Tensor.numel, parameters)):,} parameters on {places}"


class Face(ABC):
    """A trained model as its users see it."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(_parts(vars(self).values()))})"

    @abstractmethod
    def lines(self) -> Lines[Any, Any]:
        """How its lines are read and written, unless a command wishes otherwise."""

    @abstractmethod
    def look(self, asked: Asked) -> Record:
        """Everything it attends to while it reads, or reads and writes, one text.

        Raises:
            DataError: the text cannot be read.
            RecipeError: it cannot be looked at so.
        """
