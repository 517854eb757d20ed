"""Recurrent models compared with the equations of the papers, for one sentence, one step and one slot at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heedful.architectures.build import DataSizes
from heedful.architectures.build_recurrent import build_recurrent_model
from heedful.architectures.recurrent import RecurrentConfig
from heedful.tensors import Tokens

WORDS, WIDTH, EMBEDDING = 9, 6, 4
SOURCE, TARGET = [3, 5, 4, 8], [1, 6, 7, 3, 5]


def build_model(**options: Any) -> Any:
    config = RecurrentConfig.model_validate({"d_model": WIDTH, "d_embedding": EMBEDDING, "tie": "none", **options})
    model = build_recurrent_model(config, DataSizes(WORDS, WORDS, 20)).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


def build_tokens(*ids: int) -> Tokens:
    return Tokens(torch.tensor([ids]), torch.arange(len(ids)).unsqueeze(0))


def compute_logits(model: Any) -> Tensor:
    found: Tensor = model.step(build_tokens(*TARGET), model.init_state(build_tokens(*SOURCE)))[0][0]
    return found


def compute_gru_step(cell: Any, x: Tensor, h: Tensor, more: Tensor | float = 0.0) -> Tensor:
    """Compute a GRU step (Cho et al. 2014), with the reset gate after the product."""
    w, u = cell.input(x) + more, cell.recurrent(h)
    r, z = (torch.sigmoid(w[n * WIDTH : (n + 1) * WIDTH] + u[n * WIDTH : (n + 1) * WIDTH]) for n in (0, 1))
    candidate = torch.tanh(w[2 * WIDTH :] + r * u[2 * WIDTH :])
    return (1 - z) * candidate + z * h


def run_gru(cell: Any, vectors: list[Tensor]) -> list[Tensor]:
    h, states = torch.zeros(WIDTH, dtype=torch.float64), []
    for x in vectors:
        h = compute_gru_step(cell, x, h)
        states.append(h)
    return states


def encode_source(model: Any) -> tuple[list[Tensor], Tensor, Tensor]:
    """Return the annotations, the last forward state and the first backward state of the highest layer."""
    encoder = model.encoder
    vectors = [encoder.embedding.table.weight[word] * EMBEDDING**0.5 for word in SOURCE]
    for layer in encoder.stack.layers:
        there = run_gru(layer.left_to_right, vectors)
        back = run_gru(layer.right_to_left, vectors[::-1])[::-1]
        vectors = [torch.cat(pair) for pair in zip(there, back, strict=True)]
    return vectors, there[-1], back[0]


def compute_maxout(t: Tensor) -> Tensor:
    return torch.stack([torch.maximum(t[2 * n], t[2 * n + 1]) for n in range(len(t) // 2)])


deep = pytest.mark.parametrize("layers", [1, 2])


def embed_word(model: Any, word: int) -> Tensor:
    vector: Tensor = model.decoder.embedding.table.weight[word] * EMBEDDING**0.5
    return vector


@deep
def test_bahdanau(layers: int) -> None:
    """Bahdanau et al. 2015, A.1.2 and A.2.2; with more layers, the lowest queries and the highest is read out."""
    model = build_model(layers=layers, reading={"kind": "bahdanau", "d_alignment": 5})
    decoder = model.decoder
    annotations, _, first = encode_source(model)
    score, expected = decoder.reading.across.score, []
    s = [torch.tanh(start(first)) for start in decoder.reading.start.maps]
    assert len(s) == layers
    for word in TARGET:
        energies = [score.energy(torch.tanh(score.query(s[0]) + score.key(h))) for h in annotations]
        weights = torch.cat(energies).softmax(0)
        context = sum((a * h for a, h in zip(weights, annotations, strict=True)), torch.zeros(()))
        y = x = embed_word(model, word)
        for n, cell in enumerate(decoder.column.cells):
            x = s[n] = compute_gru_step(cell, x, s[n], decoder.column.more(context) if n == 0 else 0.0)
        u, v, c = decoder.readout.maps
        expected.append(model.output(compute_maxout(u(x) + v(y) + c(context))))
    torch.testing.assert_close(compute_logits(model), torch.stack(expected))


@deep
@pytest.mark.parametrize("feeding", [True, False])
def test_luong(feeding: bool, layers: int) -> None:
    """Luong et al. 2015, eq. 5-8 (general) and section 3.3; the highest layer queries."""
    model = build_model(layers=layers, reading={"kind": "luong", "score": "general", "input_feeding": feeding})
    decoder = model.decoder
    annotations, _, first = encode_source(model)
    cells = decoder.column.cells if feeding else [layer.cell for layer in decoder.stack.layers]
    states, expected = [torch.tanh(start(first)) for start in decoder.reading.start.maps], []
    attentional = torch.zeros(EMBEDDING, dtype=torch.float64)
    for word in TARGET:
        h = embed_word(model, word)
        for n, cell in enumerate(cells):
            h = states[n] = compute_gru_step(
                cell, h, states[n], decoder.column.more(attentional) if feeding and n == 0 else 0.0
            )
        weights = torch.stack([h @ decoder.reading.across.score.weight(slot) for slot in annotations]).softmax(0)
        context = sum((a * slot for a, slot in zip(weights, annotations, strict=True)), torch.zeros(()))
        w_h, w_c = decoder.readout.maps
        attentional = torch.tanh(w_h(h) + w_c(context))
        expected.append(model.output(attentional))
    torch.testing.assert_close(compute_logits(model), torch.stack(expected))


@deep
@pytest.mark.parametrize("enters", ["start", "every_step"])
def test_one_context(enters: str, layers: int) -> None:
    """Cho et al. 2014, section 2.2; with the context only at the start, Sutskever et al. 2014."""
    model = build_model(layers=layers, reading={"kind": "context", "enters": enters})
    decoder = model.decoder
    _, last, first = encode_source(model)
    context = torch.cat((last, first))
    more = [context] if enters == "every_step" else []
    states, expected = [torch.tanh(start(context)) for start in decoder.start.maps], []
    for word in TARGET:
        y = embed_word(model, word)
        h = torch.cat((y, *more))
        for n, layer in enumerate(decoder.stack.layers):
            h = states[n] = compute_gru_step(layer.cell, h, states[n])
        read_from = zip(decoder.readout.maps, (h, y, *more), strict=True)
        expected.append(model.output(compute_maxout(sum((each(x) for each, x in read_from), torch.zeros(())))))
    torch.testing.assert_close(compute_logits(model), torch.stack(expected))


def compute_lstm_step(cell: Any, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Graves 2013, eq. 7-11, without peepholes."""
    h, c = state
    gates = cell.input(x) + cell.recurrent(h)
    i, f, candidate, o = (gates[n * WIDTH : (n + 1) * WIDTH] for n in range(4))
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(candidate)
    return torch.sigmoid(o) * torch.tanh(c), c


@pytest.mark.parametrize("enters", ["start", "every_step"])
def test_each_layer_starts_from_the_last_state_of_the_encoder(enters: str) -> None:
    """Sutskever et al. 2014: deep LSTMs, the source reversed, states and cells of all layers passed on, no deep output;
    and the same with the context beside each word.
    """
    model = build_model(
        cell="lstm",
        layers=3,
        bidirectional=False,
        source_order="reversed",
        reading={"kind": "context", "enters": enters},
        start="carried",
        readout="state",
    )
    zeros = torch.zeros(WIDTH, dtype=torch.float64)
    states, expected = [(zeros, zeros)] * 3, []
    for word in SOURCE[::-1]:
        x = model.encoder.embedding.table.weight[word] * EMBEDDING**0.5
        for n in range(3):
            states[n] = compute_lstm_step(model.encoder.stack.layers[n].cell, x, states[n])
            x = states[n][0]
    more = [part for state in states for part in state] if enters == "every_step" else []
    for word in TARGET:
        x = torch.cat((embed_word(model, word), *more))
        for n in range(3):
            states[n] = compute_lstm_step(model.decoder.stack.layers[n].cell, x, states[n])
            x = states[n][0]
        expected.append(model.output(x))
    torch.testing.assert_close(compute_logits(model), torch.stack(expected))
    assert not list(model.decoder.start.parameters()) + list(model.decoder.readout.parameters())


def test_attention_also_uses_the_carried_states() -> None:
    """The lowest cell's carried output queries first, and the output reads the state without the context."""
    model = build_model(bidirectional=False, start="carried", readout="state", reading={"kind": "bahdanau"})
    decoder = model.decoder
    vectors = [model.encoder.embedding.table.weight[word] * EMBEDDING**0.5 for word in SOURCE]
    annotations = run_gru(model.encoder.stack.layers[0].cell, vectors)
    score, s, expected = decoder.reading.across.score, annotations[-1], []
    for word in TARGET:
        energies = [score.energy(torch.tanh(score.query(s) + score.key(h))) for h in annotations]
        weights = torch.cat(energies).softmax(0)
        context = sum((a * h for a, h in zip(weights, annotations, strict=True)), torch.zeros(()))
        s = compute_gru_step(decoder.column.cells[0], embed_word(model, word), s, decoder.column.more(context))
        expected.append(model.output(s))
    torch.testing.assert_close(compute_logits(model), torch.stack(expected))


def test_reversing_or_doubling_a_source_equals_changing_the_text() -> None:
    """The options give the same as changing the text."""
    for order, by_hand in (("reversed", SOURCE[::-1]), ("doubled", SOURCE + SOURCE)):
        model = build_model(reading={"kind": "context"}, bidirectional=False, source_order=order)
        found = model.encoder(build_tokens(*SOURCE))
        plain = build_model(reading={"kind": "context"}, bidirectional=False)
        plain.load_state_dict(model.state_dict())
        expected = plain.encoder(build_tokens(*by_hand))
        torch.testing.assert_close(found.summary, expected.summary)
        slots = expected.keys.flip(1) if order == "reversed" else expected.keys[:, len(SOURCE) :]
        torch.testing.assert_close(found.keys, slots)
