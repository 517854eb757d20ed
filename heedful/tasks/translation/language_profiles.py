"""The languages that a translation run has learned from: what it keeps of them, and texts told apart by that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from heedful.atomic_io import read_manifest
from heedful.data.language_identification import MAX_TEXTS, LanguageIdentifier, LanguagePrediction
from heedful.errors import RunError
from heedful.tasks.predictor import TextLineFormat

if TYPE_CHECKING:
    from collections.abc import Iterable

    from heedful.data.readers import SentencePair
    from heedful.recipes.parallel_data import TranslationDirection

PROFILES_FILE: Final = "languages.safetensors"


def learn_profiles(texts: Sequence[tuple[TranslationDirection, Iterable[SentencePair]]]) -> LanguageIdentifier | None:
    """Of both sides of texts with their directions; None where there are none."""

    def iter_sides() -> Iterator[tuple[str, str]]:
        for direction, pairs in texts:
            assert direction.source is not None
            assert direction.target is not None
            for pair in islice(pairs, MAX_TEXTS):
                yield direction.source, pair.source
                yield direction.target, pair.target

    return LanguageIdentifier.learn(iter_sides()) if texts else None


def load_run_profiles(run: Path) -> LanguageIdentifier:
    """Those that a run has kept.

    Raises:
        RunError: it is no run, or has kept none.
    """
    read_manifest(run)
    if not (run / PROFILES_FILE).exists():
        raise RunError(
            f"{run}: knows no languages; name them in the recipe of a translation, source_language and target_language "
            "of its texts, and train again"
        )
    return LanguageIdentifier.load(run / PROFILES_FILE)


@final
@dataclass(frozen=True)
class LanguageLineFormat(TextLineFormat[LanguagePrediction | None]):
    """Texts in, languages out.

    Attributes:
        profiles: of the languages.
    """

    profiles: LanguageIdentifier

    def answer_inputs(self, inputs: Sequence[str], *, start: int) -> Sequence[LanguagePrediction | None]:
        """One of each."""
        return [self.profiles.identify(text) for text in inputs]

    def to_json(self, answer: LanguagePrediction | None) -> Any:
        """Language and probability; nulls where there is no letter."""
        language, probability = answer or (None, None)
        return {"language": language, "probability": probability}

    def format_answer(self, answer: LanguagePrediction | None) -> str:
        """Two columns."""
        return "\t\n" if answer is None else f"{answer.language}\t{answer.probability:.4f}\n"
