"""Fewer vectors of frames, and what is hidden of them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from heedful.blocks.convolution import ConvSubsampling, SpecAugment
from heedful.tensors import FeatureBatch

BANDS = 6


def sounds(*lengths: int) -> FeatureBatch:
    width = max(lengths)
    places = torch.arange(width)
    positions = torch.where(places < torch.tensor(lengths).unsqueeze(1), places, -1)
    return FeatureBatch(torch.randn(len(lengths), width, BANDS), positions)


def longhand(front: ConvSubsampling, frames: Tensor) -> Tensor:
    """One number after the other, zeros around."""
    x = frames.unsqueeze(0)  # channels, time, frequency
    for convolution in (front.first, front.second):
        channels, times, bands = x.shape
        out = torch.zeros(convolution.out_channels, -(-times // 2), -(-bands // 2))
        for c in range(out.size(0)):
            for t in range(out.size(1)):
                for f in range(out.size(2)):
                    total = float(convolution.bias[c])
                    for d in range(channels):
                        for i in range(3):
                            for j in range(3):
                                at, band = 2 * t + i - 1, 2 * f + j - 1
                                if 0 <= at < times and 0 <= band < bands:
                                    total += float(convolution.weight[c, d, i, j] * x[d, at, band])
                    out[c, t, f] = max(total, 0.0)
        x = out
    return torch.stack([front.output(x[:, t].flatten()) for t in range(x.size(1))])


@pytest.mark.parametrize(("length", "slots"), [(1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
@torch.no_grad()
def test_two_convolutions_are_those_of_plain_loops(length: int, slots: int) -> None:
    front, frames = ConvSubsampling(BANDS, channels=2, d_model=3), sounds(length)
    found = front(frames)
    assert found.positions.tolist() == [list(range(slots))]
    torch.testing.assert_close(found.vectors[0], longhand(front, frames.vectors[0]))


@torch.no_grad()
def test_padding_says_nothing_wherever_it_is() -> None:
    front, long, short = ConvSubsampling(BANDS, channels=2, d_model=3), sounds(11), sounds(6)
    rubbish = torch.full((1, 5, BANDS), 7.0)
    right = FeatureBatch(
        torch.cat((long.vectors, torch.cat((short.vectors, rubbish), 1))),
        torch.cat((long.positions, torch.nn.functional.pad(short.positions, (0, 5), value=-1))),
    )
    left = FeatureBatch(
        torch.cat((rubbish, short.vectors), 1), torch.nn.functional.pad(short.positions, (5, 0), value=-1)
    )
    alone, beside = front(short), front(right)
    assert beside.positions.tolist() == [[0, 1, 2], [0, 1, -1]]
    torch.testing.assert_close(beside.vectors[1, :2], alone.vectors[0])
    torch.testing.assert_close(beside.vectors[0], front(long).vectors[0])
    torch.testing.assert_close(front(left).vectors[:, :2], alone.vectors)
    assert beside.vectors.isfinite().all()


def test_masks_hide_whole_frames_and_bands_and_no_more_than_they_may() -> None:
    hide = SpecAugment(bands=(1, 2), frames=(2, 4), share=0.1)
    source = sounds(*[20] * 50, 10)
    shown = FeatureBatch(torch.ones_like(source.vectors), source.positions)
    assert hide.eval()(shown) is shown
    hidden = hide.train()(shown).vectors == 0
    real = source.positions >= 0
    frames = hidden.all(2) & real
    assert 0 < int(frames[:50].sum(1).max()) <= 4  # two masks of a tenth of twenty frames each
    assert int(frames[50].sum()) <= 2
    lost = hidden & ~hidden.all(2, keepdim=True)
    bands = lost.any(1)
    assert 0 < int(bands.sum(1).max()) <= 2
    assert torch.equal(lost, (bands.unsqueeze(1) & ~hidden.all(2, keepdim=True)).expand_as(lost)), "whole bands"
    # every place is hidden at times, the first and the last too, and rows differ
    assert hidden[:50].all(2).any(0).all()
    assert bands.any(0).all()
    assert len({tuple(row) for row in frames[:50].int().tolist()}) > 10


def test_what_is_hidden_is_a_function_of_the_seed() -> None:
    hide, source = SpecAugment(bands=(1, 2), frames=(1, 4), share=0.2), sounds(20, 20)
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(hide(source).vectors)
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
