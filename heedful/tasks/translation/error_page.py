"""HTML page of translations that deserve attention, with references, attention and similar training text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from typing import Final, final

import numpy as np
from jaxtyping import Float

from heedful.data.readers import SentencePair
from heedful.data.similar_pairs import SimilarityReport, SimilarPair
from heedful.data.token_offsets import find_word_ranges, split_words
from heedful.inspection.heatmap import draw_alignment_svg
from heedful.inspection.page import PagePart, PageTable, escape_page_text, render_html_page
from heedful.inspection.plots import PlotLine, draw_line_plot
from heedful.metrics.weighted_sacrebleu import CorpusChrF
from heedful.tasks.translation.evaluation import TranslationEvaluator, TranslationOutputs, TranslationStats
from heedful.tasks.translation.quality_estimation import find_text_signs
from heedful.tasks.translation.translations import TokenAlignment

_NUM_WORST: Final = 20
_MAX_OTHERS: Final = 10
"""Maximum number of sentences of each other kind."""
_MIN_LENGTH_RATIO, _MAX_LENGTH_RATIO = 0.75, 1.33
"""Letters of a translation per letter of the reference; a translation outside this range is reported."""
_MIN_SURPRISE: Final = 0.1
"""Minimum difference from the expectation."""


@final
@dataclass(frozen=True)
class ErrorCase:
    """A sentence with its reference and a system's translation.

    Attributes:
        number: of the sentence, from 1.
        pair: the sentence and its reference.
        text: the translation.
        score: its chrF, from 0 to 100.
        stats: statistics of the translation, if a model made it.
    """

    number: int
    pair: SentencePair
    text: str
    score: float
    stats: TranslationStats | None

    @property
    def warning_signs(self) -> tuple[str, ...]:
        """Signs that the translation may be wrong."""
        return find_text_signs(self.pair.source, self.text) if self.stats is None else self.stats.signs

    @property
    def length_ratio(self) -> float:
        """Number of letters of the translation divided by that of the reference."""
        return len("".join(self.text.split())) / max(1, len("".join(self.pair.target.split())))


@final
@dataclass(frozen=True)
class ErrorCases:
    """All sentences of an evaluation, and those that deserve attention.

    Attributes:
        evaluator: of the text.
        answers: its translations.
    """

    evaluator: TranslationEvaluator
    answers: TranslationOutputs

    @cached_property
    def scores(self) -> Float[np.ndarray, " N"]:
        """chrF of each sentence, from 0 to 100."""
        metric = CorpusChrF(
            self.answers.texts, self.evaluator.all_references, lowercase=self.evaluator.options.lowercase
        )
        return metric.score_sums(metric.counts)

    @cached_property
    def all_cases(self) -> list[ErrorCase]:
        """All sentences in order."""
        stats: Sequence[TranslationStats | None] = self.answers.stats or [None] * self.evaluator.size
        rows = zip(self.evaluator.pairs, self.answers.texts, self.scores.tolist(), stats, strict=True)
        return [ErrorCase(number, *row) for number, row in enumerate(rows, 1)]

    @cached_property
    def surprise(self) -> Float[np.ndarray, " N"] | None:
        """How much better (above 0) or worse each translation is than its model was certain, from -1 to 1.

        This is chrF minus the expected chrF if the model was calibrated; otherwise the share of sentences with lower
        chrF minus the share with lower certainty. None if no model made the translations.
        """
        if not self.answers.stats:
            return None
        expected = [stats.expected for stats in self.answers.stats]
        expected_values = [value for value in expected if value is not None]
        if len(expected_values) == len(expected):
            return np.asarray(self.scores / 100 - np.array(expected_values))
        certainties = np.array([stats.certainty for stats in self.answers.stats])
        return np.asarray(_rank_shares(self.scores) - _rank_shares(certainties))

    @property
    def is_calibrated(self) -> bool:
        """Whether all translations have an expected chrF."""
        return bool(self.answers.stats) and all(stats.expected is not None for stats in self.answers.stats)

    @cached_property
    def selected_cases(self) -> Mapping[str, list[ErrorCase]]:
        """Selected sentences by kind of problem, most severe first; kinds without sentences are left out."""
        surprise = np.zeros(self.evaluator.size) if self.surprise is None else self.surprise
        ratios = np.array([case.length_ratio for case in self.all_cases])
        signs = np.array([len(case.warning_signs) for case in self.all_cases])
        errors = 100 - self.scores
        severities = {
            "worst": errors,
            "worse than sure": -surprise - _MIN_SURPRISE,
            "better than sure": surprise - _MIN_SURPRISE,
            "too short": _MIN_LENGTH_RATIO - ratios,
            "too long": ratios - _MAX_LENGTH_RATIO,
            "with signs": np.where(signs > 0, signs + errors / 1000, 0),
        }
        selected = {
            name: self._select_most_severe(severity, _NUM_WORST if name == "worst" else _MAX_OTHERS)
            for name, severity in severities.items()
        }
        return {name: cases for name, cases in selected.items() if cases}

    def _select_most_severe(self, severity: Float[np.ndarray, " N"], count: int) -> list[ErrorCase]:
        """Return at most `count` sentences: those with the highest severity above 0, most severe first."""
        order = np.argsort(-severity, kind="stable")[:count]
        return [self.all_cases[index] for index in order if severity[index] > 0]


def _rank_shares(values: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """Return the share of values that each value exceeds; equal values count half."""
    order = np.sort(values)
    below, below_or_equal = (np.searchsorted(order, values, side=side) for side in ("left", "right"))
    return np.asarray((below + below_or_equal) / 2 / len(values))


_MAX_RARE_COUNT: Final = 3
"""Maximum count of a rare word in the training text."""
_BARS: Final = 20
_CHECKED: Final = ' checked="checked"'
_STYLE: Final = (
    ".kind{position:absolute;opacity:0}"
    ".kind+label{display:inline-block;margin:0 .4rem .6rem 0;padding:.25rem .7rem;border:1px solid #c3c7d1;"
    "border-radius:1rem;cursor:pointer}.kind:checked+label{background:#24262d;color:#fff;border-color:#24262d}"
    ".kind:focus-visible+label{outline:2px solid #0b63b5;outline-offset:2px}"
    ".of{display:none}.case{border-top:1px solid #d9dce3;padding:.4rem 0 .8rem}"
    ".case h3{font-size:1.05rem;margin:.5rem 0}"
    ".case h3 small{font-size:.85rem;font-weight:400;color:#5b6170;margin-left:.6rem}"
    ".facts{margin:.2rem 0;font-variant-numeric:tabular-nums}.sign{color:#b3261e;font-weight:600}"
    ".case dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem .9rem;margin:.5rem 0}"
    ".case dt{color:#5b6170;font-size:.9rem}.case dd{margin:0;overflow-wrap:anywhere}"
    "mark{color:inherit;border-radius:.2rem;padding:0 .1rem}.odd{background:#ffd9d4}.lacks{background:#d3ead7}"
    ".strange{background:none;border-bottom:2px dotted #b45309;border-radius:0}"
    ".like{margin:.2rem 0;padding-left:1.4rem}.like li{margin:.25rem 0}.like p{margin:0;overflow-wrap:anywhere}"
    ".like .to,.like .from{color:#5b6170;font-size:.9rem}summary{cursor:pointer;color:#5b6170;font-size:.9rem}"
    "h4{font-size:.9rem;font-weight:600;color:#5b6170;margin:.6rem 0 .2rem}"
    "@media (prefers-color-scheme:dark){.kind+label{border-color:#4b4e5a}"
    ".kind:checked+label{background:#e4e6ec;color:#16171c;border-color:#e4e6ec}"
    ".case{border-color:#363842}.case h3 small,.case dt,.like .to,.like .from,summary,h4{color:#9aa0af}"
    ".odd{background:#6b2a26}.lacks{background:#21502c}.strange{border-color:#f59e0b}.sign{color:#ff8a80}}"
    "@media (max-width:40rem){.case dl{display:block}.case dt{margin-top:.3rem}.case h3 small{display:block;margin:0}}"
)


def build_error_page(
    cases: ErrorCases,
    *,
    title: str,
    scores: PageTable,
    training: SimilarityReport | None = None,
    notes: Sequence[str] = (),
) -> str:
    """Build the HTML page of sentences that deserve attention, with scores of all sentences; it needs no scripts.

    Args:
        cases: the sentences, of which the selected ones are shown.
        title: of the page.
        scores: of all sentences.
        training: similar training text of the selected sentences, each once and in their order (`list_shown_cases`).
        notes: further notes.
    """
    nearest = dict(
        zip((case.number for case in list_shown_cases(cases)), training.similar_pairs if training else (), strict=False)
    )
    lowercase = cases.evaluator.options.lowercase
    case_views = {
        name: [_CaseView(case, nearest.get(case.number, ()), training, lowercase) for case in cases_of_kind]
        for name, cases_of_kind in cases.selected_cases.items()
    }
    page: list[PagePart] = [scores, _CaseTabs(case_views, (*_iter_legend(cases, training), *notes))]
    selection_style = "".join(f"#kind-{index}:checked~.of-{index}{{display:block}}" for index in range(len(case_views)))
    return render_html_page(title, tables=page, pictures=[_plot_score_histogram(cases)], style=_STYLE + selection_style)


def list_shown_cases(cases: ErrorCases) -> list[ErrorCase]:
    """Return the selected sentences, each once."""
    return list(
        {case.number: case for cases_of_kind in cases.selected_cases.values() for case in cases_of_kind}.values()
    )


@final
@dataclass(frozen=True)
class _CaseTabs:
    """Sentences of one kind at a time: radio buttons select, and styles hide the others."""

    case_views: Mapping[str, Sequence[_CaseView]]
    legend: Sequence[str]

    def to_html(self) -> str:
        """Render the buttons, the legend and the sentences of each kind as well-formed HTML."""
        buttons = [
            f'<input class="kind" type="radio" name="kind" id="kind-{index}"{_CHECKED if index == 0 else ""}/>'
            f'<label for="kind-{index}">{escape_page_text(name)} ({len(views)})</label>'
            for index, (name, views) in enumerate(self.case_views.items())
        ]
        sections = [
            "\n".join([f'<section class="of of-{index}">', *(item.to_html() for item in views), "</section>"])
            for index, views in enumerate(self.case_views.values())
        ]
        legend = [f'<p class="note">{item}</p>' for item in self.legend]
        nothing = [] if self.case_views else ["<p>Every translation is its reference.</p>"]
        form = ['<form aria-label="Which sentences are shown">', *buttons, *sections, *nothing, "</form>"]
        return "\n".join(["<h2>Sentences</h2>", *legend, *form])


@final
@dataclass(frozen=True)
class _CaseView:
    """View of one sentence with everything that is known of it."""

    case: ErrorCase
    nearest: Sequence[SimilarPair]
    training: SimilarityReport | None
    lowercase: bool

    def to_html(self) -> str:
        """Render the sentence as well-formed HTML."""
        case = self.case
        reference, text = _mark_differences(case.pair.target, case.text, lowercase=self.lowercase)
        rows = {"source": self._render_source(), "reference": reference, "translation": text}
        return "\n".join(
            [
                '<article class="case">',
                f"<h3>Sentence {case.number:,}<small>{escape_page_text(case.pair.location)}</small></h3>",
                f'<p class="facts">{" · ".join(self._iter_facts())}</p>',
                *(f'<p class="sign">{escape_page_text(sign)}</p>' for sign in case.warning_signs),
                "<dl>",
                *(f'<dt>{name}</dt><dd dir="auto">{content}</dd>' for name, content in rows.items()),
                "</dl>",
                *self._render_similar_text(),
                *(_render_attention(alignment) for alignment in (case.stats.alignments if case.stats else ())),
                "</article>",
            ]
        )

    def _iter_facts(self) -> Iterator[str]:
        """Yield phrases with its chrF and lengths in words; if a model made the translation, also with its certainty
        and, if known, the expected chrF.
        """
        case = self.case
        yield f"chrF {case.score:.1f}"
        if case.stats is not None:
            if case.stats.expected is not None:
                yield f"expected {100 * case.stats.expected:.1f}"
            yield f"{case.stats.certainty:.2f} nats a token"
        lengths = [len(split_words(text)) for text in (case.pair.source, case.pair.target, case.text)]
        yield "words: {} in the source, {} in the reference, {} in the translation".format(*lengths)

    def _render_source(self) -> str:
        """Render the source as HTML, with words marked that are rare in the training text, if this is known."""
        text = self.case.pair.source
        if self.training is None:
            return escape_page_text(text)
        counts = {
            span: self.training.counts[text[span.start : span.stop].casefold()] for span in find_word_ranges(text)
        }
        rare = {
            span: f'mark class="strange" title="{count} times in the training text"'
            for span, count in counts.items()
            if count <= _MAX_RARE_COUNT
        }
        return _wrap_spans(text, rare)

    def _render_similar_text(self) -> Iterator[str]:
        """Yield HTML with the unseen and rare words, and similar training text; nothing if none is given."""
        if self.training is None:
            return
        counts = {word: self.training.counts[word] for word in dict.fromkeys(split_words(self.case.pair.source))}
        unseen = [word for word, count in counts.items() if count == 0]
        rare = [f"{word} ({count})" for word, count in counts.items() if 0 < count <= _MAX_RARE_COUNT]
        lists = (("words that are not in the training text", unseen), ("rare in the training text", rare))
        for name, words_found in lists:
            if words_found:
                yield f'<p class="facts">{name}: <span dir="auto">{escape_page_text(", ".join(words_found))}</span></p>'
        if not self.nearest:
            yield "<h4>The training text has no word of it.</h4>"
            return
        yield '<h4>Similar training text</h4><ol class="like">'
        source_words = frozenset(split_words(self.case.pair.source))
        for similar in self.nearest:
            source, target = (
                _mark_shared_words(similar.pair.source, source_words),
                escape_page_text(similar.pair.target),
            )
            yield (
                f'<li><p dir="auto">{source}</p><p class="to" dir="auto">{target}</p>'
                f'<p class="from">{escape_page_text(similar.pair.location)}, likeness {similar.score:.1f}</p></li>'
            )
        yield "</ol>"


def _iter_legend(cases: ErrorCases, training: SimilarityReport | None) -> Iterator[str]:
    """Yield sentences of HTML that explain the marks; with `training` also those of rare words, and if a model made the
    translations also the kinds "worse than sure" and "better than sure".
    """
    yield (
        'Marked are <mark class="lacks">words of the reference that a translation lacks</mark>, '
        '<mark class="odd">words of a translation that the reference lacks</mark>'
        + (
            "."
            if training is None
            else f', and <mark class="strange">words of the source</mark> that occur at most {_MAX_RARE_COUNT} '
            f"times in the "
            f"{training.num_pairs:,} training pairs."
        )
    )
    if not cases.answers.stats:
        return
    yield (
        "Worse and better than sure: chrF is farthest below, or above, the chrF that the calibrated model expected."
        if cases.is_calibrated
        else "Worse and better than sure: among all sentences the model is far more, or less, sure of these than their "
        "chrF suggests. heedful calibrate turns this into numbers."
    )


def _mark_differences(reference: str, text: str, *, lowercase: bool) -> tuple[str, str]:
    """Render reference and translation as HTML with the words marked that only one of them contains in this order;
    `lowercase` says that case does not count.
    """
    sides = [_find_tokens(reference), _find_tokens(text)]
    keys = [
        [side[span.start : span.stop] for span in spans] for side, spans in zip((reference, text), sides, strict=True)
    ]
    if lowercase:
        keys = [[key.lower() for key in side] for side in keys]
    differing: tuple[set[int], set[int]] = set(), set()
    for operation, start1, stop1, start2, stop2 in SequenceMatcher(a=keys[0], b=keys[1], autojunk=False).get_opcodes():
        if operation != "equal":
            differing[0].update(range(start1, stop1))
            differing[1].update(range(start2, stop2))
    return _mark_spans(reference, sides[0], differing[0], "lacks"), _mark_spans(text, sides[1], differing[1], "odd")


def _find_tokens(text: str) -> list[range]:
    """Return the spans of words in a text and of other characters that are not spaces, from left to right."""
    word_spans = find_word_ranges(text)
    covered = {position for span in word_spans for position in span}
    sign_spans = [
        range(position, position + 1)
        for position, character in enumerate(text)
        if position not in covered and not character.isspace()
    ]
    return sorted([*word_spans, *sign_spans], key=lambda span: span.start)


def _mark_spans(text: str, spans: Sequence[range], marked: set[int], css_class: str) -> str:
    """Render a text as HTML with those of its spans marked whose indices are `marked`; adjacent ones share a mark. An
    empty text becomes ∅.
    """
    runs: dict[range, str] = {}
    for index in sorted(marked):
        previous, _ = runs.popitem() if index - 1 in marked else (spans[index], "")
        runs[range(previous.start, spans[index].stop)] = f'mark class="{css_class}"'
    return _wrap_spans(text, runs) if text else "∅"


def _mark_shared_words(text: str, other_words: frozenset[str]) -> str:
    """Render a text as HTML, with those words in bold that are in `other_words` (without case)."""
    words = {span: text[span.start : span.stop].casefold() for span in find_word_ranges(text)}
    return _wrap_spans(text, {span: "b" for span, word in words.items() if word in other_words})


def _wrap_spans(text: str, tags: Mapping[range, str]) -> str:
    """Render a text as HTML with spans inside elements; `tags` has the opening tag of each span, from left to right."""
    fragments, position = [], 0
    for span, tag in tags.items():
        word = _escape_text(text[span.start : span.stop])
        fragments.append(f"{_escape_text(text[position : span.start])}<{tag}>{word}</{tag.partition(' ')[0]}>")
        position = span.stop
    return "".join([*fragments, _escape_text(text[position:])])


def _escape_text(text: str) -> str:
    """Escape a text for HTML; white space stays as it is."""
    return escape_page_text(text) if text.strip() else text


def _render_attention(alignment: TokenAlignment) -> str:
    """Render the last cross-attention of a part as a picture in HTML."""
    weights = np.clip(list(alignment.weights.values())[-1], 0, 1)
    drawing = draw_alignment_svg(alignment.source_tokens, alignment.target_tokens, weights)
    return f"<details><summary>what each token looked at</summary><figure>{drawing}</figure></details>"


def _plot_score_histogram(cases: ErrorCases) -> str:
    """Plot the distribution of the chrF of all sentences as SVG."""
    heights, edges = np.histogram(cases.scores, bins=_BARS, range=(0, 100))
    middles = (edges[1:] + edges[:-1]) / 2
    line = PlotLine("sentences", tuple(zip(middles.tolist(), heights.tolist(), strict=True)))
    return draw_line_plot([line], title="How good the sentences are", x_name="chrF", y_name="sentences", y_include=0)
