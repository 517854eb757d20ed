"""A Transformer stack whose chunks are computed by native code in one call."""

from __future__ import annotations

from ctypes import pointer
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.hooks import has_weight_hooks
from heedful.blocks.transformer import StackState, TransformerStack, replace_stacks
from heedful.engines.native.plan import NativePlan, is_supported
from heedful.engines.native.state import CrossMemory, KVPages, NativeState
from heedful.native import data_pointer, load_library
from heedful.recipes.recipe import EngineName
from heedful.tensors import (
    BeamSteps,
    BeamStepsOutput,
    FeatureBatch,
    GreedySteps,
    GreedyStepsOutput,
    Memories,
    Memory,
    MultiStepSearch,
    StepsOutput,
    Tokens,
    select_memories,
)


class NativeStack(TransformerStack):
    """A stack with the same modules, computed by native code unless hooks or gradients are needed.

    Args:
        stack: the stack whose modules are used.
        engine_name: name of the engine that it belongs to.
    """

    def __init__(self, stack: TransformerStack, *, engine_name: EngineName = "native") -> None:
        self.share_parts(stack)
        self.engine_name = engine_name
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

    def decode_steps(  # type: ignore[override]
        self,
        output: nn.Linear,
        tokens: Tokens,
        state: StackState | NativeState,
        *,
        search: MultiStepSearch[StepsOutput],
    ) -> tuple[StepsOutput, StackState | NativeState] | None:
        """Run the next steps of a search in one call, from the newest token of each row and the state before it;
        `output` makes logits. Return None if hooks or gradients are needed, or if positions may run out.
        """
        if isinstance(state, StackState) or torch.is_grad_enabled() or has_weight_hooks() or output._forward_hooks:
            return None
        plan = self._get_plan()
        call = _NativeCall(plan, tokens, state, steps=search.max_steps)
        result: Any = call.decode_steps(plan.describe_output(output), search)
        return None if result is None else (result, call.build_state(len(result.ids)))

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
            *(data_pointer(state.table), None, state.num_columns, self._table.data_ptr()),
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

    def decode_steps(self, output: Any, search: MultiStepSearch[Any]) -> GreedyStepsOutput | BeamStepsOutput | None:
        """Run several steps of a search; None if they may exceed the number of positions. `output` is the native
        description of the output layer.
        """
        plan, forbidden, limits = self._plan, search.suppressed_ids.contiguous(), search.limits.contiguous()
        repetition = None if search.repetition is None else _RepetitionArguments(plan.library, search)
        options = plan.library.DecodingOptions(
            *(limits.data_ptr(), forbidden.data_ptr(), len(forbidden), search.eos, search.max_steps),
            None if repetition is None else pointer(repetition.rules),
        )
        inputs = plan.stack, output, self._chunk, self._cache, self._memories, options
        steps: _GreedyArguments | _BeamArguments
        if isinstance(search, GreedySteps):
            steps = _GreedyArguments(search)
        else:
            assert isinstance(search, BeamSteps)
            steps = _BeamArguments(search)
        while not self._is_done(steps.run(plan.library, inputs)):
            if plan.is_bounded:
                return None
            plan.extend_positions(int(self._positions.max()) + 1 + search.max_steps)
        return steps.build_output(repetition)

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


class _RepetitionArguments:
    """Rules about repetition, and memory for the texts after the steps."""

    def __init__(self, library: Any, search: MultiStepSearch[Any]) -> None:
        assert search.repetition is not None
        rules = search.repetition
        texts, exempt_ids = rules.texts.contiguous(), rules.exempt_ids.contiguous()
        self._rows, self._length = texts.shape
        self._after = texts.new_empty(self._rows * (self._length + search.max_steps))
        self._tensors = texts, exempt_ids  # kept because the library reads their memory
        self.rules = library.Repetition(
            *(texts.data_ptr(), exempt_ids.data_ptr(), self._length, len(exempt_ids), rules.ngram_size, rules.penalty),
            self._after.data_ptr(),
        )

    def get_texts(self, steps: int) -> Tensor:
        """Return the texts [N, L] after this number of steps."""
        length = self._length + steps
        return self._after[: self._rows * length].view(self._rows, length)


class _GreedyArguments:
    """Arguments and results of several steps of greedy search in native code."""

    def __init__(self, search: GreedySteps) -> None:
        steps, rows = search.max_steps, len(search.done)
        self._before = [field.contiguous() for field in (search.positions, search.lengths, search.done)]
        self._after = [torch.empty_like(field) for field in self._before]
        self._ids, self._positions = torch.empty(2, steps, rows, dtype=torch.long).unbind()
        self._values, self._counts = torch.empty(steps, rows), torch.empty(2, dtype=torch.long)

    def run(self, library: Any, inputs: tuple[Any, ...]) -> int:
        """Run the steps in the native library; return its status. `inputs` are its first arguments."""
        row_states = [library.RowState(*map(data_pointer, fields)) for fields in (self._before, self._after)]
        outputs = (self._ids, self._values, self._positions, self._counts)
        status: int = library.decode_greedy(*inputs, *row_states, *map(data_pointer, outputs), torch.get_num_threads())
        return status

    def build_output(self, repetition: _RepetitionArguments | None) -> GreedyStepsOutput:
        """Return the tokens of the steps that were run."""
        steps, failed_row = self._counts.tolist()
        ids, values, positions = (field[:steps] for field in (self._ids, self._values, self._positions))
        texts = None if repetition is None else repetition.get_texts(steps)
        return GreedyStepsOutput(ids, values, positions, self._after[2], failed_row, texts)


class _BeamArguments:
    """Arguments and results of several steps of beam search in native code."""

    def __init__(self, search: BeamSteps) -> None:
        self._before = [field.contiguous() for field in search.fields]
        self._after = [torch.empty_like(field) for field in self._before]
        self._divisors, self._prefix_lengths = search.divisors.contiguous(), search.prefix_lengths.contiguous()
        shape = (search.max_steps, *self._before[1].shape)
        self._ids, self._beams = torch.empty(2, *shape, dtype=torch.long).unbind()
        self._values, self._counts = torch.empty(shape), torch.empty(3, dtype=torch.long)

    def run(self, library: Any, inputs: tuple[Any, ...]) -> int:
        """Run the steps in the native library; return its status. `inputs` are its first arguments."""
        beam_states = [library.Beams(*map(data_pointer, fields)) for fields in (self._before, self._after)]
        width, n_best = self._beams.size(2), self._before[4].size(1)
        outputs = (self._ids, self._values, self._beams, self._counts)
        status: int = library.decode_beams(
            *(*inputs, width, n_best, self._divisors.data_ptr(), self._prefix_lengths.data_ptr(), *beam_states),
            *(*map(data_pointer, outputs), torch.get_num_threads()),
        )
        return status

    def build_output(self, repetition: _RepetitionArguments | None) -> BeamStepsOutput:
        """Return the live beams after each of the steps that were run."""
        steps, num_done, needs_reorder = self._counts.tolist()
        ids, values, beams = (field[:steps] for field in (self._ids, self._values, self._beams))
        texts = None if repetition is None else repetition.get_texts(steps)
        return BeamStepsOutput(ids, values, beams, tuple(self._after), num_done, bool(needs_reorder), texts)


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


def replace_with_native(model: nn.Module, *, engine_name: EngineName = "native") -> int:
    """Replace all supported stacks of a model by native ones for an engine, in place; return their number."""

    def create_stack(stack: TransformerStack) -> NativeStack | None:
        return NativeStack(stack, engine_name=engine_name) if is_supported(stack) else None

    return replace_stacks(model, create_stack)
