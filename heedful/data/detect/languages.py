"""Guess the language of a text by its script and its most common words; accurate enough for a comment and a file
name.
"""

# ruff: noqa: RUF001  # letters of other scripts look like Latin ones, on purpose

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, final

from heedful.language_tags import is_same_language

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
_THREE_LETTER_TABLE: Final = """\
aar=aa abk=ab afr=af aka=ak alb=sq als=sq amh=am ara=ar arb=ar arg=an arm=hy asm=as ava=av aym=ay ayr=ay aze=az
azj=az bak=ba bam=bm baq=eu bel=be ben=bn bis=bi bod=bo bos=bs bre=br bul=bg bur=my cat=ca ces=cs cha=ch che=ce
chi=zh chv=cv cmn=zh cor=kw cos=co cre=cr cym=cy cze=cs dan=da deu=de div=dv dut=nl dzo=dz ekk=et ell=el eng=en
epo=eo est=et eus=eu ewe=ee fao=fo fas=fa fat=ak fij=fj fin=fi fra=fr fre=fr fry=fy fuc=ff ful=ff gaz=om geo=ka
ger=de gla=gd gle=ga glg=gl glv=gv gre=el grn=gn gug=gn guj=gu hat=ht hau=ha heb=he her=hz hin=hi hmo=ho hrv=hr
hun=hu hye=hy ibo=ig ice=is ido=io iii=ii ike=iu iku=iu ile=ie ina=ia ind=id ipk=ik isl=is ita=it jav=jv jpn=ja
kal=kl kan=kn kas=ks kat=ka kau=kr kaz=kk khk=mn khm=km kik=ki kin=rw kir=ky kmr=ku knc=kr kng=kg kom=kv kon=kg
kor=ko kpv=kv kua=kj kur=ku lao=lo lat=la lav=lv lim=li lin=ln lit=lt ltz=lb lub=lu lug=lg lvs=lv mac=mk mah=mh
mal=ml mao=mi mar=mr may=ms mkd=mk mlg=mg mlt=mt mol=ro mon=mn mri=mi msa=ms mya=my nau=na nav=nv nbl=nr nde=nd
ndo=ng nep=ne nld=nl nno=nn nob=nb nor=no npi=ne nya=ny oci=oc oji=oj ori=or orm=om ory=or oss=os pan=pa pbu=ps
per=fa pes=fa plt=mg pol=pl por=pt pus=ps que=qu quz=qu roh=rm ron=ro rum=ro run=rn rus=ru sag=sg san=sa sin=si
slk=sk slo=sk slv=sl sme=se smo=sm sna=sn snd=sd som=so sot=st spa=es sqi=sq srd=sc srp=sr ssw=ss sun=su swa=sw
swe=sv swh=sw tah=ty tam=ta tat=tt tel=te tgk=tg tha=th tib=bo tir=ti ton=to tsn=tn tso=ts tuk=tk tur=tr twi=tw
uig=ug ukr=uk urd=ur uzb=uz uzn=uz ven=ve vie=vi vol=vo wel=cy wln=wa wol=wo xho=xh ydd=yi yid=yi yor=yo zha=za
zho=zh zsm=ms zul=zu"""
_THREE_LETTER_CODES: Final[Mapping[str, str]] = dict(pair.split("=") for pair in _THREE_LETTER_TABLE.split())
"""Two-letter codes by the three-letter codes of ISO 639-2 and 639-3, which Tatoeba and FLORES use."""
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
"""The letters of each language with its own script, or of a script that several languages share."""
_SCRIPT_PATTERNS: Final = {name: re.compile(f"[{letters}]") for name, letters in _SCRIPTS.items()}
_COMMON_WORD_TABLE: Final = """\
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
_COMMON_WORDS: Final[Mapping[str, frozenset[str]]] = {
    code: frozenset(words.split()) for code, words in (line.split(":") for line in _COMMON_WORD_TABLE.split("\n"))
}
"""Some of the most common words of languages that share their script with others."""
_WORD_LANGUAGE_COUNTS: Final = Counter(word for common in _COMMON_WORDS.values() for word in common)
_WORD: Final = re.compile(r"[^\W\d_]+")
SPACELESS_LANGUAGES: Final = frozenset({"ja", "zh", "th", "lo", "my", "km"})
"""Languages that are written without spaces between words."""
_COLUMN_NAME: Final = re.compile(r"(?:(?:text|sentence|source|target|src|tgt|trg|translation|lang|string)[ _.:-])?(.+)")
_TAG: Final = re.compile(r"[a-z]{2,3}(?:[_-][a-z]{2,4})*")
_MULTI_SCRIPT_LANGUAGES: Final = frozenset({"az", "kk", "ku", "mn", "pa", "sr", "uz", "zh"})
"""Languages whose tag must name the script, since readers may know only one of them."""
_SHARED_LETTERS: Final = (
    frozenset({"hi", "mr", "ne", "sa"}),
    frozenset({"bn", "as"}),
    frozenset({"am", "ti"}),
    frozenset({"he", "yi"}),
    frozenset({"ja", "zh"}),
)
"""Groups of languages that cannot be distinguished by letters, because one has no letters of its own or shares most of
them."""
_SCRIPT_TAGS: Final = frozenset({"arab", "cyrl", "deva", "guru", "hans", "hant", "latn", "mong"})
_MIN_EVIDENCE: Final = 3
"""Number of different words, or letters, of only one language that decide the language of a sentence."""
NUM_LEARNING_PAIRS: Final = 2000
"""Number of pairs from which `LanguageDiscriminator` learns which words are ambiguous."""
_MAX_AMBIGUITY: Final = 0.1
"""Share of a word's texts that may be in the other language for the word to count as evidence."""
_MIN_WORDS: Final = 20
"""Number of words that a text must have to be identified by its most common ones."""


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


@final
class LanguageDiscriminator:
    """Tells two languages apart by words, or letters, that only one of them has.

    The lists of common words are short, so a word of one language may also occur in the other, as `a` of Czech does in
    English. `learn` finds this out from texts in either language: a word that often stands beside words of the other
    language is not evidence. Neither is a single letter.

    Args:
        first: one of the languages.
        second: the other one.
    """

    def __init__(self, first: LanguageInfo, second: LanguageInfo) -> None:
        common = [_COMMON_WORDS.get(language.code, frozenset()) for language in (first, second)]
        exclusive = [common[0] - common[1], common[1] - common[0]]
        self._words = [frozenset(word for word in words if len(word) > 1) for words in exclusive]
        self._letters = [_SCRIPT_PATTERNS.get(language.code) for language in (first, second)]
        if any({first.code, second.code} <= shared for shared in _SHARED_LETTERS):
            self._letters = [None, None]
        self._word_counts: Counter[str] = Counter()
        self._ambiguous_counts: Counter[str] = Counter()

    def learn(self, text: str) -> None:
        """Update, from a text in one of the languages, how often each word stands beside words of the other
        language.
        """
        words = frozenset(_WORD.findall(text.lower()))
        matches = [words & own for own in self._words]
        for side in (0, 1):
            num_same, num_other = len(matches[side]) - 1, len(matches[1 - side])
            if num_same != num_other:
                self._word_counts.update(matches[side])
            if num_same < num_other:
                self._ambiguous_counts.update(matches[side])

    def classify(self, text: str) -> int | None:
        """Return 0 if a text is in the first language, 1 if in the second; None if there is too little evidence."""
        words = frozenset(_WORD.findall(text.lower()))
        evidence = [self._count_evidence(side, text, words) for side in (0, 1)]
        if min(evidence) > 0 or max(evidence) < _MIN_EVIDENCE:
            return None
        return evidence.index(max(evidence))

    def _count_evidence(self, side: int, text: str, words: frozenset[str]) -> int:
        """Count the words, or letters, of one language in a text."""
        letters = self._letters[side]
        if letters is not None:
            return len(letters.findall(text))
        return sum(not self._is_ambiguous(word) for word in words & self._words[side])

    def _is_ambiguous(self, word: str) -> bool:
        """Return whether a word often occurs in texts of the other language."""
        return self._ambiguous_counts[word] > _MAX_AMBIGUITY * self._word_counts[word]


def parse_language_code(word: str) -> LanguageInfo:
    """Parse a language code in the name of a file, such as `de`, `deu` or `pt_BR`; return the unknown language for
    other words.
    """
    base_code, _, rest = word.lower().replace("_", "-").partition("-")
    code = _THREE_LETTER_CODES.get(base_code, base_code)
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
    """Return the script, for languages written in several, or else the region, from the rest of a tag."""
    script, region = (
        re.search(f"(?<![a-z0-9]){form}(?![a-z0-9])", subtags) for form in ("[a-z]{4}", r"(?:[a-z]{2}|\d{3})")
    )
    if script and code in _MULTI_SCRIPT_LANGUAGES and script[0] in _SCRIPT_TAGS:
        return script[0].title()
    return region[0].upper() if region else ""


def has_same_language(first: str, second: str) -> bool:
    """Return whether two tags, such as `de`, `deu` and `de-AT`, name one language in one script, whatever the
    region.
    """
    return is_same_language(first, second)


def guess_language(texts: Iterable[str]) -> LanguageInfo:
    """Return the language of most of some texts; the unknown language if it is not clear."""
    joined_text = " ".join(texts)
    letters = {name: len(pattern.findall(joined_text)) for name, pattern in _SCRIPT_PATTERNS.items()}
    num_letters = sum(letters.values())
    if not num_letters:
        return LanguageInfo()
    if letters["ja"] > 0.1 * num_letters and letters["ja"] + letters["zh"] > 0.4 * num_letters:
        return LanguageInfo("ja")
    script = max(letters, key=lambda name: letters[name])
    if letters[script] < 0.4 * num_letters:
        return LanguageInfo()
    if script in LANGUAGE_NAMES:
        return LanguageInfo(script)
    return _guess_by_words(joined_text)


def _guess_by_words(text: str) -> LanguageInfo:
    """Guess the language by its common words; a word that is common in several languages counts less."""
    words = Counter(_WORD.findall(text.lower()))
    if words.total() < _MIN_WORDS:
        return LanguageInfo()
    scores = {
        code: sum(words[word] / _WORD_LANGUAGE_COUNTS[word] for word in common) / len(common) ** 0.5
        for code, common in _COMMON_WORDS.items()
    }
    best, second = sorted(scores, key=lambda code: -scores[code])[:2]
    num_common = sum(words[word] for word in _COMMON_WORDS[best])
    is_certain = num_common >= max(4, 0.06 * words.total()) and scores[best] > 1.1 * scores[second]
    return LanguageInfo(best) if is_certain else LanguageInfo()
