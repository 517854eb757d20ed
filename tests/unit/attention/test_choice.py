"""Laws of every pair of score and choice, with and without a focus; windows around predicted places, longhand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn

from heedful.attention import (
    AdditiveScore,
    Attention,
    AttentionScore,
    ConcatScore,
    DotScore,
    ExpDotScore,
    GeneralScore,
    HardSampling,
    LinearChain,
    LocalWindow,
    LocationScore,
    Normalizer,
    PredictedWindow,
    ScaledDotScore,
    StraightThrough,
    normalize_by_sum,
    softmax,
)

WIDTH, LONGEST = 4, 12
SCORES: dict[str, Callable[[], AttentionScore]] = {
    "dot": DotScore,
    "scaled dot": ScaledDotScore,
    "exp dot": ExpDotScore,
    "general": lambda: GeneralScore(WIDTH, WIDTH),
    "additive": lambda: AdditiveScore(WIDTH, WIDTH, 5),
    "concat": lambda: ConcatScore(WIDTH, WIDTH, 5),
    "location": lambda: LocationScore(WIDTH, LONGEST),
}
CHOICES: dict[str, Callable[[], Normalizer]] = {
    "softmax": lambda: softmax,
    "proportional": lambda: normalize_by_sum,
    "straight through": StraightThrough,
    "sampled": HardSampling,
    "half sampled": lambda: HardSampling(expected=0.5),
    "chain": LinearChain,
    "chain of 2": lambda: LinearChain(total=2.0),
}
FOCI: dict[str, Callable[[], LocalWindow | None]] = {
    "": lambda: None,
    "window": lambda: PredictedWindow(WIDTH, 3, reach=2),
}
CASES = list(itertools.product(SCORES, CHOICES, FOCI))


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@dataclass(frozen=True)
class World:
    """Queries, and a memory of which each sees something else."""

    query: Tensor
    keys: Tensor
    values: Tensor
    positions: Tensor
    visible: Tensor

    @classmethod
    def random(cls, *, rows: int = 3, queries: int = 4, keys: int = 6) -> World:
        visible = torch.rand(rows, queries, keys) < 0.7
        visible[..., 1] = True
        visible[0, 2] = False
        return cls(
            torch.randn(rows, queries, WIDTH),
            torch.randn(rows, keys, WIDTH),
            torch.randn(rows, keys, 3),
            torch.arange(keys).expand(rows, -1),
            visible,
        )

    def slots(self, order: Tensor) -> World:
        """The memory's slots in another order."""
        return replace(
            self,
            keys=self.keys[:, order],
            values=self.values[:, order],
            positions=self.positions[:, order],
            visible=self.visible[..., order],
        )

    def rows(self, rows: slice) -> World:
        return World(self.query[rows], self.keys[rows], self.values[rows], self.positions[rows], self.visible[rows])

    def padded(self, before: Tensor, *, garbage: float) -> World:
        """With a slot of padding in front of each of these columns."""
        row, keys = len(self.keys), self.keys.size(1)
        places = torch.cat((torch.arange(keys), before - 0.5)).argsort()
        blank = torch.full((row, len(before), WIDTH), garbage)
        return replace(
            self,
            keys=torch.cat((self.keys, blank), 1),
            values=torch.cat((self.values, blank[..., :3]), 1),
            positions=torch.cat((self.positions, torch.full((row, len(before)), -1)), 1),
            visible=torch.cat((self.visible, torch.zeros(row, self.query.size(1), len(before), dtype=torch.bool)), 2),
        ).slots(places)


def make(case: tuple[str, str, str]) -> Attention:
    score, choice, focus = case
    attention = Attention(SCORES[score](), CHOICES[choice](), focus=FOCI[focus]())
    for parameter in attention.parameters():  # transitions of 0 would hide mistakes
        nn.init.normal_(parameter)
    return attention.eval()


def attend(attention: Attention, world: World) -> tuple[Tensor, Tensor]:
    """The weights that a probe sees, and the contexts."""
    seen: list[Tensor] = []
    handle = attention.probe.register_forward_hook(lambda _module, _inputs, weights: seen.append(weights))
    key = attention.score.project(world.keys, world.positions)
    context = attention(world.query, key, value=world.values, visible=world.visible)
    handle.remove()
    return seen[0], context


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_what_is_hidden_weighs_nothing_and_has_no_gradient(case: tuple[str, str, str], training: bool) -> None:
    """A blind query takes zeros; whatever stands in hidden slots, all gradients are numbers."""
    world, attention = World.random(), make(case).train(training)
    nobody = torch.tensor([2, 5])
    world.visible[:, :, nobody] = False
    world.keys[:, nobody] = 1e4
    leaves = [world.query.requires_grad_(), world.keys.requires_grad_(), *attention.parameters()]
    weights, context = attend(attention, world)
    assert weights.shape == world.visible.shape
    assert weights[~world.visible].abs().sum() == 0
    assert context[0, 2].abs().sum() == 0
    assert weights[world.visible].abs().sum() > 0
    torch.testing.assert_close(context, weights @ world.values)
    if not context.requires_grad:
        assert case[1] == "sampled" or (case[1] == "half sampled" and not training)
        return
    gradients = torch.autograd.grad(context.square().sum(), leaves, allow_unused=True)
    for gradient in gradients:
        assert gradient is None or gradient.isfinite().all()
    query, keys = gradients[:2]
    assert query is None or query[0, 2].abs().sum() == 0
    assert keys is None or keys[:, nobody].abs().sum() == 0


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_weights_move_with_their_slots_where_order_means_nothing(case: tuple[str, str, str]) -> None:
    """A position moves with its slot, so this holds for locations too; chains and windows know neighbours."""
    world, attention = World.random(), make(case)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    weights, context = attend(attention, world)
    moved, moved_context = attend(attention, world.slots(order))
    if case[1].startswith("chain") or case[2] == "window":
        assert (moved - weights[..., order]).abs().max() > 1e-3
    else:
        torch.testing.assert_close(moved, weights[..., order])
        torch.testing.assert_close(moved_context, context)


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_rows_and_queries_do_not_depend_on_their_neighbours(case: tuple[str, str, str]) -> None:
    world, attention = World.random(), make(case)
    weights, _ = attend(attention, world)
    for row in range(3):
        alone = world.rows(slice(row, row + 1))
        torch.testing.assert_close(attend(attention, alone)[0][0], weights[row])
        for query in range(4):
            one = replace(alone, query=alone.query[:, query : query + 1], visible=alone.visible[:, query : query + 1])
            torch.testing.assert_close(attend(attention, one)[0][0, 0], weights[row, query])


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_padding_anywhere_changes_nothing(case: tuple[str, str, str]) -> None:
    world, attention = World.random(), make(case)
    weights, context = attend(attention, world)
    for before in ([0, 0, 0], [6, 6], [0, 2, 2, 3, 6]):
        wider = world.padded(torch.tensor(before), garbage=50.0)
        found, again = attend(attention, wider)
        real = wider.positions[0] >= 0
        torch.testing.assert_close(found[..., real], weights)
        torch.testing.assert_close(again, context)


@pytest.mark.parametrize("reach", [1, 2, 5])
def test_a_predicted_window_is_luongs(reach: int) -> None:
    """softmax inside the window times the Gaussian (Luong et al. 2015, eq. 9-10), one weight at a time."""
    attention = Attention(DotScore(), focus=PredictedWindow(WIDTH, 3, reach=reach))
    for parameter in attention.parameters():
        nn.init.normal_(parameter, std=2)
    world = World.random(keys=9)
    weights, _ = attend(attention, world)
    hidden, place = (getattr(attention.focus, name).weight.detach() for name in ("hidden", "place"))
    narrowed = 0
    for b, q in itertools.product(range(3), range(4)):
        seen = world.visible[b, q].nonzero().flatten().tolist()
        query = world.query[b, q]
        energy = sum(float(place[0, h]) * math.tanh(float(hidden[h] @ query)) for h in range(3))
        p = len(seen) / (1 + math.exp(-energy))
        inside = {s: column for s, column in enumerate(seen) if abs(s - p) <= reach}
        assert bool(inside) == bool(seen)
        narrowed += len(inside) < len(seen)
        total = sum(math.exp(float(query @ world.keys[b, column])) for column in inside.values())
        expected = torch.zeros(9)
        for s, column in inside.items():
            gaussian = math.exp(-((s - p) ** 2) / (2 * (reach / 2) ** 2))
            expected[column] = math.exp(float(query @ world.keys[b, column])) / total * gaussian
        torch.testing.assert_close(weights[b, q], expected)
    assert narrowed > 0


def test_the_place_of_a_window_learns_through_the_gaussian() -> None:
    focus = PredictedWindow(WIDTH, 3, reach=3)
    query, visible = torch.randn(2, 3, WIDTH), torch.rand(2, 3, 8) < 0.8
    parameters = dict(focus.named_parameters())
    assert set(parameters) == {"hidden.weight", "place.weight"}

    def total(**changed: Tensor) -> Tensor:
        found: Tensor = torch.func.functional_call(focus, {**parameters, **changed}, (query, visible))
        return found.square().sum()

    gradients = dict(zip(parameters, torch.autograd.grad(total(), list(parameters.values())), strict=True))
    for name, gradient in gradients.items():
        nudge = 1e-6 * torch.randn_like(gradient)
        with torch.no_grad():
            both = [total(**{name: parameters[name] + sign * nudge}) for sign in (1, -1)]
        torch.testing.assert_close((both[0] - both[1]) / 2, (gradient * nudge).sum(), rtol=1e-4, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_window_in_a_long_memory_is_as_exact_in_half_precision(dtype: torch.dtype) -> None:
    """Places beyond 256 have no neighbours in bf16; the window has all 2 reach + 1 of its slots, or 2 reach."""
    focus = PredictedWindow(WIDTH, 3, reach=4).to(dtype)
    found = focus(torch.randn(1, 50, WIDTH, dtype=dtype), torch.ones(1, 50, 3000, dtype=torch.bool))
    assert found.dtype == dtype
    assert set((found > 0).sum(-1).flatten().tolist()) <= {8, 9}
    assert found.amax(-1).min() > 0.95


def test_a_window_that_may_be_empty_is_refused() -> None:
    with pytest.raises(AssertionError, match="reach of 0"):
        PredictedWindow(WIDTH, 3, reach=0)
