"""Identify the language of a text by naive Bayes over character n-grams, learned from texts of each language.

Character n-grams of up to four letters tell languages apart (Cavnar and Trenkle 1994). So a model knows the languages
it was trained on, without a table of all the languages of the world. A text in any other language is taken for the
known language that is most similar.
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

from heedful.atomic_io import write_atomic
from heedful.errors import RunError
from heedful.files import read_bytes

_MAX_FILE_BYTES: Final = 2**29
"""Largest size of a file of profiles, in bytes: enough for a thousand languages."""
_KEY_PREFIX: Final = "1/"
"""Prefix of the names of languages in a file; it is the version of the format."""
_MAX_NGRAM: Final = 4
"""Letters of a run."""
_HASH_BITS: Final = 14
"""Runs share as many numbers as these give, since few are common."""
MAX_TEXTS: Final = 10_000
"""Largest number of texts used of each language; more change nothing."""
_SMOOTHING: Final = 0.5
"""Count given to an n-gram number that never occurred."""
_NO_LETTERS: Final = re.compile(r"[\W\d_]+")
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
"""An odd number whose products spread over all bits (Knuth's multiplicative hash, of 64 bits)."""


class LanguagePrediction(NamedTuple):
    """A language and its probability among the known languages."""

    language: str
    probability: float


@final
class LanguageIdentifier:
    """Identifies languages by the frequencies of hashed character n-grams.

    Args:
        languages: names of the languages, sorted.
        log_probs: log probability of each hashed n-gram in each language, [L, N].
    """

    def __init__(self, languages: Sequence[str], log_probs: Float[np.ndarray, "L N"]) -> None:
        self.languages = tuple(languages)
        self._log_probs = log_probs

    def __repr__(self) -> str:
        return f"LanguageIdentifier({', '.join(self.languages)})"

    @classmethod
    def learn(cls, texts: Iterable[tuple[str, str]]) -> LanguageIdentifier:
        """Learn from pairs of a language and a text; at most `MAX_TEXTS` texts of each language are used."""
        texts_by_language = dict[str, list[str]]()
        for language, text in texts:
            own_texts = texts_by_language.setdefault(language, [])
            if len(own_texts) < MAX_TEXTS:
                own_texts.append(text)
        names = sorted(texts_by_language)
        counts = [
            np.bincount(_hash_ngrams(" ".join(texts_by_language[name])), minlength=1 << _HASH_BITS) + _SMOOTHING
            for name in names
        ]
        return cls(names, np.log([own_texts / own_texts.sum() for own_texts in counts]).astype(np.float32))

    @classmethod
    def load(cls, path: Path) -> LanguageIdentifier:
        """Load the file that `save` wrote; raise `RunError` if it holds none."""
        try:
            tables = dict(sorted(load(read_bytes(path, max_bytes=_MAX_FILE_BYTES)).items()))
        except OSError as error:
            raise RunError(
                f"{path}: cannot be read ({error.strerror}); restore it from a copy or train again"
            ) from None
        except SafetensorError:
            tables = {}
        if not tables or any(
            not name.startswith(_KEY_PREFIX) or table.shape != (1 << _HASH_BITS,) for name, table in tables.items()
        ):
            raise RunError(f"{path}: holds no languages that this heedful reads; restore it or train again")
        return cls([name.removeprefix(_KEY_PREFIX) for name in tables], np.stack(list(tables.values())))

    @classmethod
    def merge(
        cls, identifiers: Iterable[LanguageIdentifier], *, languages: Container[str]
    ) -> LanguageIdentifier | None:
        """Merge several identifiers into one that knows the languages in `languages`; average the probabilities of
        a language that several know. Return None if no language is known.
        """
        rows_by_language = dict[str, list[np.ndarray]]()
        for identifier in identifiers:
            for language, row in zip(identifier.languages, identifier._log_probs, strict=True):
                if language in languages:
                    rows_by_language.setdefault(language, []).append(row)
        all_known = sorted(rows_by_language)
        log_means = [
            np.logaddexp.reduce(rows_by_language[name]) - np.log(len(rows_by_language[name])) for name in all_known
        ]
        return cls(all_known, np.array(log_means, np.float32)) if all_known else None

    @property
    def size(self) -> int:
        """How many languages there are."""
        return len(self.languages)

    def save(self, path: Path) -> None:
        """Write the identifier to a file that `load` reads, atomically; raise `RunError` if that fails."""
        tables = zip(self.languages, self._log_probs, strict=True)
        write_atomic(path, save({f"{_KEY_PREFIX}{language}": row for language, row in tables}))

    def identify(self, text: str) -> LanguagePrediction | None:
        """Return the most probable known language of a text; None if the text has no letters."""
        return next(iter(self.rank_languages(text)), None)

    def rank_languages(self, text: str) -> list[LanguagePrediction]:
        """Return all known languages, the most probable first; empty if the text has no letters."""
        ngrams = _hash_ngrams(text)
        if not len(ngrams):
            return []
        # each letter is in a run of each length, so the runs are not independent evidence
        scores = self._log_probs[:, ngrams].sum(1, dtype=np.float64) / _MAX_NGRAM
        likelihoods = np.exp(scores - scores.max())
        probabilities = likelihoods / likelihoods.sum()
        order = np.argsort(-likelihoods, kind="stable").tolist()
        return [LanguagePrediction(self.languages[index], float(probabilities[index])) for index in order]


def _hash_ngrams(text: str) -> Int[np.ndarray, R]:
    """Return the hashes of all character n-grams of 1 to 4 letters of a text; everything but letters becomes a space
    between words.
    """
    words = _NO_LETTERS.sub(" ", text.lower()).strip()
    if not words:
        return np.zeros(0, np.int64)
    letters = np.frombuffer(f" {words} ".encode("utf-32-le"), np.uint32).astype(np.uint64)
    hashes, rolling_hash = [], np.zeros(len(letters) + 1, np.uint64)
    for length in range(1, _MAX_NGRAM + 1):
        last_letters = letters[length - 1 :]
        rolling_hash = (rolling_hash[: len(last_letters)] + last_letters + np.uint64(1)) * _MULTIPLIER
        hashes.append(rolling_hash >> np.uint64(64 - _HASH_BITS))
    return np.concatenate(hashes).astype(np.int64)
