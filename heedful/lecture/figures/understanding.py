"""Figures of models that read: pronouns, senses of a word, gaps, next sentences, and what pre-training gives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from jaxtyping import Float

from heedful.inspection.figures import draw_figure
from heedful.inspection.figures.steps import draw_vector_map
from heedful.inspection.plots import PlotLine, draw_line_plot
from heedful.lecture.data.coreference import ANIMAL_STATES, PLACE_STATES, build_sentence, split_pairs
from heedful.lecture.data.senses import MASKED_SENTENCE, MONEY, RIVER, RIVER_SENTENCE, sample_sentence
from heedful.lecture.figures.claims import compare_on_test
from heedful.lecture.figures.figure import FigureContent, LectureRuns, register_figure, stack_pictures
from heedful.tasks.inspection_records import InspectionSelection

if TYPE_CHECKING:
    from collections.abc import Sequence


_WEIGHTS_ONLY: Final = InspectionSelection(attention_steps=False, attribution=None)
"""Records weights only."""


_PRONOUN_MODELS: Final = ("pronouns", "pronouns-2", "pronouns-3")
"""One model with three seeds. All answer right, but in some the choice of the noun is spread over several heads."""
_NUM_SELECTION_PAIRS: Final = 20
"""Pairs of nouns of the training text by which one of these models is chosen."""


@dataclass(frozen=True)
class SwitchingMeasures:
    """How "it" turns from the animal to the place when only the last word of a sentence changes.

    Attributes:
        switch_shares: for each layer and head [L, H], the share of pairs for which "it" gives the animal more weight in
            the first sentence and the place more weight in the second.
        weights: for each layer and head [L, H], the mean weight of the noun that is meant.
        accuracy: share of pairs for which both answers are right.
        count: number of pairs of sentences.
    """

    switch_shares: Float[np.ndarray, "L H"]
    weights: Float[np.ndarray, "L H"]
    accuracy: float
    count: int

    @property
    def best_head(self) -> tuple[int, int]:
        """Layer and head that turn in nearly as many pairs as any, and give the most weight to what is meant."""
        candidates = np.where(self.switch_shares >= self.switch_shares.max() - 0.05, self.weights, -1.0)
        layer, head = np.unravel_index(candidates.argmax(), candidates.shape)
        return int(layer), int(head)


def measure_switching(tagger: Any, pairs: Sequence[tuple[str, str]]) -> SwitchingMeasures:
    """Measure the attention and the answers of a model of pronouns on pairs of an animal and a place."""
    switches, weights_meant, right = np.zeros(()), np.zeros(()), 0
    for number, (animal, place) in enumerate(pairs):
        state = number % len(ANIMAL_STATES)
        sentences = [build_sentence(animal, place, states[state]) for states in (ANIMAL_STATES, PLACE_STATES)]
        rows = []
        for sentence in sentences:
            record = tagger.inspect(sentence, scope=_WEIGHTS_ONLY)
            words = list(record.axes[0].tokens)
            weights = np.stack([each.weights[:, words.index("it")] for each in record.maps])
            rows.append(weights[..., [words.index(animal), words.index(place)]])
        answers = [next(word.name for word in words if word.word == "it") for words in tagger.tag(sentences)]
        switches = switches + ((rows[0][..., 0] > rows[0][..., 1]) & (rows[1][..., 1] > rows[1][..., 0]))
        weights_meant = weights_meant + (rows[0][..., 0] + rows[1][..., 1]) / 2
        right += answers == [animal, place]
    count = len(pairs)
    return SwitchingMeasures(switches / count, weights_meant / count, right / count, count)


def _draw_pronoun(runs: LectureRuns, state: str) -> FigureContent:
    """Draw the best head of the clearest model for the sentence of the deck that ends with a state."""
    known, held_out = split_pairs(1)
    name = max(
        _PRONOUN_MODELS,
        key=lambda name: measure_switching(runs.load(name), known[:_NUM_SELECTION_PAIRS]).switch_shares.max(),
    )
    measures = measure_switching(runs.load(name), held_out)
    layer, head = measures.best_head
    record = runs.load(name).inspect(build_sentence("animal", "street", state), scope=_WEIGHTS_ONLY)
    attention_map = record.find_map("encoder", layer=layer)
    words = record.get_axis(attention_map.keys).tokens
    row = attention_map.weights[head][list(words).index("it")]
    return FigureContent(
        draw_figure(record, view="heads", role="encoder", layer=layer, head=head),
        f"In head {head} of layer {layer}, “it” gives {row[words.index('animal')]:.2f} to animal and "
        f"{row[words.index('street')]:.2f} to street. On {measures.count} pairs of nouns that were never together in "
        f"training, it turns from the animal to the place in {measures.switch_shares[layer, head]:.0%}, and the answer "
        f"in {measures.accuracy:.0%}. Of models with {len(_PRONOUN_MODELS)} seeds, this one turns most clearly on "
        "pairs of the training text.",
        record,
        "heads",
        f'heedful inspect runs/{name} --text "{build_sentence("animal", "street", state)}" --figure heads.svg '
        f"--view heads --role encoder --layer {layer} --head {head}",
    )


@register_figure("pronoun-tired", "It was too tired", models=_PRONOUN_MODELS)
def draw_tired_animal(runs: LectureRuns) -> FigureContent:
    """Draw the head in which "it" looks at the animal."""
    return _draw_pronoun(runs, "tired")


@register_figure("pronoun-wide", "It was too wide", models=_PRONOUN_MODELS)
def draw_wide_street(runs: LectureRuns) -> FigureContent:
    """Draw the same head, in which "it" looks at the street."""
    return _draw_pronoun(runs, "wide")


def _collect_bank_vectors(runs: LectureRuns, subject: str, *, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the vectors of "bank" in new sentences about a subject: those that enter the first self-attention, and
    those that it returns, each [count, d_model].
    """
    dice = Random(f"bank {subject}")
    before: list[np.ndarray] = []
    after: list[np.ndarray] = []
    encoder = runs.load("encoder")
    while len(before) < count:
        sentence = sample_sentence(subject, dice)
        words = sentence.split()
        if "bank" not in words:
            continue
        record = encoder.inspect(sentence)
        attention_map = record.find_map("encoder", layer=0)
        assert attention_map.walk is not None, "short texts have all steps"
        place = list(record.get_axis(attention_map.queries).tokens).index("bank")
        before.append(attention_map.walk.inputs[place])
        after.append(attention_map.walk.outputs[place])
    return np.stack(before), np.stack(after)


def measure_separation(first: np.ndarray, second: np.ndarray) -> float:
    """Return the share of vectors that are nearer to the mean of their own group than to that of the other group; each
    is left out of its own mean.
    """
    right = 0
    for own, other in ((first, second), (second, first)):
        for place, vector in enumerate(own):
            mean = np.delete(own, place, 0).mean(0)
            right += np.linalg.norm(vector - mean) < np.linalg.norm(vector - other.mean(0))
    return float(right) / (len(first) + len(second))


@register_figure("bank-vectors", "Two banks, before and after self-attention", models=("encoder",))
def draw_bank_vectors(runs: LectureRuns) -> FigureContent:
    """Draw the vectors of "bank" in sentences about rivers and about money."""
    count = 30
    groups = [_collect_bank_vectors(runs, subject, count=count) for subject in (RIVER, MONEY)]
    pictures, shares = [], []
    for index, title in enumerate(("Before self-attention", "After self-attention")):
        vectors = np.concatenate([group[index] for group in groups])
        centred = vectors - vectors.mean(0)
        axes = np.linalg.svd(centred, full_matrices=False)[2][:2]
        names = [""] * len(vectors)
        names[0], names[count] = RIVER, MONEY
        hues = [0] * count + [1] * count
        pictures.append(draw_vector_map(names, centred @ axes.T, hues=hues, title=title, notes=[]))
        shares.append(measure_separation(groups[0][index], groups[1][index]))
    return FigureContent(
        stack_pictures(pictures),
        f"Each point is the word bank in one of {2 * count} new sentences, half of them about rivers and half about "
        "money, drawn by two principal components. Before self-attention only the position differs, and "
        f"{shares[0]:.0%} are nearer to the mean of their own sense; after it, {shares[1]:.0%}.",
        command='heedful inspect runs/encoder --text "I arrived at the bank after crossing the river" -o bank.html',
    )


@register_figure("bank-attention", "What bank attends to", models=("encoder",))
def draw_bank_attention(runs: LectureRuns) -> FigureContent:
    """Draw the attention of the sentence of deck 1 in the head in which "bank" looks most at the last word."""
    encoder = runs.load("encoder")
    record = encoder.inspect(RIVER_SENTENCE)
    rows = {}
    for attention_map in record.maps:
        words = list(record.get_axis(attention_map.keys).tokens)
        for head in attention_map.heads:
            row = attention_map.get_head_weights(head)[words.index("bank")]
            rows[attention_map.layer, head] = float(row[words.index("river")])
    layer, head = max(rows, key=rows.__getitem__)
    return FigureContent(
        draw_figure(record, view="heads", role="encoder", layer=layer, head=head),
        f"In head {head} of layer {layer}, bank gives {rows[layer, head]:.2f} of its attention to river, which tells "
        "which bank is meant.",
        record,
        "heads",
        f'heedful inspect runs/encoder --text "{RIVER_SENTENCE}" --figure heads.svg --view heads --layer {layer} '
        f"--head {head}",
    )


def _draw_masked(runs: LectureRuns, *, view: str, explanation: str) -> FigureContent:
    """Draw a view of the masked sentence of deck 2."""
    record = runs.load("encoder").inspect(MASKED_SENTENCE)
    options = record.answers[0].options[:3]
    guesses = ", ".join(f"{option.name} ({option.probability:.2f})" for option in options)
    return FigureContent(
        draw_figure(record, view=view),
        f"{explanation} The gap of {MASKED_SENTENCE} is filled by {guesses}.",
        record,
        view,
        f'heedful inspect runs/encoder --text "{MASKED_SENTENCE}" --figure {view}.svg --view {view}',
    )


register_figure("mask-amazing", "Amazon is amazing", models=("encoder",))(
    partial(_draw_masked, view="answers", explanation="The encoder sees the words on both sides of the gap.")
)


@register_figure("mask-inputs", "The input of a BERT", models=("encoder",))
def draw_mask_inputs(runs: LectureRuns) -> FigureContent:
    """Draw the sum of word, position and segment for two texts with a gap."""
    second = "the book is great"
    record = runs.load("encoder").inspect(MASKED_SENTENCE, second)
    return FigureContent(
        draw_figure(record, view="inputs"),
        "The vectors of the word, its position and its segment are added. The segment says which of the two texts a "
        "word belongs to.",
        record,
        "architecture",
        f'heedful inspect runs/encoder --text "{MASKED_SENTENCE}" --pair "{second}" --figure inputs.svg --view inputs',
    )


@register_figure("next-sentence", "Does the second sentence follow?", models=("encoder",))
def draw_next_sentence(runs: LectureRuns) -> FigureContent:
    """Draw the answer to a pair of sentences; compare it with another pair, and with new pairs, in the caption."""
    encoder, dice = runs.load("encoder"), Random("next")
    first, follower, stranger = (
        "the boat lay at the bank near the river.",
        "a heron sat on the muddy bank.",
        "the clerk of the bank signed the loan.",
    )

    def follows(left: str, right: str) -> float:
        """Return the probability that the second text belongs to the first."""
        answer = encoder.inspect(left, right, scope=_WEIGHTS_ONLY).answers[-1]
        return float(next(option.probability for option in answer.options if option.name == "yes"))

    right = 0
    for _ in range(40):
        subjects = dice.sample((RIVER, MONEY, "good", "bad"), 2)
        left = f"{sample_sentence(subjects[0], dice)}."
        right += follows(left, f"{sample_sentence(subjects[0], dice)}.") > follows(
            left, f"{sample_sentence(subjects[1], dice)}."
        )
    record = encoder.inspect(first, follower)
    return FigureContent(
        draw_figure(record, view="answers"),
        f"“{first}” is followed by “{follower}” with {follows(first, follower):.2f}, and by “{stranger}” with "
        f"{follows(first, stranger):.2f}. Of 40 new pairs, the one about the same subject is more probable in {right}.",
        record,
        "answers",
        f'heedful inspect runs/encoder --text "{first}" --pair "{follower}" --figure answers.svg --view answers',
    )


@register_figure(
    "pretraining-pays",
    "From scratch, frozen, tuned",
    models=("reviews-scratch", "reviews-frozen", "reviews-tuned"),
)
def draw_pretraining(runs: LectureRuns) -> FigureContent:
    """Plot the accuracy of three classifiers that learned from 16 sentences."""
    names = {"reviews-scratch": "scratch", "reviews-frozen": "frozen", "reviews-tuned": "tuned"}
    comparison = compare_on_test(runs, tuple(names))
    values = [report.metrics["accuracy"].value for report in comparison.reports]
    shares = ", ".join(f"{label} {value:.0%}" for label, value in zip(names.values(), values, strict=True))
    return FigureContent(
        draw_line_plot(
            [PlotLine("right classes", tuple((place, 100 * value) for place, value in enumerate(values, 1)))],
            title="A classifier that learned from 16 sentences",
            x_name="start",
            y_name="percent",
            x_ticks=list(enumerate(names.values(), 1)),
            y_include=0,
        ),
        f"The encoder has read text without labels before. Right classes of 200 new sentences: {shares}.",
        command=f"heedful compare {' '.join(f'runs/{name}' for name in names)}",
    )
