"""Which of some languages a text is in, learned from texts of each: naive Bayes over short runs of letters.

Runs of up to four letters tell languages apart (Cavnar and Trenkle 1994), and so a model knows those that it was
trained on, whichever they are, without a table of all the languages of the world. Of others it knows nothing, and takes
a text for the language that is most alike.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, final

import numpy as np
from jaxtyping import Float, Int
from safetensors import SafetensorError
from safetensors.numpy import load, save

from heedful.errors import RunError
from heedful.files import read_bytes
from heedful.store import write_whole

_LARGEST: Final = 2**29
"""Bytes of the profiles of a thousand languages."""
_KEY: Final = "1/"
"""Before the names of languages in a file, whose format it is."""
_LONGEST: Final = 4
"""Letters of a run."""
_BITS: Final = 14
"""Runs share as many numbers as these give, since few are common."""
TEXTS: Final = 10_000
"""Of each language; more change nothing."""
_UNSEEN: Final = 0.5
"""What a number counts that never occurred."""
_NO_LETTERS: Final = re.compile(r"[\W\d_]+")
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
"""An odd number whose products spread over all bits (Knuth's multiplicative hash, of 64 bits)."""


class Identified(NamedTuple):
    """A language, and how probable it is among those that are known."""

    language: str
    probability: float


@final
class Profiles:
    """How often runs of letters are in each language.

    Args:
        languages: their names, sorted.
        logarithms: of the probability of each number of a run, in each language.
    """

    def __init__(self, languages: Sequence[str], logarithms: Float[np.ndarray, "L N"]) -> None:
        self.languages = tuple(languages)
        self._logarithms = logarithms

    def __repr__(self) -> str:
        return f"Profiles({', '.join(self.languages)})"

    @classmethod
    def learn(cls, texts: Iterable[tuple[str, str]]) -> Profiles:
        """Of languages with texts; the first thousands of each count."""
        known = dict[str, list[str]]()
        for language, text in texts:
            own = known.setdefault(language, [])
            if len(own) < TEXTS:
                own.append(text)
        names = sorted(known)
        counts = [np.bincount(_runs(" ".join(known[name])), minlength=1 << _BITS) + _UNSEEN for name in names]
        return cls(names, np.log([own / own.sum() for own in counts]).astype(np.float32))

    @classmethod
    def load(cls, path: Path) -> Profiles:
        """Those that `save` wrote; `RunError` where there are none."""
        try:
            tables = dict(sorted(load(read_bytes(path, most=_LARGEST)).items()))
        except OSError as error:
            raise RunError(f"{path}: cannot be read ({error.strerror}); is the run complete?") from None
        except SafetensorError:
            tables = {}
        if not tables or any(not name.startswith(_KEY) or each.shape != (1 << _BITS,) for name, each in tables.items()):
            raise RunError(f"{path}: holds no languages that this heedful reads; restore it or train again")
        return cls([name.removeprefix(_KEY) for name in tables], np.stack(list(tables.values())))

    @classmethod
    def together(cls, several: Iterable[Profiles], *, languages: Container[str]) -> Profiles | None:
        """Some of the languages that several know, told apart by one; where more than one knows a language, what these
        expect of it is averaged. None where nobody knows any of them.
        """
        known = dict[str, list[np.ndarray]]()
        for each in several:
            for language, own in zip(each.languages, each._logarithms, strict=True):
                if language in languages:
                    known.setdefault(language, []).append(own)
        all_known = sorted(known)
        means = [np.logaddexp.reduce(known[name]) - np.log(len(known[name])) for name in all_known]
        return cls(all_known, np.array(means, np.float32)) if all_known else None

    @property
    def size(self) -> int:
        """How many languages there are."""
        return len(self.languages)

    def save(self, path: Path) -> None:
        """One file that `load` reads, written whole or not at all; `RunError` where it cannot."""
        tables = zip(self.languages, self._logarithms, strict=True)
        write_whole(path, save({f"{_KEY}{language}": own for language, own in tables}))

    def identify(self, text: str) -> Identified | None:
        """The language of a text that is one of these; None where it has no letters."""
        return next(iter(self.ranked(text)), None)

    def ranked(self, text: str) -> list[Identified]:
        """All of these, the most probable for a text first; none where it has no letters."""
        runs = _runs(text)
        if not len(runs):
            return []
        # each letter is in a run of each length, which are no witnesses that know nothing of each other
        scores = self._logarithms[:, runs].sum(1, dtype=np.float64) / _LONGEST
        likelihoods = np.exp(scores - scores.max())
        shares = likelihoods / likelihoods.sum()
        order = np.argsort(-likelihoods, kind="stable").tolist()
        return [Identified(self.languages[each], float(shares[each])) for each in order]


def _runs(text: str) -> Int[np.ndarray, R]:
    """Numbers of its runs of letters; words stand between spaces, and nothing else is left of what is no letter."""
    words = _NO_LETTERS.sub(" ", text.lower()).strip()
    if not words:
        return np.zeros(0, np.int64)
    letters = np.frombuffer(f" {words} ".encode("utf-32-le"), np.uint32).astype(np.uint64)
    found, run = [], np.zeros(len(letters) + 1, np.uint64)
    for length in range(1, _LONGEST + 1):
        behind = letters[length - 1 :]
        run = (run[: len(behind)] + behind + np.uint64(1)) * _MULTIPLIER
        found.append(run >> np.uint64(64 - _BITS))
    return np.concatenate(found).astype(np.int64)
