from __future__ import annotations

import random
import tomllib
from typing import Any

import pytest

from heedful.recipes import toml

LETTERS = [chr(code) for code in (*range(0x00, 0x100), 0x2028, 0xFEFF, 0xFFFE, 0x1F600, 0x10FFFF)]
NUMBERS = (0, -1, 2**63, 0.1, 1e-9, 1e16, 5e-324, 1.7976931348623157e308, -0.0, 123456789.125)


def random_nest(dice: random.Random, depth: int) -> dict[str, Any]:
    nest: dict[str, Any] = {}
    for number in range(dice.randint(0, 4)):
        draw, key = dice.random(), dice.choice((f"k_{number}", f'a "k.{number}" of ä'))
        if draw < 0.3 and depth:
            nest[key] = random_nest(dice, depth - 1)
        elif draw < 0.6:
            nest[key] = "".join(dice.choices(LETTERS, k=dice.randint(0, 12)))
        else:
            nest[key] = dice.choice((*NUMBERS, True, False))
    return nest


@pytest.mark.parametrize("seed", range(60))
def test_documents_are_read_back_as_they_were(seed: int) -> None:
    nest = random_nest(random.Random(seed), depth=3)
    again = tomllib.loads(toml.format_document(nest))
    assert repr(again) == repr({**_singles(nest), **_tables(nest)})


def _singles(nest: dict[str, Any]) -> dict[str, Any]:
    return {key: part for key, part in nest.items() if not isinstance(part, dict)}


def _tables(nest: dict[str, Any]) -> dict[str, Any]:
    return {key: part for key, part in nest.items() if isinstance(part, dict)}
