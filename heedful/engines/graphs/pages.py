"""Pages of keys and values: rows of all states share them, and a page is free when no state refers to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from threading import RLock
from typing import Final, final

import numpy as np
import torch
from jaxtyping import Bool, Int

PAGE_TOKENS: Final = 16
"""Number of tokens in a page."""
_INITIAL_PAGES: Final = 64


@final
class PagePool:
    """Storage of the keys and values of all layers, in pages of 16 tokens, with the number of references to each page.

    Page 0 is for padding rows, which write there; it is never read. All other numbers are finite at any time, because a
    hidden key has a weight of 0, and 0 times NaN is NaN. The pool doubles when it is full and never shrinks.

    Args:
        width: numbers of a token in all layers.
        dtype: of the numbers.
        device: of the storage.

    Attributes:
        storage: keys and values.
        positions: position of each token.
        generation: number of times that the storage was replaced by a larger one.
        lock: held while pages are claimed, copied or counted.
    """

    def __init__(self, width: int, *, dtype: torch.dtype, device: torch.device) -> None:
        self.generation, self.lock = 0, RLock()
        with torch.inference_mode(mode=False):  # it outlives any block of inference mode
            self.storage = torch.zeros(_INITIAL_PAGES, PAGE_TOKENS, width, dtype=dtype, device=device)
            self.positions = torch.full((_INITIAL_PAGES, PAGE_TOKENS), -1, device=device)
        self._references = np.zeros(_INITIAL_PAGES, np.int64)
        self._references[0] = 1
        self._used = np.zeros(_INITIAL_PAGES, np.int64)
        self._released: deque[Int[np.ndarray, "B n"]] = deque()

    @property
    def num_free(self) -> int:
        """Number of pages that no state refers to."""
        with self.lock:
            return len(self._find_free())

    def hold(self, pages: Int[np.ndarray, "B n"]) -> None:
        """Count a reference to each of these pages."""
        with self.lock:
            np.add.at(self._references, pages.ravel(), 1)

    def release(self, pages: Int[np.ndarray, "B n"]) -> None:
        """Put these pages in a queue. The pool drops one reference to each when it next looks for free pages, because
        destructors call this method, in any thread and at any time.
        """
        self._released.append(pages)

    def find_writable(self, pages: Int[np.ndarray, " n"], used: Int[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Return which of these partly filled pages the caller may extend: those that hold exactly `used` tokens. If a
        page occurs twice, only the first occurrence may be extended. The caller must hold the lock.
        """
        is_first = np.zeros(len(pages), bool)
        is_first[np.unique(pages, return_index=True)[1]] = True
        is_writable: Bool[np.ndarray, " n"] = is_first & (self._used[pages] == used)
        return is_writable

    def set_used(self, pages: Int[np.ndarray, " n"], used: Int[np.ndarray, " n"]) -> None:
        """Note how many tokens of these pages are written."""
        self._used[pages] = used

    def allocate(self, count: int) -> Int[np.ndarray, " count"]:
        """Return this many free pages, which the caller must hold before it gives up the lock."""
        free = self._find_free()
        if len(free) < count:
            self._grow(count - len(free))
            free = self._find_free()
        return free[:count]

    def copy_pages(self, source: Int[np.ndarray, " n"], target: Int[np.ndarray, " n"]) -> None:
        """Copy some pages to others."""
        if not len(source):
            return
        device = self.storage.device
        source_pages, target_pages = (torch.from_numpy(pages).to(device) for pages in (source, target))
        for tensor in (self.storage, self.positions):
            tensor.index_copy_(0, target_pages, tensor.index_select(0, source_pages))

    def _find_free(self) -> Int[np.ndarray, " n"]:
        while self._released:
            np.subtract.at(self._references, self._released.popleft().ravel(), 1)
        return np.flatnonzero(self._references == 0)

    def _grow(self, missing: int) -> None:
        """Replace the storage by one of twice the size, or by a larger one if that misses pages."""
        old_pages = len(self._references)
        more = max(old_pages, missing)
        with torch.inference_mode(mode=False), torch.no_grad():
            self.storage = torch.cat((self.storage, self.storage.new_zeros(more, *self.storage.shape[1:])))
            self.positions = torch.cat((self.positions, self.positions.new_full((more, PAGE_TOKENS), -1)))
        self._references, self._used = (
            np.concatenate((counts, np.zeros(more, np.int64))) for counts in (self._references, self._used)
        )
        self.generation += 1


@final
class PageTable:
    """The pages of some rows, and the number of tokens in them; holds the pages as long as it exists.

    Args:
        pool: owner of the pages.
        pages: number of each page in the order of the tokens; 0 behind the last one.
        lengths: number of tokens of each row.
    """

    def __init__(self, pool: PagePool, pages: Int[np.ndarray, "B n"], lengths: Int[np.ndarray, " B"]) -> None:
        self.pool, self.pages, self.lengths = pool, pages, lengths
        pool.hold(pages)

    def __del__(self) -> None:
        """Release the pages."""
        self.pool.release(self.pages)

    @classmethod
    def create_empty(cls, pool: PagePool, rows: int) -> PageTable:
        """Create the table of rows without tokens."""
        return cls(pool, np.zeros((rows, 0), np.int64), np.zeros(rows, np.int64))

    def select_rows(self, origin: Int[np.ndarray, " B"]) -> PageTable:
        """Return the table whose rows are these rows; no key is copied."""
        lengths = self.lengths[origin]
        return PageTable(self.pool, self.pages[origin, : _count_pages(lengths.max(initial=0))], lengths)

    def concat(self, others: Sequence[PageTable]) -> PageTable:
        """Concatenate the rows of this table and of others; no key is copied."""
        tables = (self, *others)
        assert all(table.pool is self.pool for table in tables), "states of different models cannot be joined"
        width = max(table.pages.shape[1] for table in tables)
        pages = np.concatenate([_resize(table.pages, width) for table in tables])
        return PageTable(self.pool, pages, np.concatenate([table.lengths for table in tables]))

    def reserve(self, count: int) -> tuple[PageTable, Int[np.ndarray, "B count"]]:
        """Reserve slots for `count` more tokens in each row; return the longer table and the slots.

        A slot is the number of a page times 16, plus the place in it. If another row has already written behind the
        last token of a page, the page is copied.
        """
        begin, end = self.lengths, self.lengths + count
        first, stop = begin // PAGE_TOKENS, _count_pages(end)
        pages = _resize(self.pages, int(stop.max(initial=0)))
        columns, places = np.arange(pages.shape[1]), begin[:, None] + np.arange(count)
        with self.pool.lock:
            partial = np.flatnonzero(begin % PAGE_TOKENS)
            last_pages = pages[partial, first[partial]]
            is_copied = ~self.pool.find_writable(last_pages, begin[partial] % PAGE_TOKENS)
            copied = partial[is_copied]
            is_new = (columns >= _count_pages(begin)[:, None]) & (columns < stop[:, None])
            new_pages = self.pool.allocate(len(copied) + int(is_new.sum()))
            pages[copied, first[copied]], pages[is_new] = new_pages[: len(copied)], new_pages[len(copied) :]
            self.pool.copy_pages(last_pages[is_copied], new_pages[: len(copied)])
            is_written = (columns >= first[:, None]) & (columns < stop[:, None])
            used = np.minimum(end[:, None] - columns * PAGE_TOKENS, PAGE_TOKENS)
            self.pool.set_used(pages[is_written], used[is_written])
            table = PageTable(self.pool, pages, end)
        page_of_token = pages[np.arange(len(pages))[:, None], places // PAGE_TOKENS]
        return table, page_of_token * PAGE_TOKENS + places % PAGE_TOKENS


def _count_pages(tokens: Int[np.ndarray, "*B"]) -> Int[np.ndarray, "*B"]:
    """Return the number of pages of this many tokens."""
    return -(-tokens // PAGE_TOKENS)


def _resize(pages: Int[np.ndarray, "B n"], width: int) -> Int[np.ndarray, "B width"]:
    """Return a copy with at least as many columns, which are 0."""
    rows, columns = pages.shape
    resized = np.zeros((rows, max(columns, width)), np.int64)
    resized[:, :columns] = pages
    return resized
