"""Laws of encoders of frames, tested with all variants that a recipe can build."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from torch import nn

from heedful.architectures.build import build_frame_encoder, build_memory_decoder
from heedful.architectures.frames import FrameEncoderConfig
from heedful.inspection.capture import ModelSide, capture_attention
from heedful.models.interface import Encoder
from heedful.tensors import SOURCE, FeatureBatch, FrameLayout, Memory, Tokens, concat_rows

BANDS = 5
VARIANTS: dict[str, dict[str, Any]] = {
    "sinusoidal": {},
    "rotary": {"positions": {"kind": "rotary"}},
    "shaw": {"positions": {"kind": "shaw", "clip": 2}},
    "learned": {"positions": {"kind": "learned", "length": 16}},
    "unit interval": {"positions": {"kind": "unit_interval"}},
    "window": {"visibility": {"kind": "window", "before": 1, "after": 2}},
    "post-norm, scaled": {"residual": "post_norm", "scale_embedding": True},
    "recurrent": {"kind": "recurrent"},
    "recurrent, one way": {"kind": "recurrent", "bidirectional": False, "d_embedding": 6, "cell": "gru"},
    "with masks": {"hide": {"frames": 2}},
    "over time": {"front": "frames"},
    "over time, recurrent": {"kind": "recurrent", "front": "frames"},
}


def build_encoder(options: dict[str, Any]) -> tuple[Encoder[FeatureBatch], Any]:
    torch.manual_seed(3)
    given = {"d_model": 8, "layers": 2, "dropout": 0.0, "ctc_weight": 1, "channels": 2, **options}
    given |= {} if "kind" in options else {"heads": 2}
    config = TypeAdapter(FrameEncoderConfig).validate_python(given)
    encoder = build_frame_encoder(config, bands=BANDS, longest=16).double().eval()
    for parameter in encoder.parameters():
        nn.init.normal_(parameter, std=0.5)
    return encoder, config


def build_sound(length: int, *, before: int = 0, behind: int = 0) -> FeatureBatch:
    """Build a sound of the given length, with random numbers in the padding."""
    frames = torch.randn(1, length, BANDS, generator=torch.Generator().manual_seed(length), dtype=torch.float64)
    filled = nn.functional.pad(frames, (0, 0, before, behind), value=9.0)
    return FeatureBatch(filled, nn.functional.pad(torch.arange(length).unsqueeze(0), (before, behind), value=-1))


@pytest.mark.parametrize("name", VARIANTS)
def test_padding_law(name: str) -> None:
    """The encoding of a sound does not depend on the other sounds of the batch or on its padding."""
    encoder, config = build_encoder(VARIANTS[name])
    alone: Memory = encoder(build_sound(9))
    slots = -(-9 // config.frames_per_slot)
    assert alone.values.shape == (1, slots, config.d_output)
    assert alone.layout == FrameLayout(slots)
    assert alone.positions.tolist() == [[*range(slots)]]
    both = [build_sound(21), build_sound(9, before=3, behind=9)]
    beside = encoder(
        FeatureBatch(*(torch.cat([getattr(each, part) for each in both]) for part in ("vectors", "positions")))
    )
    all_slots = -(-21 // config.frames_per_slot)
    assert beside.positions[1].tolist() == [*range(slots), *[-1] * (all_slots - slots)]
    torch.testing.assert_close(beside.values[1, :slots], alone.values[0])
    torch.testing.assert_close(beside.summary[1], alone.summary[0])
    torch.testing.assert_close(beside.values[:1], encoder(build_sound(21)).values)
    assert beside.values.isfinite().all()


@pytest.mark.parametrize("name", ["sinusoidal", "with masks", "over time"])
def test_capture_law(name: str) -> None:
    """Capturing changes nothing, and the first layer reads the output of the convolutions."""
    encoder, _ = build_encoder(VARIANTS[name])
    with capture_attention(
        nn.ModuleDict({"encoder": encoder}), sides={encoder: ModelSide("encoder", SOURCE)}
    ) as captured:
        torch.testing.assert_close(encoder(build_sound(9)).values, encoder(build_sound(9)).values)
    (summands,) = captured.embedded.values()
    torch.testing.assert_close(summands.tokens, encoder.get_submodule("front")(build_sound(9)).vectors)
    assert [each.declaration.kind for each in captured.sites.values()] == ["encoder", "encoder"]


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_states_over_sounds_of_any_length_are_joined(kind: str) -> None:
    encoder, _ = build_encoder({"kind": "recurrent", "d_model": 4})
    config = TypeAdapter(FrameEncoderConfig).validate_python(
        {"d_model": 8, "dropout": 0.0, "decoder": {"kind": kind, "dropout": 0.0}, "heads": 2}
    )
    decoder, _ = build_memory_decoder(config.decoder, vocabulary=7, slots={SOURCE: 8}, longest=20)
    decoder.double().eval()
    memories = [encoder(build_sound(length)) for length in (9, 21)]
    assert memories[0].concat(memories[1:]).layout == FrameLayout(6)
    states = [decoder.init_state(memory) for memory in memories]
    read = Tokens(torch.tensor([[1, 4]]), torch.tensor([[0, 1]]))
    alone = [decoder(read, state)[0] for state in states]
    together, _ = decoder(Tokens(read.ids.expand(2, -1), read.positions.expand(2, -1)), concat_rows(states))
    torch.testing.assert_close(together, torch.cat(alone))
