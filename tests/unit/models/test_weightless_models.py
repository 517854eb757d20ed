"""Models without weights have the structure of others, and no memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from task_runs import create_task_runs
from torch import nn

from heedful.models.model_size import init_empty_weights
from heedful.models.parameters import find_shared_names
from heedful.runs.load import open_run


class TiedModel(nn.Module):
    """A model with a shared matrix, a scalar and a buffer."""

    buffer: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        shared = nn.Parameter(torch.randn(3, 2))
        self.first, self.second = shared, shared
        self.embedding, self.output = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
        self.output.weight = self.embedding.weight
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
        self.scale = nn.Parameter(torch.tensor(0.5))
        self.register_buffer("buffer", torch.arange(3.0).fill_(7.0))
        nn.init.normal_(self.embedding.weight)


def test_parameters_have_no_memory_and_stay_shared() -> None:
    with init_empty_weights():
        model = TiedModel()
    assert model.first is model.second
    assert model.output.weight is model.embedding.weight
    assert find_shared_names(model) == find_shared_names(TiedModel())
    assert {name for name, parameter in model.named_parameters() if not parameter.is_meta} == {"scale"}
    assert {name for name, parameter in model.named_parameters() if not parameter.requires_grad} == {"frozen"}
    assert all(isinstance(parameter, nn.Parameter) for parameter in model.parameters())
    assert float(model.scale.detach()) == 0.5
    assert model.buffer.tolist() == [7.0] * 3
    assert not TiedModel().first.is_meta  # the context manager ends


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An untrained run of each task."""
    return create_task_runs(tmp_path_factory.mktemp("runs"))


def test_models_of_all_tasks_are_built_without_weights(runs: dict[str, Path]) -> None:
    for folder in runs.values():
        run = open_run(folder)
        model = run.init_model()
        with init_empty_weights():
            empty = run.init_model()
        expected, found = (dict(each.named_parameters(remove_duplicate=False)) for each in (model, empty))
        assert found.keys() == expected.keys()
        for name, parameter in found.items():
            assert parameter.shape == expected[name].shape
            assert parameter.dtype == expected[name].dtype
            assert parameter.requires_grad == expected[name].requires_grad
            assert parameter.is_meta == (parameter.dim() > 0), name
        assert find_shared_names(empty) == find_shared_names(model)
        for name, buffer in model.named_buffers():
            torch.testing.assert_close(empty.get_buffer(name), buffer)
