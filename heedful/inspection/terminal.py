"""A record in a terminal: one map, the generated text, and the most interesting heads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from heedful.attention.hooks import AttentionKind
from heedful.blocks.layer_info import LayerInfo
from heedful.inspection.figures.sheet import MapSelection
from heedful.inspection.figures.stories import find_hops, find_likeliest_chains, name_steps, stack_hops, sum_over_spans
from heedful.inspection.heads import find_head_warnings, measure_map
from heedful.inspection.heatmap import draw_alignment_text
from heedful.inspection.record import AttentionMap, Attribution, GeneratedToken, InspectionRecord, ModelAnswer
from heedful.inspection.svg import make_visible, shorten_text

_LABEL_WIDTH = 14
_FACT_WIDTH = 48
_ROW_MARGIN = 2 * _LABEL_WIDTH + 10
"""Columns of a terminal that a row takes beside its cells: two labels, a weight and lines."""

_ENDS = {"first": "the first token", "last": "the last token"}
_TRAITS: dict[AttentionKind, dict[str, str]] = {
    "encoder": {
        "diagonal": "the token itself",
        "previous": "the token before",
        "next": "the token after",
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
        "next": "one place after",
        **_ENDS,
    },
    "summary": _ENDS,
}


def render_terminal(
    record: InspectionRecord,
    *,
    role: AttentionKind | None = None,
    layer: int = -1,
    head: int | None = None,
    max_heads: int = 8,
    show_attributions: bool = True,
) -> RenderableType:
    """Build what rich prints for a record: a map, all predictions and attributions, and the `max_heads` sharpest heads.
    `role`, `layer` and `head` choose the map; without a head it is the mean over heads.

    Args:
        record: of one text.
        role: of the map; the first of cross, summary, decoder and encoder in the record, unless given.
        layer: of the map; -1 is the last.
        head: of the map; the mean over heads unless given.
        max_heads: number of heads in the table of heads.
        show_attributions: whether to show attributions.

    Raises:
        DataError: there is no such map.
    """
    parts: list[RenderableType] = [Text(make_visible(record.model), style="bold")]
    parts += [Text(make_visible(note), style="dim") for note in record.notes]
    if record.maps:
        selection = MapSelection(role, layer, head)
        attention_map = selection.select_map(record)
        parts += [
            Text(),
            _make_heading(selection.describe_map(attention_map)),
            _MapView(record, attention_map, selection),
        ]
    if record.written:
        parts += [Text(), _make_heading("written"), _build_generated_table(record.written)]
    if record.levels:
        parts += [Text(), _make_heading("levels, from the lowest to the highest"), _build_levels_table(record.levels)]
    parts += [part for name, table in _iter_step_tables(record) for part in (Text(), _make_heading(name), table)]
    for about, answers in record.answers_by_question.items():
        parts += [Text(), _make_heading(make_visible(about)), _build_answers_table(answers)]
    for attribution in record.attributions if show_attributions else ():
        parts += [
            Text(),
            _make_heading(_METHOD_HEADINGS[attribution.method]),
            _build_attribution_table(record, attribution),
        ]
        parts += [Text(line, style="dim") for line in _describe_completeness(attribution)]
    if record.maps:
        parts += [Text(), _make_heading("heads, the sharpest first"), _build_heads_table(record, max_heads)]
        parts += [Text("An entropy of 1 is uniform.", style="dim")]
    parts += [Text(f"warning: {text}", style="yellow") for text in find_head_warnings(record)]
    return Group(*parts)


def _make_heading(text: str) -> Text:
    """Return a bold heading."""
    return Text(text, style="bold")


@dataclass(frozen=True)
class _MapView:
    """Matrix of a map in block characters if the terminal is wide enough, else the strongest weights of each row."""

    record: InspectionRecord
    attention_map: AttentionMap
    selection: MapSelection

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        queries = self.record.get_axis(self.attention_map.queries).tokens
        keys = self.record.get_axis(self.attention_map.keys).tokens
        weights = self.selection.select_weights(self.attention_map)
        if 2 * len(keys) + _ROW_MARGIN <= options.max_width:
            yield Text(draw_alignment_text(keys, queries, weights).rstrip("\n"), no_wrap=True, overflow="ignore")
        else:
            yield _build_strongest_table(queries, keys, weights)


def _build_strongest_table(queries: Sequence[str], keys: Sequence[str], weights: np.ndarray) -> Table:
    """Build a table of the three largest weights of each query; `queries` and `keys` are the tokens of rows and
    columns.
    """
    table = _make_table("", "looks most at")
    for query, row in zip(queries, weights, strict=True):
        best = np.argsort(-row, kind="stable")[:3]
        weights_text = "  ".join(f"{_shorten_token(keys[i])} {row[i]:.2f}" for i in best.tolist())
        table.add_row(Text(_shorten_token(query)), Text(weights_text))
    return table


def _build_levels_table(levels: Sequence[LayerInfo]) -> Table:
    """Build a table of the model's levels: state, receptive field and attention."""
    table = _make_table(
        "", "level", "state", "sees of the level below", "attends to", folding=("state", "sees of the level below")
    )
    for level in levels:
        state = " and ".join(level.carries) + ("" if level.starts == "nothing" else ", from the source")
        sides = ((level.before, "before"), (level.after, "after"))
        sees = ", ".join(f"{'all' if count is None else count} {side}" for count, side in sides if count != 0)
        reach = "its own token" + f" and {sees}" * bool(sees)
        table.add_row(*map(Text, (level.side, level.name, state, reach, make_visible(", ".join(level.across) or "-"))))
    return table


def _iter_step_tables(record: InspectionRecord) -> Iterator[tuple[str, Table]]:
    """Yield name and table for hops, chains, turns and glimpses, as far as the record has them."""
    if hop_list := find_hops(record):
        axis = record.get_axis(hop_list[0][0].keys)
        weights = stack_hops(hop_list)
        table = _make_table("", "", *(f"hop {number}" for number in range(1, len(hop_list) + 1)))
        for index, token in enumerate(axis.tokens):
            marker = "●" if index in axis.marked else ""
            table.add_row(
                Text(marker),
                Text(_shorten_token(token, _FACT_WIDTH)),
                *(Text(f"{weight:.2f}") for weight in weights[:, index]),
            )
        yield f"hops over {make_visible(axis.name)}" + ("; ● is known to matter" if axis.marked else ""), table
    for attention_map in record.maps:
        axis = record.get_axis(attention_map.keys)
        if attention_map.edges is not None:
            table = _make_table("probability", "facts, one after the other")
            for path, probability in find_likeliest_chains(attention_map.mean_weights, attention_map.edges.mean(0)):
                table.add_row(
                    Text(f"{probability:.3f}"),
                    Text(" → ".join(_shorten_token(axis.tokens[key], _FACT_WIDTH) for key in path)),
                )
            yield f"{attention_map.name}: the most probable chains", table
        if axis.spans and attention_map.keys != attention_map.queries:
            table = _make_table(
                "", *(f"{number} {_shorten_token(span.name)}" for number, span in enumerate(axis.spans, 1))
            )
            for name, sums in zip(
                name_steps(record, attention_map), sum_over_spans(attention_map, axis, MapSelection()), strict=True
            ):
                table.add_row(Text(_shorten_token(name)), *(Text(f"{share:.2f}") for share in sums))
            yield f"{attention_map.name}: what each word takes from each turn", table
    if record.glimpses:
        table = _make_table("glimpse", "row", "column", "sizes", "would say")
        for number, glimpse in enumerate(record.glimpses, 1):
            sizes = " ".join(f"{size:.2f}" for size in glimpse.sizes)
            options_text = "  ".join(
                f"{_shorten_token(option.name)} {option.probability:.2f}" for option in glimpse.options[:3]
            )
            table.add_row(*map(Text, (str(number), f"{glimpse.row:.2f}", f"{glimpse.column:.2f}", sizes, options_text)))
        yield "glimpses, of the picture", table


def _build_generated_table(tokens: Sequence[GeneratedToken]) -> Table:
    """Build a table of the generated tokens with probabilities and alternatives."""
    can_copy = any(token.copy_probability is not None for token in tokens)
    table = _make_table("", "probability", "", *(("copied",) if can_copy else ()), "instead")
    for token in tokens:
        probability = math.exp(token.log_probability)
        copied = [Text(f"{token.copy_probability:.3f}")] if token.copy_probability is not None else []
        cells = (Text(_shorten_token(token.token)), Text(f"{probability:.3f}"), _draw_bar(probability), *copied)
        table.add_row(*cells, _format_alternatives(token))
    return table


def _build_answers_table(answers: Sequence[ModelAnswer]) -> Table:
    """Build a table of answers with probabilities and alternatives."""
    table = _make_table("", "", "probability", "", "instead")
    for answer in answers:
        cells = [
            Text(_shorten_token(answer.subject) if answer.subject else ""),
            Text(_shorten_token(answer.answer_text)),
        ]
        probabilities = [option.probability for option in answer.options[:1]]
        bars = [
            cell for probability in probabilities for cell in (Text(f"{probability:.3f}"), _draw_bar(probability))
        ] or [Text(), Text()]
        table.add_row(*cells, *bars, _format_alternatives(answer))
    return table


_METHOD_HEADINGS = {
    "gradient": "what mattered: gradient times input",
    "integrated": "what mattered: integrated gradients",
}


def _build_attribution_table(record: InspectionRecord, attribution: Attribution) -> Table:
    """Build a table of the tokens that speak most for and against each output; the record names outputs and tokens."""
    table = _make_table("", "for it", "against it", folding=("for it", "against it"))
    names, tokens = record.list_attribution_labels(attribution)
    for name, row in zip(names, attribution.scores, strict=True):
        order = np.argsort(-row, kind="stable").tolist()
        sides = [index for index in order[:3] if row[index] > 0], [index for index in order[:-3:-1] if row[index] < 0]
        cells = (
            "  ".join(f"{_shorten_token(tokens[index])} {row[index]:+.2f}" for index in indices) for indices in sides
        )
        table.add_row(Text(_shorten_token(name, 2 * _LABEL_WIDTH)), *map(Text, cells))
    return table


def _describe_completeness(attribution: Attribution) -> list[str]:
    """Return lines about the unit of an attribution and, for integrated gradients, its completeness error; empty if
    there is nothing to say.
    """
    unit = [f"In {attribution.unit} of log-probability."] if attribution.unit else []
    gaps = attribution.gaps
    if gaps is None or attribution.baselines is None:
        return unit
    change = np.abs(attribution.values - attribution.baselines).max()
    steps = f"{attribution.steps} steps"
    return [*unit, f"Sums in {steps} are off by {np.abs(gaps).max():.2g} at most, of changes up to {change:.3g}."]


def _format_alternatives(prediction: GeneratedToken | ModelAnswer) -> Text:
    """Format the three most probable alternatives."""
    return Text(
        "  ".join(f"{_shorten_token(name)} {probability:.2f}" for name, probability in prediction.other_options[:3])
    )


def _draw_bar(share: float, *, width: int = 12) -> Text:
    """Draw a bar in eighths of a column."""
    eighths = round(8 * width * min(1.0, share))
    return Text("█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip(), style="cyan")


_MOSTLY_WEIGHT, _SHARP_WEIGHT, _EVEN_ENTROPY = 0.4, 0.6, 0.9
"""Mean weights from which on a head looks at one kind of token, or at one token; and its entropy if at no one."""


def _build_heads_table(record: InspectionRecord, max_heads: int) -> Table:
    """Build a table of what the heads of a record attend to, the `max_heads` with the largest mean weights, largest
    first.
    """
    rows = []
    for attention_map in record.maps:
        measures = measure_map(attention_map)
        for index, head in enumerate(attention_map.heads):
            trait_names = (
                _TRAITS[attention_map.role]
                if record.get_axis(attention_map.keys).kind == "text" and len(attention_map.visible) > 1
                else {}
            )
            traits = {text: float(getattr(measures, trait)[index]) for trait, text in trait_names.items()}
            measured_traits = {text: weight for text, weight in traits.items() if not math.isnan(weight)}
            text = max(measured_traits, key=lambda text: measured_traits[text], default="")
            largest, entropy = float(measures.largest[index]), float(measures.relative_entropy[index])
            if measured_traits.get(text, 0.0) >= _MOSTLY_WEIGHT:
                text, weight = f"mostly {text}", measured_traits[text]
            elif largest >= _SHARP_WEIGHT:
                text, weight = "one token, not always at the same place", largest
            else:
                text, weight = "everything alike" if entropy >= _EVEN_ENTROPY else "several tokens", largest
            rows.append(
                (weight, f"{attention_map.name}, head {head}", text, "-" if math.isnan(entropy) else f"{entropy:.2f}")
            )
    table = _make_table("", "looks at", "weight", "entropy", folding=("looks at",))
    for weight, name, text, evenness in sorted(rows, key=lambda row: -row[0])[:max_heads]:
        table.add_row(Text(name), Text(text), Text(f"{weight:.2f}"), Text(evenness))
    return table


def _make_table(*columns: str, folding: Sequence[str] = ()) -> Table:
    """Create a table whose columns stay on one line, except those in `folding`."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in columns:
        table.add_column(Text(name), no_wrap=name not in folding)
    return table


def _shorten_token(token: str, width: int = _LABEL_WIDTH) -> str:
    """Make a token visible and cut it to a width."""
    return shorten_text(make_visible(token), width)
