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

from heedful.attention.hooks import HYPOTHESIS_AXIS, PREMISE_AXIS, READ_AXIS, SOURCE_AXIS, WHOLE_AXIS, WRITTEN_AXIS
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, RecipeError
from heedful.generation.beam_tree import BeamTree
from heedful.generation.coverage import CoverageReranker
from heedful.generation.search import BeamSearch, DiverseBeamSearch, SearchStrategy
from heedful.inspection.attribution import Method, OutputFunction, attribute_outputs
from heedful.inspection.attribution_record import Attribution
from heedful.inspection.capture import (
    AttentionCapture,
    ModelSide,
    capture_attention,
    find_attention_sites,
    find_position_encodings,
    find_undeclared_attention,
)
from heedful.inspection.record import (
    AnswerOption,
    AttentionMap,
    BeamNode,
    GeneratedToken,
    InspectionRecord,
    MapAxis,
    TokenAlternative,
)
from heedful.inspection.unrolled import collect_levels
from heedful.models.interface import Decoder, Encoder
from heedful.tasks.minimum_bayes_risk import MinimumBayesRisk
from heedful.tensors import FrameLayout, GridLayout, Memories, Memory, Tokens, as_mapping, select_rows

Output = TypeVar("Output")
NestedTensors = TypeVar("NestedTensors")

_CHEAP_PRODUCTS = 2 * 10**10
"""Products of a forward pass: with the backward pass one core takes some seconds for them."""

_MAX_STEP_NUMBERS = 400_000
"""Of all walks of a record, unless they were asked for: half precision makes a page of one megabyte of them."""


class TokenNames(Protocol):
    """Whoever knows what ids are called, as a tokenizer does."""

    def to_pieces(self, ids: Iterable[int], /) -> list[str]:
        """Each id as something to look at."""
        ...


@dataclass(frozen=True)
class InspectionSelection:
    """What of a model is recorded.

    Attributes:
        layers: of each role, counted from 0; all unless given.
        heads: likewise.
        attention_steps: whether every step from queries to outputs is kept; None keeps them while they are few.
        alternatives: tokens that are named beside each one written.
        padding: columns without a token behind the source, as a text has them in a batch with a longer one.
        attribution: how the tokens that mattered are found; "auto" takes the gradient where that costs little, None
            looks for none.
        steps: of integrated gradients.
    """

    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    attention_steps: bool | None = None
    alternatives: int = 10
    padding: int = 0
    attribution: Method | Literal["auto"] | None = None
    steps: int = 32

    def pad_tokens(self, tokens: Tokens) -> Tokens:
        """With the columns that hold no token."""
        sides = (0, self.padding)
        segments = None if tokens.segments is None else functional.pad(tokens.segments, sides)
        factors = None if tokens.factors is None else functional.pad(tokens.factors, (0, 0, *sides))
        ids, positions = functional.pad(tokens.ids, sides), functional.pad(tokens.positions, sides, value=-1)
        return Tokens(ids, positions, segments, factors)

    def name_columns(self, pieces: Sequence[str]) -> tuple[str, ...]:
        """What all columns are called, those without a token last."""
        return (*pieces, *["<pad>"] * self.padding)

    def check_layers(self, model: nn.Module) -> None:
        """Whether the model has these layers.

        Raises:
            RecipeError: it has not; the message says which it has.
        """
        layers = {site.layer for site in find_attention_sites(model).values()}
        for layer in self.layers or ():
            if layer not in layers:
                available = f"layers 0 to {max(layers)}" if layers else "no attention"
                raise RecipeError(f"layer {layer} to look at: this model has {available}")


def record_attention(
    model: nn.Module, read: Callable[[], Output], *, selection: InspectionSelection, axes: Sequence[MapAxis], title: str
) -> tuple[InspectionRecord, Output]:
    """What a model attends to while it reads one text, and what `read` returned.

    Args:
        model: in evaluation mode.
        read: makes it read.
        selection: what is kept.
        axes: tokens along the sides of the maps.
        title: the text as one reads it.

    Raises:
        RecipeError: no such layer or head.
    """
    selection.check_layers(model)
    with (
        torch.inference_mode(),
        capture_attention(model, layers=selection.layers, sides=find_token_readers(model)) as captured,
    ):
        output = read()
    maps, notes = _collect_maps(captured, selection)
    record = InspectionRecord(
        model=_describe_model(model),
        axes=tuple(axes),
        maps=maps,
        embedded=captured.build_embedded_tokens() if any(map_.walk for map_ in maps) else (),
        encodings=find_position_encodings(model, length=max(64, *(len(axis.tokens) for axis in axes))),
        notes=(*_explain_missing(model), *notes),
        title=title,
        levels=collect_levels(find_token_readers(model)),
        widths=captured.list_vector_sizes(),
    )
    return record, output


def record_encoder(
    model: nn.Module,
    run_model: Callable[[Tokens], Output],
    tokens: Tokens,
    *,
    tokenizer: Tokenizer,
    selection: InspectionSelection,
    title: str,
) -> tuple[InspectionRecord, Output]:
    """The maps of a model that reads one text and writes nothing, and what it says of it.

    Args:
        model: in evaluation mode; what reads is its `encoder`.
        run_model: makes it read, and returns what it says.
        tokens: one row without padding, where the model is.
        tokenizer: of the text.
        selection: what is kept.
        title: the text as one reads it.

    Raises:
        RecipeError: no such layer or head.
    """
    pieces = tokenizer.to_pieces(tokens.ids[0].tolist())
    is_second = [False] * len(pieces) if tokens.segments is None else (tokens.segments[0] > 0).tolist()
    axes = (
        MapAxis(SOURCE_AXIS, selection.name_columns(pieces)),
        MapAxis(WHOLE_AXIS, ("the text",)),
        MapAxis(
            PREMISE_AXIS, tuple(piece for piece, in_second in zip(pieces, is_second, strict=True) if not in_second)
        ),
        MapAxis(HYPOTHESIS_AXIS, tuple(piece for piece, in_second in zip(pieces, is_second, strict=True) if in_second)),
    )
    record, output = record_attention(
        model, lambda: run_model(selection.pad_tokens(tokens)), selection=selection, axes=axes, title=title
    )
    used_axes = {SOURCE_AXIS, *(name for map_ in record.maps for name in (map_.queries, map_.keys))}
    return replace(record, axes=tuple(axis for axis in axes if axis.name in used_axes)), output


def add_attribution(
    record: InspectionRecord,
    model: nn.Module,
    compute_values: OutputFunction,
    *,
    selection: InspectionSelection,
    about: Literal["written", "answers"],
    indices: Sequence[int] | None = None,
    unit: str = "nats",
) -> InspectionRecord:
    """The record with what mattered for what was said, if the scope asks for it.

    Args:
        record: of one text.
        model: in evaluation mode.
        compute_values: tells the log-probability, or the number, of each thing that was said.
        selection: says how.
        about: what was said.
        indices: which of them `compute_values` tells of; all unless given.
        unit: of the numbers.

    Raises:
        RecipeError: gradients do not reach what was read.
    """
    if selection.attribution is None:
        return record
    lengths = {axis.name: len(axis.tokens) for axis in record.axes}
    num_outputs = len(indices if indices is not None else record.written if about == "written" else record.answers)
    method: Method = "integrated" if selection.attribution == "integrated" else "gradient"
    if selection.attribution == "auto" and num_outputs * _estimate_cost(model, lengths) > _CHEAP_PRODUCTS:
        return record
    try:
        result = attribute_outputs(
            compute_values, find_token_readers(model), lengths, method=method, steps=selection.steps
        )
    except RecipeError:
        if selection.attribution == "auto":
            return record
        raise
    if result is None and selection.attribution == "auto":
        return record
    if result is None:
        note = "Nothing that this model read has embeddings of tokens, so nothing is said of what mattered."
        return replace(record, notes=(*record.notes, note))
    steps = selection.steps if method == "integrated" else 1
    rows = tuple(range(len(result.values)) if indices is None else indices)
    attribution = Attribution(
        method, steps, about, rows, unit, result.axes, result.scores, result.values, result.baselines
    )
    return replace(record, attributions=(*record.attributions, attribution))


def _estimate_cost(model: nn.Module, lengths: Mapping[str, int]) -> int:
    """Products of one reading: parameters times tokens of the longest axes that sides read."""
    tokens_by_axis = {side.axis: lengths.get(side.axis, 0) for side in find_token_readers(model).values()}
    return sum(parameter.numel() for parameter in model.parameters()) * sum(tokens_by_axis.values())


def repeat_rows(value: NestedTensors, rows: int) -> NestedTensors:
    """A batch of one row, so many times."""
    return select_rows(value, torch.zeros(rows, dtype=torch.long, device=_find_device(value)))


def gather_log_probs(
    logits: Float[Tensor, "rows T V"], ids: Sequence[int] | Int[Tensor, " T"]
) -> Float[Tensor, "rows T"]:
    """The log-probabilities of what was said at each place."""
    labels = torch.as_tensor(ids, device=logits.device).view(1, -1, 1).expand(len(logits), -1, 1)
    return logits.float().log_softmax(-1).gather(-1, labels).squeeze(-1)


def top_options(
    probabilities: Float[Tensor, " N"], names: Callable[[Sequence[int]], Sequence[str]], *, max_options: int
) -> tuple[AnswerOption, ...]:
    """The most probable ones, best first; `names` says what numbers stand for."""
    best = probabilities.topk(min(max_options, int((probabilities > 0).sum())))
    option_names = names(best.indices.tolist())
    return tuple(map(AnswerOption, option_names, best.values.tolist()))


def describe_tokens(
    logits: Float[Tensor, "1 T V"], ids: Sequence[int], *, tokenizer: TokenNames, alternatives: int
) -> tuple[GeneratedToken, ...]:
    """Each token with its log-probability and the most probable ones in its place."""
    log_probabilities = logits[0].float().log_softmax(-1)
    best = log_probabilities.topk(min(alternatives, log_probabilities.size(1)))
    token_log_probs = log_probabilities.gather(1, torch.tensor(ids, device=best.values.device).unsqueeze(1)).squeeze(1)
    names = tokenizer.to_pieces(ids)
    return tuple(
        GeneratedToken(name, value, tuple(map(TokenAlternative, tokenizer.to_pieces(alternative_ids), values)))
        for name, value, alternative_ids, values in zip(
            names, token_log_probs.tolist(), best.indices.tolist(), best.values.tolist(), strict=True
        )
    )


def trace_beam(search: SearchStrategy) -> tuple[SearchStrategy, BeamTree | None]:
    """The same search, and the tree that it will have grown; None where there is no beam.

    Where what a beam holds is ranked anew, the tree is that of the beam.
    """
    match search:
        case BeamSearch() | DiverseBeamSearch():
            groups = search.groups if isinstance(search, DiverseBeamSearch) else 1
            tree = BeamTree(width=search.width // groups, eos=search.eos)
            return replace(search, on_step=tree.add_step), tree
        case CoverageReranker() | MinimumBayesRisk():
            inner, inner_tree = trace_beam(search.search)
            return replace(search, search=inner), inner_tree
    return search, None


def set_beam_width(search: SearchStrategy, width: int) -> SearchStrategy:
    """The same search with another width of its beam, all of which is ranked anew where the search does that.

    Raises:
        RecipeError: there is no beam.
    """
    inner = search.search if isinstance(search, CoverageReranker | MinimumBayesRisk) else search
    if not isinstance(inner, BeamSearch | DiverseBeamSearch):
        raise RecipeError("--beam: this run's recipe does not search with a beam; leave it out")
    if isinstance(search, CoverageReranker | MinimumBayesRisk):
        return replace(search, search=replace(inner, width=width, n_best=width))
    return replace(inner, width=width, n_best=min(inner.n_best, width))


def build_branches(tree: BeamTree, best: Sequence[int], *, tokenizer: Tokenizer) -> tuple[BeamNode, ...]:
    """The tree as a record has it; `best` are the ids of the text that was returned."""
    best_path = set(tree.find_path(best))
    names = tokenizer.to_pieces([node.id for node in tree.nodes[1:]])
    return tuple(
        BeamNode(node.parent, name, node.total, node.score, node.fate, number in best_path)
        for number, (node, name) in enumerate(zip(tree.nodes, ("", *names), strict=True))
    )


def build_text_axes(*, input_pieces: Sequence[str], output_pieces: Sequence[str]) -> list[MapAxis]:
    """The axes of what is written."""
    return [MapAxis(READ_AXIS, tuple(input_pieces)), MapAxis(WRITTEN_AXIS, tuple(output_pieces))]


def build_memory_axes(
    memories: Memories,
    *,
    tokens: Mapping[str, Sequence[str]] | None = None,
    pictures: Mapping[str, Shaped[np.ndarray, " ..."]] | None = None,
    marked: Mapping[str, tuple[int, ...]] | None = None,
) -> list[MapAxis]:
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
        _build_memory_axis(
            name, memory, (tokens or {}).get(name), (pictures or {}).get(name), (marked or {}).get(name, ())
        )
        for name, memory in as_mapping(memories).items()
    ]


def _build_memory_axis(
    name: str, memory: Memory, tokens: Sequence[str] | None, pictures: np.ndarray | None, marked: tuple[int, ...]
) -> MapAxis:
    match memory.layout:
        case GridLayout(rows, columns):
            return MapAxis.from_grid(name, rows=rows, columns=columns, pictures=pictures, marked=marked)
        case FrameLayout(count):
            return MapAxis.from_frames(name, count, pictures=pictures, marked=marked)
    slots = memory.positions.size(1)
    if tokens is not None and len(tokens) != slots:
        raise DataError(f"axis {name}: {len(tokens)} tokens for {slots} slots; name each slot of the memory")
    return MapAxis(name, tuple(map(str, range(slots)) if tokens is None else tokens), pictures=pictures, marked=marked)


def _collect_maps(
    captured: AttentionCapture, selection: InspectionSelection
) -> tuple[tuple[AttentionMap, ...], tuple[str, ...]]:
    maps = captured.build_maps(heads=selection.heads, with_steps=selection.attention_steps is not False)
    if selection.heads is not None and maps and not any(map_.heads for map_ in maps):
        num_heads = max(map_.size(1) for calls in captured.weights.values() for map_ in calls if map_.dim() == 4)
        raise RecipeError(f"heads {selection.heads}: this model has heads 0 to {num_heads - 1}")
    maps = tuple(map_ for map_ in maps if map_.heads)
    if selection.attention_steps is None and sum(map_.walk.size for map_ in maps if map_.walk) > _MAX_STEP_NUMBERS:
        note = "The steps from queries to outputs are left out because they are many; choose fewer layers or heads."
        return tuple(replace(map_, walk=None) for map_ in maps), (note,)
    return maps, ()


def _explain_missing(model: nn.Module) -> Iterator[str]:
    """Why there is less to look at than one might expect, in sentences."""
    if silent_modules := find_undeclared_attention(model):
        yield f"Attention at {', '.join(silent_modules)} does not declare who looks at what, so it is left out."
    elif not find_attention_sites(model):
        yield "This model has no attention, so there are no weights to look at."


def _find_device(value: Any) -> torch.device:
    """Where the first tensor of a nest is."""
    if isinstance(value, Tensor):
        return value.device
    parts: Iterable[Any] = value.values() if isinstance(value, Mapping) else vars(value).values()
    return next(_find_device(part) for part in parts if isinstance(part, Tensor | Mapping) or is_dataclass(part))


def find_token_readers(model: nn.Module) -> dict[nn.Module, ModelSide]:
    """What reads tokens in a model: encoders, then decoders, none of them inside another one."""
    sides_by_class = {Encoder: ModelSide("encoder", SOURCE_AXIS), Decoder: ModelSide("decoder", READ_AXIS)}
    readers = {
        module: side
        for class_, side in sides_by_class.items()
        for module in model.modules()
        if isinstance(module, class_)
    }
    inner_modules = {inner for module in readers for inner in module.modules() if inner is not module}
    return {module: side for module, side in readers.items() if module not in inner_modules}


def _describe_model(model: nn.Module) -> str:
    """The classes of encoder and decoder in words."""
    return ", ".join(
        re.sub(r"(?<!^)(?=[A-Z])", " ", type(module).__name__).lower() for module in find_token_readers(model)
    )
