"""The laws every decoder obeys, over every variant that a recipe can ask for.

Laws see the things that differ between two ways to compute the same; what is wrong in both ways alike is for the
references to find (tests/reference).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heedful.configs.build import Sizes, build_model
from heedful.configs.model import TransformerConfig
from heedful.generation import NoPenalty, beam_search
from heedful.inspection.watch import watch
from heedful.values import Rows, Tokens, select

VOCABULARY, PAD, EOS, WIDTH = 7, 0, 2, 16

POSITIONS: dict[str, dict[str, Any]] = {
    "sinusoidal": {"kind": "sinusoidal"},
    "learned": {"kind": "learned", "length": 32},
    "unit_interval": {"kind": "unit_interval"},
    "integer": {"kind": "integer"},
    "rotary": {"kind": "rotary"},
    "shaw": {"kind": "shaw", "clip": 3},
    "shaw-keys": {"kind": "shaw", "clip": 2, "values": False},
    "none": {"kind": "none"},
}
VARIANTS: dict[str, dict[str, Any]] = {
    f"{name}-{residual}": {"positions": positions, "residual": residual}
    for (name, positions), residual in itertools.product(POSITIONS.items(), ("post_norm", "pre_norm"))
} | {
    "mean": {"aggregation": "mean"},
    "mean-shaw": {"aggregation": "mean", "positions": {"kind": "shaw", "clip": 3}},
    "concat": {"aggregation": "concat"},
    "shared-key-value": {"shared_key_value": True, "positions": {"kind": "rotary"}},
    "windows": {
        "encoder_visibility": {"kind": "window", "before": 1, "after": 1},
        "decoder_visibility": {"kind": "window", "before": 2},
    },
    "untied-gelu": {"tie": "none", "activation": "gelu", "output_bias": True, "scale_embedding": False},
    "one-head": {"heads": 1},
}


@dataclass(frozen=True)
class Case:
    model: Any
    source: Tokens
    target: Tokens

    def logits(self, cuts: Sequence[int], *, source: Tokens | None = None, target: Tokens | None = None) -> Tensor:
        """Logits of the target, read in chunks."""
        tokens = target or self.target
        state = self.model.begin(source or self.source)
        parts = []
        for start, stop in itertools.pairwise(cuts):
            part, state = self.model.step(tokens.span(start, stop), state)
            parts.append(part)
        return torch.cat(parts, 1)


WORLDS = [(name, "inference") for name in VARIANTS] + [
    (name, "gradients")
    for name in ("sinusoidal-post_norm", "rotary-pre_norm", "shaw-post_norm", "mean-shaw", "windows")
]
"""Caches grow in place only where no gradient is recorded; the laws hold in both worlds."""


@pytest.fixture(params=WORLDS, ids="-".join)
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    name, world = request.param
    with torch.set_grad_enabled(world == "gradients"):
        yield _case(name)


def _case(name: str) -> Case:
    config = {"d_model": WIDTH, "heads": 2, "encoder_layers": 2, "decoder_layers": 2, **VARIANTS[name]}
    model = build_model(TransformerConfig.model_validate(config), Sizes(VOCABULARY, VOCABULARY, 24))
    for parameter in model.parameters():  # gains of 1 and biases of 0 would hide mistakes
        nn.init.normal_(parameter, std=0.4)
    source = Tokens.of(torch.tensor([[3, 4, 5, 6, 3], [5, 4, 6, PAD, PAD], [4, 3, 3, 5, PAD]]), pad=PAD)
    target = Tokens.of(torch.randint(3, VOCABULARY, (3, 7)), pad=PAD)
    return Case(model.double().eval(), source, target)


@pytest.mark.parametrize("cuts", [range(8), (0, 3, 7), (0, 4, 5, 7)], ids=["one by one", "3 4", "4 1 2"])
def test_chunk_law(case: Case, cuts: Sequence[int]) -> None:
    torch.testing.assert_close(case.logits(cuts), case.logits((0, 7)))


@pytest.mark.parametrize("rows", [(1, 0, 1), (2,), (0, 1, 2)])
def test_row_law(case: Case, rows: Sequence[int]) -> None:
    chosen = torch.tensor(rows)
    _, state = case.model.step(case.target.span(0, 3), case.model.begin(case.source))
    later = case.target.span(3)
    expected, _ = case.model.step(later, state)
    found, _ = case.model.step(select(later, chosen), select(state, chosen))
    torch.testing.assert_close(found, expected[chosen])


def test_rows_in_groups_are_rows(case: Case) -> None:
    """Branching, reordering within and dropping groups, with caches in place, equal the copying they avoid."""
    width, groups = 3, len(case.source.ids)
    state = shared = case.model.begin(case.source)
    tokens = torch.full((groups, 1), 3)
    history = tokens
    steps = [Rows.branch(groups, width, device=torch.device("cpu"))]
    steps += [Rows.within(torch.randint(width, (groups, width))) for _ in range(3)]
    steps += [Rows.keep(torch.tensor([0, 2]), width)]
    steps += [Rows.within(torch.randint(width, (2, width))) for _ in range(2)]
    for position, rows in enumerate(steps):
        now = Tokens(history[:, -1:], torch.full((len(history), 1), position))
        logits, shared = case.model.step(now, shared)
        expected, state = case.model.step(now, state)
        torch.testing.assert_close(logits, expected)
        shared, state = select(shared, rows), select(state, rows.origin)
        history = history[rows.origin]
        history = torch.cat((history, torch.randint(3, VOCABULARY, (len(history), 1))), 1)
    again = Tokens(history[:, :-1], torch.arange(history.size(1) - 1).expand(len(history), -1))
    whole, _ = case.model.step(again, select(case.model.begin(case.source), torch.tensor([0] * 3 + [2] * 3)))
    last = Tokens(history[:, -1:], torch.full((len(history), 1), len(steps)))
    continued, _ = case.model.step(last, shared)
    read, _ = case.model.step(last, _after(case, again))
    torch.testing.assert_close(continued, read)
    assert not whole.isnan().any()


def _after(case: Case, tokens: Tokens) -> Any:
    sentences = torch.tensor([0] * 3 + [2] * 3)
    _, state = case.model.step(tokens, select(case.model.begin(case.source), sentences))
    return state


def test_free_selection_from_groups(case: Case) -> None:
    """Rows picked from anywhere out of shared groups carry what they owned and nothing else."""
    groups, width = len(case.source.ids), 2
    state = select(case.model.begin(case.source), Rows.branch(groups, width, device=torch.device("cpu")))
    plain = select(case.model.begin(case.source), torch.arange(groups).repeat_interleave(width))
    ids = torch.randint(3, VOCABULARY, (groups * width, 4))
    positions = torch.arange(4).expand(len(ids), -1)
    for column in range(3):
        now = Tokens(ids[:, column : column + 1], positions[:, column : column + 1])
        _, state = case.model.step(now, state)
        _, plain = case.model.step(now, plain)
    rows = torch.tensor([5, 0, 3, 3])
    last = Tokens(ids[rows, 3:], positions[rows, 3:])
    found, _ = case.model.step(last, select(state, rows))
    expected, _ = case.model.step(last, select(plain, rows))
    torch.testing.assert_close(found, expected)


def test_cause_law(case: Case) -> None:
    changed = case.target.ids.clone()
    changed[:, 5:] = 3 + (changed[:, 5:] - 2) % (VOCABULARY - 3)
    before = case.logits((0, 7))
    after = case.logits((0, 7), target=Tokens(changed, case.target.positions))
    torch.testing.assert_close(before[:, :5], after[:, :5])
    assert (before[:, 5:] - after[:, 5:]).abs().amax(-1).min() > 1e-6


def test_no_gradient_comes_from_the_future(case: Case) -> None:
    with torch.enable_grad():
        embedded = case.model.decoder.stack.embedding.table.weight
        for length in (1, 4):
            only = case.logits((0, 7))[:, length - 1].sum()
            (gradient,) = torch.autograd.grad(only, embedded)
            rest = case.target.ids[:, length:].unique()
            seen = torch.cat((case.target.ids[:, :length].flatten(), case.source.ids.flatten())).unique()
            unseen = rest[~torch.isin(rest, seen)]
            if case.model.output.weight is not embedded:
                assert gradient[unseen].abs().sum() == 0


def test_padding_law_source(case: Case) -> None:
    pad = torch.full((3, 2), PAD)
    for ids in (torch.cat((case.source.ids, pad), 1), torch.cat((pad, case.source.ids), 1)):
        wide = Tokens.of(ids, pad=PAD)
        torch.testing.assert_close(case.logits((0, 7), source=wide), case.logits((0, 7)))


def test_what_stands_in_padding_changes_nothing(case: Case) -> None:
    """Not even another id: positions alone say what is padding."""
    other = torch.where(case.source.positions < 0, 5, case.source.ids)
    filled = Tokens(other, case.source.positions)
    torch.testing.assert_close(case.logits((0, 7), source=filled), case.logits((0, 7)))


@pytest.mark.parametrize("cuts", [(0, 10), (0, 2, 4, 10), range(11)], ids=["at once", "in chunks", "one by one"])
def test_padding_law_target(case: Case, cuts: Sequence[int]) -> None:
    padded = Tokens.of(torch.cat((torch.full((3, 3), PAD), case.target.ids), 1), pad=PAD)
    found = case.logits(cuts, target=padded)
    assert not found.isnan().any()
    torch.testing.assert_close(found[:, 3:], case.logits((0, 7)))


def test_branch_law(case: Case) -> None:
    one, other = (
        case.target.span(3, 4),
        Tokens((case.target.ids[:, 3:4] - 2) % 4 + 3, case.target.positions[:, 3:4]),
    )
    later = case.target.span(4, 5)
    state = case.model.begin(case.source)
    for part in (
        case.target.span(0, 2),
        case.target.span(2, 3),
    ):  # the second leaves spare room in the storage
        _, state = case.model.step(part, state)
    _, alone = case.model.step(one, state)
    expected, _ = case.model.step(later, alone)
    _, first = case.model.step(one, state)
    case.model.step(other, state)
    torch.testing.assert_close(case.model.step(later, first)[0], expected)


def test_watch_law(case: Case) -> None:
    plain = case.logits((0, 7))
    with watch(case.model) as weights:
        watched = case.logits((0, 7))
    torch.testing.assert_close(watched, plain)
    assert {name.split(".")[0] for name in weights} == {"encoder", "decoder"}
    assert len(weights) == 6
    for name, calls in weights.items():
        for each in calls:
            sums = each.sum(-1)
            sighted = sums != 0
            torch.testing.assert_close(sums[sighted], torch.ones_like(sums[sighted]), msg=name)
            assert each.min() >= 0


def test_batch_law(case: Case) -> None:
    together = case.logits((0, 7))
    for row in range(3):
        alone = case.logits(
            (0, 7),
            source=select(case.source, torch.tensor([row])),
            target=select(case.target, torch.tensor([row])),
        )
        torch.testing.assert_close(alone[0], together[row])


def test_a_source_of_padding_alone_gives_finite_numbers(case: Case) -> None:
    empty = Tokens(case.source.ids, torch.where(torch.tensor([[True], [False], [True]]), case.source.positions, -1))
    found = case.logits((0, 7), source=empty)
    assert not found.isnan().any()
    torch.testing.assert_close(found[0], case.logits((0, 7))[0])


def test_a_beam_as_wide_as_the_tree_is_exact(case: Case) -> None:
    """Every hypothesis has its true score and the best of all is found, whatever the model."""
    length = 2
    prompt = Tokens(torch.full((3, 1), 1), torch.zeros(3, 1, dtype=torch.long))
    found = beam_search(
        case.model.step,
        case.model.begin(case.source),
        prompt,
        width=VOCABULARY**length,
        eos=EOS,
        limit=length,
        length_penalty=NoPenalty(),
        n_best=VOCABULARY,
    )
    torch.set_grad_enabled(False)
    first, state = case.model.step(prompt, case.model.begin(case.source))
    first = first[:, -1].log_softmax(-1)
    truth: list[dict[tuple[int, ...], float]] = [{(): float(row[EOS])} for row in first]
    for word in (w for w in range(VOCABULARY) if w != EOS):
        after, _ = case.model.step(Tokens(torch.full((3, 1), word), torch.ones(3, 1, dtype=torch.long)), state)
        for row, second in enumerate(after[:, -1].log_softmax(-1)):
            truth[row][(word,)] = float(first[row, word] + second[EOS])
    for row, hypotheses in enumerate(found):
        assert hypotheses[0].ids == max(truth[row], key=lambda ids: truth[row][ids])
        for hypothesis in hypotheses:
            if hypothesis.finished:
                assert hypothesis.log_probability == pytest.approx(truth[row][hypothesis.ids], abs=1e-9)
