"""Capture of a model's attention maps, embeddings and position encodings, and observation of a model during a block
of code.

Observation sees only the calls of its own thread or asynchronous task, so that several may share a model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heedful.attention.hooks import (
    AttentionKind,
    AttentionRole,
    AttentionTrace,
    HookPoint,
    TraceableAttention,
    WeightsHook,
    intercept_weights,
)
from heedful.attention.positions import AbsolutePosition, LearnedPosition, RotaryPosition, ShawPosition
from heedful.blocks.embedding import EmbeddingSum, InputEmbedding
from heedful.inspection.record import AttentionMap, AttentionSteps, EmbeddedTokens, PositionEncoding, VectorSize


@dataclass(frozen=True)
class ModelSide:
    """An encoder or decoder of a model, and the axis of the tokens that it reads."""

    name: str
    axis: str


@dataclass(frozen=True)
class AttentionSite:
    """The role of an attention module in its model.

    Attributes:
        declaration: the role, and the axes of queries and keys.
        layer: its number among those of the same role.
        heads: number of heads.
    """

    declaration: AttentionRole
    layer: int
    heads: int


def find_attention_sites(model: nn.Module) -> dict[str, AttentionSite]:
    """Return every attention module that declares its role, by path and in the order of the layers."""
    counts: Counter[AttentionKind] = Counter()
    sites = {}
    for path, module in model.named_modules():
        if isinstance(module, TraceableAttention) and (declaration := module.probe.role) is not None:
            sites[path] = AttentionSite(declaration, counts[declaration.kind], module.heads)
            counts[declaration.kind] += 1
    return sites


def find_undeclared_attention(model: nn.Module) -> list[str]:
    """Return the paths of attention modules that do not declare their role."""
    modules = model.named_modules()
    return [path for path, module in modules if isinstance(module, TraceableAttention) and module.probe.role is None]


@dataclass
class AttentionCapture:
    """Everything captured while a model read one text, call by call."""

    sites: dict[str, AttentionSite]
    weights: dict[str, list[Tensor]] = field(default_factory=dict)
    explained: dict[str, list[AttentionTrace]] = field(default_factory=dict)
    inputs: dict[str, list[Tensor]] = field(default_factory=dict)
    outputs: dict[str, list[Tensor]] = field(default_factory=dict)
    embedded: dict[ModelSide, EmbeddingSum] = field(default_factory=dict)

    def build_maps(self, *, heads: Sequence[int] | None = None, with_steps: bool = False) -> tuple[AttentionMap, ...]:
        """Build a map for each attention module, from the first row of the batch, with the given heads or all.
        `with_steps` also keeps queries, keys, values and the other intermediate results.

        Args:
            heads: head numbers to keep; all unless given.
            with_steps: also keep every step between queries and outputs.
        """
        maps = [
            self._build_map(path, site, with_steps=with_steps)
            for path, site in self.sites.items()
            if path in self.weights
        ]
        return tuple(attention_map if heads is None else attention_map.keep_heads(heads) for attention_map in maps)

    def build_embedded_tokens(self) -> tuple[EmbeddedTokens, ...]:
        """Return the embedded tokens of each encoder and decoder: the vectors of words, positions, segments and
        factors.
        """
        return tuple(
            EmbeddedTokens(
                side=side.name,
                axis=side.axis,
                words=_to_array(summands.tokens[0]),
                places=None if summands.positions is None else _to_array(summands.positions[0]),
                segments=None if summands.segments is None else _to_array(summands.segments[0]),
                factors=None if summands.factors is None else _to_array(summands.factors[0]),
            )
            for side, summands in self.embedded.items()
        )

    def list_vector_sizes(self) -> tuple[VectorSize, ...]:
        """Return the embedding size of each encoder and decoder."""
        return tuple(
            VectorSize("embedding", side.name, summands.tokens.size(-1)) for side, summands in self.embedded.items()
        )

    def _build_map(self, path: str, site: AttentionSite, *, with_steps: bool) -> AttentionMap:
        """Build the map of the attention module at `path` from its calls. `site` is its role in the model; `with_steps`
        also keeps queries, keys, values and the other intermediate results.
        """
        weights = torch.cat([call if call.dim() == 4 else call.unsqueeze(1) for call in self.weights[path]], 2)
        return AttentionMap(
            path=path,
            role=site.declaration.kind,
            layer=site.layer,
            heads=tuple(range(weights.size(1))),
            queries=site.declaration.queries,
            keys=site.declaration.keys,
            weights=_to_array(weights[0]),
            visible=torch.cat([call.visible for call in self.explained[path]], 1)[0].cpu().numpy(),
            walk=self._build_steps(path) if with_steps else None,
            edges=None if (edges := self.explained[path][0].edges) is None else _to_array(edges[0]),
        )

    def _build_steps(self, path: str) -> AttentionSteps:
        """Build the intermediate results of the attention module at `path` from its calls: queries, keys, values,
        scores and outputs.
        """
        calls = self.explained[path]
        first, biases = calls[0], [call.bias for call in calls if call.bias is not None]
        return AttentionSteps(
            queries=_concat_calls([call.query for call in calls], 2),
            keys=_to_array(first.key[0]),
            values=_to_array(first.value[0]),
            scale=first.scale,
            bias=_concat_calls(biases, 2) if biases else None,
            scores=_concat_calls([call.scores for call in calls], 2),
            contexts=_concat_calls([call.context for call in calls], 2),
            inputs=_concat_calls(self.inputs[path], 1),
            outputs=_concat_calls(self.outputs[path], 1),
        )


@contextmanager
def capture_attention(
    model: nn.Module, *, layers: Sequence[int] | None = None, sides: Mapping[nn.Module, ModelSide] | None = None
) -> Iterator[AttentionCapture]:
    """Capture the attention of some layers inside the block; the model's results stay the same. Yield the object that
    collects the calls. `layers` are numbers of layers (all unless given); the embedded tokens of `sides` are captured
    too.

    Args:
        model: reads one text at a time.
        layers: layer numbers of each role; all unless given.
        sides: the model's encoders and decoders, whose embedded tokens are captured too.
    """
    sites = {path: site for path, site in find_attention_sites(model).items() if layers is None or site.layer in layers}
    captured = AttentionCapture(sites)
    hooks = {model.get_submodule(path): _make_attention_hook(captured, path) for path in sites}
    for module, side in (sides or {}).items():
        hooks |= {
            embedding: _make_embedding_hook(captured, side)
            for embedding in module.modules()
            if isinstance(embedding, InputEmbedding)
        }
    with watch_attention(model, paths=sites) as captured.weights, register_hooks(hooks):
        yield captured


def _make_attention_hook(captured: AttentionCapture, path: str) -> ForwardHook:
    """Return a hook that stores each call of the attention module at `path` in `captured`: its explanation, input and
    output.
    """

    def hook(module: TraceableAttention, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> None:
        """Store the explanation, input and output of a call."""
        captured.explained.setdefault(path, []).append(module.compute_trace(*args, **kwargs))
        captured.inputs.setdefault(path, []).append(args[0].detach())
        captured.outputs.setdefault(path, []).append(output.detach())

    return hook


def _make_embedding_hook(captured: AttentionCapture, side: ModelSide) -> ForwardHook:
    """Return a hook that stores the summands of a side's embeddings in `captured`: vectors of words, positions and
    segments.
    """

    def hook(module: InputEmbedding, args: tuple[Any, ...], _kwargs: dict[str, Any], _output: Tensor) -> None:
        """Store the summands of a call."""
        captured.embedded[side] = module.embed_parts(*args)

    return hook


def find_position_encodings(model: nn.Module, *, length: int = 64) -> tuple[PositionEncoding, ...]:
    """Return the distinct position encodings of a model, with vectors of the first `length` positions; encodings of
    relative positions have a vector for each distance instead.

    Rotary encodings are shown by rotating a vector of ones: the dot product of two rows is then the score of two such
    vectors.

    Args:
        model: any model.
        length: number of positions, where an encoding has no limit of its own.
    """
    distinct: list[PositionEncoding] = []
    for position_encoding in _iter_position_encodings(model, length):
        if not any(np.array_equal(position_encoding.vectors, other.vectors) for other in distinct):
            distinct.append(position_encoding)
    return tuple(distinct)


def _iter_position_encodings(model: nn.Module, length: int) -> Iterator[PositionEncoding]:
    """Yield the position encoding of every module that has one, with vectors of the first `length` positions."""
    for path, module in model.named_modules():
        if isinstance(module, LearnedPosition):
            yield _build_absolute_encoding(path, module, min(length, module.table.num_embeddings - module.offset))
        elif isinstance(module, AbsolutePosition):
            yield _build_absolute_encoding(path, module, length)
        elif isinstance(module, RotaryPosition):
            ones = module.rate.new_ones(1, 1, length, module.d_k)
            vectors = module.rotate(ones, _make_positions(module.rate, length))[0, 0]
            yield PositionEncoding(f"rotary ({path})", np.arange(length), _to_array(vectors))
        elif isinstance(module, ShawPosition):
            distances = np.arange(-module.clip, module.clip + 1)
            yield PositionEncoding(f"relative to keys ({path})", distances, _to_array(module.key), relative=True)
            if module.value is not None:
                yield PositionEncoding(
                    f"relative to values ({path})", distances, _to_array(module.value), relative=True
                )


def _build_absolute_encoding(path: str, module: AbsolutePosition, length: int) -> PositionEncoding:
    """Build the encoding of the first `length` positions by a module; its name contains the module's `path` in the
    model.
    """
    tensors = [*module.parameters(), *module.buffers()]
    vectors = module(_make_positions(tensors[0] if tensors else torch.empty(0), length))[0]
    name = type(module).__name__.removesuffix("Position").lower()
    return PositionEncoding(f"{name} ({path})", np.arange(length), _to_array(vectors))


def _make_positions(like: Tensor, length: int) -> Tensor:
    """Return positions from 0, [1, length], on the device of `like`."""
    return torch.arange(length, device=like.device).unsqueeze(0)


def _concat_calls(calls: Sequence[Tensor], dim: int) -> np.ndarray:
    """Concatenate the first row of several calls along a dimension."""
    return _to_array(torch.cat(list(calls), dim)[0])


def _to_array(tensor: Tensor) -> np.ndarray:
    """Convert a tensor to a float32 array on the CPU."""
    return tensor.detach().float().cpu().numpy()


@contextmanager
def watch_attention(
    model: nn.Module, *, detach: bool = True, paths: Container[str] | None = None
) -> Iterator[dict[str, list[Tensor]]]:
    """Collect the weights of every attention module that runs inside the block, or only of those at `paths`. Gradients
    can flow through the weights only if `detach` is False.

    This makes attention compute its weights where a fused kernel would not; results stay the same.

    Args:
        model: whose attention is watched.
        detach: detach the weights from the graph; False lets a loss use them.
        paths: paths of the attention modules to watch; all unless given. The others keep their fast kernels.

    Yields:
        For each attention module, by its path in the model, the weights of its calls in order, each [B, H, Q, K] or
        [B, Q, K].
    """
    weights_by_path: dict[str, list[Tensor]] = {}

    def make_reader(name: str) -> WeightsHook:
        """Return a function that stores the weights of one module."""
        return lambda weights: weights_by_path.setdefault(name, []).append(weights.detach() if detach else weights)

    probes = {name: probe for name, probe in iter_probes(model) if paths is None or name in paths}
    with intercept_weights({probe: make_reader(name) for name, probe in probes.items()}):
        yield weights_by_path


def iter_probes(model: nn.Module) -> Iterator[tuple[str, HookPoint]]:
    """Yield every attention probe of a model with the path of its module."""
    for path, module in model.named_modules():
        if isinstance(module, HookPoint):
            yield path.rpartition(".")[0], module


@contextmanager
def disable_head(model: nn.Module, path: str, *, head: int) -> Iterator[None]:
    """Set all weights of one head of the attention module at `path` to 0 inside the block (Michel et al. 2019, eq. 2).

    Args:
        model: that contains the attention module.
        path: of the attention module in the model.
        head: counted from 0; attention without heads has the head 0.
    """
    attention = model.get_submodule(path)
    assert isinstance(attention, TraceableAttention)

    def zero_head(weights: Tensor) -> Tensor:
        """Return the weights with those of the head set to 0."""
        if weights.dim() == 3:
            return weights * 0
        zeroed = weights.clone()
        zeroed[:, head] = 0
        return zeroed

    with intercept_weights({attention.probe: zero_head}):
        yield


ForwardHook = Callable[[Any, tuple[Any, ...], dict[str, Any], Tensor], Tensor | None]
"""Gets a module, the arguments of a call, and its output; may give another output instead."""

_ACTIVE_HOOKS: ContextVar[frozenset[object]] = ContextVar("listening", default=frozenset())
_REGISTRATION_LOCK = Lock()  # PyTorch counts hooks without one, so that two threads could get the same number


@contextmanager
def register_hooks(hooks: Mapping[nn.Module, ForwardHook]) -> Iterator[None]:
    """Call a module's hook after each of its forward calls inside the block; what the hook returns replaces the output,
    unless it is None.
    """
    token = object()

    def wrap_hook(forward_hook: ForwardHook) -> Callable[..., Tensor | None]:
        # Other threads call it too. While a hook is added or removed, they may call it without the keywords.
        """Return a PyTorch hook that calls `forward_hook` only in this thread or task."""

        def call_hook(module: nn.Module, args: tuple[Any, ...], *rest: Any) -> Tensor | None:
            """Call the hook if this block is active."""
            if token not in _ACTIVE_HOOKS.get():
                return None
            keywords, output = rest
            return forward_hook(module, args, keywords, output)

        return call_hook

    with ExitStack() as stack:
        with _REGISTRATION_LOCK:
            for module, heard in hooks.items():
                stack.callback(module.register_forward_hook(wrap_hook(heard), with_kwargs=True).remove)
        _ACTIVE_HOOKS.set(_ACTIVE_HOOKS.get() | {token})
        stack.callback(lambda: _ACTIVE_HOOKS.set(_ACTIVE_HOOKS.get() - {token}))
        yield
