"""PO and POT files of gettext with their plural rules.

https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html; the header defines in C which form of a noun
belongs to which number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, Self, final

from heedful.errors import DataError
from heedful.localisation.documents import (
    DocumentLanguages,
    TextContent,
    TextDocument,
    TextEdit,
    TranslationUnit,
    UnitState,
    decode_text,
    read_file_bytes,
)
from heedful.localisation.segments import Segment
from heedful.localisation.translation_memory import NO_MATCHES, MemoryMatch

_HEADER: Final = re.compile(r"nplurals\s*=\s*0*(\d{1,9})\s*;\s*plural\s*=\s*([^;]+)")
_TOKEN: Final = re.compile(r"(?<!\d)\d{1,9}(?!\d)|n|\|\||&&|[=!<>]=|[<>!%*/+()?:-]")
_PRECEDENCE: Final = (("||",), ("&&",), ("==", "!="), ("<", ">", "<=", ">="), ("+", "-"), ("*", "/", "%"))
"""Binary operators by precedence, lowest first."""
_MAX_FORMS: Final = 64
_MAX_TOKENS: Final = 300
"""Maximum number of tokens of a rule; the Arabic rule has 41."""
_TESTED_NUMBERS: Final = 1000
PluralExpression = Callable[[int], int]


@final
@dataclass(frozen=True)
class PluralRule:
    """Number of plural forms of a language, and the form of the number 1.

    Attributes:
        count: number of forms.
        singular: the form of the number 1.
        shared: whether other numbers take that form too, as 21 does in Russian.
    """

    count: int
    singular: int
    shared: bool


GERMANIC_RULE: Final = PluralRule(2, 0, shared=False)
"""One form for 1, another for all other numbers; the rule of a file that defines none."""


def parse_plural_forms(header: str) -> PluralRule | None:
    """Parse the field Plural-Forms of a header; None if it contains no valid rule."""
    match = _HEADER.search(header)
    if match is None or not 1 <= int(match[1]) <= _MAX_FORMS:
        return None
    try:
        rule = _PluralParser(match[2]).parse()
        forms = [rule(number) for number in range(_TESTED_NUMBERS)]
    except (ValueError, ZeroDivisionError, RecursionError):
        return None
    count = int(match[1])
    if not all(0 <= form < count for form in forms):
        return None
    return PluralRule(count, forms[1], shared=forms.count(forms[1]) > 1)


class _PluralParser:
    """Recursive descent parser of an expression of the number n; raises ValueError if it is invalid."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = _TOKEN.findall(text)
        if "".join(self._tokens) != "".join(text.split()) or len(self._tokens) > _MAX_TOKENS:
            raise ValueError(text)

    def parse(self) -> PluralExpression:
        """Parse all tokens as one expression."""
        expression = self._parse_conditional()
        if self._tokens:
            raise ValueError(self._tokens[0])
        return expression

    def _parse_conditional(self) -> PluralExpression:
        """Parse a conditional expression `a ? b : c`, or an expression without one."""
        condition = self._parse_binary(0)
        if self._accept("?"):
            if_true = self._parse_conditional()
            self._expect(":")
            if_false = self._parse_conditional()
            return lambda n: if_true(n) if condition(n) else if_false(n)
        return condition

    def _parse_binary(self, level: int) -> PluralExpression:
        """Parse binary operators of this precedence level or higher."""
        if level == len(_PRECEDENCE):
            return self._parse_unary()
        expression = self._parse_binary(level + 1)
        while self._tokens and self._tokens[0] in _PRECEDENCE[level]:
            expression = _apply_operator(self._tokens.pop(0), expression, self._parse_binary(level + 1))
        return expression

    def _parse_unary(self) -> PluralExpression:
        """Parse a negation, an expression in brackets, `n` or a number."""
        if self._accept("!"):
            inner = self._parse_unary()
            return lambda n: int(not inner(n))
        if self._accept("("):
            inner = self._parse_conditional()
            self._expect(")")
            return inner
        token = self._tokens.pop(0) if self._tokens else ""
        if token == "n":
            return lambda n: n
        number = int(token)
        return lambda _: number

    def _accept(self, token: str) -> bool:
        """Consume the next token if it is this one; return whether it was."""
        if self._tokens and self._tokens[0] == token:
            del self._tokens[0]
            return True
        return False

    def _expect(self, token: str) -> None:
        """Consume this token; raise ValueError if the next token is another one."""
        if not self._accept(token):
            raise ValueError(token)


def _apply_operator(operator: str, left: PluralExpression, right: PluralExpression) -> PluralExpression:
    """Build the function of the number n that applies a binary operator to the values of two expressions: integers as
    in C, none of them negative.
    """
    return {
        "||": lambda n: int(bool(left(n) or right(n))),
        "&&": lambda n: int(bool(left(n) and right(n))),
        "==": lambda n: int(left(n) == right(n)),
        "!=": lambda n: int(left(n) != right(n)),
        "<": lambda n: int(left(n) < right(n)),
        ">": lambda n: int(left(n) > right(n)),
        "<=": lambda n: int(left(n) <= right(n)),
        ">=": lambda n: int(left(n) >= right(n)),
        "+": lambda n: left(n) + right(n),
        "-": lambda n: left(n) - right(n),
        "*": lambda n: left(n) * right(n),
        "/": lambda n: left(n) // right(n),
        "%": lambda n: left(n) % right(n),
    }[operator]


_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+\Z")
_KEYWORD: Final = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr)(?:\[(\d{1,3})\])?[ \t]*(?=\"|$)")
_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*)"[ \t]*')
_ESCAPE: Final = re.compile(r"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPE_TABLE: Final = str.maketrans(
    {"\\": r"\\", '"': r"\"", **{value: f"\\{name}" for name, value in _ESCAPES.items()}}
)
_LANGUAGE: Final = re.compile(r"^Language:[ \t]*([A-Za-z][\w@.-]*)", re.MULTILINE)
_CHARSET: Final = re.compile(rb"charset=([^\s\\\"]+)", re.IGNORECASE)
_TEMPLATE_CHARSET: Final = "CHARSET"
"""Placeholder for the encoding in a template."""


@dataclass
class _PoString:
    """A keyword and its string, from `start` to `stop` without the last line end."""

    start: int
    stop: int
    strings: list[str] = field(default_factory=list)

    @cached_property
    def value(self) -> str:
        """All strings joined, once the message is complete."""
        return "".join(self.strings)


@dataclass
class _PoEntry:
    """A message while the file is being read."""

    start: int
    flags: list[str] = field(default_factory=list)
    flag_end: int | None = None
    notes: list[str] = field(default_factory=list)
    previous_start: int | None = None
    """Offset of the previous version of the message (`#|`), before which flags must stand."""
    comment_start: int | None = None
    """Offset of its first comment."""
    strings: dict[str, _PoString] = field(default_factory=dict)
    forms: dict[int, _PoString] = field(default_factory=dict)

    @property
    def start_offset(self) -> int:
        """Offset of its first comment or string."""
        starts = [words.start for words in self.strings.values()]
        return min(starts if self.comment_start is None else [self.comment_start, *starts])

    @property
    def is_header(self) -> bool:
        """Whether it is the header of the file."""
        return "msgctxt" not in self.strings and self.strings["msgid"].value == ""


@final
@dataclass(frozen=True)
class _PluralForm:
    """The entry of a unit and the number of its plural form; None for a message without plural."""

    entry: _PoEntry
    number: int | None


@final
class PoDocument(TextDocument):
    """Messages with their translations; each plural form is a unit.

    Obsolete messages (`#~`) and the header are not units. The plural rule of the header determines how many forms a
    message has and what each is translated from: the form that only 1 takes from `msgid`, all others from
    `msgid_plural`.
    """

    def __init__(self, content: TextContent, path: Path) -> None:
        super().__init__(content, path)
        self._entries = list(_parse_entries(content.text, path))
        headers = (entry.forms[0].value for entry in self._entries if entry.is_header)
        self.header = next(headers, "")
        self.plural_rule = parse_plural_forms(self.header)
        self._forms = [form for entry in self._entries if not entry.is_header for form in self._iter_forms(entry)]
        self._units = list(map(self._build_unit, self._forms))

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Read a file; raise DataError if it is not a PO file or is damaged."""
        data = read_file_bytes(path)
        match = _CHARSET.search(data)
        declared = None if match is None else match[1].decode("ascii", "replace")
        return cls(decode_text(data, path=path, declared=None if declared == _TEMPLATE_CHARSET else declared), path)

    @property
    def units(self) -> Sequence[TranslationUnit]:
        """Messages without plural, and forms of those with one."""
        return self._units

    def fill_targets(self, targets: Mapping[int, Segment], matches: Mapping[int, MemoryMatch] = NO_MATCHES) -> bytes:
        """Return the file with new translations, marked as fuzzy, and comments with similar matches, both given by unit
        number.

        A message whose forms were all taken from a translation memory is not marked, unless it was fuzzy before.
        """
        edits: list[TextEdit] = []
        fuzzy_entries: dict[int, _PoEntry] = {}
        for number, target in targets.items():
            form = self._forms[number]
            if number not in matches or matches[number].exact_target is None:
                fuzzy_entries[form.entry.start] = form.entry
            edits.append(self._fill_form(form, "".join(part if isinstance(part, str) else part.raw for part in target)))
        edits = [*self._match_comments(matches), *edits]
        edits += [edit for entry in fuzzy_entries.values() for edit in self._mark_fuzzy(entry)]
        return self.apply_edits([*edits, *(self._set_charset() if targets else ())])

    @property
    def languages(self) -> DocumentLanguages:
        """The target language in the header."""
        match = _LANGUAGE.search(self.header)
        return DocumentLanguages(target=match[1] if match else None)

    def _match_comments(self, matches: Mapping[int, MemoryMatch]) -> Iterator[TextEdit]:
        """Yield the edits that add a comment line before each message with a similar match, unless it is already there;
        `matches` are given by unit number.
        """
        comments: dict[tuple[int, str], None] = {}
        for number, match in matches.items():
            entry = self._forms[number].entry
            line = f"# {match.percent}%: {_quote_string(match.source_text)} = {_quote_string(match.target_text)}"
            if match.exact_target is None and line[1:].strip() not in entry.notes:
                comments[entry.start_offset, line] = None
        return (TextEdit(offset, offset, f"{line}{self._line_end}") for offset, line in comments)

    def _iter_forms(self, entry: _PoEntry) -> Iterator[_PluralForm]:
        """Return the plural forms of a message, as many as the language has; one without number if it has no plural."""
        if "msgid_plural" not in entry.strings:
            return iter([_PluralForm(entry, None)])
        count = self.plural_rule.count if self.plural_rule else max(len(entry.forms), GERMANIC_RULE.count)
        return (_PluralForm(entry, number) for number in range(count))

    def _build_unit(self, form: _PluralForm) -> TranslationUnit:
        """Build the unit of a message or of one of its plural forms. It is untranslated without a text, to be reviewed
        if the message is fuzzy, else translated.
        """
        entry = form.entry
        target = entry.forms.get(form.number or 0)
        text = target.value if target else ""
        state: UnitState = "untranslated" if not text else "review" if "fuzzy" in entry.flags else "translated"
        context = entry.strings.get("msgctxt")
        return TranslationUnit(
            (_get_source_text(form, self.plural_rule or GERMANIC_RULE),),
            (text,) if text else None,
            state,
            self.format_location(entry.strings["msgid"].start),
            context.value if context else "",
            tuple(entry.notes),
        )

    def _fill_form(self, form: _PluralForm, text: str) -> TextEdit:
        """Return the edit that sets the string of a message's form (singular or a plural) to `text`. If the file has no
        string for this form, one is added after those of the other forms.
        """
        keyword = "msgstr" if form.number is None else f"msgstr[{form.number}]"
        existing = form.entry.forms.get(form.number or 0)
        if existing is not None:
            return TextEdit(existing.start, existing.stop, f"{keyword} {self._quote_lines(text)}")
        end = max(words.stop for words in form.entry.forms.values())
        return TextEdit(end, end, f"{self._line_end}{keyword} {self._quote_lines(text)}")

    def _quote_lines(self, text: str) -> str:
        """Write a text as PO strings, one for each line."""
        lines = _LINE.findall(text) if "\n" in text[:-1] else [text]
        strings = list(map(_quote_string, lines))
        return self._line_end.join(['""', *strings] if len(strings) > 1 else strings)

    @cached_property
    def _line_end(self) -> str:
        """Line end of the file."""
        return "\r\n" if "\r\n" in self.content.text else "\n"

    def _mark_fuzzy(self, entry: _PoEntry) -> Iterator[TextEdit]:
        """Yield the edit that adds the flag `fuzzy` to a message; nothing if it has this flag."""
        if "fuzzy" in entry.flags:
            return
        if entry.flag_end is not None:
            yield TextEdit(entry.flag_end, entry.flag_end, ", fuzzy")
            return
        first = min(words.start for words in entry.strings.values())
        offset = first if entry.previous_start is None else entry.previous_start
        yield TextEdit(offset, offset, f"#, fuzzy{self._line_end}")

    def _set_charset(self) -> Iterator[TextEdit]:
        """Yield the edit that replaces the encoding's placeholder in the header of a template by UTF-8."""
        header = next((entry for entry in self._entries if entry.is_header), None)
        string = header.forms.get(0) if header else None
        if string is None:
            return
        match = re.compile(f"charset={_TEMPLATE_CHARSET}").search(self.content.text, string.start, string.stop)
        if match is not None:
            yield TextEdit(match.start(), match.end(), "charset=UTF-8")


def _quote_string(text: str) -> str:
    """Write a text as one PO string."""
    return f'"{text.translate(_ESCAPE_TABLE)}"'


def _get_source_text(form: _PluralForm, rule: PluralRule) -> str:
    """Return the text that a form is translated from: the singular if `rule` gives this form to the number 1, else the
    plural. A singular whose placeholders differ is not used if other numbers take the form too.
    """
    strings = form.entry.strings
    if form.number is None:
        return strings["msgid"].value
    plural = strings["msgid_plural"].value
    if rule.count == 1 or form.number != rule.singular:
        return plural
    singular = strings["msgid"].value
    return plural if rule.shared and not _has_same_placeholders(singular, plural) else singular


def _has_same_placeholders(singular: str, plural: str) -> bool:
    """Return whether both texts have the same placeholders, so that the singular contains the number too, as it must if
    21 takes the same form.
    """
    pattern = re.compile(r"%(?:\(\w+\))?[a-z\d]|\{\w*\}")
    return sorted(pattern.findall(singular)) == sorted(pattern.findall(plural))


def _parse_entries(text: str, path: Path) -> Iterator[_PoEntry]:
    """Yield the messages of a file's text in order, without obsolete ones and their comments; raise DataError with
    `path` and line if something is not valid.
    """
    entry, current, start, number = _PoEntry(0), None, 0, 0
    for number, line in enumerate(_LINE.findall(text), 1):
        content, location = line.rstrip("\r\n"), f"{path}:{number}"
        stripped = content.strip()
        starts_entry = not stripped or stripped[0] == "#" or stripped.startswith(("msgctxt", "msgid"))
        if entry.forms and starts_entry:
            yield _check_complete(entry, location)
            entry, current = _PoEntry(start), None
        if stripped.startswith("#~"):
            if entry.strings:  # which have no msgstr
                yield _check_complete(entry, location)
            entry, current = _PoEntry(start + len(line)), None
        elif stripped.startswith("#"):
            _parse_comment(entry, stripped, start, start + len(content.rstrip()))
        elif stripped:
            current = _parse_string(entry, current, content, start, location)
        start += len(line)
    if entry.strings or entry.forms:
        yield _check_complete(entry, f"{path}:{number}")


def _check_complete(entry: _PoEntry, location: str) -> _PoEntry:
    """Return a message; raise DataError with its location if it has no msgid or no msgstr, or has numbered forms but no
    msgid_plural.
    """
    if "msgid" not in entry.strings or not entry.forms:
        missing = "msgstr" if "msgid" in entry.strings else "msgid"
        raise DataError(f"{location}: the message before this line has no {missing}; correct it (msgfmt -c tells more)")
    if "msgid_plural" not in entry.strings and set(entry.forms) != {0}:
        raise DataError(f"{location}: the message before this line has msgstr[n] and no msgid_plural; correct it")
    return entry


def _parse_comment(entry: _PoEntry, line: str, start: int, stop: int) -> None:
    """Add a comment line to a message: a flag, a previous version, or a note. `start` and `stop` are its offsets."""
    if entry.comment_start is None:
        entry.comment_start = start
    if line.startswith("#,"):
        entry.flags += [flag.strip() for flag in line[2:].split(",")]
        entry.flag_end = stop
    elif line.startswith("#|"):
        entry.previous_start = start if entry.previous_start is None else entry.previous_start
    elif not line.startswith("#:") and (note := line[2:].strip() if line[1:2] == "." else line[1:].strip()):
        entry.notes.append(note)


def _parse_string(entry: _PoEntry, current: _PoString | None, line: str, start: int, location: str) -> _PoString:
    """Parse a line of a message, which begins at the offset `start`: a keyword with its string, or a continuation of
    the `current` string. Return the string; raise DataError with the location if the line is neither.
    """
    indent = len(line) - len(line.lstrip())
    match = _KEYWORD.match(line, indent)
    if match is not None:
        current = _PoString(start + indent, start)
        _store_string(entry, match, current, location)
        indent = match.end()
    elif current is None or not line.startswith('"', indent):
        raise DataError(
            f"{location}: {line.strip()[:40]!r} is not a line of a PO file; correct it (msgfmt -c tells more)"
        )
    while indent < len(line):
        string = _STRING.match(line, indent)
        if string is None:
            raise DataError(
                f"{location}: a string without its closing quotation mark, or with text outside of it; correct the line"
            )
        current.strings.append(_ESCAPE.sub(_decode_escape, string[1]))
        indent = string.end()
    current.stop = start + len(line.rstrip())
    return current


def _store_string(entry: _PoEntry, match: re.Match[str], string: _PoString, location: str) -> None:
    """Store the string of a keyword, which `match` holds with its form number, in a message; raise DataError with the
    location if the keyword is repeated or out of order.
    """
    keyword, number = match[1], int(match[2] or 0)
    if keyword == "msgstr" and "msgid" not in entry.strings:
        raise DataError(f"{location}: msgstr without a msgid before it; correct the file")
    if (keyword == "msgstr" and number in entry.forms) or keyword in entry.strings:
        raise DataError(f"{location}: {keyword} occurs twice in one message; correct the file")
    if keyword == "msgstr":
        entry.forms[number] = string
    else:
        entry.strings[keyword] = string


def _decode_escape(match: re.Match[str]) -> str:
    """Return the character that an escape sequence stands for, as in C; `match` holds the sequence."""
    code = match[1]
    if code[0] in "01234567":
        return chr(int(code, 8))
    return chr(int(code[1:], 16)) if code[0] == "x" and len(code) > 1 else _ESCAPES.get(code, code)
