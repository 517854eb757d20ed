"""The memory network as a language model, compared with plain loops (Sukhbaatar et al. 2015, 2.2 and 5)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from heedful.architectures.build import build_language_model
from heedful.architectures.model import MemoryNetworkDecoderConfig
from heedful.attention.positions import TemporalEncoding
from heedful.inspection.capture import watch_attention
from heedful.models.generative import LanguageModel
from heedful.models.memory_network import MemoryNetworkDecoder
from heedful.tensors import Tokens

VOCABULARY, WIDTH, HOPS = 9, 5, 3
TEXT = [3, 1, 4, 1, 5, 2, 6, 5, 3, 7]


def build_model(*, memory: int, rectified: float = 0.5) -> LanguageModel:
    torch.manual_seed(2)
    config = MemoryNetworkDecoderConfig(
        d_model=WIDTH, hops=HOPS, memory=memory, rectified=rectified, deviation=0.7, dropout=0.5
    )
    return build_language_model(config, vocabulary=VOCABULARY).double().eval()


def compute_logits(built: LanguageModel, read: list[int], *, memory: int, bent: int) -> tuple[Tensor, list[Tensor]]:
    """Compute the logits after some words, and the weights of each hop over the remembered words, oldest first."""
    decoder = built.decoder
    assert isinstance(decoder, MemoryNetworkDecoder)
    table = next(m for m in decoder.modules() if isinstance(m, torch.nn.Embedding)).weight
    a, c = table[:, :WIDTH], table[:, WIDTH:]
    ages = next(m for m in decoder.modules() if isinstance(m, TemporalEncoding))
    assert ages.value is not None
    u, found = torch.full((WIDTH,), 0.1, dtype=torch.float64), []
    last = read[-memory:]
    for _ in range(HOPS):
        scores = [u @ (a[word] + ages.key[len(last) - 1 - i]) for i, word in enumerate(last)]
        p = torch.stack(scores).softmax(0)
        o = torch.stack([p[i] * (c[word] + ages.value[len(last) - 1 - i]) for i, word in enumerate(last)]).sum(0)
        u = decoder.map.weight @ u + o
        u = torch.stack([x.clamp(min=0) if k >= WIDTH - bent else x for k, x in enumerate(u)])
        found.append(p)
    return built.output.weight @ u, found


@pytest.mark.parametrize("memory", [1, 3, 20])
@pytest.mark.parametrize(("rectified", "bent"), [(0.0, 0), (0.5, 2), (1.0, 5)])
def test_logits_equal_those_of_the_equations(memory: int, rectified: float, bent: int) -> None:
    built = build_model(memory=memory, rectified=rectified)
    logits, _ = built.step(Tokens.from_ids(torch.tensor([TEXT]), pad=0), built.init_state(None))
    for read in range(1, len(TEXT) + 1):
        right, _ = compute_logits(built, TEXT[:read], memory=memory, bent=bent)
        torch.testing.assert_close(logits[0, read - 1], right)


def test_each_hop_is_an_attention_map_over_the_memory() -> None:
    built = build_model(memory=4)
    text = Tokens.from_ids(torch.tensor([TEXT]), pad=0)
    with watch_attention(built) as watched:
        built.step(text, built.init_state(None))
    seen = [calls[0][0, 0] for calls in watched.values()]
    for at in (0, 2, 6):
        _, right = compute_logits(built, TEXT[: at + 1], memory=4, bent=2)
        assert len(seen) == len(right) == HOPS
        for weights, mine in zip(seen, right, strict=True):
            first = max(0, at - 3)
            torch.testing.assert_close(weights[at, first : at + 1], mine)
            assert float(weights[at].sum()) == pytest.approx(1.0)


def test_steps_give_the_same_as_the_whole_text() -> None:
    """This holds also for texts longer than the memory."""
    built = build_model(memory=3)
    ids = torch.randint(1, VOCABULARY, (2, 300))
    whole, _ = built.step(Tokens.from_ids(ids, pad=0), built.init_state(None))
    alone, _ = built.step(Tokens.from_ids(ids[:, -3:], pad=0), built.init_state(None))
    torch.testing.assert_close(whole[:, -1], alone[:, -1])
