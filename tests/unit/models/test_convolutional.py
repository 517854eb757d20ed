"""Convolutional models: every law of `heedful.models.interface`, what they reach and cost, and their checkpoints."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.utils.flop_counter import FlopCounterMode

from heedful.architectures.build import DataSizes, build_convolutional_model
from heedful.architectures.model import ConvolutionalConfig
from heedful.engines.select_engine import store_column_major
from heedful.generation import GNMTLengthPenalty, NoLengthPenalty, beam_search, greedy_search
from heedful.inspection.capture import watch_attention
from heedful.models.model_size import measure_model
from heedful.tensors import RowSelection, Tokens, select_rows

VOCABULARY, PAD, EOS, LENGTH = 7, 0, 2, 9
VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {"tie": "none"},
    "tied": {"tie": "three_way", "weight_norm": False, "output_bias": False},
    "widths": {"tie": "two_way", "d_hidden": 10, "kernel_width": 5},
    "dilated": {"dilation": 2, "decoder_layers": 3, "dilation_cycle": 2},
    "pointwise": {"kernel_width": 1},
}
REACH = {"paper": 4, "tied": 4, "widths": 8, "dilated": 2 + 4 + 2, "pointwise": 0}
"""Tokens to the left of its own that an output depends on: the sum of all layers' (k - 1) * dilation, without holes."""


@dataclass(frozen=True)
class Case:
    name: str
    model: Any
    source: Tokens
    target: Tokens

    def logits(self, cuts: Sequence[int], *, source: Tokens | None = None, target: Tokens | None = None) -> Tensor:
        tokens = target or self.target
        state, parts = self.model.init_state(source or self.source), []
        for start, stop in itertools.pairwise(cuts):
            part, state = self.model.step(tokens.slice_columns(start, stop), state)
            parts.append(part)
        return torch.cat(parts, 1)


def build(**given: Any) -> Any:
    table = {"d_model": 12, "layers": 2, "positions_length": 40, **given}
    return build_convolutional_model(ConvolutionalConfig.model_validate(table), DataSizes(VOCABULARY, VOCABULARY, 24))


@pytest.fixture(params=[*itertools.product(VARIANTS, ("inference", "gradients"))], ids="-".join)
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    name, world = request.param
    with torch.set_grad_enabled(world == "gradients"):
        yield _case(name)


def _case(name: str) -> Case:
    model = build(**VARIANTS[name]).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.6)
    source = Tokens.from_ids(torch.tensor([[3, 4, 5, 6, 3], [5, 4, 6, PAD, PAD], [4, 3, 3, 5, PAD]]), pad=PAD)
    return Case(name, model, source, Tokens.from_ids(torch.randint(3, VOCABULARY, (3, LENGTH)), pad=PAD))


def spread(tokens: Tokens, extra: int) -> tuple[Tokens, Tensor]:
    """The same rows with padding anywhere, each row elsewhere, and the columns where its own ones went."""
    rows, length = tokens.ids.shape
    ids, positions = torch.full((rows, length + extra), 5), torch.full((rows, length + extra), -1)
    columns = torch.stack([torch.randperm(length + extra)[:length].sort().values for _ in range(rows)])
    return Tokens(ids.scatter(1, columns, tokens.ids), positions.scatter(1, columns, tokens.positions)), columns


def at(logits: Tensor, columns: Tensor) -> Tensor:
    return logits.gather(1, columns.unsqueeze(2).expand(-1, -1, logits.size(2)))


def test_rows_in_groups_are_rows(case: Case) -> None:
    """Branching, reordering within and dropping groups, several tokens a step, against copied rows and a reread."""
    width, groups = 3, 3
    state = shared = case.model.init_state(case.source)
    history, sentences = torch.full((groups, 2), 3), torch.arange(groups)
    steps = [RowSelection.expand(groups, width, device=torch.device("cpu"))]
    steps += [RowSelection.within_groups(torch.randint(width, (groups, width))) for _ in range(2)]
    steps += [RowSelection.keep_groups(torch.tensor([0, 2]), width)]
    steps += [RowSelection.within_groups(torch.randint(width, (2, width))) for _ in range(2)]
    for step, rows in enumerate(steps):
        places = torch.tensor([2 * step, 2 * step + 1]).expand(len(history), -1)
        now = Tokens(history[:, -2:], places)
        logits, shared = case.model.step(now, shared)
        copied, state = case.model.step(now, state)
        torch.testing.assert_close(logits, copied)
        whole = Tokens(history, torch.arange(history.size(1)).expand(len(history), -1))
        reread, _ = case.model.step(whole, case.model.init_state(select_rows(case.source, sentences)))
        torch.testing.assert_close(logits, reread[:, -2:])
        shared, state = select_rows(shared, rows), select_rows(state, rows.origin)
        sentences, history = sentences[rows.origin], history[rows.origin]
        history = torch.cat((history, torch.randint(3, VOCABULARY, (len(history), 2))), 1)
    now = Tokens(history[:, -2:-1], torch.full((len(history), 1), 2 * len(steps)))
    (_, shared), (_, state) = case.model.step(now, shared), case.model.step(now, state)
    freed = torch.tensor([5, 0, 3, 3])
    now = Tokens(history[freed, -1:], torch.full((4, 1), 2 * len(steps) + 1))
    found, _ = case.model.step(now, select_rows(shared, freed))
    expected, _ = case.model.step(now, select_rows(state, freed))
    torch.testing.assert_close(found, expected)


def test_the_beams_of_a_sentence_share_its_memory(case: Case) -> None:
    state = case.model.init_state(case.source)
    wide = select_rows(state, RowSelection.expand(3, 4, device=torch.device("cpu")))
    again = select_rows(wide, RowSelection.within_groups(torch.randint(4, (3, 4))))
    assert again.memory.values is state.memory.values
    assert again.past[0].size(0) == 12
    kept = select_rows(again, RowSelection.keep_groups(torch.tensor([1]), 4))
    assert (kept.memory.values.size(0), kept.past[0].size(0)) == (1, 4)


def test_cause_law_and_reach(case: Case) -> None:
    """One other word changes its own output and those of the next words as far as windows reach, and nothing else."""
    before, place = case.logits((0, LENGTH)), 1
    changed = case.target.ids.clone()
    changed[:, place] = 3 + (changed[:, place] - 2) % (VOCABULARY - 3)
    after = case.logits((0, LENGTH), target=Tokens(changed, case.target.positions))
    differs = (before - after).abs().amax(-1) > 1e-9
    columns = torch.arange(LENGTH)
    expected = (columns >= place) & (columns <= place + REACH[case.name])
    assert torch.equal(differs, expected.expand(3, -1))


def test_the_encoder_sees_as_far_to_both_sides(case: Case) -> None:
    """z_j depends on the tokens within the windows of all layers, the value on no more."""
    length, middle = 17, 8
    ids = torch.randint(3, VOCABULARY, (1, length))
    places = torch.arange(length).unsqueeze(0)
    before = case.model.encoder(Tokens(ids, places))
    reach = {"paper": 2, "tied": 2, "widths": 4, "dilated": 1 + 2, "pointwise": 0}[case.name]
    other = ids.clone()
    other[0, middle] = 3 + (other[0, middle] - 2) % (VOCABULARY - 3)
    after = case.model.encoder(Tokens(other, places))
    expected = (places[0] - middle).abs() <= reach
    for one, two in ((before.keys, after.keys), (before.values, after.values)):
        assert torch.equal(((one - two).abs().amax(-1) > 1e-9)[0], expected)


def test_padding_law_source(case: Case) -> None:
    """Left, right and in between, whatever id stands there."""
    expected, memory = case.logits((0, LENGTH)), case.model.encoder(case.source)
    wide, columns = spread(case.source, 4)
    ahead = Tokens(case.source.ids.roll(2, 1), case.source.positions.roll(2, 1))
    for source in (wide, Tokens(wide.ids.flip(1), wide.positions.flip(1)), ahead):
        torch.testing.assert_close(case.logits((0, LENGTH), source=source), expected)
    found = case.model.encoder(wide)
    torch.testing.assert_close(found.summary, memory.summary)
    real = case.source.positions >= 0
    torch.testing.assert_close(at(found.values, columns)[real], memory.values[real])


@pytest.mark.parametrize("size", [LENGTH + 5, 4, 1])
def test_padding_law_target(case: Case, size: int) -> None:
    """Left, right and in between, in chunks of any size, some of padding alone."""
    wide, columns = spread(case.target, 5)
    cuts = [*range(0, LENGTH + 5, size), LENGTH + 5]
    found = case.logits(cuts, target=wide)
    assert found.isfinite().all()
    torch.testing.assert_close(at(found, columns), case.logits((0, LENGTH)))


def test_a_row_of_padding_alone_changes_nothing(case: Case) -> None:
    gone = torch.tensor([[True], [False], [True]])
    source = Tokens(case.source.ids, torch.where(gone, case.source.positions, -1))
    found = case.logits((0, LENGTH), source=source)
    assert found.isfinite().all()
    expected = case.logits((0, LENGTH))
    torch.testing.assert_close(found[[0, 2]], expected[[0, 2]])
    target = Tokens(case.target.ids, torch.where(gone, case.target.positions, -1))
    for cuts in ((0, LENGTH), range(LENGTH + 1)):
        found = case.logits(cuts, target=target)
        assert found.isfinite().all()
        torch.testing.assert_close(found[[0, 2]], expected[[0, 2]])


def test_columns_are_a_set(case: Case) -> None:
    """Where a token stands in its row says nothing; its position says all, and the outputs move with it."""
    order, back = torch.randperm(5), torch.randperm(LENGTH)
    source = Tokens(case.source.ids[:, order], case.source.positions[:, order])
    target = Tokens(case.target.ids[:, back], case.target.positions[:, back])
    expected = case.logits((0, LENGTH))
    torch.testing.assert_close(case.logits((0, LENGTH), source=source), expected)
    torch.testing.assert_close(case.logits((0, LENGTH), target=target), expected[:, back])


def test_watch_law(case: Case) -> None:
    """Weights stand in the columns of their tokens, also where the convolutions see another order."""
    wide, columns = spread(case.target, 3)
    with watch_attention(case.model) as weights:
        watched = case.logits((0, LENGTH))
    torch.testing.assert_close(watched, case.logits((0, LENGTH)))
    with watch_attention(case.model) as moved:
        case.logits((0, LENGTH + 3), target=wide)
    assert list(weights) == [f"decoder.layers.{i}.across" for i in range(len(case.model.decoder.layers))]
    for name, (each,) in weights.items():
        torch.testing.assert_close(each.sum(-1), torch.ones(3, LENGTH, dtype=torch.double))
        assert not each[(case.source.positions < 0).unsqueeze(1).expand_as(each)].any()
        torch.testing.assert_close(at(moved[name][0], columns), each)


@pytest.mark.parametrize("name", VARIANTS)
def test_searches_are_those_that_reread_everything(name: str) -> None:
    case = _case(name)
    prompt = Tokens(torch.full((3, 1), 1), torch.zeros(3, 1, dtype=torch.long))
    limit = torch.tensor([5, 2, 4])
    empty = Tokens(case.source.ids[:, :0], case.source.positions[:, :0])

    def reread(tokens: Tokens, state: Any) -> tuple[Tensor, Any]:
        source, past = state
        whole = Tokens(torch.cat((past.ids, tokens.ids), 1), torch.cat((past.positions, tokens.positions), 1))
        return case.model.step(whole, case.model.init_state(source))[0][:, past.ids.size(1) :], (source, whole)

    with torch.no_grad():
        for width, penalty in ((1, NoLengthPenalty()), (4, GNMTLengthPenalty(0.6))):
            given: dict[str, Any] = {"width": width, "length_penalty": penalty, "eos": EOS, "max_new_tokens": limit}
            found = beam_search(case.model.step, case.model.init_state(case.source), prompt, **given)
            expected = beam_search(reread, (case.source, empty), prompt, **given)
            for ours, theirs in zip(itertools.chain(*found), itertools.chain(*expected), strict=True):
                assert ours.ids == theirs.ids
                assert ours.log_probability == pytest.approx(theirs.log_probability, abs=1e-9)
            if width == 1:
                greedy = greedy_search(
                    case.model.step, case.model.init_state(case.source), prompt, eos=EOS, max_new_tokens=limit
                )
                assert [[h.ids for h in row] for row in greedy] == [[h.ids for h in row] for row in found]


@torch.no_grad()
@pytest.mark.parametrize("name", VARIANTS)
def test_a_step_costs_the_same_however_long_the_past(name: str) -> None:
    """In operations and in what is remembered; rereading would grow with each token."""
    case = _case(name)
    state, costs, sizes = case.model.init_state(case.source), [], []
    for place in range(30):
        now = Tokens(torch.full((3, 1), 4), torch.full((3, 1), place))
        with FlopCounterMode(display=False) as counter:
            _, state = case.model.step(now, state)
        costs.append(counter.get_total_flops())
        sizes.append(sum(past.numel() for past in state.past))
    assert costs[0] > 0
    assert len(set(costs)) == len(set(sizes)) == 1


def test_training_gradients_are_finite_even_where_rows_are_padding() -> None:
    model = build(dropout=0.3, d_hidden=20).train()
    source = Tokens.from_ids(torch.tensor([[3, 4, PAD], [PAD, PAD, PAD], [PAD, 5, 4]]), pad=PAD)
    target = Tokens.from_ids(torch.tensor([[PAD, 1, 4, 3], [1, 4, PAD, PAD], [PAD, PAD, PAD, PAD]]), pad=PAD)
    hidden = model(source, target)
    model.output(hidden)[target.positions >= 0].logsumexp(-1).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def test_checkpoints_hold_all_and_nothing_else(tmp_path: Path) -> None:
    """Through safetensors by the names of parameters, as `artifacts` does; then as inference arranges a model."""
    case, path = _case("paper"), tmp_path / "model.safetensors"
    save_file({name: p.detach().contiguous() for name, p in case.model.named_parameters()}, path)
    other = build(**VARIANTS["paper"]).double().eval()
    stored, parameters = load_file(path), dict(other.named_parameters())
    assert stored.keys() == parameters.keys() == other.state_dict().keys()
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(stored[name])
        expected = case.logits((0, LENGTH))
        store_column_major(other)
        assert not any(parametrize.is_parametrized(module) for module in other.modules())
        for cuts in ((0, LENGTH), (0, 4, LENGTH)):
            torch.testing.assert_close(Case("", other, case.source, case.target).logits(cuts), expected)


def test_half_precision_and_the_meta_device() -> None:
    model = build().to(torch.bfloat16)
    source, target = (
        Tokens.from_ids(torch.tensor([[3, 4, PAD]]), pad=PAD),
        Tokens.from_ids(torch.tensor([[1, 4]]), pad=PAD),
    )
    logits, state = model.step(target, model.init_state(source))
    assert logits.dtype == state.past[0].dtype == state.memory.values.dtype == torch.bfloat16
    with torch.device("meta"):
        size = measure_model(build())
    assert size.num_parameters == sum(p.numel() for p in model.parameters())
    assert size.forward_flops > 0


def test_dropout_is_where_the_config_says() -> None:
    """Embeddings, the input of each convolution, and what leaves the decoder (Gehring et al. 2017, 4.2)."""
    model = build(d_model=64, dropout=0.25, embedding_dropout=0.5).train()
    layers = [*model.encoder.layers, *(layer.convolution for layer in model.decoder.layers)]
    assert [layer.dropout.p for layer in layers] == [0.25] * 4
    assert [part.embedding.dropout.p for part in (model.encoder, model.decoder)] == [0.5, 0.5]
    ids = torch.randint(3, VOCABULARY, (8, 20))
    tokens = Tokens(ids, torch.arange(20).expand(8, -1))
    hidden = model(tokens, tokens)
    assert float((hidden == 0).float().mean()) == pytest.approx(0.25, abs=0.03)
    assert not (model.eval()(tokens, tokens) == 0).any()


@pytest.mark.parametrize("tie", ["three_way", "two_way", "none"])
def test_ties(tie: str) -> None:
    model = build(tie=tie)
    source, target = model.encoder.embedding.table, model.decoder.embedding.table
    assert (source is target) == (tie == "three_way")
    assert (model.output.weight is target.weight) == (tie != "none")
    assert model.encoder.embedding.position is not model.decoder.embedding.position


def test_dilations_follow_the_layers() -> None:
    model = build(encoder_layers=5, decoder_layers=2, dilation=3, dilation_cycle=3)
    assert [layer.gated.dilation for layer in model.encoder.layers] == [1, 3, 9, 1, 3]
    assert [layer.convolution.gated.dilation for layer in model.decoder.layers] == [1, 3]
    assert [layer.gated.dilation for layer in build(layers=3).encoder.layers] == [1, 1, 1]


def test_the_config_derives_and_refuses() -> None:
    config = ConvolutionalConfig.model_validate({"d_model": 64, "layers": 5, "decoder_layers": 2, "dropout": 0.4})
    assert (config.d_hidden, config.encoder_layers, config.decoder_layers) == (64, 5, 2)
    assert config.embedding_dropout == 0.4
    for wrong in ({"kernel_width": 4}, {"dropout": 1.0}, {"encoder_layers": 0}, {"heads": 4}, {"dilation": 0}):
        with pytest.raises(ValidationError) as error:
            ConvolutionalConfig.model_validate(wrong)
        # defaults that could not be derived for that have no problem of their own
        found = {each["loc"] for each in error.value.errors() if each["type"] != "default_factory_not_called"}
        assert found == {tuple(wrong)}


def test_a_decoder_without_a_source_is_refused() -> None:
    with pytest.raises(AssertionError, match="attends to source; given: nothing"):
        build().decoder.init_state(None)
