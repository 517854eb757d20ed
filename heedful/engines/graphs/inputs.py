"""Input tensors of a step, whose places in memory stay the same while its recording is used."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
import torch
from jaxtyping import Int

from heedful.engines.graphs.pages import PageTable
from heedful.tensors import Tokens


@dataclass(frozen=True)
class StepSizes:
    """Sizes of the input tensors of a step.

    Attributes:
        rows: number of rows.
        length: number of tokens of each row.
        pages: number of pages of each row: those of the past, then those of each memory.
        has_segments: whether tokens have segments.
    """

    rows: int
    length: int
    pages: tuple[int, ...]
    has_segments: bool

    @classmethod
    def measure(cls, tokens: Tokens, tables: tuple[PageTable, ...]) -> StepSizes:
        """Return the sizes of a chunk and of the tables that it reads."""
        rows, length = tokens.positions.shape
        pages = tuple(max(table.pages.shape[1], 1) for table in tables)
        return cls(rows, length, pages, tokens.segments is not None)

    def round_up(self) -> StepSizes:
        """Return sizes that few recordings have: numbers of pages become powers of two, numbers of rows these and the
        numbers in the middle between two of them from 8 on.
        """
        return replace(self, rows=_round_rows(self.rows), pages=tuple(_next_power(pages) for pages in self.pages))


def _next_power(number: int) -> int:
    """Return the smallest power of two that is not smaller."""
    return 1 << (number - 1).bit_length()


def _round_rows(rows: int) -> int:
    """Return the smallest of 1, 2, 4, 8, 12, 16, 24, 32, 48 and so on that is not smaller."""
    power = _next_power(rows)
    return 3 * power // 4 if power > 8 and rows <= 3 * power // 4 else power


@final
class StepInputs:
    """Tokens of a step, the slots to write them to, and the pages to read.

    Rows beyond those of the state see no page and write to page 0. Their tokens are those of an earlier step.

    Args:
        sizes: of the tensors.
        device: of the tensors.

    Attributes:
        tokens: the tokens.
        slots: where the keys and values of the tokens are written.
        lengths: number of tokens of each row in each of its tables.
        tables: pages of each row in each of its tables.
    """

    def __init__(self, sizes: StepSizes, device: torch.device) -> None:
        self._sizes = sizes
        shape, widths = (sizes.rows, sizes.length), [1 + pages for pages in sizes.pages]
        with torch.inference_mode(mode=False):  # they outlive any block of inference mode
            ids, segments = torch.zeros(2, *shape, dtype=torch.long, device=device).unbind()
            positions = torch.full(shape, -1, device=device)
            self._numbers = torch.zeros(sizes.rows, sizes.length + sum(widths), dtype=torch.long, device=device)
        self.tokens = Tokens(ids, positions, segments if sizes.has_segments else None)
        self.slots, *tables = torch.split(self._numbers, [sizes.length, *widths], 1)
        self.lengths = tuple(table[:, 0] for table in tables)
        self.tables = tuple(table[:, 1:] for table in tables)

    def fill(self, tokens: Tokens, slots: Int[np.ndarray, "B T"], tables: tuple[PageTable, ...]) -> None:
        """Copy the inputs of the next step into the tensors."""
        sizes, rows = self._sizes, len(tokens.ids)
        self.tokens.ids[:rows].copy_(tokens.ids)
        self.tokens.positions[:rows].copy_(tokens.positions)
        if self.tokens.segments is not None and tokens.segments is not None:
            self.tokens.segments[:rows].copy_(tokens.segments)
        numbers = np.zeros(self._numbers.shape, np.int64)
        numbers[:rows, : sizes.length], start = slots, sizes.length
        for table, pages in zip(tables, sizes.pages, strict=True):
            numbers[:rows, start] = table.lengths
            numbers[:rows, start + 1 : start + 1 + table.pages.shape[1]] = table.pages
            start += 1 + pages
        self._numbers.copy_(torch.from_numpy(numbers))
