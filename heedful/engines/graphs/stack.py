"""A Transformer stack whose steps of one token are recorded as CUDA graphs, with keys and values in pages."""

from __future__ import annotations

from functools import partial
from threading import Lock
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.hooks import has_weight_hooks
from heedful.attention.mask_functions import SlidingWindow, causal
from heedful.attention.multihead import MultiHeadAttention
from heedful.attention.positions import BucketBias, LinearBias, NoPosition, RotaryPosition, ShawPosition
from heedful.attention.scores import ScaledSoftmax
from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.transformer import (
    ParallelTransformerLayer,
    StackState,
    TransformerLayer,
    TransformerStack,
    replace_stacks,
)
from heedful.engines.bfloat16 import BFloat16Attention
from heedful.engines.graphs.recorder import build_recorder
from heedful.engines.graphs.runner import PagedRunner
from heedful.engines.graphs.state import PagedState
from heedful.recipes.recipe import EngineName
from heedful.tensors import FeatureBatch, Memories, MultiStepSearch, StepsOutput, Tokens, select_memories


class GraphStack(TransformerStack):
    """A stack with the same modules, computed in pages and recorded steps unless hooks or gradients are needed.

    Args:
        stack: the stack whose modules are used; it must be one that `is_supported`.
        engine_name: name of the engine that it belongs to.
    """

    def __init__(self, stack: TransformerStack, *, engine_name: EngineName = "torch-graphs") -> None:
        self.share_parts(stack)
        self.engine_name = engine_name
        self._runner: PagedRunner | None = None
        self._submodules = tuple(self.modules())

    def __getstate__(self) -> dict[str, Any]:  # a copy has other weights, and pages of its own
        return {**self.__dict__, "_runner": None}

    @property
    def runner(self) -> PagedRunner:
        """The pages and recorded steps; created at the first call."""
        with _CREATION_LOCK:
            if self._runner is None:
                self._runner = PagedRunner(self, partial(build_recorder, next(self.parameters()).device))
        return self._runner

    def init_state(self, memory: Memories | None) -> StackState | PagedState:  # type: ignore[override]
        """Return the state before the first token, with the memory or memories projected (None for none): a
        `StackState` of plain modules if gradients are enabled or a module has hooks, else a `PagedState`.
        """
        if torch.is_grad_enabled() or has_weight_hooks() or any(module._forward_hooks for module in self._submodules):
            return super().init_state(memory)
        names = dict.fromkeys(name for layer in self._iter_layers() for name in layer.memory_names)
        return self.runner.init_state(select_memories(memory, names))

    def forward(  # type: ignore[override]
        self, tokens: Tokens | FeatureBatch, state: StackState | PagedState
    ) -> tuple[Float[Tensor, "B T d_model"], StackState | PagedState]:
        """Return the hidden vectors of the tokens and the state after them."""
        if isinstance(state, StackState):
            return super().forward(tokens, state)
        if torch.is_grad_enabled() or has_weight_hooks():
            return super().forward(tokens, self.runner.to_stack_state(state))
        assert isinstance(tokens, Tokens), "only stacks that read tokens are computed in pages"
        return self.runner.run(tokens, state)

    def decode_steps(  # type: ignore[override]
        self,
        output: nn.Linear,
        tokens: Tokens,
        state: StackState | PagedState,
        *,
        search: MultiStepSearch[StepsOutput],
    ) -> tuple[StepsOutput, StackState | PagedState] | None:
        """Return None: a recording is a single step."""
        return None


_CREATION_LOCK = Lock()


def is_supported(stack: TransformerStack) -> bool:
    """Return whether all parts of a stack do the same operations on tensors of the same sizes, whatever they hold, and
    none reads the future.
    """
    layers = list(stack.layers)
    sees_past = stack.visibility is causal or (
        isinstance(stack.visibility, SlidingWindow) and not stack.visibility.after
    )
    return bool(
        layers
        and sees_past
        and type(stack.embedding) is TokenEmbedding
        and all(
            type(layer) in (TransformerLayer, ParallelTransformerLayer)
            and isinstance(layer, TransformerLayer)
            and all(map(_is_supported_attention, _list_attentions(layer)))
            for layer in layers
        )
    )


def _list_attentions(layer: TransformerLayer) -> list[MultiHeadAttention]:
    return [layer.attention, *(layer.get_cross_attention(name)[0] for name in layer.memory_names)]


def _is_supported_attention(attention: MultiHeadAttention) -> bool:
    return (
        type(attention) in (MultiHeadAttention, BFloat16Attention)
        and type(attention.weigher) is ScaledSoftmax
        and type(attention.relative) in (NoPosition, RotaryPosition, LinearBias, BucketBias, ShawPosition)
    )


def replace_with_graphs(model: nn.Module, *, engine_name: EngineName = "torch-graphs") -> int:
    """Replace all supported stacks of a model, in place; return their number."""

    def create_stack(stack: TransformerStack) -> GraphStack | None:
        return GraphStack(stack, engine_name=engine_name) if is_supported(stack) else None

    return replace_stacks(model, create_stack)
