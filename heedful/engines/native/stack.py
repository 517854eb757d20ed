"""A stack of attention and feed-forward layers whose chunks go through native code in one call."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.probe import anybody_reads
from heedful.blocks.state import StackState
from heedful.blocks.transformer import TransformerStack
from heedful.engines.native.plan import Plan, plannable
from heedful.engines.native.state import Across, NativeState, Pages
from heedful.native import address, library
from heedful.values import Bounds, Memories, Memory, Tokens, Vectors, Written, memories_of


class NativeStack(TransformerStack):
    """The same stack, made of the same modules. They compute where somebody looks inside or asks for a gradient, and
    native code everywhere else.

    Args:
        stack: whose modules these are.
    """

    def __init__(self, stack: TransformerStack) -> None:
        nn.Module.__init__(self)
        for name, module in stack.named_children():
            self.add_module(name, module)
        self.visibility = stack.visibility
        self.final_norm = stack.final_norm
        self.training = stack.training
        self._plan: Plan | None = None
        self._parts = tuple(self.modules())

    def __getstate__(self) -> dict[str, Any]:  # a copy has addresses of its own
        return {**self.__dict__, "_plan": None}

    def begin(self, memory: Memories | None) -> StackState | NativeState:  # type: ignore[override]
        """The state before the first token."""
        if torch.is_grad_enabled() or self._is_heard():
            return super().begin(memory)
        names = dict.fromkeys(name for layer in self._layers() for name in layer.names)
        memories = memories_of(memory, names)
        return NativeState({name: self._across(name, each) for name, each in memories.items()})

    def forward(  # type: ignore[override]
        self, tokens: Tokens | Vectors, state: StackState | NativeState
    ) -> tuple[Float[Tensor, "B T d_model"], StackState | NativeState]:
        """Hidden vectors of the tokens and the state after them; zeros where there is no token."""
        if isinstance(state, StackState):
            return super().forward(tokens, state)
        if torch.is_grad_enabled() or anybody_reads():
            plan = self._planned()
            return super().forward(tokens, state.explicit(depth=plan.depth, heads=plan.heads))
        assert not state.whole, "all tokens of this stack see all others, so that none may follow what was read"
        return self._native(tokens, state)

    def _is_heard(self) -> bool:
        return anybody_reads() or any(part._forward_hooks for part in self._parts)

    def _planned(self) -> Plan:
        if self._plan is None:
            found = library()
            assert found is not None
            self._plan = Plan(found, self)
        return self._plan

    def _across(self, name: str, memory: Memory) -> Across:
        plan = self._planned()
        rows, slots = memory.positions.shape
        numbers = memory.keys.new_empty(plan.depth, rows, slots, 2, plan.width)
        for layer, out in enumerate(numbers):
            plan.project(layer, name, memory.keys, out)
            if memory.values is not memory.keys:
                values = torch.empty_like(out)
                plan.project(layer, name, memory.values, values)
                out[:, :, 1] = values[:, :, 1]
        return Across.whole(numbers, memory.positions.int().contiguous())

    def stride(  # type: ignore[override]
        self, output: nn.Linear, tokens: Tokens, state: StackState | NativeState, *, bounds: Bounds
    ) -> tuple[Written, StackState | NativeState] | None:
        """Several steps of greedy search in one call."""
        if isinstance(state, StackState) or torch.is_grad_enabled() or anybody_reads() or output._forward_hooks:
            return None
        plan = self._planned()
        call = _Call(plan, tokens, state, steps=bounds.steps)
        written = call.write(plan.output(output), bounds)
        return None if written is None else (written, call.state(len(written.ids)))

    def _native(self, tokens: Tokens | Vectors, state: NativeState) -> tuple[Tensor, NativeState]:
        call = _Call(self._planned(), tokens, state)
        return call.forward(), call.state()


class _Call:
    """What native code is given: tokens, where their keys and values go, and memories; and the state that comes of it.

    Args:
        plan: of the stack.
        tokens: read first.
        state: before them.
        steps: tokens that will be read of each row, where these are not known beforehand.
    """

    def __init__(self, plan: Plan, tokens: Tokens | Vectors, state: NativeState, *, steps: int | None = None) -> None:
        self._plan, self._before, native = plan, state, plan.library
        self._positions = tokens.positions.contiguous()
        rows, length = self._positions.shape
        assert state.table is None or len(state.table) == rows, f"{rows} rows for {len(state.table)} of a state"
        newest = length if steps is None else steps
        self._pages, self._begin = _pages(plan, state, rows=rows, newest=newest)
        self._table = torch.empty(rows * (state.read + newest) * 2, dtype=torch.int32)
        self._given = _given(tokens)
        ids, segments, vectors = map(address, self._given)
        self._chunk = native.Chunk(ids, self._positions.data_ptr(), segments, vectors, rows, length)
        numbers = self._pages.numbers
        self._cache = native.Cache(
            numbers[:, :, self._begin :].data_ptr(),
            *(numbers.size(1), numbers.size(2), 0 if plan.whole else numbers.stride(0)),
            *(address(state.table), state.read, self._table.data_ptr()),
        )
        self._across = (native.Memory * len(state.across))(*(each.addresses for each in state.across.values()))

    def forward(self) -> Float[Tensor, "B T d_model"]:
        """Hidden vectors."""
        plan, hidden = self._plan, torch.empty(*self._positions.shape, self._plan.width)
        given, out = (plan.stack, self._chunk, self._cache, self._across), (hidden.data_ptr(), torch.get_num_threads())
        while not self._is_done(plan.library.forward(*given, *out)):
            plan.reach(int(self._positions.max()) + 1)
        return hidden

    def write(self, output: Any, bounds: Bounds) -> Written | None:
        """The tokens that are picked; None where they may come to positions that there are not."""
        plan, native = self._plan, self._plan.library
        rows, steps, forbidden = len(bounds.done), bounds.steps, bounds.forbidden.contiguous()
        before = [each.contiguous() for each in (bounds.positions, bounds.lengths, bounds.done)]
        after, limits = [torch.empty_like(each) for each in before], bounds.limits.contiguous()
        how = native.Writing(limits.data_ptr(), forbidden.data_ptr(), len(forbidden), bounds.eos, steps)
        (ids, at), values = torch.empty(2, steps, rows, dtype=torch.long).unbind(), torch.empty(steps, rows)
        told = torch.empty(2, dtype=torch.long)
        given = plan.stack, output, self._chunk, self._cache, self._across, how
        growing = [native.Growing(*map(address, each)) for each in (before, after)]
        out = *(each.data_ptr() for each in (ids, values, at, told)), torch.get_num_threads()
        while not self._is_done(native.write(*given, *growing, *out)):
            if plan.is_bounded:
                return None
            plan.reach(int(self._positions.max()) + 1 + steps)
        taken, failed = told.tolist()
        return Written(ids[:taken], values[:taken], at[:taken], after[2], failed)

    def state(self, steps: int | None = None) -> NativeState:
        """Behind the tokens that were given, or behind so many steps."""
        before, (rows, length) = self._before, self._positions.shape
        if self._plan.whole:
            return NativeState(before.across, whole=True)
        columns = before.read + (length if steps is None else steps)
        table = self._table[: rows * columns * 2].view(rows, columns, 2)
        return NativeState(before.across, self._pages, table, self._begin)

    def _is_done(self, status: int) -> bool:
        if status == self._plan.library.NO_SUCH_ENTRY:
            raise IndexError("a token has a number that the embedding does not know")
        return bool(status == self._plan.library.DONE)


def _pages(plan: Plan, state: NativeState, *, rows: int, newest: int) -> tuple[Pages, int]:
    """Where keys and values of the newest tokens go, and from which column on keys were read; those of a text that is
    read at once serve their layer alone.
    """
    pages = state.pages
    if pages is None:
        pages = Pages.nothing(1 if plan.whole else plan.depth, rows, plan.width)
    return pages.behind(state.columns, rows=rows, newest=newest)


def _given(tokens: Tokens | Vectors) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Ids, segments and vectors, as far as there are any."""
    if isinstance(tokens, Vectors):
        return None, None, tokens.vectors.contiguous()
    return tokens.ids.contiguous(), None if tokens.segments is None else tokens.segments.contiguous(), None


def to_native(model: nn.Module) -> int:
    """Puts native stacks in the place of those that native code knows, in place; returns how many."""
    count = 0
    for name, module in list(model.named_modules()):
        if type(module) is TransformerStack and plannable(module):
            outside, _, own = name.rpartition(".")
            setattr(model.get_submodule(outside), own, NativeStack(module))
            count += 1
    return count
