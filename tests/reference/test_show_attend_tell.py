"""The decoder of Xu et al. 2015 in plain loops, compared with a recipe's decoder; and the penalty on its attention."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from torch import Tensor, nn

from heedful.architectures.build import build_memory_decoder
from heedful.architectures.model import MemoryDecoderConfig
from heedful.data.batches import PairBatch
from heedful.models.generative import SequenceToSequence
from heedful.models.interface import Encoder
from heedful.tasks.generation_objective import (
    Criterion,
    DoublyStochasticCriterion,
    LikelihoodCriterion,
    ReinforceCriterion,
)
from heedful.tensors import SOURCE, GridLayout, Memory, Tokens

WIDTH, WORDS, REGIONS = 6, 9, 4


def build_decoder(**options: Any) -> tuple[nn.Module, nn.Linear]:
    table = {
        "kind": "recurrent", "d_model": WIDTH, "dropout": 0.0, "start": "mlp", "readout": "maxout",
        "reading": {"gate": True}, **options,
    }  # fmt: skip
    config = TypeAdapter(MemoryDecoderConfig).validate_python(table)
    torch.manual_seed(0)
    made, output = build_memory_decoder(config, vocabulary=WORDS, slots={SOURCE: WIDTH}, longest=20)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.4)
    return made.double().eval(), output.double()


def draw_regions(rows: int) -> Tensor:
    return torch.randn(rows, REGIONS, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def build_memory(slots: Tensor) -> Memory:
    positions = torch.arange(REGIONS).expand(len(slots), -1)
    return Memory(slots, slots, positions, slots.mean(1), GridLayout(2, 2))


def compute_hidden(weights: dict[str, Tensor], slots: Tensor, ids: list[int]) -> Tensor:
    """Compute the hidden vectors of one picture's caption: equations 1 to 9 and 13 of the paper, number by number."""

    def apply_linear(name: str, x: Tensor) -> Tensor:
        found = weights[f"{name}.weight"] @ x
        return found + weights[f"{name}.bias"] if f"{name}.bias" in weights else found

    mean = sum(slots) / len(slots)
    start = [
        torch.tanh(
            apply_linear(f"reading.start.maps.{part}", torch.tanh(apply_linear(f"reading.start.hidden.{part}", mean)))
        )
        for part in (0, 1)
    ]
    h, cell = start
    outputs = []
    for number in ids:
        embedding = weights["embedding.table.weight"][number] * WIDTH**0.5
        energies = []
        for slot in slots:
            hidden = torch.tanh(
                apply_linear("reading.across.score.query", h) + apply_linear("reading.across.score.key", slot)
            )
            energies.append(float(apply_linear("reading.across.score.energy", hidden)))
        alphas = torch.softmax(torch.tensor(energies, dtype=torch.float64), 0)
        beta = torch.sigmoid(apply_linear("reading.gate.map", h))
        context = beta * sum(alpha * slot for alpha, slot in zip(alphas, slots, strict=True))
        gates = apply_linear("column.cells.0.input", embedding) + apply_linear("column.cells.0.recurrent", h)
        gates = gates + apply_linear("column.more", context)
        i, f, candidate, o = (gates[n * WIDTH : (n + 1) * WIDTH] for n in range(4))
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(candidate)
        h = torch.sigmoid(o) * torch.tanh(cell)
        inputs = zip((0, 1, 2), (h, embedding, context), strict=True)
        pairs = sum(apply_linear(f"readout.maps.{n}", each) for n, each in inputs)
        outputs.append(torch.stack([max(pairs[2 * n], pairs[2 * n + 1]) for n in range(WIDTH)]))
    return torch.stack(outputs)


@torch.no_grad()
def test_the_decoder_equals_that_of_the_paper() -> None:
    made, _ = build_decoder()
    slots, ids = draw_regions(3), torch.tensor([[1, 4, 2, 7], [3, 3, 0, 8], [5, 6, 1, 2]])
    found, _ = made(Tokens(ids, torch.arange(4).expand(3, -1)), made.init_state(build_memory(slots)))
    weights = dict(made.named_parameters())
    for row in range(3):
        expected = compute_hidden(weights, slots[row], ids[row].tolist())
        torch.testing.assert_close(found[row], expected, rtol=1e-10, atol=1e-12)


class RegionEncoder(Encoder[Tensor]):
    """Encoder that returns the given regions."""

    def forward(self, source: Tensor) -> Memory:
        return build_memory(source)


def build_model(**options: Any) -> SequenceToSequence[Tensor]:
    made, output = build_decoder(**options)
    return SequenceToSequence(RegionEncoder(), made, output=output).double()


def batch() -> PairBatch[Tensor]:
    ids = torch.tensor([[1, 4, 2, 7], [3, 3, 0, 0]])
    positions = torch.tensor([[0, 1, 2, 3], [0, 1, -1, -1]])
    return PairBatch(draw_regions(2), Tokens(ids, positions), torch.tensor([[4, 2, 7, 8], [3, 8, -1, -1]]))


@pytest.mark.parametrize("kind", ["recurrent", "transformer"])
def test_the_penalty_equals_plain_loops_and_has_a_gradient(kind: str) -> None:
    options = {} if kind == "recurrent" else {"kind": kind, "heads": 2, "layers": 2}
    if kind == "transformer":
        config = TypeAdapter(MemoryDecoderConfig).validate_python({**options, "d_model": WIDTH, "dropout": 0.0})
        made, output = build_memory_decoder(config, vocabulary=WORDS, slots={SOURCE: WIDTH}, longest=20)
        what = SequenceToSequence(RegionEncoder(), made, output=output).double()
    else:
        what = build_model()
    plain = LikelihoodCriterion(0.1).loss(what, batch())
    found = DoublyStochasticCriterion(LikelihoodCriterion(0.1), weight=0.3).loss(what, batch())

    from heedful.inspection.capture import find_attention_sites, watch_attention

    with watch_attention(what) as seen:
        what(batch().source, batch().target)
    expected = 0.0
    for path, place in find_attention_sites(what).items():
        if place.declaration.kind != "cross":
            continue
        calls = [call.mean(1) if call.dim() == 4 else call for call in seen[path]]
        for row, length in ((0, 4), (1, 2)):
            for region in range(REGIONS):
                total = sum(float(torch.cat(calls, 1)[row, step, region]) for step in range(length))
                expected += (1 - total) ** 2
    assert expected > 0
    assert float(found.parts["unread"].total) == pytest.approx(expected, rel=1e-9)
    assert found.parts["unread"].count == 2
    assert float(found.total.detach()) == pytest.approx(float(plain.total.detach()) + 0.3 * expected, rel=1e-9)
    assert found.count == plain.count == 6
    (found.total - plain.total).backward()
    assert any(p.grad is not None and float(p.grad.abs().sum()) > 0 for p in what.parameters())


def test_other_parameters_keep_their_gradients() -> None:
    inner = ReinforceCriterion(LikelihoodCriterion())
    outer: Criterion = DoublyStochasticCriterion(inner, weight=1.0)
    outer.on_update(2.0)
    assert inner.baseline.value == pytest.approx(-0.2)
    other: Criterion = DoublyStochasticCriterion(ReinforceCriterion(LikelihoodCriterion()), weight=1.0)
    other.load_state_dict(outer.state_dict())
    assert other.state_dict() == outer.state_dict()
    assert outer.part_names == {"nll", "entropy", "unread"}


def test_sampled_attention_learns_with_the_penalty() -> None:
    what = build_model(reading={"gate": True, "weights": "sampled"}).train()
    loss = DoublyStochasticCriterion(ReinforceCriterion(LikelihoodCriterion()), weight=0.5).loss(what, batch())
    loss.total.backward()
    energy = dict(what.named_parameters())["decoder.reading.across.score.energy.weight"]
    assert energy.grad is not None
    assert float(energy.grad.abs().sum()) > 0
