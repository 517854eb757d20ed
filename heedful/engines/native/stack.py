"""A Transformer stack whose chunks are computed by native code in one call."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.hooks import has_weight_hooks
from heedful.blocks.transformer import StackState, TransformerStack
from heedful.engines.native.plan import NativePlan, is_supported
from heedful.engines.native.state import CrossMemory, KVPages, NativeState
from heedful.native import data_pointer, load_library
from heedful.tensors import FeatureBatch, Memories, Memory, MultiStepLimits, MultiStepOutput, Tokens, select_memories


class NativeStack(TransformerStack):
    """A stack with the same modules, computed by native code unless hooks or gradients are needed.

    Args:
        stack: the stack whose modules are used.
    """

    def __init__(self, stack: TransformerStack) -> None:
        nn.Module.__init__(self)
        for name, module in stack.named_children():
            self.add_module(name, module)
        self.visibility = stack.visibility
        self.final_norm = stack.final_norm
        self.gradient_checkpointing = stack.gradient_checkpointing
        self.training = stack.training
        self._plan: NativePlan | None = None
        self._submodules = tuple(self.modules())

    def __getstate__(self) -> dict[str, Any]:  # a copy has other addresses
        return {**self.__dict__, "_plan": None}

    def init_state(self, memory: Memories | None) -> StackState | NativeState:  # type: ignore[override]
        """Return the state before the first token, with the memory or memories projected (None for none): a
        `StackState` of plain modules if gradients are enabled or a module has hooks, else a `NativeState`.
        """
        if torch.is_grad_enabled() or self._has_hooks():
            return super().init_state(memory)
        names = dict.fromkeys(name for layer in self._iter_layers() for name in layer.memory_names)
        memories = select_memories(memory, names)
        return NativeState({name: self._project_memory(name, item) for name, item in memories.items()})

    def forward(  # type: ignore[override]
        self, tokens: Tokens | FeatureBatch, state: StackState | NativeState
    ) -> tuple[Float[Tensor, "B T d_model"], StackState | NativeState]:
        """Return the hidden vectors of the tokens and the state after them; zeros where there is no token."""
        if isinstance(state, StackState):
            return super().forward(tokens, state)
        if torch.is_grad_enabled() or has_weight_hooks():
            plan = self._get_plan()
            return super().forward(tokens, state.to_stack_state(depth=plan.depth, heads=plan.key_value_heads))
        assert not state.is_closed, "all tokens of this stack see all others, so no tokens can be added later"
        return self._run_native(tokens, state)

    def _has_hooks(self) -> bool:
        return has_weight_hooks() or any(module._forward_hooks for module in self._submodules)

    def _get_plan(self) -> NativePlan:
        """Return the structures that native code reads; they are built at the first call."""
        if self._plan is None:
            native = load_library()
            assert native is not None
            self._plan = NativePlan(native, self)
        return self._plan

    def _project_memory(self, name: str, memory: Memory) -> CrossMemory:
        """Return the memory called `name` with its keys and values projected for all layers."""
        plan = self._get_plan()
        rows, slots = memory.positions.shape
        numbers = memory.keys.new_empty(plan.depth, rows, slots, 2, plan.key_value_width)
        for layer, out in enumerate(numbers):
            plan.project_memory(layer, name, memory.keys, out)
            if memory.values is not memory.keys:
                values = torch.empty_like(out)
                plan.project_memory(layer, name, memory.values, values)
                out[:, :, 1] = values[:, :, 1]
        return CrossMemory.from_projection(numbers, memory.positions.int().contiguous())

    def decode_greedy(  # type: ignore[override]
        self, output: nn.Linear, tokens: Tokens, state: StackState | NativeState, *, limits: MultiStepLimits
    ) -> tuple[MultiStepOutput, StackState | NativeState] | None:
        """Run several steps of greedy search in one call, from the first token of each row and the state before it,
        within the limits; `output` makes logits. None if hooks or gradients are needed or positions may run out.
        """
        if isinstance(state, StackState) or torch.is_grad_enabled() or has_weight_hooks() or output._forward_hooks:
            return None
        plan = self._get_plan()
        call = _NativeCall(plan, tokens, state, steps=limits.max_steps)
        output_tokens = call.generate(plan.describe_output(output), limits)
        return None if output_tokens is None else (output_tokens, call.build_state(len(output_tokens.ids)))

    def _run_native(self, tokens: Tokens | FeatureBatch, state: NativeState) -> tuple[Tensor, NativeState]:
        """Compute a chunk in native code."""
        call = _NativeCall(self._get_plan(), tokens, state)
        return call.forward(), call.build_state()


class _NativeCall:
    """Arguments of a native call: tokens, storage of their keys and values, and memories; it also builds the new state.

    Args:
        plan: of the stack.
        tokens: tokens to read first.
        state: state before them.
        steps: number of tokens to read of each row, if these are not known beforehand.
    """

    def __init__(
        self, plan: NativePlan, tokens: Tokens | FeatureBatch, state: NativeState, *, steps: int | None = None
    ) -> None:
        self._plan, self._old_state, native = plan, state, plan.library
        self._positions = tokens.positions.contiguous()
        rows, length = self._positions.shape
        assert state.table is None or len(state.table) == rows, f"{rows} rows for {len(state.table)} of a state"
        new_tokens = length if steps is None else steps
        self._pages, self._first_column = _reserve_pages(plan, state, rows=rows, new_tokens=new_tokens)
        self._table = torch.empty(rows * (state.num_columns + new_tokens) * 2, dtype=torch.int32)
        self._inputs = _input_tensors(tokens)
        ids, segments, vectors = map(data_pointer, self._inputs)
        self._chunk = native.Chunk(ids, self._positions.data_ptr(), segments, vectors, rows, length)
        numbers = self._pages.numbers
        self._cache = native.Cache(
            numbers[:, :, self._first_column :].data_ptr(),
            *(numbers.size(1), numbers.size(2), 0 if plan.is_bidirectional else numbers.stride(0)),
            *(data_pointer(state.table), state.num_columns, self._table.data_ptr()),
        )
        self._memories = (native.Memory * len(state.memories))(
            *(memory.native_addresses for memory in state.memories.values())
        )

    def forward(self) -> Float[Tensor, "B T d_model"]:
        """Compute the hidden vectors of the tokens."""
        plan, hidden = self._plan, torch.empty(*self._positions.shape, self._plan.width)
        inputs, outputs = (
            (plan.stack, self._chunk, self._cache, self._memories),
            (hidden.data_ptr(), torch.get_num_threads()),
        )
        while not self._is_done(plan.library.forward(*inputs, *outputs)):
            plan.extend_positions(int(self._positions.max()) + 1)
        return hidden

    def generate(self, output: Any, limits: MultiStepLimits) -> MultiStepOutput | None:
        """Generate tokens greedily up to the given limits; None if they may exceed the number of positions. `output` is
        the native description of the output layer.
        """
        plan, native = self._plan, self._plan.library
        rows, steps, forbidden = len(limits.done), limits.max_steps, limits.suppressed_ids.contiguous()
        old_rows = [tensor.contiguous() for tensor in (limits.positions, limits.lengths, limits.done)]
        new_rows, row_limits = [torch.empty_like(tensor) for tensor in old_rows], limits.limits.contiguous()
        options = native.Writing(row_limits.data_ptr(), forbidden.data_ptr(), len(forbidden), limits.eos, steps)
        (ids, positions), values = torch.empty(2, steps, rows, dtype=torch.long).unbind(), torch.empty(steps, rows)
        counts = torch.empty(2, dtype=torch.long)
        inputs = plan.stack, output, self._chunk, self._cache, self._memories, options
        row_states = [native.Growing(*map(data_pointer, tensor)) for tensor in (old_rows, new_rows)]
        outputs = *(tensor.data_ptr() for tensor in (ids, values, positions, counts)), torch.get_num_threads()
        while not self._is_done(native.write(*inputs, *row_states, *outputs)):
            if plan.is_bounded:
                return None
            plan.extend_positions(int(self._positions.max()) + 1 + steps)
        num_steps, failed = counts.tolist()
        return MultiStepOutput(ids[:num_steps], values[:num_steps], positions[:num_steps], new_rows[2], failed)

    def build_state(self, steps: int | None = None) -> NativeState:
        """Return the state after this call: after all its tokens or, if given, after `steps` tokens of each row."""
        old_state, (rows, length) = self._old_state, self._positions.shape
        if self._plan.is_bidirectional:
            return NativeState(old_state.memories, is_closed=True)
        columns = old_state.num_columns + (length if steps is None else steps)
        table = self._table[: rows * columns * 2].view(rows, columns, 2)
        return NativeState(old_state.memories, self._pages, table, self._first_column)

    def _is_done(self, status: int) -> bool:
        """Return whether the call finished, by the status that it returned; raise `IndexError` for an unknown token
        id.
        """
        if status == self._plan.library.NO_SUCH_ENTRY:
            raise IndexError("the embedding has no row for one of the token ids")
        return bool(status == self._plan.library.DONE)


def _reserve_pages(plan: NativePlan, state: NativeState, *, rows: int, new_tokens: int) -> tuple[KVPages, int]:
    """Return pages of a state with room for the newest tokens of `rows` rows, and the column of the first key; a text
    read at once reuses one layer.
    """
    pages = state.pages
    if pages is None:
        pages = KVPages.empty(1 if plan.is_bidirectional else plan.depth, rows, plan.key_value_width)
    return pages.reserve_columns(state.page_columns, rows=rows, new_columns=new_tokens)


def _input_tensors(tokens: Tokens | FeatureBatch) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return ids, segments and vectors of a chunk; None for those that it does not have."""
    if isinstance(tokens, FeatureBatch):
        return None, None, tokens.vectors.contiguous()
    return tokens.ids.contiguous(), None if tokens.segments is None else tokens.segments.contiguous(), None


def replace_with_native(model: nn.Module) -> int:
    """Replace all supported stacks of a model by native ones, in place; return their number."""
    count = 0
    for name, module in list(model.named_modules()):
        if type(module) is TransformerStack and is_supported(module):
            parent_name, _, attribute = name.rpartition(".")
            setattr(model.get_submodule(parent_name), attribute, NativeStack(module))
            count += 1
    return count
