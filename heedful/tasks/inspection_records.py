"""Build inspection records of what a trained model does with one text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from heedful.generation.beam_state import BeamTree
from heedful.generation.search import BeamSearch, CoverageReranker, DiverseBeamSearch, SearchStrategy
from heedful.inspection.attribution import Method, OutputFunction, attribute_outputs
from heedful.inspection.capture import (
    AttentionCapture,
    ModelSide,
    capture_attention,
    find_attention_sites,
    find_position_encodings,
    find_undeclared_attention,
    register_hooks,
)
from heedful.inspection.record import (
    AnswerOption,
    AttentionMap,
    Attribution,
    BeamNode,
    GeneratedToken,
    InspectionRecord,
    MapAxis,
    TokenAlternative,
)
from heedful.inspection.unrolled import collect_levels
from heedful.models.interface import Decoder, Encoder
from heedful.models.pointer_generator import CopyGate
from heedful.tasks.search_factory import MinimumBayesRisk
from heedful.tensors import FrameLayout, GridLayout, Memories, Memory, Tokens, as_mapping, select_rows

Output = TypeVar("Output")
NestedTensors = TypeVar("NestedTensors")

_CHEAP_PRODUCTS = 10**11
"""Multiplications of all forward passes up to which attribution is computed automatically; one core needs about three
seconds for them with the backward passes."""

_MAX_AUTOMATIC_STEPS = 256
"""Most steps of integrated gradients that are tried automatically; sampled attention is never complete."""

_MAX_STEP_NUMBERS = 400_000
"""Numbers of all attention steps in a record, unless they were requested; in half precision they make a page of one
megabyte."""


class TokenNames(Protocol):
    """Protocol of objects that return the text of ids, as a tokenizer does."""

    def to_pieces(self, ids: Iterable[int], /) -> list[str]:
        """Return each id as a string for display."""
        ...


@dataclass(frozen=True)
class InspectionSelection:
    """Which parts of a model's computation are recorded.

    Attributes:
        layers: layers of each role, counted from 0; None for all.
        heads: heads, counted from 0; None for all.
        attention_steps: whether to keep every step from queries to outputs; None keeps them if they are few.
        alternatives: number of most probable tokens listed beside each generated one.
        padding: padding columns behind the source, as in a batch with a longer text.
        attribution: how the important input tokens are found; "auto" uses integrated gradients if they are cheap, None
            skips it.
        steps: number of steps of integrated gradients; "auto" doubles it until all scores are complete.
    """

    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    attention_steps: bool | None = None
    alternatives: int = 10
    padding: int = 0
    attribution: Method | Literal["auto"] | None = None
    steps: int = 32

    def pad_tokens(self, tokens: Tokens) -> Tokens:
        """Append `padding` columns to the tokens."""
        sides = (0, self.padding)
        segments = None if tokens.segments is None else functional.pad(tokens.segments, sides)
        factors = None if tokens.factors is None else functional.pad(tokens.factors, (0, 0, *sides))
        ids, positions = functional.pad(tokens.ids, sides), functional.pad(tokens.positions, sides, value=-1)
        return Tokens(ids, positions, segments, factors)

    def name_columns(self, pieces: Sequence[str]) -> tuple[str, ...]:
        """Return the names of all columns, padding last."""
        return (*pieces, *["<pad>"] * self.padding)

    def check_layers(self, model: nn.Module) -> None:
        """Raise `RecipeError` if the model lacks one of the selected layers.

        Raises:
            RecipeError: it does not have them; the message says which it has.
        """
        layers = {site.layer for site in find_attention_sites(model).values()}
        for layer in self.layers or ():
            if layer not in layers:
                available = f"layers 0 to {max(layers)}" if layers else "no attention"
                raise RecipeError(f"layers: {layer}; this model has {available}, choose others")


def record_attention(
    model: nn.Module, read: Callable[[], Output], *, selection: InspectionSelection, axes: Sequence[MapAxis], title: str
) -> tuple[InspectionRecord, Output]:
    """Run a model on one text by calling `read`, and return a record of its attention together with the result of
    `read`.

    Args:
        model: the model in evaluation mode.
        read: runs the model.
        selection: what to record.
        axes: tokens along the sides of the maps.
        title: the text, for people.

    Raises:
        RecipeError: no such layer or head.
    """
    selection.check_layers(model)
    axis_names = {axis.name for axis in axes}
    sides = {module: side for module, side in find_token_readers(model).items() if side.axis in axis_names}
    with torch.inference_mode(), capture_attention(model, layers=selection.layers, sides=sides) as captured:
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
        levels=collect_levels(sides),
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
    """Run a model that reads one text and generates nothing, and return a record of its attention together with its
    output.

    Args:
        model: the model in evaluation mode, with an attribute `encoder`.
        run_model: runs the model on tokens and returns its output.
        tokens: one row without padding, on the model's device.
        tokenizer: tokenizer of the text.
        selection: what to record.
        title: the text, for people.

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
    """Add the importance of each input token for the outputs to a record, if the selection asks for it.
    `compute_values` returns the values of the outputs, and `about` says what they are.

    Args:
        record: record of one text.
        model: the model in evaluation mode.
        compute_values: returns the log-probability, or the number, of each output.
        selection: how to compute it.
        about: which outputs: generated tokens or answers.
        indices: indices of the outputs that `compute_values` returns; all by default.
        unit: unit of the numbers.

    Raises:
        RecipeError: gradients do not reach the input.
    """
    if selection.attribution is None:
        return record
    is_automatic = selection.attribution == "auto"
    method: Method = "gradient" if selection.attribution == "gradient" else "integrated"
    lengths = {axis.name: len(axis.tokens) for axis in record.axes}
    num_outputs = len(indices if indices is not None else record.written if about == "written" else record.answers)
    cheap_steps = _CHEAP_PRODUCTS // max(1, num_outputs * _estimate_cost(model, lengths))

    def attribute(steps: int) -> Attribution | None:
        """Return the attribution in that many steps; None if there are no outputs or no embeddings."""
        result = attribute_outputs(compute_values, find_token_readers(model), lengths, method=method, steps=steps)
        if result is None:
            return None
        rows = tuple(range(len(result.values)) if indices is None else indices)
        numbers = result.scores, result.values, result.baselines
        return Attribution(method, steps if method == "integrated" else 1, about, rows, unit, result.axes, *numbers)

    steps = selection.steps
    if is_automatic and steps > cheap_steps:
        return record
    max_steps = min(cheap_steps, _MAX_AUTOMATIC_STEPS)
    try:
        attribution = attribute(steps)
        while is_automatic and attribution and not np.all(attribution.complete) and 2 * steps <= max_steps:
            steps *= 2
            attribution = attribute(steps)
    except RecipeError:
        if is_automatic:
            return record
        raise
    if attribution is not None:
        return replace(record, attributions=(*record.attributions, attribution))
    note = "The input of this model has no token embeddings, so the page does not show what mattered."
    return record if is_automatic else replace(record, notes=(*record.notes, note))


def _estimate_cost(model: nn.Module, lengths: Mapping[str, int]) -> int:
    """Estimate the multiplications of one forward pass: parameters times tokens of the input axes."""
    tokens_by_axis = {side.axis: lengths.get(side.axis, 0) for side in find_token_readers(model).values()}
    return sum(parameter.numel() for parameter in model.parameters()) * sum(tokens_by_axis.values())


def repeat_rows(value: NestedTensors, rows: int) -> NestedTensors:
    """Repeat a batch of one row, in nested tensors, `rows` times."""
    return select_rows(value, torch.zeros(rows, dtype=torch.long, device=_find_device(value)))


def gather_log_probs(
    logits: Float[Tensor, "rows T V"], ids: Sequence[int] | Int[Tensor, " T"]
) -> Float[Tensor, "rows T"]:
    """Return the log-probability of each given id at its position, in each row of logits."""
    labels = torch.as_tensor(ids, device=logits.device).view(1, -1, 1).expand(len(logits), -1, 1)
    return logits.float().log_softmax(-1).gather(-1, labels).squeeze(-1)


def top_options(
    probabilities: Float[Tensor, " N"], names: Callable[[Sequence[int]], Sequence[str]], *, max_options: int
) -> tuple[AnswerOption, ...]:
    """Return at most `max_options` options with the highest probabilities, best first; `names` names indices."""
    best = probabilities.topk(min(max_options, int((probabilities > 0).sum())))
    option_names = names(best.indices.tolist())
    return tuple(map(AnswerOption, option_names, best.values.tolist()))


def describe_tokens(
    logits: Float[Tensor, "1 T V"],
    ids: Sequence[int],
    *,
    tokenizer: TokenNames,
    alternatives: int,
    copy_probabilities: Sequence[float] | None = None,
) -> tuple[GeneratedToken, ...]:
    """Return the token of each id with its log-probability and the `alternatives` most probable tokens at its position,
    given the logits of one row; `copy_probabilities` has one for each id if the model can copy.
    """
    log_probabilities = logits[0].float().log_softmax(-1)
    best = log_probabilities.topk(min(alternatives, log_probabilities.size(1)))
    token_log_probs = log_probabilities.gather(1, torch.tensor(ids, device=best.values.device).unsqueeze(1)).squeeze(1)
    copied = [None] * len(ids) if copy_probabilities is None else copy_probabilities
    columns = (tokenizer.to_pieces(ids), token_log_probs.tolist(), best.indices.tolist(), best.values.tolist(), copied)
    return tuple(
        GeneratedToken(name, value, tuple(map(TokenAlternative, tokenizer.to_pieces(alternative_ids), values)), copy)
        for name, value, alternative_ids, values, copy in zip(*columns, strict=True)
    )


@contextmanager
def watch_copy_gates(model: nn.Module) -> Iterator[list[Float[Tensor, "B T 1"]]]:
    """Collect the logits of generating a token instead of copying one, of each call inside the block; none if the model
    cannot copy.
    """
    calls: list[Tensor] = []

    def store_logits(_gate: CopyGate, _args: tuple[Any, ...], _keywords: dict[str, Any], logits: Tensor) -> None:
        """Store the logits of a call."""
        calls.append(logits.detach())

    with register_hooks({module: store_logits for module in model.modules() if isinstance(module, CopyGate)}):
        yield calls


def trace_beam(search: SearchStrategy) -> tuple[SearchStrategy, BeamTree | None]:
    """Return the search with an observer that records its beam tree, and that tree; None if it has no beam.

    If the search reranks the hypotheses of a beam, the tree is that of the beam.
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
    """Return the search with the given beam width; a reranking search reranks the whole beam.

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
    """Convert a beam tree to the nodes of a record; `best` are the ids of the returned text, whose path is marked."""
    best_path = set(tree.find_path(best))
    names = tokenizer.to_pieces([node.id for node in tree.nodes[1:]])
    return tuple(
        BeamNode(node.parent, name, node.total, node.score, node.fate, number in best_path)
        for number, (node, name) in enumerate(zip(tree.nodes, ("", *names), strict=True))
    )


def build_text_axes(*, input_pieces: Sequence[str], output_pieces: Sequence[str]) -> list[MapAxis]:
    """Return the axes of the decoder's input and output tokens."""
    return [MapAxis(READ_AXIS, tuple(input_pieces)), MapAxis(WRITTEN_AXIS, tuple(output_pieces))]


def build_memory_axes(
    memories: Memories,
    *,
    tokens: Mapping[str, Sequence[str]] | None = None,
    pictures: Mapping[str, Shaped[np.ndarray, " ..."]] | None = None,
    marked: Mapping[str, tuple[int, ...]] | None = None,
) -> list[MapAxis]:
    """Return one axis for each memory, with its name and shape; `marked` has the indices of slots known to matter, by
    memory.

    Args:
        memories: memories of one example, without padding.
        tokens: names of the slots of texts, by memory; their numbers by default.
        pictures: pictures that grids and frames show, by memory.
        marked: indices of the slots known to matter, by memory.

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
    """Build the axis of a memory by its layout: a grid, frames, or a row of slots. `tokens` name the slots of a row
    (their numbers by default), and `marked` are slots known to matter; raise `DataError` if their number does not fit.
    """
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
    """Return the captured attention maps of the selected heads, and notes on what was left out; raise `RecipeError` if
    the model has no such head.
    """
    maps = captured.build_maps(heads=selection.heads, with_steps=selection.attention_steps is not False)
    if selection.heads is not None and maps and not any(map_.heads for map_ in maps):
        num_heads = max(map_.size(1) for calls in captured.weights.values() for map_ in calls if map_.dim() == 4)
        wanted = ", ".join(map(str, selection.heads))
        raise RecipeError(f"heads: {wanted}; this model has heads 0 to {num_heads - 1}, choose others")
    maps = tuple(map_ for map_ in maps if map_.heads)
    if selection.attention_steps is None and sum(map_.walk.size for map_ in maps if map_.walk) > _MAX_STEP_NUMBERS:
        note = "The steps from queries to outputs are left out because they are many; choose fewer layers or heads."
        return tuple(replace(map_, walk=None) for map_ in maps), (note,)
    return maps, ()


def _explain_missing(model: nn.Module) -> Iterator[str]:
    """Yield sentences that say which attention of the model cannot be recorded, or that it has none."""
    if silent_modules := find_undeclared_attention(model):
        yield f"Attention at {', '.join(silent_modules)} does not declare what attends to what, so it is left out."
    elif not find_attention_sites(model):
        yield "This model has no attention, so there are no weights to show."


def _find_device(value: Any) -> torch.device:
    """Return the device of the first tensor in nested values."""
    if isinstance(value, Tensor):
        return value.device
    parts: Iterable[Any] = value.values() if isinstance(value, Mapping) else vars(value).values()
    return next(_find_device(part) for part in parts if isinstance(part, Tensor | Mapping) or is_dataclass(part))


def find_token_readers(model: nn.Module) -> dict[nn.Module, ModelSide]:
    """Return the outermost modules of a model that read tokens, encoders first, each with its side."""
    encoders = [module for module in model.modules() if isinstance(module, Encoder)]
    decoders = [module for module in model.modules() if isinstance(module, Decoder)]
    readers: dict[nn.Module, ModelSide] = {module: ModelSide("encoder", module.token_axis) for module in encoders}
    readers |= dict.fromkeys(decoders, ModelSide("decoder", READ_AXIS))
    inner_modules = {inner for module in readers for inner in module.modules() if inner is not module}
    return {module: side for module, side in readers.items() if module not in inner_modules}


def _describe_model(model: nn.Module) -> str:
    """Return the class names of encoder and decoder, in words."""
    return ", ".join(
        re.sub(r"(?<!^)(?=[A-Z])", " ", type(module).__name__).lower() for module in find_token_readers(model)
    )
