"""Languages are known by their texts, parts and languages of files by their names."""

# ruff: noqa: E501, RUF001  # sentences stand in one piece, in their own letters

from __future__ import annotations

from pathlib import Path

import pytest

from heedful.data.detect.file_names import get_suffix, parse_file_name
from heedful.data.detect.languages import (
    LanguageInfo,
    guess_language,
    guess_languages,
    is_other_language,
    is_similar_language,
    parse_column_language,
    parse_language_code,
)
from heedful.data.detect.pair_checks import PairLanguageCheck

SENTENCES = {
    "en": "The committee said that it would not be able to accept the proposal because they had no time for it and him.",
    "de": "Der Ausschuss sagte, dass er den Vorschlag nicht annehmen könne, weil sie keine Zeit für ihn hatten, und dass es ihm leid tue.",
    "nl": "De commissie zei dat zij het voorstel niet kon aannemen omdat ze er geen tijd voor had, en dat het haar speet.",
    "sv": "Utskottet sade att det inte kunde anta förslaget eftersom de inte hade tid för det, och att han var ledsen.",
    "pl": "Komisja powiedziała, że nie może przyjąć tego wniosku, ponieważ nie ma na to czasu, i że jest jej przykro, ale "
    "tak już jest.",
    "cs": "Výbor řekl, že návrh nemůže přijmout, protože na to nemá čas, a že je mu to líto, ale tak to je a on za to "
    "nemůže, jak je vidět.",
    "ru": "Комитет сказал, что он не может принять это предложение, потому что у них нет времени на это, и что ему жаль.",
    "uk": "Комітет сказав, що він не може прийняти цю пропозицію, тому що у них немає часу на це, і що йому шкода, але "
    "так воно і є від того.",
    "it": "Il comitato ha detto che non poteva accettare la proposta perché non avevano tempo per questo, e che gli "
    "dispiaceva di come è andata.",
    "es": "El comité dijo que no podía aceptar la propuesta porque no tenían tiempo para ello, y que lo sentía por todo.",
    "pt": "O comité disse que não podia aceitar a proposta porque não tinham tempo para isso, e que ele lamentava o que "
    "aconteceu na reunião dos dois.",
    "fr": "Le comité a dit qu'il ne pouvait pas accepter la proposition parce qu'ils n'avaient pas le temps pour cela.",
    "fi": "Valiokunta sanoi, että se ei voi hyväksyä ehdotusta, koska heillä ei ole aikaa siihen, ja että hän on "
    "pahoillaan, mutta niin se on kun on.",
    "hu": "A bizottság azt mondta, hogy nem tudja elfogadni a javaslatot, mert nincs rá idejük, és hogy sajnálja, de ez "
    "már így van, és nem az ő hibája volt.",
    "tr": "Komite bu öneriyi kabul edemeyeceğini çünkü bunun için zamanları olmadığını ve bir daha böyle bir şey "
    "olmayacağını söyledi ama o da değil.",
    "ja": "委員会は、時間がないので提案を受け入れることができないと言いました。",
    "zh": "委员会表示他们没有时间因此不能接受该提案。",
    "ko": "위원회는 시간이 없어서 제안을 받아들일 수 없다고 말했습니다.",
    "el": "Η επιτροπή είπε ότι δεν μπορεί να το δεχτεί.",
    "he": "הוועדה אמרה שאינה יכולה לקבל את ההצעה",
    "ar": "قالت اللجنة إن هذا الاقتراح لا يمكن قبوله لأن كل من كان في الاجتماع ليس لديه وقت من أجل ذلك على ما قال هو عن هذا",
    "sw": "Kamati ilisema kwamba haiwezi kukubali pendekezo hilo kwa sababu hawakuwa na wakati wa kulijadili.",
    "yo": "Ìgbìmọ̀ náà sọ pé wọn kò lè gba àbá náà nítorí pé wọn kò ní àkókò fún un.",
    "th": "คณะกรรมการกล่าวว่าไม่สามารถยอมรับข้อเสนอนี้ได้",
}


@pytest.mark.parametrize("code", SENTENCES)
def test_a_sentence_tells_its_language(code: str) -> None:
    assert guess_language([SENTENCES[code]]) == LanguageInfo(code)


@pytest.mark.parametrize("text", ["", "1 2 3", "xyzzy plugh", "AH0 B IY1 K AE2 T D AO1 G", "cat dog horse cow hen pig"])
def test_what_cannot_be_told_is_unknown(text: str) -> None:
    assert not guess_language([text])
    assert str(LanguageInfo()) == "an unknown language"


def test_most_of_a_text_decides() -> None:
    assert guess_language([SENTENCES["de"]] * 9 + [SENTENCES["en"]]) == LanguageInfo("de")
    assert guess_language([f"the black dog number {n} sleeps in the house" for n in range(200)]) == LanguageInfo("en")
    assert guess_language(["1", "", *[SENTENCES["sw"]] * 3]) == LanguageInfo("sw")


@pytest.mark.parametrize(
    ("one", "other", "similar"),
    [
        ("cs", "sk", True),
        ("da", "nb", True),
        ("bs", "hr", True),
        ("he", "yi", True),
        ("de", "de", True),
        ("c", "cs", False),
        ("cs", "hr", False),
        ("en", "de", False),
        ("", "de", False),
    ],
)
def test_some_languages_are_easily_mistaken_for_each_other(one: str, other: str, similar: bool) -> None:
    first, second = LanguageInfo(one), LanguageInfo(other)
    assert is_similar_language(first, second) == is_similar_language(second, first) == similar


@pytest.mark.parametrize(
    ("guessed", "expected", "other"),
    [
        ("de", "en", True),
        ("en", "sw", True),
        ("en", "en", False),
        ("cs", "sk", False),
        ("", "en", False),
        ("de", "", False),
        ("en", "tn", False),
        ("no", "nb", False),
        ("ar", "zh", True),
    ],
)
def test_only_what_is_known_contradicts(guessed: str, expected: str, other: bool) -> None:
    assert is_other_language(LanguageInfo(guessed), LanguageInfo(expected)) == other


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("de", "de"),
        ("deu", "de"),
        ("ger", "de"),
        ("pt_BR", "pt"),
        ("zh-Hans", "zh"),
        ("txt", ""),
        ("train", ""),
        ("nob", "nb"),
        ("twi", "tw"),
        ("fil", "tl"),
        ("src", ""),
        ("tgt", ""),
        ("in", ""),
        ("ave", ""),
    ],
)
def test_codes(word: str, code: str) -> None:
    assert parse_language_code(word).code == code


@pytest.mark.parametrize(
    ("word", "tag"),
    [
        ("pt_BR", "pt-BR"),
        ("zh-tw", "zh-TW"),
        ("zho_Hant", "zh-Hant"),
        ("zh-Hant-HK", "zh-Hant"),
        ("eng_Latn", "en"),
        ("sr_Latn", "sr-Latn"),
        ("swh", "sw"),
        ("yo", "yo"),
        ("es-419", "es-419"),
        ("zh_test", "zh"),
        ("xx", ""),
    ],
)
def test_tags_keep_regions_and_scripts(word: str, tag: str) -> None:
    assert parse_language_code(word).tag == tag
    assert parse_language_code(word) == LanguageInfo(tag.split("-", maxsplit=1)[0]), "varieties are one language"


@pytest.mark.parametrize(
    ("name", "part", "language", "pair"),
    [
        ("train.en", "train", "en", ""),
        ("train.de.gz", "train", "de", ""),
        ("val.en", "validation", "en", ""),
        ("dev.ja.gz", "validation", "ja", ""),
        ("valid.source", "validation", "", ""),
        ("newstest2014.en-de.tsv", None, "", "en-de"),
        ("test_2016_flickr.fr.gz", "test", "fr", ""),
        ("wnut17train.conll.gz", "train", "", ""),
        ("emerging.test.annotated", "test", "", ""),
        ("en_ewt-ud-dev.conllu.gz", "validation", "", ""),
        ("corpus.en-de.tsv", None, "", "en-de"),
        ("deu.txt", None, "de", ""),
        ("testament.txt", None, "", ""),
        ("reviews.csv", None, "", ""),
        ("train/source.txt", "train", "", ""),
        ("training/test.en", "test", "en", ""),
    ],
)
def test_names_of_files(name: str, part: str | None, language: str, pair: str) -> None:
    found = parse_file_name(Path(name))
    assert found.part == part
    assert found.language.code == language or pair
    assert (found.language_pair is None and not pair) or pair == "-".join(
        each.code for each in found.language_pair or ()
    )


def test_the_ending_of_gzip_is_no_ending() -> None:
    assert get_suffix(Path("a.TSV.gz")) == ".tsv"
    assert get_suffix(Path("a")) == ""


SHORT = {
    "en": ["A man is on a horse.", "I am a doctor at a small hospital.", "He has a dog and I have a cat.", "Do no harm to a child.", "The son of a king was in a war.", "Come to me, she said to us.", "On a hot day a hat is a must.", "A boy throws a ball across a park."],
    "cs": ["Muž je na koni.", "Jsem lékař v malé nemocnici.", "On má psa a já mám kočku.", "Neubližuj dítěti.", "Syn krále byl ve válce.", "Pojďte ke mně, řekla nám.", "V horkém dni je klobouk nutnost."],
    "hu": ["Egy férfi lovon ül.", "Orvos vagyok egy kis kórházban.", "Neki kutyája van, nekem meg macskám.", "Ne árts a gyereknek.", "A király fia háborúban volt.", "Gyertek hozzám, mondta nekünk.", "Meleg napon a kalap kell."],
    "pt": ["Um homem está a cavalo.", "Sou médico no hospital da vila.", "Ele tem um cão e eu tenho uma gata.", "Não faças mal a uma criança.", "O filho do rei foi à guerra.", "Vem a mim, disse ela a nós.", "No calor do dia o chapéu faz falta."],
    "it": ["Un uomo è a cavallo.", "Sono medico in un piccolo ospedale.", "Lui ha un cane e io ho una gatta.", "Non fare male a un bambino.", "Il figlio del re era in guerra.", "Vieni da me, ci disse.", "In una giornata calda un cappello ci vuole."],
    "nl": ["Een man zit op een paard.", "Ik ben arts in een klein ziekenhuis.", "Hij heeft een hond en ik heb een kat.", "Doe een kind geen kwaad.", "De zoon van een koning was in een oorlog.", "Kom bij mij, zei ze tegen ons.", "Op een hete dag is een hoed nodig."],
    "no": ["En mann er på en hest.", "Jeg er lege i et lite sykehus.", "Han har en hund og jeg har en katt.", "Gjør ikke et barn vondt.", "Sønnen til en konge var i krig.", "Kom til meg, sa hun til oss.", "På en varm dag er en hatt nødvendig."],
    "sw": ["Mtu yuko juu ya farasi.", "Mimi ni daktari wa hospitali ndogo.", "Ana mbwa na mimi nina paka.", "Usimdhuru mtoto.", "Mwana wa mfalme alikuwa katika vita.", "Njoo kwangu, alituambia.", "Siku ya joto kofia ni ya lazima."],
    "mr": ["एक माणूस घोड्यावर आहे.", "मी एका लहान रुग्णालयात डॉक्टर आहे.", "त्याच्याकडे कुत्रा आहे.", "मुलाला इजा करू नका.", "राजाचा मुलगा युद्धात होता.", "माझ्याकडे ये, ती म्हणाली.", "गरम दिवशी टोपी हवी."],
    "hi": ["एक आदमी घोड़े पर है।", "मैं एक छोटे अस्पताल में डॉक्टर हूँ।", "उसके पास कुत्ता है।", "बच्चे को चोट मत पहुँचाओ।", "राजा का बेटा युद्ध में था।", "मेरे पास आओ, उसने कहा।", "गर्म दिन में टोपी चाहिए।"],
}  # fmt: skip


@pytest.mark.parametrize("code", SHORT)
def test_short_sentences_are_never_taken_for_another_language(code: str) -> None:
    guessed = [guess_language([sentence]) for sentence in SHORT[code]]
    assert {language.code for language in guessed} <= {code, ""}


@pytest.mark.parametrize(
    ("name", "code"), [("src", ""), ("tgt", ""), ("text", ""), ("text_sw", "sw"), ("Swahili", "sw")]
)
def test_languages_in_names_of_columns(name: str, code: str) -> None:
    assert parse_column_language(name).code == code


def test_languages_of_many_texts_are_those_of_each() -> None:
    texts = [*SENTENCES.values(), "", "1 2 3", SENTENCES["de"].upper(), SENTENCES["en"] * 40, "ja", "\ud800"]
    assert guess_languages(texts) == [guess_language([text]) for text in texts]
    assert guess_languages([]) == []


def test_many_pairs_are_judged_like_each() -> None:
    check = PairLanguageCheck(LanguageInfo("en"), LanguageInfo("de"))
    english, german, french = (SENTENCES[code] for code in ("en", "de", "fr"))
    pairs = [(english, german), (german, english), (english, english), (english, french), ("1", "2"), ("", german)]
    faults = [None, "swapped", "same", "other", None, None]
    assert check.measure_batch(pairs) == faults == [check.measure(pair) for pair in pairs]
    assert check.measure_batch([]) == []
