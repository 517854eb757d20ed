"""Filtering of parallel corpora by rules and model scores, with a report page."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, exp, isnan, nan
from typing import Any, Final, TypeAlias

from heedful.data.chunk_workers import ChunkWorkers
from heedful.data.detect.checks import TextCheck, format_percent
from heedful.inspection.page import PageTable, render_html_page
from heedful.inspection.plots import PlotLine, draw_line_plot
from heedful.tasks.translation.translator import Translator


def dual_agreement(
    forward: Translator, backward: Translator, pairs: Sequence[tuple[str, str]], *, batch_tokens: int = 4096
) -> list[float | None]:
    """Score each pair from 0 to 1, where 1 means that both models find the other side certain; None if it is too long.

    exp(-(|H_f - H_b| + (H_f + H_b) / 2)), the adequacy of dual conditional cross-entropy (Junczys-Dowmunt 2018, section
    2.1), where H is the cross-entropy in nats for each token, the end included. A pair that one model finds likely and
    the other does not is as suspicious as one that both find unlikely.

    Args:
        forward: translates sources to targets.
        backward: translates targets to sources.
        pairs: sources and targets.
        batch_tokens: number of tokens of a batch.

    Returns:
        The scores; None for pairs that are too long for one of the models.
    """
    reversed_pairs = [(target, source) for source, target in pairs]
    unreadable = {*forward.unread(pairs), *backward.unread(reversed_pairs)}
    indices = [index for index in range(len(pairs)) if index not in unreadable]
    scores: list[float | None] = [None] * len(pairs)
    forward_scores = forward.score([pairs[index] for index in indices], batch_tokens=batch_tokens)
    backward_scores = backward.score([reversed_pairs[index] for index in indices], batch_tokens=batch_tokens)
    for index, forward_score, backward_score in zip(indices, forward_scores, backward_scores, strict=True):
        entropies = (
            -forward_score.log_probability / forward_score.count,
            -backward_score.log_probability / backward_score.count,
        )
        scores[index] = exp(-(abs(entropies[0] - entropies[1]) + sum(entropies) / 2))
    return scores


KEPT_NUMBER: Final = -1
_BARS: Final = 40
_MAX_SHOWN: Final = 12
"""Maximum number of pairs of each reason on a page."""

TextPair: TypeAlias = tuple[str, str]
PairScorer: TypeAlias = Callable[[Sequence[TextPair]], Sequence[float | None]]


@dataclass(frozen=True)
class RejectionReason:
    """Why pairs are rejected: a name, and a phrase that follows "pairs"."""

    name: str
    description: str


@dataclass(frozen=True)
class ScoreThreshold:
    """Threshold of scores.

    Attributes:
        share: share of the scored pairs to keep, best first; None for no limit.
        min_score: lowest score that is kept.
    """

    share: float | None = None
    min_score: float = 0.0


@dataclass(frozen=True)
class FilterResult:
    """Result of filtering a corpus, pair by pair.

    Attributes:
        reasons: rejection reasons by number.
        reason_numbers: reason number of each pair, `KEPT_NUMBER` for those that are kept.
        scores: of each pair, NaN if it has none; empty if pairs were not scored.
        threshold: score threshold that was finally used.
    """

    reasons: Sequence[RejectionReason]
    reason_numbers: array[int]
    scores: array[float] = field(default_factory=lambda: array("f"))
    threshold: float = 0.0

    @property
    def num_kept(self) -> int:
        """Number of pairs that are kept."""
        return self.reason_numbers.count(KEPT_NUMBER)

    @property
    def rejection_counts(self) -> Sequence[int]:
        """Number of pairs that each reason rejected."""
        return [self.reason_numbers.count(number) for number in range(len(self.reasons))]

    def format_score(self, index: int) -> str:
        """Return the score of a pair as text; empty if it has none."""
        return f"{self.scores[index]:.3f}" if self.scores and not isnan(self.scores[index]) else ""

    def to_table(self) -> PageTable:
        """Build a table of kept and rejected pairs."""
        total = len(self.reason_numbers)
        rows = [["kept", f"{self.num_kept:,}", format_percent(self.num_kept, total)]]
        for reason, count in zip(self.reasons, self.rejection_counts, strict=True):
            if count:
                rows.append([f"{reason.name}: {reason.description}", f"{count:,}", format_percent(count, total)])
        return PageTable("", ["", "pairs", ""], rows)

    def plot_scores(self) -> str | None:
        """Plot the distribution of scores; None if there are none."""
        scored = [score for score in self.scores if not isnan(score)]
        if not scored:
            return None
        heights = [0] * _BARS
        for score in scored:
            heights[min(_BARS - 1, int(score * _BARS))] += 1
        line = PlotLine("pairs", tuple(((number + 0.5) / _BARS, height) for number, height in enumerate(heights)))
        return draw_line_plot(
            [line],
            title="How far two models agree on pairs",
            x_name=f"score; kept from {self.threshold:.3f} on",
            y_name="pairs",
            y_include=0,
        )


def filter_pairs(
    pairs: Callable[[], Iterable[TextPair]],
    rules: Sequence[TextCheck[Any]],
    *,
    score: PairScorer | None = None,
    threshold: ScoreThreshold = ScoreThreshold(),
    on_progress: Callable[[int, int], None] = lambda _, __: None,
    processes: int = 1,
) -> FilterResult:
    """Filter pairs by rules in order, then by the scores of models; `pairs` opens the corpus from its start. The result
    is the same for any number of processes.

    Args:
        pairs: opens the corpus from its start.
        rules: the first that rejects a pair is its reason.
        score: returns scores from 0 to 1, None for pairs that cannot be scored.
        threshold: score threshold.
        on_progress: called with the number of filtered pairs, and of all pairs.
        processes: largest number of processes that judge single pairs; this one reads, compares and scores.
    """
    value_counts = {rule: Counter[Any]() for rule in rules if rule.needs_all}
    total = 0
    for pair in pairs():
        total += 1
        for rule, counts in value_counts.items():
            if (value := rule.measure(pair)) is not None:
                counts[value] += 1
    faults = {rule: frozenset(rule.find_faults(counts)) for rule, counts in value_counts.items()}
    reasons = [RejectionReason(rule.name, rule.description) for rule in rules]
    numbers = array("b")
    scores = array("f")
    # A rule that remembers pairs, and all rules after it, are applied here, to the pairs that passed the others.
    num_single = next((number for number, rule in enumerate(rules) if rule.remembers), len(rules))
    workers = ChunkWorkers(
        lambda chunk: _find_rejecting_rules(rules[:num_single], faults, chunk),
        processes,
        _count_characters,
    )
    for chunk, single_numbers in workers.map(pairs()):
        start = len(numbers)
        passed = [index for index, number in enumerate(single_numbers) if number == KEPT_NUMBER]
        later_numbers = _find_rejecting_rules(rules, faults, [chunk[index] for index in passed], first=num_single)
        numbers.extend(single_numbers)
        for index, number in zip(passed, later_numbers, strict=True):
            numbers[start + index] = number
        if score is not None:
            passed = [index for index, _ in enumerate(chunk) if numbers[start + index] == KEPT_NUMBER]
            scores_found = dict(zip(passed, score([chunk[index] for index in passed]), strict=True))
            scores.extend(nan if (value := scores_found.get(index)) is None else value for index, _ in enumerate(chunk))
        on_progress(len(numbers), total)
    if score is None:
        return FilterResult(reasons, numbers)
    return _apply_threshold(reasons, numbers, scores, threshold)


def _count_characters(pair: TextPair) -> int:
    """Return the number of characters of a pair."""
    return sum(map(len, pair))


def _find_rejecting_rules(
    rules: Sequence[TextCheck[Any]],
    faults: Mapping[TextCheck[Any], frozenset[Any]],
    pairs: Sequence[TextPair],
    *,
    first: int = 0,
) -> Sequence[int]:
    """Return for each pair of texts the number of the first rule that rejects it, or `KEPT_NUMBER`. A rule is evaluated
    only on pairs that the rules before it kept.

    Args:
        rules: all rules.
        faults: values that are rejected by rules which compare all pairs.
        pairs: the pairs, in the order of the corpus.
        first: number of the first rule that is applied.
    """
    numbers = [KEPT_NUMBER] * len(pairs)
    passed: Sequence[int] = range(len(pairs))
    for number, rule in enumerate(rules[first:], first):
        for index, value in zip(passed, rule.measure_batch([pairs[index] for index in passed]), strict=True):
            if value is not None and (rule not in faults or value in faults[rule]):
                numbers[index] = number
        passed = [index for index in passed if numbers[index] == KEPT_NUMBER]
    return numbers


def _apply_threshold(
    reasons: Sequence[RejectionReason], numbers: array[int], scores: array[float], threshold: ScoreThreshold
) -> FilterResult:
    """Reject the pairs below the threshold, and those without a score, and build the result. `numbers`, the reason
    number of each pair, are changed, and two reasons are added.
    """
    known_scores = sorted((score for score in scores if not isnan(score)), reverse=True)
    min_score = threshold.min_score
    if threshold.share is not None and known_scores:
        min_score = max(min_score, known_scores[max(1, ceil(threshold.share * len(known_scores))) - 1])
    unread_number, low_number = len(reasons), len(reasons) + 1
    for index, score in enumerate(scores):
        if numbers[index] == KEPT_NUMBER and not score >= min_score:
            numbers[index] = unread_number if isnan(score) else low_number
    new_reasons = (
        RejectionReason("unread", "that are longer than a model reads"),
        RejectionReason("score", "on which the two models agree less"),
    )
    return FilterResult([*reasons, *new_reasons], numbers, scores, min_score)


def build_filter_page(result: FilterResult, pairs: Iterable[tuple[str, TextPair]], *, title: str) -> str:
    """Build an HTML page with scores and sample pairs of each reason, spread over the corpus. `pairs` are the location
    and texts of each pair.

    Args:
        result: result of the filter.
        pairs: location and texts of each pair.
        title: of the page.
    """
    counts = {KEPT_NUMBER: result.num_kept, **dict(enumerate(result.rejection_counts))}
    num_seen = dict.fromkeys(counts, 0)
    shown_rows: dict[int, list[list[str]]] = {number: [] for number in counts}
    for index, (number, (location, texts)) in enumerate(zip(result.reason_numbers, pairs, strict=True)):
        if (
            num_seen[number] * _MAX_SHOWN >= len(shown_rows[number]) * counts[number]
            and len(shown_rows[number]) < _MAX_SHOWN
        ):
            shown_rows[number].append([location, *texts, *([result.format_score(index)] if result.scores else [])])
        num_seen[number] += 1
    head = ["place", "source", "target", *(["score"] if result.scores else [])]
    headings = {
        KEPT_NUMBER: "kept",
        **{number: f"{reason.name}: {reason.description}" for number, reason in enumerate(result.reasons)},
    }
    tables = [
        PageTable(f"{headings[number]} ({counts[number]:,})", head, rows) for number, rows in shown_rows.items() if rows
    ]
    picture = result.plot_scores()
    return render_html_page(title, tables=[result.to_table(), *tables], pictures=[] if picture is None else [picture])
