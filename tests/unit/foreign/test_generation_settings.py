"""Default generation settings of foreign models: out-of-range values are refused with their place and a remedy."""

from __future__ import annotations

import re
from typing import Any

import pytest

from heedful.errors import RunError
from heedful.foreign.folder_files import build_continuation_config, build_generation_config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_beams": 3, "length_penalty": "x"}, "length_penalty = 'x' must be a valid number"),
        ({"do_sample": True, "temperature": -3}, "temperature = -3 must be greater than 0"),
        ({"do_sample": True, "top_p": 2.0}, "top_p = 2.0 must be less than or equal to 1"),
    ],
)
def test_values_out_of_range(settings: dict[str, Any], message: str) -> None:
    sentence = f"^a.json: {re.escape(message)}; correct it, or take another copy of the model$"
    with pytest.raises(RunError, match=sentence):
        build_generation_config(settings, max_positions=10, location="a.json")


def test_repetition_penalty_of_a_language_model() -> None:
    with pytest.raises(RunError, match=r"^a\.json: repetition_penalty = 0 must be greater than"):
        build_continuation_config({"repetition_penalty": 0}, location="a.json")
