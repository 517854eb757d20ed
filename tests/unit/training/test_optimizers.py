from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from heedful.errors import RunError
from heedful.training.optimizers import SGD, Adam, MovingAverage

RATES = (0.1, 0.03, 0.2, 0.01, 0.3)


def parameters() -> dict[str, Tensor]:
    torch.manual_seed(3)
    return {
        "matrix": torch.randn(3, 4, requires_grad=True),
        "bias": torch.randn(4, requires_grad=True),
        "gain": torch.randn(2, requires_grad=True),
    }


def give(parameters: dict[str, Tensor], step: int) -> None:
    """Gradients of a step, the same in every test; `gain` gets none at first, as an unused part of a model."""
    generator = torch.Generator().manual_seed(step)
    for name, parameter in parameters.items():
        gradient = torch.randn(parameter.shape, generator=generator)
        parameter.grad = None if name == "gain" and step < 2 else gradient


def longhand(start: np.ndarray, gradients: list[np.ndarray], *, decay: float) -> np.ndarray:
    """Kingma and Ba 2015, algorithm 1, with the decay of Loshchilov and Hutter 2019, algorithm 2."""
    beta1, beta2, epsilon = 0.8, 0.95, 1e-6
    weight, m, v = start.astype(np.float64), np.zeros(start.shape), np.zeros(start.shape)
    for t, gradient in enumerate(gradients, 1):
        rate = RATES[t - 1]
        m = beta1 * m + (1 - beta1) * gradient
        v = beta2 * v + (1 - beta2) * gradient**2
        step = (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + epsilon)
        weight = weight - rate * decay * weight - rate * step
    return weight


@pytest.mark.parametrize("decay", [0.0, 0.4])
def test_adam_is_the_papers_and_decays_matrices_only(decay: float) -> None:
    weights = parameters()
    starts = {name: p.detach().numpy().copy() for name, p in weights.items()}
    gradients: dict[str, list[np.ndarray]] = {"matrix": [], "bias": []}
    adam = Adam(weights, betas=(0.8, 0.95), epsilon=1e-6, weight_decay=decay)
    for step, rate in enumerate(RATES):
        give(weights, step)
        for name, seen in gradients.items():
            gradient = weights[name].grad
            assert gradient is not None
            seen.append(gradient.numpy().astype(np.float64))
        adam.step(rate)
    for name, share in (("matrix", decay), ("bias", 0.0)):
        expected = longhand(starts[name], gradients[name], decay=share)
        np.testing.assert_allclose(weights[name].detach().numpy(), expected, atol=1e-5)


def test_plain_steps_go_against_the_gradient_and_remember_nothing() -> None:
    weights = parameters()
    expected = {name: p.detach().clone() for name, p in weights.items()}
    sgd = SGD(weights, weight_decay=0.3, factors={"bias": 0.5})
    for step, rate in enumerate(RATES):
        give(weights, step)
        for name, p in weights.items():
            if p.grad is not None:
                decay, factor = (0.3, 1.0) if name == "matrix" else (0.0, 0.5 if name == "bias" else 1.0)
                expected[name] = expected[name] * (1 - rate * decay) - factor * rate * p.grad
        sgd.step(rate)
    for name, p in weights.items():
        torch.testing.assert_close(p.detach(), expected[name])
    assert sgd.state_dict() == {}
    sgd.load_state_dict({})
    with pytest.raises(RunError):
        sgd.load_state_dict({"matrix.exp_avg": torch.zeros(3, 4)})


def test_factors_multiply_the_rate_of_their_parameters_alone() -> None:
    plain, slow = parameters(), parameters()
    first, second = Adam(plain, weight_decay=0.3), Adam(slow, weight_decay=0.3, factors={"matrix": 0.25})
    for step, rate in enumerate(RATES):
        for weights in (plain, slow):
            give(weights, step)
        second.step(rate)
        matrix = slow["matrix"].detach().clone()
        first.step(rate)
    assert torch.equal(plain["bias"], slow["bias"])
    quarter = parameters()
    third = Adam(quarter, weight_decay=0.3)
    for step, rate in enumerate(RATES):
        give(quarter, step)
        third.step(0.25 * rate)
    assert torch.equal(quarter["matrix"], matrix)


def test_gradients_are_dropped_after_their_step() -> None:
    weights = parameters()
    adam = Adam(weights)
    give(weights, 5)
    adam.step(0.1)
    assert all(p.grad is None for p in weights.values())
    before = {name: p.detach().clone() for name, p in weights.items()}
    adam.step(0.1)
    assert all(torch.equal(weights[name], before[name]) for name in weights)


@pytest.mark.parametrize("cut", range(len(RATES)))
def test_restored_moments_go_on_bit_for_bit(cut: int) -> None:
    whole, parts = parameters(), parameters()
    adam = Adam(whole, weight_decay=0.1)
    for step, rate in enumerate(RATES):
        give(whole, step)
        adam.step(rate)
    first = Adam(parts, weight_decay=0.1)
    for step, rate in enumerate(RATES[:cut]):
        give(parts, step)
        first.step(rate)
    second = Adam(parts, weight_decay=0.1)
    kept = {name: tensor.clone() for name, tensor in first.state_dict().items()}
    second.load_state_dict(kept)
    for step, rate in enumerate(RATES[cut:], cut):
        give(parts, step)
        second.step(rate)
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert all(torch.equal(tensor, second.state_dict()[name]) for name, tensor in adam.state_dict().items())
    assert all(torch.equal(tensor, kept[name]) for name, tensor in first.state_dict().items()), "restore must copy"


def test_moments_are_named_after_parameters() -> None:
    weights = parameters()
    adam = Adam(weights)
    assert adam.state_dict() == {}
    give(weights, 0)
    adam.step(0.1)
    moments = ("exp_avg", "exp_avg_sq", "step")
    assert adam.state_dict().keys() == {f"{name}.{moment}" for name in ("matrix", "bias") for moment in moments}


@pytest.mark.parametrize("decay", [0.5, 0.999])
def test_the_moving_average_is_the_sum_written_out(decay: float) -> None:
    steps = 40
    path = np.random.default_rng(0).normal(size=(steps + 1, 6))
    weight = torch.tensor(path[0])
    average = MovingAverage({"w": weight}, decay)
    decays = [min(decay, (1 + n) / (10 + n)) for n in range(1, steps + 1)]
    for step in range(1, steps + 1):
        weight.copy_(torch.tensor(path[step]))
        average.update({"w": weight}, step=step)
    # each state of the path counts with what later updates have left of it
    shares = [np.prod(decays)] + [(1 - decays[n]) * np.prod(decays[n + 1 :]) for n in range(steps)]
    assert sum(shares) == pytest.approx(1)
    np.testing.assert_allclose(average.weights["w"].numpy(), np.array(shares) @ path, rtol=1e-12)


def test_the_moving_average_has_its_own_memory_and_no_gradient() -> None:
    weights = parameters()
    average = MovingAverage(weights, 0.9)
    with torch.no_grad():
        weights["bias"].zero_()
    assert average.weights["bias"].abs().min() > 0
    average.update(weights, step=1)
    assert not any(w.requires_grad for w in average.weights.values())


@pytest.mark.parametrize(
    ("name", "tensor", "sentence"),
    [
        (
            "matrix.exp_avg",
            torch.zeros(2, 2),
            r"a\.safetensors: adam\.matrix\.exp_avg is float32 of shape \(2, 2\), this run needs float32 of",
        ),
        ("matrix.exp_avg_sq", None, r"has no adam\.matrix\.exp_avg_sq, which this run needs"),
        (
            "bias.step",
            torch.zeros(1),
            r"adam\.bias\.step is float32 of shape \(1,\), this run needs float32 of shape \(\)",
        ),
        (
            "bias.exp_avg",
            torch.zeros(4).double(),
            r"adam\.bias\.exp_avg is float64 of shape \(4,\), this run needs float32",
        ),
        ("other.step", torch.zeros(()), r"adam\.other\.step is not part of this run; restore it from a copy"),
    ],
)
def test_moments_that_are_not_those_of_a_parameter_are_refused(name: str, tensor: Any, sentence: str) -> None:
    """A fused kernel would write behind the end of a moment that is too short."""
    weights = parameters()
    adam = Adam(weights)
    give(weights, 0)
    adam.step(0.1)
    kept = {key: each.clone() for key, each in adam.state_dict().items() if key != name}
    if tensor is not None:
        kept[name] = tensor
    fresh = Adam(parameters())
    with pytest.raises(RunError, match=sentence):
        fresh.load_state_dict(kept, location="a.safetensors", prefix="adam.")
    assert fresh.state_dict() == {}
