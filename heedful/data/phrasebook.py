"""The embedded translation task: dates, times, prices and numbers in the words of two languages.

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

Pair = tuple[str, str]


@dataclass(frozen=True)
class Phrasebook:
    """Sentences of one language beside their translations, held out by content.

    A month (of a year), a time of day or a number that a sentence of `test` or `validation` speaks about
    occurs in no sentence of another part, whatever its kind. Numbers below one hundred are the vocabulary of
    larger ones, so they are never held out.

    Attributes:
        train: pairs (source, target); no source occurs twice in the whole book.
        validation: pairs to choose a model by.
        test: pairs to report.
        kinds: the kinds of sentences that both languages can write.
    """

    train: tuple[Pair, ...]
    validation: tuple[Pair, ...]
    test: tuple[Pair, ...]
    kinds: tuple[str, ...]


def phrasebook(
    source: str = "en", target: str = "de", *, seed: int = 0, size: int = 20_000, held_out: int = 500
) -> Phrasebook:
    """A book of `size` training pairs and `held_out` pairs each for validation and test, made from a seed.

    The held-out parts do not depend on `size`, so larger and smaller books can be compared. A kind of
    sentence that either language cannot write, or that both write alike, is left out.

    Raises:
        RecipeError: an unknown language, two languages that write alike, or more sentences than there are.
        MissingExtraError: Babel or num2words is not installed.
    """
    voices = _Voice(_known(source)), _Voice(_known(target))
    if min(size, held_out) < 1:
        raise RecipeError(f"a phrasebook of {size} and {held_out} held-out pairs: each must be at least 1")
    pools = _pools(seed)
    kinds = tuple(kind for kind in _KINDS if _can_translate(kind, voices, pool=pools["train"]))
    if not kinds:
        raise RecipeError(f"{source} and {target} write every sentence alike: choose two different languages")
    seen: set[str] = set()
    parts: dict[str, tuple[Pair, ...]] = {}
    for part, count in (("test", held_out), ("validation", held_out), ("train", size)):
        random = Random(f"{part} {seed}")
        parts[part] = _pairs(count, kinds, voices, pool=pools[part], random=random, seen=seen)
        if len(parts[part]) < count:
            raise RecipeError(
                f"{count:,} {part} pairs from {source} to {target} are more than the phrasebook holds: "
                f"ask for at most {len(parts[part]):,}"
            )
    return Phrasebook(**parts, kinds=tuple(kind.name for kind in kinds))


def languages() -> tuple[str, ...]:
    """The codes that both libraries know, such as "de" and "pt_BR", sorted; `MissingExtraError` without them."""
    try:
        from babel.localedata import locale_identifiers
        from num2words import CONVERTER_CLASSES
    except ImportError as error:
        raise MissingExtraError(
            'the phrasebook needs Babel and num2words: pip install "heedful[quickstart]"'
        ) from error
    return tuple(sorted(set(CONVERTER_CLASSES) & set(locale_identifiers())))


def _known(language: str) -> str:
    code = language.replace("-", "_")
    known = languages()
    if code in known:
        return code
    from babel import Locale

    names = {}
    for each in known:
        locale = Locale.parse(each)
        for name in (each, locale.get_display_name("en"), locale.get_display_name(each)):
            names[str(name).lower()] = each
    near = difflib.get_close_matches(code.lower(), names, n=3)
    hint = f"did you mean {' or '.join(sorted({names[n] for n in near}))}? " if near else ""
    raise RecipeError(f"no phrasebook for the language {language!r}: {hint}It knows {', '.join(known)}")


# --- what is said ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Content:
    """What a sentence may speak about; each kind uses a part of it, `pick` for whatever is never held out."""

    moment: datetime
    number: int
    pick: int

    @property
    def days(self) -> tuple[date, date]:
        """Two different days of the moment's month, in order."""
        length = monthrange(self.moment.year, self.moment.month)[1]
        day = self.moment.date()
        other = day.replace(day=(day.day + self.pick % (length - 1)) % length + 1)
        return min(day, other), max(day, other)


@dataclass(frozen=True)
class _Pool:
    """What one part of the book speaks about: months of years, minutes of the day, and numbers by size."""

    months: Sequence[int]
    minutes: Sequence[int]
    numbers: Sequence[Sequence[int]]

    def draw(self, random: Random, largest: int) -> _Content:
        month, minute = random.choice(self.months), random.choice(self.minutes)
        year, month = divmod(month, 12)
        day = random.randint(1, monthrange(year, month + 1)[1])
        sizes = [group for group in self.numbers if group and group[0] <= largest]
        (numbers,) = random.choices(sizes, [len(str(group[-1])) for group in sizes])
        return _Content(
            datetime(year, month + 1, day, minute // 60, minute % 60),
            random.choice(numbers),
            random.randrange(1 << 16),
        )


_YEARS = range(1900, 2100)
_HELD_OUT_OF_100 = 7


def _pools(seed: int) -> dict[str, _Pool]:
    """Every content in exactly one part, chosen by its hash with the seed."""

    def divide(kind: str, values: Iterable[int]) -> dict[str, list[int]]:
        parts: dict[str, list[int]] = {"test": [], "validation": [], "train": []}
        for value in values:
            digest = hashlib.blake2b(f"{kind} {value} {seed}".encode(), digest_size=4).digest()
            place = int.from_bytes(digest, "big") % 100
            parts[("test", "validation", "train")[min(place // _HELD_OUT_OF_100, 2)]].append(value)
        return parts

    months = divide("month", range(_YEARS.start * 12, _YEARS.stop * 12))
    minutes = divide("minute", range(24 * 60))
    hundreds = divide("number", range(100, 1000))
    # Spoken years are numbers too ("mille neuf cent"), so numbers that are years belong to the dates alone.
    thousands = divide("number", (n for n in range(1000, 10_000) if n not in _YEARS))
    vocabulary: dict[str, Sequence[int]] = {"test": (), "validation": (), "train": range(1, 100)}
    return {
        part: _Pool(months[part], minutes[part], (vocabulary[part], hundreds[part], thousands[part]))
        for part in ("test", "validation", "train")
    }


def _pairs(
    count: int, kinds: Sequence[_Kind], voices: tuple[_Voice, _Voice], *, pool: _Pool, random: Random, seen: set[str]
) -> tuple[Pair, ...]:
    """New pairs until there are `count`, or until a thousand draws in a row gave none."""
    pairs: list[Pair] = []
    idle = 0
    while len(pairs) < count and idle < 1000:
        (kind,) = random.choices(kinds, [kind.share for kind in kinds])
        pair = _translate(kind, pool.draw(random, kind.largest), voices)
        idle += 1
        if pair is not None and pair[0] not in seen:
            seen.add(pair[0])
            pairs.append(pair)
            idle = 0
    return tuple(pairs)


# --- how it is said ----------------------------------------------------------------------------------------


class _Voice:
    """One language's way of writing: its CLDR locale and its number words."""

    def __init__(self, code: str) -> None:
        from babel import Locale

        self.code = code
        # num2words spells Serbian in Latin letters, CLDR's default is Cyrillic
        self.locale = Locale.parse("sr_Latn" if code == "sr" else code)

    @cached_property
    def words(self) -> Callable[..., str]:
        """num2words in this language, remembered: German takes a tenth of a millisecond per number."""
        from num2words import num2words

        return cache(lambda number, to="cardinal", **options: num2words(number, lang=self.code, to=to, **options))

    @cached_property
    def time_of_day(self) -> Callable[[str], str]:
        """From a CLDR skeleton (Bhm, EBhm) to the locale's pattern, weekday and day period written out."""

        def pattern(skeleton: str) -> str:
            text: str = self.locale.datetime_skeletons[skeleton].pattern
            return re.sub(r"'[^']*'|E+|c+|B+", lambda m: m[0] if m[0][0] == "'" else m[0][0] * 4, text)

        return cache(pattern)

    @cached_property
    def joined(self) -> str:
        """The locale's pattern that joins a time {0} and a date {1}."""
        return str(self.locale.datetime_formats["full"]).replace("'", "")


def _date(voice: _Voice, content: _Content, length: str = "full") -> str:
    from babel.dates import format_date

    return format_date(content.moment, length, voice.locale)


def _moment(voice: _Voice, content: _Content) -> str:
    from babel.dates import format_time

    time = format_time(content.moment, "short", locale=voice.locale)
    return voice.joined.format(time, _date(voice, content))


def _spoken_date(voice: _Voice, content: _Content, length: str = "long") -> str:
    before, after = _date(voice, content, length).split(str(content.moment.year))
    year = voice.words(content.moment.year, "year")
    after = after.removeprefix(".")  # Hungarian and Serbian mark an ordinal in digits by it, not one in words
    # Japanese and Korean years end with the word for year, and so does the date's pattern
    common = max(n for n in range(len(after) + 1) if year.endswith(after[:n]))
    return before + year + after[common:]


def _clock(voice: _Voice, content: _Content, skeleton: str = "EBhm") -> str:
    from babel.dates import format_datetime

    return format_datetime(content.moment, voice.time_of_day(skeleton), locale=voice.locale)


def _spoken_moment(voice: _Voice, content: _Content) -> str:
    return voice.joined.format(_clock(voice, content, "Bhm"), _spoken_date(voice, content, "full"))


def _interval(voice: _Voice, content: _Content) -> str:
    from babel.dates import format_interval

    return format_interval(*content.days, "yMMMd", locale=voice.locale)


_Unit = Literal["hour", "day", "week", "month", "year"]
_SECONDS: dict[_Unit, int] = {
    "hour": 3600, "day": 86_400, "week": 604_800, "month": 2_592_000, "year": 31_536_000,
}  # fmt: skip


def _distance(voice: _Voice, content: _Content) -> str:
    from babel.dates import format_timedelta

    unit = list(_SECONDS)[content.pick // 2 % len(_SECONDS)]
    delta = timedelta(seconds=content.number * _SECONDS[unit]) * (1 if content.pick % 2 else -1)
    return format_timedelta(delta, granularity=unit, threshold=1e9, add_direction=True, locale=voice.locale)


_MEASURES = (
    "length-kilometer", "length-meter", "length-mile", "mass-kilogram", "mass-gram", "volume-liter",
    "temperature-celsius", "duration-minute", "duration-second",
)  # fmt: skip


def _measure(voice: _Voice, content: _Content) -> str:
    from babel.units import format_unit

    unit = _MEASURES[content.pick % len(_MEASURES)]
    text = format_unit(content.number, unit, "long", locale=voice.locale)
    if unit in text:
        raise LookupError(f"CLDR has no word for {unit} in {voice.code}")
    return text


_CURRENCIES = ("USD", "EUR")
_FOREIGN_MONEY = ("ar", "hu", "kn", "te")  # num2words counts English "cents" there, and riyals in Arabic


def _price(voice: _Voice, content: _Content) -> str:
    if voice.code in _FOREIGN_MONEY:
        raise LookupError(f"no money in {voice.code}")
    amount = content.number + (1 + content.pick // 2 % 99) / 100
    return voice.words(amount, "currency", currency=_CURRENCIES[content.pick % 2])


@dataclass(frozen=True)
class _Kind:
    """A kind of sentence: its share of the book, the largest number in it, and how a language writes it."""

    name: str
    share: int
    largest: int
    write: Callable[[_Voice, _Content], str]


_KINDS = (
    _Kind("date", 14, 9999, _date),
    _Kind("moment", 12, 9999, _moment),
    _Kind("spoken date", 10, 9999, _spoken_date),
    _Kind("spoken moment", 10, 9999, _spoken_moment),
    _Kind("weekday and time", 8, 9999, _clock),
    _Kind("interval", 8, 9999, _interval),
    _Kind("number", 16, 9999, lambda voice, content: voice.words(content.number)),
    _Kind("ordinal", 6, 999, lambda voice, content: voice.words(content.number, "ordinal")),
    _Kind("price", 6, 999, _price),
    _Kind("measure", 6, 999, _measure),
    _Kind("distance in time", 6, 999, _distance),
)

_SPACES = re.compile(r"\s+")
_DIRECTION_MARKS = dict.fromkeys(map(ord, "\u200e\u200f\u061c"))


def _written(kind: _Kind, voice: _Voice, content: _Content) -> str | None:
    """The sentence with plain spaces, or None where the language has no words for it."""
    try:
        text = kind.write(voice, content)
    except Exception:  # each language of num2words says in its own way that it lacks a word
        return None
    return _SPACES.sub(" ", unicodedata.normalize("NFC", text).translate(_DIRECTION_MARKS)).strip() or None


def _translate(kind: _Kind, content: _Content, voices: tuple[_Voice, _Voice]) -> Pair | None:
    """The content in both languages; None where one cannot write it or where both write it alike."""
    source, target = (_written(kind, voice, content) for voice in voices)
    return None if source is None or target is None or source == target else (source, target)


def _can_translate(kind: _Kind, voices: tuple[_Voice, _Voice], *, pool: _Pool) -> bool:
    """Whether at least a third of some typical contents can be said."""
    random = Random(0)
    pairs = [_translate(kind, pool.draw(random, kind.largest), voices) for _ in range(30)]
    return sum(pair is not None for pair in pairs) >= 10
