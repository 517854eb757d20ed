from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from heedful.errors import RunError
from heedful.training.optimizers import SGD, AdaDelta, Adafactor, Adam, MovingAverage, Optimizer

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


OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "adam": Adam,
    "sgd": SGD,
    "momentum": partial(SGD, momentum=0.9),
    "nesterov": partial(SGD, momentum=0.9, nesterov=True),
    "adadelta": AdaDelta,
    "adafactor": Adafactor,
    "unscaled adafactor": partial(Adafactor, scale_parameter=False),
}


@pytest.mark.parametrize("build", OPTIMIZERS.values(), ids=OPTIMIZERS)
@pytest.mark.parametrize("cut", range(len(RATES)))
def test_restored_moments_go_on_bit_for_bit(cut: int, build: Callable[..., Optimizer]) -> None:
    whole, parts = parameters(), parameters()
    unbroken = build(whole, weight_decay=0.1)
    for step, rate in enumerate(RATES):
        give(whole, step)
        unbroken.step(rate)
    first = build(parts, weight_decay=0.1)
    for step, rate in enumerate(RATES[:cut]):
        give(parts, step)
        first.step(rate)
    second = build(parts, weight_decay=0.1)
    kept = {name: tensor.clone() for name, tensor in first.state_dict().items()}
    second.load_state_dict(kept)
    for step, rate in enumerate(RATES[cut:], cut):
        give(parts, step)
        second.step(rate)
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert all(torch.equal(tensor, second.state_dict()[name]) for name, tensor in unbroken.state_dict().items())
    assert all(torch.equal(tensor, kept[name]) for name, tensor in first.state_dict().items()), "restore must copy"


def run_both(
    ours: Optimizer, weights: dict[str, Tensor], theirs: torch.optim.Optimizer, twin: dict[str, Tensor]
) -> None:
    """Make a few updates with an optimizer and with an independent one, whose weights must stay the same."""
    for step, rate in enumerate(RATES):
        give(weights, step)
        give(twin, step)
        for group in theirs.param_groups:
            group["lr"] = rate
        ours.step(rate)
        theirs.step()
        for name, weight in weights.items():
            torch.testing.assert_close(weight.detach(), twin[name].detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_is_torchs(nesterov: bool) -> None:
    weights, twin = parameters(), parameters()
    theirs = torch.optim.SGD(twin.values(), lr=1, momentum=0.8, nesterov=nesterov)
    run_both(SGD(weights, momentum=0.8, nesterov=nesterov), weights, theirs, twin)


def test_adadelta_is_the_papers() -> None:
    """Zeiler 2012, algorithm 1, whose changes the learning rate multiplies."""
    weights = parameters()
    expected = weights["matrix"].detach().double()
    optimizer = AdaDelta(weights, rho=0.8, epsilon=1e-4)
    square, change_square = torch.zeros(3, 4).double(), torch.zeros(3, 4).double()
    for step, rate in enumerate(RATES):
        give(weights, step)
        assert weights["matrix"].grad is not None
        gradient = weights["matrix"].grad.double()
        square = 0.8 * square + 0.2 * gradient**2
        change = -(change_square + 1e-4).sqrt() / (square + 1e-4).sqrt() * gradient
        change_square = 0.8 * change_square + 0.2 * change**2
        expected = expected + rate * change
        optimizer.step(rate)
    torch.testing.assert_close(weights["matrix"].detach().double(), expected, rtol=1e-5, atol=1e-6)
    twin = parameters()
    run_both(AdaDelta(again := parameters()), again, torch.optim.Adadelta(twin.values(), rho=0.95, eps=1e-6), twin)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("threshold", [1.0, 0.2])
def test_adafactor_is_hugging_faces(scale: bool, threshold: float) -> None:
    pytest.importorskip("transformers")
    from transformers.optimization import Adafactor as HuggingFaceAdafactor

    weights, twin = parameters(), parameters()
    for chosen in (weights, twin):
        torch.manual_seed(8)
        chosen["kernel"] = torch.randn(2, 3, 4, requires_grad=True)
        with torch.no_grad():
            chosen["bias"] *= 1e-4  # smaller than the least scale
    theirs = HuggingFaceAdafactor(
        [*twin.values()],
        lr=1.0,
        clip_threshold=threshold,
        decay_rate=-0.8,
        scale_parameter=scale,
        relative_step=False,
        warmup_init=False,
    )
    ours = Adafactor(weights, clip_threshold=threshold, decay_exponent=0.8, scale_parameter=scale)
    run_both(ours, weights, theirs, twin)


def test_adafactor_is_torchs_where_the_rate_is_relative() -> None:
    """torch limits the rate by 1/sqrt(step) itself; below that both have the same steps."""
    weights, twin = parameters(), parameters()
    run_both(Adafactor(weights), weights, torch.optim.Adafactor(twin.values(), lr=1.0), twin)


def test_adafactor_stores_rows_and_columns() -> None:
    matrices = {"a": torch.randn(30, 40, requires_grad=True), "b": torch.randn(2, 5, 7), "c": torch.randn(9)}
    optimizer = Adafactor(matrices)
    assert optimizer.count_state_numbers() == (30 + 40) + (2 * 5 + 2 * 7) + 9
    assert [each(matrices).count_state_numbers() for each in (Adam, AdaDelta, SGD, OPTIMIZERS["momentum"])] == [
        factor * (1200 + 70 + 9) for factor in (2, 2, 0, 1)
    ]
    matrices["a"].grad = torch.ones(30, 40)
    optimizer.step(1.0)
    stored = {name: tuple(tensor.shape) for name, tensor in optimizer.state_dict().items()}
    assert stored == {"a.row_square_avg": (30,), "a.column_square_avg": (40,), "a.step": ()}


@pytest.mark.parametrize("build", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_each_optimizer_decays_matrices_by_the_rate(build: Callable[..., Optimizer]) -> None:
    """With a zero gradient nothing else changes a weight."""
    weights = parameters()
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    optimizer = build(weights, weight_decay=0.5, factors={"matrix": 0.2})
    for weight in weights.values():
        weight.grad = torch.zeros_like(weight)
    optimizer.step(0.1)
    torch.testing.assert_close(weights["matrix"].detach(), before["matrix"] * (1 - 0.1 * 0.2 * 0.5))
    assert all(torch.equal(weights[name], before[name]) for name in ("bias", "gain"))


@pytest.mark.parametrize("build", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_each_optimizer_finds_the_weights_of_a_linear_map(build: Callable[..., Optimizer]) -> None:
    torch.manual_seed(0)
    inputs, goal = torch.randn(64, 4), torch.randn(4, 3)
    weight = torch.zeros(4, 3, requires_grad=True)
    optimizer = build({"weight": weight})
    rate = {"AdaDelta": 30.0, "Adafactor": 0.3}.get(type(optimizer).__name__, 0.1)
    for step in range(300):
        (inputs @ (weight - goal)).square().mean().backward()
        optimizer.step(rate * (1 - step / 300))
    assert (weight - goal).detach().abs().max() < 0.05


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
