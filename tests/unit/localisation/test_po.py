"""PO files against other readers of theirs: Babel for messages, Python's gettext for plural forms."""

from __future__ import annotations

import gettext
import random
from io import BytesIO
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

from heedful.errors import DataError
from heedful.localisation.po_document import PoDocument, parse_plural_forms

RULES = {
    "ja": "nplurals=1; plural=0;",
    "de": "nplurals=2; plural=(n != 1);",
    "fr": "nplurals=2; plural=n>1;",
    "ru": "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);",
    "ga": "nplurals=5; plural=n==1 ? 0 : n==2 ? 1 : (n>2 && n<7) ? 2 :(n>6 && n<11) ? 3 : 4;",
    "sl": "nplurals=4; plural=(n%100==1 ? 1 : n%100==2 ? 2 : n%100==3 || n%100==4 ? 3 : 0);",
    "ar": "nplurals=6; plural=n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5;",
    "odd": "nplurals=3; plural=!(n-1) ? 0 : n*2/3%2 + (n<=9)",
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_plural_forms_are_those_of_gettext(rule: str) -> None:
    found = parse_plural_forms(f"Language: x\nPlural-Forms: {rule}\n")
    judged = gettext.c2py(rule.partition("plural=")[2].rstrip(";"))
    forms = [judged(n) for n in range(1000)] if not rule.startswith("nplurals=3; plural=!") else None
    assert found is not None
    if forms is None:  # of which gettext.c2py forbids n-1 below 0
        forms = [judged(n) for n in range(1, 1000)]
    assert found.count == int(rule[9])
    assert found.singular == judged(1)
    assert found.shared == (forms.count(judged(1)) > 1)


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "nplurals=INTEGER; plural=EXPRESSION;",
        "nplurals=2; plural=n%0;",
        "nplurals=2; plural=n;",
        "nplurals=0; plural=0;",
        "nplurals=9999; plural=0;",
        "nplurals=2; plural=(n",
        "nplurals=2; plural=__import__('os');",
        "nplurals=2; plural=n ? 1;",
        f"nplurals=2; plural={'!' * 5000}n;",
        f"nplurals=2; plural={'(' * 140}n{')' * 140};",
        f"nplurals=2; plural={'9' * 5000};",
        f"nplurals=2; plural=n>1 && {'9' * 1000}*n > n;",
        f"nplurals={'9' * 5000}; plural=0;",
        f"nplurals={'9' * 20}; plural=0;",
    ],
)
def test_rules_that_are_none(rule: str) -> None:
    assert parse_plural_forms(f"Plural-Forms: {rule}") is None


EMPTY = '""'


def messages(data: bytes) -> dict[tuple[str, str], tuple[object, bool]]:
    """What Babel reads: contexts and ids with strings, and whether they are fuzzy."""
    return {
        (message.context or "", message.id if isinstance(message.id, str) else message.id[0]): (
            message.string,
            message.fuzzy,
        )
        for message in read_po(BytesIO(data))
        if message.id
    }


def test_what_was_filled_is_what_babel_reads(write) -> None:
    """Random messages, filled with random texts: Babel sees the new ones fuzzy, and the others as they were."""
    chance = random.Random(5)
    hard = ['"', "\\", "\n", "\t", " ", "%s", "\xe4", "b", "\\n", "msgid", "#"]

    def words() -> str:
        return "".join(chance.choices(hard, k=chance.randint(1, 9))) + "x"

    def quoted(text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        cut = chance.randint(0, len(text)) if "\\" not in escaped else 0
        return f'"{escaped[:cut]}"\n"{escaped[cut:]}"' if cut else f'"{escaped}"'

    text = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n'
    for number in range(60):
        text += "\n" + chance.choice(["", "#. note\n", "#: a.c:1\n", "#, c-format\n", "# x\n#, fuzzy\n"])
        text += chance.choice(["", f"msgctxt {quoted(words())}\n"])
        text += f"msgid {quoted(f'{number} {words()}')}\n"
        text += f"msgstr {chance.choice([EMPTY, quoted(words())])}\n"
    before = messages(text.encode())
    document = PoDocument.from_file(write("a.po", text))
    targets = {number: words() for number in range(60) if chance.random() < 0.4}
    after = messages(document.fill_targets({number: (target,) for number, target in targets.items()}))
    assert list(after) == list(before)
    for number, name in enumerate(before):
        unit = document.units[number]
        assert (unit.name, unit.source) == (name[0], (name[1],))
        assert (unit.target or ("",)) == (before[name][0],)
        assert (unit.state == "review") == bool(before[name][1] and before[name][0])
        assert after[name] == ((targets[number], True) if number in targets else before[name])


def test_each_form_has_its_source(write) -> None:
    def sources(rule: str, one: str = "one file", many: str = "%d files") -> list[object]:
        header = f'msgid ""\nmsgstr "Plural-Forms: {rule}\\n"\n\n'
        entry = f'msgid "{one}"\nmsgid_plural "{many}"\nmsgstr[0] ""\nmsgstr[1] ""\n'
        return [unit.source[0] for unit in PoDocument.from_file(write("a.po", header + entry)).units]

    assert sources(RULES["de"]) == ["one file", "%d files"]
    assert sources(RULES["ja"]) == ["%d files"]
    assert sources(RULES["ru"]) == ["%d files"] * 3, "21 takes the form of 1, and must be told"
    assert sources(RULES["ru"], one="%d file") == ["%d file", "%d files", "%d files"]
    assert sources(RULES["sl"])[1] == "%d files"
    assert sources("nonsense") == ["one file", "%d files"]


def test_notes_contexts_and_obsolete_messages(sample: Path) -> None:
    if sample.suffix != ".po":
        return
    units = PoDocument.from_file(sample).units
    assert [unit.state for unit in units] == ["untranslated", "translated", "review", *["untranslated"] * 4]
    assert units[0].source == ('Open "%s" in C:\\temp\n',)
    assert units[0].notes == ("Shown in a title.",)
    assert (units[1].name, units[2].source, units[2].target) == ("menu", ("newer words",), ("alt",))
    assert "gone" not in str(units)


OBSOLETE = {
    "flags": "#, fuzzy\n{old}",
    "notes": "# of the obsolete one\n#. likewise\n{old}",
    "all of it": '#. n\n#: a.c:1\n#, fuzzy, c-format\n#~| msgctxt "y"\n#~| msgid "older"\n{old}',
    "a context": '#, fuzzy\n#~ msgctxt "x"\n{old}',
    "an earlier text": '#, fuzzy\n#| msgid "older"\n{old}',
    "two": "#, fuzzy\n{old}\n# n\n#, fuzzy\n{old}",
    "two without a line between": "#, fuzzy\n{old}#, fuzzy\n{old}",
    "white space before": "#, fuzzy\n  {old}",
}
OLD = '#~ msgid "gone %d"\n#~ msgstr "weg %d"\n'


@pytest.mark.parametrize("gap", ["", "\n", "\r\n"])
@pytest.mark.parametrize("before", OBSOLETE.values(), ids=OBSOLETE)
def test_what_is_said_of_an_obsolete_message_is_said_of_no_other(write, before: str, gap: str) -> None:
    """Whatever stands before it, the next message keeps what is its own: a comment, a flag, what it was before."""
    text = before.format(old=OLD) + gap
    own = '# mine\n#, c-format\n#| msgid "b"\nmsgid "a"\nmsgstr ""\n'
    for message, filled in (
        (own, own.replace("c-format", "c-format, fuzzy").replace('msgstr ""', 'msgstr "A"')),
        ('msgid "a"\nmsgstr ""\n', '#, fuzzy\nmsgid "a"\nmsgstr "A"\n'),
    ):
        document = PoDocument.from_file(write("a.po", text + message))
        (unit,) = document.units
        assert unit.notes == (("mine",) if message is own else ())
        new = filled.replace("\n", "\r\n") if "\r" in gap else filled
        found = document.fill_targets({0: ("A",)}).decode()
        assert found.replace("\r\n", "\n") == (text + new).replace("\r\n", "\n")
        translated = message.replace('msgstr ""', 'msgstr "A"')
        assert PoDocument.from_file(write("a.po", text + translated)).units[0].state == "translated"


@pytest.mark.parametrize("before", OBSOLETE.values(), ids=OBSOLETE)
def test_obsolete_messages_at_the_end_say_nothing_of_the_last_one(write, before: str) -> None:
    text = 'msgid "a"\nmsgstr "A"\n\n' + before.format(old=OLD)
    for whole in (text, text.rstrip("\n"), f"{text}# behind\n#, fuzzy\n"):
        document = PoDocument.from_file(write("a.po", whole))
        assert [(unit.state, unit.notes) for unit in document.units] == [("translated", ())]
        assert document.fill_targets({}) == whole.encode()


def test_a_message_that_an_obsolete_one_interrupts_is_refused(write) -> None:
    with pytest.raises(DataError, match=r"a\.po:2: the message before this line has no msgstr"):
        PoDocument.from_file(write("a.po", f'msgid "a"\n{OLD}msgstr "A"\n'))


def test_a_template_gets_the_name_of_its_encoding(write) -> None:
    text = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=CHARSET\\n"\n\nmsgid "a"\nmsgstr ""\n'
    document = PoDocument.from_file(write("a.pot", text))
    assert document.fill_targets({}) == text.encode()
    assert b"charset=UTF-8\\n" in document.fill_targets({0: ("\xe4",)})


def test_flags_stand_before_what_a_message_was(write) -> None:
    text = '#: x\n#| msgid "b"\nmsgid "a"\nmsgstr ""\n\n#, c-format\n#| msgid "d"\nmsgid "c"\nmsgstr ""\n'
    found = PoDocument.from_file(write("a.po", text)).fill_targets({0: ("A",), 1: ("C",)}).decode()
    assert found == (
        '#: x\n#, fuzzy\n#| msgid "b"\nmsgid "a"\nmsgstr "A"\n\n'
        '#, c-format, fuzzy\n#| msgid "d"\nmsgid "c"\nmsgstr "C"\n'
    )
