"""Names and codes of languages, and the language of texts as py3langid identifies it (Lui and Baldwin 2012)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

from heedful.language_tags import parse_tag

if TYPE_CHECKING:
    from heedful.data.detect.language_scorer import LanguageScorer

_NAME_TABLE: Final = """\
aa Afar
ab Abkhazian
af Afrikaans
ak Akan
am Amharic
an Aragonese
ar Arabic
as Assamese
av Avaric
ay Aymara
az Azerbaijani
ba Bashkir
be Belarusian
bg Bulgarian
bi Bislama
bm Bambara
bn Bengali
bo Tibetan
br Breton
bs Bosnian
ca Catalan
ce Chechen
ch Chamorro
co Corsican
cr Cree
cs Czech
cv Chuvash
cy Welsh
da Danish
de German
dv Divehi
dz Dzongkha
ee Ewe
el Greek
en English
eo Esperanto
es Spanish
et Estonian
eu Basque
fa Persian
ff Fula
fi Finnish
fj Fijian
fo Faroese
fr French
fy Western Frisian
ga Irish
gd Scottish Gaelic
gl Galician
gn Guarani
gu Gujarati
gv Manx
ha Hausa
he Hebrew
hi Hindi
ho Hiri Motu
hr Croatian
ht Haitian Creole
hu Hungarian
hy Armenian
hz Herero
ia Interlingua
id Indonesian
ie Interlingue
ig Igbo
ii Sichuan Yi
ik Inupiaq
io Ido
is Icelandic
it Italian
iu Inuktitut
ja Japanese
jv Javanese
ka Georgian
kg Kongo
ki Kikuyu
kj Kuanyama
kk Kazakh
kl Kalaallisut
km Khmer
kn Kannada
ko Korean
kr Kanuri
ks Kashmiri
ku Kurdish
kv Komi
kw Cornish
ky Kyrgyz
la Latin
lb Luxembourgish
lg Ganda
li Limburgish
ln Lingala
lo Lao
lt Lithuanian
lu Luba-Katanga
lv Latvian
mg Malagasy
mh Marshallese
mi Maori
mk Macedonian
ml Malayalam
mn Mongolian
mr Marathi
ms Malay
mt Maltese
my Burmese
na Nauru
nb Norwegian
nd North Ndebele
ne Nepali
ng Ndonga
nl Dutch
nn Norwegian Nynorsk
no Norwegian
nr South Ndebele
nv Navajo
ny Nyanja
oc Occitan
oj Ojibwa
om Oromo
or Odia
os Ossetic
pa Punjabi
pl Polish
ps Pashto
pt Portuguese
qu Quechua
rm Romansh
rn Rundi
ro Romanian
ru Russian
rw Kinyarwanda
sa Sanskrit
sc Sardinian
sd Sindhi
se Northern Sami
sg Sango
si Sinhala
sk Slovak
sl Slovenian
sm Samoan
sn Shona
so Somali
sq Albanian
sr Serbian
ss Swati
st Southern Sotho
su Sundanese
sv Swedish
sw Swahili
ta Tamil
te Telugu
tg Tajik
th Thai
ti Tigrinya
tk Turkmen
tl Tagalog
tn Tswana
to Tongan
tr Turkish
ts Tsonga
tt Tatar
tw Twi
ty Tahitian
ug Uyghur
uk Ukrainian
ur Urdu
uz Uzbek
ve Venda
vi Vietnamese
vo Volapük
wa Walloon
wo Wolof
xh Xhosa
yi Yiddish
yo Yoruba
za Zhuang
zh Chinese
zu Zulu"""
LANGUAGE_NAMES: Final[Mapping[str, str]] = dict(line.split(" ", 1) for line in _NAME_TABLE.split("\n"))
"""English names of languages by their two-letter code (ISO 639-1)."""
_CODES_BY_NAME: Final[Mapping[str, str]] = {name: code for code, name in LANGUAGE_NAMES.items() if code != "nb"}
"""Two-letter codes of languages by their English names."""
_OWN_CODES: Final[Mapping[str, str]] = {"nob": "nb", "src": "", "tgt": ""}
"""Two-letter codes of three letters that `heedful.language_tags` gives to a larger language; `src` is a source."""
SPACELESS_LANGUAGES: Final = frozenset({"ja", "zh", "th", "lo", "my", "km"})
"""Languages that are written without spaces between words."""
_COLUMN_NAME: Final = re.compile(r"(?:(?:text|sentence|source|target|src|tgt|trg|translation|lang|string)[ _.:-])?(.+)")
_TAG: Final = re.compile(r"[a-z]{2,3}(?:[_-][a-z]{2,4})*")
_MULTI_SCRIPT_LANGUAGES: Final = frozenset({"az", "kk", "ku", "mn", "pa", "sr", "uz", "zh"})
"""Languages whose tag must name the script, since readers may know only one of them."""
_SCRIPT_TAGS: Final = frozenset({"arab", "cyrl", "deva", "guru", "hans", "hant", "latn", "mong"})
_MIN_PROBABILITY: Final = 0.8
"""Probability from which on a language counts as identified. Of 39,324 texts of 20 words and more in 103 languages two
were then taken for a language that is not similar to theirs."""
_MAX_CHARACTERS: Final = 100_000
"""Largest number of characters that are read to identify a language."""
_TEXT_CHARACTERS: Final = 300
"""Number of characters of each text that are read, so that a few long ones do not decide."""
_STRETCH_CHARACTERS: Final = 1000
"""Number of characters that are identified together."""
_IDENTIFIED_VARIETIES: Final[Mapping[str, str]] = {
    **{"ary": "ar", "arz": "ar", "fuv": "ff", "gug": "gn", "hbo": "he", "kik": "ki", "sdh": "ku"},
    **{"wuu": "zh", "yue": "zh"},
}
"""Two-letter codes of what py3langid calls by the code of a variety."""
_SIMILAR_LANGUAGES: Final = tuple(
    frozenset(group.split())
    for group in (
        *("da no nb nn", "bs hr sr", "id ms", "cs sk", "pt gl", "hi mr ne sa", "be ru", "fa ur", "bg mk", "ja zh"),
        *("ba kk ky tk tt", "af nl li", "it sc co", "he yi", "rn rw", "nd nr ss xh zu", "st tn"),
    )
)
"""Groups of languages that are easily mistaken for each other; some of them are not known to py3langid."""


@dataclass(frozen=True)
class LanguageInfo:
    """A language, or the unknown language.

    Attributes:
        code: its two-letter code; empty if it is not known.
        variety: its script or region, such as `Hant` or `BR`; ignored in comparisons, since two varieties are one
            language.
    """

    code: str = ""
    variety: str = field(default="", compare=False)

    def __bool__(self) -> bool:
        return bool(self.code)

    def __str__(self) -> str:
        return f"{LANGUAGE_NAMES[self.code]} ({self.tag})" if self.code else "an unknown language"

    @property
    def tag(self) -> str:
        """Its tag (BCP 47) in recipes and servers, such as `de` or `pt-BR`; empty if it is not known."""
        return f"{self.code}-{self.variety}" if self.variety else self.code


def parse_language_code(word: str) -> LanguageInfo:
    """Parse a language code in the name of a file, such as `de`, `deu` or `pt_BR`; return the unknown language for
    other words.
    """
    base_code, _, rest = word.lower().replace("_", "-").partition("-")
    code = base_code if len(base_code) < 3 else _OWN_CODES.get(base_code, parse_tag(base_code).language)
    return LanguageInfo(code, _parse_variety(code, rest)) if code in LANGUAGE_NAMES else LanguageInfo()


def parse_column_language(name: str) -> LanguageInfo:
    """Return the language in the name of a column, such as `de`, `pt_BR`, `German` or `text_en`; the unknown
    language if there is none.
    """
    match = _COLUMN_NAME.fullmatch(name.strip().lower())
    if match is None:
        return LanguageInfo()
    language_part = match[1]
    if language_part.title() in _CODES_BY_NAME:
        return LanguageInfo(_CODES_BY_NAME[language_part.title()])
    return parse_language_code(language_part) if _TAG.fullmatch(language_part) else LanguageInfo()


def _parse_variety(code: str, subtags: str) -> str:
    """Return the script, if the language with this code is written in several, or else the region, from the subtags
    that follow the code in a tag; empty if there is none.
    """
    script, region = (
        re.search(f"(?<![a-z0-9]){form}(?![a-z0-9])", subtags) for form in ("[a-z]{4}", r"(?:[a-z]{2}|\d{3})")
    )
    if script and code in _MULTI_SCRIPT_LANGUAGES and script[0] in _SCRIPT_TAGS:
        return script[0].title()
    return region[0].upper() if region else ""


def is_similar_language(first: LanguageInfo, second: LanguageInfo) -> bool:
    """Return whether two languages are the same or hard to distinguish; the unknown language is not similar to any."""
    return first == second or any(first.code in group and second.code in group for group in _SIMILAR_LANGUAGES)


def is_other_language(guessed: LanguageInfo, expected: LanguageInfo) -> bool:
    """Return whether texts for which `guess_language` returned `guessed` are in another language than the expected one.

    That is not known if one of the languages is unknown, also to the identifier, which takes texts in such a language
    for texts in another one.
    """
    if not guessed or not expected or is_similar_language(guessed, expected):
        return False
    return expected.code in _list_codes()


def guess_language(texts: Iterable[str]) -> LanguageInfo:
    """Return the language of most of some texts; the unknown language if there is too little evidence.

    Probabilities are averaged over stretches, because py3langid becomes uncertain of long texts that repeat words.
    """
    text = " ".join(text[:_TEXT_CHARACTERS] for text in texts)[:_MAX_CHARACTERS]
    if not any(map(str.isalpha, text)):
        return LanguageInfo()
    stretches = [text[start : start + _STRETCH_CHARACTERS] for start in range(0, len(text), _STRETCH_CHARACTERS)]
    weights = defaultdict[str, float](float)
    for stretch, (code, probability) in zip(stretches, _identify_texts(stretches), strict=True):
        weights[code] += probability * len(stretch)
    code = max(weights, key=lambda key: weights[key])
    return _accept_language(code, weights[code] / len(text))


def guess_languages(texts: Sequence[str]) -> Sequence[LanguageInfo]:
    """Return the language of each text, as `guess_language` does for one; faster for many texts."""
    shortened = [text[:_TEXT_CHARACTERS] for text in texts]
    return [
        _accept_language(code, probability) if any(map(str.isalpha, text)) else LanguageInfo()
        for text, (code, probability) in zip(shortened, _identify_texts(shortened), strict=True)
    ]


def _accept_language(code: str, probability: float) -> LanguageInfo:
    """Return a language if it is probable enough; else the unknown language."""
    return LanguageInfo(code) if probability >= _MIN_PROBABILITY and code in LANGUAGE_NAMES else LanguageInfo()


def _identify_texts(texts: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Yield the code of the most probable language of each text, and its probability with that of its varieties."""
    codes, probabilities = _list_codes(), _load_scorer().score_texts(texts)
    for row, best in zip(probabilities, probabilities.argmax(1).tolist(), strict=True):
        code, probability = codes[best], float(row[best])
        if code in _IDENTIFIED_VARIETIES.values() and probability < _MIN_PROBABILITY:
            probability = sum(float(value) for value, other in zip(row, codes, strict=True) if other == code)
        yield code, probability


def _get_code(label: str) -> str:
    """Return the code of a language of py3langid, of two letters if it has one."""
    return _IDENTIFIED_VARIETIES.get(label, label)


@cache
def _list_codes() -> Sequence[str]:
    """Return the codes of the languages that are identified, in the order of the scorer's labels."""
    return [_get_code(label) for label in _load_scorer().labels]


@cache
def _load_scorer() -> LanguageScorer:
    """Load the model of py3langid, 104 MB in memory, which takes a third of a second."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    from heedful.data.detect.language_scorer import LanguageScorer

    return LanguageScorer(LanguageIdentifier.from_model_file(MODEL_FILE))
