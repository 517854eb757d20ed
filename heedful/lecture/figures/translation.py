"""Figures of models that translate: alignments, one head in numbers, masks, decoding, and what one vector forgets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from heedful.inspection.figures import draw_figure
from heedful.inspection.figures.sheet import render_sheet
from heedful.inspection.figures.steps import draw_query_steps
from heedful.lecture.data.parallel import AREA, VISIT
from heedful.lecture.figures.claims import compare_on_test
from heedful.lecture.figures.figure import FigureContent, LectureRuns, register_figure

if TYPE_CHECKING:
    from heedful.attention.hooks import AttentionKind
    from heedful.inspection.record import InspectionRecord

_AFRICA = 2
"""Place of l'Afrique in the sentence, the third query of deck 3."""
_DECORRELATED_MODEL, _DECORRELATED_LAYER = "translator-decorrelated", 1
"""The model whose heads a penalty keeps apart, and the layer in which they differ most."""


def _inspect_area(runs: LectureRuns) -> InspectionRecord:
    record: InspectionRecord = runs.load("aligner").inspect(AREA[0])
    return record


def _inspect_visit(runs: LectureRuns, *, model: str = "translator") -> InspectionRecord:
    record: InspectionRecord = runs.load(model).inspect(VISIT[1])
    return record


@register_figure("alignment-area", "Alignment of the European Economic Area", models=("aligner",))
def draw_area(runs: LectureRuns) -> FigureContent:
    """Draw the alignment of a sentence whose adjectives are written in the opposite order."""
    record = _inspect_area(runs)
    (attention_map,) = (each for each in record.maps if each.role == "cross")
    written = [token.token for token in record.written]
    words = record.get_axis(attention_map.keys).tokens
    found = [
        f"{target} looks at {words[int(np.argmax(attention_map.mean_weights[written.index(target)]))]}"
        for target in ("zone", "économique", "européenne")
        if target in written
    ]
    return FigureContent(
        draw_figure(record, view="alignment"),
        f"It wrote: {record.said}. {'; '.join(found)}. White is a high weight and each row sums to 1. Most rows follow "
        "the diagonal. In French the adjectives come after the noun, so there the path goes backwards.",
        record,
        command=f'heedful inspect runs/aligner --text "{AREA[0]}" --figure alignment.svg',
    )


@register_figure("alignment-visit", "Alignment of Jane's visit", models=("translator",))
def draw_visit(runs: LectureRuns) -> FigureContent:
    """Draw the cross attention of the Transformer."""
    record = _inspect_visit(runs)
    return FigureContent(
        draw_figure(record, view="alignment", role="cross"),
        f"It wrote: {record.said}. In the decoder the queries come from the words written so far, and keys and values "
        "from the encoder.",
        record,
        command=f'heedful inspect runs/translator --text "{VISIT[1]}" --figure alignment.svg',
    )


def _draw_visit_view(
    runs: LectureRuns,
    *,
    view: str,
    caption: str,
    role: AttentionKind | None = None,
    layer: int = -1,
    model: str = "translator",
) -> FigureContent:
    """Draw a view of the record of Jane's visit."""
    record = _inspect_visit(runs, model=model)
    words = f"--figure {view}.svg --view {view}" + (f" --role {role} --layer {layer}" if role else "")
    command = f'heedful inspect runs/{model} --text "{VISIT[1]}" {words}'
    return FigureContent(draw_figure(record, view=view, role=role, layer=layer), caption, record, view, command)


_VISIT_VIEWS: tuple[tuple[str, str, str, AttentionKind | None, int, str], ...] = (
    (
        "all-heads-visit", "All heads of all layers", "model", None, -1,
        "Every small picture is a head: the rows are layers, and the columns are heads.",
    ),
    (
        "masks-visit", "Which words may look at which", "masks", None, -1,
        "The encoder looks at all words. A word of the decoder looks only at itself and at the words before it, "
        "because those after it are what it must predict.",
    ),
    (
        "decoding-visit", "The translation word by word", "decoding", "cross", -1,
        "One word is written in each step. Below it is its probability, and what the decoder looked at in the source.",
    ),
    (
        "inputs-visit", "Words plus positions", "inputs", None, -1,
        "The vector of a word and the vector of its position are added before the first layer.",
    ),
    (
        "positions-visit", "Sines and cosines as positions", "positions", None, -1,
        "Each row is the vector of a position. On the right, dot products fall with the distance, in both directions.",
    ),
    (
        "unrolled-visit", "The Transformer, unrolled", "unrolled", None, -1,
        "All positions of a layer are computed at the same time, so there are only as many steps as there are layers.",
    ),
)  # fmt: skip

for _name, _title, _view, _role, _layer, _caption in _VISIT_VIEWS:
    register_figure(_name, _title, models=("translator",))(
        partial(_draw_visit_view, view=_view, caption=_caption, role=_role, layer=_layer)
    )


@register_figure("unrolled-area", "A recurrent encoder and decoder, unrolled", models=("aligner",))
def draw_unrolled_network(runs: LectureRuns) -> FigureContent:
    """Draw the recurrent model over its sentence."""
    record = _inspect_area(runs)
    return FigureContent(
        draw_figure(record, view="unrolled"),
        "Each state waits for the state before it, so the computation moves like a wave: the encoder from both ends, "
        "then the decoder word by word.",
        record,
        "unrolled",
        f'heedful inspect runs/aligner --text "{AREA[0]}" --figure unrolled.svg --view unrolled',
    )


register_figure("heads-visit", "Three heads read the same sentence", models=(_DECORRELATED_MODEL,))(
    partial(
        _draw_visit_view,
        view="heads",
        caption="Each head has its own W_Q, W_K and W_V, so it asks a question of its own. The colours are the three "
        "heads of the second encoder layer.",
        role="encoder",
        layer=_DECORRELATED_LAYER,
        model=_DECORRELATED_MODEL,
    )
)


def _draw_africa_steps(runs: LectureRuns, *, head: int) -> FigureContent:
    """Draw one head of the second encoder layer for the query l'Afrique, in the model whose heads are kept apart."""
    record = _inspect_visit(runs, model=_DECORRELATED_MODEL)
    attention_map = record.find_map("encoder", layer=_DECORRELATED_LAYER)
    words = record.get_axis(attention_map.queries).tokens
    query = words.index("l'Afrique") if "l'Afrique" in words else _AFRICA
    weights = attention_map.weights[head, query]
    favourites = [words[place] for place in attention_map.weights[:, query].argmax(-1).tolist()]
    first, second = (f"{words[place]} ({weights[place]:.2f})" for place in np.argsort(weights)[::-1][:2].tolist())
    picture = render_sheet(
        draw_query_steps(record, attention_map, head=head, query=query), title=f"A(q³, K, V) of head {head + 1}"
    )
    return FigureContent(
        picture,
        f"The query of l'Afrique is compared with the key of each word. Head {head + 1} gives its largest weights to "
        f"{first} and {second}; the output is the weighted sum of the values. In training, a penalty "
        f"kept similar heads apart; the heads look most at {', '.join(favourites)}.",
        record,
        "steps",
        f'heedful inspect runs/{_DECORRELATED_MODEL} --text "{VISIT[1]}" --figure steps.svg --view steps '
        f"--role encoder --layer {_DECORRELATED_LAYER} --head {head}",
    )


for _head, _ordinal in enumerate(("first", "second", "third")):
    register_figure(
        f"steps-africa-{_head + 1}", f"The {_ordinal} head asks about Africa", models=(_DECORRELATED_MODEL,)
    )(partial(_draw_africa_steps, head=_head))


@register_figure(
    "bleu-by-length",
    "What one vector forgets",
    models=("aligner", "context", "context-reversed", "context-doubled"),
)
def draw_bleu_by_length(runs: LectureRuns) -> FigureContent:
    """Plot BLEU by the length of the source for one vector and for attention."""
    names = ("aligner", "context", "context-reversed", "context-doubled")
    comparison = compare_on_test(runs, names)
    scores = [report.metrics["BLEU"].value for report in comparison.reports]
    texts = [f"{name} {score:.1f}" for name, score in zip(names, scores, strict=True)]
    return FigureContent(
        comparison.draw_main_plot(),
        f"BLEU on 600 held-out sentences: {', '.join(texts)}. The context is one vector for a sentence of any length. "
        "Reversing the source brings its first words nearer to the first words of the translation, and reading it "
        "twice gives the network a second chance. Attention needs neither.",
        command=f"heedful compare {' '.join(f'runs/{name}' for name in names)} --figure bleu-by-length.svg",
    )
