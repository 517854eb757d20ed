"""Which language a text is in, by its script and its commonest words; good enough for a comment and a file's name."""

# ruff: noqa: RUF001  # letters of other scripts look like those of ours, and are meant

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from heedful.language_tags import is_same_language

_NAMES: Final = """\
af Afrikaans
am Amharic
ar Arabic
az Azerbaijani
be Belarusian
bg Bulgarian
bn Bengali
bs Bosnian
ca Catalan
cs Czech
cy Welsh
da Danish
de German
el Greek
en English
eo Esperanto
es Spanish
et Estonian
eu Basque
fa Persian
fi Finnish
fr French
ga Irish
gl Galician
gu Gujarati
he Hebrew
hi Hindi
hr Croatian
hu Hungarian
hy Armenian
id Indonesian
is Icelandic
it Italian
ja Japanese
ka Georgian
kk Kazakh
km Khmer
kn Kannada
ko Korean
la Latin
lo Lao
lt Lithuanian
lv Latvian
mk Macedonian
ml Malayalam
mn Mongolian
mr Marathi
ms Malay
mt Maltese
my Burmese
ne Nepali
nl Dutch
no Norwegian
nb Norwegian
nn Norwegian Nynorsk
pa Punjabi
pl Polish
pt Portuguese
ro Romanian
ru Russian
si Sinhala
sk Slovak
sl Slovenian
sq Albanian
sr Serbian
sv Swedish
sw Swahili
ta Tamil
te Telugu
th Thai
tl Tagalog
tr Turkish
uk Ukrainian
ur Urdu
uz Uzbek
vi Vietnamese
xh Xhosa
zh Chinese
zu Zulu"""
NAMES: Final[Mapping[str, str]] = dict(line.split(" ", 1) for line in _NAMES.split("\n"))
"""Languages by their two letters (ISO 639-1)."""
_LONGER: Final = """\
ara=ar ben=bn bul=bg cat=ca ces=cs cze=cs dan=da deu=de ger=de ell=el eng=en est=et fas=fa fin=fi fra=fr fre=fr heb=he
hin=hi hrv=hr hun=hu ind=id isl=is ita=it jpn=ja kor=ko lat=la lit=lt lav=lv nld=nl dut=nl nor=no pol=pl por=pt ron=ro
rus=ru slk=sk slv=sl spa=es srp=sr swa=sw swe=sv tam=ta tha=th tur=tr ukr=uk urd=ur vie=vi zho=zh cmn=zh"""
_THREE: Final[Mapping[str, str]] = dict(pair.split("=") for pair in _LONGER.split())
"""The three letters that files of Tatoeba and FLORES have."""
_SCRIPTS: Final[Mapping[str, str]] = {
    "ja": "\u3040-\u30ff",
    "ko": "\uac00-\ud7af\u1100-\u11ff",
    "zh": "\u4e00-\u9fff\u3400-\u4dbf",
    "th": "\u0e00-\u0e7f",
    "lo": "\u0e80-\u0eff",
    "my": "\u1000-\u109f",
    "km": "\u1780-\u17ff",
    "el": "\u0370-\u03ff",
    "he": "\u0590-\u05ff",
    "hy": "\u0530-\u058f",
    "ka": "\u10a0-\u10ff",
    "am": "\u1200-\u137f",
    "hi": "\u0900-\u097f",
    "bn": "\u0980-\u09ff",
    "pa": "\u0a00-\u0a7f",
    "gu": "\u0a80-\u0aff",
    "ta": "\u0b80-\u0bff",
    "te": "\u0c00-\u0c7f",
    "kn": "\u0c80-\u0cff",
    "ml": "\u0d00-\u0d7f",
    "si": "\u0d80-\u0dff",
    "arabic": "\u0600-\u06ff",
    "cyrillic": "\u0400-\u04ff",
    "latin": "A-Za-z\u00c0-\u024f\u1e00-\u1eff",
}
"""The letters of each language that has some of its own, or of a script that several share."""
_LETTERS: Final = {name: re.compile(f"[{letters}]") for name, letters in _SCRIPTS.items()}
_WORDS: Final = """\
en: the of and to in is that it for was on are with as i his they be at this have from not but by you he she an or we
de: der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden aus er hat wir
nl: de het een van en in is dat op te zijn met voor niet aan er om ook als dan maar hij ze wordt naar bij uit nog wel ik
af: die van en in is het dat nie wat vir op met sy te as hulle ek was om aan sal ons word ook nie deur
sv: och i att det som en på är av för med till den har de inte om ett han men var jag sig från vi så kan hon när
da: og i at det er en på af til for med den som de har ikke der et han var jeg sig men fra vi kan hun om
no: og i det er en på av til for med som har ikke at den et han var jeg seg men fra vi kan hun om de å
is: og að í er á það sem en til við var um með af ekki ég hann hún fyrir þess en eru frá þeir
fr: de la le et les des en un une du est que pour qui dans par sur pas plus au ce il je ne se avec sont elle nous à
es: de la que el en y los se del las un por con no una su para es al lo como más pero sus ya está son
pt: de a o que e do da em um para com não uma os no se na por mais as dos como mas ao ele das foi são você está
gl: de a o que e do da en un para con non unha os no se na por máis as dos como mais ao el das foi son
it: di che e il la un a per in una è non si con i da del le sono come ma anche al dei nel alla della più ho gli
ca: de la que el i en un a per les els amb una no es del al més com però són hi ha aquest seva dels
ro: și de în la a cu pe că o nu un este din care pentru se mai sunt fi o lui prin ca sau dar au
la: et in est non ad cum ut sed quod qui esse sunt quae ex nec si atque ab aut enim me te
pl: i w na z do się nie to że jest o jak a po od za przez dla są co ale tym jego czy tak był
cs: a v se na je že s z do to i o k ve pro za by jsem po od jako ale jak není jeho jsou si který
sk: a v sa na je že s z do to i o k vo pre za by som po od ako ale čo nie jeho sú si ktorý
sl: in je v na se da za so z pa ki ne pri kot ali še tudi bi po od iz sem ni bil
hr: i u je na se da za su od s ne što a kao koji o će to iz bi ili nije sam po ali
hu: a az és hogy nem is egy ez van meg de volt csak el mint ki már még azt ha vagy
fi: ja on ei että se oli hän ovat mutta kun myös niin kuin mitä tai joka sen ole minä olen
et: ja on ei et see oli ta kui ka mis oma või aga siis seda nii kes ma kõik
lv: un ir no ar uz par ka kas bet to ne viņš arī tas kā vai lai pie bija pēc
lt: ir yra kad į su iš tai ne kaip jis bet ar už buvo dar jo apie jau nuo
sq: dhe në të e i një për me që nga si është më nuk ka së ai por kjo janë
tr: ve bir bu da de için ile çok ne o gibi daha olarak var değil ben olan mi kadar sonra en
az: və bir bu da də üçün ilə çox nə o kimi daha olaraq var deyil mən olan sonra ən
id: yang dan di itu dengan untuk tidak ini dari dalam akan pada juga saya ke karena ada mereka adalah bisa
ms: yang dan di itu dengan untuk tidak ini dari dalam akan pada juga saya ke kerana ada mereka ialah boleh
tl: ang ng sa na mga at ay ni ko ako ito hindi siya para kung si mo ka may
vi: và của là có không được cho một những các người với để trong này đã khi tôi ra thì
sw: na ya wa kwa ni katika za la kuwa hii yake alikuwa kama hiyo watu pia
cy: y yn a i o ar yr mae ei ac am fod bod wedi ond hyn gan oedd
ga: an na agus ar is a i le go sé do atá bhí ní mar sin ach tá
mt: u ta li il fil tal għal ma minn hija kien dan bil għandu jew
eu: eta da ez bat du ere dira zuen zen baina hau dut izan nahi
eo: la kaj de en estas ne al mi vi ke kun por li estis sed ĝi oni ili
ru: и в не на что я с он как это по но к из у за же от так о она его для бы был мы все
uk: і в не на що я з він як це по але до у за та від так про вона його для був ми що є
be: і ў не на што я з ён як гэта па але да у за ад так пра яна яго для быў мы
bg: и в не на че с той как това по но от за да се е са си тя го за бил ние
sr: и у је на се да за су од с не што а као који о ће то из би или није
mk: и во не на што јас со тој како ова по но од за да се е се си таа го
kk: және бір бұл мен да де үшін бар емес ол болды деп оның
ar: في من على أن إلى هذا ما لا مع عن هو كان التي الذي كل هل قد
fa: و در به از که این را با است آن برای یک ها می های خود
ur: کے میں کی اور ہے سے کو کا پر نے کہ ہیں یہ بھی"""
_COMMON: Final[Mapping[str, frozenset[str]]] = {
    code: frozenset(words.split()) for code, words in (line.split(":") for line in _WORDS.split("\n"))
}
"""Some of the commonest words of languages that share their script with others."""
_SHARED: Final = Counter(word for common in _COMMON.values() for word in common)
_WORD: Final = re.compile(r"[^\W\d_]+")
SPACELESS: Final = frozenset({"ja", "zh", "th", "lo", "my", "km"})
"""Languages that are written without spaces between words."""
_SIGNS: Final = 3
"""Words of one language alone that say which one a sentence is in."""
_LEAST: Final = 20
"""Words that a text must have to be told apart by its commonest ones."""


@dataclass(frozen=True)
class Language:
    """A language, or one that could not be told.

    Attributes:
        code: its two letters; empty where it is not known.
    """

    code: str = ""

    def __bool__(self) -> bool:
        return bool(self.code)

    def __str__(self) -> str:
        return f"{NAMES[self.code]} ({self.code})" if self.code else "an unknown language"


@final
class Telling:
    """Tells two languages apart by words, or letters, that only one of them has.

    Args:
        first: one of them.
        second: the other.
    """

    def __init__(self, first: Language, second: Language) -> None:
        self._words = [_COMMON.get(language.code, frozenset()) for language in (first, second)]
        self._words = [self._words[0] - self._words[1], self._words[1] - self._words[0]]
        self._letters = [_LETTERS.get(language.code) for language in (first, second)]
        if {first.code, second.code} == {"ja", "zh"}:  # which share most letters
            self._letters = [None, None]

    def side(self, text: str) -> int | None:
        """0 where a text is in the first language, 1 in the second; None where it has no signs of one alone."""
        words = _WORD.findall(text.lower())
        signs = [self._signs(side, text, words) for side in (0, 1)]
        if min(signs) > 0 or max(signs) < _SIGNS:
            return None
        return signs.index(max(signs))

    def _signs(self, side: int, text: str, words: Sequence[str]) -> int:
        letters = self._letters[side]
        if letters is not None:
            return len(letters.findall(text))
        return sum(word in self._words[side] for word in words)


def code_of(word: str) -> Language:
    """The language that is called so in the name of a file, such as `de`, `deu` or `pt_BR`; unknown if none is."""
    plain = word.lower().replace("_", "-").partition("-")[0]
    code = _THREE.get(plain, plain)
    return Language(code if code in NAMES else "")


def agree(one: str, other: str) -> bool:
    """Whether two tags, such as `de`, `deu` and `de-AT`, name one language in one script, whatever their regions."""
    return is_same_language(one, other)


def guessed(texts: Iterable[str]) -> Language:
    """The language that most of some texts are in; unknown where that cannot be told."""
    together = " ".join(texts)
    letters = {name: len(pattern.findall(together)) for name, pattern in _LETTERS.items()}
    whole = sum(letters.values())
    if not whole:
        return Language()
    if letters["ja"] > 0.1 * whole and letters["ja"] + letters["zh"] > 0.4 * whole:
        return Language("ja")
    script = max(letters, key=lambda name: letters[name])
    if letters[script] < 0.4 * whole:
        return Language()
    if script in NAMES:
        return Language(script)
    return _by_words(together)


def _by_words(text: str) -> Language:
    """A word that is common in several languages says less about each."""
    words = Counter(_WORD.findall(text.lower()))
    if words.total() < _LEAST:
        return Language()
    worth = {
        code: sum(words[word] / _SHARED[word] for word in common) / len(common) ** 0.5
        for code, common in _COMMON.items()
    }
    best, second = sorted(worth, key=lambda code: -worth[code])[:2]
    hits = sum(words[word] for word in _COMMON[best])
    sure = hits >= max(4, 0.06 * words.total()) and worth[best] > 1.1 * worth[second]
    return Language(best) if sure else Language()
