"""The languages that a translation run has learned from: what it keeps of them, and texts told apart by that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from heedful.data.identification import TEXTS, Identified, Profiles
from heedful.errors import RunError
from heedful.store import read_manifest
from heedful.tasks.faces import TextLines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from heedful.data.readers import Pair
    from heedful.recipes.directed import Direction

FILE: Final = "languages.safetensors"


def learn_profiles(texts: Sequence[tuple[Direction, Iterable[Pair]]]) -> Profiles | None:
    """Of both sides of texts with their directions; None where there are none."""

    def sides() -> Iterator[tuple[str, str]]:
        for direction, pairs in texts:
            assert direction.source is not None
            assert direction.target is not None
            for pair in islice(pairs, TEXTS):
                yield direction.source, pair.source
                yield direction.target, pair.target

    return Profiles.learn(sides()) if texts else None


def read_profiles(run: Path) -> Profiles:
    """Those that a run has kept.

    Raises:
        RunError: it is no run, or has kept none.
    """
    read_manifest(run)
    if not (run / FILE).exists():
        raise RunError(
            f"{run}: knows no languages; name them in the recipe of a translation, source_language and target_language "
            "of its texts, and train again"
        )
    return Profiles.load(run / FILE)


@final
@dataclass(frozen=True)
class IdentifiedLines(TextLines[Identified | None]):
    """Texts in, languages out.

    Attributes:
        profiles: of the languages.
    """

    profiles: Profiles

    def answers(self, inputs: Sequence[str], *, first: int) -> Sequence[Identified | None]:
        """One of each."""
        return [self.profiles.identify(text) for text in inputs]

    def record(self, answer: Identified | None) -> Any:
        """Language and probability; nulls where there is no letter."""
        language, probability = answer or (None, None)
        return {"language": language, "probability": probability}

    def text(self, answer: Identified | None) -> str:
        """Two columns."""
        return "\t\n" if answer is None else f"{answer.language}\t{answer.probability:.4f}\n"
