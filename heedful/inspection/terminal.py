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
from heedful.blocks.levels import Level
from heedful.inspection.chain import likeliest
from heedful.inspection.figures.looking import step_names
from heedful.inspection.figures.sheet import Chosen
from heedful.inspection.figures.stories import hops_of, span_sums
from heedful.inspection.heads import measures_of, warnings
from heedful.inspection.heatmap import alignment_text
from heedful.inspection.lettering import shortened, visible
from heedful.inspection.record import Answer, Map, Record, Written
from heedful.inspection.scored import Attribution

_LABEL = 14
_FACT = 48
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
    record: Record,
    *,
    role: Role | None = None,
    layer: int = -1,
    head: int | None = None,
    most: int = 8,
    mattered: bool = True,
) -> RenderableType:
    """What rich prints of a record.

    Args:
        record: of one text.
        role: whose map; the first of cross, summary, decoder and encoder that there is, unless given.
        layer: of the map; -1 is the last.
        head: of the map; the mean over heads unless given.
        most: heads in the table of heads.
        mattered: show attributions, too.

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
    if record.levels:
        parts += [Text(), _heading("levels, from the lowest to the highest"), _levels(record.levels)]
    parts += [part for name, table in _looks(record) for part in (Text(), _heading(name), table)]
    for about, asked in record.answered.items():
        parts += [Text(), _heading(visible(about)), _answers(asked)]
    for found in record.attributions if mattered else ():
        parts += [Text(), _heading(_METHODS[found.method]), _mattered(record, found)]
        parts += [Text(line, style="dim") for line in _completeness(found)]
    if record.maps:
        parts += [Text(), _heading("heads, the sharpest first"), _heads(record, most)]
        parts += [Text("An entropy of 1 is uniform.", style="dim")]
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


def _levels(levels: Sequence[Level]) -> Table:
    """What each level of a model carries from token to token, and sees."""
    table = _table(
        "", "level", "state", "sees of the level below", "attends to", folding=("state", "sees of the level below")
    )
    for level in levels:
        state = " and ".join(level.carries) + ("" if level.starts == "nothing" else ", from the source")
        sides = ((level.before, "before"), (level.after, "behind"))
        sees = ", ".join(f"{'all' if count is None else count} {side}" for count, side in sides if count != 0)
        reach = "its own token" + f" and {sees}" * bool(sees)
        table.add_row(*map(Text, (level.side, level.name, state, reach, visible(", ".join(level.across) or "-"))))
    return table


def _looks(record: Record) -> Iterator[tuple[str, Table]]:
    """What is known of hops, chains, turns and glimpses."""
    if looks := hops_of(record):
        axis = record.axis(looks[0][0].keys)
        columns = [(each.mean if head is None else each.head(head))[0] for each, head in looks]
        table = _table("", "", *(f"hop {number}" for number in range(1, len(looks) + 1)))
        for place, token in enumerate(axis.tokens):
            known = "●" if place in axis.marked else ""
            table.add_row(Text(known), Text(_cut(token, _FACT)), *(Text(f"{column[place]:.2f}") for column in columns))
        yield f"hops over {visible(axis.name)}" + ("; ● is known to matter" if axis.marked else ""), table
    for each in record.maps:
        axis = record.axis(each.keys)
        if each.edges is not None:
            table = _table("probability", "facts, one after the other")
            for path, chance in likeliest(each.mean, each.edges.mean(0)):
                table.add_row(Text(f"{chance:.3f}"), Text(" → ".join(_cut(axis.tokens[key], _FACT) for key in path)))
            yield f"{each.name}: the most probable chains", table
        if axis.spans and each.keys != each.queries:
            table = _table("", *(f"{number} {_cut(span.name)}" for number, span in enumerate(axis.spans, 1)))
            for name, sums in zip(step_names(record, each), span_sums(each, axis, Chosen()), strict=True):
                table.add_row(Text(_cut(name)), *(Text(f"{share:.2f}") for share in sums))
            yield f"{each.name}: what each word takes from each turn", table
    if record.glimpses:
        table = _table("glimpse", "row", "column", "sizes", "would say")
        for number, glimpse in enumerate(record.glimpses, 1):
            sizes = " ".join(f"{size:.2f}" for size in glimpse.sizes)
            said = "  ".join(f"{_cut(option.name)} {option.probability:.2f}" for option in glimpse.options[:3])
            table.add_row(*map(Text, (str(number), f"{glimpse.row:.2f}", f"{glimpse.column:.2f}", sizes, said)))
        yield "glimpses, of the picture", table


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


_METHODS = {"gradient": "what mattered: gradient times input", "integrated": "what mattered: integrated gradients"}


def _mattered(record: Record, attribution: Attribution) -> Table:
    """The tokens that spoke most for what was said, and those most against it."""
    table = _table("", "for it", "against it", folding=("for it", "against it"))
    names, tokens = record.attributed(attribution)
    for name, row in zip(names, attribution.scores, strict=True):
        order = np.argsort(-row, kind="stable").tolist()
        sides = [place for place in order[:3] if row[place] > 0], [place for place in order[:-3:-1] if row[place] < 0]
        told = ("  ".join(f"{_cut(tokens[place])} {row[place]:+.2f}" for place in places) for places in sides)
        table.add_row(Text(_cut(name, 2 * _LABEL)), *map(Text, told))
    return table


def _completeness(attribution: Attribution) -> list[str]:
    """The unit, and whether the scores sum to what they should."""
    unit = [f"In {attribution.unit} of log-probability."] if attribution.unit else []
    gaps = attribution.gaps
    if gaps is None or attribution.baselines is None:
        return unit
    change = np.abs(attribution.values - attribution.baselines).max()
    steps = f"{attribution.steps} steps"
    return [*unit, f"Sums in {steps} are off by {np.abs(gaps).max():.2g} at most, of changes up to {change:.3g}."]


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
            named = _TRAITS[each.role] if record.axis(each.keys).kind == "text" and len(each.visible) > 1 else {}
            traits = {text: float(getattr(measures, trait)[place]) for trait, text in named.items()}
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
    table = _table("", "looks at", "weight", "entropy", folding=("looks at",))
    for weight, name, text, evenness in sorted(rows, key=lambda row: -row[0])[:most]:
        table.add_row(Text(name), Text(text), Text(f"{weight:.2f}"), Text(evenness))
    return table


def _table(*columns: str, folding: Sequence[str] = ()) -> Table:
    """A table whose columns keep their words in one line, but for those that fold where a terminal is narrow."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in columns:
        table.add_column(Text(name), no_wrap=name not in folding)
    return table


def _cut(token: str, width: int = _LABEL) -> str:
    return shortened(visible(token), width)
