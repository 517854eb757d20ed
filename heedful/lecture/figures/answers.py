"""Figures of answers: a span in a passage, a page of search results, heads over a review, and words for gaps."""

from __future__ import annotations

import json
import textwrap
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from heedful.inspection.figures import draw_figure
from heedful.inspection.figures.sheet import SvgBox, draw_bold_text, draw_note, draw_text, render_sheet
from heedful.inspection.plots import PlotLine, draw_line_plot
from heedful.lecture.data.passages import INDEX_FILE, QUESTION_FILE
from heedful.lecture.figures.claims import compare_on_test
from heedful.lecture.figures.figure import FigureContent, LectureRuns, register_figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from heedful.retrieval.rankings import Ordering, SearchHit

_ORDER_NAMES: Final[Mapping[Ordering, str]] = {
    "bm25": "by words (BM25)",
    "encoder": "by the encoder",
    "product": "by both",
}
_NUM_HITS: Final = 3
_LINE_LENGTH: Final = 58
"""Characters in a line of a passage."""
_GAP_MODELS: Final = {
    "gaps-forward": "left to right",
    "gaps-shallow": "two directions, joined at the top",
    "gaps-deep": "two directions in each layer",
    "gaps-encoder": "self-attention",
}


@register_figure("span-answer", "A span of a passage", models=("spans",))
def draw_span(runs: LectureRuns) -> FigureContent:
    """Draw the answer to a question about the first test passage that the model answers right, and its scores."""
    content = json.loads((runs.folder / "data" / "spans" / "test.json").read_text(encoding="utf-8"))
    paragraphs = content["data"][0]["paragraphs"]
    reader = runs.load("spans")
    questions = [(each["qas"][0]["question"], each["context"]) for each in paragraphs]
    answers = [answer.text for answer in reader.answer_all(questions)]
    truth = [each["qas"][0]["answers"][0]["text"] for each in paragraphs]
    right = [answer == expected for answer, expected in zip(answers, truth, strict=True)]
    place = int(np.argmax(right))
    question, passage = questions[place]
    record = reader.inspect(question, passage)
    return FigureContent(
        draw_figure(record, view="answers"),
        f"“{question}” is asked about “{passage}” The answer is “{answers[place]}”: the model gives each word a "
        f"probability of being the first and of being the last one. Of {len(right)} questions about new passages, "
        f"{np.mean(right):.0%} are answered exactly.",
        record,
        "answers",
        f'heedful answer runs/spans --question "{question}" --context "{passage}"',
    )


@register_figure("search-orders", "A search page with three orderings", models=("search",))
def draw_search(runs: LectureRuns) -> FigureContent:
    """Draw the first passages for a French sentence by three orderings, and measure them on all test questions."""
    from heedful.retrieval.index import load_index, measure_search
    from heedful.retrieval.index_folder import build_index
    from heedful.retrieval.passages import PassageColumns, read_judged_questions

    data, folder = runs.folder / "data" / "search", runs.folder / "runs" / "search-index"
    run_folder = runs.get_run_folder("search")
    passages = PassageColumns(data / INDEX_FILE, text_column=1, id_column=0)
    build_index(folder, passages, encoder=runs.load("search"), model=run_folder, rebuild=folder.exists())
    index = load_index(folder)
    judged = list(read_judged_questions(data / QUESTION_FILE))
    metrics, count = measure_search(index, judged, orderings=tuple(_ORDER_NAMES))
    shown = judged[0]
    (hits,) = islice(index.compare_orderings([shown.question], top=_NUM_HITS), 1)
    scores = ", ".join(f"{_ORDER_NAMES[each.ordering]} {each.mrr:.2f}" for each in metrics)
    return FigureContent(
        _draw_orderings(hits, relevant={*shown.passages}, question=shown.question),
        "The query is French and the passages are English, so words alone find only names and numbers. The encoder "
        "has learned that a fact and the passage that contains it are near. Mean reciprocal rank on "
        f"{count} queries: {scores}.",
        command=f'heedful search runs/search-index --query "{shown.question}" --by all',
    )


def _draw_orderings(hits: Mapping[Any, Sequence[SearchHit]], *, relevant: set[str], question: str) -> str:
    """Draw the first passages of each ordering in a column as SVG; the right passage has a mark."""
    width, parts, bottom = 0.62 * 12 * _LINE_LENGTH + 24, [], 0.0
    for column, (ordering, name) in enumerate(_ORDER_NAMES.items()):
        x, y = column * width, 12.0
        parts.append(draw_bold_text(name, x, y))
        for hit in hits[ordering]:
            mark = "  ← right" if hit.passage.id in relevant else ""
            parts.append(draw_note(f"{hit.rank}. score {hit.score:.2f}{mark}", x, y + 26))
            y += 26
            for line in _wrap(hit.passage.text):
                y += 17
                parts.append(draw_text(line, x, y, font=12, longest=_LINE_LENGTH + 2))
        bottom = max(bottom, y)
    return render_sheet(SvgBox(tuple(parts), width * len(_ORDER_NAMES), bottom + 8), title=question)


def _wrap(text: str) -> list[str]:
    """Split a text into lines."""
    return textwrap.wrap(text, _LINE_LENGTH)


@register_figure("review-heads", "Four heads over a sentence", models=("opinions",))
def draw_review_heads(runs: LectureRuns) -> FigureContent:
    """Draw what the heads of the summary look at (Lin et al. 2017, figure 2)."""
    sentence = "Jane said that Amazon is wonderful"
    record = runs.load("opinions").inspect(sentence)
    (report,) = compare_on_test(runs, ("opinions",)).reports
    answer = record.answers[0].answer_text
    return FigureContent(
        draw_figure(record, view="hops"),
        "Each row is a head with its own weights over the words; a penalty keeps the heads apart. The class is "
        f"{answer}. {report.metrics['accuracy'].value:.0%} of 200 new sentences are classified right.",
        record,
        "hops",
        f'heedful inspect runs/opinions --text "{sentence}" --figure hops.svg --view hops',
    )


@register_figure("bidirectional", "Gaps, from one side and from both", models=tuple(_GAP_MODELS))
def draw_gap_accuracies(runs: LectureRuns) -> FigureContent:
    """Plot how many gaps are filled right by readers of one direction and of both."""
    shares = {}
    for name, label in _GAP_MODELS.items():
        text = (runs.folder / "data" / "gaps" / "test.tsv").read_text(encoding="utf-8")
        sentences = [[line.split("\t") for line in block.splitlines()] for block in text.split("\n\n")]
        rows = [[pair for pair in sentence if len(pair) == 2] for sentence in sentences]
        texts = [" ".join(word for word, _ in row) for row in rows]
        answers = runs.load(name).tag(texts)
        pairs = [
            (word.name, tag)
            for answer, row in zip(answers, rows, strict=True)
            for word, (_, tag) in zip(answer, row, strict=True)
            if tag != "-"
        ]
        shares[label] = float(np.mean([guess == tag for guess, tag in pairs]))
    results = ", ".join(f"{label} {share:.0%}" for label, share in shares.items())
    return FigureContent(
        draw_line_plot(
            [PlotLine("gaps filled", tuple((place, 100 * share) for place, share in enumerate(shares.values(), 1)))],
            title="Gaps filled with the right word",
            x_name="model, in the order below",
            y_name="percent",
            x_ticks=[(place, str(place)) for place in range(1, len(shares) + 1)],
            y_include=0,
        ),
        f"The missing verb follows from the subject on the left and the place on the right together. Right ones of 400 "
        f"in new sentences: {results}. Two directions that are joined at the top, as in ELMo, can only add what each "
        "side says; BERT compares both sides in every layer.",
        command="heedful evaluate runs/gaps-encoder",
    )
