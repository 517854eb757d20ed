"""Every kind of file that calls itself a picture is read as colours, or named."""

from __future__ import annotations

import io
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from heedful.data import pictures
from heedful.data.pictures import SquareResize, encode_png, list_picture_files, read_picture, resize_picture
from heedful.errors import DataError, MissingExtraError

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def scene(rows: int = 4, columns: int = 6) -> np.ndarray:
    """Red above, blue below, and a green corner at the top left."""
    picture = np.zeros((rows, columns, 3), dtype=np.uint8)
    picture[: rows // 2] = RED
    picture[rows // 2 :] = BLUE
    picture[0, 0] = GREEN
    return picture


def saved(path: Path, image: Image.Image, **options: object) -> Path:
    image.save(path, **options)
    return path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    for suffix in (".png", ".bmp", ".tiff", ".ppm"):
        path = saved(tmp_path / f"a{suffix}", Image.fromarray(scene()))
        assert np.array_equal(read_picture(path), scene())


def test_our_own_files_are_png(tmp_path: Path) -> None:
    dice = np.random.default_rng(0)
    for shape in ((1, 1, 3), (5, 3, 3), (40, 41, 3)):
        picture = dice.integers(0, 256, shape, dtype=np.uint8)
        (tmp_path / "a.png").write_bytes(encode_png(picture))
        assert np.array_equal(read_picture(tmp_path / "a.png"), picture)
        assert np.array_equal(np.array(Image.open(io.BytesIO(encode_png(picture)))), picture)


def test_jpeg_is_nearly_the_same(tmp_path: Path) -> None:
    smooth = np.tile(np.linspace(0, 255, 64).astype(np.uint8)[None, :, None], (64, 1, 3))
    found = read_picture(saved(tmp_path / "a.jpg", Image.fromarray(smooth), quality=95))
    assert np.abs(found.astype(int) - smooth).max() < 8  # the format itself is not exact


@pytest.mark.parametrize(
    ("mode", "colour", "wanted"),
    [
        ("1", 1, WHITE),
        ("L", 100, (100, 100, 100)),
        ("LA", (100, 255), (100, 100, 100)),
        ("LA", (0, 0), WHITE),
        ("P", 0, (0, 0, 0)),
        ("RGBA", (*RED, 255), RED),
        ("RGBA", (*RED, 0), WHITE),
        ("RGBA", (0, 0, 0, 51), (204, 204, 204)),
        ("I;16", 0x1234, (0x12, 0x12, 0x12)),
        ("I;16", 0xFFFF, WHITE),
    ],
)
def test_all_modes_become_colours(tmp_path: Path, mode: str, colour: object, wanted: tuple[int, ...]) -> None:
    path = saved(tmp_path / "a.png", Image.new(mode, (3, 2), colour))
    found = read_picture(path)
    assert found.shape == (2, 3, 3)
    assert found.dtype == np.uint8
    assert np.array_equal(found, np.broadcast_to(np.array(wanted, dtype=np.uint8), (2, 3, 3)))


def test_a_palette_with_a_transparent_colour_is_put_on_white(tmp_path: Path) -> None:
    image = Image.fromarray(scene()).quantize(4)
    place = image.getpixel((5, 0))
    found = read_picture(saved(tmp_path / "a.gif", image, transparency=place))
    assert tuple(found[0, 5]) == WHITE
    assert tuple(found[3, 0]) == BLUE


def test_printers_colours(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.jpg", Image.new("CMYK", (8, 8), (0, 255, 255, 0)), quality=95)
    assert np.abs(read_picture(path).astype(int) - RED).max() < 6


def test_sixteen_bits_of_big_endian_tiff(tmp_path: Path) -> None:
    data = np.arange(0, 65536, 4096, dtype=">u2").reshape(4, 4)
    path = saved(tmp_path / "a.tiff", Image.frombytes("I;16B", (4, 4), data.tobytes()))
    assert np.array_equal(read_picture(path)[:, :, 1], (data >> 8).astype(np.uint8))


def test_of_an_animation_the_first_picture(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (3, 3), colour) for colour in (RED, BLUE)]
    for suffix in (".gif", ".png", ".webp"):
        path = tmp_path / f"a{suffix}"
        frames[0].save(path, save_all=True, append_images=frames[1:], **({"lossless": True} if "w" in suffix else {}))
        assert np.array_equal(read_picture(path), np.array(frames[0]))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_are_turned_as_the_camera_was(tmp_path: Path, orientation: int) -> None:
    upright = scene()
    # how a camera stores what it saw upright, by the eight orientations of EXIF
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.transpose(1, 0, 2),
        6: np.rot90(upright, 1),
        7: upright[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(upright, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = saved(tmp_path / "a.png", Image.fromarray(np.ascontiguousarray(stored)), exif=exif)
    assert np.array_equal(read_picture(path), upright)


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes that claims so many pixels."""
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + head + struct.pack(">I", zlib.crc32(b"IHDR" + head))
    return b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))


@pytest.mark.parametrize("side", [2**13 + 1, 10_000, 100_000])
def test_a_file_that_claims_too_much_is_refused_before_it_is_decoded(tmp_path: Path, side: int) -> None:
    (tmp_path / "a.png").write_bytes(bomb(side, side))
    with pytest.raises(DataError, match=r"a\.png: has more than 67,108,864 pixels; make it smaller"):
        read_picture(tmp_path / "a.png")


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".gif", ".tiff", ".webp", ".bmp"])
def test_a_file_that_is_cut_off_is_named(tmp_path: Path, suffix: str) -> None:
    dice = np.random.default_rng(0)
    path = saved(tmp_path / f"a{suffix}", Image.fromarray(dice.integers(0, 256, (64, 64, 3), dtype=np.uint8)))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match=r"a\.\w+: is (a damaged|not a) picture"):
        read_picture(path)


def test_no_change_of_bytes_gives_anything_but_a_picture_or_an_error(tmp_path: Path) -> None:
    dice = np.random.default_rng(1)
    for suffix in (".png", ".jpg", ".gif", ".tiff", ".webp"):
        path = saved(tmp_path / f"a{suffix}", Image.fromarray(scene(16, 16)))
        content = np.frombuffer(path.read_bytes(), dtype=np.uint8)
        for _ in range(60):
            changed = content.copy()
            changed[dice.integers(0, len(content), 3)] = dice.integers(0, 256, 3)
            path.write_bytes(changed.tobytes())
            try:
                assert read_picture(path).shape[2] == 3
            except DataError as error:
                assert str(path) in str(error)


@pytest.mark.parametrize("content", [b"", b"no picture at all", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 1 1\n"])
def test_what_is_no_picture_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.png: is not a picture in one of the formats BMP"):
        read_picture(tmp_path / "a.png")


def test_numbers_that_are_no_colours_are_named(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.tiff", Image.fromarray(np.zeros((3, 3), dtype=np.float32)))
    with pytest.raises(DataError, match="mode F"):
        read_picture(path)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.png", tmp_path):
        with pytest.raises(DataError, match="there is no such picture"):
            read_picture(path)
    with pytest.raises(DataError, match="is not a folder of pictures"):
        list_picture_files(tmp_path / "none")
    with pytest.raises(DataError, match="holds no pictures"):
        list_picture_files(tmp_path)


def test_pictures_of_a_folder_by_name(tmp_path: Path) -> None:
    for name in ("b.PNG", "a.jpeg", "notes.txt", "c.webp"):
        (tmp_path / name).touch()
    (tmp_path / "d.png").mkdir()
    assert [path.name for path in list_picture_files(tmp_path)] == ["a.jpeg", "b.PNG", "c.webp"]


def test_without_pillow_its_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r"heedful\[pictures\]"):
        read_picture(tmp_path / "a.png")
    assert SquareResize(4)(scene(4, 4)).shape == (4, 4, 3)


def test_a_picture_of_the_right_size_stays_as_it_is() -> None:
    picture = scene(6, 6)
    for fit in ("crop", "stretch", "pad"):
        assert SquareResize(6, fit)(picture) is picture


def test_the_middle_is_taken() -> None:
    picture = np.zeros((10, 30, 3), dtype=np.uint8)
    picture[:, 10:20] = 200
    assert np.all(SquareResize(5, "crop")(picture) == 200)
    assert np.all(SquareResize(5, "crop")(picture.transpose(1, 0, 2)) == 200)


def test_a_picture_is_drawn_out() -> None:
    picture = np.zeros((10, 30, 3), dtype=np.uint8)
    picture[:, 15:] = 200
    found = SquareResize(8, "stretch")(picture)
    assert found.shape == (8, 8, 3)
    assert np.all(found[:, :3] < 10)
    assert np.all(found[:, 5:] > 190)


def test_grey_is_put_beside() -> None:
    found = SquareResize(9, "pad")(np.full((10, 30, 3), 7, dtype=np.uint8))
    assert np.all(found[3:6] == 7)
    assert np.all(found[:3] == 128)
    assert np.all(found[6:] == 128)
    assert SquareResize(9, "pad")(np.zeros((1000, 1, 3), dtype=np.uint8)).shape == (9, 9, 3)


def test_smaller_pictures_are_averages() -> None:
    """Fine stripes become grey instead of stripes of chance."""
    stripes = np.tile(np.array([0, 255], dtype=np.uint8), (64, 32))[:, :, None].repeat(3, 2)
    inner = resize_picture(stripes, 8, 8)[:, 1:-1].astype(int)  # at the border the filter reaches over the end
    assert np.abs(inner - 127).max() <= 2


def test_the_formats_that_are_opened_run_no_program() -> None:
    assert not {"EPS", "WMF", "PDF"} & set(pictures._FORMATS)


@pytest.mark.parametrize("fit", ["crop", "stretch", "pad"])
@pytest.mark.parametrize("shape", [(12, 20), (20, 12), (16, 16)])
def test_a_point_is_where_its_pixel_went(fit: str, shape: tuple[int, int]) -> None:
    """A bright spot is found again at the place that was told."""
    framing, (height, width) = SquareResize(64, fit), shape
    for y, x in ((height // 2, width // 2), (height // 2 - 3, width // 2 + 2)):
        picture = np.zeros((height, width, 3), dtype=np.uint8)
        picture[y, x] = 255
        found = framing(picture)[:, :, 0].astype(float)
        found = np.where(found > 150, found, 0.0)  # grey may stand beside it
        across, down = framing.map_point(x + 0.5, y + 0.5, height=height, width=width)
        rows, columns = (np.arange(64) + 0.5) / 64, (np.arange(64) + 0.5) / 64
        assert (found.sum(1) @ rows) / found.sum() == pytest.approx(down, abs=0.01)
        assert (found.sum(0) @ columns) / found.sum() == pytest.approx(across, abs=0.01)
