"""A corpus of pairs judged: which are kept, which rule turned the others away, and a page about it."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import ceil, isnan, nan
from typing import Final, TypeAlias

from heedful.data.forms.faults import percent
from heedful.data.forms.rules import Rule
from heedful.inspection.page import Table, html_page
from heedful.inspection.plots import Line, line_plot

KEPT: Final = -1
_CHUNK: Final = 2048
"""Pairs that are scored between two lines of progress."""
_BARS: Final = 40
_SHOWN: Final = 12
"""Pairs of each reason on a page."""

Texts: TypeAlias = tuple[str, str]
Score: TypeAlias = Callable[[Sequence[Texts]], Sequence[float | None]]


@dataclass(frozen=True)
class Reason:
    """Why pairs are turned away: a word, and what follows "pairs"."""

    name: str
    about: str


@dataclass(frozen=True)
class Bar:
    """What scores must reach.

    Attributes:
        share: of the pairs that have one, how many are kept, the best ones; None for no such share.
        least: the lowest score that is kept.
    """

    share: float | None = None
    least: float = 0.0


@dataclass(frozen=True)
class Verdicts:
    """What was found of each pair, in order.

    Attributes:
        reasons: by number.
        numbers: that of each pair, `KEPT` for those that stay.
        scores: of each pair; not a number where it has none. Empty where nothing was scored.
        bar: the score that was asked for in the end.
    """

    reasons: Sequence[Reason]
    numbers: array[int]
    scores: array[float] = field(default_factory=lambda: array("f"))
    bar: float = 0.0

    @property
    def kept(self) -> int:
        """How many stay."""
        return self.numbers.count(KEPT)

    @property
    def counts(self) -> Sequence[int]:
        """How many each reason turned away."""
        return [self.numbers.count(number) for number in range(len(self.reasons))]

    def score(self, place: int) -> str:
        """That of a pair, in digits; empty where it has none."""
        return f"{self.scores[place]:.3f}" if self.scores and not isnan(self.scores[place]) else ""

    def table(self) -> Table:
        """How many are kept, and why others are not."""
        whole = len(self.numbers)
        rows = [["kept", f"{self.kept:,}", percent(self.kept, whole)]]
        for reason, count in zip(self.reasons, self.counts, strict=True):
            if count:
                rows.append([f"{reason.name}: {reason.about}", f"{count:,}", percent(count, whole)])
        return Table("", ["", "pairs", ""], rows)

    def picture(self) -> str | None:
        """How scores are spread; None where there are none."""
        scored = [score for score in self.scores if not isnan(score)]
        if not scored:
            return None
        heights = [0] * _BARS
        for score in scored:
            heights[min(_BARS - 1, int(score * _BARS))] += 1
        line = Line("pairs", tuple(((number + 0.5) / _BARS, height) for number, height in enumerate(heights)))
        return line_plot(
            [line],
            title="How far two models agree on pairs",
            x_name=f"score; kept from {self.bar:.3f} on",
            y_name="pairs",
            y_from=0,
        )


def judge(
    pairs: Callable[[], Iterable[Texts]],
    rules: Sequence[Rule],
    *,
    score: Score | None = None,
    bar: Bar = Bar(),
    tick: Callable[[int, int], None] = lambda _, __: None,
) -> Verdicts:
    """Asks the rules in order, and models about what has passed them.

    Args:
        pairs: reads the corpus from its start.
        rules: the first that turns a pair away is its reason.
        score: from 0 to 1 for pairs, None for those that cannot be scored.
        bar: what scores must reach.
        tick: is told how many pairs were judged, and of how many.
    """
    whole = 0
    for source, target in pairs():
        whole += 1
        for rule in rules:
            rule.learn(source, target)
    reasons = [Reason(rule.name, rule.about) for rule in rules]
    numbers = array("b")
    scores = array("f")
    corpus = iter(pairs())
    while part := list(islice(corpus, _CHUNK)):
        first = len(numbers)
        numbers.extend(_first(rules, *pair) for pair in part)
        if score is not None:
            passed = [place for place, _ in enumerate(part) if numbers[first + place] == KEPT]
            found = dict(zip(passed, score([part[place] for place in passed]), strict=True))
            scores.extend(nan if (value := found.get(place)) is None else value for place, _ in enumerate(part))
        tick(len(numbers), whole)
    if score is None:
        return Verdicts(reasons, numbers)
    return _scored(reasons, numbers, scores, bar)


def _first(rules: Sequence[Rule], source: str, target: str) -> int:
    return next((number for number, rule in enumerate(rules) if rule.rejects(source, target)), KEPT)


def _scored(reasons: Sequence[Reason], numbers: array[int], scores: array[float], bar: Bar) -> Verdicts:
    """What has passed the rules, judged by its scores."""
    known = sorted((score for score in scores if not isnan(score)), reverse=True)
    least = bar.least
    if bar.share is not None and known:
        least = max(least, known[max(1, ceil(bar.share * len(known))) - 1])
    unread, low = len(reasons), len(reasons) + 1
    for place, score in enumerate(scores):
        if numbers[place] == KEPT and not score >= least:
            numbers[place] = unread if isnan(score) else low
    added = Reason("unread", "that are longer than a model reads"), Reason("score", "on which both models agree less")
    return Verdicts([*reasons, *added], numbers, scores, least)


def page(verdicts: Verdicts, pairs: Iterable[tuple[str, Texts]], *, title: str) -> str:
    """What was kept and what was not, with some pairs of each reason, spread over the corpus, and the scores.

    Args:
        verdicts: of the pairs.
        pairs: the place and the texts of each.
        title: of the page.
    """
    counts = {KEPT: verdicts.kept, **dict(enumerate(verdicts.counts))}
    seen = dict.fromkeys(counts, 0)
    shown: dict[int, list[list[str]]] = {number: [] for number in counts}
    for place, (number, (where, texts)) in enumerate(zip(verdicts.numbers, pairs, strict=True)):
        if seen[number] * _SHOWN >= len(shown[number]) * counts[number] and len(shown[number]) < _SHOWN:
            shown[number].append([where, *texts, *([verdicts.score(place)] if verdicts.scores else [])])
        seen[number] += 1
    head = ["place", "source", "target", *(["score"] if verdicts.scores else [])]
    named = {KEPT: "kept", **{number: f"{each.name}: {each.about}" for number, each in enumerate(verdicts.reasons)}}
    tables = [Table(f"{named[number]} ({counts[number]:,})", head, rows) for number, rows in shown.items() if rows]
    picture = verdicts.picture()
    return html_page(title, tables=[verdicts.table(), *tables], pictures=[] if picture is None else [picture])
