from __future__ import annotations

import pytest
import torch

from heedful.blocks.residual import TokenBatchNorm


def draw_tokens() -> torch.Tensor:
    """Return 3 x 5 tokens of width 4 with different means and deviations."""
    return torch.randn(3, 5, 4) * torch.tensor([1.0, 2.0, 3.0, 4.0]) + torch.tensor([0.0, 5.0, -5.0, 1.0])


def test_training_takes_the_statistics_of_the_batch() -> None:
    norm, x = TokenBatchNorm(4, eps=1e-3), draw_tokens()
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, 2.0, 0.5, 3.0]))
        assert norm.bias is not None
        norm.bias.copy_(torch.tensor([0.0, 1.0, 2.0, 3.0]))
    mean, variance = x.mean((0, 1)), x.var((0, 1), correction=0)
    expected = (x - mean) / (variance + 1e-3).sqrt() * norm.weight + norm.bias
    torch.testing.assert_close(norm(x), expected)
    # the running averages start at 0 and 1; the variance of 15 tokens is corrected for the running average
    torch.testing.assert_close(norm.mean.detach(), 0.1 * mean)
    torch.testing.assert_close(norm.variance.detach(), 0.9 + 0.1 * x.var((0, 1)))


def test_evaluation_does_not_depend_on_the_other_tokens() -> None:
    norm, x = TokenBatchNorm(4), draw_tokens()
    for _ in range(3):
        norm(x)
    norm.eval()
    mean, variance = norm.mean.clone(), norm.variance.clone()
    together, alone = norm(x), norm(x[1:2, :2])
    torch.testing.assert_close(together[1:2, :2], alone)
    torch.testing.assert_close(alone, (x[1:2, :2] - mean) / (variance + norm.eps).sqrt())
    assert torch.equal(norm.mean, mean)
    assert torch.equal(norm.variance, variance)


def test_statistics_are_saved_but_not_trained() -> None:
    norm = TokenBatchNorm(4, bias=False)
    norm(draw_tokens()).square().sum().backward()
    assert norm.bias is None
    assert {name: parameter.requires_grad for name, parameter in norm.named_parameters()} == {
        "weight": True,
        "mean": False,
        "variance": False,
    }
    assert norm.weight.grad is not None
    assert norm.mean.grad is None


@pytest.mark.parametrize("reason", ["frozen gain", "single token"])
def test_running_averages_replace_missing_statistics(reason: str) -> None:
    norm, x = TokenBatchNorm(4), draw_tokens()
    if reason == "frozen gain":
        norm.weight.requires_grad_(False)
    else:
        x = x[:1, :1]
    torch.testing.assert_close(norm(x), x / (1 + norm.eps) ** 0.5)
    assert torch.equal(norm.mean, torch.zeros(4))
