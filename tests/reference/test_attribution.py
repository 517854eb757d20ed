"""Attribution compared with finite differences instead of gradients, and with a plain sum instead of quadrature."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from attribution_samples import IDS, METHODS, EmbeddedModel, iter_inspect_calls
from torch import Tensor, nn

from heedful.blocks.embedding import TokenEmbedding
from heedful.inspection.attribution import Method
from heedful.tasks.inspection_records import InspectionSelection
from heedful.tasks.language.predictor import TextGenerator


def compute_attention(x: np.ndarray, query: np.ndarray, out: np.ndarray) -> float:
    """out . tanh(sum of a_j x_j) with a = softmax(x_j W x_last)."""
    scores = x @ query @ x[-1]
    powers = np.exp(scores - scores.max())
    return float(out @ np.tanh((powers / powers.sum()) @ x))


@pytest.mark.parametrize("method", METHODS)
def test_an_attention(method: Method) -> None:
    """Gradients by finite differences in double precision, and the integral as a sum over 2,000 points."""
    torch.manual_seed(3)
    query, out = torch.randn(4, 4) / 4, torch.randn(4)

    def compute_output(x: Tensor) -> Tensor:
        scores = torch.einsum("btd,de,be->bt", x, query, x[:, -1])
        return ((scores.softmax(-1).unsqueeze(1) @ x).squeeze(1).tanh() @ out).unsqueeze(1)

    model = EmbeddedModel(compute_output)
    words, by_hand = model.words.astype(float), (query.numpy().astype(float), out.numpy().astype(float))
    places = [1.0] if method == "gradient" else (np.arange(2000) + 0.5) / 2000
    expected, step = np.zeros(len(IDS)), 1e-5
    for place in places:
        for i in range(len(IDS)):
            aside = np.zeros_like(words)
            aside[i] = step * words[i]
            up, down = (compute_attention(place * words + sign * aside, *by_hand) for sign in (1, -1))
            expected[i] += (up - down) / (2 * step) / len(places)
    found = model.attribute(method, steps=64)
    np.testing.assert_allclose(found.scores[0], expected, rtol=2e-3, atol=2e-4)
    assert found.values[0] == pytest.approx(compute_attention(words, *by_hand), rel=1e-4, abs=1e-5)


def test_scaling_a_word_of_a_whole_model() -> None:
    """The gradient times a word is the change of the answer when the word's embedding is scaled."""
    (face, asked, _), *_ = iter_inspect_calls("language-transformer")
    assert isinstance(face, TextGenerator)
    model = face.model
    model.output.weight = nn.Parameter(model.output.weight.detach().clone())  # a tied output would change too
    record = face.inspect(*asked, limit=0, scope=InspectionSelection(attribution="gradient"))
    (each,) = record.attributions
    special = face.tokenizer.special.eos
    ids = [special, *face.tokenizer.encode(asked[0])]
    (table,) = [part.table for part in model.modules() if isinstance(part, TokenEmbedding)]
    step = 1e-2

    def compute_values() -> np.ndarray:
        again = face.inspect(*asked, limit=0)
        return np.array([written.log_probability for written in again.written])

    for id_ in dict.fromkeys(ids[:-1]):
        row = table.weight.data[id_].clone()
        changed = []
        for sign in (1, -1):
            table.weight.data[id_] = row * (1 + sign * step)
            changed.append(compute_values())
        table.weight.data[id_] = row
        columns = [place for place, other in enumerate(ids[:-1]) if other == id_]
        # finite differences in single precision, with third derivatives that are not 0
        np.testing.assert_allclose(each.scores[:, columns].sum(1), (changed[0] - changed[1]) / (2 * step), atol=5e-3)
