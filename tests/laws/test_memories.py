"""Laws of decoders with several memories, besides the laws of all decoders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import memory_models
import pytest
import torch
from memory_models import MOTION, REGIONS, TwoMemoryModel, build_sources
from torch import Tensor, nn
from torch.nn.functional import pad

from heedful.inspection.capture import watch_attention
from heedful.models.interface import Decoder
from heedful.tensors import Memory, Tokens, as_mapping

WIDTH, VOCABULARY = 8, 7
READINGS = ("bahdanau", "feeding", "luong")
MADE: dict[str, Callable[..., TwoMemoryModel]] = {
    "transformer": memory_models.build_transformer,
    **{reading: partial(memory_models.build_recurrent, reading=reading) for reading in READINGS},
}
PATHS = {
    "transformer": [f"decoder.stack.layers.{n}.across-{name}" for n in (0, 1) for name in (REGIONS, MOTION)],
    **{reading: [f"decoder.reading.across-{name}" for name in (REGIONS, MOTION)] for reading in READINGS},
}


@pytest.fixture(params=MADE)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def model(name: str) -> TwoMemoryModel:
    made = MADE[name](WIDTH, VOCABULARY)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.4)
    return made.double().eval()


@pytest.fixture
def memories(model: TwoMemoryModel) -> dict[str, Memory]:
    source = Tokens.from_ids(torch.tensor([[3, 4, 5, 6, 3], [5, 4, 6, 0, 0]]), pad=0)
    found: dict[str, Memory] = model.encoder(build_sources(source))
    return found


def compute_hidden(decoder: Decoder, memories: Any) -> Tensor:
    target = Tokens.from_ids(torch.tensor([[3, 4, 6, 3], [4, 5, 5, 3]]), pad=0)
    hidden, _ = decoder(target, decoder.init_state(memories))
    return hidden


@pytest.mark.parametrize("padded", [REGIONS, MOTION])
@pytest.mark.parametrize("side", [(2, 0), (0, 3)], ids=["left", "right"])
def test_padding_of_one_memory_changes_nothing(
    model: TwoMemoryModel, memories: dict[str, Memory], padded: str, side: tuple[int, int]
) -> None:
    expected, memory = compute_hidden(model.decoder, memories), memories[padded]
    keys, values = (pad(part, (0, 0, *side), value=0.7) for part in (memory.keys, memory.values))
    wide = Memory(keys, values, pad(memory.positions, side, value=-1), memory.summary)
    torch.testing.assert_close(compute_hidden(model.decoder, {**memories, padded: wide}), expected)


def test_memories_are_distinguished_only_by_their_names(model: TwoMemoryModel, memories: dict[str, Memory]) -> None:
    expected = compute_hidden(model.decoder, memories)
    turned = dict(reversed(memories.items()))
    torch.testing.assert_close(compute_hidden(model.decoder, turned), expected)
    exchanged = dict(zip(memories, reversed(memories.values()), strict=True))
    assert (compute_hidden(model.decoder, exchanged) - expected).abs().min() > 1e-9


@pytest.mark.parametrize("changed", [REGIONS, MOTION])
@pytest.mark.parametrize("part", ["keys", "values"])
def test_keys_and_values_of_each_memory_matter(
    model: TwoMemoryModel, memories: dict[str, Memory], changed: str, part: str
) -> None:
    other = replace(memories[changed], **{part: getattr(memories[changed], part).flip(2)})
    difference = compute_hidden(model.decoder, {**memories, changed: other}) - compute_hidden(model.decoder, memories)
    assert difference.abs().amax(2).min() > 1e-6


def test_each_memory_is_captured_under_its_own_name(
    name: str, model: TwoMemoryModel, memories: dict[str, Memory]
) -> None:
    with watch_attention(model.model) as weights:
        compute_hidden(model.decoder, memories)
    assert sorted(path for path in weights if "across" in path) == sorted(PATHS[name])
    for path in PATHS[name]:
        slots = memories[path.rsplit("-", 1)[1]].positions
        seen = torch.cat(weights[path], -2)
        assert seen.size(-1) == slots.size(1)
        assert not seen.movedim(-1, 1)[slots < 0].any()
        torch.testing.assert_close(seen.sum(-1), torch.ones_like(seen.sum(-1)))


def test_unknown_memories_are_errors(model: TwoMemoryModel, memories: dict[str, Memory]) -> None:
    for given, told in (
        ({REGIONS: memories[REGIONS]}, REGIONS),
        (memories[REGIONS], "source"),
        ({**memories, "sound": memories[MOTION]}, "regions, motion, sound"),
        (None, "nothing"),
    ):
        with pytest.raises(AssertionError, match=f"this attends to regions, motion; given: {told}"):
            model.decoder.init_state(given)


def test_a_single_memory_has_a_name_too() -> None:
    memory = Memory(torch.zeros(1, 1, 2), torch.zeros(1, 1, 2), torch.zeros(1, 1).long(), torch.zeros(1, 2))
    assert as_mapping(memory) == {"source": memory}
    assert as_mapping({"facts": memory}) == {"facts": memory}
    assert as_mapping(None) == {}


def test_encoders_reject_sources_without_an_encoder(model: TwoMemoryModel) -> None:
    source = Tokens.from_ids(torch.tensor([[3, 4]]), pad=0)
    with pytest.raises(AssertionError, match=r"sources \['regions'\], but encoders of \['regions', 'motion'\]"):
        model.encoder({REGIONS: source})


def test_the_order_of_memories_does_not_matter(model: TwoMemoryModel, memories: dict[str, Memory]) -> None:
    turned = dict(reversed(memories.items()))
    assert list(turned) != list(memories)
    assert torch.equal(compute_hidden(model.decoder, turned), compute_hidden(model.decoder, memories))
