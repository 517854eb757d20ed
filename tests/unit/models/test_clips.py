"""What looks at clips: against plain loops, and what must not matter to a clip."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from heedful.attention import SinusoidalPosition
from heedful.models.vision import ClipBatch, FrameEncoder, MotionNetwork, SmallVisionBackbone, SpaceTimeConv
from heedful.tensors import FrameLayout

SIZE = 8


def pixels(*lengths: int, seed: int = 1) -> ClipBatch:
    """Clips of these lengths; behind a shorter one stands what must not be looked at."""
    dice = torch.Generator().manual_seed(seed)
    frames = torch.randint(0, 256, (len(lengths), max(lengths), SIZE, SIZE, 3), generator=dice, dtype=torch.uint8)
    places = torch.arange(max(lengths)).expand(len(lengths), -1)
    return ClipBatch(frames, torch.where(places < torch.tensor(lengths).unsqueeze(1), places, -1))


def encoder(*, local: bool = True, times: bool = True, features: int | None = None) -> FrameEncoder:
    torch.manual_seed(3)
    made = FrameEncoder(
        SmallVisionBackbone((4, 6)) if features is None else None,
        MotionNetwork((4, 6)) if local else None,
        d_frame=features or 6,
        d_model=10,
        times=SinusoidalPosition(10) if times else None,
    )
    return made.double().eval()


@torch.no_grad()
@pytest.mark.parametrize(("channels", "groups"), [(16, 8), (12, 4), (6, 2), (5, 1)])
def test_channels_of_a_frame_are_normed_in_the_largest_groups_that_there_can_be(channels: int, groups: int) -> None:
    torch.manual_seed(2)
    layer = SpaceTimeConv(3, channels).double()
    x = torch.randn(2, 3, 4, 6, 4, dtype=torch.double)
    parts = layer.conv(x).transpose(1, 2).reshape(2, 4, groups, -1)  # a group's channels of one frame
    normed = (parts - parts.mean(-1, keepdim=True)) / (parts.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    found = layer(x, torch.ones(2, 4, dtype=torch.bool)).transpose(1, 2)
    torch.testing.assert_close(found, normed.view(2, 4, channels, 3, 2).relu())


@torch.no_grad()
def test_a_layer_is_a_sum_over_frames_and_places() -> None:
    torch.manual_seed(1)
    layer = SpaceTimeConv(2, 3).double()
    x = torch.randn(1, 2, 3, 3, 4, dtype=torch.double)
    summed = torch.zeros(3, 3, 2, 2, dtype=torch.double)
    for channel in range(3):
        for t in range(3):
            for row in range(2):
                for column in range(2):
                    total = layer.conv.bias[channel].clone()
                    for dt in (-1, 0, 1):
                        for dy in (-1, 0, 1):
                            for dx in (-1, 0, 1):
                                at = (t + dt, 2 * row + dy, 2 * column + dx)
                                if all(0 <= n < most for n, most in zip(at, (3, 3, 4), strict=True)):
                                    window = layer.conv.weight[channel, :, dt + 1, dy + 1, dx + 1]
                                    total += (window * x[0, :, at[0], at[1], at[2]]).sum()
                    summed[channel, t, row, column] = total
    assert layer.norm.num_groups == 1  # 3 channels are one group
    by_frame = [(each - each.mean()) / (each.var(unbiased=False) + 1e-5).sqrt() for each in summed.unbind(1)]
    expected = torch.relu(torch.stack(by_frame, 1))
    found = layer(x, torch.ones(1, 3, dtype=torch.bool))
    torch.testing.assert_close(found[0], expected)


@torch.no_grad()
def test_a_slot_is_what_a_frame_shows_and_what_moves_around_it() -> None:
    made, clips = encoder(), pixels(5)
    memory = made(clips)
    assert memory.layout == FrameLayout(5)
    seen = torch.stack([made.vision(clips.frames[:, t]).flatten(1, 2).mean(1) for t in range(5)], 1)
    moved = made.motion(clips.frames, clips.positions >= 0)
    slots = made.norm(made.map(torch.cat((seen, moved), -1)) + made.times(clips.positions))
    torch.testing.assert_close(memory.values, slots)
    torch.testing.assert_close(memory.keys, slots)
    torch.testing.assert_close(memory.summary, slots.mean(1))


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("times", [True, False])
@torch.no_grad()
def test_neither_neighbours_nor_padding_matter(local: bool, times: bool) -> None:
    made, clips = encoder(local=local, times=times), pixels(5, 2, 7, 1)
    together = made(clips)
    assert torch.isfinite(together.values).all()
    assert together.positions.equal(clips.positions)
    for row, length in enumerate((5, 2, 7, 1)):
        alone = made(ClipBatch(clips.frames[row : row + 1, :length], clips.positions[row : row + 1, :length]))
        torch.testing.assert_close(together.values[row, :length], alone.values[0])
        torch.testing.assert_close(together.summary[row], alone.summary[0])


def slots(made: FrameEncoder, frames: Tensor) -> Tensor:
    found: Tensor = made(ClipBatch(frames, torch.arange(frames.size(1)).expand(len(frames), -1))).values
    return found


@torch.no_grad()
def test_only_the_motion_of_neighbours_reaches_a_frame() -> None:
    """Each of two layers sees one frame further, and without them a frame shows itself alone."""
    frames = pixels(7).frames
    other = frames.clone()
    other[:, 3] = 255 - other[:, 3]
    for local, reached in ((False, {3}), (True, {1, 2, 3, 4, 5})):
        made = encoder(local=local)
        moved = (slots(made, frames) - slots(made, other)).abs().amax((0, 2)) > 1e-9
        assert set(moved.nonzero().flatten().tolist()) == reached


@torch.no_grad()
def test_without_times_the_order_of_frames_is_nothing_to_one_alone() -> None:
    frames = pixels(6).frames
    turned = frames.flip(1)
    torch.testing.assert_close(
        slots(encoder(local=False, times=False), frames).flip(1), slots(encoder(local=False, times=False), turned)
    )
    for options in ({"local": True, "times": False}, {"local": False, "times": True}):
        made = encoder(**options)
        assert not torch.allclose(slots(made, frames).flip(1), slots(made, turned))


@torch.no_grad()
def test_vectors_of_others_take_the_place_of_pictures() -> None:
    made = encoder(local=False, features=3)
    vectors = torch.randn(2, 4, 3, dtype=torch.double)
    expected = made.norm(made.map(vectors) + made.times(torch.arange(4).expand(2, -1)))
    torch.testing.assert_close(slots(made, vectors), expected)


def test_it_learns_in_bf16_and_everything_gets_a_gradient() -> None:
    made = encoder().to(torch.bfloat16).train()
    made(pixels(4, 2)).values.float().square().sum().backward()
    without = [name for name, each in made.named_parameters() if each.grad is None or not each.grad.any()]
    assert without == []
