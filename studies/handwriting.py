"""Lines of handwritten digits, for a network that reads them column by column (Graves et al. 2009).

A line has several digits side by side, at random distances, and some of them touch. Each digit is an image of MNIST, or
without --digits a drawing by rules. The parts of the data share no image: of each digit, the last tenth is in lines of
the test part, the tenth before it in lines of the validation part, and the others in lines of the training part.

    python studies/handwriting.py --digits data/mnist10k --output data/handwriting
    heedful train recipes/handwriting.toml
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from digits import CLASSES, read_digits
from jaxtyping import UInt8

from heedful.cli.arguments import parse_script_arguments
from heedful.data.pictures import encode_png
from heedful.data.random_numbers import SeededRandom
from heedful.tasks.demonstration import write_files
from heedful.tasks.glimpses.demonstration import generate_digits

PARTS: Final[Mapping[str, tuple[float, float]]] = {"train": (0, 0.8), "validation": (0.8, 0.9), "test": (0.9, 1)}
"""Shares of the images of each digit that a part begins and ends with."""
DISTANCES: Final = -2, 6
"""Smallest and largest number of empty columns between two digits; below 0 they overlap."""


@dataclass(frozen=True)
class Options:
    """Write pictures of lines of digits, and a table of pictures and texts for each part."""

    output: Path
    """folder for the tables and the pictures"""
    digits: Path | None = None
    """folder with digit0.u8.gz ... digit9.u8.gz: images of 28 x 28 bytes, one after the other; drawn by rules if not
    given"""
    images: int = 1000
    """maximum number of images of each digit"""
    length: int = 5
    """digits of a line"""
    lines: int = 20_000
    """lines of the training part; the validation part has a twentieth of them, the test part a tenth"""
    seed: int = 1
    """random seed"""


def main() -> None:
    """Read the command line and write the lines of all parts."""
    options = parse_script_arguments(Options, __file__)
    if options.digits is None:
        drawn = list(generate_digits(CLASSES * options.images, seed=options.seed))
        images = [[each.pixels[0] for each in drawn if each.label == digit] for digit in range(CLASSES)]
    else:
        images = [list(each.numpy()) for each in read_digits(options.digits, per_digit=options.images)]
    write_files(options.output, build_files(images, options))


def build_files(
    images: Sequence[Sequence[UInt8[np.ndarray, "H W"]]], options: Options
) -> Iterator[tuple[str, str | bytes]]:
    """Yield the name and the content of each file; `images` are those of each digit."""
    counts = {"train": options.lines, "validation": options.lines // 20, "test": options.lines // 10}
    for part, shares in PARTS.items():
        own = [each[slice(*(round(share * len(each)) for share in shares))] for each in images]
        rows = []
        for number in range(counts[part]):
            rng = SeededRandom(options.seed, list(PARTS).index(part), number)
            digits = [rng.next_int(CLASSES) for _ in range(options.length)]
            name = f"{part}/{number:05d}.png"
            chosen = [own[digit][rng.next_int(len(own[digit]))] for digit in digits]
            yield name, encode_png(draw_line(chosen, rng))
            rows.append(f"{name}\t{''.join(map(str, digits))}\n")
        yield f"{part}.tsv", "".join(rows)


def draw_line(images: Sequence[UInt8[np.ndarray, "H W"]], rng: SeededRandom) -> UInt8[np.ndarray, "H columns 3"]:
    """Place images without their empty sides next to each other at random distances, light on dark."""
    low, high = DISTANCES
    line, end = np.zeros((len(images[0]), (high + images[0].shape[1]) * len(images) + high), np.uint8), high
    for image in images:
        columns = np.flatnonzero(image.any(0))
        trimmed = image[:, columns[0] : columns[-1] + 1]
        place = line[:, end : end + trimmed.shape[1]]
        np.maximum(place, trimmed, out=place)
        end += trimmed.shape[1] + low + rng.next_int(high - low + 1)
    return np.repeat(line[:, : end + high, None], 3, axis=2)


if __name__ == "__main__":
    main()
