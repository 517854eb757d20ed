"""A stack of attention and feed-forward layers whose chunks go through native code in one call."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.probe import anybody_reads
from heedful.attention.space import Space
from heedful.blocks.transformer import StackState, TransformerStack
from heedful.engines.native_plan import Plan, plannable
from heedful.engines.native_state import Across, NativeState, Pages
from heedful.native import address, library
from heedful.values import Memories, Memory, Tokens, Vectors, memories_of


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
        return Across(numbers, memory.positions.int().contiguous(), torch.arange(rows, dtype=torch.int32))

    def _native(self, tokens: Tokens | Vectors, state: NativeState) -> tuple[Tensor, NativeState]:
        plan, positions = self._planned(), tokens.positions.contiguous()
        native, (rows, length), read, whole = plan.library, positions.shape, state.read, plan.whole
        pages = self._pages(plan, state, rows=rows, length=length)
        table = torch.empty(rows, read + length, 2, dtype=torch.int32)
        hidden = torch.empty(rows, length, plan.width)
        given = _given(tokens)
        ids, segments, vectors = map(address, given)
        chunk = native.Chunk(ids, positions.data_ptr(), segments, vectors, rows, length)
        cache = native.Cache(
            pages.numbers.data_ptr(),
            *(pages.numbers.size(1), pages.numbers.size(2), 0 if whole else pages.numbers.stride(0)),
            *(address(state.table), read, table.data_ptr()),
        )
        across = (native.Memory * len(state.across))(*(each.addresses for each in state.across.values()))
        threads = torch.get_num_threads()
        while status := native.forward(plan.stack, chunk, cache, across, hidden.data_ptr(), threads):
            if status == native.NO_SUCH_ENTRY:
                raise IndexError("a token has a number that the embedding does not know")
            plan.reach(int(positions.max()) + 1)
        return hidden, NativeState(state.across, None if whole else pages, None if whole else table, whole)

    def _pages(self, plan: Plan, state: NativeState, *, rows: int, length: int) -> Pages:
        """Where keys and values of the chunk go; those of a text that is read at once serve their layer alone."""
        pages = state.pages
        if pages is None:
            pages = Pages(torch.empty(1 if plan.whole else plan.depth, rows, 0, 2, plan.width), Space(0, 0))
        return pages.behind(state.read, rows=rows, newest=length)


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
