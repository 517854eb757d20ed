"""Feed-forward networks, residuals, norms and embeddings, number by number."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from heedful.attention import LearnedPosition, SinusoidalPosition
from heedful.blocks.embedding import TokenEmbedding, build_embedding
from heedful.blocks.feedforward import FeedForward
from heedful.blocks.residual import PostNorm, PreNorm, ResidualConnection
from heedful.tensors import Tokens

D_MODEL = 6


def compute_layer_norm(x: Tensor, *, mu: Tensor, sigma: Tensor) -> Tensor:
    """Compute the lecture's LN(x; mu, sigma): standardised over the entries of one token, times sigma, plus mu."""
    mean = sum(x.tolist()) / len(x)
    variance = sum((entry - mean) ** 2 for entry in x.tolist()) / len(x)
    return torch.stack([(e - mean) / math.sqrt(variance + 1e-5) * s + m for e, s, m in zip(x, sigma, mu, strict=True)])


def apply_sublayer(x: Tensor) -> Tensor:
    return x.sin() * 3 + x.roll(1, -1)


@torch.no_grad()
@pytest.mark.parametrize("kind", [PostNorm, PreNorm])
def test_residuals(kind: type[ResidualConnection]) -> None:
    residual = kind(D_MODEL, 0.5).eval()
    for parameter in residual.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(2, 3, D_MODEL)
    found = residual(x, apply_sublayer)
    mu, sigma = residual.norm.bias, residual.norm.weight
    for b in range(2):
        for t in range(3):
            if kind is PostNorm:
                expected = compute_layer_norm(x[b, t] + apply_sublayer(x[b, t]), mu=mu, sigma=sigma)
            else:
                expected = x[b, t] + apply_sublayer(compute_layer_norm(x[b, t], mu=mu, sigma=sigma))
            torch.testing.assert_close(found[b, t], expected)


def test_the_shortcut_is_never_dropped() -> None:
    """Dropout acts only on the output of the sublayer; before the norm, each entry is x, or x plus this output."""
    x = torch.randn(4, 5, 64)
    before = PreNorm(64, 0.5).train()(x, lambda h: torch.full_like(h, 7.0))
    added = before - x
    torch.testing.assert_close(added, (added > 7) * 14.0)
    assert 0.4 < (added > 7).double().mean() < 0.6
    torch.manual_seed(5)
    after = PostNorm(64, 0.5).train()
    found = after(x, lambda h: torch.full_like(h, 7.0))
    torch.manual_seed(5)
    thinned = after.dropout(torch.full_like(x, 7.0))
    torch.testing.assert_close(found, after.norm(x + thinned))


@torch.no_grad()
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_feed_forward(activation: str) -> None:
    """W_2 f(W_1 x + b_1) + b_2 for each token; GELU is x Phi(x) (Hendrycks and Gimpel 2016)."""
    network = FeedForward(D_MODEL, 9, activation=nn.ReLU() if activation == "relu" else nn.GELU(), dropout=0.5).eval()
    for parameter in network.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(2, 3, D_MODEL)
    found = network(x)

    def f(z: float) -> float:
        return max(z, 0.0) if activation == "relu" else z * 0.5 * (1 + math.erf(z / math.sqrt(2)))

    for b in range(2):
        for t in range(3):
            inner = [
                f(float(row @ x[b, t] + bias))
                for row, bias in zip(network.inner.weight, network.inner.bias, strict=True)
            ]
            expected = network.outer.weight @ torch.tensor(inner) + network.outer.bias
            torch.testing.assert_close(found[b, t], expected)


def test_feed_forward_drops_after_the_activation() -> None:
    network = FeedForward(D_MODEL, 512, activation=nn.ReLU(), dropout=0.25).train()
    kept: list[Tensor] = []
    network.outer.register_forward_pre_hook(lambda _module, inputs: kept.append(inputs[0]))
    x = torch.randn(1, 4, D_MODEL)
    network(x)
    full = network.inner(x).relu()
    positive = full > 0
    torch.testing.assert_close(kept[0], torch.where(kept[0] > 0, full / 0.75, 0.0))
    share = float((kept[0] > 0).sum() / positive.sum())
    assert 0.65 < share < 0.85


@torch.no_grad()
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("placed", [True, False])
def test_token_embedding(scaled: bool, placed: bool) -> None:
    """x_t = E[w_t] sqrt(d_model) + p_t."""
    table, position = build_embedding(8, D_MODEL), SinusoidalPosition(D_MODEL)
    embedding = TokenEmbedding(table, position=position if placed else None, scaled=scaled, dropout=0.5).eval()
    ids, positions = torch.tensor([[3, 7, 3], [0, 1, 2]]), torch.tensor([[0, 1, 2], [4, 0, 9]])
    found = embedding(Tokens(ids, positions))
    for b in range(2):
        for t in range(3):
            expected = table.weight[ids[b, t]] * (math.sqrt(D_MODEL) if scaled else 1)
            if placed:
                expected = expected + position(positions[b : b + 1, t : t + 1])[0, 0]
            torch.testing.assert_close(found[b, t], expected)


@torch.no_grad()
@pytest.mark.parametrize("told", [True, False])
def test_token_embedding_of_bert(told: bool) -> None:
    """LN(E[w_t] + P[t] + S[s_t]) (Devlin et al. 2019, figure 2); tokens without a segment are in segment 0."""
    table, places, parts = nn.Embedding(8, D_MODEL), LearnedPosition(10, D_MODEL), nn.Embedding(3, D_MODEL)
    norm = nn.LayerNorm(D_MODEL, eps=1e-12)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    embedding = TokenEmbedding(table, position=places, segments=parts, norm=norm, scaled=False, dropout=0.5).eval()
    ids, positions = torch.tensor([[3, 7, 3], [0, 1, 2]]), torch.tensor([[0, 1, 2], [4, 0, 9]])
    segments = torch.tensor([[0, 1, 2], [2, 0, 1]])
    tokens = Tokens(ids, positions, segments if told else None)
    found, summands = embedding(tokens), embedding.embed_parts(tokens)
    for b in range(2):
        for t in range(3):
            part = parts.weight[segments[b, t] if told else 0]
            x = table.weight[ids[b, t]] + places.table.weight[positions[b, t]] + part
            expected = (x - x.mean()) / (x.var(unbiased=False) + 1e-12).sqrt() * norm.weight + norm.bias
            torch.testing.assert_close(found[b, t], expected)
            torch.testing.assert_close(summands.compute_sum()[b, t], x)
            assert summands.segments is not None
            torch.testing.assert_close(summands.segments[b, t], part)


def test_embeddings_start_with_length_one_and_the_size_of_positions_when_scaled() -> None:
    table = build_embedding(4000, 64)
    lengths = table.weight.detach().norm(dim=-1)
    assert lengths.mean() == pytest.approx(1, abs=0.02)
    entries = TokenEmbedding(table)(Tokens(torch.arange(4000)[None], torch.zeros(1, 4000, dtype=torch.long)))
    assert entries.detach().std() == pytest.approx(1, abs=0.02)
    assert abs(entries.mean()) < 0.01
