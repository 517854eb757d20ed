"""Decoders that recipes build for memories of any kind: the laws that they keep, whoever made the memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from heedful.architectures.build import build_memory_decoder
from heedful.architectures.model import MemoryDecoderConfig
from heedful.inspection.capture import find_attention_sites
from heedful.models.interface import Decoder
from heedful.tensors import SOURCE, FrameLayout, GridLayout, Memory, Tokens, select_rows

WIDTH, WORDS = 8, 11
KINDS: dict[str, dict[str, Any]] = {
    "transformer": {"kind": "transformer", "heads": 2, "layers": 2},
    "context": {"kind": "recurrent", "reading": {"kind": "context"}},
    "context at the start": {"kind": "recurrent", "cell": "lstm", "reading": {"kind": "context", "enters": "start"}},
    "bahdanau": {"kind": "recurrent", "layers": 2, "reading": {"kind": "bahdanau"}},
    "gated": {"kind": "recurrent", "cell": "lstm", "start": "mlp", "reading": {"gate": True}},
    "luong, gated": {"kind": "recurrent", "start": "mlp", "reading": {"kind": "luong", "gate": True}},
    "sampled": {"kind": "recurrent", "reading": {"kind": "bahdanau", "weights": "sampled"}},
    "location": {"kind": "recurrent", "reading": {"kind": "bahdanau", "score": "location"}},
    "luong": {"kind": "recurrent", "reading": {"kind": "luong"}},
    "luong, monotonic": {"kind": "recurrent", "reading": {"kind": "luong", "window": "monotonic", "reach": 2}},
}


def config_of(table: dict[str, Any]) -> Any:
    return TypeAdapter(MemoryDecoderConfig).validate_python({"d_model": WIDTH, "dropout": 0.0, **table})


def memory(rows: int, *, regions: tuple[int, int], seed: int = 0) -> Memory:
    made = torch.Generator().manual_seed(seed)
    slots = torch.randn(rows, regions[0] * regions[1], WIDTH, generator=made)
    positions = torch.arange(slots.size(1)).expand(rows, -1)
    return Memory(slots, slots, positions, slots.mean(1), GridLayout(*regions))


def built(kind: str, slots: dict[str, int]) -> tuple[Decoder, Any]:
    torch.manual_seed(3)
    decoder, output = build_memory_decoder(config_of(KINDS[kind]), vocabulary=WORDS, slots=slots, longest=16)
    return decoder.eval(), output


def tokens(rows: int, length: int) -> Tokens:
    ids = torch.randint(WORDS, (rows, length), generator=torch.Generator().manual_seed(5))
    return Tokens(ids, torch.arange(length).expand(rows, -1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", [(SOURCE,), ("regions", "motion")])
def test_a_decoder_reads_memories_in_chunks_of_any_size(kind: str, names: tuple[str, ...]) -> None:
    decoder, output = built(kind, dict.fromkeys(names, WIDTH))
    memories = {name: memory(3, regions=(2, 3), seed=n) for n, name in enumerate(names)}
    read = tokens(3, 6)
    with torch.inference_mode():
        whole, _ = decoder(read, decoder.init_state(memories))
        first, state = decoder(read.slice_columns(0, 2), decoder.init_state(memories))
        second, _ = decoder(read.slice_columns(2), state)
        # sums of different lengths, in float32
        torch.testing.assert_close(torch.cat((first, second), 1), whole, rtol=1e-4, atol=1e-5)
        assert output(whole).shape == (3, 6, WORDS)
        chosen = torch.tensor([2, 0])
        rest = Tokens(read.ids[chosen, 2:], read.positions[chosen, 2:])
        some, _ = decoder(rest, select_rows(state, chosen))
        torch.testing.assert_close(some, second[chosen], rtol=1e-4, atol=1e-5)
        other = {**memories, names[-1]: memory(3, regions=(2, 3), seed=9)}
        assert not torch.allclose(decoder(read, decoder.init_state(other))[0], whole), "every memory is looked at"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "context" not in kind])
def test_empty_slots_change_nothing(kind: str) -> None:
    decoder, _ = built(kind, {SOURCE: WIDTH})
    plain, read = memory(2, regions=(1, 4)), tokens(2, 5)

    def wider(part: Tensor, fill: float) -> Tensor:
        return torch.cat((part, part.new_full((2, 3, *part.shape[2:]), fill)), 1)

    more = Memory(
        wider(plain.keys, 50.0), wider(plain.values, 50.0), wider(plain.positions, -1), plain.summary, FrameLayout(7)
    )
    with torch.inference_mode():
        expected, _ = decoder(read, decoder.init_state(plain))
        found, _ = decoder(read, decoder.init_state(more))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_attentions_say_at_which_memory_they_look() -> None:
    decoder, _ = built("transformer", {"regions": WIDTH, "motion": WIDTH})
    assert [
        place.declaration.keys for place in find_attention_sites(decoder).values() if place.declaration.kind == "cross"
    ] == [
        "regions",
        "motion",
    ] * 2


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"kind": "recurrent", "reading": {"kind": "luong", "score": "dot"}}, "slots of one width"),
        ({"kind": "recurrent", "readout": "state"}, "'maxout' or 'tanh'"),
        ({"kind": "recurrent", "reading": {"expected": 0.5}}, 'only for weights = "sampled"'),
        ({"kind": "transformer", "heads": 3}, "must divide"),
    ],
)
def test_what_does_not_fit_is_told(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        config_of(table)
