"""Figures of models that read: what a pronoun stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from heedful.inspection.figures import draw_figure
from heedful.lecture.data.coreference import ANIMAL_STATES, PLACE_STATES, split_pairs, write_sentence
from heedful.lecture.figures.figure import FigureContent, LectureRuns, lecture_figure

if TYPE_CHECKING:
    from heedful.inspection.record import InspectionRecord


def _inspect_pronoun(runs: LectureRuns, sentence: str) -> InspectionRecord:
    from heedful.tasks.inspection_records import InspectionSelection

    selection = InspectionSelection(attention_steps=False, attribution=None)
    record: InspectionRecord = runs.load("pronouns").inspect(sentence, scope=selection)
    return record


def measure_switching(runs: LectureRuns, *, seed: int = 1) -> tuple[np.ndarray, float, int]:
    """Measure on all held-out pairs whether "it" turns from the animal to the place when only the last word changes.

    Returns:
        For each layer and head [L, H] the share of pairs for which the larger of the two weights moves from the animal
        to the place; the share of pairs for which the answer moves too; and the number of pairs of sentences.
    """
    tagger = runs.load("pronouns")
    _, held_out = split_pairs(seed)
    turned, right, count = np.zeros(()), 0, 0
    for number, (animal, place) in enumerate(held_out):
        state = number % len(ANIMAL_STATES)
        sentences = [write_sentence(animal, place, states[state]) for states in (ANIMAL_STATES, PLACE_STATES)]
        weights = []
        for sentence in sentences:
            record = _inspect_pronoun(runs, sentence)
            words = list(record.axes[0].tokens)
            rows = np.stack([each.weights[:, words.index("it")] for each in record.maps])
            weights.append(rows[..., words.index(animal)] > rows[..., words.index(place)])
        answers = [next(word.name for word in words if word.word == "it") for words in tagger.tag(sentences)]
        turned = turned + (weights[0] & ~weights[1])
        right += answers == [animal, place]
        count += 1
    return turned / count, right / count, count


def _draw_pronoun(runs: LectureRuns, state: str) -> FigureContent:
    """Draw the best head for the sentence of the deck that ends with a state."""
    shares, right, count = measure_switching(runs)
    layer, head = (int(place) for place in np.unravel_index(shares.argmax(), shares.shape))
    record = _inspect_pronoun(runs, write_sentence("animal", "street", state))
    attention_map = record.find_map("encoder", layer=layer)
    words = record.get_axis(attention_map.keys).tokens
    row = attention_map.weights[head][list(words).index("it")]
    return FigureContent(
        draw_figure(record, view="heads", role="encoder", layer=layer, head=head),
        f"In head {head} of layer {layer}, “it” gives {row[words.index('animal')]:.2f} to animal and "
        f"{row[words.index('street')]:.2f} to street. On {count} pairs of nouns that were never together in training, "
        f"it turns from the animal to the place in {shares[layer, head]:.0%}, and the answer in {right:.0%}.",
        record,
        "heads",
        f'heedful inspect runs/pronouns --text "{write_sentence("animal", "street", state)}" --figure heads.svg '
        f"--view heads --role encoder --layer {layer} --head {head}",
    )


@lecture_figure("pronoun-tired", "It was too tired", models=("pronouns",))
def draw_tired(runs: LectureRuns) -> FigureContent:
    """Draw the head in which "it" looks at the animal."""
    return _draw_pronoun(runs, "tired")


@lecture_figure("pronoun-wide", "It was too wide", models=("pronouns",))
def draw_wide(runs: LectureRuns) -> FigureContent:
    """Draw the same head, in which "it" looks at the street."""
    return _draw_pronoun(runs, "wide")
