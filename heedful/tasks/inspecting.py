"""What a trained model did with one text, as a record that can be looked at."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention.probe import HYPOTHESIS, PREMISE, READ, SOURCE, WHOLE, WRITTEN
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, RecipeError
from heedful.generation.coverage import Covering
from heedful.generation.search import Beam, Diverse, Search
from heedful.generation.tree import BeamTree
from heedful.inspection.attribution import Method, Read, attribute
from heedful.inspection.capture import Captured, Side, capture, encodings, places, silent
from heedful.inspection.record import Alternative, Axis, Branch, Map, Option, Record, Written
from heedful.inspection.scored import Attribution
from heedful.inspection.unrolled import levels
from heedful.models.interface import Decoder, Encoder
from heedful.tasks.least_risk import LeastRisk
from heedful.values import Frames, Grid, Memories, Memory, Tokens, by_name, select

Said = TypeVar("Said")
Nest = TypeVar("Nest")

_CHEAP = 2 * 10**10
"""Products of a forward pass: with the backward pass one core takes some seconds for them."""

_MOST_NUMBERS = 400_000
"""Of all walks of a record, unless they were asked for: half precision makes a page of one megabyte of them."""


class Naming(Protocol):
    """Whoever knows what ids are called, as a tokenizer does."""

    def pieces(self, ids: Iterable[int], /) -> list[str]:
        """Each id as something to look at."""
        ...


@dataclass(frozen=True)
class Scope:
    """What of a model is recorded.

    Attributes:
        layers: of each role, counted from 0; all unless given.
        heads: likewise.
        walks: whether every step from queries to outputs is kept; None keeps them while they are few.
        alternatives: tokens that are named beside each one written.
        padding: columns without a token behind the source, as a text has them in a batch with a longer one.
        attribution: how the tokens that mattered are found; "auto" takes the gradient where that costs little, None
            looks for none.
        steps: of integrated gradients.
    """

    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    walks: bool | None = None
    alternatives: int = 10
    padding: int = 0
    attribution: Method | Literal["auto"] | None = None
    steps: int = 32

    def padded(self, tokens: Tokens) -> Tokens:
        """With the columns that hold no token."""
        sides = (0, self.padding)
        segments = None if tokens.segments is None else functional.pad(tokens.segments, sides)
        factors = None if tokens.factors is None else functional.pad(tokens.factors, (0, 0, *sides))
        ids, positions = functional.pad(tokens.ids, sides), functional.pad(tokens.positions, sides, value=-1)
        return Tokens(ids, positions, segments, factors)

    def named(self, pieces: Sequence[str]) -> tuple[str, ...]:
        """What all columns are called, those without a token last."""
        return (*pieces, *["<pad>"] * self.padding)

    def check(self, model: nn.Module) -> None:
        """Whether the model has these layers.

        Raises:
            RecipeError: it has not; the message says which it has.
        """
        have = {place.layer for place in places(model).values()}
        for layer in self.layers or ():
            if layer not in have:
                said = f"layers 0 to {max(have)}" if have else "no attention"
                raise RecipeError(f"layer {layer} to look at: this model has {said}")


def recorded(
    model: nn.Module, read: Callable[[], Said], *, scope: Scope, axes: Sequence[Axis], title: str
) -> tuple[Record, Said]:
    """What a model attends to while it reads one text, and what `read` returned.

    Args:
        model: in evaluation mode.
        read: makes it read.
        scope: what is kept.
        axes: tokens along the sides of the maps.
        title: the text as one reads it.

    Raises:
        RecipeError: no such layer or head.
    """
    scope.check(model)
    with torch.inference_mode(), capture(model, layers=scope.layers, sides=sides_of(model)) as captured:
        said = read()
    maps, notes = _maps(captured, scope)
    record = Record(
        model=_named(model),
        axes=tuple(axes),
        maps=maps,
        embedded=captured.sides() if any(each.walk for each in maps) else (),
        encodings=encodings(model, length=max(64, *(len(axis.tokens) for axis in axes))),
        notes=(*_missing(model), *notes),
        title=title,
        levels=levels(sides_of(model)),
        widths=captured.widths(),
    )
    return record, said


def encoded(
    model: nn.Module, said: Callable[[Tokens], Said], tokens: Tokens, *, tokenizer: Tokenizer, scope: Scope, title: str
) -> tuple[Record, Said]:
    """The maps of a model that reads one text and writes nothing, and what it says of it.

    Args:
        model: in evaluation mode; what reads is its `encoder`.
        said: makes it read, and returns what it says.
        tokens: one row without padding, where the model is.
        tokenizer: of the text.
        scope: what is kept.
        title: the text as one reads it.

    Raises:
        RecipeError: no such layer or head.
    """
    pieces = tokenizer.pieces(tokens.ids[0].tolist())
    second = [False] * len(pieces) if tokens.segments is None else (tokens.segments[0] > 0).tolist()
    axes = (
        Axis(SOURCE, scope.named(pieces)),
        Axis(WHOLE, ("the text",)),
        Axis(PREMISE, tuple(piece for piece, there in zip(pieces, second, strict=True) if not there)),
        Axis(HYPOTHESIS, tuple(piece for piece, there in zip(pieces, second, strict=True) if there)),
    )
    record, answer = recorded(model, lambda: said(scope.padded(tokens)), scope=scope, axes=axes, title=title)
    used = {SOURCE, *(name for each in record.maps for name in (each.queries, each.keys))}
    return replace(record, axes=tuple(axis for axis in axes if axis.name in used)), answer


def attributed(
    record: Record,
    model: nn.Module,
    read: Read,
    *,
    scope: Scope,
    about: Literal["written", "answers"],
    places: Sequence[int] | None = None,
    unit: str = "nats",
) -> Record:
    """The record with what mattered for what was said, if the scope asks for it.

    Args:
        record: of one text.
        model: in evaluation mode.
        read: tells the log-probability, or the number, of each thing that was said.
        scope: says how.
        about: what was said.
        places: which of them `read` tells of; all unless given.
        unit: of the numbers.

    Raises:
        RecipeError: gradients do not reach what was read.
    """
    if scope.attribution is None:
        return record
    lengths = {axis.name: len(axis.tokens) for axis in record.axes}
    count = len(places if places is not None else record.written if about == "written" else record.answers)
    method: Method = "integrated" if scope.attribution == "integrated" else "gradient"
    if scope.attribution == "auto" and count * _cost(model, lengths) > _CHEAP:
        return record
    try:
        found = attribute(read, sides_of(model), lengths, method=method, steps=scope.steps)
    except RecipeError:
        if scope.attribution == "auto":
            return record
        raise
    if found is None and scope.attribution == "auto":
        return record
    if found is None:
        note = "Nothing that this model read has embeddings of tokens, so nothing is said of what mattered."
        return replace(record, notes=(*record.notes, note))
    steps = scope.steps if method == "integrated" else 1
    rows = tuple(range(len(found.values)) if places is None else places)
    each = Attribution(method, steps, about, rows, unit, found.axes, found.scores, found.values, found.baselines)
    return replace(record, attributions=(*record.attributions, each))


def _cost(model: nn.Module, lengths: Mapping[str, int]) -> int:
    """Products of one reading: parameters times tokens of the longest axes that sides read."""
    read = {side.axis: lengths.get(side.axis, 0) for side in sides_of(model).values()}
    return sum(each.numel() for each in model.parameters()) * sum(read.values())


def repeated(value: Nest, rows: int) -> Nest:
    """A batch of one row, so many times."""
    return select(value, torch.zeros(rows, dtype=torch.long, device=_device(value)))


def likelihoods(logits: Float[Tensor, "rows T V"], said: Sequence[int] | Int[Tensor, " T"]) -> Float[Tensor, "rows T"]:
    """The log-probabilities of what was said at each place."""
    labels = torch.as_tensor(said, device=logits.device).view(1, -1, 1).expand(len(logits), -1, 1)
    return logits.float().log_softmax(-1).gather(-1, labels).squeeze(-1)


def best_options(
    probabilities: Float[Tensor, " N"], names: Callable[[Sequence[int]], Sequence[str]], *, most: int
) -> tuple[Option, ...]:
    """The most probable ones, best first; `names` says what numbers stand for."""
    best = probabilities.topk(min(most, int((probabilities > 0).sum())))
    named = names(best.indices.tolist())
    return tuple(map(Option, named, best.values.tolist()))


def written(
    logits: Float[Tensor, "1 T V"], ids: Sequence[int], *, tokenizer: Naming, alternatives: int
) -> tuple[Written, ...]:
    """Each token with its log-probability and the most probable ones in its place."""
    log_probabilities = logits[0].float().log_softmax(-1)
    best = log_probabilities.topk(min(alternatives, log_probabilities.size(1)))
    taken = log_probabilities.gather(1, torch.tensor(ids, device=best.values.device).unsqueeze(1)).squeeze(1)
    names = tokenizer.pieces(ids)
    return tuple(
        Written(name, value, tuple(map(Alternative, tokenizer.pieces(others), values)))
        for name, value, others, values in zip(
            names, taken.tolist(), best.indices.tolist(), best.values.tolist(), strict=True
        )
    )


def growing(search: Search) -> tuple[Search, BeamTree | None]:
    """The same search, and the tree that it will have grown; None where there is no beam.

    Where what a beam holds is ranked anew, the tree is that of the beam.
    """
    match search:
        case Beam() | Diverse():
            groups = search.groups if isinstance(search, Diverse) else 1
            tree = BeamTree(width=search.width // groups, eos=search.eos)
            return replace(search, observe=tree.grow), tree
        case Covering() | LeastRisk():
            inner, grown = growing(search.search)
            return replace(search, search=inner), grown
    return search, None


def widened(search: Search, width: int) -> Search:
    """The same search with another width of its beam, all of which is ranked anew where the search does that.

    Raises:
        RecipeError: there is no beam.
    """
    inner = search.search if isinstance(search, Covering | LeastRisk) else search
    if not isinstance(inner, Beam | Diverse):
        raise RecipeError("--beam: this run's recipe does not search with a beam; leave it out")
    if isinstance(search, Covering | LeastRisk):
        return replace(search, search=replace(inner, width=width, n_best=width))
    return replace(inner, width=width, n_best=min(inner.n_best, width))


def branches(tree: BeamTree, best: Sequence[int], *, tokenizer: Tokenizer) -> tuple[Branch, ...]:
    """The tree as a record has it; `best` are the ids of the text that was returned."""
    path = set(tree.path(best))
    names = tokenizer.pieces([node.id for node in tree.nodes[1:]])
    return tuple(
        Branch(node.parent, name, node.total, node.score, node.fate, number in path)
        for number, (node, name) in enumerate(zip(tree.nodes, ("", *names), strict=True))
    )


def text_axes(*, read: Sequence[str], wrote: Sequence[str]) -> list[Axis]:
    """The axes of what is written."""
    return [Axis(READ, tuple(read)), Axis(WRITTEN, tuple(wrote))]


def memory_axes(
    memories: Memories,
    *,
    tokens: Mapping[str, Sequence[str]] | None = None,
    pictures: Mapping[str, Shaped[np.ndarray, " ..."]] | None = None,
    marked: Mapping[str, tuple[int, ...]] | None = None,
) -> list[Axis]:
    """An axis for each memory, of its name and its shape.

    Args:
        memories: of one example, without padding.
        tokens: by name, what the slots of texts are called; their numbers unless given.
        pictures: by name, what grids and frames show.
        marked: by name, the places known to matter.

    Raises:
        DataError: tokens, pictures or marks that do not fit the memory.
    """
    return [
        _memory_axis(name, memory, (tokens or {}).get(name), (pictures or {}).get(name), (marked or {}).get(name, ()))
        for name, memory in by_name(memories).items()
    ]


def _memory_axis(
    name: str, memory: Memory, tokens: Sequence[str] | None, pictures: np.ndarray | None, marked: tuple[int, ...]
) -> Axis:
    match memory.shape:
        case Grid(rows, columns):
            return Axis.grid(name, rows=rows, columns=columns, pictures=pictures, marked=marked)
        case Frames(count):
            return Axis.frames(name, count, pictures=pictures, marked=marked)
    slots = memory.positions.size(1)
    if tokens is not None and len(tokens) != slots:
        raise DataError(f"axis {name}: {len(tokens)} tokens for {slots} slots; name each slot of the memory")
    return Axis(name, tuple(map(str, range(slots)) if tokens is None else tokens), pictures=pictures, marked=marked)


def _maps(captured: Captured, scope: Scope) -> tuple[tuple[Map, ...], tuple[str, ...]]:
    maps = captured.maps(heads=scope.heads, walks=scope.walks is not False)
    if scope.heads is not None and maps and not any(each.heads for each in maps):
        most = max(each.size(1) for calls in captured.weights.values() for each in calls if each.dim() == 4)
        raise RecipeError(f"heads {scope.heads}: this model has heads 0 to {most - 1}")
    maps = tuple(each for each in maps if each.heads)
    if scope.walks is None and sum(each.walk.size for each in maps if each.walk) > _MOST_NUMBERS:
        note = "The steps from queries to outputs are left out because they are many; choose fewer layers or heads."
        return tuple(replace(each, walk=None) for each in maps), (note,)
    return maps, ()


def _missing(model: nn.Module) -> Iterator[str]:
    """Why there is less to look at than one might expect, in sentences."""
    if left_out := silent(model):
        yield f"Attention at {', '.join(left_out)} does not declare who looks at what, so it is left out."
    elif not places(model):
        yield "This model has no attention, so there are no weights to look at."


def _device(value: Any) -> torch.device:
    """Where the first tensor of a nest is."""
    if isinstance(value, Tensor):
        return value.device
    parts: Iterable[Any] = value.values() if isinstance(value, Mapping) else vars(value).values()
    return next(_device(part) for part in parts if isinstance(part, Tensor | Mapping) or is_dataclass(part))


def sides_of(model: nn.Module) -> dict[nn.Module, Side]:
    """What reads tokens in a model: encoders, then decoders, none of them inside another one."""
    kinds = {Encoder: Side("encoder", SOURCE), Decoder: Side("decoder", READ)}
    found = {part: side for kind, side in kinds.items() for part in model.modules() if isinstance(part, kind)}
    within = {each for part in found for each in part.modules() if each is not part}
    return {part: side for part, side in found.items() if part not in within}


def _named(model: nn.Module) -> str:
    """The classes of encoder and decoder in words."""
    return ", ".join(re.sub(r"(?<!^)(?=[A-Z])", " ", type(part).__name__).lower() for part in sides_of(model))
