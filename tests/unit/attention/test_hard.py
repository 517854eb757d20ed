"""Hard attention: the draws by their statistics, the estimators by their expected gradients."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention import (
    Attention,
    GeneralScore,
    HardSampling,
    MovingBaseline,
    SampleStatistics,
    StraightThrough,
    compute_reinforce_loss,
    softmax,
)
from heedful.inspection.capture import watch_attention

MANY = 100_000
CHOICES = (StraightThrough, HardSampling)


def some_scores(*, spread: float = 1.5) -> tuple[Tensor, Tensor]:
    """Of two rows with three queries and five keys, in float64; one query sees nothing."""
    scores = (spread * torch.randn(2, 3, 5, dtype=torch.float64)).requires_grad_()
    visible = torch.rand(2, 3, 5) < 0.7
    visible[..., 0] = True
    visible[1, 2] = False
    return scores, visible


@pytest.mark.parametrize("kind", CHOICES)
@pytest.mark.parametrize("training", [True, False])
def test_each_query_takes_one_visible_key_or_nothing(kind: type[nn.Module], training: bool) -> None:
    scores, visible = some_scores()
    weights = kind().train(training)(scores, visible)
    assert set(weights.unique().tolist()) == {0.0, 1.0}, "exactly, in spite of the gradient that hangs on it"
    assert torch.equal(weights.sum(-1) == 1, visible.any(-1))
    assert weights[~visible].abs().sum() == 0


@pytest.mark.parametrize("kind", CHOICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_in_training_keys_are_drawn_as_often_as_their_softmax_says(kind: type[nn.Module], dtype: torch.dtype) -> None:
    row = torch.tensor([[2.0, 0.0, -1.0, 9.0, 2.0, -4.0]], dtype=dtype)
    visible = torch.tensor([[True, True, True, False, True, True]]).expand(MANY, 1, -1)
    shares = kind().train()(row.expand(MANY, 1, -1), visible).double().mean((0, 1))
    p = softmax(row, visible[0]).double()[0]
    deviation = (p * (1 - p) / MANY).sqrt()
    assert ((shares - p).abs() <= 5 * deviation).all(), (shares, p)


@pytest.mark.parametrize("kind", CHOICES)
def test_draws_are_independent_and_follow_the_seed(kind: type[nn.Module]) -> None:
    choose, scores, visible = kind().train(), torch.zeros(MANY, 2, 2), torch.ones(MANY, 2, 2, dtype=torch.bool)
    torch.manual_seed(5)
    first, second = choose(scores, visible), choose(scores, visible)
    torch.manual_seed(5)
    assert torch.equal(choose(scores, visible), first)
    bits = torch.stack((first[:-1, 0, 0], first[:-1, 1, 0], first[1:, 0, 0], second[:-1, 0, 0])).double()
    assert float(torch.corrcoef(bits).fill_diagonal_(0).abs().max()) < 5 / math.sqrt(MANY)


@pytest.mark.parametrize("kind", CHOICES)
def test_outside_training_the_likeliest_key_is_taken_and_no_die_is_cast(kind: type[nn.Module]) -> None:
    scores, visible = some_scores()
    state = torch.get_rng_state()
    weights = kind().eval()(scores, visible)
    assert torch.equal(torch.get_rng_state(), state)
    for b, q in itertools.product(range(2), range(3)):
        seen = visible[b, q].nonzero().flatten().tolist()
        best = max(seen, key=lambda i: scores[b, q, i].item()) if seen else None
        assert weights[b, q].tolist() == [float(i == best) for i in range(5)]


@pytest.mark.parametrize("training", [True, False])
def test_the_straight_through_gradient_is_that_of_the_softmax(training: bool) -> None:
    scores, visible = some_scores()
    value, choose = torch.randn(2, 5, 4, dtype=torch.float64), StraightThrough().train(training)
    upstream = torch.randn(2, 3, 4, dtype=torch.float64)
    (found,) = torch.autograd.grad(((choose(scores, visible) @ value) * upstream).sum(), scores)
    (expected,) = torch.autograd.grad(((softmax(scores, visible) @ value) * upstream).sum(), scores)
    torch.testing.assert_close(found, expected)
    assert found.abs().sum() > 0


@pytest.mark.parametrize("kind", CHOICES)
def test_watching_shows_draws_and_what_they_were_drawn_from(kind: type[nn.Module]) -> None:
    attention = Attention(GeneralScore(4, 3), kind()).train()
    query, memory = torch.randn(2, 3, 4), torch.randn(2, 5, 3)
    visible = torch.rand(2, 3, 5) < 0.7
    with watch_attention(attention) as seen:
        context = attention(query, attention.score.project(memory), value=memory, visible=visible)
    assert set(seen) == {"", "choose"}
    scores = attention.score(query, attention.score.project(memory))
    torch.testing.assert_close(seen["choose"][0], softmax(scores, visible).detach())
    torch.testing.assert_close(context, seen[""][0] @ memory)
    assert set(seen[""][0].unique().tolist()) == {0.0, 1.0}


def all_draws(visible: Tensor) -> list[Tensor]:
    """The weights of every joint draw of the queries of one row."""
    keys = visible.size(-1)
    options = [row.nonzero().flatten().tolist() or [None] for row in visible]
    one_hot = functional.one_hot(torch.arange(keys)).double()
    nothing = torch.zeros(keys, dtype=torch.float64)
    return [
        torch.stack([nothing if i is None else one_hot[i] for i in each]).unsqueeze(0)
        for each in itertools.product(*options)
    ]


@pytest.mark.parametrize("baseline", [0.0, 0.7])
@pytest.mark.parametrize("entropy_weight", [0.0, 0.3])
def test_the_surrogates_expected_gradient_is_that_of_expected_reward_and_entropy(
    baseline: float, entropy_weight: float
) -> None:
    """Over all joint draws of three queries, one of which sees nothing, and a reward for the row as a whole."""
    scores = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
    visible = torch.tensor([[[True, True, False, True], [False] * 4, [True, True, True, True]]])
    taste = torch.randn(3, 4, dtype=torch.float64)
    estimate, objective = scores.new_zeros(()), scores.new_zeros(())
    for weights in all_draws(visible[0]):
        probabilities = softmax(scores, visible)
        p = torch.where(weights[0].any(-1), (weights * probabilities)[0].sum(-1), 1.0).prod()
        reward = (weights[0] * taste).sum().sin().view(1, 1)
        drawn = SampleStatistics.from_weights(weights, probabilities)
        term = compute_reinforce_loss(drawn, reward=reward, baseline=baseline, entropy_weight=entropy_weight).sum()
        estimate = estimate + p.detach() * term
        objective = objective - p * reward.sum()
    for q in (0, 2):
        seen = softmax(scores, visible)[0, q][visible[0, q]]
        objective = objective + entropy_weight * (seen * seen.log()).sum()
    (found,), (expected,) = (torch.autograd.grad(each, scores, retain_graph=True) for each in (estimate, objective))
    torch.testing.assert_close(found, expected)
    assert expected[visible].abs().min() > 1e-4


def test_what_a_draw_hands_out() -> None:
    probabilities = torch.tensor([[[0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]])
    weights = torch.tensor([[[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]])
    drawn = SampleStatistics.from_weights(weights, probabilities)
    torch.testing.assert_close(drawn.log_probability, torch.tensor([[math.log(0.25), 0.0, 0.0, 0.0]]))
    torch.testing.assert_close(drawn.entropy, torch.tensor([[1.5 * math.log(2), 0.0, math.log(2), 0.0]]))
    faded = SampleStatistics.from_weights(weights * 0.3, probabilities)
    torch.testing.assert_close(faded.log_probability, drawn.log_probability)


def test_the_surrogate_counts_what_a_draw_earned_beyond_the_baseline() -> None:
    drawn = SampleStatistics(
        torch.tensor([[-1.0, -2.0]], requires_grad=True), torch.tensor([[0.5, 0.25]], requires_grad=True)
    )
    reward = torch.tensor([[5.0, 2.0]], requires_grad=True)
    terms = compute_reinforce_loss(drawn, reward=reward, baseline=2.0, entropy_weight=0.1)
    torch.testing.assert_close(terms, torch.tensor([[3.0 - 0.05, 0.0 - 0.025]]))
    terms.sum().backward()
    assert reward.grad is None
    by_row = compute_reinforce_loss(drawn, reward=torch.tensor([[5.0]]), baseline=torch.tensor([[1.0]]))
    torch.testing.assert_close(by_row, torch.tensor([[4.0, 8.0]]))


def test_hopeless_keys_do_not_poison_the_gradient() -> None:
    scores = torch.tensor([[[0.0, -500.0, 3.0], [80.0, 0.0, -90.0]]], requires_grad=True)
    visible = torch.tensor([[[True, True, True], [True, False, True]]])
    probabilities = softmax(scores, visible)
    weights = torch.tensor([[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]])
    drawn = SampleStatistics.from_weights(weights, probabilities)
    compute_reinforce_loss(drawn, reward=torch.ones(1, 1), entropy_weight=1.0).sum().backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()


def test_a_share_of_queries_gets_the_expectation_in_training_alone() -> None:
    """Xu et al.'s way to a quieter gradient."""
    scores, visible = torch.randn(1, 1, 4).expand(MANY, 1, 4), torch.ones(MANY, 1, 4, dtype=torch.bool)
    soft, choose = softmax(scores, visible), HardSampling(expected=0.3)
    weights = choose.train()(scores, visible)
    calm = (weights == soft).all(-1)
    assert ((weights == 1).any(-1) ^ calm).all()
    share = calm.double().mean().item()
    assert share == pytest.approx(0.3, abs=5 * math.sqrt(0.3 * 0.7 / MANY))
    assert (choose.eval()(scores, visible).amax(-1) == 1).all()
    torch.testing.assert_close(HardSampling(expected=1.0).train()(scores, visible), soft)
    with pytest.raises(AssertionError, match=r"1\.5 is not a share"):
        HardSampling(expected=1.5)


def test_the_baseline_forgets_slowly_and_is_a_value() -> None:
    start = MovingBaseline()
    once = start.update(torch.tensor([[1.0, 3.0]]))
    twice = once.update(torch.tensor([-4.0]))
    assert (start.value, once.value, twice.value) == pytest.approx((0.0, 0.2, 0.9 * 0.2 - 0.4))
    steady = MovingBaseline(decay=0.5)
    for _ in range(40):
        steady = steady.update(torch.full((3,), 7.0, requires_grad=True))
    assert steady.value == pytest.approx(7)
    assert steady.decay == 0.5


@pytest.mark.parametrize("kind", CHOICES)
def test_hard_attention_learns_where_to_look(kind: type[nn.Module]) -> None:
    """One of four slots is marked and says which number is wanted; the others lie."""
    torch.manual_seed(2)
    attention, baseline = Attention(GeneralScore(1, 2), kind()).train(), MovingBaseline()
    optimizer = torch.optim.Adam(attention.parameters(), lr=0.05)
    query, visible = torch.ones(64, 1, 1), torch.ones(64, 1, 4, dtype=torch.bool)

    def batch() -> tuple[Tensor, Tensor]:
        marked = functional.one_hot(torch.randint(4, (64,)), 4).float()
        numbers = torch.randn(64, 4)
        return torch.stack((marked, 1 - marked), -1), numbers

    def errors(memory: Tensor, numbers: Tensor) -> Tensor:
        wanted = (memory[..., 0] * numbers).sum(1)
        found = attention(query, attention.score.project(memory), value=numbers.unsqueeze(-1), visible=visible)
        return (found[:, 0] - wanted.unsqueeze(1)).square()

    for _ in range(150):
        with watch_attention(attention, detach=False) as seen:
            error = errors(*batch())
        loss = error.sum()
        if kind is HardSampling:
            drawn = SampleStatistics.from_weights(seen[""][0], seen["choose"][0])
            loss = compute_reinforce_loss(drawn, reward=-error, baseline=baseline.value, entropy_weight=0.01).sum()
            baseline = baseline.update(-error)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert errors(*batch()).mean() < 0.2, "a draw at random costs 1.5"
    assert (errors(*batch()) == 0).double().mean() > 0.8
    attention.eval()
    assert errors(*batch()).max() == 0
