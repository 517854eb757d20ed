"""Placeholders are seen, cut out, put back where they belong, and counted."""

from __future__ import annotations

import random

import numpy as np
import pytest

from heedful.data.text_splitting import split_sentences
from heedful.localisation.markup_projection import WordAlignment, align_words, find_words, insert_parts
from heedful.localisation.placeholders import (
    insert_accelerator,
    list_unknown_marks,
    remove_accelerator,
    restore_placeholders,
    scan_placeholders,
    to_plain_text,
)
from heedful.localisation.protection import (
    count_missing_codes,
    has_same_codes,
    protect_codes,
    split_at_codes,
    split_into_frames,
)
from heedful.localisation.segments import CodePair, InlineCode, Segment, flatten_nodes, list_codes, nest_pairs

B = (InlineCode("<b>", "open", "b"), InlineCode("</b>", "close", "b"))
I = (InlineCode("<i>", "open", "i"), InlineCode("</i>", "close", "i"))  # noqa: E741
BR = InlineCode("<br/>", "alone", "br")


KNOWN: list[tuple[str, list[str]]] = [
    # messages of several forms, over lines and inside each other
    *(
        (f"Saw {text} today", [text])
        for text in (
            "{count, plural,\n  one {1 hour ago}\n  other {{count} hours ago}\n}",
            "{ski, plural, one {I have {{ski}} ski.} other {I have {{ski}} skis.} }",
            "{g, select, male {{n, plural, one {his # file} other {his {b, select, a {{x}} other {y}}}}} other {it}}",
            "{n, selectordinal, one {#st} other {#th}}",
            "{VAR_PLURAL, plural, =0 {none}\n=1 {one}\nother {{INTERPOLATION} more}}",
            "{n, plural, one {a '{' in it} other {# of '}' them}}",
            "{ $count ->\n    [one] one file\n   *[other] { $count } files\n}",
            "{0,choice,0#no files|1#one file|1<{0} files}",
        )
    ),
    ("Broken {n, plural, one {a file} other", ["{n, plural, one {a file} other"]),
    # braces
    ("{{name}} and {{{raw}}}, ${user.name}", ["{{name}}", "{{{raw}}}", "${user.name}"]),
    ("{{#if user}}Hi{{/if}} {% trans %} {# note #}", ["{{#if user}}", "{{/if}}", "{% trans %}", "{# note #}"]),
    ("{{ price | currency:'EUR' }} {0:N2} {1,10:C}", ["{{ price | currency:'EUR' }}", "{0:N2}", "{1,10:C}"]),
    ("Hi @{y}, #{x} %{z} %<w>s %<v>.2f", ["@{y}", "#{x}", "%{z}", "%<w>s", "%<v>.2f"]),
    ("{ $who } of { -brand-name }", ["{ $who }", "{ -brand-name }"]),
    ("{{\n  name\n}} is here", ["{{\n  name\n}}"]),
    # colons, at signs, dollars, brackets
    ("Hello :name, :Count more; see :url_of.", [":name", ":Count", ":url_of"]),
    (":count items (:total)", [":count", ":total"]),
    ("@:common.ok @.lower:key @:(a.b)", ["@:common.ok", "@.lower:key", "@:(a.b)"]),
    ('See $t(key), $t(ns:key.deep, {"n": {{n}} })', ["$t(key)", '$t(ns:key.deep, {"n": {{n}} })']),
    ("@count by @user", ["@count", "@user"]),
    ("[[name]] wrote [%title%]", ["[[name]]", "[%title%]"]),
    ("*|FNAME|*, ##NAME## %%date%% @NAME@", ["*|FNAME|*", "##NAME##", "%%date%%", "@NAME@"]),
    ("$1 edits by $2.", ["$1", "$2"]),
    ("$user->name, $order.total, $list[0]", ["$user->name", "$order.total", "$list[0]"]),
    (r"Swift \(user.name(in: 3)) here", [r"\(user.name(in: 3))"]),
    ("<b>:name</b>, :name's (:id) /users/:id", ["<b>", ":name", "</b>", ":name", ":id", ":id"]),
    ("@lang('a.b') in @string/app_name", ["@lang('a.b')", "@string/app_name"]),
    # percent signs
    ("%1!s! of %2!d! and %Ln", ["%1!s!", "%2!d!", "%Ln"]),
    ("%@ and %1$@, %lld, %#@files@, %1$#@n@", ["%@", "%1$@", "%lld", "%#@files@", "%1$#@n@"]),
    ("%1 of %n, %L1, %'d, %+.3f, %05.1lf, %*d", ["%1", "%n", "%L1", "%'d", "%+.3f", "%05.1lf", "%*d"]),
    ("%Y-%m-%d at %H:%M", ["%Y", "%m", "%d", "%H", "%M"]),
    ("%user sent %v to %T", ["%user", "%v", "%T"]),
    # markup
    ("<0>July</0> <1>now</1> <2/> <3 />", ["<0>", "</0>", "<1>", "</1>", "<2/>", "<3 />"]),
    (
        "<%= name %>, <% if x %>a<% end %>, <?php echo $x ?>",
        ["<%= name %>", "<% if x %>", "<% end %>", "<?php echo $x ?>"],
    ),
    ("a <!-- b > c --> d <<Name>>", ["<!-- b > c -->", "<<Name>>"]),
    ('<Link to={url} @click="go(1)">x</Link>', ['<Link to={url} @click="go(1)">', "</Link>"]),
    ("[b]bold[/b] [url=http://a.b]x[/url] [*]", ["[b]", "[/b]", "[url=http://a.b]", "[/url]", "[*]"]),
    ("see [the page](https://a.b/c) and **this**", ["[", "](https://a.b/c)", "**", "**"]),
    ("<color=#ff0000>red</color> <size=20>x", ["<color=#ff0000>", "</color>", "<size=20>"]),
    # escapes and paths
    (r"\V[1] has \textbf{x}", [r"\V[1]", r"\textbf", "{x}"]),
    (r"one\ntwo\tthree\r\nfour \u00e9", [r"\n", r"\t", r"\r\n", r"\u00e9"]),
    (r"in C:\Program Files\My App\a.txt or C:\new, D:\.", [r"C:\Program Files\My App\a.txt", r"C:\new", "D:\\"]),
    (r"\\server\share\x and %APPDATA%\Foo ..\a", [r"\\server\share\x", r"%APPDATA%\Foo", r"..\a"]),
    (r"HKEY_CURRENT_USER\Software\X", [r"HKEY_CURRENT_USER\Software\X"]),
    # keys
    ("Ctrl+S, Ctrl + Shift + F5, Alt-F4", ["Ctrl+S", "Ctrl + Shift + F5", "Alt-F4"]),
    ("Press Ctrl+Alt+Del or \u2318\u21e7P or F1", ["Ctrl+Alt+Del", "\u2318\u21e7P", "F1"]),
    # names
    ("v1.2.3-beta, 2.0rc1, 1.2.3-rc.1, #a1b2c3", ["v1.2.3-beta", "2.0rc1", "1.2.3-rc.1", "#a1b2c3"]),
    ("foo() in std::vector, report_1.pdf, main.py", ["foo()", "std::vector", "report_1.pdf", "main.py"]),
    ("use `ls -l` and --color=auto on example.org", ["`ls -l`", "--color=auto", "example.org"]),
    ("app://open?x=1 tel:+4912345 mailto:a@b.cd", ["app://open?x=1", "tel:+4912345", "mailto:a@b.cd"]),
]
"""What systems of localisation and those who write for them put into texts."""
PROSE = [
    "note: name it, see :) and he said: no",
    "Well -- I mean, isn't it? (Yes.) [sic]",
    "She asked: \"Why?\" and left; 'a' and 'b'.",
    "the 'quoted' word, and/or, e.g. this, i.e. that, etc.",
    "Windows is a Microsoft system. Control is everything.",
    "A shift - a big one - and an option, at home @ night",
    "Tom & Ann, R&D, AT&T, rock'n'roll",
    "a * b = c, x < y > z, 'til",
    "C'est la vie : oui ! Vraiment ?",
]


def raws(text: str) -> list[str]:
    return [code.raw for code in list_codes(scan_placeholders((text,)))]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Delete %d of %s", ["%d", "%s"]),
        ("%(name)s has %1$d, %-5.2f, %ld and %%", ["%(name)s", "%1$d", "%-5.2f", "%ld", "%%"]),
        ("100% done, 50 % of it, 5% discount", ["100%", "50 %", "5%"]),
        ("{0} {name} {n:d} {{x}} {}", ["{0}", "{name}", "{n:d}", "{{x}}", "{}"]),
        ("{n, plural, one {# file} other {# files}} left", ["{n, plural, one {# file} other {# files}}"]),
        (
            "%{count} ${HOME} $name #{ruby} $(ARG1) $[officename]",
            "%{count} ${HOME} $name #{ruby} $(ARG1) $[officename]",
        ),
        ("%d%d %lld%% %s%", ["%d", "%d", "%lld", "%%", "%s"]),
        ("%PRODUCTNAME %FILENAME% %1 %L2 %n", ["%PRODUCTNAME", "%FILENAME%", "%1", "%L2", "%n"]),
        ("see https://a.b/c?d=e_f. Or (www.x.org)", ["https://a.b/c?d=e_f", "www.x.org"]),
        ("ask me@example.org.", ["me@example.org"]),
        ("a &amp; b &#8364; R&D", ["&amp;", "&#8364;"]),
        ('<a href="x>y">here</a><br/>', ['<a href="x>y">', "</a>", "<br/>"]),
        ("a < b > c", []),
        ("use --force in /usr/lib/x and max_size", ["--force", "/usr/lib/x", "max_size"]),
        ("1,234.5 at 12:30, 3D, LZ77, v2", ["1,234.5", "12:30"]),
        ("and/or 1/2, 0-59", ["1/2", "0-59"]),
        ("the table $name$ has $x", ["$name$", "$x"]),
        ("one\ntwo\tthree", ["\n", "\t"]),
        *KNOWN,
        *((text, []) for text in PROSE),
        ("no placeholders: at all!", []),
    ],
)
def test_what_is_a_placeholder(text: str, found: str | list[str]) -> None:
    assert raws(text) == (found.split() if isinstance(found, str) else found)
    assert "".join(part if isinstance(part, str) else part.raw for part in scan_placeholders((text,))) == text


@pytest.mark.parametrize(
    ("text", "bare", "mark"),
    [
        ("&File", "File", "&F"),
        ("Save _As", "Save As", "_A"),
        ("~Edit", "Edit", "~E"),
        ("E_xit", "Exit", "_x"),
        ("Cl&ose", "Close", "&o"),
        ("Com_pare", "Compare", "_p"),
        ("AT&T", "AT&T", ""),
        ("Tom & Ann", "Tom & Ann", ""),
        ("a &amp; b", "a &amp; b", ""),
        ("Set max_length", "Set max_length", ""),
        ("&One &two", "&One &two", ""),
        ("~/folder", "~/folder", ""),
        ("~u/folder", "~u/folder", ""),
    ],
)
def test_accelerators(text: str, bare: str, mark: str) -> None:
    assert remove_accelerator((text,)) == ((bare,), mark)


@pytest.mark.parametrize(
    ("text", "mark", "marked"),
    [
        ("Datei", "&F", "&Datei"),
        ("Alle Farben", "&F", "Alle &Farben"),
        ("Auf Farben", "&F", "Auf &Farben"),
        ("Bearbeitet: Tabelle", "_t", "Bearbeitet: _Tabelle"),
        ("{file} auf Farben", "~F", "{file} auf ~Farben"),
        ("Beenden", "_x", "_Beenden"),
        ("Extras", "_x", "E_xtras"),
        ("Schlie\xdfen", "~c", "S~chlie\xdfen"),
        ("{file} F", "&F", "{file} &F"),
        ("\u6587\u4ef6", "&F", "\u6587\u4ef6(&F)"),
        ("\u6253\u5f00...", "_o", "\u6253\u5f00(_O)..."),
    ],
)
def test_accelerators_come_back(text: str, mark: str, marked: str) -> None:
    assert restore_placeholders(insert_accelerator((text,), mark)) == (marked,)


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("Dear [your-name], hello", ["[your-name]"]),
        ("Use ~x~ or ^y^ here", ["~x~", "^y^"]),
        ("broken {name and name", ["{name"]),
        ("an <odd! one>", ["<odd! one>"]),
        (r"a \cite thing, don\'t", [r"\cite", r"\'"]),
        ("it costs $15, *very* cheap: %s", ["*very*"]),
        ("nothing [1] here, $5.50, a dog", []),
        *((text, []) for text in PROSE if "[sic]" not in text),
    ],
)
def test_what_no_rule_knows_is_named(text: str, marks: list[str]) -> None:
    assert list_unknown_marks((text,)) == marks


@pytest.mark.parametrize(
    "opening", ["{", "{{", "{n, plural, other {", "<%", "<!--", "[[", "$t(", "%(", "@:(", "**", "[b", "`"]
)
def test_what_is_never_closed_is_looked_through_once(opening: str) -> None:
    text = f"{opening} a " * 4000
    assert "".join(part if isinstance(part, str) else part.raw for part in scan_placeholders((text,))) == text


def test_markup_and_values_are_cut_out() -> None:
    segment = ("Delete ", B[0], "all %d", B[1], " files", BR, "now.")
    assert protect_codes(segment).text == "Delete all %d files now."
    assert protect_codes(segment, values=False).text == "Delete all files now."
    (pair, single) = protect_codes(segment).parts
    assert (pair.start, pair.stop, single.start) == (7, 13, 20)
    assert not protect_codes("%s: %d").has_words or protect_codes("%s: %d", values=False).text == ":"
    assert not protect_codes("%s: 5", values=False).has_words
    assert (
        to_plain_text(
            (
                " a",
                BR,
                "b &amp; %s",
            )
        )
        == "ab &amp; %s"
    )
    assert to_plain_text(("one\n two",)) == "one two"
    assert to_plain_text((r"one\ntwo",)) == "one two"


def diagonal(text: str, translation: str, order: list[int]) -> WordAlignment:
    """Word t of a translation looked at word `order[t]` alone."""
    weights = np.zeros((len(order), len(find_words(text))))
    weights[np.arange(len(order)), order] = 1.0
    return WordAlignment(find_words(text), find_words(translation), weights)


def put(segment: Segment, translation: str, order: list[int], *, values: bool = True) -> str:
    protected = protect_codes(segment, values=values)
    target = insert_parts(protected, translation, diagonal(protected.text, translation, order))
    assert has_same_codes(segment, target)
    return "".join(part if isinstance(part, str) else part.raw for part in target)


def test_codes_follow_their_words() -> None:
    assert put(("open ", B[0], "the file", B[1], " now"), "jetzt die Datei bitte", [3, 1, 2, 0]) == (
        "jetzt <b>die Datei</b> bitte"
    )
    assert put(("the ", B[0], "red", B[1], " house."), "la maison rouge.", [0, 2, 1, 3]) == "la maison <b>rouge</b>."
    assert put(("Delete %d files",), "Dateien entfernen", [1, 0], values=False) in (
        "%d Dateien entfernen",
        "Dateien entfernen %d",
    )
    assert put(("Delete %d files",), "L\xf6sche Dateien", [0, 1], values=False) == "L\xf6sche %d Dateien"
    assert put(("Saved in %s.",), "Gesichert in.", [0, 1, 2], values=False) == "Gesichert in %s."
    assert put(("a ", B[0], "b ", I[0], "c", I[1], B[1], " d"), "D C B A", [3, 2, 1, 0]) == "D <b><i>C</i> B</b> A"
    assert put(("No. %s) %s",), "Nr.", [0, 1], values=False) == "Nr. %s %s"
    assert put(("one", BR, "two"), "eins zwei", [0, 1]) == "eins<br/>zwei"
    assert put(("one\ntwo",), "eins zwei", [0, 1]) == "eins\nzwei"


@pytest.mark.parametrize(
    "text", ["in 1999\nA dog", "a dog %s\n%d runs", "<i>a dog</i>\nruns", "1999\n2000 dogs", "<i>in 1999</i>\n<i>A</i>"]
)
def test_no_space_stands_beside_the_end_of_a_line(text: str) -> None:
    protected = protect_codes(text, values=False)
    count = len(find_words(protected.text))
    for order in (range(count), reversed(range(count))):
        links = diagonal(protected.text, protected.text, list(order))
        found = "".join(
            part if isinstance(part, str) else part.raw for part in insert_parts(protected, protected.text, links)
        )
        assert found.count("\n") == 1
        assert " \n" not in found
        assert "\n " not in found


def test_either_neighbour_says_where_a_value_goes() -> None:
    """Of the words beside it in the source one is known by nobody here."""
    text, translation = "go to home", "A B C D"
    protected = protect_codes("go to %s home", values=False)
    for word, spot in ((1, 2), (2, 1)):  # behind the word that looked at `to`, before the one that looked at `home`
        weights = np.zeros((4, 3))
        weights[1, word] = 1.0
        found = insert_parts(protected, translation, WordAlignment(find_words(text), find_words(translation), weights))
        assert "".join(part if isinstance(part, str) else part.raw for part in found).split()[spot] == "%s"


def test_a_value_in_a_pair_stays_in_it() -> None:
    segment = ("See ", B[0], "%s", B[1], " there")
    assert put(segment, "Siehe dort", [0, 1], values=False) == "Siehe <b>%s</b> dort"


def test_random_segments_lose_nothing_wherever_the_model_looks() -> None:
    chance = random.Random(3)

    def part(depth: int) -> list[str | InlineCode]:
        match chance.randrange(6 if depth else 4):
            case 0:
                return [chance.choice([" %s ", "%d", " {x}", "42 "])]
            case 1:
                return [chance.choice([BR, InlineCode("<x/>", "alone", "x")])]
            case 2 | 3:
                return [chance.choice([" word", "more words ", ", and", "."])]
            case _:
                open_, close = chance.choice([B, I])
                return [open_, *(each for _ in range(chance.randint(0, 3)) for each in part(depth - 1)), close]

    looked = 0
    for _ in range(600):
        segment = flatten_nodes(each for _ in range(chance.randint(1, 6)) for each in part(3))
        for values in (True, False):
            protected = protect_codes(segment, values=values)
            kinds = raws(protected.text)
            wanted = [code.raw for code in list_codes(scan_placeholders(segment)) if code.value and values]
            grown = any(
                code.raw.startswith("%") and len(code.raw) > 2 for code in list_codes(scan_placeholders(segment))
            )
            if not protected.text or kinds != wanted or grown:  # ".42" is no number, "%dmore" is another name
                continue
            looked += 1
            translation = " ".join([*kinds, *chance.choices(["A", "b,", "C", "\u6587"], k=chance.randint(0, 5))])
            size = len(find_words(translation)), len(find_words(protected.text))
            noise = np.random.default_rng(chance.randrange(999)).random(size)
            weights = noise / np.maximum(noise.sum(1, keepdims=True), 1e-9) if min(size) else noise
            target = insert_parts(
                protected, translation, WordAlignment(find_words(protected.text), find_words(translation), weights)
            )
            assert count_missing_codes(segment, target) == 0, (segment, target)
            pairs = [(node.opening.raw, node.closing.raw) for node in nest_pairs(segment) if isinstance(node, CodePair)]
            found = [(node.opening.raw, node.closing.raw) for node in nest_pairs(target) if isinstance(node, CodePair)]
            assert sorted(pairs) == sorted(found), (segment, target)
            cut = {code.raw for code in list_codes(segment)} | ({"%s", "%d", "{x}", "42"} if not values else set())
            said = "".join(part if isinstance(part, str) else part.raw * (part.raw not in cut) for part in target)
            assert "".join(said.split()) == "".join(translation.split()), (segment, translation, target)
    assert looked > 700


def test_what_is_kept() -> None:
    assert has_same_codes(("%s and %d",), ("%d und %s",))
    assert not has_same_codes(("%s and %d",), ("%s und",))
    assert not has_same_codes(("%s",), ("%s %s",))
    assert not has_same_codes(("none",), ("%s",))
    assert has_same_codes(("1,000 files",), ("1.000 Dateien",)), "languages group digits in their own way"
    assert has_same_codes(("two files",), ("2 Dateien",))
    assert not has_same_codes(("3 files",), ("drei Dateien",))
    assert not has_same_codes(("a ", B[0], "b", B[1]), ("a ", B[1], "b", B[0]))
    assert has_same_codes(("<b>a</b>",), ("A <b>a</b>",))
    assert not has_same_codes(("<b>a</b>",), ("</b>a<b>",))


def test_lines_and_sentences_stand_for_themselves() -> None:
    segment = ("  One. Two %s.\n\n- three\nfour ", B[0], "five. six", B[1], BR)
    frames = split_into_frames(segment, split=split_sentences)
    assert flatten_nodes(part for frame in frames for part in frame.wrap_core(frame.core)) == scan_placeholders(segment)
    assert [protect_codes(frame.core).text for frame in frames if protect_codes(frame.core).has_words] == [
        "One.",
        "Two %s.",
        "- three four five. six",
    ]
    (whole,) = split_into_frames((B[0], "Go. Go.", B[1]), split=lambda text: [text])
    assert (whole.before, whole.core, whole.after) == ((B[0],), ("Go. Go.",), (B[1],))
    assert [frame.core for frame in split_into_frames(("Go. Go. Go.",), split=split_sentences)] == [("Go.",)] * 3


def test_a_frame_is_all_that_stands_at_the_ends() -> None:
    opened, closed = (B[0],) * 3, (BR, " ", B[1])
    (frame,) = split_into_frames((*opened, " word ", I[1], "%s ", *closed), split=lambda text: [text])
    assert (frame.before[:3], frame.core) == (
        opened,
        ("word ", I[1], InlineCode("%s", "alone", "variable", "%s", in_text=True)),
    )
    assert frame.wrap_core(frame.core) == flatten_nodes((*opened, " word ", I[1], frame.core[-1], " ", *closed))
    (nothing,) = split_into_frames((*opened, BR), split=lambda text: [text])
    assert (nothing.core, nothing.wrap_core(())) == ((), (*opened, BR))


def test_pieces_are_what_stands_between_codes() -> None:
    found = split_at_codes(("Open %s now",))
    assert [(each.before, each.text, each.after) for each in found if not isinstance(each, InlineCode)] == [
        ("", "Open", " "),
        (" ", "now", ""),
    ]


def test_pairs_that_are_none_stand_alone() -> None:
    assert nest_pairs((B[1], "a", B[0])) == (B[1], "a", B[0])
    assert nest_pairs((B[0], I[0], "a", B[1], I[1])) == (CodePair(B[0], (I[0], "a"), B[1]), I[1])
    assert flatten_nodes(nest_pairs((B[0], "a", I[0], "b", I[1], B[1]))) == (B[0], "a", I[0], "b", I[1], B[1])


def test_weights_of_pieces_become_those_of_words() -> None:
    text, translation = "red house", "maison rouge"
    weights = np.array([[0.1, 0.4, 0.5], [0.0, 0.5, 0.5], [0.8, 0.1, 0.1]])
    found = align_words(
        weights, source=(text, [(0, 3), (4, 7), (7, 9)]), target=(translation, [(0, 3), (3, 6), (6, 12)])
    )
    assert np.allclose(found.weights, [[0.1 / 2.0, 1.9 / 2.0], [0.8, 0.2]])
