"""A record in a terminal: the numbers are there, lines fit, and no token can write what it likes."""

from __future__ import annotations

import io
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from attribution_samples import add_random_attribution
from random_records import build_answer_record, build_random_record
from rich.console import Console

from heedful.errors import DataError
from heedful.inspection.heatmap import draw_alignment_text
from heedful.inspection.record import InspectionRecord
from heedful.inspection.svg import make_visible
from heedful.inspection.terminal import render_terminal


def shown(record: InspectionRecord, *, width: int = 120, colours: bool = False, **chosen: object) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=colours, soft_wrap=True, highlight=False)
    console.print(render_terminal(record, **chosen))  # type: ignore[arg-type]
    return out.getvalue()


def test_the_map_and_what_was_written_are_there() -> None:
    record = build_random_record(2, 3)
    each = record.find_map("cross", layer=-1)
    text = shown(record)
    matrix = draw_alignment_text(record.get_axis("source").tokens, record.get_axis("written").tokens, each.mean_weights)
    assert all(line.rstrip() in text for line in matrix.splitlines())
    assert "cross layer 1, mean of 3 heads" in text
    for written in record.written:
        assert f"{math.exp(written.log_probability):.3f}" in text
    assert "decoder layer 0, head 2" in shown(record, role="decoder", layer=0, head=2)


def test_the_probability_of_copying_is_there_if_the_model_can_copy() -> None:
    record = build_random_record(2, 3)
    assert "copied" not in shown(record)
    tokens = tuple(replace(each, copy_probability=0.125 + place / 100) for place, each in enumerate(record.written))
    text = shown(replace(record, written=tokens))
    assert "copied" in text
    assert all(f"{each.copy_probability:.3f}" in text for each in tokens)


def test_a_narrow_terminal_has_the_strongest_keys_instead() -> None:
    record = build_random_record(1, 1, source=[f"w{i}" for i in range(80)])
    weights = record.find_map("cross", layer=0).mean_weights
    text = shown(record, width=80)
    assert "│" not in text
    for row in weights:
        best = np.argsort(-row)[:3]
        assert "  ".join(f"w{i} {row[i]:.2f}" for i in best) in text
    assert "│" in shown(record, width=300)


def test_answers_are_there_with_their_probabilities() -> None:
    record = build_answer_record()
    text = shown(record)
    rows = [re.split(r"  +", line.strip()) for line in text.splitlines()]
    for each in record.answers:
        assert [each.about] in rows
        chance = [f"{each.options[0].probability:.3f}"] if each.options else []
        expected = [*([each.subject] if each.subject else []), each.answer_text, *chance]
        (found,) = (row for row in rows if row[: len(expected)] == expected)
        others = [f"{make_visible(option.name)} {option.probability:.2f}" for option in each.options[1:4]]
        assert found[len(found) - len(others) :] == others
    assert "\u202e" not in text


def test_heads_have_their_whole_names_at_eighty_columns() -> None:
    record = build_random_record(12, 3)
    lines = [line.rstrip() for line in shown(record, width=80, max_heads=72).splitlines()]
    for role in ("encoder", "decoder", "cross"):
        assert any(line.startswith(f"{role} layer 11, head 2  ") for line in lines)
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines if " layer " in line)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_tables_fit(width: int) -> None:
    record = build_random_record(1, 2, source=[f"word{i}" for i in range(100)])
    lines = shown(record, width=width).splitlines()
    assert max(map(len, lines)) <= width


def test_tokens_are_neither_markup_nor_commands() -> None:
    tokens = ["[bold red]x[/]", "\x1b[31m", "\r", "[/]", "\x07"]
    text = shown(
        replace(build_random_record(1, 2, source=tokens, written=tokens), model="[b]\x1b[2J", notes=("[i]\n",))
    )
    assert "[bold red]x[/]" in text
    assert not any(ord(c) < 32 and c != "\n" for c in text)
    assert "[b]␛[2J" in text


def head_lines(record: InspectionRecord) -> list[list[str]]:
    """Name, habit, weight and entropy of the heads in the table."""
    lines = shown(record, width=200).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("heads,")) + 2
    return [re.split(r"  +", line.strip()) for line in lines[start:]]


def test_heads_are_called_what_they_do_the_sharpest_first() -> None:
    record = build_random_record(1, 5, roles=("encoder",))
    (each,) = record.maps
    size = each.weights.shape[1]
    before = np.eye(size, k=-1)
    before[0, 0] = 1
    scattered = np.eye(size)[[3, 7, 1, 6, 9, 2, 8, 5, 0, 4]]
    flat = np.full((size, size), 1 / size)
    three = (np.eye(size) + np.eye(size)[::-1] + scattered) / 3
    heads = np.stack([flat, three, 0.9 * before + 0.1 * flat, 0.8 * scattered + 0.2 * flat, np.eye(size)])
    found = head_lines(replace(record, maps=(replace(each, weights=heads.astype(np.float32)),)))
    assert [row[:2] for row in found[:5]] == [
        ["encoder layer 0, head 4", "mostly the token itself"],
        ["encoder layer 0, head 2", "mostly the token before"],
        ["encoder layer 0, head 3", "one token, not always at the same place"],
        ["encoder layer 0, head 1", "several tokens"],
        ["encoder layer 0, head 0", "everything alike"],
    ]
    assert [row[2] for row in found[:3]] == ["1.00", "0.91", "0.82"]
    assert len(shown(record, max_heads=2).splitlines()) == len(shown(record, max_heads=3).splitlines()) - 1


def test_warnings_stand_below() -> None:
    assert "warning" not in shown(build_random_record())
    assert "warning: cross layer 0, heads 0, 1: every token" in shown(build_random_record(1, 2, sharpness=0.0))


def test_records_without_text_or_attention() -> None:
    assert "written" not in shown(replace(build_random_record(roles=("encoder",)), written=())).splitlines()
    bare = shown(InspectionRecord("recurrent, no attention", (), (), notes=("this model has none",)))
    assert bare.splitlines() == ["recurrent, no attention", "this model has none"]
    with pytest.raises(DataError, match="no cross attention"):
        render_terminal(build_random_record(roles=("encoder",)), role="cross")


def test_what_mattered_is_there_with_its_sums() -> None:
    record = add_random_attribution(build_random_record())
    (each,) = record.attributions
    text = shown(record)
    assert "what mattered: integrated gradients" in text
    assert "In nats of log-probability." in text
    assert "Sums in 32 steps are off by 0.25 at most" in text
    names, tokens = record.list_attribution_labels(each)
    for name, row in zip(names, each.scores, strict=True):
        best = int(row.argmax())
        assert any(line.startswith(name) and f" {tokens[best]} {row[best]:+.2f}" in line for line in text.splitlines())
    assert "what mattered" not in shown(record, show_attributions=False)
    gradient = shown(add_random_attribution(build_random_record(), method="gradient"))
    assert "what mattered: gradient times input" in gradient
    assert "Sums in" not in gradient
