"""A record in a terminal: one map, what was written, and the heads that are worth a look."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from heedful.attention.probe import Role
from heedful.inspection.figures.sheet import Chosen
from heedful.inspection.heads import measures_of, warnings
from heedful.inspection.heatmap import alignment_text
from heedful.inspection.lettering import shortened, visible
from heedful.inspection.record import Answer, Map, Record, Written

_LABEL = 14
_BESIDE = 2 * _LABEL + 10
"""Columns of a terminal that a row takes beside its cells: two labels, a weight and lines."""

_ENDS = {"first": "the first token", "last": "the last token"}
_TRAITS: dict[Role, dict[str, str]] = {
    "encoder": {
        "diagonal": "the token itself",
        "previous": "the token before",
        "next": "the token behind",
        **_ENDS,
    },
    "decoder": {
        "diagonal": "the token that was read last",
        "previous": "the token before that",
        "first": "the first token",
    },
    "cross": {
        "diagonal": "the token at the same place",
        "previous": "one place before",
        "next": "one place behind",
        **_ENDS,
    },
    "summary": _ENDS,
}


def terminal_view(
    record: Record, *, role: Role | None = None, layer: int = -1, head: int | None = None, most: int = 8
) -> RenderableType:
    """What rich prints of a record.

    Args:
        record: of one text.
        role: whose map; the first of cross, summary, decoder and encoder that there is, unless given.
        layer: of the map; -1 is the last.
        head: of the map; the mean over heads unless given.
        most: heads in the table of heads.

    Raises:
        DataError: there is no such map.
    """
    parts: list[RenderableType] = [Text(visible(record.model), style="bold")]
    parts += [Text(visible(note), style="dim") for note in record.notes]
    if record.maps:
        chosen = Chosen(role, layer, head)
        each = chosen.map_of(record)
        parts += [Text(), _heading(chosen.name_of(each)), _MapView(record, each, chosen)]
    if record.written:
        parts += [Text(), _heading("written"), _written(record.written)]
    for about, asked in record.answered.items():
        parts += [Text(), _heading(visible(about)), _answers(asked)]
    if record.maps:
        parts += [Text(), _heading("heads, the sharpest first"), _heads(record, most)]
    parts += [Text(f"warning: {text}", style="yellow") for text in warnings(record)]
    return Group(*parts)


def _heading(text: str) -> Text:
    return Text(text, style="bold")


@dataclass(frozen=True)
class _MapView:
    """The matrix in block characters where the terminal is wide enough, else the strongest weights of each row."""

    record: Record
    each: Map
    chosen: Chosen

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        queries = self.record.axis(self.each.queries).tokens
        keys = self.record.axis(self.each.keys).tokens
        weights = self.chosen.weights_of(self.each)
        if 2 * len(keys) + _BESIDE <= options.max_width:
            yield Text(alignment_text(keys, queries, weights).rstrip("\n"), no_wrap=True, overflow="ignore")
        else:
            yield _strongest(queries, keys, weights)


def _strongest(queries: Sequence[str], keys: Sequence[str], weights: np.ndarray) -> Table:
    table = _table("", "looks most at")
    for query, row in zip(queries, weights, strict=True):
        best = np.argsort(-row, kind="stable")[:3]
        found = "  ".join(f"{_cut(keys[i])} {row[i]:.2f}" for i in best.tolist())
        table.add_row(Text(_cut(query)), Text(found))
    return table


def _written(written: Sequence[Written]) -> Table:
    table = _table("", "probability", "", "instead")
    for each in written:
        chance = math.exp(each.log_probability)
        table.add_row(Text(_cut(each.token)), Text(f"{chance:.3f}"), _bar(chance), _others(each))
    return table


def _answers(answers: Sequence[Answer]) -> Table:
    """What was said of each subject, and what else could have been."""
    table = _table("", "", "probability", "", "instead")
    for each in answers:
        cells = [Text(_cut(each.subject) if each.subject else ""), Text(_cut(each.said))]
        chances = [option.probability for option in each.options[:1]]
        bars = [cell for chance in chances for cell in (Text(f"{chance:.3f}"), _bar(chance))] or [Text(), Text()]
        table.add_row(*cells, *bars, _others(each))
    return table


def _others(each: Written | Answer) -> Text:
    return Text("  ".join(f"{_cut(name)} {chance:.2f}" for name, chance in each.others[:3]))


def _bar(share: float, *, longest: int = 12) -> Text:
    """A bar in eighths of a column."""
    eighths = round(8 * longest * min(1.0, share))
    return Text("█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip(), style="cyan")


_MOSTLY, _SHARP, _EVEN = 0.4, 0.6, 0.9
"""Mean weights from which on a head looks at one kind of token, or at one token; and its entropy if at no one."""


def _heads(record: Record, most: int) -> Table:
    """What heads look at, and the mean weight of that, those with the largest first."""
    rows = []
    for each in record.maps:
        measures = measures_of(each)
        for place, head in enumerate(each.heads):
            traits = {text: float(getattr(measures, trait)[place]) for trait, text in _TRAITS[each.role].items()}
            known = {text: weight for text, weight in traits.items() if not math.isnan(weight)}
            text = max(known, key=lambda text: known[text], default="")
            largest, entropy = float(measures.largest[place]), float(measures.relative_entropy[place])
            if known.get(text, 0.0) >= _MOSTLY:
                text, weight = f"mostly {text}", known[text]
            elif largest >= _SHARP:
                text, weight = "one token, not always at the same place", largest
            else:
                text, weight = "everything alike" if entropy >= _EVEN else "several tokens", largest
            rows.append((weight, f"{each.name}, head {head}", text, "-" if math.isnan(entropy) else f"{entropy:.2f}"))
    table = _table("", "looks at", "weight", "entropy, 1 is uniform")
    for weight, name, text, evenness in sorted(rows, key=lambda row: -row[0])[:most]:
        table.add_row(Text(name), Text(text), Text(f"{weight:.2f}"), Text(evenness))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in columns:
        table.add_column(Text(name), no_wrap=True)
    return table


def _cut(token: str) -> str:
    return shortened(visible(token), _LABEL)
