"""Entity metrics: precision, recall and F1 over whole spans of tagged words, as conlleval counts them.

The rules of conlleval (Tjong Kim Sang and Buchholz 2000) read IOB1, IOB2 (BIO), IOBES and BILOU alike, and also invalid
sequences of a model: an entity begins at `B`, `S` or `U`, and where `I`, `E` or `L` follows no entity, the end of an
entity or another type; it ends before a tag that begins one, after `E`, `L`, `S` or `U`, and before `O`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from heedful.errors import DataError
from heedful.metrics.metric import Metric, RatioMetric

_OPENS = frozenset("BSU")
_CLOSES = frozenset("ELSU")
_PREFIXES = frozenset("BIELSU")


class EntitySpan(NamedTuple):
    """Words from `start` up to `stop`, and the type of the entity."""

    start: int
    stop: int
    type: str


def extract_spans(tags: Sequence[str]) -> list[EntitySpan]:
    """Return the entities of a sentence from the tags of its words.

    Raises:
        DataError: a tag that is neither `O` nor a prefix with a type, such as `B-person`.
    """
    entities: list[EntitySpan] = []
    start, current_type, previous_prefix = 0, "", "O"
    for index, tag in enumerate(tags):
        prefix, entity_type = _split_tag(tag)
        begins = prefix in _OPENS or (
            prefix != "O" and (previous_prefix == "O" or previous_prefix in _CLOSES or entity_type != current_type)
        )
        if previous_prefix != "O" and (begins or prefix == "O" or previous_prefix in _CLOSES):
            entities.append(EntitySpan(start, index, current_type))
        if begins:
            start, current_type = index, entity_type
        previous_prefix = prefix
    if previous_prefix != "O":
        entities.append(EntitySpan(start, len(tags), current_type))
    return entities


def are_entity_tags(tags: Sequence[str]) -> bool:
    """Return whether all tags are valid entity tags, and at least one is not `O`."""
    return all(map(is_entity_tag, tags)) and any(tag != "O" for tag in tags)


def is_entity_tag(tag: str) -> bool:
    """Return whether a tag is a valid entity tag or `O`."""
    try:
        _split_tag(tag)
    except DataError:
        return False
    return True


def compute_entity_metrics(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> dict[str, Metric]:
    """Compute `precision`, `recall` and `f1` over the entities of all sentences; weights are per sentence.

    An entity is correct if its first word, last word and type are.

    Args:
        predicted: the tags of each sentence's words.
        gold: the gold tags of each sentence.

    Raises:
        DataError: no words, sentences or tags that do not match in number, or an invalid tag.
    """
    if len(predicted) != len(gold):
        raise DataError(f"{len(predicted):,} tagged sentences but {len(gold):,} gold ones: each needs its own")
    counts = np.zeros((3, len(gold)))
    for index, (predicted_tags, gold_tags) in enumerate(zip(predicted, gold, strict=True)):
        if len(predicted_tags) != len(gold_tags):
            raise DataError(
                f"sentence {index + 1} has {len(predicted_tags)} tags for {len(gold_tags)} words; align them first"
            )
        predicted_spans, gold_spans = set(extract_spans(predicted_tags)), set(extract_spans(gold_tags))
        counts[:, index] = len(predicted_spans & gold_spans), len(predicted_spans), len(gold_spans)
    if not any(gold):
        raise DataError("nothing to score: the sentences have no words")
    num_correct, num_predicted, num_gold = counts
    return {
        "precision": RatioMetric(num_correct, num_predicted),
        "recall": RatioMetric(num_correct, num_gold),
        "f1": RatioMetric(2 * num_correct, num_predicted + num_gold),
    }


def _split_tag(tag: str) -> tuple[str, str]:
    """Split a tag into prefix and entity type."""
    if tag == "O":
        return "O", ""
    prefix, _, entity_type = tag.partition("-")
    if prefix not in _PREFIXES or (not entity_type and "-" in tag):
        raise DataError(f"{tag!r} is not an entity tag; write O, or B, I, E, L, S or U with a type, as in B-person")
    return prefix, entity_type
