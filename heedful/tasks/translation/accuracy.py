"""Accuracy of terms, numbers and contrasts in translations, and the reader of contrastive examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, final

import numpy as np
from jaxtyping import Float

from heedful.compression import strip_compression_suffix
from heedful.data.readers import ExampleReader, JsonRecord, read_numbered_lines, split_columns
from heedful.data.token_offsets import find_term, to_lowercase_same_length
from heedful.errors import DataError
from heedful.metrics.judge import count_kept_numbers
from heedful.metrics.metric import Metric, RatioMetric
from heedful.tasks.decoder_target import ForcedScore
from heedful.tasks.predictor import UnreadableInput
from heedful.tasks.translation.glossary import TermGlossary, iter_term_spans

TERM_ACCURACY: Final = "terms"
INFLECTED_TERM_ACCURACY: Final = "terms, other endings too"
NUMBER_ACCURACY: Final = "numbers"
CONTRAST_ACCURACY: Final = "contrasts"


@final
@dataclass(frozen=True)
class AccuracyCounts:
    """Counts of correct items for each example.

    Attributes:
        correct: number of correct items of each example that has any.
        total: number of its items.
    """

    correct: Float[np.ndarray, " N"]
    total: Float[np.ndarray, " N"]

    @property
    def metric(self) -> Metric:
        """Accuracy over all examples in percent."""
        return RatioMetric(100 * self.correct, self.total)


def count_accuracies(
    sources: Sequence[str], texts: Sequence[str], *, glossary: TermGlossary | None, lowercase: bool = False
) -> dict[str, AccuracyCounts]:
    """Count the terms of a glossary and the numbers in sources, and how many of them the translations `texts` contain.

    Items that no source contains are left out.

    Args:
        sources: sentences.
        texts: a translation of each.
        glossary: translations of terms; None to skip terms.
        lowercase: whether case is ignored; otherwise a target term with a capital must be written exactly so.
    """
    counts = {NUMBER_ACCURACY: [count_kept_numbers(source, text) for source, text in zip(sources, texts, strict=True)]}
    if glossary is not None:
        required = [
            Counter(glossary.entries[term] for _, term in glossary.find_occurrences(source)) for source in sources
        ]
        found_terms = [
            _count_terms(terms, text, lowercase=lowercase) for terms, text in zip(required, texts, strict=True)
        ]
        totals = [terms.total() for terms in required]
        counts = {
            TERM_ACCURACY: [(exact, total) for (exact, _), total in zip(found_terms, totals, strict=True)],
            INFLECTED_TERM_ACCURACY: [
                (inflected, total) for (_, inflected), total in zip(found_terms, totals, strict=True)
            ],
            **counts,
        }
    rows_by_name = {name: [row for row in rows if row[1]] for name, rows in counts.items()}
    return {name: AccuracyCounts(*np.array(rows, dtype=np.float64).T) for name, rows in rows_by_name.items() if rows}


def count_contrasts(
    contrasts: Sequence[ContrastiveExample], answers: Sequence[bool | None]
) -> dict[str, AccuracyCounts]:
    """Count the contrasts in which a model prefers the right text, in total and for each kind if there are several.
    `answers` says for each contrast whether it does; None if it cannot read it, which does not count.
    """
    is_right = np.array([answer is True for answer in answers], dtype=np.float64)
    is_read = np.array([answer is not None for answer in answers], dtype=np.float64)
    counts = {CONTRAST_ACCURACY: AccuracyCounts(is_right, is_read)}
    masks = {
        kind: [contrast.kind == kind for contrast in contrasts]
        for kind in dict.fromkeys(contrast.kind for contrast in contrasts)
    }
    if len(masks) > 1:
        counts |= {
            f"{CONTRAST_ACCURACY}: {kind or 'no kind'}": AccuracyCounts(is_right[mask], is_read[mask])
            for kind, mask in masks.items()
        }
    return {name: share for name, share in counts.items() if share.total.any()}


def prefers_first(scores: Sequence[ForcedScore | UnreadableInput]) -> bool | None:
    """Return whether the first of several scored texts is more probable than all others (Sennrich 2017); None if one
    cannot be read.

    Texts that are tokenized into the same pieces are not distinguished.
    """
    readable = [score for score in scores if not isinstance(score, UnreadableInput)]
    if len(readable) < len(scores):
        return None
    first, *others = readable
    return all(first.log_probability > other.log_probability and first.tokens != other.tokens for other in others)


def _count_terms(terms: Mapping[str, int], text: str, *, lowercase: bool) -> tuple[int, int]:
    """Count the required terms that a text contains exactly, and those that it contains exactly or inflected;
    occurrences do not overlap. `terms` says how often each is required, and `lowercase` that case does not count.
    """

    def find_exact(term: str) -> Iterator[range]:
        """Yield the spans of exact occurrences of a term."""
        normalise = to_lowercase_same_length if lowercase or term == term.lower() else str
        return (range(start, start + len(term)) for start in find_term(normalise(term), normalise(text)))

    remaining, spans, counts = Counter(terms), list[range](), []
    for find_spans in (find_exact, partial(iter_term_spans, text)):
        for term in sorted(remaining, key=len, reverse=True):
            for span in find_spans(term):
                if remaining[term] and not any(
                    span.start < taken_span.stop and taken_span.start < span.stop for taken_span in spans
                ):
                    remaining[term] -= 1
                    spans.append(span)
        counts.append(len(spans))
    return counts[0], counts[1]


class ContrastiveExample(NamedTuple):
    """A source sentence with its correct translation `right` and wrong ones `wrong`.

    `kind` names the difference (empty if not given), `location` the line (`file:line`), and `tags` the tags put before
    the source.
    """

    source: str
    right: str
    wrong: tuple[str, ...]
    kind: str
    location: str
    tags: tuple[str, ...] = ()


@final
class ContrastiveReader(ExampleReader[ContrastiveExample]):
    """Read one contrastive example from each line: TSV (source, right, wrong and optionally kind), or JSON objects
    with fields of these names.

    In JSON `wrong` may be a list. Lines of white space are skipped.

    Args:
        path: plain or compressed; a name that ends with .jsonl or .ndjson is read as JSON.
        tags: tags put before all sources.
    """

    def __init__(self, path: Path, tags: Sequence[str] = ()) -> None:
        super().__init__(path)
        self._tags = tuple(tags)

    def __iter__(self) -> Iterator[ContrastiveExample]:
        parse_line = (
            _parse_object
            if strip_compression_suffix(self.paths[0].name).endswith((".jsonl", ".ndjson"))
            else _parse_row
        )
        for _, location, line in read_numbered_lines(self.paths[0]):
            source, right, wrong, kind = parse_line(line, location)
            if not source or not right or not wrong or not all(wrong):
                raise DataError(f"{location}: source, right or wrong is empty; give all three")
            if right in wrong:
                raise DataError(f"{location}: right and wrong are the same text; they must differ")
            yield ContrastiveExample(source, right, wrong, kind, location, self._tags)


def _parse_row(line: str, location: str) -> tuple[str, str, tuple[str, ...], str]:
    """Parse a TSV line into source, right, wrong and kind."""
    source, right, wrong, *kind = map(str.strip, split_columns(line, 3, location=location))
    return source, right, (wrong,), kind[0] if kind else ""


def _parse_object(line: str, location: str) -> tuple[str, str, tuple[str, ...], str]:
    """Parse a JSON line into source, right, wrong translations and kind; kind is empty if there is none, and `location`
    is named in errors.
    """
    record = JsonRecord.from_line(line, location=location)
    is_list = isinstance(record.fields.get("wrong"), list)
    wrong = record.get_texts("wrong") if is_list else (record.get_text("wrong"),)
    return (
        record.get_text("source"),
        record.get_text("right"),
        wrong,
        record.get_text("kind") if "kind" in record else "",
    )
