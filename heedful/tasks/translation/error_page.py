"""A page of the translations that are worth reading, each beside its reference, its attention and text like it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final, final

import numpy as np

from heedful.data.nearest import Resemblance, Resembling
from heedful.data.spelling import word_places, words
from heedful.inspection.heatmap import alignment_svg
from heedful.inspection.page import Part, Table, html_page, page_text
from heedful.inspection.plots import Line, line_plot
from heedful.tasks.translation.cases import Case, Cases
from heedful.tasks.translation.translations import Alignment

_RARE: Final = 3
"""How often a word stands in the text for training at most, to be called rare."""
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


def error_page(
    cases: Cases, *, title: str, scores: Table, training: Resemblance | None = None, notes: Sequence[str] = ()
) -> str:
    """The page, which needs nothing but a browser, and no scripts.

    Args:
        cases: the sentences, of which the chosen ones are shown.
        title: of the page.
        scores: of all sentences.
        training: what the text for training has of the chosen ones, each once and in their order (`shown`).
        notes: what else is to be known.
    """
    nearest = dict(zip((each.number for each in shown(cases)), training.nearest if training else (), strict=False))
    lowercase = cases.exam.asking.lowercase
    told = {
        name: [_Told(each, nearest.get(each.number, ()), training, lowercase) for each in found]
        for name, found in cases.chosen.items()
    }
    page: list[Part] = [scores, _Kinds(told, (*_legend(cases, training), *notes))]
    hide = "".join(f"#kind-{place}:checked~.of-{place}{{display:block}}" for place in range(len(told)))
    return html_page(title, tables=page, pictures=[_spread(cases)], style=_STYLE + hide)


def shown(cases: Cases) -> list[Case]:
    """The chosen sentences, each once."""
    return list({each.number: each for found in cases.chosen.values() for each in found}.values())


@final
@dataclass(frozen=True)
class _Kinds:
    """Sentences of one kind at a time: radio buttons choose, and styles hide the others."""

    told: Mapping[str, Sequence[_Told]]
    legend: Sequence[str]

    def html(self) -> str:
        """Well-formed elements."""
        buttons = [
            f'<input class="kind" type="radio" name="kind" id="kind-{place}"{_CHECKED if place == 0 else ""}/>'
            f'<label for="kind-{place}">{page_text(name)} ({len(found)})</label>'
            for place, (name, found) in enumerate(self.told.items())
        ]
        sections = [
            "\n".join([f'<section class="of of-{place}">', *(each.html() for each in found), "</section>"])
            for place, found in enumerate(self.told.values())
        ]
        legend = [f'<p class="note">{each}</p>' for each in self.legend]
        nothing = [] if self.told else ["<p>Every translation is its reference.</p>"]
        form = ['<form aria-label="Which sentences are shown">', *buttons, *sections, *nothing, "</form>"]
        return "\n".join(["<h2>Sentences</h2>", *legend, *form])


@final
@dataclass(frozen=True)
class _Told:
    """A sentence with all that is said of it."""

    case: Case
    nearest: Sequence[Resembling]
    training: Resemblance | None
    lowercase: bool

    def html(self) -> str:
        """Well-formed elements."""
        case = self.case
        reference, text = _differing(case.pair.target, case.text, lowercase=self.lowercase)
        rows = {"source": self._source(), "reference": reference, "translation": text}
        return "\n".join(
            [
                '<article class="case">',
                f"<h3>Sentence {case.number:,}<small>{page_text(case.pair.place)}</small></h3>",
                f'<p class="facts">{" · ".join(self._facts())}</p>',
                *(f'<p class="sign">{page_text(sign)}</p>' for sign in case.signs),
                "<dl>",
                *(f'<dt>{name}</dt><dd dir="auto">{content}</dd>' for name, content in rows.items()),
                "</dl>",
                *self._like(),
                *(_attention(each) for each in (case.seen.alignments if case.seen else ())),
                "</article>",
            ]
        )

    def _facts(self) -> Iterator[str]:
        case = self.case
        yield f"chrF {case.score:.1f}"
        if case.seen is not None:
            if case.seen.expected is not None:
                yield f"expected {100 * case.seen.expected:.1f}"
            yield f"{case.seen.certainty:.2f} nats a token"
        lengths = [len(words(text)) for text in (case.pair.source, case.pair.target, case.text)]
        yield "words: {} in the source, {} in the reference, {} in the translation".format(*lengths)

    def _source(self) -> str:
        """With the words marked that the text for training hardly has."""
        text = self.case.pair.source
        if self.training is None:
            return page_text(text)
        marked, end = [], 0
        for place in word_places(text):
            count = self.training.counts[text[place.start : place.stop].casefold()]
            if count <= _RARE:
                marked.append(_text(text[end : place.start]))
                tip = f"{count} times in the text for training"
                marked.append(f'<mark class="strange" title="{tip}">{_text(text[place.start : place.stop])}</mark>')
                end = place.stop
        return "".join([*marked, _text(text[end:])])

    def _like(self) -> Iterator[str]:
        if self.training is None:
            return
        counts = {word: self.training.counts[word] for word in dict.fromkeys(words(self.case.pair.source))}
        new = [word for word, count in counts.items() if count == 0]
        rare = [f"{word} ({count})" for word, count in counts.items() if 0 < count <= _RARE]
        lists = (("words that were never read in training", new), ("read hardly ever", rare))
        for name, found in lists:
            if found:
                yield f'<p class="facts">{name}: <span dir="auto">{page_text(", ".join(found))}</span></p>'
        if not self.nearest:
            yield "<h4>No text for training has a word of it.</h4>"
            return
        yield '<h4>Text for training that resembles it</h4><ol class="like">'
        mine = frozenset(words(self.case.pair.source))
        for each in self.nearest:
            source, target = _shared(each.pair.source, mine), page_text(each.pair.target)
            yield (
                f'<li><p dir="auto">{source}</p><p class="to" dir="auto">{target}</p>'
                f'<p class="from">{page_text(each.pair.place)}, likeness {each.score:.1f}</p></li>'
            )
        yield "</ol>"


def _legend(cases: Cases, training: Resemblance | None) -> Iterator[str]:
    yield (
        'Marked are <mark class="lacks">words of the reference that a translation lacks</mark>, '
        '<mark class="odd">words of a translation that the reference lacks</mark>'
        + (
            "."
            if training is None
            else f', and <mark class="strange">words of the source</mark> that stand at most {_RARE} times in the '
            f"{training.pairs:,} pairs for training."
        )
    )
    if not cases.answers.seen:
        return
    yield (
        "Worse and better than sure: chrF is farthest below, or above, what the calibrated model said to expect."
        if cases.is_calibrated
        else "Worse and better than sure: among all sentences the model is far more, or less, sure of these than their "
        "chrF makes them good. heedful calibrate makes that numbers."
    )


def _differing(reference: str, text: str, *, lowercase: bool) -> tuple[str, str]:
    """Both as elements, the words marked that only one of them has in this order."""
    sides = [_tokens(reference), _tokens(text)]
    keys = [[side[at.start : at.stop] for at in places] for side, places in zip((reference, text), sides, strict=True)]
    if lowercase:
        keys = [[key.lower() for key in side] for side in keys]
    only: tuple[set[int], set[int]] = set(), set()
    for how, a, b, c, d in SequenceMatcher(a=keys[0], b=keys[1], autojunk=False).get_opcodes():
        if how != "equal":
            only[0].update(range(a, b))
            only[1].update(range(c, d))
    return _marked(reference, sides[0], only[0], "lacks"), _marked(text, sides[1], only[1], "odd")


def _tokens(text: str) -> list[range]:
    """Words, and each other character that is no space."""
    inside = word_places(text)
    taken = {at for place in inside for at in place}
    others = [range(at, at + 1) for at, character in enumerate(text) if at not in taken and not character.isspace()]
    return sorted([*inside, *others], key=lambda place: place.start)


def _marked(text: str, places: Sequence[range], only: set[int], kind: str) -> str:
    """Neighbours that are marked become one mark."""
    if not text:
        return "∅"
    found, end, number = [], 0, 0
    while number < len(places):
        if number in only:
            last = number
            while last + 1 in only:
                last += 1
            begin, stop = places[number].start, places[last].stop
            found.append(f'{_text(text[end:begin])}<mark class="{kind}">{_text(text[begin:stop])}</mark>')
            end, number = stop, last
        number += 1
    return "".join([*found, _text(text[end:])])


def _shared(text: str, mine: frozenset[str]) -> str:
    """With the words in bold that a sentence has too."""
    found, end = [], 0
    for place in word_places(text):
        word = text[place.start : place.stop]
        if word.casefold() in mine:
            found.append(f"{_text(text[end : place.start])}<b>{_text(word)}</b>")
            end = place.stop
    return "".join([*found, _text(text[end:])])


def _text(text: str) -> str:
    """As a page may hold it; white space, and nothing at all, stay what they are."""
    return page_text(text) if text.strip() else text


def _attention(alignment: Alignment) -> str:
    weights = np.clip(list(alignment.weights.values())[-1], 0, 1)
    drawing = alignment_svg(alignment.source_tokens, alignment.target_tokens, weights)
    return f"<details><summary>what each token looked at</summary><figure>{drawing}</figure></details>"


def _spread(cases: Cases) -> str:
    heights, edges = np.histogram(cases.scores, bins=_BARS, range=(0, 100))
    middles = (edges[1:] + edges[:-1]) / 2
    line = Line("sentences", tuple(zip(middles.tolist(), heights.tolist(), strict=True)))
    return line_plot([line], title="How good the sentences are", x_name="chrF", y_name="sentences", y_from=0)
