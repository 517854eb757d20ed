"""Tags of languages: by language, script and region, however they are written."""

from __future__ import annotations

import pytest

from heedful.language_tags import LanguageTag, find_nearest_tag, is_same_language, is_same_variety, parse_tag


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("zh-Hant-TW", LanguageTag("zh", "Hant", "TW")),
        ("ZH_hant_tw", LanguageTag("zh", "Hant", "TW")),
        ("zho", LanguageTag("zh")),
        ("cmn-Hans", LanguageTag("zh", "Hans")),
        ("zh-CHT", LanguageTag("zh", "Hant")),
        ("zh_TW.Big5", LanguageTag("zh", "", "TW")),
        ("sr_RS.UTF-8@latin", LanguageTag("sr", "Latn", "RS")),
        ("uz@cyrillic", LanguageTag("uz", "Cyrl")),
        ("es-419", LanguageTag("es", "", "419")),
        ("iw_IL", LanguageTag("he", "", "IL")),
        ("in", LanguageTag("id")),
        ("ji", LanguageTag("yi")),
        ("nb-NO", LanguageTag("no", "", "NO")),
        ("sh", LanguageTag("sr", "Latn")),
        ("ger", LanguageTag("de")),
        ("aka", LanguageTag("ak")),
        ("twi", LanguageTag("tw")),
        ("de-DE-1996-u-co-phonebk", LanguageTag("de", "", "DE")),
        ("ca@valencia", LanguageTag("ca")),
        ("", LanguageTag("")),
        ("not a tag", LanguageTag("")),
    ],
)
def test_parts_of_tags(text: str, tag: LanguageTag) -> None:
    assert parse_tag(text) == tag


@pytest.mark.parametrize(
    ("tag", "script"),
    [
        *((f"zh-{region}", "Hant") for region in ("TW", "HK", "MO")),
        *((f"zh-{region}", "Hans") for region in ("CN", "SG")),
        ("zh", "Hans"),
        ("zh-Hans-TW", "Hans"),
        ("sr", "Cyrl"),
        ("sr-ME", "Latn"),
        ("pa-IN", "Guru"),
        ("pa-PK", "Arab"),
        ("uz-AF", "Arab"),
        ("az-IR", "Arab"),
        ("az", "Latn"),
        ("ms-Arab", "Arab"),
        ("mn-CN", "Mong"),
        ("de", "Latn"),
        ("ur", "Arab"),
    ],
)
def test_likely_scripts(tag: str, script: str) -> None:
    assert parse_tag(tag).likely_script == script


@pytest.mark.parametrize(
    ("one", "other", "language", "variety"),
    [
        ("zh-CN", "zh_TW", False, False),
        ("zh-TW", "zh-Hant", True, True),
        ("zh-HK", "zh-TW", True, False),
        ("zh", "zh-TW", True, False),
        ("zh", "zh-Hans", True, True),
        ("zh", "zh_CN", True, True),
        ("sr-Latn", "sr-Cyrl", False, False),
        ("sr", "sr@latin", True, False),
        ("pt-BR", "pt-PT", True, False),
        ("pt", "pt-PT", True, True),
        ("de", "deu_AT", True, True),
        ("iw", "he-IL", True, True),
        ("no", "nb", True, True),
        ("nb", "nn", False, False),
        ("twi", "tw", True, True),
        ("twi", "ak", False, False),
        ("az-Cyrl", "az", True, False),
        ("ms-Arab", "ms-MY", False, False),
        ("My tongue", "my tongue", True, True),
        ("en", "", False, False),
        ("", "", False, False),
        ("en", "de", False, False),
    ],
)
def test_tags_of_one_language(one: str, other: str, language: bool, variety: bool) -> None:
    assert is_same_language(one, other) == is_same_language(other, one) == language
    assert is_same_variety(one, other) == is_same_variety(other, one) == variety


@pytest.mark.parametrize(
    ("wanted", "there", "found"),
    [
        *(
            (tag, "zh-Hans zh-Hant", "zh-Hant")
            for tag in ("zh-TW", "zh_HK", "zh-mo", "zh_Hant", "zh-Hant-HK", "zh-CHT")
        ),
        *((tag, "zh-Hant zh-Hans", "zh-Hans") for tag in ("zh", "zh-CN", "zh_SG", "zh-hans-cn", "cmn")),
        ("zh-HK", "zh-CN zh-TW", "zh-TW"),
        ("zh-MO", "zh-TW zh-HK", "zh-HK"),
        ("zh-TW", "zh-Hans", None),
        ("zh-TW", "zh zh-CN", None),
        ("zh", "zh-Hant", "zh-Hant"),
        ("pt-BR", "pt-PT pt-BR", "pt-BR"),
        ("pt-AO", "pt-BR pt-PT", "pt-PT"),
        ("pt-PT", "pt-BR pt", "pt"),
        ("pt-PT", "pt-BR", "pt-BR"),
        ("pt", "pt-PT pt-BR", "pt-BR"),
        ("es-MX", "es-ES es-419", "es-419"),
        ("en-AU", "en-US en-GB", "en-GB"),
        ("sr@latin", "sr sr-Latn", "sr-Latn"),
        ("sr-ME", "sr-Cyrl sr-Latn", "sr-Latn"),
        ("pa-PK", "pa-Guru pa-Arab", "pa-Arab"),
        ("he", "iw", "iw"),
        ("no", "sv nb", "nb"),
        ("xx", "de en", None),
        ("", "de en", None),
    ],
)
def test_the_nearest_of_some(wanted: str, there: str, found: str | None) -> None:
    assert find_nearest_tag(wanted, there.split()) == found
