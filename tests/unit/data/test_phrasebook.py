"""The phrasebook: real translations, held out by content, the same from the same seed, in every language."""

from __future__ import annotations

import calendar
import hashlib
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterable
from datetime import date

import pytest

from heedful.data import phrasebook as module
from heedful.data.phrasebook import Phrasebook, PhrasePair, build_phrasebook, list_languages
from heedful.errors import MissingExtraError, RecipeError

pytest.importorskip("babel", reason='needs pip install "heedful[quickstart]"')
pytest.importorskip("num2words", reason='needs pip install "heedful[quickstart]"')


def words(text: str) -> list[str]:
    return text.split()


MONTHS = list(calendar.month_name)[1:]
WEEKDAYS = list(calendar.day_name)
MONATE = words("Januar Februar März April Mai Juni Juli August September Oktober November Dezember")
WOCHENTAGE = words("Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag")
SMALL = words("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen")
SMALL += words("fifteen sixteen seventeen eighteen nineteen")
TENS = words("- - twenty thirty forty fifty sixty seventy eighty ninety")
KLEIN = words("null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn")
KLEIN += words("fünfzehn sechzehn siebzehn achtzehn neunzehn")
ZEHNER = words("- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig")
IRREGULAR = {"first": "one", "second": "two", "third": "three", "fifth": "five", "eighth": "eight"}
IRREGULAR |= {"ninth": "nine", "twelfth": "twelve"}


def english_number(text: str) -> int | None:
    """The value of a cardinal or ordinal, or None for anything else."""
    value = 0
    for word in re.sub(r"[,-]", " ", text).replace(" and ", " ").split():
        stem = IRREGULAR.get(word, re.sub(r"th$", "", word))
        stem = re.sub(r"ie$", "y", stem)
        if stem in SMALL:
            value += SMALL.index(stem)
        elif stem in TENS:
            value += 10 * TENS.index(stem)
        elif stem == "hundred":
            value += 99 * (value % 100)
        elif stem == "thousand":
            value *= 1000
        else:
            return None
    return value


def german_number(n: int) -> str:
    if n >= 1000:
        rest = german_number(n % 1000) if n % 1000 else ""
        return KLEIN[n // 1000] + "tausend" + rest
    if n >= 100:
        rest = german_number(n % 100) if n % 100 else ""
        return KLEIN[n // 100] + "hundert" + rest
    if n == 1:
        return "eins"
    if n < 20:
        return KLEIN[n]
    return (KLEIN[n % 10] + "und" if n % 10 else "") + ZEHNER[n // 10]


def english_year(text: str) -> int:
    """twenty fifty-six, nineteen hundred, nineteen oh-five, two thousand and five."""
    if "thousand" in text:
        value = english_number(text)
        assert value is not None
        return value
    century, rest = text.replace("oh-", "").split(" ", 1)
    lower = 0 if rest == "hundred" else english_number(rest)
    value = english_number(century)
    assert value is not None
    assert lower is not None
    return 100 * value + lower


def minute(text: str) -> int | None:
    """Minutes since midnight of an English time of day in a sentence."""
    found = re.search(r"(\d+):(\d\d) (AM|PM|in the (?:morning|afternoon|evening)|at night|noon|midnight)", text)
    if found is None:
        return None
    hour, late = int(found[1]) % 12, found[3] in ("PM", "in the afternoon", "in the evening", "noon")
    late |= found[3] == "at night" and hour >= 6
    return 60 * (hour + 12 * late) + int(found[2])


def english_contents(sentence: str) -> set[tuple[str, int]]:
    """Every month of a year, time of day, and number from 100, read from the words of the sentence."""
    contents: set[tuple[str, int]] = set()
    month = re.search(rf"\b({'|'.join(m[:3] for m in MONTHS)})[a-z]* \d+(?: \u2013 \d+)?, (\d{{4}}|[a-z -]+)", sentence)
    if month:
        year = int(month[2]) if month[2].isdigit() else english_year(month[2].strip())
        contents.add(("month", 12 * year + [m[:3] for m in MONTHS].index(month[1])))
    if (time := minute(sentence)) is not None:
        contents.add(("minute", time))
    digits = re.fullmatch(r"(?:in )?(\d+) [a-zA-Z ]+", sentence)
    spelled = re.match(r"([a-z, -]+?)(?: (?:dollars?|euros?), |$)", sentence)
    number = int(digits[1]) if digits else english_number(spelled[1]) if spelled else None
    if number is not None and number >= 100:
        contents.add(("number", number))
    return contents


def said(pairs: Iterable[PhrasePair]) -> set[tuple[str, int]]:
    return {content for source, _ in pairs for content in english_contents(source)}


@pytest.fixture(scope="module")
def book() -> Phrasebook:
    return build_phrasebook(size=5000, held_out=300)


def test_nothing_that_is_held_out_is_spoken_about_in_training(book: Phrasebook) -> None:
    parts = [said(book.train), said(book.validation), said(book.test)]
    for i, part in enumerate(parts):
        assert {kind for kind, _ in part} == {"month", "minute", "number"}
        for other in parts[:i]:
            assert not part & other
    tested = sum(bool(english_contents(source)) for source, _ in book.test)
    assert tested >= 0.99 * len(book.test), "the parser of this test understands nearly all test sentences"


def test_dates_are_translated_by_the_calendar(book: Phrasebook) -> None:
    checked = 0
    for source, target in book.train:
        found = re.fullmatch(rf"({'|'.join(WEEKDAYS)}), ({'|'.join(MONTHS)}) (\d+), (\d{{4}})(.*)", source)
        if found:
            day = date(int(found[4]), MONTHS.index(found[2]) + 1, int(found[3]))
            assert found[1] == WEEKDAYS[day.weekday()]
            german = f"{WOCHENTAGE[day.weekday()]}, {day.day}. {MONATE[day.month - 1]} {day.year}"
            time = minute(found[5])
            assert target == german + ("" if time is None else f", {time // 60:02}:{time % 60:02}")
            checked += 1
    assert checked > 800


def test_german_numbers_put_units_before_tens(book: Phrasebook) -> None:
    checked = 0
    for source, target in book.train:
        number = english_number(source)
        if number is not None and not re.search(r"(st|nd|rd|th)$", source):
            assert target == german_number(number)
            checked += 1
    assert checked > 400
    assert german_number(4321) == "viertausenddreihunderteinundzwanzig"


def test_no_source_occurs_twice_and_every_pair_needs_translating(book: Phrasebook) -> None:
    pairs = book.train + book.validation + book.test
    assert [len(book.train), len(book.validation), len(book.test)] == [5000, 300, 300]
    assert len({source for source, _ in pairs}) == len(pairs)
    for source, target in pairs:
        assert source != target
        assert any(c.isalpha() for c in source), "a time in digits alone is no sentence"
        assert len(source.split()) <= 12
        assert len(target.split()) <= 12


def test_the_same_seed_gives_the_same_text_in_any_process() -> None:
    program = (
        "import hashlib; from heedful.data.phrasebook import build_phrasebook;"
        "book = build_phrasebook('fr', 'ru', seed=5, size=300, held_out=40);"
        "print(hashlib.sha256(repr(book).encode()).hexdigest())"
    )
    here = repr(build_phrasebook("fr", "ru", seed=5, size=300, held_out=40))
    expected = hashlib.sha256(here.encode()).hexdigest()
    environment = os.environ | {"PYTHONHASHSEED": "77"}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == expected


def test_seeds_hold_out_different_contents_and_sizes_share_them() -> None:
    one, other = (build_phrasebook(seed=seed, size=300, held_out=100) for seed in (0, 1))
    assert said(one.test) & said(other.train)
    assert one.train != other.train
    larger = build_phrasebook(seed=0, size=900, held_out=100)
    assert (larger.test, larger.validation) == (one.test, one.validation)
    assert larger.train[:300] == one.train


ALL = {
    "date", "moment", "spoken date", "spoken moment", "weekday and time", "interval", "number", "ordinal",
    "price", "measure", "distance in time",
}  # fmt: skip
LACKING = {
    "de": set(), "fr": set(), "es": set(), "it": set(), "ru": set(), "pl": set(), "ko": set(), "he": set(),
    "ja": {"price"}, "ar": {"price"}, "tr": {"price"}, "cs": {"ordinal"}, "sr": {"ordinal"},
    "sv": {"spoken date", "spoken moment", "price"}, "vi": {"spoken date", "spoken moment", "price"},
}  # fmt: skip


@pytest.mark.parametrize("language", LACKING)
def test_a_language_loses_only_the_kinds_it_lacks(language: str) -> None:
    book = build_phrasebook("en", language, size=150, held_out=20)
    assert set(book.kinds) == ALL - LACKING[language]


@pytest.mark.parametrize("language", [code for code in list_languages() if code != "en"])
def test_every_language_writes_plain_text(language: str) -> None:
    book = build_phrasebook(language, "en", size=20, held_out=5)
    for pair in book.train + book.validation + book.test:
        for text in pair:
            assert text == unicodedata.normalize("NFC", " ".join(text.split(" ")))
            assert not re.search(r"[^\S ]|  |^ | $|[\u200e\u200f\u061c]|(?:length|mass|volume)-[a-z]", text), text


@pytest.mark.parametrize(
    ("language", "english", "theirs"),
    [
        ("fr", "April 25, twenty fifty-six", "25 avril deux mille cinquante-six"),
        ("ja", "December 18, nineteen seventy-six", "昭和五十一年12月18日"),
        ("ko", "December 18, nineteen seventy-six", "천구백칠십육년 12월 18일"),
        ("hu", "December 18, nineteen seventy-six", "ezerkilencszázhetvenhat december 18."),
        ("sr", "December 18, nineteen seventy-six", "18. decembar jedna hiljada devetsto sedamdeset šest"),
        ("es", "Wednesday 2:36 in the morning", "miércoles 2:36 de la madrugada"),
        ("tr", "in 759 hours", "759 saat sonra"),
        ("it", "in 759 hours", "tra 759 ore"),
        ("ru", "three dollars, thirty cents", "три доллара, тридцать центов"),
        ("pl", "three kilograms", "3 kilogramy"),
    ],
)
def test_words_of_other_languages(language: str, english: str, theirs: str) -> None:
    """Known sentences, written by the same code that fills the book."""
    voices = tuple(module._LanguageWriter(code) for code in ("en", language))
    contents = {
        "April": ("spoken date", module.datetime(2056, 4, 25), 1, 0),
        "December": ("spoken date", module.datetime(1976, 12, 18), 1, 0),
        "Wednesday": ("weekday and time", module.datetime(2024, 5, 1, 2, 36), 1, 0),
        "in": ("distance in time", module.datetime(2000, 1, 1), 759, 1),
        "three": ("price", module.datetime(2000, 1, 1), 3, 58),
    }
    name, moment, number, pick = contents[re.split(r"\W", english)[0]]
    if "kilograms" in english:
        name, pick = "measure", module._UNITS.index("mass-kilogram")
        english = "3 kilograms"
    kind = next(kind for kind in module._SENTENCE_KINDS if kind.name == name)
    assert module._write_pair(kind, module._PhraseContent(moment, number, pick), voices) == (english, theirs)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("en", "xx", r"language 'xx': available are .*de, .*ja"),
        ("German", "en", r"'German': did you mean (.* or )?de\b"),
        ("en", "français", r"did you mean (.* or )?fr\b"),
        ("en", "", "language ''"),
        ("../en", "de", "language '../en'"),
        ("en", "zh", "language 'zh'"),
        ("de", "de", "in the same way"),
    ],
)
def test_languages_it_does_not_know(source: str, target: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        build_phrasebook(source, target, size=10, held_out=5)


def test_a_region_may_be_written_with_a_hyphen() -> None:
    assert build_phrasebook("pt-BR", "de", size=20, held_out=5) == build_phrasebook("pt_BR", "de", size=20, held_out=5)


@pytest.mark.parametrize("sizes", [(0, 5), (5, 0), (-1, 5)])
def test_sizes_must_be_positive(sizes: tuple[int, int]) -> None:
    with pytest.raises(RecipeError, match="at least 1"):
        build_phrasebook(size=sizes[0], held_out=sizes[1])


def test_more_sentences_than_there_are_names_the_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    ordinals = tuple(kind for kind in module._SENTENCE_KINDS if kind.name == "ordinal")
    monkeypatch.setattr(module, "_SENTENCE_KINDS", ordinals)
    with pytest.raises(RecipeError, match="1,000 train pairs from en to de") as refused:
        build_phrasebook(size=1000, held_out=20)
    largest = int(re.search(r"at most ([\d,]+)", str(refused.value))[1].replace(",", ""))
    assert 800 < largest < 999
    assert len(build_phrasebook(size=largest, held_out=20).train) == largest


@pytest.mark.parametrize("library", ["babel.localedata", "num2words"])
def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=r'pip install "heedful\[quickstart\]"'):
        build_phrasebook()
