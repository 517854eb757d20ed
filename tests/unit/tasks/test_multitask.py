"""Several tasks as one: shares, passes, order, weights; against plans written out longhand."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from heedful.errors import RunError
from heedful.models.heads import MultitaskModel, TokenClassifier
from heedful.models.interface import Encoder
from heedful.tasks.multitask.objective import MultitaskMember, MultitaskObjective
from heedful.tasks.objective import Loss, LossPart, RowIndices, TrainingObjective
from heedful.tasks.predictor import MultiHeadPredictor
from heedful.tensors import Memory, Tokens


class Numbers(TrainingObjective[RowIndices]):
    """Rows in batches of two and three, shuffled by the epoch; passes differ in how many batches they make."""

    metric_names = frozenset({"loss", "score"})
    part_names = frozenset({"nll"})

    def __init__(self, examples: int, *, score: float = 0.0) -> None:
        self.examples = examples
        self.score = score

    def plan_epoch(self, epoch: int) -> Sequence[RowIndices]:
        dice = np.random.default_rng([self.examples, epoch])
        cuts = np.cumsum(dice.integers(2, 4, size=self.examples))
        order = dice.permutation(self.examples)
        return [part for part in np.split(order, cuts[cuts < self.examples]) if len(part)]

    def build_batch(self, rows: RowIndices) -> RowIndices:
        return rows

    def loss(self, model: nn.Module, batch: RowIndices) -> Loss:
        scale = torch.from_numpy(batch).to(torch.float64).sum()
        total = (model.encoder.weight * model.output.weight).sum() * scale
        return Loss(total, len(batch), {"nll": LossPart(total.detach() / 2, len(batch))} if len(batch) > 2 else {})

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        return {"loss": self.score / 10, "score": self.score + float(model.output.bias.detach().sum())}


class Reads(Encoder[Tokens]):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, dtype=torch.float64))

    def forward(self, source: Tokens) -> Memory:
        raise AssertionError("nothing is read here")


def model_of(*names: str) -> MultitaskModel:
    encoder = Reads()
    heads = {name: TokenClassifier(encoder, output=nn.Linear(3, 3, dtype=torch.float64)) for name in names}
    for head in heads.values():
        nn.init.zeros_(head.output.bias)
    return MultitaskModel(heads)


def several(
    sizes: Mapping[str, int], *, temperature: float = 1.0, seed: int = 1, weights: Mapping[str, float] | None = None
) -> MultitaskObjective:
    members = {
        n: MultitaskMember(Numbers(size), size, (weights or {}).get(n, 1.0), "score") for n, size in sizes.items()
    }
    return MultitaskObjective(members, temperature=temperature, seed=seed)


def own_rows(task: MultitaskObjective, plan: Sequence[RowIndices]) -> dict[str, list[list[int]]]:
    """The batches of each task with its own numbers, in their order."""
    found: dict[str, list[list[int]]] = {name: [] for name in task.members}
    for rows in plan:
        batch = task.build_batch(rows)
        found[batch.name].append(batch.batch.tolist())
    return found


def random_sizes(dice: random.Random) -> dict[str, int]:
    return {f"t-{number}": dice.randint(1, 300) for number in range(dice.randint(1, 5))}


@pytest.mark.parametrize("seed", range(8))
def test_a_task_goes_on_in_passes_and_has_exactly_its_share(seed: int) -> None:
    dice = random.Random(seed)
    sizes, temperature = random_sizes(dice), dice.choice((1.0, 1.7, 3.0, 5.0, 1e6))
    task = several(sizes, temperature=temperature, seed=seed)
    epochs = 6
    seen: dict[str, list[list[int]]] = {name: [] for name in sizes}
    for epoch in range(epochs):
        for name, batches in own_rows(task, task.plan_epoch(epoch)).items():
            seen[name] += batches
    passes = {name: len(Numbers(size).plan_epoch(0)) for name, size in sizes.items()}
    powers = {name: count ** (1 / temperature) for name, count in passes.items()}
    for name, size in sizes.items():
        share = powers[name] / sum(powers.values())
        assert task.shares[name] == pytest.approx(share)
        expected = epochs * sum(passes.values()) * share / passes[name]
        longhand = [rows.tolist() for number in range(int(expected) + 2) for rows in Numbers(size).plan_epoch(number)]
        assert seen[name] == longhand[: len(seen[name])], "pass after pass, nothing left out and nothing twice"
        until = sum(len(Numbers(size).plan_epoch(number)) for number in range(int(expected)))
        rest = (expected - int(expected)) * len(Numbers(size).plan_epoch(int(expected)))
        assert len(seen[name]) == pytest.approx(until + rest, abs=1.0)


@pytest.mark.parametrize("seed", range(4))
def test_at_temperature_one_an_epoch_is_a_pass_through_each(seed: int) -> None:
    sizes = random_sizes(random.Random(seed))
    task = several(sizes, seed=seed)
    for epoch in (0, 1, 7):
        found = own_rows(task, task.plan_epoch(epoch))
        assert found == {
            name: [rows.tolist() for rows in Numbers(size).plan_epoch(epoch)] for name, size in sizes.items()
        }


@pytest.mark.parametrize("temperature", [1.0, 1.3, 2.0, 7.0, 1e9])
def test_one_task_alone_is_what_it_would_be_alone(temperature: float) -> None:
    task, alone = several({"x": 101}, temperature=temperature), Numbers(101)
    for epoch in range(30):
        assert [rows.tolist() for rows in task.plan_epoch(epoch)] == [rows.tolist() for rows in alone.plan_epoch(epoch)]
        for accumulate in (1, 4):
            ours, theirs = (each.plan_updates(epoch, accumulate=accumulate) for each in (task, alone))
            assert [[r.tolist() for r in u] for u in ours] == [[r.tolist() for r in u] for u in theirs]


def test_the_plan_is_a_function_of_seed_and_epoch_and_the_order_is_mixed() -> None:
    sizes = {"a": 200, "b": 150, "c": 20}
    task = several(sizes, temperature=2.0)
    task.plan_epoch(5)
    names = [task.build_batch(rows).name for rows in task.plan_epoch(3)]
    assert names == [
        several(sizes, temperature=2.0).build_batch(rows).name for rows in several(sizes, temperature=2.0).plan_epoch(3)
    ]
    other = several(sizes, temperature=2.0, seed=2)
    assert names != [other.build_batch(rows).name for rows in other.plan_epoch(3)]
    assert Counter(names) == Counter(other.build_batch(rows).name for rows in other.plan_epoch(3))
    assert names != [task.build_batch(rows).name for rows in task.plan_epoch(4)]
    changes = sum(one != two for one, two in pairwise(names))
    drawn = 1 - sum((count / len(names)) ** 2 for count in Counter(names).values())
    assert changes == pytest.approx(drawn * len(names), rel=0.3), "as neighbours in a random order are"


@pytest.mark.parametrize("accumulate", [2, 3, 5])
def test_the_batches_of_an_update_are_of_one_task(accumulate: int) -> None:
    task = several({"a": 97, "b": 31, "c": 4}, temperature=3.0)
    for epoch in range(4):
        updates = task.plan_updates(epoch, accumulate=accumulate)
        for update in updates:
            assert len({task.build_batch(rows).name for rows in update}) == 1
            assert 1 <= len(update) <= accumulate
        short = Counter(task.build_batch(update[0]).name for update in updates if len(update) < accumulate)
        assert all(count == 1 for count in short.values()), "only what is left of each"
        joined = [rows for update in updates for rows in update]
        assert own_rows(task, joined) == own_rows(task, task.plan_epoch(epoch))


def test_a_share_of_a_batch_is_of_the_same_task() -> None:
    task = several({"a": 9, "b": 40, "c": 7})
    for rows in task.plan_epoch(0):
        whole = task.build_batch(rows)
        for rank in range(min(2, len(rows))):
            part = task.build_batch(rows[rank::2])
            assert (part.name, part.batch.tolist()) == (whole.name, whole.batch[rank::2].tolist())


def test_weights_multiply_losses_and_gradients_and_nothing_else() -> None:
    rows = np.arange(3) + 10
    plain = several({"a": 10, "b": 20})
    heavy = several({"a": 10, "b": 20}, weights={"b": 2.5})
    gradients = []
    for task in (plain, heavy):
        torch.manual_seed(1)
        model = model_of("a", "b")
        loss = task.loss(model, task.build_batch(rows))
        loss.total.backward()
        gradients.append((model.encoder.weight.grad, model.get_head("b").output.weight.grad))
        assert model.get_head("a").output.weight.grad is None
        assert loss.count == 3
        own = Numbers(20).loss(model.get_head("b"), np.arange(3))
        assert loss.parts["nll"] == own.parts["nll"]
        assert loss.total == own.total * task.members["b"].weight
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(two, 2.5 * one)


def test_parts_have_no_weight_and_are_announced() -> None:
    task = several({"a": 10, "b": 20}, weights={"a": 3.0})
    model = model_of("a", "b")
    loss = task.loss(model, task.build_batch(np.arange(3)))
    own = Numbers(10).loss(model.get_head("a"), np.arange(3))
    assert (loss.parts["loss"].total.item(), loss.parts["loss"].count) == (own.total.item(), own.count)
    assert loss.parts.keys() == task.part_names == {"loss", "nll"}


def test_rows_say_which_task_they_are_of() -> None:
    task = several({"a": 10, "b": 20})
    assert [task.member_name(np.array(rows)) for rows in ([3], [9, 8], [10], [29, 12])] == ["a", "a", "b", "b"]


class Remembers(Numbers):
    """A task with something to keep, as a baseline of REINFORCE is."""

    past = 0.0

    def on_update(self, nll: float, *, member: str = "") -> None:
        self.past += nll

    def state_dict(self) -> Mapping[str, Tensor]:
        return {"past": torch.tensor(self.past)}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        self.past = float(tensors["past"])


def remembering() -> MultitaskObjective:
    members = {name: MultitaskMember(Remembers(9), 9, 1.0, "score") for name in ("a", "a-b")}
    return MultitaskObjective(members | {"c": MultitaskMember(Numbers(9), 9, 1.0, "score")}, temperature=1.0, seed=1)


def test_each_task_hears_of_its_updates_alone_and_finds_its_own_again() -> None:
    task, later = remembering(), remembering()
    for name, nll in (("a", 1.0), ("a-b", 20.0), ("a", 3.0), ("c", 500.0)):
        task.on_update(nll, member=name)
    assert {name: float(tensor) for name, tensor in task.state_dict().items()} == {"a.past": 4.0, "a-b.past": 20.0}
    later.load_state_dict(task.state_dict())
    assert [getattr(member.objective, "past", None) for member in later.members.values()] == [4.0, 20.0, None]


def test_the_reported_likelihood_has_no_weight_where_a_task_tells_none() -> None:
    task = several({"a": 10}, weights={"a": 3.0})
    loss = task.loss(model_of("a"), task.build_batch(np.array([1, 2])))
    assert float(loss.total.detach()) == pytest.approx(3 * float(loss.parts["nll"].total))


def test_without_weight_a_task_is_measured_and_not_learned() -> None:
    task = several({"a": 50, "b": 400}, weights={"b": 0.0}, temperature=4.0)
    for epoch in range(3):
        assert {task.build_batch(rows).name for rows in task.plan_epoch(epoch)} == {"a"}
    assert task.shares == {"a": 1.0, "b": 0.0}
    assert {"b/loss", "b/score"} <= task.metric_names


def test_metrics_are_those_of_all_their_weighted_loss_and_the_mean_of_what_is_monitored() -> None:
    members = {
        "a": MultitaskMember(Numbers(5, score=4.0), 5, 1.0, "score"),
        "b": MultitaskMember(Numbers(5, score=10.0), 5, 0.5, "score"),
        "c": MultitaskMember(Numbers(5, score=1.0), 5, 0.0, "score"),
    }
    task = MultitaskObjective(members, temperature=1.0, seed=1)
    model = model_of("a", "b", "c")
    with torch.no_grad():
        model.get_head("c").output.bias.fill_(1.0)
    found = task.evaluate(model)
    assert found.keys() == task.metric_names
    assert found["c/score"] == 4.0, "each is measured with its own head"
    assert found["loss"] == pytest.approx(0.4 + 0.5 * 1.0)
    assert found["mean"] == pytest.approx((4 + 10 + 4) / 3)


@pytest.mark.parametrize("names", [("train", "type"), ("keys", "half", "sst-2"), ("encoder",)])
def test_names_are_free_and_encoders_shared(names: tuple[str, ...]) -> None:
    model = model_of(*names)
    parameters = dict(model.named_parameters())
    heads = {f"head-{name}.output.{kind}" for name in names for kind in ("weight", "bias")}
    assert parameters.keys() == {"encoder.weight", *heads}
    assert all(model.get_head(name).encoder is model.encoder for name in names)


def test_heads_are_chosen_by_name_or_by_what_they_do() -> None:
    heads = MultiHeadPredictor({"a": 1, "b": "x", "c": "y"}, location="runs/mt")  # type: ignore[dict-item]  # anything that has a type
    assert heads.names == ("a", "b", "c")
    assert (
        heads.head("b"),
        heads.find_head(int, purpose="counts"),
        heads.find_head(str, purpose="reads", name="c"),
    ) == ("x", 1, "y")
    for call, message in (
        (lambda: heads.head("d"), "runs/mt: has no task 'd'; choose one of a, b, c"),
        (lambda: heads.find_head(str, purpose="reads", name="d"), "has no task 'd'"),
        (
            lambda: heads.find_head(str, purpose="reads"),
            "more than one of its tasks reads; choose one of b, c with --task",
        ),
        (lambda: heads.find_head(str, purpose="reads", name="a"), "a is not a task that reads; choose one of b, c"),
        (lambda: heads.find_head(float, purpose="weighs"), r"none of its tasks weighs \(a, b, c\); name another run"),
    ):
        with pytest.raises(RunError, match=message):
            call()
