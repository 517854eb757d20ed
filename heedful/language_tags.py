"""Language tags (BCP 47): parse and compare by language, script and region, in any common notation.

The script of a tag that does not name one comes from the likely subtags of Unicode's CLDR (UTS 35, part 1, section
4.3): `zh` is `zh-Hans`, `zh-TW` is `zh-Hant`, `sr` is `sr-Cyrl`, `sr-ME` is `sr-Latn`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

_LETTERS: Final = """\
aar=aa abk=ab adp=dz afr=af aka=ak alb=sq als=sq amh=am ara=ar arb=ar arg=an arm=hy asm=as ava=av ave=ae aym=ay ayr=ay
aze=az azj=az bak=ba bam=bm baq=eu bel=be ben=bn bis=bi bod=bo bos=bs bre=br bul=bg bur=my cat=ca ces=cs cha=ch che=ce
chi=zh chu=cu chv=cv cls=sa cmn=zh cor=kw cos=co cre=cr cwd=cr cym=cy cze=cs dan=da deu=de div=dv drh=mn dut=nl dzo=dz
ekk=et ell=el eng=en epo=eo esk=ik est=et eus=eu ewe=ee fao=fo fas=fa fat=ak fij=fj fil=tl fin=fi fra=fr fre=fr fry=fy
fuc=ff ful=ff gaz=om geo=ka ger=de gla=gd gle=ga glg=gl glv=gv gre=el grn=gn gug=gn guj=gu hat=ht hau=ha heb=he her=hz
hin=hi hmo=ho hrv=hr hun=hu hye=hy ibo=ig ice=is ido=io iii=ii ike=iu iku=iu ile=ie ina=ia ind=id ipk=ik isl=is ita=it
jav=jv jpn=ja kal=kl kan=kn kas=ks kat=ka kau=kr kaz=kk khk=mn khm=km kik=ki kin=rw kir=ky kmr=ku knc=kr kng=kg kom=kv
kon=kg kor=ko kpv=kv kua=kj kur=ku lao=lo lat=la lav=lv lim=li lin=ln lit=lt ltz=lb lub=lu lug=lg lvs=lv mac=mk mah=mh
mal=ml mao=mi mar=mr may=ms mkd=mk mlg=mg mlt=mt mol=ro mon=mn mri=mi msa=ms mya=my nau=na nav=nv nbl=nr nde=nd ndo=ng
nep=ne nld=nl nno=nn nob=no nor=no npi=ne nya=ny oci=oc ojg=oj oji=oj ori=or orm=om ory=or oss=os pan=pa pbu=ps per=fa
pes=fa pli=pi plt=mg pol=pl por=pt prp=gu pus=ps que=qu quz=qu roh=rm ron=ro rum=ro run=rn rus=ru sag=sg san=sa scc=sr
scr=hr sin=si slk=sk slo=sk slv=sl sme=se smo=sm sna=sn snd=sd som=so sot=st spa=es sqi=sq src=sc srd=sc srp=sr ssw=ss
sun=su swa=sw swe=sv swh=sw tah=ty tam=ta tat=tt tel=te tgk=tg tha=th tib=bo tir=ti ton=to tsn=tn tso=ts tuk=tk tur=tr
twi=tw uig=ug ukr=uk urd=ur uzb=uz uzn=uz ven=ve vie=vi vol=vo wel=cy wln=wa wol=wo xho=xh ydd=yi yid=yi yor=yo zha=za
zho=zh zsm=ms zul=zu zyb=za"""
_SHORT: Final[Mapping[str, str]] = {
    **dict(pair.split("=") for pair in _LETTERS.split()),
    **{"in": "id", "iw": "he", "ji": "yi", "jw": "jv", "mo": "ro", "nb": "no"},
}
"""Two-letter codes by three-letter ones (ISO 639-2 and 639-3), and current codes by outdated ones."""
_SCRIPTED: Final = """\
Arab ar ckb fa ks ps sd ug ur
Armn hy
Avst ae
Beng as bn
Cans cr iu oj
Cyrl ab av ba be bg ce cu cv kk kv ky mk mn os ru sr tg tt uk
Deva bho hi mai mr ne sa
Ethi am ti
Geor ka
Grek el
Gujr gu
Guru pa
Hans zh
Hant yue
Hebr he yi
Jpan ja
Khmr km
Knda kn
Kore ko
Laoo lo
Mlym ml
Mymr my
Orya or
Sinh pi si
Taml ta
Telu te
Thaa dv
Thai th
Tibt bo dz
Yiii ii"""
_SCRIPTS: Final[Mapping[str, str]] = {
    language: script for script, *languages in map(str.split, _SCRIPTED.split("\n")) for language in languages
}
"""Default scripts of languages that are not written in Latin letters."""
_REGIONAL: Final = """\
az Arab IQ IR
az Cyrl RU
ha Arab CM SD
kk Arab AF CN IR MN
ku Arab LB
ky Arab CN
ky Latn TR
mn Mong CN
ms Arab CC
pa Arab PK
sd Deva IN
sr Latn ME RO TR
tg Arab PK
ug Cyrl KZ MN
uz Arab AF
uz Cyrl CN
yue Hans CN
zh Hant AU BN GB GF HK ID MO PA PF PH SR TH TW US VN"""
_REGIONS: Final[Mapping[tuple[str, str], str]] = {
    (language, region): script
    for language, script, *regions in map(str.split, _REGIONAL.split("\n"))
    for region in regions
}
"""Scripts of languages in regions where they differ from the default."""
_NAMED_SCRIPTS: Final[Mapping[str, str]] = {
    "arabic": "Arab",
    "cht": "Hant",
    "chs": "Hans",
    "cyrillic": "Cyrl",
    "devanagari": "Deva",
    "latin": "Latn",
}
"""Script names of older systems, as in `sr@latin` (POSIX) and `zh-CHT` (Windows)."""
_LATIN: Final = "Latn"
_PARENTS: Final[Mapping[str, tuple[frozenset[str], str]]] = {
    "es": (frozenset(("ES", "GQ", "EA", "IC")), "419"),
    "pt": (frozenset(("BR",)), "PT"),
    "en": (frozenset(("US", "PH", "PR")), "GB"),
    "zh": (frozenset(("CN", "SG", "TW")), "HK"),
}
"""For languages with two standards: the regions of the first, and the region that all others are nearer to."""
_TAG: Final = re.compile(r"[A-Za-z0-9]+(?:[-_@.][A-Za-z0-9]+)*")


@final
@dataclass(frozen=True)
class LanguageTag:
    """The parts of a language tag.

    Attributes:
        language: its two-letter code, or three letters if it has no shorter one; empty if the tag is invalid.
        script: four letters, if the tag names it; else empty.
        region: two letters or three digits, if the tag names it; else empty.
    """

    language: str
    script: str = ""
    region: str = ""

    @cached_property
    def likely_script(self) -> str:
        """The script of the tag, or the default script of the language in its region."""
        default = _SCRIPTS.get(self.language, _LATIN)
        return self.script or _REGIONS.get((self.language, self.region), default)

    @property
    def is_bare(self) -> bool:
        """Whether the tag is a language only, so that it may mean any script."""
        return not self.script and not self.region


def parse_tag(text: str) -> LanguageTag:
    """Parse a language tag such as `zh-Hant-TW`, `pt_br`, `deu`, `iw` or `sr_RS@latin`; the language of an invalid tag
    is empty.
    """
    plain = text.strip().partition(".")[0] + ("@" + text.partition("@")[2] if "." in text and "@" in text else "")
    if _TAG.fullmatch(plain) is None:
        return LanguageTag("")
    first, *others = re.split(r"[-_@]", plain)
    code, script, region = first.lower(), "", ""
    if code == "sh":  # Serbo-Croatian
        code, script = "sr", _LATIN
    for part in others:
        if len(part) == 1:  # what follows are extensions
            break
        named_script = _NAMED_SCRIPTS.get(part.lower())
        if not script and (named_script or (len(part) == 4 and part.isalpha())):
            script = named_script or part.title()
        elif not region and ((len(part) == 2 and part.isalpha()) or (len(part) == 3 and part.isdigit())):
            region = part.upper()
    return LanguageTag(_SHORT.get(code, code), script, region)


def is_same_language(tag: str, other_tag: str) -> bool:
    """Return whether two tags name one language in one script, whatever their regions.

    `zh` alone may mean any script; `zh-TW` and `zh-Hans` are two, and so are `sr-Latn` and `sr-Cyrl`.
    """
    if tag.strip() and tag.strip().lower() == other_tag.strip().lower():  # even where it is no tag
        return True
    first, second = parse_tag(tag), parse_tag(other_tag)
    if not first.language or first.language != second.language:
        return False
    return first.is_bare or second.is_bare or first.likely_script == second.likely_script


def is_same_variety(tag: str, other_tag: str) -> bool:
    """Return whether a text in the language of `tag` can be used unchanged as a text in that of `other_tag`.

    The scripts, given or likely, must be equal, and the regions must not differ; a tag without a region means any
    region.
    """
    if tag.strip() and tag.strip().lower() == other_tag.strip().lower():  # even where it is no tag
        return True
    first, second = parse_tag(tag), parse_tag(other_tag)
    if not first.language or first.language != second.language or first.likely_script != second.likely_script:
        return False
    return first.region == second.region or not (first.region and second.region)


def find_nearest_tag(wanted: str, available: Iterable[str]) -> str | None:
    """Return the tag among `available` that is nearest to the wanted one; None if no tag has its language and script.

    A language alone may mean any script of it, but its default script is preferred; `zh-TW` does not mean `zh`.

    Tags are preferred in this order: the same script, given or likely; the same region; no region; the region with the
    nearer standard (`es-MX` is nearer to `es-419` than to `es-ES`); any region.
    """
    wanted_tag = parse_tag(wanted)
    candidates = [(_compute_distance(wanted_tag, parse_tag(tag)), index, tag) for index, tag in enumerate(available)]
    matches = [
        candidate
        for candidate in candidates
        if is_same_language(wanted, candidate[2]) and (wanted_tag.is_bare or not candidate[0][0])
    ]
    return min(matches)[2] if matches else None


def _compute_distance(wanted: LanguageTag, other: LanguageTag) -> tuple[bool, int]:
    """Return the distance of another tag of the same language from the wanted one: whether the scripts differ, and a
    number that is larger the less the regions fit.
    """
    script = wanted.likely_script != other.likely_script
    if wanted.region == other.region:
        return script, int(wanted.script != other.script and bool(other.script))
    if not (wanted.region and other.region):
        return script, 2 + (other.region not in _PARENTS.get(wanted.language, ((), ""))[0] and bool(other.region))
    standard, parent = _PARENTS.get(wanted.language, (frozenset[str](), ""))
    if wanted.region not in standard and other.region == parent:
        return script, 2
    return script, 4 + ((wanted.region in standard) != (other.region in standard))
