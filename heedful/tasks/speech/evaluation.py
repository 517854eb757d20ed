"""Evaluation of speech recognition."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from heedful.atomic_io import compute_digest
from heedful.errors import DataError
from heedful.metrics.error_rates import character_error_rate, word_error_rate
from heedful.metrics.metric import Metric, build_mean_metric
from heedful.recipes.recipe import Recipe
from heedful.tasks.evaluation import DEFAULT_OPTIONS, Evaluator, EvaluatorOptions
from heedful.tasks.speech.data import Utterance
from heedful.tasks.speech.predictor import SpeechRecognizer


@dataclass(frozen=True)
class SpeechOutputs:
    """The transcripts of a system, and how long it took.

    Attributes:
        texts: one per sound.
        decoding_seconds: time that transcription took.
        sound_seconds: total length of the sounds.
    """

    texts: tuple[str, ...]
    decoding_seconds: float
    sound_seconds: float


@final
class SpeechEvaluator(Evaluator):
    """Evaluator of transcripts; case counts, runs of spaces count as one.

    Args:
        utterances: the utterances to transcribe; those without a text are left out.
        text: the file that they come from.
        part: of the data; empty if a file was named.
        options: evaluation options; `search` applies to sounds.

    Raises:
        DataError: there are no utterances.
    """

    progress_text = "listening"

    def __init__(
        self, utterances: Sequence[Utterance], *, text: str, part: str = "", options: EvaluatorOptions = DEFAULT_OPTIONS
    ) -> None:
        self.utterances = [utterance for utterance in utterances if utterance.text]
        if not self.utterances:
            raise DataError(f"{text}: no recordings to measure on; give a part that has some")
        self.data_description, self.part, self.options = text, part, options
        self.size = len(self.utterances)
        self.inputs = [compute_digest(utterance.sound) for utterance in self.utterances]
        self.reference_answers = self.texts = [" ".join(utterance.text.split()) for utterance in self.utterances]

    def predict(self, predictor: SpeechRecognizer, recipe: Recipe) -> SpeechOutputs:
        """Transcribe all sounds and measure the time."""
        generation = predictor.generation if self.options.search is None else self.options.search(predictor.generation)
        start_time = time.perf_counter()
        transcriptions = predictor.transcribe([each.sound for each in self.utterances], generation=generation)
        seconds = time.perf_counter() - start_time
        return SpeechOutputs(
            tuple(each.text for each in transcriptions), seconds, sum(each.seconds for each in transcriptions)
        )

    def compute_metrics(self, answers: SpeechOutputs) -> Mapping[str, Metric]:
        """Return word error rate, character error rate and exact match, in percent."""
        texts = [" ".join(text.split()) for text in answers.texts]
        return {
            "word errors": word_error_rate(texts, self.texts),
            "character errors": character_error_rate(texts, self.texts),
            "exact": build_mean_metric(
                [100.0 * (text == reference) for text, reference in zip(texts, self.reference_answers, strict=True)]
            ),
        }
