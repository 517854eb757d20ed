"""Generate a small translation corpus: dates, times, prices and numbers in the words of two languages.

Babel's CLDR data and num2words know how languages write the same content: "Thursday, March 3, 1994" and
"Donnerstag, 3. März 1994", "one thousand, two hundred and six" and "eintausendzweihundertsechs". It is real
language, needs no download, and cannot be translated word by word: days and months change places, German says
units before tens.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import unicodedata
from calendar import monthrange
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache, cached_property
from random import Random
from typing import Literal

from heedful.errors import MissingExtraError, RecipeError

PhrasePair = tuple[str, str]


@dataclass(frozen=True)
class Phrasebook:
    """Sentences with their translations, in parts that share no content.

    A month (of a year), a time of day or a number in a sentence of `test` or `validation` occurs in no sentence of
    another part, whatever the kind of sentence. Numbers below one hundred are the vocabulary of larger ones, so they
    are never held out.

    Attributes:
        train: pairs (source, target); no source occurs twice in the whole book.
        validation: pairs for choosing a model.
        test: pairs for the final evaluation.
        kinds: the kinds of sentences that both languages can write.
    """

    train: tuple[PhrasePair, ...]
    validation: tuple[PhrasePair, ...]
    test: tuple[PhrasePair, ...]
    kinds: tuple[str, ...]


def build_phrasebook(
    source: str = "en", target: str = "de", *, seed: int = 0, size: int = 20_000, held_out: int = 500
) -> Phrasebook:
    """Generate a phrasebook from the language `source` to `target`: `size` training pairs and `held_out` pairs each for
    validation and test, from a seed.

    The held-out parts do not depend on `size`, so larger and smaller books can be compared. A kind of sentence that
    either language cannot write, or that both write the same way, is left out.

    Raises:
        RecipeError: an unknown language, two languages that write everything the same way, or more sentences than there
            are.
        MissingExtraError: Babel or num2words is not installed.
    """
    writers = _LanguageWriter(_resolve_language(source)), _LanguageWriter(_resolve_language(target))
    if min(size, held_out) < 1:
        raise RecipeError(f"a phrasebook of {size} and {held_out} held-out pairs: each must be at least 1")
    pools = _build_pools(seed)
    kinds = tuple(kind for kind in _SENTENCE_KINDS if _can_translate(kind, writers, pool=pools["train"]))
    if not kinds:
        raise RecipeError(f"{source} and {target} write every sentence in the same way: choose two different languages")
    used_sources: set[str] = set()
    parts: dict[str, tuple[PhrasePair, ...]] = {}
    for part, count in (("test", held_out), ("validation", held_out), ("train", size)):
        random = Random(f"{part} {seed}")
        parts[part] = _sample_pairs(count, kinds, writers, pool=pools[part], rng=random, used_sources=used_sources)
        if len(parts[part]) < count:
            raise RecipeError(
                f"{count:,} {part} pairs from {source} to {target} are more than the phrasebook holds: "
                f"ask for at most {len(parts[part]):,}"
            )
    return Phrasebook(**parts, kinds=tuple(kind.name for kind in kinds))


def list_languages() -> tuple[str, ...]:
    """Return the language codes that both Babel and num2words know, such as "de" and "pt_BR", sorted; raise
    `MissingExtraError` if they are not installed.
    """
    try:
        from babel.localedata import locale_identifiers
        from num2words import CONVERTER_CLASSES
    except ImportError as error:
        raise MissingExtraError(
            'the phrasebook needs Babel and num2words: pip install "heedful[quickstart]"'
        ) from error
    return tuple(sorted(set(CONVERTER_CLASSES) & set(locale_identifiers())))


def _resolve_language(language: str) -> str:
    """Return the code of a known language; raise `RecipeError` with suggestions for any other."""
    code = language.replace("-", "_")
    known = list_languages()
    if code in known:
        return code
    from babel import Locale

    names = {}
    for known_code in known:
        locale = Locale.parse(known_code)
        for name in (known_code, locale.get_display_name("en"), locale.get_display_name(known_code)):
            names[str(name).lower()] = known_code
    near = difflib.get_close_matches(code.lower(), names, n=3)
    hint = f"did you mean {' or '.join(sorted({names[n] for n in near}))}? Available" if near else "available"
    raise RecipeError(f"no phrasebook for the language {language!r}: {hint} are {', '.join(known)}")


# --- what is said ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _PhraseContent:
    """The content of a sentence; each kind of sentence uses a part of it, and `variant` for choices that are never
    held out.
    """

    moment: datetime
    number: int
    variant: int

    @property
    def date_range(self) -> tuple[date, date]:
        """Two different days of the moment's month, in order."""
        length = monthrange(self.moment.year, self.moment.month)[1]
        day = self.moment.date()
        other = day.replace(day=(day.day + self.variant % (length - 1)) % length + 1)
        return min(day, other), max(day, other)


@dataclass(frozen=True)
class _ContentPool:
    """The content that one part of the book may use: months of years, minutes of the day, and numbers grouped by
    size.
    """

    months: Sequence[int]
    minutes: Sequence[int]
    numbers: Sequence[Sequence[int]]

    def sample_content(self, rng: Random, max_number: int) -> _PhraseContent:
        """Sample a date, a time and a number of this pool with `rng`; the number is at most about `max_number`."""
        month, minute = rng.choice(self.months), rng.choice(self.minutes)
        year, month = divmod(month, 12)
        day = rng.randint(1, monthrange(year, month + 1)[1])
        sizes = [group for group in self.numbers if group and group[0] <= max_number]
        (numbers,) = rng.choices(sizes, [len(str(group[-1])) for group in sizes])
        return _PhraseContent(
            datetime(year, month + 1, day, minute // 60, minute % 60),
            rng.choice(numbers),
            rng.randrange(1 << 16),
        )


_YEARS = range(1900, 2100)
_HELD_OUT_PERCENT = 7


def _build_pools(seed: int) -> dict[str, _ContentPool]:
    """Return the pool of content of each part of the book, by name; every month, minute and number belongs to exactly
    one, by its hash with the seed.
    """

    def split_values(kind: str, values: Iterable[int]) -> dict[str, list[int]]:
        """Split values of one kind between the three parts by their hashes."""
        parts: dict[str, list[int]] = {"test": [], "validation": [], "train": []}
        for value in values:
            digest = hashlib.blake2b(f"{kind} {value} {seed}".encode(), digest_size=4).digest()
            bucket = int.from_bytes(digest, "big") % 100
            parts[("test", "validation", "train")[min(bucket // _HELD_OUT_PERCENT, 2)]].append(value)
        return parts

    months = split_values("month", range(_YEARS.start * 12, _YEARS.stop * 12))
    minutes = split_values("minute", range(24 * 60))
    hundreds = split_values("number", range(100, 1000))
    # Spoken years are numbers too ("mille neuf cent"), so numbers that are years belong to the dates alone.
    thousands = split_values("number", (n for n in range(1000, 10_000) if n not in _YEARS))
    vocabulary: dict[str, Sequence[int]] = {"test": (), "validation": (), "train": range(1, 100)}
    return {
        part: _ContentPool(months[part], minutes[part], (vocabulary[part], hundreds[part], thousands[part]))
        for part in ("test", "validation", "train")
    }


def _sample_pairs(
    count: int,
    kinds: Sequence[_SentenceKind],
    writers: tuple[_LanguageWriter, _LanguageWriter],
    *,
    pool: _ContentPool,
    rng: Random,
    used_sources: set[str],
) -> tuple[PhrasePair, ...]:
    """Sample pairs whose source is not in `used_sources`, and add it there, until there are `count`, or until a
    thousand samples in a row gave none.
    """
    pairs: list[PhrasePair] = []
    num_failures = 0
    while len(pairs) < count and num_failures < 1000:
        (kind,) = rng.choices(kinds, [kind.share for kind in kinds])
        pair = _write_pair(kind, pool.sample_content(rng, kind.max_number), writers)
        num_failures += 1
        if pair is not None and pair[0] not in used_sources:
            used_sources.add(pair[0])
            pairs.append(pair)
            num_failures = 0
    return tuple(pairs)


# --- how it is said ----------------------------------------------------------------------------------------


class _LanguageWriter:
    """One language's way of writing: its CLDR locale and its number words."""

    def __init__(self, code: str) -> None:
        from babel import Locale

        self.code = code
        # num2words spells Serbian in Latin letters, CLDR's default is Cyrillic
        self.locale = Locale.parse("sr_Latn" if code == "sr" else code)

    @cached_property
    def spell_number(self) -> Callable[..., str]:
        """Cached function num2words for this language (German takes a tenth of a millisecond a number)."""
        from num2words import num2words

        return cache(lambda number, to="cardinal", **options: num2words(number, lang=self.code, to=to, **options))

    @cached_property
    def get_time_pattern(self) -> Callable[[str], str]:
        """Cached function from a CLDR skeleton (Bhm, EBhm) to the locale's pattern, with weekday and day period
        written out.
        """

        def get_pattern(skeleton: str) -> str:
            """Return the pattern of a skeleton."""
            text: str = self.locale.datetime_skeletons[skeleton].pattern
            return re.sub(r"'[^']*'|E+|c+|B+", lambda m: m[0] if m[0][0] == "'" else m[0][0] * 4, text)

        return cache(get_pattern)

    @cached_property
    def date_time_pattern(self) -> str:
        """The locale's pattern that joins a time {0} and a date {1}."""
        return str(self.locale.datetime_formats["full"]).replace("'", "")


def _format_date(writer: _LanguageWriter, content: _PhraseContent, length: str = "full") -> str:
    """Write the date of a content in the language of the writer; `length` is a length of Babel, such as "full"."""
    from babel.dates import format_date

    return format_date(content.moment, length, writer.locale)


def _format_moment(writer: _LanguageWriter, content: _PhraseContent) -> str:
    """Write the date and the time of a content in the language of the writer, in digits."""
    from babel.dates import format_time

    time = format_time(content.moment, "short", locale=writer.locale)
    return writer.date_time_pattern.format(time, _format_date(writer, content))


def _format_spoken_date(writer: _LanguageWriter, content: _PhraseContent, length: str = "long") -> str:
    """Write the date of a content in the language of the writer, with the year in words; `length` is one of Babel's
    lengths.
    """
    before, after = _format_date(writer, content, length).split(str(content.moment.year))
    year = writer.spell_number(content.moment.year, "year")
    after = after.removeprefix(".")  # Hungarian and Serbian mark an ordinal in digits by it, not one in words
    # Japanese and Korean years end with the word for year, and so does the date's pattern
    common = max(n for n in range(len(after) + 1) if year.endswith(after[:n]))
    return before + year + after[common:]


def _format_clock(writer: _LanguageWriter, content: _PhraseContent, skeleton: str = "EBhm") -> str:
    """Write the weekday and the time of day of a content in the language of the writer, by a CLDR skeleton."""
    from babel.dates import format_datetime

    return format_datetime(content.moment, writer.get_time_pattern(skeleton), locale=writer.locale)


def _format_spoken_moment(writer: _LanguageWriter, content: _PhraseContent) -> str:
    """Write the time of day and the date of a content in the language of the writer, with the year in words."""
    return writer.date_time_pattern.format(
        _format_clock(writer, content, "Bhm"), _format_spoken_date(writer, content, "full")
    )


def _format_interval(writer: _LanguageWriter, content: _PhraseContent) -> str:
    """Write the interval between two days of a content in the language of the writer."""
    from babel.dates import format_interval

    return format_interval(*content.date_range, "yMMMd", locale=writer.locale)


_TimeUnit = Literal["hour", "day", "week", "month", "year"]
_SECONDS: dict[_TimeUnit, int] = {
    "hour": 3600, "day": 86_400, "week": 604_800, "month": 2_592_000, "year": 31_536_000,
}  # fmt: skip


def _format_time_distance(writer: _LanguageWriter, content: _PhraseContent) -> str:
    """Write the number of a content as a distance in time in the language of the writer, such as "in 3 weeks"."""
    from babel.dates import format_timedelta

    unit = list(_SECONDS)[content.variant // 2 % len(_SECONDS)]
    delta = timedelta(seconds=content.number * _SECONDS[unit]) * (1 if content.variant % 2 else -1)
    return format_timedelta(delta, granularity=unit, threshold=1e9, add_direction=True, locale=writer.locale)


_UNITS = (
    "length-kilometer", "length-meter", "length-mile", "mass-kilogram", "mass-gram", "volume-liter",
    "temperature-celsius", "duration-minute", "duration-second",
)  # fmt: skip


def _format_measure(writer: _LanguageWriter, content: _PhraseContent) -> str:
    """Write the number of a content with a unit in the language of the writer; raise `LookupError` if the language has
    no word for the unit.
    """
    from babel.units import format_unit

    unit = _UNITS[content.variant % len(_UNITS)]
    text = format_unit(content.number, unit, "long", locale=writer.locale)
    if unit in text:
        raise LookupError(f"CLDR has no word for {unit} in {writer.code}")
    return text


_CURRENCIES = ("USD", "EUR")
_FOREIGN_MONEY = ("ar", "hu", "kn", "te")  # num2words counts English "cents" there, and riyals in Arabic


def _format_price(writer: _LanguageWriter, content: _PhraseContent) -> str:
    """Write the number of a content as a price in the words of the writer's language; raise `LookupError` for languages
    that num2words writes wrongly.
    """
    if writer.code in _FOREIGN_MONEY:
        raise LookupError(f"no money in {writer.code}")
    amount = content.number + (1 + content.variant // 2 % 99) / 100
    return writer.spell_number(amount, "currency", currency=_CURRENCIES[content.variant % 2])


@dataclass(frozen=True)
class _SentenceKind:
    """A kind of sentence: its share of the book, the largest number in it, and the function that writes it."""

    name: str
    share: int
    max_number: int
    write: Callable[[_LanguageWriter, _PhraseContent], str]


_SENTENCE_KINDS = (
    _SentenceKind("date", 14, 9999, _format_date),
    _SentenceKind("moment", 12, 9999, _format_moment),
    _SentenceKind("spoken date", 10, 9999, _format_spoken_date),
    _SentenceKind("spoken moment", 10, 9999, _format_spoken_moment),
    _SentenceKind("weekday and time", 8, 9999, _format_clock),
    _SentenceKind("interval", 8, 9999, _format_interval),
    _SentenceKind("number", 16, 9999, lambda voice, content: voice.spell_number(content.number)),
    _SentenceKind("ordinal", 6, 999, lambda voice, content: voice.spell_number(content.number, "ordinal")),
    _SentenceKind("price", 6, 999, _format_price),
    _SentenceKind("measure", 6, 999, _format_measure),
    _SentenceKind("distance in time", 6, 999, _format_time_distance),
)

_SPACES = re.compile(r"\s+")
_DIRECTION_MARKS = dict.fromkeys(map(ord, "\u200e\u200f\u061c"))


def _write_sentence(kind: _SentenceKind, writer: _LanguageWriter, content: _PhraseContent) -> str | None:
    """Write a content as a sentence of this kind in the language of the writer, with plain spaces; return None if the
    language has no words for it.
    """
    try:
        text = kind.write(writer, content)
    except Exception:  # each language of num2words says in its own way that it lacks a word
        return None
    return _SPACES.sub(" ", unicodedata.normalize("NFC", text).translate(_DIRECTION_MARKS)).strip() or None


def _write_pair(
    kind: _SentenceKind, content: _PhraseContent, writers: tuple[_LanguageWriter, _LanguageWriter]
) -> PhrasePair | None:
    """Write a content as a sentence of this kind in the languages of both writers; return None if one cannot write it
    or both write it the same way.
    """
    source, target = (_write_sentence(kind, writer, content) for writer in writers)
    return None if source is None or target is None or source == target else (source, target)


def _can_translate(
    kind: _SentenceKind, writers: tuple[_LanguageWriter, _LanguageWriter], *, pool: _ContentPool
) -> bool:
    """Return whether at least a third of some contents of the pool can be written as sentences of this kind in the
    languages of both writers.
    """
    rng = Random(0)
    pairs = [_write_pair(kind, pool.sample_content(rng, kind.max_number), writers) for _ in range(30)]
    return sum(pair is not None for pair in pairs) >= 10
