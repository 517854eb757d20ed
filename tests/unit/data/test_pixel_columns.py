"""Pictures of writing become frames: one of each column, from left to right, whatever their size and colours."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch

from heedful.data.pictures import Picture, encode_png, estimate_picture_memory
from heedful.data.pixel_columns import PixelColumns
from heedful.data.sound import Sound
from heedful.errors import DataError


def draw_writing(width: int = 40, height: int = 12, *, seed: int = 1) -> Picture:
    """Draw grey strokes on black; most pixels are black, and some are white."""
    dice = np.random.default_rng(seed)
    grey = np.where(dice.random((height, width)) < 0.3, dice.integers(1, 256, (height, width)), 0)
    grey[0, 0] = 255
    return np.repeat(grey[:, :, None], 3, 2).astype(np.uint8)


def read(picture: Picture, folder: Path, *, bands: int = 12) -> torch.Tensor:
    (folder / "line.png").write_bytes(encode_png(picture))
    frontend = PixelColumns(bands)
    return frontend.compute_frames(frontend.read(folder / "line.png"))


def test_a_frame_is_the_ink_of_a_column_from_the_bottom_up(tmp_path: Path) -> None:
    picture = draw_writing()
    expected = torch.from_numpy(picture[::-1, :, 0].T / 255.0).float()
    torch.testing.assert_close(read(picture, tmp_path), expected)


def test_pictures_beside_each_other_have_the_frames_of_both(tmp_path: Path) -> None:
    one, other = draw_writing(30), draw_writing(50, seed=2)
    both = read(np.concatenate([one, other], 1), tmp_path)
    torch.testing.assert_close(both, torch.cat([read(one, tmp_path), read(other, tmp_path)]))


def test_dark_writing_on_any_paper_is_like_light_writing(tmp_path: Path) -> None:
    """Faint ink is as strong as black ink, and colours count as grey."""
    picture = draw_writing()
    frames = read(picture, tmp_path)
    torch.testing.assert_close(read(255 - picture, tmp_path), frames)
    faint = (200 - 0.4 * picture).round().astype(np.uint8)
    torch.testing.assert_close(read(faint, tmp_path), frames, atol=0.01, rtol=0)
    blank = np.full_like(picture, 77)
    assert not read(blank, tmp_path).any()


@pytest.mark.parametrize("scale", [2, 3])
def test_the_size_of_a_picture_does_not_count(tmp_path: Path, scale: int) -> None:
    """Resizing by a filter spreads edges a little."""
    small = np.kron(draw_writing(10, 4), np.ones((3, 3, 1), np.uint8))
    large = np.kron(small, np.ones((scale, scale, 1), np.uint8))
    frames, resized = read(small, tmp_path), read(large, tmp_path)
    assert resized.shape == frames.shape == (30, 12)
    assert float((resized - frames).abs().mean()) < 0.1
    assert read(small, tmp_path, bands=24).shape == (60, 24)


def test_lengths_are_measured_in_columns(tmp_path: Path) -> None:
    (tmp_path / "line.png").write_bytes(encode_png(draw_writing(250)))
    frontend = PixelColumns(12)
    sound = frontend.read(tmp_path / "line.png")
    assert len(sound.samples) / sound.rate == 2.5
    assert (frontend.hop, frontend.window) == (10, 10)
    assert frontend.compute_frames(Sound(torch.zeros(frontend.frame_length), frontend.rate)).shape == (1, 12)


def test_what_is_too_wide_or_no_picture_is_refused(tmp_path: Path) -> None:
    frontend, content = PixelColumns(12), BytesIO(encode_png(draw_writing(250)))
    assert len(frontend.decode(content, name="it", max_seconds=2.5).samples) == 250 * 12
    with pytest.raises(DataError, match=r"it: has 250 columns if it is 12 pixels high, this model reads at most 249"):
        frontend.decode(content, name="it", max_seconds=2.49)
    thin = np.zeros((1, 2**16, 3), np.uint8)
    (tmp_path / "thin.png").write_bytes(encode_png(thin))
    with pytest.raises(DataError, match=r"thin.png: has 67,108,864 columns"):
        PixelColumns(1024).read(tmp_path / "thin.png")
    with pytest.raises(DataError, match="no such picture"):
        frontend.read(tmp_path / "none.png")
    for sound in (Sound(torch.zeros(1200), 8000), Sound(torch.zeros(1201), 1200)):
        with pytest.raises(DataError, match=r"8000|1200"):
            frontend.compute_frames(sound)


def test_memory_is_estimated_from_the_header(tmp_path: Path) -> None:
    content = BytesIO(encode_png(draw_writing(250)))
    size = PixelColumns(12).estimate_memory(content, name="it", max_seconds=3)
    assert size == estimate_picture_memory(250 * 12 + 300 * 12)
