from __future__ import annotations

import pytest
import torch

from heedful.generation import score_target
from heedful.tensors import Tokens


def test_only_real_tokens_with_a_label_count(history_model):
    model = history_model(11, seed=2)
    ids = torch.tensor([[9, 9, 0, 4, 5], [0, 3, 3, 9, 9], [0, 7, 2, 8, 6]])
    positions = torch.tensor([[-1, -1, 0, 1, 2], [0, 1, 2, -1, -1], [0, 1, 2, 3, 4]])
    labels = torch.tensor([[2, 2, 4, 5, 1], [3, 3, 1, 2, 2], [-1, -1, 8, 6, 1]])
    scores = score_target(model.step, model.init_state([3, 4, 5]), Tokens(ids, positions), labels=labels)
    expected = [
        [0, 0, *model.each(3, (0,), (4, 5, 1))],
        [*model.each(4, (0,), (3, 3, 1)), 0, 0],
        [0, 0, *model.each(5, (0, 7, 2), (8, 6, 1))],
    ]
    for row, values in zip(scores.token_log_probabilities.tolist(), expected, strict=True):
        assert row == pytest.approx(values)
    assert scores.log_probability.tolist() == pytest.approx([sum(values) for values in expected])
    assert scores.count.tolist() == [3, 3, 3]


def test_half_precision_is_added_in_single(history_model):
    model = history_model(11, dtype=torch.bfloat16)
    ids = torch.tensor([[0, 4, 5]])
    scores = score_target(
        model.step, model.init_state([3]), Tokens(ids, torch.tensor([[0, 1, 2]])), labels=torch.tensor([[4, 5, 1]])
    )
    assert scores.log_probability.dtype == torch.float32
    assert scores.log_probability.item() == pytest.approx(model.total(3, (0,), (4, 5, 1)), abs=1e-5)
