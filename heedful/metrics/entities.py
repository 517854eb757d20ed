"""How well entities are found: F1 over whole spans of tagged words, as conlleval counts them.

The rules of conlleval (Tjong Kim Sang and Buchholz 2000) read IOB1, IOB2 (BIO), IOBES and BILOU alike, and also what a
model produces that follows none of them: an entity begins at `B`, `S` or `U`, and wherever `I`, `E` or `L` follows
nothing, the end of an entity or another type; it ends before whatever begins one, after `E`, `L`, `S` or `U`, and
before `O`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from heedful.errors import DataError
from heedful.metrics.classes import PrecisionRecall

_OPENS = frozenset("BSU")
_CLOSES = frozenset("ELSU")
_PREFIXES = frozenset("BIELSU")


class Span(NamedTuple):
    """The words from `start` up to `stop`, and what they are."""

    start: int
    stop: int
    type: str


@dataclass(frozen=True)
class EntityScores:
    """Scores over entities; an entity is right if its first word, last word and type are.

    Attributes:
        micro: all entities together, the number that papers report.
        macro: the means over types.
        types: each type, those that were predicted and do not occur included.
        accuracy: share of the words whose tag is right.
    """

    micro: PrecisionRecall
    macro: PrecisionRecall
    types: dict[str, PrecisionRecall]
    accuracy: float


def spans(tags: Sequence[str]) -> list[Span]:
    """The entities of a sentence from the tags of its words.

    Raises:
        DataError: a tag that is neither `O` nor a prefix with a type, such as `B-person`.
    """
    found: list[Span] = []
    start, inside, previous = 0, "", "O"
    for place, tag in enumerate(tags):
        prefix, kind = _parts(tag)
        begins = prefix in _OPENS or (prefix != "O" and (previous == "O" or previous in _CLOSES or kind != inside))
        if previous != "O" and (begins or prefix == "O" or previous in _CLOSES):
            found.append(Span(start, place, inside))
        if begins:
            start, inside = place, kind
        previous = prefix
    if previous != "O":
        found.append(Span(start, len(tags), inside))
    return found


def are_entities(tags: Sequence[str]) -> bool:
    """Whether all tags can be read as parts of entities, and one of them is one."""
    try:
        return any(_parts(tag)[0] != "O" for tag in tags)
    except DataError:
        return False


def entity_scores(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> EntityScores:
    """Precision, recall and F1 over the entities of all sentences.

    Args:
        predicted: the tags of each sentence's words.
        gold: as many for each sentence.

    Raises:
        DataError: no words, sentences or tags that do not match in number, or a tag that is none.
    """
    if len(predicted) != len(gold):
        raise DataError(f"{len(predicted):,} tagged sentences but {len(gold):,} gold ones: each needs its own")
    hits, guesses, golds = Counter[str](), Counter[str](), Counter[str]()
    right = words = 0
    for number, (mine, truth) in enumerate(zip(predicted, gold, strict=True), 1):
        if len(mine) != len(truth):
            raise DataError(f"sentence {number} has {len(mine)} tags for {len(truth)} words; align them first")
        found, there = set(spans(mine)), set(spans(truth))
        hits.update(span.type for span in found & there)
        guesses.update(span.type for span in found)
        golds.update(span.type for span in there)
        words += len(truth)
        right += sum(a == b for a, b in zip(mine, truth, strict=True))
    if not words:
        raise DataError("nothing to score: the sentences have no words")
    types = {
        name: PrecisionRecall.of(hits[name], predicted=guesses[name], gold=golds[name])
        for name in sorted(guesses.keys() | golds.keys())
    }
    micro = PrecisionRecall.of(hits.total(), predicted=guesses.total(), gold=golds.total())
    return EntityScores(micro, PrecisionRecall.mean(list(types.values())), types, right / words)


def _parts(tag: str) -> tuple[str, str]:
    if tag == "O":
        return "O", ""
    prefix, _, kind = tag.partition("-")
    if prefix not in _PREFIXES or (not kind and "-" in tag):
        raise DataError(f"{tag!r} is no tag of an entity; write O, or B, I, E, L, S or U with a type, as in B-person")
    return prefix, kind
