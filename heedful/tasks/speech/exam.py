"""What recognisers are asked, and what their texts are worth."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from heedful.errors import DataError
from heedful.metrics.edits import character_error_rate, word_error_rate
from heedful.metrics.metric import Metric, mean
from heedful.recipes.recipe import Recipe
from heedful.store import digest
from heedful.tasks.exam import PLAIN, Asking, Exam
from heedful.tasks.speech.data import Utterance
from heedful.tasks.speech.face import Recogniser


@dataclass(frozen=True)
class Heard:
    """What a system heard.

    Attributes:
        texts: of each sound.
        seconds: how long it took to listen.
        sound: how long the sounds are, in seconds.
    """

    texts: tuple[str, ...]
    seconds: float
    sound: float


@final
class SpeechExam(Exam):
    """Sounds and what is said in them; case and spaces count as the texts have them, but that spaces in a row are one.

    Args:
        utterances: what is asked; those without a text tell nothing, and are left out.
        text: the file that they are from.
        part: of the data; empty where a file was named.
        asking: what of it there is for sounds.

    Raises:
        DataError: there are none.
    """

    doing = "listening"

    def __init__(self, utterances: Sequence[Utterance], *, text: str, part: str = "", asking: Asking = PLAIN) -> None:
        self.utterances = [each for each in utterances if each.text]
        if not self.utterances:
            raise DataError(f"{text}: no recordings to measure on; give a part that has some")
        self.text, self.part, self.asking = text, part, asking
        self.size = len(self.utterances)
        self.asked = [digest(each.sound) for each in self.utterances]
        self.right = self.texts = [" ".join(each.text.split()) for each in self.utterances]

    def answers(self, user: Recogniser, recipe: Recipe) -> Heard:
        """One pass over all sounds."""
        generation = user.generation if self.asking.search is None else self.asking.search(user.generation)
        began = time.perf_counter()
        found = user.transcribe([each.sound for each in self.utterances], generation=generation)
        seconds = time.perf_counter() - began
        return Heard(tuple(each.text for each in found), seconds, sum(each.seconds for each in found))

    def metrics(self, answers: Heard) -> Mapping[str, Metric]:
        """In percent: errors in words and in characters, and texts without any."""
        texts = [" ".join(text.split()) for text in answers.texts]
        return {
            "word errors": word_error_rate(texts, self.texts),
            "character errors": character_error_rate(texts, self.texts),
            "exact": mean([100.0 * (text == right) for text, right in zip(texts, self.right, strict=True)]),
        }
