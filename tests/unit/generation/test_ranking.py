from __future__ import annotations

import math

import pytest
import torch

from heedful.generation import top_k, topk


def longhand(logits, offsets, k):
    """The k largest sums of each group by sorting Python numbers, equal ones by row and then column."""
    groups, width = offsets.shape
    sums = logits.view(groups, width, -1) + offsets.unsqueeze(2)
    found = []
    for group in sums.tolist():
        entries = [(-value, row, column) for row, values in enumerate(group) for column, value in enumerate(values)]
        found.append([(-value, row, column) for value, row, column in sorted(entries)[:k]])
    return found


def as_rows(top):
    columns = (top.values.tolist(), top.members.tolist(), top.ids.tolist())
    return [list(zip(*group, strict=True)) for group in zip(*columns, strict=True)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("columns", [1, 3, 64, 65, 640, 1031])
@pytest.mark.parametrize("shape", [(1, 1), (4, 1), (3, 5)])
@pytest.mark.parametrize("k", [1, 2, 10])
@pytest.mark.parametrize("kind", ["random", "tied", "mostly impossible"])
def test_equals_sorting(dtype, columns, shape, k, kind):
    groups, width = shape
    torch.manual_seed(columns + k)
    logits = torch.randn(groups * width, columns, dtype=dtype) * 10
    offsets = torch.randn(groups, width, dtype=dtype)
    if kind == "tied":
        logits, offsets = (logits / 10).round(), offsets.round()
    if kind == "mostly impossible":
        logits[torch.rand(logits.shape) < 0.99] = -math.inf
        offsets[:, 1::2] = -math.inf
    expected = longhand(logits, offsets, k)
    assert as_rows(top_k(logits, k, offsets=offsets)) == expected
    assert top_k(logits, k, offsets=offsets).values.dtype == dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("k", [1, 7, 130, 1000])
def test_without_offsets_each_row_is_ranked_as_torch_does(dtype, k):
    torch.manual_seed(k)
    logits = torch.randn(8, 1000, dtype=dtype)
    logits[0, 500] = math.inf
    logits[1, 17:40] = -0.0
    values, ids = logits.topk(k)
    top = top_k(logits, k)
    assert torch.equal(top.values, values)
    assert torch.equal(top.ids[2:], ids[2:])
    assert not top.members.any()


def test_a_slice_of_a_larger_tensor_is_ranked_in_place():
    torch.manual_seed(0)
    logits = torch.randn(6, 3, 2000)
    assert as_rows(top_k(logits[:, 1], 5)) == as_rows(top_k(logits[:, 1].contiguous(), 5))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_not_a_number_comes_first_as_in_torch(dtype, sign):
    logits = torch.arange(2000.0, dtype=dtype).unsqueeze(0)
    logits[0, 77] = torch.tensor(math.nan, dtype=dtype).copysign(torch.tensor(sign, dtype=dtype))
    assert top_k(logits, 3).ids.tolist() == [[77, 1999, 1998]]


@pytest.mark.parametrize(("rows", "columns"), [(1, 7), (5, 640), (300, 1031), (2, 140_000)])
def test_normalisers_of_a_few_rows_at_a_time_are_those_of_all(rows, columns):
    logits = torch.randn(rows, columns, dtype=torch.float64) * 10
    logits[0, : columns // 2] = -math.inf
    logits[-1] += 1000.0  # whose exponential is no number
    found = topk.compute_logsumexp(logits)
    for row, normaliser in zip(logits.tolist(), found.tolist(), strict=True):
        highest = max(row)
        expected = highest + math.log(math.fsum(math.exp(each - highest) for each in row))
        assert normaliser == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("shape", [(1, 5), (3, 70), (700, 60), (40, 1000), (40, 1024), (600, 65), (900, 64)])
@pytest.mark.parametrize("odd", ["", "ties", "nan", "infinite"])
def test_the_best_of_each_row_is_the_first_of_the_largest(shape: tuple[int, int], odd: str) -> None:
    logits = torch.randn(shape)
    match odd:
        case "ties":
            logits = logits.round()
        case "nan":
            logits[::3, -1] = math.nan
            logits[1::3, 0] = math.nan
        case "infinite":
            logits[:, :3] = -math.inf
            logits[0] = -math.inf
            logits[1::2, -1] = math.inf
    found = top_k(logits.clone(), 1)
    ordered = logits.nan_to_num(nan=1e30, posinf=1e20, neginf=-1e20).tolist()
    first = [row.index(max(row)) for row in ordered]
    assert found.ids.squeeze(1).tolist() == first
    torch.testing.assert_close(found.values, logits.gather(1, torch.tensor(first).unsqueeze(1)), equal_nan=True)
    assert not found.members.any()
