"""How well entities are found: F1 over whole spans of tagged words, as conlleval counts them.

The rules of conlleval (Tjong Kim Sang and Buchholz 2000) read IOB1, IOB2 (BIO), IOBES and BILOU alike, and also what a
model produces that follows none of them: an entity begins at `B`, `S` or `U`, and wherever `I`, `E` or `L` follows
nothing, the end of an entity or another type; it ends before whatever begins one, after `E`, `L`, `S` or `U`, and
before `O`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from heedful.errors import DataError
from heedful.metrics.metric import Metric, Ratio

_OPENS = frozenset("BSU")
_CLOSES = frozenset("ELSU")
_PREFIXES = frozenset("BIELSU")


class Span(NamedTuple):
    """The words from `start` up to `stop`, and what they are."""

    start: int
    stop: int
    type: str


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
    return all(map(may_be_part, tags)) and any(tag != "O" for tag in tags)


def may_be_part(tag: str) -> bool:
    """Whether a tag can be read as a part of an entity, or as none."""
    try:
        _parts(tag)
    except DataError:
        return False
    return True


def entity_metrics(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> dict[str, Metric]:
    """`precision`, `recall` and `f1` over the entities of all sentences; sentences are what is weighed.

    An entity is right if its first word, last word and type are.

    Args:
        predicted: the tags of each sentence's words.
        gold: as many for each sentence.

    Raises:
        DataError: no words, sentences or tags that do not match in number, or a tag that is none.
    """
    if len(predicted) != len(gold):
        raise DataError(f"{len(predicted):,} tagged sentences but {len(gold):,} gold ones: each needs its own")
    counts = np.zeros((3, len(gold)))
    for number, (mine, truth) in enumerate(zip(predicted, gold, strict=True)):
        if len(mine) != len(truth):
            raise DataError(f"sentence {number + 1} has {len(mine)} tags for {len(truth)} words; align them first")
        found, there = set(spans(mine)), set(spans(truth))
        counts[:, number] = len(found & there), len(found), len(there)
    if not any(gold):
        raise DataError("nothing to score: the sentences have no words")
    both, said, there_are = counts
    return {"precision": Ratio(both, said), "recall": Ratio(both, there_are), "f1": Ratio(2 * both, said + there_are)}


def _parts(tag: str) -> tuple[str, str]:
    if tag == "O":
        return "O", ""
    prefix, _, kind = tag.partition("-")
    if prefix not in _PREFIXES or (not kind and "-" in tag):
        raise DataError(f"{tag!r} is no tag of an entity; write O, or B, I, E, L, S or U with a type, as in B-person")
    return prefix, kind
