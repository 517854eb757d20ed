"""Computation of a stack whose keys are in pages: single tokens by recorded steps, longer chunks directly."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Final, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.attention.kv_cache import KVCache
from heedful.attention.mask import AttentionMask, CacheLayout
from heedful.attention.mask_functions import MaskFunction, bidirectional
from heedful.blocks.transformer import LayerState, StackState, TransformerLayer, TransformerStack
from heedful.engines.graphs.inputs import StepInputs, StepSizes
from heedful.engines.graphs.pages import PagePool, PageTable
from heedful.engines.graphs.recorder import RecordedStep, StepRecorder
from heedful.engines.graphs.state import HeadColumns, PagedCache, PagedRows, PagedState
from heedful.tensors import Memory, Tokens

_MAX_RECORDINGS: Final = 64
"""Number of recordings that are kept; the one that was not used for the longest time is dropped."""


@dataclass(frozen=True)
class _LayerPages:
    """A pool, and the columns of its pages by the number of the layer; layers may do without a memory."""

    pool: PagePool
    columns: Mapping[int, HeadColumns]


@final
class PagedRunner:
    """Pages and recorded steps of a stack. `init_state` and `run` hold a lock, so threads take turns.

    Args:
        stack: the stack whose modules compute.
        create_recorder: creates what records the steps.

    Attributes:
        num_recorded: number of steps that were recorded so far.
    """

    def __init__(self, stack: TransformerStack, create_recorder: Callable[[], StepRecorder]) -> None:
        self._stack, self.num_recorded = stack, 0
        self._create_recorder, self._recorder = create_recorder, create_recorder()
        self._layers = [layer for layer in stack.layers if isinstance(layer, TransformerLayer)]
        self._past = self._create_pages(None)
        names = dict.fromkeys(name for layer in self._layers for name in layer.memory_names)
        self._memories = {name: self._create_pages(name) for name in names}
        self._recordings: OrderedDict[StepSizes, tuple[StepInputs, RecordedStep]] = OrderedDict()
        self._generations = self._list_generations()
        self._lock = Lock()

    @property
    def pools(self) -> tuple[PagePool, ...]:
        """The pools of the past and of each memory."""
        return tuple(pages.pool for pages in (self._past, *self._memories.values()))

    def init_state(self, memories: Mapping[str, Memory]) -> PagedState:
        """Return the state before the first token, with the memories projected by each layer and written to pages."""
        projected = [layer.init_state(memories).memories for layer in self._layers]
        tables = {}
        with self._lock:
            for name, memory in memories.items():
                pages = self._memories[name]
                table = PageTable.create_empty(pages.pool, len(memory.positions))
                table, slots = table.reserve(memory.positions.size(1))
                view, places = self._view(pages, table), torch.from_numpy(slots).to(memory.positions.device)
                view.write_positions(places, memory.positions)
                for number, columns in pages.columns.items():
                    view.write_keys(places, projected[number][name], columns)
                tables[name] = table
        return PagedState(tables)

    def run(self, tokens: Tokens, state: PagedState) -> tuple[Float[Tensor, "B T d_model"], PagedState]:
        """Return the hidden vectors of a chunk, and the new state. A chunk of one token without factors replays a
        recorded step.
        """
        rows, length = tokens.positions.shape
        past = state.past or PageTable.create_empty(self._past.pool, rows)
        assert len(past.lengths) == rows, f"{rows} rows for {len(past.lengths)} of a state"
        if not length:
            return self._stack.embedding(tokens), replace(state, past=past)
        with self._lock:
            past, slots = past.reserve(length)
            tables = (past, *state.memories.values())
            sizes = StepSizes.measure(tokens, tables)
            if length == 1 and tokens.factors is None:
                sizes = sizes.round_up()
                inputs, step = self._find_recording(sizes)
                inputs.fill(tokens, slots, tables)
                recorded = step or self._record(sizes, inputs)
                recorded.replay()
                hidden = recorded.output[:rows].clone()  # the next replay overwrites it
            else:
                inputs = StepInputs(sizes, tokens.positions.device)
                inputs.fill(tokens, slots, tables)
                hidden = self._compute(tokens, inputs.slots, self._view_all(inputs))
        return hidden, replace(state, past=past)

    def to_stack_state(self, state: PagedState) -> StackState:
        """Convert to the state of a `TransformerStack`, with a copy of all keys and values."""
        views = {name: self._view(self._memories[name], table) for name, table in state.memories.items()}
        past = None if state.past is None else self._view(self._past, state.past)
        layers = [
            LayerState(
                None if past is None else past.gather_keys(self._past.columns[number]),
                self._gather_memories(number, views),
            )
            for number in range(len(self._layers))
        ]
        return StackState(
            None if past is None else CacheLayout(past.gather_positions()),
            {name: CacheLayout(view.gather_positions()) for name, view in views.items()},
            tuple(layers),
        )

    def _create_pages(self, memory: str | None) -> _LayerPages:
        """Create the pool of the past, or of the memory of this name."""
        columns, stop = dict[int, HeadColumns](), 0
        for number, layer in enumerate(self._layers):
            if memory is None or memory in layer.memory_names:
                attention = layer.attention if memory is None else layer.get_cross_attention(memory)[0]
                columns[number], dtype = HeadColumns.measure(attention, stop)
                stop = columns[number].stop
        pool = PagePool(stop, dtype=dtype, device=self._layers[0].attention.query.weight.device)
        return _LayerPages(pool, columns)

    def _gather_memories(self, layer: int, views: Mapping[str, PagedRows]) -> dict[str, KVCache]:
        """Return the keys and values of the memories of a layer."""
        columns = {name: self._memories[name].columns.get(layer) for name in views}
        return {name: views[name].gather_keys(found) for name, found in columns.items() if found is not None}

    def _find_recording(self, sizes: StepSizes) -> tuple[StepInputs, RecordedStep | None]:
        """Return the inputs and the recording of a step of these sizes; new inputs and None if there is none."""
        if (generations := self._list_generations()) != self._generations:
            self._generations = generations
            self._recordings.clear()  # they read and write the storage of before
            self._recorder = self._create_recorder()  # memory of graphs that are all gone cannot be shared further
        found = self._recordings.get(sizes)
        if found is None:
            return StepInputs(sizes, self._past.pool.storage.device), None
        self._recordings.move_to_end(sizes)
        return found

    def _record(self, sizes: StepSizes, inputs: StepInputs) -> RecordedStep:
        """Record a step, and drop the oldest recording if there are many."""
        step = self._recorder.record(partial(self._compute, inputs.tokens, inputs.slots, self._view_all(inputs)))
        self._recordings[sizes] = (inputs, step)
        self.num_recorded += 1
        if len(self._recordings) > _MAX_RECORDINGS:
            self._recordings.popitem(last=False)
        return step

    def _compute(
        self, tokens: Tokens, slots: Int[Tensor, "R T"], views: tuple[PagedRows, ...]
    ) -> Float[Tensor, "R T d_model"]:
        """Compute the hidden vectors of tokens, and write their keys and values to the slots.

        Nothing here may depend on numbers in tensors, or a recorded graph would keep what they were.
        """
        stack, (past, *memories) = self._stack, views
        past.write_positions(slots, tokens.positions)
        mask = _build_mask(tokens.positions, past, stack.visibility)
        named = dict(zip(self._memories, memories, strict=True))
        cross_masks = {name: _build_mask(tokens.positions, view, bidirectional) for name, view in named.items()}
        x: Tensor = stack.embedding(tokens)
        for number, layer in enumerate(self._layers):
            cache = PagedCache.create(past, slots, self._past.columns[number])
            state = LayerState(cache, self._gather_memories(number, named))
            x, _ = layer(x, state, mask=mask, cross_masks=cross_masks)
        return x if stack.final_norm is None else stack.final_norm(x)

    def _view_all(self, inputs: StepInputs) -> tuple[PagedRows, ...]:
        """Return the rows that a step reads, by its input tensors."""
        return tuple(
            PagedRows(pool.storage, pool.positions, table, lengths)
            for pool, table, lengths in zip(self.pools, inputs.tables, inputs.lengths, strict=True)
        )

    def _view(self, pages: _LayerPages, table: PageTable) -> PagedRows:
        """Return the rows of a table."""
        pool, device = pages.pool, pages.pool.storage.device
        numbers, lengths = (torch.from_numpy(part).to(device) for part in (table.pages, table.lengths))
        return PagedRows(pool.storage, pool.positions, numbers, lengths)

    def _list_generations(self) -> tuple[int, ...]:
        return tuple(pool.generation for pool in self.pools)


def _build_mask(positions: Int[Tensor, "R T"], rows: PagedRows, visibility: MaskFunction) -> AttentionMask:
    """Build the mask of queries at these positions over the keys of rows, without looking at numbers in tensors."""
    key_positions = rows.gather_positions()
    visible = visibility(positions.unsqueeze(2), key_positions.unsqueeze(1)).unsqueeze(1)
    return AttentionMask(positions, key_positions, visible, ~visible, ~visible.any(-1, keepdim=True))
