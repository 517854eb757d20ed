"""A model whose weights are stored for inference computes what it did, and stays what it was."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heedful.architectures.build import DataSizes, build_sequence_to_sequence
from heedful.architectures.model import TransformerConfig
from heedful.engines.select_engine import store_column_major
from heedful.models.generative import SequenceToSequence
from heedful.tensors import Tokens


def model(**options: Any) -> SequenceToSequence[Tokens]:
    config = TransformerConfig.model_validate({"d_model": 8, "heads": 2, "layers": 2, **options})
    made = build_sequence_to_sequence(config, DataSizes(13, 13, 9)).eval()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.4)
    return made


def logits(made: SequenceToSequence[Tokens]) -> Tensor:
    source, target = (
        Tokens.from_ids(torch.tensor(ids), pad=0) for ids in ([[4, 5, 6], [7, 8, 0]], [[1, 9, 3], [1, 2, 11]])
    )
    found, _ = made.step(target, made.init_state(source))
    return found


OPTIONS = [{}, {"tie": "none", "output_bias": True}, {"tie": "two_way", "aggregation": "concat"}]


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_neither_results_nor_parameters_change(options: dict[str, Any]) -> None:
    made = model(**options)
    before = {name: parameter.detach().clone() for name, parameter in made.named_parameters()}
    with torch.no_grad():
        expected = logits(made)
        store_column_major(made)
        torch.testing.assert_close(logits(made), expected)
    assert {name: parameter.shape for name, parameter in made.named_parameters()} == {
        n: p.shape for n, p in before.items()
    }
    for name, parameter in made.named_parameters():
        assert torch.equal(parameter, before[name])
    assert sum(made.output.weight is parameter for parameter in made.parameters()) == 1
    rows = [m.weight for m in made.modules() if isinstance(m, nn.Linear) and m is not made.output]
    assert all(weight.t().is_contiguous() and not weight.is_contiguous() for weight in rows)


def test_a_model_that_is_trained_further_does_not_write_what_it_would_have_written_before() -> None:
    made = model()
    store_column_major(made)
    with torch.no_grad():
        before = logits(made)
    recorded = logits(made)
    torch.testing.assert_close(recorded.detach(), before)
    recorded.square().sum().backward()
    torch.optim.SGD(made.parameters(), 0.1).step()
    with torch.no_grad():
        after = logits(made)
    fresh = model()
    fresh.load_state_dict({name: p.detach() for name, p in made.named_parameters(remove_duplicate=False)}, strict=True)
    with torch.no_grad():
        torch.testing.assert_close(after, logits(fresh))
    assert (after - before).abs().max() > 1e-3
