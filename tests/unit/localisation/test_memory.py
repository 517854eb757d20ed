"""Translation memories: what is the same is taken, what is most like a text is found, whatever the filter skips."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from heedful.errors import MissingExtraError
from heedful.localisation.files import read_document
from heedful.localisation.placeholders import remove_accelerator, scan_placeholders, to_plain_text
from heedful.localisation.segments import InlineCode, Segment
from heedful.localisation.translation_memory import MemoryEntry, MemoryMatch, TranslationMemory

pytest.importorskip("rapidfuzz", reason="the extra [localisation] is not installed")


def memory(*pairs: tuple[str, str], least: float = 0.75, origin: str = "m.tsv") -> TranslationMemory:
    return TranslationMemory(
        [MemoryEntry((source,), (target,), origin) for source, target in pairs], min_similarity=least
    )


def distance(one: list[str], other: list[str]) -> int:
    """Levenshtein's, longhand."""
    row = list(range(len(other) + 1))
    for number, word in enumerate(one, 1):
        before, row = row, [number]
        for place, against in enumerate(other, 1):
            row.append(min(before[place] + 1, row[-1] + 1, before[place - 1] + (word != against)))
    return row[-1]


@pytest.mark.parametrize("least", [0.0, 0.3, 0.5, 0.6, 0.75, 0.9, 1.0])
def test_nothing_is_more_alike_than_what_is_found(least: float) -> None:
    """The filter by rare words leaves out nothing that is like enough: the same as comparing with everything."""
    chance = random.Random(f"memory {least}")

    def text() -> list[str]:
        return [chance.choice(["a", "a", "a", "b", "b", "c", "d", "e", "f", "g"]) for _ in range(chance.randint(1, 12))]

    texts = [text() for _ in range(150)]
    held = memory(*((" ".join(each), "x") for each in texts), least=least)
    hits = 0
    for _ in range(200):
        asked = chance.choice([text(), *chance.sample(texts, 1)])
        found = held.find_match((" ".join(asked),))
        alike = [1 - distance(asked, each) / max(len(asked), len(each)) for each in texts if set(asked) & set(each)]
        best = max(alike, default=-1.0)
        if best < least - 1e-9:
            assert found is None
            continue
        hits += 1
        assert found is not None
        assert found.similarity == pytest.approx(best)
        assert (found.exact_target is not None) == (asked in texts)
    assert hits > 20


def test_a_match_is_counted_in_words() -> None:
    held = memory(("Press the red key .", "Die rote Taste ."))
    found = held.find_match(("Press the green key .",))
    assert found is not None
    assert (found.similarity, found.percent, found.exact_target) == (pytest.approx(0.8), 80, None)
    assert (found.source_text, found.target_text) == ("Press the red key .", "Die rote Taste .")
    assert held.find_match(("Press a green key .",)) is None
    assert held.find_match(("press the green key .",)) is None, "words are as they are written"


def test_equal_distances_are_told_apart_by_letters() -> None:
    held = memory(("open the old door", "1"), ("open the new doors", "2"), ("open the new wood", "3"))
    found = held.find_match(("open the new door",))
    assert found is not None
    assert found.target_text == "2"


def test_scripts_without_spaces_are_counted_letter_by_letter() -> None:
    found = memory(("我喜欢红茶", "I like black tea")).find_match(("我喜欢绿茶",))
    assert found is not None
    assert found.similarity == pytest.approx(0.8)


def test_white_space_does_not_count_and_stays_that_of_the_text() -> None:
    held = memory(("Open  the\nfile", "Datei öffnen\n"))
    found = held.find_match(("\tOpen the file ",))
    assert found is not None
    assert found.exact_target == ("\tDatei öffnen ",)


@pytest.mark.parametrize(
    ("text", "target"),
    [("Open %s", "Öffne"), ("Open", "Öffne %s"), ("Open <b>it</b>", "Öffne es"), ("Open 3", "Öffne drei")],
)
def test_a_translation_that_lacks_a_placeholder_is_not_taken(text: str, target: str) -> None:
    found = memory((text, target)).find_match((text,))
    assert found is not None
    assert (found.exact_target, found.similarity, found.percent) == (None, 1.0, 100)


def test_another_number_is_another_text() -> None:
    found = memory(("Delete 3 old files", "3 alte Dateien löschen")).find_match(("Delete 4 old files",))
    assert found is not None
    assert (found.exact_target, found.similarity) == (None, pytest.approx(0.75))


def test_codes_are_the_same_as_they_are_written() -> None:
    """The text alone is the same, but the markup is not, so nobody knows where it goes."""
    bold, italic = InlineCode("<g id='1'>", "open", "g"), InlineCode("<i>", "open", "i")
    closing, other = InlineCode("</g>", "close", "g"), InlineCode("</i>", "close", "i")
    held = TranslationMemory([MemoryEntry(("Press ", bold, "it", closing), (bold, "Es", closing, " dr"), "a.xlf")])
    taken = held.find_match(("Press ", bold, "it", closing))
    assert taken is not None
    assert taken.exact_target == (bold, "Es", closing, " dr")
    shown = held.find_match(("Press ", italic, "it", other))
    assert shown is not None
    assert (shown.exact_target, shown.source_text, shown.target_text) == (None, "Press it", "Es dr")
    assert held.find_match(("Press <g id='1'>it</g>",)).exact_target is None, "text is no markup"  # type: ignore[union-attr]


def test_codes_in_another_order_are_another_text() -> None:
    one, other = InlineCode("<x id='1'/>"), InlineCode("<x id='2'/>")
    held = TranslationMemory([MemoryEntry((one, " of ", other), (other, "s ", one), "a.xlf")])
    found, turned = held.find_match((one, " of ", other)), held.find_match((other, " of ", one))
    assert found is not None
    assert found.exact_target == (other, "s ", one)
    assert turned is not None
    assert turned.exact_target is None


def test_accelerators_go_with_the_text() -> None:
    held = memory(("&Open", "Ö&ffnen"), ("Close", "Schließen"))

    def taken(text: str, *, accelerators: bool = True) -> Segment | None:
        found = held.find_match((text,), accelerators=accelerators)
        return found.exact_target if found else None

    assert taken("&Open") == ("Ö&ffnen",), "as the translator has chosen"
    assert taken("O&pen") == ("Ö&ffnen",) or taken("O&pen") == ("&Öffnen",)
    assert taken("Open") == ("Öffnen",)
    assert taken("_Close") == ("S_chließen",)
    assert taken("Open", accelerators=False) is None


def test_which_of_several_translations_is_taken() -> None:
    """The first file goes first; in it the most frequent translation, and of these the last."""

    def taken(*pairs: tuple[str, str]) -> Segment | None:
        approved = [MemoryEntry(("Open",), (target,), origin) for target, origin in pairs]
        found = TranslationMemory(approved).find_match(("Open",))
        return found.exact_target if found else None

    assert taken(("a", "1"), ("b", "1")) == ("b",)
    assert taken(("a", "1"), ("a", "1"), ("b", "1")) == ("a",)
    assert taken(("a", "1"), ("b", "2"), ("b", "2")) == ("a",)
    assert taken(("a ", "1"), ("b", "1"), (" a", "1")) == ("a",), "white space makes no other translation"
    assert taken(("a %s", "1"), ("b", "2")) == ("b",), "what has another placeholder is none"


def test_a_text_without_words_in_common_is_like_none() -> None:
    held = memory(("a b", "x"), least=0.0)
    assert held.find_match(("c d",)) is None
    assert held.find_match(("",)) is None
    assert memory(least=0.0).find_match(("a",)) is None
    assert len(held) == 1


@pytest.mark.parametrize(
    "text",
    ["a  b\n c", " %s {name} 3,000 ", "a&b", "<b>x</b> y", "_Open", "a\tb", "x ~ y", r"a\nb", "[b]x[/b] **y**", ""],
)
def test_the_short_way_to_plain_text_is_the_long_one(text: str) -> None:
    bare, _ = remove_accelerator((text,))
    shown = (
        part if isinstance(part, str) else part.value or " " * (part.name in ("break", "escape"))
        for part in scan_placeholders(bare)
    )
    assert to_plain_text((text,)) == " ".join("".join(shown).split())


def test_without_the_package_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    with pytest.raises(MissingExtraError, match=r"heedful\[localisation\]"):
        memory(("a", "b"))


SIMILAR = MemoryMatch(MemoryEntry(("one <two>",), ("eins <zwei>\n",), 'm "1".tsv'), 0.834)
TAKEN = MemoryMatch(MemoryEntry(("x",), ("y",), "m.tsv"), 1.0, ("taken",))


def filled(path: Path) -> bytes:
    """A document of which each other unit has something similar, and all others a translation from the memory."""
    document = read_document(path, source="en", target="de")
    open_ = [number for number, unit in enumerate(document.units) if unit.translatable]
    matches = {number: (SIMILAR, TAKEN)[place % 2] for place, number in enumerate(open_)}
    targets = {number: ("taken",) if matches[number].exact_target else ("made",) for number in open_}
    return document.fill_targets(targets, matches)


def test_what_is_shown_touches_nothing_else(sample: Path) -> None:
    document = read_document(sample, source="en", target="de")
    if not document.keeps_source:
        return
    before = [(unit.source, unit.state, unit.translatable) for unit in document.units]
    sample.write_bytes(filled(sample))
    again = read_document(sample, source="en", target="de")
    for (source, state, is_open), unit in zip(before, again.units, strict=True):
        assert source == unit.source
        assert unit.target in (("taken",), ("made",)) or not is_open
        if unit.target == ("made",):
            assert unit.state == "review"
        elif is_open and state != "review" and "%d file" not in str(source):
            assert unit.state == "translated"
    if sample.suffix in (".po", ".xlf", ".xliff"):
        before = sample.read_bytes()
        matches = {number: SIMILAR for number, unit in enumerate(again.units) if unit.target == ("made",)}
        assert again.fill_targets({}, matches) == before, "what is shown already is not shown again"


def test_in_po_comments_show_it(write) -> None:
    path = write("a.po", '# note\nmsgid "a"\nmsgstr ""\n\n#~ msgid "x"\n#~ msgstr "y"\nmsgid "b"\nmsgstr ""\n')
    document = read_document(path)
    shown = '# 83%: "one <two>" = "eins <zwei>"\n'
    assert document.fill_targets({0: ("A",)}, {0: SIMILAR, 1: SIMILAR}).decode() == (
        f'{shown}# note\n#, fuzzy\nmsgid "a"\nmsgstr "A"\n\n#~ msgid "x"\n#~ msgstr "y"\n{shown}msgid "b"\nmsgstr ""\n'
    )
    assert document.fill_targets({0: ("taken",)}, {0: TAKEN}).decode().startswith('# note\nmsgid "a"\nmsgstr "taken"\n')


def test_a_form_that_a_machine_made_makes_its_message_fuzzy(write) -> None:
    text = 'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    document = read_document(write("a.po", text))
    both = {0: ("taken",), 1: ("made",)}
    assert document.fill_targets(both, {0: TAKEN}).decode().startswith("#, fuzzy\n")
    assert "fuzzy" not in document.fill_targets(both, {0: TAKEN, 1: TAKEN}).decode()
    assert document.fill_targets(both, {0: SIMILAR, 1: SIMILAR}).decode().count("83%") == 1


def test_in_xliff_alternatives_show_it(write) -> None:
    unit = '<trans-unit id="1" approved="no">\n  <source>a</source>%s</trans-unit>'
    text = f'<xliff version="1.2"><file source-language="en" target-language="de-AT"><body>{unit}</body></file></xliff>'
    document = read_document(write("a.xlf", text % ""))
    assert (document.languages.source, document.languages.target) == ("en", "de-AT")
    shown = (
        '\n  <alt-trans match-quality="83%" origin=\'m "1".tsv\'><source>one &lt;two&gt;</source>'
        "<target>eins &lt;zwei&gt;</target></alt-trans>"
    )
    made = '\n  <target state="needs-review-translation">A</target>'
    taken = '\n  <target state="translated" state-qualifier="exact-match">taken</target>'
    assert document.fill_targets({0: ("A",)}, {0: SIMILAR}).decode() == text % f"{made}{shown}"
    assert document.fill_targets({}, {0: SIMILAR}).decode() == text % shown
    assert document.fill_targets({0: ("taken",)}, {0: TAKEN}).decode() == text % taken
    again = read_document(write("b.xlf", text % taken))
    assert again.units[0].state == "translated"
    anew = again.fill_targets({0: ("A",)}).decode()
    assert 'state="needs-review-translation" state-qualifier="mt-suggestion"' in anew


def test_in_xliff_2_candidates_show_it(write) -> None:
    unit = (
        '<unit id="u">%s\n <segment%s><source>a</source>%s</segment>\n'
        ' <segment id="s"><source>b</source></segment></unit>'
    )
    text = f'<xliff version="2.0" srcLang="en" trgLang="fr"><file id="f">{unit}</file></xliff>'
    document = read_document(write("a.xlf", text % ("", "", "")))
    assert (document.languages.source, document.languages.target) == ("en", "fr")
    pair = "<source>one &lt;two&gt;</source><target>eins &lt;zwei&gt;</target></mtc:match>"
    origin = 'similarity="83" origin=\'m "1".tsv\'>'
    first, second = (f'<mtc:match ref="#{name}" {origin}{pair}' for name in ("heedful-1", "s"))
    begin, end = '\n <mtc:matches xmlns:mtc="urn:oasis:names:tc:xliff:matches:2.0">', "\n </mtc:matches>"
    both = document.fill_targets({}, {0: SIMILAR, 1: SIMILAR}).decode()
    assert both == text % (f"{begin}{first}{second}{end}", ' id="heedful-1"', "")
    one = document.fill_targets({}, {1: SIMILAR}).decode()
    assert one == text % (f"{begin}{second}{end}", "", "")
    other = MemoryMatch(MemoryEntry(("c",), ("d",), "n.tsv"), 0.9)
    more = read_document(write("b.xlf", one)).fill_targets({}, {1: other}).decode()
    assert more.count("mtc:matches") == one.count("mtc:matches")
    assert more.count("<mtc:match ") == 2
    taken = document.fill_targets({0: ("taken",)}, {0: TAKEN}).decode()
    assert 'state="translated" subState="heedful:memory"' in taken or 'subState="heedful:memory" state=' in taken
    assert read_document(write("c.xlf", taken)).units[0].state == "translated"


def test_a_tmx_says_where_its_variants_are_from(write) -> None:
    text = '<tmx version="1.4"><body><tu><tuv xml:lang="en"><seg>a</seg></tuv></tu></body></tmx>'
    document = read_document(write("a.tmx", text), source="en", target="de")
    taken = document.fill_targets({0: ("taken",)}, {0: TAKEN})
    assert b'creationid="heedful-memory"' in taken
    assert read_document(write("b.tmx", taken), source="en", target="de").units[0].state == "translated"
    assert document.languages.target == "de"


def test_variants_of_another_script_or_region_are_not_found(write) -> None:
    said = {"zh-CN": "S", "zh-TW": "T", "pt-BR": "B", "sr-Latn": "L"}
    variants = "".join(f'<tuv xml:lang="{tag}"><seg>{text}</seg></tuv>' for tag, text in said.items())
    unit = f'<tmx version="1.4"><body><tu><tuv xml:lang="en"><seg>a</seg></tuv>{variants}</tu></body></tmx>'
    found = {
        "zh": "S",
        "zh_Hant": "T",
        "zh-HK": None,
        "pt": "B",
        "pt-PT": None,
        "sr": None,
        "sr@latin": "L",
        "zh-TW": "T",
    }
    for tag, text in found.items():
        (only,) = read_document(write("a.tmx", unit), source="en", target=tag).units
        assert only.target == (None if text is None else (text,))


def test_what_may_not_be_taken_is_shown(write) -> None:
    held = TranslationMemory([MemoryEntry(("&a dog",), ("B",), "m.po", reusable=False)])
    for text in ("&a dog", "a _dog"):
        found = held.find_match((text,))
        assert found is not None
        assert (found.exact_target, found.target_text) == (None, "B")
    both = TranslationMemory([*held._entries, MemoryEntry(("&a dog",), ("C",), "n.po")])
    taken = both.find_match(("&a dog",))
    assert taken is not None
    assert taken.exact_target == ("C",)


def test_a_po_says_its_language(write) -> None:
    head = 'msgid ""\nmsgstr ""\n"Language-Team: x\\n"\n"Language: pt_BR\\n"\n'
    assert read_document(write("a.po", head)).languages.target == "pt_BR"
    assert read_document(write("b.po", head.replace("pt_BR", ""))).languages.target is None
    assert read_document(write("c.html", "<p>a</p>")).languages.target is None
