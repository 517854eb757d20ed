"""Clips: what is taken of them, and what is said where they cannot be read."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from heedful.data.clips import count_frame_bytes, read_clip, read_clip_features, sample_frame_indices
from heedful.data.pictures import SquareResize, encode_png
from heedful.errors import DataError, MissingExtraError

SIZE = 16
FRAMING = SquareResize(SIZE)
_UNTURNED = b"".join(n.to_bytes(4, "big") for n in (0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000))
_QUARTER = b"".join(n.to_bytes(4, "big") for n in (0, 0x10000, 0, 0xFFFF0000, 0, 0, 0, 0, 0x40000000))


def shades(count: int, *, height: int = SIZE, width: int = SIZE) -> np.ndarray:
    """Frames that are lighter and lighter, each of one grey, so that one sees which is which."""
    grey = np.linspace(10, 240, count).astype(np.uint8)
    return np.broadcast_to(grey[:, None, None, None], (count, height, width, 3)).copy()


def encoded(path: Path, frames: np.ndarray, *, times: Sequence[int] | None = None, codec: str = "mpeg4") -> Path:
    """A video of frames at 10 a second, or shown at these tenths of a second."""
    av = pytest.importorskip("av")
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=10)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = "rgb8" if codec == "gif" else "yuv420p"
        stream.codec_context.time_base = Fraction(1, 10)
        for time, frame in zip(times or range(len(frames)), frames, strict=True):
            picture = av.VideoFrame.from_ndarray(frame, format="rgb24")
            picture.pts, picture.time_base = time, Fraction(1, 10)
            container.mux(stream.encode(picture))
        container.mux(stream.encode())
    return path


def levels(frames: np.ndarray) -> list[float]:
    return [float(frame.mean()) for frame in frames]


@pytest.mark.parametrize(
    ("times", "most", "taken"),
    [
        (range(5), 8, [0, 1, 2, 3, 4]),
        (range(8), 8, list(range(8))),
        (range(9), 3, [1, 4, 7]),
        (range(10), 4, [1, 3, 6, 8]),
        (range(7), 1, [3]),
        ([0, 1, 2, 3, 10, 11], 2, [3, 3]),  # the fourth frame is shown for most of the time
        ([5, 5, 4, 6, 7, 8], 2, [3, 5]),  # times that go back
    ],
)
def test_frames_are_even_in_time(times: Sequence[float], most: int, taken: list[int]) -> None:
    assert sample_frame_indices(times, most).tolist() == taken


def test_it_is_the_frame_shown_in_the_middle_of_each_part() -> None:
    dice = np.random.default_rng(1)
    for _ in range(50):
        times = np.cumsum(dice.uniform(0.1, 2, dice.integers(2, 40))).tolist()
        most = int(dice.integers(1, len(times)))
        end = times[-1] + sorted(b - a for a, b in pairwise(times))[(len(times) - 1) // 2]
        found = sample_frame_indices(times, most)
        assert len(found) == most
        if len(times) % 2 == 0:  # an odd number of gaps has a middle one
            for part, number in enumerate(found):
                middle = times[0] + (part + 0.5) / most * (end - times[0])
                assert number == max(n for n, time in enumerate(times) if time <= middle)


def test_rounding_moves_no_frame() -> None:
    """Tenths of a second have no exact numbers, and every third frame begins in the middle of its part."""
    assert (
        sample_frame_indices([n / 10 for n in range(60)], 30).tolist() == sample_frame_indices(range(60), 30).tolist()
    )


def test_an_array_a_folder_and_a_video_are_the_same_clip(tmp_path: Path) -> None:
    frames = shades(12)
    np.savez(tmp_path / "clip.npz", frames=frames)
    (tmp_path / "clip").mkdir()
    for number, frame in enumerate(frames, 7):  # 10 comes after 9
        (tmp_path / "clip" / f"frame{number}.png").write_bytes(encode_png(frame))
    (tmp_path / "clip" / "notes.txt").write_text("no frame")
    encoded(tmp_path / "clip.mp4", frames)
    for name in ("clip.npz", "clip", "clip.mp4"):
        clip = read_clip(tmp_path / name, resize=FRAMING, max_frames=5)
        assert clip.frame_indices.tolist() == [1, 3, 6, 8, 10]
        assert clip.frames.shape == (5, SIZE, SIZE, 3)
        assert clip.frames.dtype == np.uint8
        # a video's codec moves a grey by a few steps of 256
        assert levels(clip.frames) == pytest.approx(levels(frames[clip.frame_indices]), abs=6)


def test_a_gif_is_a_video(tmp_path: Path) -> None:
    frames = shades(6)
    clip = read_clip(encoded(tmp_path / "clip.gif", frames, codec="gif"), resize=FRAMING, max_frames=3)
    assert clip.frame_indices.tolist() == [1, 3, 5]
    assert levels(clip.frames) == pytest.approx(levels(frames[[1, 3, 5]]), abs=40)  # 8 colours have few greys


def test_frames_of_a_changing_rate_are_taken_by_their_times(tmp_path: Path) -> None:
    frames = shades(12)
    times = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 30, 31]
    clip = read_clip(encoded(tmp_path / "clip.mp4", frames, times=times), resize=FRAMING, max_frames=4)
    assert clip.frame_indices.tolist() == [4, 9, 9, 9]
    assert levels(clip.frames) == pytest.approx(levels(frames[[4, 9, 9, 9]]), abs=6)


def test_a_video_is_turned_as_its_file_wants(tmp_path: Path) -> None:
    frames = np.zeros((3, SIZE, SIZE, 3), np.uint8)
    frames[:, : SIZE // 2, : SIZE // 2] = 255  # top left
    path = encoded(tmp_path / "clip.mp4", frames)
    content = path.read_bytes()
    at = content.index(_UNTURNED, content.index(b"tkhd"))
    path.write_bytes(content[:at] + _QUARTER + content[at + len(_UNTURNED) :])  # shown a quarter clockwise
    lit = read_clip(path, resize=FRAMING, max_frames=1).frames[0].mean(-1) > 128
    half = SIZE // 2
    assert lit[:half, half:].mean() > 0.9
    assert lit[half:].mean() < 0.1
    assert lit[:, :half].mean() < 0.1


def test_frames_become_squares(tmp_path: Path) -> None:
    clip = read_clip(encoded(tmp_path / "c.mp4", shades(2, height=32, width=64)), resize=FRAMING, max_frames=9)
    assert clip.frames.shape == (2, SIZE, SIZE, 3)


def test_features_are_read_and_taken_alike(tmp_path: Path) -> None:
    features = np.arange(24, dtype=np.float16).reshape(8, 3)
    save_file({"features": features}, tmp_path / "clip.safetensors")
    clip = read_clip_features(tmp_path / "clip.safetensors", width=3, max_frames=4)
    assert clip.frames.dtype == np.float32
    assert clip.frame_indices.tolist() == [1, 3, 5, 7]
    assert clip.frames.tolist() == features[[1, 3, 5, 7]].tolist()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.mp4", None, "there is no such clip"),
        ("none.npz", None, "there is no such clip"),
        ("empty.mp4", b"", "an empty file"),
        ("empty.npz", b"", "an empty file"),
        ("text.mp4", b"no video at all", "is damaged, or not a video"),
        ("list.m3u8", b"#EXTM3U\n#EXTINF:1,\nhttp://localhost/a.ts\n#EXT-X-ENDLIST\n", "is damaged, or not a video"),
        ("text.npz", b"no array at all", "has no readable array 'frames'"),
    ],
)
def test_what_is_no_clip_is_named(tmp_path: Path, name: str, content: bytes | None, said: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=said) as found:
        read_clip(path, resize=FRAMING, max_frames=4)
    assert str(path) in str(found.value)


def test_what_a_playlist_names_is_not_opened(tmp_path: Path) -> None:
    encoded(tmp_path / "a.ts", shades(12), codec="mpeg2video")
    read_clip(tmp_path / "a.ts", resize=FRAMING, max_frames=2)
    (tmp_path / "list.m3u8").write_text("#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:1.2,\na.ts\n#EXT-X-ENDLIST\n")
    with pytest.raises(DataError, match="is damaged, or not a video"):
        read_clip(tmp_path / "list.m3u8", resize=FRAMING, max_frames=2)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_video_that_is_cut_off_is_named(tmp_path: Path, share: float) -> None:
    path = encoded(tmp_path / "clip.mp4", shades(12))
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(DataError, match=r"clip\.mp4: (is damaged|no pictures|a video without frames)"):
        read_clip(path, resize=FRAMING, max_frames=4)


def test_sound_alone_is_no_clip(tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    path = tmp_path / "sound.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=16000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 16000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with pytest.raises(DataError, match="no pictures in it"):
        read_clip(path, resize=FRAMING, max_frames=4)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"pictures": shades(3)}, "has no readable array 'frames'"),
        ({"frames": shades(3).astype(float)}, "frames of float64"),
        ({"frames": shades(3)[..., 0]}, "write uint8"),
        ({"frames": shades(3)[:0]}, "write uint8"),
        ({"frames": np.array([{}], dtype=object)}, "has no readable array 'frames'"),
    ],
)
def test_other_arrays_are_named(tmp_path: Path, arrays: dict[str, np.ndarray], said: str) -> None:
    np.savez(tmp_path / "c.npz", **arrays)
    with pytest.raises(DataError, match=said):
        read_clip(tmp_path / "c.npz", resize=FRAMING, max_frames=4)


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({"pictures": np.zeros((2, 3))}, "has no tensor 'features'"),
        ({"features": np.zeros((2, 4))}, "needs data.features = 3 numbers"),
        ({"features": np.zeros((0, 3))}, "needs data.features = 3 numbers"),
        ({"features": np.full((2, 3), np.nan)}, "not finite numbers"),
    ],
)
def test_other_features_are_named(tmp_path: Path, tensors: dict[str, np.ndarray], said: str) -> None:
    save_file(tensors, tmp_path / "c.safetensors")
    with pytest.raises(DataError, match=said):
        read_clip_features(tmp_path / "c.safetensors", width=3, max_frames=4)
    (tmp_path / "c.safetensors").write_bytes(b"12345678")
    with pytest.raises(DataError, match="is not a readable safetensors file"):
        read_clip_features(tmp_path / "c.safetensors", width=3, max_frames=4)


def test_folders_of_frames_that_are_none_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no pictures"):
        read_clip(tmp_path, resize=FRAMING, max_frames=4)
    (tmp_path / "frame.png").write_bytes(encode_png(shades(1)[0]))
    with pytest.raises(DataError, match="a frame without a number"):
        read_clip(tmp_path, resize=FRAMING, max_frames=4)


def test_without_pyav_it_is_said_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    (tmp_path / "c.mp4").write_bytes(b"anything")
    with pytest.raises(MissingExtraError, match=r"heedful\[video\]"):
        read_clip(tmp_path / "c.mp4", resize=FRAMING, max_frames=4)


def test_it_is_known_before_how_much_would_be_decoded(tmp_path: Path) -> None:
    frames = shades(6, height=SIZE, width=2 * SIZE)
    np.savez(tmp_path / "a.npz", frames=frames)
    assert frames.nbytes <= count_frame_bytes(tmp_path / "a.npz") < frames.nbytes + 1000
    for codec, name in (("mpeg4", "a.mp4"), ("gif", "a.gif")):
        assert count_frame_bytes(encoded(tmp_path / name, frames, codec=codec)) == frames.nbytes, name
    (tmp_path / "none.mp4").write_bytes(b"no clip at all")
    for name in ("none.mp4", "gone.npz"):
        with pytest.raises(DataError, match=name):
            count_frame_bytes(tmp_path / name)


def test_archives_that_cannot_be_opened_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, frames=shades(2))
    locked = bytearray(path.read_bytes())
    for head, flags in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        locked[locked.index(head) + flags] |= 1  # which says that a password is needed
    path.write_bytes(bytes(locked))
    with pytest.raises(DataError, match=r"a\.npz: has no readable array 'frames'"):
        read_clip(path, resize=FRAMING, max_frames=2)


def test_features_are_no_pictures(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a folder of pictures, but features are needed"):
        read_clip_features(tmp_path, width=3, max_frames=2)


def test_pictures_that_nothing_decodes_are_named(tmp_path: Path) -> None:
    path = encoded(tmp_path / "a.avi", shades(3))
    path.write_bytes(path.read_bytes().replace(b"FMP4", b"Q?Q?"))
    for read in (count_frame_bytes, lambda path: read_clip(path, resize=FRAMING, max_frames=2)):
        with pytest.raises(DataError, match=r"a\.avi: is damaged, or not a video that can be decoded here"):
            read(path)


@pytest.mark.parametrize(
    ("member", "said"),
    [
        (b"no array at all", "are not an array"),
        (b"\x93NUMPY\x01\x00" + (200).to_bytes(2, "little") + b"[" * 199 + b"\n", "a.npz"),
        (b"\x93NUMPY\x01\x00" + (20).to_bytes(2, "little") + b"{'descr': (((((((\n ", "a.npz"),
    ],
    ids=["bytes", "brackets", "unclosed"],
)
def test_archives_whose_member_is_no_array_are_named(tmp_path: Path, member: bytes, said: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("frames.npy", member)
    with pytest.raises(DataError, match=said):
        read_clip(tmp_path / "a.npz", resize=SquareResize(8), max_frames=4)
