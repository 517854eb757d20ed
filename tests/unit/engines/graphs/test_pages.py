"""Pages are shared, copied only where two states write, and free when no state refers to them."""

from __future__ import annotations

import gc
from threading import Thread

import numpy as np
import pytest
import torch

from heedful.engines.graphs import pages
from heedful.engines.graphs.pages import PagePool, PageTable


@pytest.fixture(name="pool")
def _build_pool(monkeypatch: pytest.MonkeyPatch) -> PagePool:
    """A pool of eight pages with four tokens each."""
    monkeypatch.setattr(pages, "PAGE_TOKENS", 4)
    monkeypatch.setattr(pages, "_INITIAL_PAGES", 8)
    return PagePool(2, dtype=torch.float32, device=torch.device("cpu"))


def write(table: PageTable, count: int, value: float) -> PageTable:
    """Append `count` tokens to each row; the number of row r is `value` + r."""
    table, slots = table.reserve(count)
    assert len(np.unique(slots)) == slots.size, "no two tokens have one slot"
    assert (slots >= 4).all(), "nobody writes to page 0"
    flat = table.pool.storage.flatten(0, 1)
    for row, places in enumerate(slots):
        flat[torch.from_numpy(places)] = value + row
    return table


def read(table: PageTable) -> list[list[float]]:
    """Return the numbers of each row."""
    storage = table.pool.storage[..., 0].numpy()
    return [storage[row].ravel()[:length].tolist() for row, length in zip(table.pages, table.lengths, strict=True)]


def test_rows_grow_over_pages_and_are_selected_without_copies(pool: PagePool) -> None:
    table = write(PageTable.create_empty(pool, 2), 3, 10.0)
    table = write(table, 3, 20.0)
    assert read(table) == [[10.0] * 3 + [20.0] * 3, [11.0] * 3 + [21.0] * 3]
    free = pool.num_free
    chosen = table.select_rows(np.array([1, 1, 0]))
    assert read(chosen) == [read(table)[1], read(table)[1], read(table)[0]]
    assert read(table.concat([chosen]))[2:] == read(chosen)
    assert pool.num_free == free == 3


def test_a_page_is_copied_where_two_states_write(pool: PagePool) -> None:
    table = write(PageTable.create_empty(pool, 1), 3, 1.0)
    first, second = write(table, 1, 2.0), write(table, 1, 3.0)
    assert (read(first), read(second)) == ([[1.0, 1.0, 1.0, 2.0]], [[1.0, 1.0, 1.0, 3.0]])
    assert pool.num_free == 5, "one page is shared by the first two, the other has one page"
    twice = write(table.select_rows(np.array([0, 0])), 2, 4.0)
    assert read(twice) == [[1.0] * 3 + [4.0] * 2, [1.0] * 3 + [5.0] * 2]
    assert read(table) == [[1.0] * 3]
    full = write(first.select_rows(np.array([0, 0])), 1, 6.0)
    assert (full.pages[0, 0], full.pages[0, 1]) != (full.pages[1, 0], full.pages[1, 1])
    assert full.pages[0, 0] == full.pages[1, 0], "a full page is never copied"


def test_the_first_of_equal_rows_writes_in_place(pool: PagePool) -> None:
    table = write(PageTable.create_empty(pool, 1), 2, 1.0)
    written = write(table.select_rows(np.array([0, 0, 0])), 1, 2.0)
    assert read(written) == [[1.0, 1.0, 2.0], [1.0, 1.0, 3.0], [1.0, 1.0, 4.0]]
    assert (written.pages == table.pages[0, 0]).sum() == 1


def test_pages_are_free_when_no_state_refers_to_them(pool: PagePool) -> None:
    table = write(PageTable.create_empty(pool, 2), 5, 1.0)
    assert pool.num_free == 3
    part = table.select_rows(np.array([1]))
    del table
    gc.collect()
    assert pool.num_free == 5
    again = write(PageTable.create_empty(pool, 1), 20, 7.0)
    assert (pool.generation, len(pool.storage)) == (0, 8), "freed pages are used again"
    assert read(part) == [[2.0] * 5]
    del part, again
    assert pool.num_free == 7


def test_a_full_pool_grows_and_keeps_what_is_written(pool: PagePool) -> None:
    table = write(PageTable.create_empty(pool, 3), 5, 1.0)
    larger = write(table, 13, 5.0)
    assert pool.generation == 1
    assert len(pool.storage) == len(pool.positions) == 16
    assert read(larger) == [[1.0 + row] * 5 + [5.0 + row] * 13 for row in range(3)]
    assert bool(pool.storage.isfinite().all())


def test_no_tokens_change_nothing(pool: PagePool) -> None:
    table = write(PageTable.create_empty(pool, 2), 3, 1.0)
    later = write(table, 1, 2.0)
    same, slots = table.reserve(0)
    assert slots.shape == (2, 0)
    assert read(same) == read(table)
    assert read(write(later, 1, 3.0)) == [[1.0] * 3 + [2.0, 3.0], [2.0] * 3 + [3.0, 4.0]]


def test_threads_share_a_pool(pool: PagePool) -> None:
    """Each thread finds its own numbers, whatever the others allocate and free meanwhile."""
    wrong: list[list[list[float]]] = []

    def work(value: float) -> None:
        table = PageTable.create_empty(pool, 2)
        for _ in range(40):
            with pool.lock:  # as the stack does
                table = write(table, 1, value)
            table = table.select_rows(np.array([0, 0]))
            expected = [[value] * int(table.lengths[0])] * 2
            with pool.lock:
                if (found := read(table)) != expected:
                    wrong.append(found)

    threads = [Thread(target=work, args=(100.0 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert pool.num_free == len(pool.storage) - 1
