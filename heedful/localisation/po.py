"""PO and POT files of gettext: https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, Self, final

from heedful.errors import DataError
from heedful.localisation.documents import Edit, Languages, State, TextDocument, Unit
from heedful.localisation.encodings import Content, decoded, read_bytes
from heedful.localisation.memory import NO_MATCHES, Match
from heedful.localisation.plurals import GERMANIC, Plurals, plurals
from heedful.localisation.segments import Segment

_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+\Z")
_KEYWORD: Final = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr)(?:\[(\d{1,3})\])?[ \t]*(?=\"|$)")
_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*)"[ \t]*')
_ESCAPE: Final = re.compile(r"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_WRITTEN: Final = str.maketrans({"\\": r"\\", '"': r"\"", **{value: f"\\{name}" for name, value in _ESCAPES.items()}})
_LANGUAGE: Final = re.compile(r"^Language:[ \t]*([A-Za-z][\w@.-]*)", re.MULTILINE)
_CHARSET: Final = re.compile(rb"charset=([^\s\\\"]+)", re.IGNORECASE)
_UNSAID: Final = "CHARSET"
"""What a template has in the place of an encoding."""


@dataclass
class _Words:
    """A keyword and its string, from `start` to `stop` without the end of its last line."""

    start: int
    stop: int
    strings: list[str] = field(default_factory=list)

    @cached_property
    def value(self) -> str:
        """All strings as one, once the message is complete."""
        return "".join(self.strings)


@dataclass
class _Entry:
    """A message on its way through the file."""

    start: int
    flags: list[str] = field(default_factory=list)
    flag_end: int | None = None
    notes: list[str] = field(default_factory=list)
    before: int | None = None
    """Where what a message was before a change begins (`#|`), behind which no flags stand."""
    first: int | None = None
    """Where its comments begin."""
    words: dict[str, _Words] = field(default_factory=dict)
    forms: dict[int, _Words] = field(default_factory=dict)

    @property
    def begin(self) -> int:
        """Where its first comment or string begins."""
        starts = [words.start for words in self.words.values()]
        return min(starts if self.first is None else [self.first, *starts])

    @property
    def is_header(self) -> bool:
        return "msgctxt" not in self.words and self.words["msgid"].value == ""


@final
@dataclass(frozen=True)
class _Form:
    """A unit's entry and the number of its form; None of a message without plural."""

    entry: _Entry
    number: int | None


@final
class Po(TextDocument):
    """Messages with their translations; each plural form is a unit.

    Obsolete messages (`#~`) and the header are none. What the header says of plural forms decides how many a message
    has and what each is translated from: the form that 1 alone takes, from `msgid`, all others from `msgid_plural`.
    """

    def __init__(self, content: Content, path: Path) -> None:
        super().__init__(content, path)
        self._entries = list(_entries(content.text, path))
        headers = (entry.forms[0].value for entry in self._entries if entry.is_header)
        self.header = next(headers, "")
        self.plurals = plurals(self.header)
        self._forms = [form for entry in self._entries if not entry.is_header for form in self._forms_of(entry)]
        self._units = list(map(self._unit, self._forms))

    @classmethod
    def read(cls, path: Path) -> Self:
        """The file; `DataError` where it is none or damaged."""
        data = read_bytes(path)
        found = _CHARSET.search(data)
        declared = None if found is None else found[1].decode("ascii", "replace")
        return cls(decoded(data, path=path, declared=None if declared == _UNSAID else declared), path)

    @property
    def units(self) -> Sequence[Unit]:
        """A message without plural, or a form of one."""
        return self._units

    def filled(self, targets: Mapping[int, Segment], matches: Mapping[int, Match] = NO_MATCHES) -> bytes:
        """Filled messages are marked as fuzzy; comments show what is similar.

        A message of which all forms were taken from a memory is none, unless it was fuzzy before.
        """
        edits: list[Edit] = []
        marked: dict[int, _Entry] = {}
        for number, target in targets.items():
            form = self._forms[number]
            if number not in matches or matches[number].taken is None:
                marked[form.entry.start] = form.entry
            edits.append(self._filled(form, "".join(part if isinstance(part, str) else part.raw for part in target)))
        edits = [*self._comments(matches), *edits]
        edits += [edit for entry in marked.values() for edit in self._made_fuzzy(entry)]
        return self.edited([*edits, *(self._charset() if targets else ())])

    @property
    def languages(self) -> Languages:
        """That of the header, of translations."""
        found = _LANGUAGE.search(self.header)
        return Languages(target=found[1] if found else None)

    def _comments(self, matches: Mapping[int, Match]) -> Iterator[Edit]:
        """A line before each message for what is similar, but no line that is there already."""
        shown: dict[tuple[int, str], None] = {}
        for number, match in matches.items():
            entry = self._forms[number].entry
            line = f"# {match.percent}%: {_string_of(match.source)} = {_string_of(match.target)}"
            if match.taken is None and line[1:].strip() not in entry.notes:
                shown[entry.begin, line] = None
        return (Edit(place, place, f"{line}{self._line_end}") for place, line in shown)

    def _forms_of(self, entry: _Entry) -> Iterator[_Form]:
        if "msgid_plural" not in entry.words:
            return iter([_Form(entry, None)])
        count = self.plurals.count if self.plurals else max(len(entry.forms), GERMANIC.count)
        return (_Form(entry, number) for number in range(count))

    def _unit(self, form: _Form) -> Unit:
        entry = form.entry
        target = entry.forms.get(form.number or 0)
        text = target.value if target else ""
        state: State = "untranslated" if not text else "review" if "fuzzy" in entry.flags else "translated"
        context = entry.words.get("msgctxt")
        return Unit(
            (_source(form, self.plurals or GERMANIC),),
            (text,) if text else None,
            state,
            self.at(entry.words["msgid"].start),
            context.value if context else "",
            tuple(entry.notes),
        )

    def _filled(self, form: _Form, text: str) -> Edit:
        """The string of a form, or a new one behind those that are there."""
        keyword = "msgstr" if form.number is None else f"msgstr[{form.number}]"
        there = form.entry.forms.get(form.number or 0)
        if there is not None:
            return Edit(there.start, there.stop, f"{keyword} {self._quoted(text)}")
        last = max(words.stop for words in form.entry.forms.values())
        return Edit(last, last, f"{self._line_end}{keyword} {self._quoted(text)}")

    def _quoted(self, text: str) -> str:
        lines = _LINE.findall(text) if "\n" in text[:-1] else [text]
        strings = list(map(_string_of, lines))
        return self._line_end.join(['""', *strings] if len(strings) > 1 else strings)

    @cached_property
    def _line_end(self) -> str:
        return "\r\n" if "\r\n" in self.content.text else "\n"

    def _made_fuzzy(self, entry: _Entry) -> Iterator[Edit]:
        if "fuzzy" in entry.flags:
            return
        if entry.flag_end is not None:
            yield Edit(entry.flag_end, entry.flag_end, ", fuzzy")
            return
        first = min(words.start for words in entry.words.values())
        place = first if entry.before is None else entry.before
        yield Edit(place, place, f"#, fuzzy{self._line_end}")

    def _charset(self) -> Iterator[Edit]:
        """A template gets the name of the encoding that it is written in."""
        header = next((entry for entry in self._entries if entry.is_header), None)
        words = header.forms.get(0) if header else None
        if words is None:
            return
        found = re.compile(f"charset={_UNSAID}").search(self.content.text, words.start, words.stop)
        if found is not None:
            yield Edit(found.start(), found.end(), "charset=UTF-8")


def _string_of(text: str) -> str:
    """A text as one string of a PO."""
    return f'"{text.translate(_WRITTEN)}"'


def _source(form: _Form, rule: Plurals) -> str:
    words = form.entry.words
    if form.number is None:
        return words["msgid"].value
    many = words["msgid_plural"].value
    if rule.count == 1 or form.number != rule.singular:
        return many
    one = words["msgid"].value
    return many if rule.shared and not _counts_alike(one, many) else one


def _counts_alike(one: str, many: str) -> bool:
    """Whether the singular names the number too, as it must where 21 takes it."""
    pattern = re.compile(r"%(?:\(\w+\))?[a-z\d]|\{\w*\}")
    return sorted(pattern.findall(one)) == sorted(pattern.findall(many))


def _entries(text: str, path: Path) -> Iterator[_Entry]:
    """Messages in their order, without obsolete ones and the comments before those."""
    entry, current, start, number = _Entry(0), None, 0, 0
    for number, line in enumerate(_LINE.findall(text), 1):
        bare, place = line.rstrip("\r\n"), f"{path}:{number}"
        stripped = bare.strip()
        begins = not stripped or stripped[0] == "#" or stripped.startswith(("msgctxt", "msgid"))
        if entry.forms and begins:
            yield _complete(entry, place)
            entry, current = _Entry(start), None
        if stripped.startswith("#~"):
            if entry.words:  # which have no msgstr
                yield _complete(entry, place)
            entry, current = _Entry(start + len(line)), None
        elif stripped.startswith("#"):
            _comment(entry, stripped, start, start + len(bare.rstrip()))
        elif stripped:
            current = _string(entry, current, bare, start, place)
        start += len(line)
    if entry.words or entry.forms:
        yield _complete(entry, f"{path}:{number}")


def _complete(entry: _Entry, place: str) -> _Entry:
    if "msgid" not in entry.words or not entry.forms:
        lacking = "msgstr" if "msgid" in entry.words else "msgid"
        raise DataError(f"{place}: the message before this line has no {lacking}; mend it (msgfmt -c tells more)")
    if "msgid_plural" not in entry.words and set(entry.forms) != {0}:
        raise DataError(f"{place}: the message before this line has msgstr[n] and no msgid_plural; mend it")
    return entry


def _comment(entry: _Entry, line: str, start: int, stop: int) -> None:
    if entry.first is None:
        entry.first = start
    if line.startswith("#,"):
        entry.flags += [flag.strip() for flag in line[2:].split(",")]
        entry.flag_end = stop
    elif line.startswith("#|"):
        entry.before = start if entry.before is None else entry.before
    elif not line.startswith("#:") and (note := line[2:].strip() if line[1:2] == "." else line[1:].strip()):
        entry.notes.append(note)


def _string(entry: _Entry, current: _Words | None, line: str, start: int, place: str) -> _Words:
    """A line of a message: a keyword with its string, or more of the string before it."""
    indent = len(line) - len(line.lstrip())
    found = _KEYWORD.match(line, indent)
    if found is not None:
        current = _Words(start + indent, start)
        _keep(entry, found, current, place)
        indent = found.end()
    elif current is None or not line.startswith('"', indent):
        raise DataError(f"{place}: {line.strip()[:40]!r} is no line of a PO file; mend it (msgfmt -c tells more)")
    while indent < len(line):
        string = _STRING.match(line, indent)
        if string is None:
            raise DataError(f"{place}: a string without its closing quotation mark, or text beside it; mend the line")
        current.strings.append(_ESCAPE.sub(_unescaped, string[1]))
        indent = string.end()
    current.stop = start + len(line.rstrip())
    return current


def _keep(entry: _Entry, found: re.Match[str], words: _Words, place: str) -> None:
    keyword, number = found[1], int(found[2] or 0)
    if keyword == "msgstr" and "msgid" not in entry.words:
        raise DataError(f"{place}: msgstr without a msgid before it; mend the file")
    if (keyword == "msgstr" and number in entry.forms) or keyword in entry.words:
        raise DataError(f"{place}: {keyword} stands twice in one message; mend the file")
    if keyword == "msgstr":
        entry.forms[number] = words
    else:
        entry.words[keyword] = words


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "01234567":
        return chr(int(code, 8))
    return chr(int(code[1:], 16)) if code[0] == "x" and len(code) > 1 else _ESCAPES.get(code, code)
