"""The Transformer: layers and stacks, and their decoding state (KV caches)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from heedful.attention import kernels
from heedful.attention.hooks import CROSS, HookPoint, assign_roles, has_inner_hooks
from heedful.attention.kv_cache import ALL_KEYS, KVCache, PendingSelection
from heedful.attention.mask import AttentionMask, CacheLayout
from heedful.attention.mask_functions import MaskFunction, bidirectional
from heedful.attention.multihead import MultiHeadAttention
from heedful.attention.normalizers import format_callable
from heedful.blocks.embedding import InputEmbedding
from heedful.blocks.feedforward import FeedForward
from heedful.blocks.layer_compiler import LayerCompiler
from heedful.blocks.layer_info import LayerInfo
from heedful.blocks.residual import PreNorm, ResidualConnection
from heedful.tensors import (
    SOURCE,
    FeatureBatch,
    Memories,
    Memory,
    MultiStepSearch,
    RowSelection,
    StepsOutput,
    Tokens,
    as_mapping,
    count_used_columns,
    require_same_width,
    select_memories,
    select_rows,
)

_FAR = 1000
"""Distance that counts as unlimited when a layer is described."""


class _CachedAttention:
    """Self-attention as a sublayer: tokens attend to the past and to themselves, and are appended to the past.

    Attributes:
        past: keys and values of all tokens so far; None before the first ones.
    """

    def __init__(self, attention: MultiHeadAttention, past: KVCache | None, mask: AttentionMask) -> None:
        self.attention, self.past, self.mask = attention, past, mask

    def __call__(self, x: Float[Tensor, "G Q d_model"]) -> Float[Tensor, "G Q d_model"]:
        """Append the tokens to the past and attend to all of it that the mask shows."""
        new = self.attention.project_memory(x, x, self.mask.positions)
        self.past = new if self.past is None else self.past.extend(new)
        result: Tensor = self.attention(x, self.past, mask=self.mask)
        return result


class TransformerLayer(nn.Module):
    """Self-attention, cross-attention to each memory, and a feed-forward network, each inside a residual connection.

    Several memories are attended to one after the other ("serial" in Libovický et al. 2018, section 3). The attention
    to the memory `source` is called `across`, that to any other `across-NAME`.

    Args:
        attention: self-attention of the tokens.
        feed_forward: network after the attentions.
        residual: creates the residual connection around each sublayer.
        across: attention to the only memory, or to several by name, in order; decoders have it, encoders and GPT do
            not.
    """

    def __init__(
        self,
        attention: MultiHeadAttention,
        feed_forward: FeedForward,
        *,
        residual: Callable[[], ResidualConnection],
        across: MultiHeadAttention | Mapping[str, MultiHeadAttention] | None = None,
    ) -> None:
        super().__init__()
        attentions = as_mapping(across)
        self.memory_names = tuple(attentions)
        suffixes = {name: "" if name == SOURCE else f"-{name}" for name in self.memory_names}
        self._module_names = {name: (f"across{suffix}", f"around_across{suffix}") for name, suffix in suffixes.items()}
        self.attention = attention
        self.across = attentions.get(SOURCE)
        for name in self._other_memory_names():
            self.add_module(f"across-{name}", attentions[name])
        self.feed_forward = feed_forward
        self.around_attention = residual()
        self.around_across = residual() if self.across is not None else None
        for name in self._other_memory_names():
            self.add_module(f"around_across-{name}", residual())
        self.around_feed_forward = residual()
        for name, attention_across in attentions.items():
            assign_roles(attention_across, replace(CROSS, keys=name))

    def share_weights(self, other: TransformerLayer) -> None:
        """Replace all maps and norms by those of another layer without memories, which both layers then have (Lan et
        al. 2020, 3.1). Each keeps its own hook point, so that their attention weights can be told apart.
        """
        for own, shared in ((self.attention, other.attention), (self, other)):
            for name, module in shared.named_children():
                if not isinstance(module, HookPoint | MultiHeadAttention):
                    own.add_module(name, module)

    def init_state(self, memories: Mapping[str, Memory]) -> LayerState:
        """Return the state before the first token; a layer may attend to some of the memories, or to none."""
        return LayerState(None, {name: self._project_memory(name, memories[name]) for name in self.memory_names})

    def forward(
        self,
        x: Float[Tensor, "G Q d_model"],
        state: LayerState,
        *,
        mask: AttentionMask,
        cross_masks: Mapping[str, AttentionMask],
        compiler: LayerCompiler | None = None,
    ) -> tuple[Float[Tensor, "G Q d_model"], LayerState]:
        """Apply the layer to tokens, given its state before them; `mask` and `cross_masks` say what the tokens see of
        each other and of each memory. Also return the new state. `compiler` makes and runs compiled code.
        """
        if compiler is None:
            return self.compute(x, state, mask=mask, cross_masks=cross_masks)
        return compiler.run(self, x, state, mask=mask, cross_masks=cross_masks)

    def compute(
        self,
        x: Float[Tensor, "G Q d_model"],
        state: LayerState,
        *,
        mask: AttentionMask,
        cross_masks: Mapping[str, AttentionMask],
    ) -> tuple[Float[Tensor, "G Q d_model"], LayerState]:
        """Compute what `forward` returns, without compiled code."""
        attend = _CachedAttention(self.attention, state.past, mask)
        x = self.around_attention(x, attend)
        for name in self.memory_names:
            attention, residual = self.get_cross_attention(name)
            x = residual(x, partial(attention, memory=state.memories[name], mask=cross_masks[name]))
        x = self.around_feed_forward(x, self.feed_forward)
        return x, LayerState(attend.past, state.memories)

    def _project_memory(self, name: str, memory: Memory) -> KVCache:
        """Project the keys and values of a memory for this layer."""
        attention, _ = self.get_cross_attention(name)
        return attention.project_memory(memory.keys, memory.values, memory.positions).to_contiguous()

    def get_cross_attention(self, name: str) -> tuple[MultiHeadAttention, ResidualConnection]:
        """Return the attention to a memory and the residual connection around it."""
        attention_name, residual_name = self._module_names[name]
        return getattr(self, attention_name), getattr(self, residual_name)

    def iter_residuals(self) -> Iterator[ResidualConnection]:
        """Yield the residual connection of each sublayer, in order."""
        yield self.around_attention
        yield from (self.get_cross_attention(name)[1] for name in self.memory_names)
        yield self.around_feed_forward

    def _other_memory_names(self) -> Iterable[str]:
        """Return the names of all memories except `source`."""
        return (name for name in self.memory_names if name != SOURCE)


class ParallelTransformerLayer(TransformerLayer):
    """Transformer layer whose attention and feed-forward network read the same input: x + f(LN(x)) + g(LN'(x)) (Wang
    and Komatsuzaki 2021; Black et al. 2022, 2.1.2).

    It takes pre-norm residual connections and no memories.
    """

    def compute(
        self,
        x: Float[Tensor, "G Q d_model"],
        state: LayerState,
        *,
        mask: AttentionMask,
        cross_masks: Mapping[str, AttentionMask],
    ) -> tuple[Float[Tensor, "G Q d_model"], LayerState]:
        """Apply both sublayers to the tokens, given the layer's state before them. Also return the new state."""
        assert isinstance(self.around_attention, PreNorm)
        assert isinstance(self.around_feed_forward, PreNorm)
        attend = _CachedAttention(self.attention, state.past, mask)
        attended = self.around_attention.dropout.add_dropped(x, self.around_attention.compute_branch(x, attend))
        fed = self.around_feed_forward.compute_branch(x, self.feed_forward)
        return self.around_feed_forward.dropout.add_dropped(attended, fed), LayerState(attend.past, state.memories)


class TransformerStack(nn.Module):
    """Input embedding and Transformer layers.

    Args:
        embedding: of the tokens, or of vectors.
        layers: from the first to the last.
        visibility: mask function of self-attention.
        final_norm: norm after the last layer; pre-norm stacks need it.

    Attributes:
        gradient_checkpointing: whether training stores only the input of each layer, and computes the layer again in
            the backward pass, with the same dropout (Chen et al. 2016). Gradients stay the same. A layer whose
            attention weights are read by a hook is not computed again.
        compiler: compiles the layers for training; None to compile nothing. Evaluation is not compiled: it is a small
            part of training, reads tokens one by one with caches that grow in place, and would need graphs of its own.
            Neither are calls whose inner values a hook reads, and texts of a single token.
    """

    def __init__(
        self,
        embedding: InputEmbedding,
        layers: Iterable[TransformerLayer],
        *,
        visibility: MaskFunction,
        final_norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(layers)
        self.visibility = visibility
        self.final_norm = final_norm
        self.gradient_checkpointing = False
        self.compiler: LayerCompiler | None = None

    def share_parts(self, stack: TransformerStack) -> None:
        """Use the modules and settings of another stack. Subclasses that compute in another way call it instead of
        `__init__`.
        """
        nn.Module.__init__(self)
        vars(self).update({name: value for name, value in vars(stack).items() if name not in vars(self)})
        for name, module in stack.named_children():
            self.add_module(name, module)
        self.training = stack.training

    def extra_repr(self) -> str:
        """Return the settings that `print` shows for this module."""
        return f"visibility={format_callable(self.visibility)}"

    def describe_layers(self) -> tuple[LayerInfo, ...]:
        """Return a description of each layer; its context is measured by applying the mask function to a long text."""
        positions = torch.arange(2 * _FAR + 1, device="cpu")
        visible = (
            self.visibility(positions[_FAR].view(1, 1, 1), positions.view(1, 1, -1))[0, 0].nonzero().flatten().tolist()
        )
        before, after = _FAR - min(visible), max(visible) - _FAR
        context = None if before == _FAR else before, None if after == _FAR else after
        return tuple(
            LayerInfo("self-attention", *context, across=layer.memory_names, width=layer.attention.query.in_features)
            for layer in self._iter_layers()
        )

    def init_state(self, memory: Memories | None) -> StackState:
        """Return the state before the first token, with the given memory or memories (None for none) projected by each
        layer.
        """
        names = dict.fromkeys(name for layer in self._iter_layers() for name in layer.memory_names)
        memories = select_memories(memory, names)
        slots = {name: CacheLayout(memory_item.positions) for name, memory_item in memories.items()}
        return StackState(None, slots, tuple(layer.init_state(memories) for layer in self._iter_layers()))

    def forward(
        self, tokens: Tokens | FeatureBatch, state: StackState
    ) -> tuple[Float[Tensor, "B T d_model"], StackState]:
        """Return the hidden vectors of the tokens and the state after them."""
        rows, length = tokens.positions.shape
        x: Tensor = self.embedding(tokens)
        # rows of a group are next to each other, so that they share the group's keys in one product
        state, groups = state.materialize(state.width * length), rows // state.width
        x = x.view(groups, state.width * length, x.size(-1))
        positions = tokens.positions.reshape(groups, state.width * length)
        past = state.extend_past(positions)
        mask = past.build_mask(positions, self.visibility)
        cross_masks = {name: slots.build_mask(positions, bidirectional) for name, slots in state.memories.items()}
        compiler = self._choose_compiler(positions, state)
        if compiler is not None:
            mask = mask.to_canonical_form()
            cross_masks = {name: cross_mask.to_canonical_form() for name, cross_mask in cross_masks.items()}
            x = x.clone()  # not a view, like the result of a layer
        layers = []
        for layer, old_state in zip(self._iter_layers(), state.layers, strict=True):
            run_layer = partial(layer, mask=mask, cross_masks=cross_masks, compiler=compiler)
            if self._is_computed_again(layer):
                x, new_state = checkpoint(run_layer, x, old_state, use_reentrant=False)
            else:
                x, new_state = run_layer(x, old_state)
            layers.append(new_state)
        if self.final_norm is not None:
            x = self.final_norm(x)
        return x.view(rows, length, x.size(-1)), StackState(past, state.memories, tuple(layers), state.width)

    def decode_steps(
        self, output: nn.Linear, tokens: Tokens, state: StackState, *, search: MultiStepSearch[StepsOutput]
    ) -> tuple[StepsOutput, StackState] | None:
        """Return None: this stack has no faster way than step by step (see
        `heedful.models.interface.Decoder.decode_steps`).
        """
        return None

    def _choose_compiler(self, positions: Int[Tensor, "G wQ"], state: StackState) -> LayerCompiler | None:
        """Return what computes the layers for queries at `positions`; None if they are not compiled."""
        if self.compiler is None or not (self.training and torch.is_grad_enabled()):
            return None
        lengths = (positions.size(1), *(slots.positions.size(1) for slots in state.memories.values()))
        if min(lengths) < 2:  # PyTorch would compile each combination of single tokens by itself
            return None
        return None if any(map(has_inner_hooks, self._iter_layers())) else self.compiler

    def _is_computed_again(self, layer: TransformerLayer) -> bool:
        """Return whether the backward pass computes this layer again."""
        return (
            self.gradient_checkpointing
            and self.training
            and torch.is_grad_enabled()
            and not any(isinstance(module, HookPoint) and module.is_watched for module in layer.modules())
        )

    def _iter_layers(self) -> Iterable[TransformerLayer]:
        for layer in self.layers:
            assert isinstance(layer, TransformerLayer)
            yield layer


_SPARE_STEPS = 8
"""Spare steps per row when keys are copied without unneeded ones; the copy is repeated when they are used up."""


@dataclass(frozen=True)
class LayerState:
    """Caches of one layer: its own past, and each memory projected by this layer."""

    past: KVCache | None = None
    memories: Mapping[str, KVCache] = field(default_factory=dict)

    def apply_selection(self, selection: PendingSelection, *, spare_keys: int) -> LayerState:
        """Return the caches of a selection of keys and groups; reserve room for `spare_keys` further keys of the
        past.
        """
        group_selection = PendingSelection(selection.groups)
        past = None if self.past is None else self.past.apply_selection(selection, spare_keys=spare_keys)
        return LayerState(
            past, {name: memory.apply_selection(group_selection) for name, memory in self.memories.items()}
        )


@dataclass(frozen=True)
class StackState:
    """Decoding state of a stack: layouts of the keys, shared by all layers, and the caches of each layer.

    Reordering rows only indexes small tables. Keys and values stay where they are, and a pending selection records
    which of them are meant; they are copied once, when they are next read or concatenated, without unneeded keys.

    Attributes:
        past: layout of the tokens read so far.
        memories: layout of each memory.
        layers: keys and values of each layer.
        width: rows in a group.
        selection: which keys of `layers` the layouts refer to.
    """

    past: CacheLayout | None
    memories: Mapping[str, CacheLayout]
    layers: tuple[LayerState, ...]
    width: int = 1
    selection: PendingSelection = ALL_KEYS

    def extend_past(self, positions: Int[Tensor, "G wQ"]) -> CacheLayout:
        """Return the layout of the past after reading tokens at `positions` (rows of a group side by side)."""
        past = self.past
        if past is None:
            past = CacheLayout(positions.new_empty(positions.size(0), 0), width=self.width)
        return past.extend(positions)

    def reorder(self, rows: RowSelection) -> StackState:
        """Return the state whose rows are the selected rows of this one."""
        groups = rows.source_groups(self.width)
        state = replace(
            self, past=select_rows(self.past, rows), memories=select_rows(self.memories, rows), width=rows.width
        )
        return state if groups is None else state._drop_unneeded_keys(groups)

    def materialize(self, new_keys: int) -> StackState:
        """Apply the pending selection and reserve room for `new_keys` further keys in each group."""
        state, past = self, self.layers[0].past
        if self.selection.is_identity and self.width > 1 and past is not None and not past.has_room(new_keys):
            state = self._drop_unneeded_keys(None)  # they are copied anyway
        if state.selection.is_identity:
            return state
        layers = tuple(
            layer.apply_selection(state.selection, spare_keys=new_keys + _SPARE_STEPS * self.width)
            for layer in state.layers
        )
        return replace(state, layers=layers, selection=ALL_KEYS)

    def concat(self, others: Sequence[StackState]) -> StackState:
        """Concatenate the rows of this state and of `others`; the newest keys of all are in the last column."""
        states = tuple(part._drop_unneeded_keys(None) for part in (self, *others))
        width = require_same_width(part.width for part in states)
        with_past = next((part for part in states if part.past is not None), None)
        if with_past is not None:
            states = tuple(part._with_empty_past(with_past) if part.past is None else part for part in states)
        pasts = [part.past for part in states if part.past is not None]
        memory_lengths = [
            {name: count_used_columns(slots.positions) for name, slots in part.memories.items()} for part in states
        ]
        return StackState(
            past=CacheLayout.concat_groups(pasts, pad_left=True) if pasts else None,
            memories={
                name: CacheLayout.concat_groups(
                    [
                        part.memories[name].truncate(size[name])
                        for part, size in zip(states, memory_lengths, strict=True)
                    ],
                    pad_left=False,
                )
                for name in self.memories
            },
            layers=tuple(_concat_layer(states, memory_lengths, layer=number) for number in range(len(self.layers))),
            width=width,
        )

    def _drop_unneeded_keys(self, groups: Int[Tensor, " G"] | None) -> StackState:
        """Add to the pending selection: drop unneeded keys, and keep these groups."""
        past, columns = self.past, None
        if past is not None and not kernels.is_tracing() and (columns := past.needed_columns()) is not None:
            past = past.select_columns(columns)
        return replace(self, past=past, selection=self.selection.compose(groups, columns))

    def _with_empty_past(self, reference: StackState) -> StackState:
        """Return this state, which has read nothing, with an empty past shaped like that of `reference`."""
        assert self.memories, "a state without a memory has no rows before its first token and cannot be joined"
        positions = next(iter(self.memories.values())).positions
        groups = len(positions)
        pasts = [None if layer.past is None else layer.past.new_empty(groups) for layer in reference.layers]
        layers = tuple(replace(layer, past=past) for layer, past in zip(self.layers, pasts, strict=True))
        return replace(self, past=CacheLayout(positions.new_empty(groups, 0), width=self.width), layers=layers)


def _concat_layer(
    states: Sequence[StackState], memory_lengths: Sequence[Mapping[str, int]], *, layer: int
) -> LayerState:
    """Concatenate one layer of all states; each memory is cut to its length in `memory_lengths`."""
    layers = [state.layers[layer] for state in states]
    pasts = [
        (layer_state.past, state.selection)
        for layer_state, state in zip(layers, states, strict=True)
        if layer_state.past is not None
    ]
    memories = {
        name: KVCache.concat_groups(
            [
                (
                    layer_state.memories[name],
                    PendingSelection(state.selection.groups, state.memories[name].first_columns(lengths[name])),
                )
                for layer_state, state, lengths in zip(layers, states, memory_lengths, strict=True)
            ],
            pad_left=False,
        )
        for name in layers[0].memories
    }
    return LayerState(
        KVCache.concat_groups(pasts, pad_left=True, spare_keys=_SPARE_STEPS * states[0].width) if pasts else None,
        memories,
    )


def replace_stacks(model: nn.Module, create_stack: Callable[[TransformerStack], TransformerStack | None]) -> int:
    """Replace stacks of a model by those that a function creates from them, in place; return their number. None keeps a
    stack. Stacks that were replaced before are kept too.
    """
    count = 0
    for name, module in list(model.named_modules()):
        new_stack = create_stack(module) if type(module) is TransformerStack else None
        if new_stack is not None:
            parent_name, _, attribute = name.rpartition(".")
            setattr(model.get_submodule(parent_name), attribute, new_stack)
            count += 1
    return count
