"""Retina, glimpses and the hybrid loss, compared with the formulas of Mnih et al. 2014 in plain loops."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from heedful.architectures.build_vision import build_picture_classifier
from heedful.architectures.vision import GlimpsesConfig, WholePictureConvolutionConfig
from heedful.blocks.recurrent import ReLUCell
from heedful.blocks.vision import Retina
from heedful.models.picture_classifier import GlimpseClassifier, LearnedPolicy, uniform_to_normal
from heedful.tasks.glimpses.task import GlimpsesBatch, GlimpsesObjective

EDGES = [[-1.0, -1.0], [1.0, 1.0], [-1.0, 1.0], [0.0, 0.0]]


def compute_retina(picture: Tensor, place: Tensor, *, patch: int, size: int) -> Tensor:
    """Compute the mean of each square of pixels; pixels outside the picture are 0."""
    channels, height, width = picture.shape
    top, left = (round(float((at + 1) / 2 * side - size / 2)) for at, side in zip(place, (height, width), strict=True))
    many = size // patch
    seen = torch.zeros(channels, patch, patch)
    for channel in range(channels):
        for row in range(size):
            for column in range(size):
                y, x = top + row, left + column
                if 0 <= y < height and 0 <= x < width:
                    seen[channel, row // many, column // many] += picture[channel, y, x] / many**2
    return seen


@pytest.mark.parametrize(("patch", "scales"), [(4, 1), (3, 2), (2, 3)])
def test_the_retina_computes_means_of_squares(patch: int, scales: int) -> None:
    pictures = torch.rand(3, 2, 9, 7)
    places = torch.cat((torch.rand(20, 2) * 2 - 1, torch.tensor(EDGES)))
    rows = torch.arange(len(places)) % 3
    seen = Retina(patch, scales)(pictures, rows, places)
    assert seen.shape == (24, scales, 2, patch, patch)
    for number, (row, place) in enumerate(zip(rows.tolist(), places, strict=True)):
        for scale in range(scales):
            expected = compute_retina(pictures[row], place, patch=patch, size=patch * 2**scale)
            assert torch.allclose(seen[number, scale], expected)


def test_no_gradient_leads_to_a_place() -> None:
    pictures, places = torch.rand(1, 1, 8, 8, requires_grad=True), torch.zeros(1, 2, requires_grad=True)
    Retina(4, 2)(pictures, torch.tensor([0]), places).sum().backward()
    assert places.grad is None
    assert pictures.grad is not None


def test_box_and_muller() -> None:
    """Means, variances and covariance of a normal distribution, and the formula at one point."""
    drawn = uniform_to_normal(torch.rand(200_000, 2))
    assert drawn.mean(0).abs().max() < 0.01  # standard error 0.0022
    assert (torch.cov(drawn.T) - torch.eye(2)).abs().max() < 0.02
    assert torch.isfinite(uniform_to_normal(torch.tensor([[0.0, 0.0], [1 - 2**-24, 0.5]]))).all()
    radius = math.sqrt(-2 * math.log(0.25))
    assert uniform_to_normal(torch.tensor([[0.75, 0.25]]))[0].tolist() == pytest.approx([0, radius])


def build_model(**options: object) -> GlimpseClassifier:
    table = {"d_model": 6, "d_glimpse": 5, "glimpses": 3, "patch": 3, "scales": 2, "spread": 0.3, **options}
    made = build_picture_classifier(GlimpsesConfig.model_validate(table), picture=(1, 8, 8), classes=4)
    assert isinstance(made, GlimpseClassifier)
    assert isinstance(made.policy, LearnedPolicy)
    nn.init.constant_(made.policy.mean.bias, 1.5)  # so that many places are outside the picture
    return made.double()


def compute_glimpses(
    made: GlimpseClassifier, picture: Tensor, chance: Tensor
) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Compute logits, place, log-probability and expected reward at each glimpse; the core must be `ReLUCell`."""
    g, cell, policy = made.glimpse, made.cell, made.policy
    assert isinstance(cell, ReLUCell)
    hidden, found = torch.zeros(6), []
    for step, (first, second) in enumerate(chance):
        expected = made.baseline.weight[0] @ hidden.detach() + made.baseline.bias[0]
        if step == 0:
            place, log_probability = torch.stack((2 * first - 1, 2 * second - 1)), torch.zeros(())
        else:
            assert isinstance(policy, LearnedPolicy)
            mean = torch.tanh(policy.mean(hidden.detach()))
            radius = torch.sqrt(-2 * torch.log(1 - first))
            away = radius * torch.stack((torch.cos(2 * math.pi * second), torch.sin(2 * math.pi * second)))
            drawn = (mean + 0.3 * away).detach()
            density = torch.exp(-((drawn - mean) ** 2) / (2 * 0.09)) / math.sqrt(2 * math.pi * 0.09)
            place, log_probability = drawn.clamp(-1, 1), torch.log(density).sum()
        patches = [compute_retina(picture, place, patch=3, size=size) for size in (3, 6)]
        what = torch.relu(g.seen(torch.cat([patch.flatten() for patch in patches])))
        glimpse = torch.relu(g.what(what) + g.where(torch.relu(g.place(place))))
        hidden = torch.relu(cell.input(glimpse) + cell.recurrent(hidden))
        found.append((made.output(hidden), place, log_probability, expected))
    return found


def test_each_look_follows_the_formulas() -> None:
    made, pictures, chance = build_model(), torch.rand(2, 1, 8, 8), torch.rand(2, 2, 3, 2)
    looks = made(pictures, chance)
    for row in range(2):
        for copy in range(2):
            for step, parts in enumerate(compute_glimpses(made, pictures[row], chance[row, copy])):
                ours = (looks.logits, looks.locations, looks.log_probabilities, looks.baselines)
                for mine, theirs in zip(ours, parts, strict=True):
                    # looks are in single precision
                    assert torch.allclose(mine[row, copy, step].double(), theirs, atol=1e-5)
    assert looks.locations.abs().max() == 1


@pytest.mark.parametrize("after_each", [False, True])
def test_the_hybrid_loss_and_its_gradient(after_each: bool) -> None:
    """Each gradient reaches the right part: likelihood the core, errors the baseline, REINFORCE the policy."""
    made, pictures, chance = build_model(), torch.rand(3, 1, 8, 8), torch.rand(3, 2, 3, 2)
    labels = torch.tensor([0, 3, 1])
    what = SimpleNamespace(config=SimpleNamespace(after_each=after_each))
    loss = GlimpsesObjective.loss(what, made, GlimpsesBatch(pictures, labels, chance))  # type: ignore[arg-type]  # it uses only this part
    loss.total.backward()
    gradients = {name: parameter.grad.clone() for name, parameter in made.named_parameters()}
    made.zero_grad()
    total, rewards = torch.zeros(()), 0.0
    for row in range(3):
        for copy in range(2):
            steps = compute_glimpses(made, pictures[row], chance[row, copy])
            reward = float(steps[-1][0].argmax() == labels[row])
            rewards += reward / 2
            losses = [-logits.log_softmax(-1)[labels[row]] for logits, *_ in steps]
            total = total + (sum(losses) / 3 if after_each else losses[-1]) / 2
            for _, _, log_probability, expected in steps:
                total = total + (expected - reward) ** 2 / 6
                total = total - (reward - expected.detach()) * log_probability / 6
    total.backward()
    assert loss.count == 3
    assert float(loss.parts["reward"].total) == pytest.approx(rewards)
    for name, parameter in made.named_parameters():
        assert torch.allclose(gradients[name], parameter.grad, atol=1e-5), name
    assert gradients["policy.mean.weight"].abs().max() > 1e-4


def test_models_that_see_the_whole_picture_have_no_path() -> None:
    config = WholePictureConvolutionConfig(width=3, stride=2, filters=2, d_model=4)
    made = build_picture_classifier(config, picture=(1, 8, 7), classes=4).double()
    looks = made(torch.rand(5, 1, 8, 7), torch.rand(5, 1, 0, 2))
    assert (looks.logits.shape, looks.locations.shape) == ((5, 1, 1, 4), (5, 1, 0, 2))
    what = SimpleNamespace(config=SimpleNamespace(after_each=False))
    batch = GlimpsesBatch(torch.rand(5, 1, 8, 7), torch.arange(5) % 4, torch.rand(5, 1, 0, 2))
    loss = GlimpsesObjective.loss(what, made, batch)  # type: ignore[arg-type]
    assert loss.total.detach() == loss.parts["nll"].total
