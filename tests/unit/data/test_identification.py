"""Languages told apart by runs of letters."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from heedful import RunError
from heedful.data.language_identification import LanguageIdentifier

TEXTS = {
    "en": ["a dog runs through the snow", "two men are sitting on a bench", "the girl with the red hat is smiling"],
    "de": ["ein Hund rennt durch den Schnee", "zwei Männer sitzen auf einer Bank", "das Mädchen mit dem roten Hut"],
    "el": ["ένα σκυλί τρέχει στο χιόνι", "δύο άντρες κάθονται σε ένα παγκάκι"],
}


@pytest.fixture
def profiles() -> LanguageIdentifier:
    return LanguageIdentifier.learn((language, text) for language, texts in TEXTS.items() for text in texts)


def language(profiles: LanguageIdentifier, text: str) -> str:
    found = profiles.identify(text)
    assert found is not None
    return found.language


def longhand(texts: dict[str, list[str]], text: str, *, ids: int) -> dict[str, float]:
    """Naive Bayes over runs of one to four letters, without numbers that runs share."""

    def runs(text: str) -> list[str]:
        padded = f" {text} "
        return [padded[at : at + n] for n in range(1, 5) for at in range(len(padded) - n + 1)]

    scores = {}
    for name, own in texts.items():
        counts = Counter(runs(" ".join(own)))
        whole = counts.total() + 0.5 * ids
        scores[name] = sum(math.log((counts[run] + 0.5) / whole) for run in runs(text)) / 4
    most = max(scores.values())
    weights = {name: math.exp(score - most) for name, score in scores.items()}
    return {name: weight / sum(weights.values()) for name, weight in weights.items()}


def test_new_texts_are_told_apart(profiles: LanguageIdentifier) -> None:
    assert profiles.languages == ("de", "el", "en")
    assert profiles.size == 3
    for text, expected in {
        "the dog is sitting on the bench": "en",
        "der Hund sitzt auf der Bank": "de",
        "HUND UND MÄNNER": "de",
        "το σκυλί κάθεται": "el",
    }.items():
        assert language(profiles, text) == expected


def test_probabilities_are_those_of_bayes() -> None:
    texts = {"one": ["abab", "abba"], "two": ["caca", "acca"]}
    profiles = LanguageIdentifier.learn((name, text) for name, own in texts.items() for text in own)
    for text in ("ab", "acab", "bcbc"):
        found = profiles.identify(text)
        assert found is not None
        expected = longhand(texts, text, ids=1 << 14)
        assert found.language == max(expected, key=lambda name: expected[name])
        assert found.probability == pytest.approx(expected[found.language], abs=1e-4)  # float32 logarithms


def test_all_languages_are_ranked(profiles: LanguageIdentifier) -> None:
    ranked = profiles.rank_languages("der Hund sitzt auf the bench")
    assert [each.language for each in ranked] == ["de", "en", "el"]
    assert sum(each.probability for each in ranked) == pytest.approx(1)
    assert ranked[0] == profiles.identify("der Hund sitzt auf the bench")
    assert profiles.rank_languages("12 !?") == []


def test_what_several_know_is_known_together(profiles: LanguageIdentifier) -> None:
    apart = [
        LanguageIdentifier.learn((name, text) for name in names for text in TEXTS[name])
        for names in (("en",), ("de", "el"))
    ]
    together = LanguageIdentifier.merge(apart, languages=TEXTS)
    assert together is not None and together.languages == profiles.languages
    assert together.rank_languages("der Hund sitzt") == profiles.rank_languages("der Hund sitzt")


def test_of_what_several_know_the_mean_counts() -> None:
    one, other = (LanguageIdentifier.learn([("a", text), ("b", "zzz")]) for text in ("mmm", "nnn"))
    together = LanguageIdentifier.merge([one, other], languages=("a", "b"))
    assert together is not None and together.languages == ("a", "b")
    for text in ("mm", "nn"):
        assert language(together, text) == "a"
    own = np.exp([each._log_probs[0] for each in (one, other)])
    assert np.exp(together._log_probs[0]) == pytest.approx(own.mean(0), rel=1e-5)


def test_languages_that_nobody_asks_for_are_left_out(profiles: LanguageIdentifier) -> None:
    some = LanguageIdentifier.merge([profiles], languages=("de", "fr"))
    assert some is not None and some.languages == ("de",)
    assert LanguageIdentifier.merge([profiles], languages=("fr",)) is None
    assert LanguageIdentifier.merge([], languages=("fr",)) is None


def test_what_is_no_letter_says_nothing(profiles: LanguageIdentifier) -> None:
    for text in ("", " ", "12 !?", "1_2", "\t\n", "😀"):
        assert profiles.identify(text) is None
    assert profiles.identify("  (12) Hund, 7!\n") == profiles.identify("hund")


def test_a_longer_text_is_surer(profiles: LanguageIdentifier) -> None:
    short, long = profiles.identify("der"), profiles.identify("der Hund rennt durch den Schnee")
    assert short is not None
    assert long is not None
    assert 1 / 3 < short.probability < long.probability <= 1


def test_texts_of_any_letters_are_read(profiles: LanguageIdentifier) -> None:
    for text in ("\U0001d518nicode", "a" * 100_000, "\u0000\ufffe", "e\u0301", "漢字"):
        assert profiles.identify(text) is None or 1 / 3 <= language_probability(profiles, text) <= 1


def language_probability(profiles: LanguageIdentifier, text: str) -> float:
    found = profiles.identify(text)
    assert found is not None
    return found.probability


def test_only_the_first_texts_of_a_language_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.data.language_identification.MAX_TEXTS", 2)
    both = [("x", "aaa"), ("x", "bbb"), ("y", "ccc"), ("x", "cccccc")]
    more, fewer = LanguageIdentifier.learn(both), LanguageIdentifier.learn(both[:3])
    assert language(more, "cc") == "y"
    assert more.identify("cab") == fewer.identify("cab")


def test_saved_profiles_are_the_same(profiles: LanguageIdentifier, tmp_path: Path) -> None:
    path = tmp_path / "languages.safetensors"
    profiles.save(path)
    again = LanguageIdentifier.load(path)
    assert repr(again) == repr(profiles) == "LanguageIdentifier(de, el, en)"
    for text in ("ein the snow", "μια"):
        assert again.identify(text) == profiles.identify(text)
    first = path.read_bytes()
    profiles.save(path)
    assert path.read_bytes() == first


def test_a_damaged_file_is_told(profiles: LanguageIdentifier, tmp_path: Path) -> None:
    path = tmp_path / "languages.safetensors"
    with pytest.raises(RunError, match=r"languages\.safetensors: cannot be read"):
        LanguageIdentifier.load(path)
    profiles.save(path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(RunError, match="holds no languages that this heedful reads; restore it or train again"):
        LanguageIdentifier.load(path)
    for tables in (
        {},
        {"other": np.zeros(1 << 14, np.float32)},
        {"2/en": np.zeros(1 << 14, np.float32)},
        {"1/en": np.zeros(4, np.float32)},
        {"1/en": np.zeros(1 << 14, np.float32), "2/de": np.zeros(1 << 14, np.float32)},
    ):
        save_file(tables, path)
        with pytest.raises(RunError, match="holds no languages that this heedful reads"):
            LanguageIdentifier.load(path)
