"""Placeholders in segments: variables, markup and other parts that must be the same in every language.

The rules are those of printf and its relatives (C, Objective-C, Python, PHP, Ruby, Go, strftime, Qt), of templates in
braces (ICU MessageFormat, Fluent, i18next, Vue, Angular, .NET, Mustache, Twig), of Laravel (`:name`), Drupal (`@name`),
MediaWiki, ERB and ASP, of markup (XML, HTML, BBCode, Markdown), and of what no language changes: addresses, paths, keys
that are pressed together, versions, names of files and of variables.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from operator import itemgetter
from typing import Final, NamedTuple

from heedful.characters import remove_invisible
from heedful.localisation.segments import BREAK_NAME, CodeRole, InlineCode, Segment, flatten_nodes

MESSAGE_NAME: Final = "message"
"""Name of a message with several forms (a plural or a selection), whose forms are texts themselves."""
ESCAPE_NAME: Final = "escape"
"""Name of a character that is written as a backslash escape."""
NUMBER_NAME: Final = "number"

_CONVERSION: Final = r"(?:hh|h|ll|l|z|j|t|L|q|I64|I32)?[diouxXeEfFgGaAcCsSpnvTqQbUKL](?![a-zA-Z])|@"
_SPECIFIER: Final = rf"[-+#0']*+(?:\d++|\*)?(?:\.(?:\d++|\*))?(?:{_CONVERSION})"
_VALUE: Final = r"\"[^\"]*\"|'[^']*'|\{(?:[^{}]|\{[^{}]*\})*\}|[^\s\"'<>{}]+"
_ATTRIBUTE: Final = rf"\s+[\w:.@#*()\[\]-]+(?:\s*=\s*(?:{_VALUE}))?"
_BBCODE: Final = (
    "b|i|u|s|url|img|email|quote|code|color|colour|size|font|center|left|right|indent|spoiler|sub|sup|list|table|tr|td|"
    r"th|li|ol|ul|h[1-6]|youtube|video|pre|noparse|user|attach"
)
_KEY: Final = (
    "Ctrl|Control|Alt|AltGr|Shift|Cmd|Command|Win|Windows|Super|Meta|Option|Opt|Fn|Hyper|Strg|Umschalt|"
    r"Maj|May\u00fas"
)
_KEY_NAME: Final = (
    "F[1-9][0-9]?|Enter|Return|Esc|Escape|Tab|Space|Spacebar|Backspace|Delete|Del|Insert|Ins|Home|End|Page ?Up|"
    "Page ?Down|PgUp|PgDn|Up|Down|Left|Right|Pause|Break|PrintScreen|PrtSc|Plus|Minus|Click|click|Drag|"
    "drag|Entf|Pos1|Ende|Eingabe"
)
_FILE: Final = (
    "exe|dll|txt|pdf|png|jpe?g|gif|svg|zip|tar|gz|docx?|xlsx?|pptx?|od[tsp]|csv|tsv|json|xml|html?|css|js|ts|py|java|rb|php|"
    "sh|bat|cmd|ini|conf|cfg|ya?ml|toml|log|md|sql|db|iso|deb|rpm|dmg|apk|jar|so|mp[34]|wav|avi|mkv|po|xliff?|tmx|srt"
)
_WINDOWS_PATH: Final = (
    r"(?:[^\\/:*?\"<>|\s]{1,60}(?: (?:and )?[A-Z0-9(][^\\/:*?\"<>|\s]{0,60}){0,5}\\)*(?:[^\\/:*?\"<>|\s]*[\w$)])?"
)
"""The rest of a Windows path, whose folder names may have several words, such as `Program Files`."""
_DOMAIN: Final = "com|org|net|edu|gov|info|io|dev|app|de|uk|fr|eu"
_SIGN_RULES: Final = (
    # markup
    ("comment", r"<!--(?:(?!<!--|-->).)*+-->|<%(?:(?!<%|%>).)*+%>|<\?(?:(?!<\?|\?>).)*+\?>"),
    ("tag", rf"</?[a-zA-Z][\w.:-]*(?:{_ATTRIBUTE})*\s*/?>|</?\d{{1,4}}\s*/?>|<[a-zA-Z][\w-]*=[^<>\n]{{1,80}}>"),
    ("markup", r"</?[#@][\w.]+(?:\s[^<>]*)?>|<<[\w .:-]{1,60}>>|</?>"),
    ("tag", rf"(?<!\w)\[(?:{_BBCODE})(?:=[^\[\]\n]{{1,200}})?\]|\[/(?:\w{{1,40}})\]"),
    ("markup", r"\[\*\]|(?<!\w)\[\w+(?:\s+[\w-]+=(?:\"[^\"\[\]]*\"|'[^'\[\]]*'|[^\s\[\]]+))+\s*/?\]"),
    ("link", r"\[(?=[^\[\]\n]{1,200}\]\([^()\s]{1,200}\))|\]\([^()\s]{1,200}\)"),
    ("markup", r"\*\*(?=[^\s*][^*\n]{0,200}\*\*)|(?<=[^\s*])\*\*(?!\*)"),
    ("variable", r"\[\[[^\[\]\n]{1,200}\]\]|\[[%#$@!][^\[\]\n]{1,200}\]|\(\([\w.]+\)\)|\*\|[^|\n]{1,80}\|\*"),
    # in braces: what closes them is looked for apart
    ("brace", r"[$#%@!]?\{"),
    ("nesting", r"\$t\((?:[^()\n]|\([^()\n]*\))*\)|@(?:\.\w+)?:(?:\([^()\n]*\)|[\w-]+(?:\.[\w-]+)*)"),
    # percent signs
    ("identifier", rf"%\w+%\\{_WINDOWS_PATH}"),
    ("variable", r"%\([^()\n]*\)[-+#0]*\d*(?:\.\d+)?[a-zA-Z]?|%<\w+>(?:[-+#0\d.]*[a-zA-Z])?"),
    (
        "variable",
        rf"%\d+![^!\n]{{1,20}}!|%(?:\d+\$)?#@\w+@|%\d++\$?{_SPECIFIER}|%L?\d{{1,2}}(?!\d)|%%(?!\w+%%)|%{_SPECIFIER}",
    ),
    ("variable", r"%[A-Z][A-Z0-9_]+(?:(?: [A-Z0-9_]+)*%)?|%\w{2,}%|(?<![\w%])%[-+#0]*[A-Za-z]\w*"),
    # other signs before a name
    ("variable", r"\$\([\w.]+\)|\$\[\w+\]|\$[A-Za-z_]\w*(?:\$|(?:->\w+|\.[A-Za-z_]\w*|\[\w*\])*)"),
    ("variable", r"([%#@~|:$!^*=])\g<doubled>[\w.-]{1,60}\g<doubled>\g<doubled>"),
    ("variable", r"(?<![\w&#])#[A-Z_][A-Z0-9_]+#|@[A-Z_][A-Z0-9_]+@|\\\((?:[^()\n]|\([^()\n]*\))*\)"),
    ("variable", r"(?<![\w:.]):[A-Za-z_]\w*:?(?!\w)|(?<![\w.@])@[A-Za-z_]\w*(?:\([^()\n]*\)|(?:[./][A-Za-z_]\w*)*)"),
    ("variable", r"(?<![^\s(\"'])![a-z]\w*_\w+"),
    ("variable", r"(?<!@)@\([^()\n]+\)|\$[1-9](?![\w.,])(?![.,]\d)|\$[1-9](?=[.,](?:\s|\Z))"),
    ("entity", r"&(?:#\d+|#[xX][0-9a-fA-F]+|[a-zA-Z][a-zA-Z0-9]*);"),
    # paths, escapes, options
    ("identifier", rf"\\\\[\w.$-]+\\{_WINDOWS_PATH}|(?<![\w.])\.{{1,2}}\\{_WINDOWS_PATH}"),
    ("identifier", r"\\[a-zA-Z]+\[\d+\]|\\[a-zA-Z]{2,}(?=[{\[])"),
    (ESCAPE_NAME, r"\\(?:r\\n|[nrt0]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[\\*_`#~|<>\[\](){}!.+-])"),
    ("identifier", r"(?<!\w)--[a-zA-Z][\w-]*(?:=[^\s,;]*[\w/])?|(?<![\w/.])(?:/[\w.+-]+){2,}/?"),
    ("identifier", r"(?<![\w&#])#\w*[A-Za-z]\w*|`[^`'\n]{1,80}`|[\u2318\u2325\u21e7\u2303]+\+?[A-Z0-9]"),
)
"""Rules for placeholders that begin with a sign."""
_LETTER_RULES: Final = (
    (
        "address",
        r"(?:[a-zA-Z][a-zA-Z0-9+.-]{0,20}://|(?:https?|ftps?|file|mailto|sftp|ssh|git):/)[^\s<>\"'{}|\\^`]*[^\s<>\"'{}|\\^`.,;:!?)\]]",
    ),
    (
        "address",
        r"(?:mailto:|tel:|sms:|urn:|data:[a-z]+/|about:|javascript:)[^\s<>\"'{}|\\^`]*[^\s<>\"'{}|\\^`.,;:!?)\]]",
    ),
    ("address", r"www\.[\w-]+(?:\.[\w-]+)+(?:/[^\s<>\"']*[\w/])?"),
    ("address", r"[\w.+-]{1,64}+@[\w-]+(?:\.[\w-]+)+"),
    ("address", rf"(?<![\w.@-])(?:[a-z0-9-]{{1,63}}\.){{1,4}}(?:{_DOMAIN})(?![\w-])(?:/[^\s<>\"']*[\w/])?"),
    ("identifier", rf"[A-Za-z]:\\{_WINDOWS_PATH}|HKEY_\w+(?:\\[\w.-]+)*|HK(?:LM|CU|CR|CC|U)(?:\\[\w.-]+)+"),
    ("identifier", rf"(?<![\w\\])[\w.-]{{1,60}}(?:\\[\w.-]{{1,60}}){{1,9}}(?<=\.)(?:{_FILE})(?!\w)"),
    ("identifier", rf"(?<!\w)(?:(?:{_KEY})(?: ?\+ ?|[\u2011-]))+(?:(?:{_KEY_NAME}|\w)(?!\w)|[^\w\s](?!\w))"),
    (
        "identifier",
        r"(?<![\w.:])[A-Za-z_]\w{0,60}(?:(?:::[A-Za-z_]\w{0,60}){1,9}(?:\(\))?|(?:\.[A-Za-z_]\w{0,60}){0,9}\(\))",
    ),
    ("identifier", rf"(?<![\w.])\w[\w-]{{0,60}}(?:\.[\w-]{{1,60}}){{0,4}}\.(?:{_FILE})(?!\w)"),
    ("identifier", r"\b\w+_\w+(?:_\w+)*\b"),
    ("identifier", r"\bv\d+(?:\.\d+)+(?:[-+][\w.]*\w)?|\bF[1-9][0-9]?\b"),
    ("identifier", r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b|\b0x[0-9a-fA-F]+\b"),
    (
        "identifier",
        r"(?<![\w.,])\d+(?:\.\d+)+-?(?:alpha|beta|rc|dev|pre|post|a|b)\.?\d*(?!\w)|(?<![\w.,])\d+(?:\.\d+){2,}-\w[\w.]*",
    ),
    (NUMBER_NAME, r"(?<![\w.,])\d+(?:[.,:/^\u00a0\u202f\u2013-]\d+)*(?![\w])(?:[ \u00a0]?%(?![\w(]))?"),
)
"""Rules for placeholders that begin with a letter or digit."""


def _join_rules(rules: tuple[tuple[str, str], ...], start: int) -> str:
    """Join rules into one regular expression with a named group for each, numbered from `start`."""
    return "|".join(
        f"(?P<{name}_{number}>{_name_repeated_sign(pattern, number)})"
        for number, (name, pattern) in enumerate(rules, start)
    )


def _name_repeated_sign(pattern: str, number: int) -> str:
    """Replace the marker of a repeated sign in a pattern by a back reference to its first group, which is given a name
    with this number.
    """
    if r"\g<doubled>" not in pattern:
        return pattern
    group = f"sign_of_{number}"
    return pattern.replace("(", f"(?P<{group}>", 1).replace(r"\g<doubled>", f"(?P={group})")


_TOKEN: Final = re.compile(
    rf"(?=[^\w\s])(?:{_join_rules(_SIGN_RULES, 0)})|(?=[\w+.-])(?:{_join_rules(_LETTER_RULES, len(_SIGN_RULES))})",
    re.DOTALL,
)
_MESSAGE_START: Final = re.compile(
    r"\{\s*+[^{},\n]{0,80}+\s*+,\s*+(?:plural|select|selectordinal|choice)\s*+(?:,|\}|$)|\{[^{}\n]{1,80}->\s"
)
_MULTILINE_OPENING: Final = re.compile(r"[$#%@!]\{|\{[{%#]")
"""Openings of placeholders that may span several lines."""
_QUOTED: Final = re.compile(r"''|'[{}][^']*(?:'|\Z)")
"""Text that ICU takes literally."""


class PlaceholderToken(NamedTuple):
    """A placeholder from `start` to `stop`, and its kind."""

    start: int
    stop: int
    name: str


def iter_placeholders(text: str) -> Iterator[PlaceholderToken]:
    """Yield the placeholders of a text, in order; they do not overlap."""
    braces = _BraceMatcher(text)
    position = 0
    while (match := _TOKEN.search(text, position)) is not None:
        assert match.lastgroup is not None
        name, start, stop = match.lastgroup.partition("_")[0], *match.span()
        if name == "brace":
            name, stop = braces.match_placeholder(start, stop - 1)
        if stop > start:
            yield PlaceholderToken(start, stop, name)
        position = max(stop, match.end() if name == "brace" else stop)


class _BraceMatcher:
    """Finds the closing braces of a text, which is scanned only once."""

    def __init__(self, text: str) -> None:
        self._text = text

    def match_placeholder(self, start: int, brace: int) -> tuple[str, int]:
        """Return the kind and end of the placeholder that begins at `start` and has its opening brace at `brace`; the
        end is `start` if it is not a placeholder.

        A message with several forms may contain quoted braces. One that is never closed extends to the end of the text,
        because its keywords are not text either.
        """
        if _MESSAGE_START.match(self._text, brace):
            return MESSAGE_NAME, self._unquoted_closing_braces.get(brace) or self._closing_braces.get(brace) or len(
                self._text
            )
        stop = self._closing_braces.get(brace)
        if stop is None or ("\n" in self._text[brace:stop] and not _MULTILINE_OPENING.match(self._text, start)):
            return "brace", start
        return "variable", stop

    @cached_property
    def _closing_braces(self) -> dict[int, int]:
        """Ends by opening brace."""
        return _match_braces(self._text)

    @cached_property
    def _unquoted_closing_braces(self) -> dict[int, int]:
        """Ends by opening brace, without quoted braces."""
        return _match_braces(_QUOTED.sub(_blank_out, self._text))


def _blank_out(match: re.Match[str]) -> str:
    """Return as many spaces as the match is long."""
    return " " * len(match[0])


def _match_braces(text: str) -> dict[int, int]:
    """Return the position after the closing brace of each brace in a text that is closed, by the position of the
    opening brace.
    """
    stack: list[int] = []
    ends: dict[int, int] = {}
    for brace in re.finditer(r"[{}]", text):
        if brace[0] == "{":
            stack.append(brace.start())
        elif stack:
            ends[stack.pop()] = brace.end()
    return ends


_UNKNOWN_MARK: Final = re.compile(
    r"\[[^\[\]\s\d][^\[\]\s]{0,60}\]"
    r"|[{}][^\s{}]{0,60}"
    r"|<[^\s<>][^<>\n]{0,60}>"
    r"|(?:(?<!\w)[\\|^~$%@#*_=]{1,3}(?=[^\W\d])|(?<!\w)\$(?=[1-9](?![\d.,]))|\\(?=\w))[\w.-]{1,60}[\\|^~$%@#*_=]{0,3}"
    r"|[^\W\d_][\\|^=*#$]+(?=\w)[\w.-]{0,60}|\\['\"]"
)


def find_unknown_marks(text: str) -> list[str]:
    """Return the parts of a text that look like placeholders but match no rule."""
    return [match[0] for match in _UNKNOWN_MARK.finditer(text)]


_LINE_BREAK: Final = re.compile(r"(?:(?<! ) ++)?(?:\r?\n|\t)[ \t]*+")
"""A soft line break or tab with the spaces around it; runs of spaces are matched from their first one only."""
_MARKUP_SIGN: Final = re.compile(r"[<&_~\\\[\]*]")
"""A character that all markup and every accelerator mark contains."""
_TAG_NAME: Final = re.compile(r"(?:</?|(?=\[))(\[?/?[\w.:-]+)")
_ACCELERATOR: Final = re.compile(r"(?P<mark>[&~_])(?P<letter>[^\W\d_])")
_SHORT_TEXT: Final = 4
"""Number of words up to which a mark inside a word may be an accelerator mark."""
_MAX_LOWERCASE_PREFIX: Final = 2
"""Number of lower case letters of a word before an `_` that is an accelerator mark."""
_MARKUP_NAMES: Final = frozenset(("comment", "markup", ESCAPE_NAME))
"""Kinds of placeholders that readers do not see."""


def scan_placeholders(segment: Iterable[str | InlineCode]) -> Segment:
    """Replace the placeholders and soft line breaks in the texts of a segment by codes."""
    return tuple(node for part in segment for node in ([part] if isinstance(part, InlineCode) else _split_text(part)))


def _split_text(text: str) -> Iterator[str | InlineCode]:
    """Split a text into plain text and codes of placeholders and line breaks."""
    position = 0
    for token in iter_placeholders(text):
        yield from _split_line_breaks(text[position : token.start])
        position = token.stop
        yield _build_code(text[token.start : position], token.name)
    yield from _split_line_breaks(text[position:])


def _split_line_breaks(text: str) -> Iterator[str | InlineCode]:
    """Split a text at line breaks and tabs, which become codes with the spaces around them."""
    position = 0
    for match in _LINE_BREAK.finditer(text):
        if match.start() > position:
            yield text[position : match.start()]
        yield InlineCode(match[0], "alone", BREAK_NAME, in_text=True)
        position = match.end()
    if position < len(text):
        yield text[position:]


def _build_code(raw: str, kind: str) -> InlineCode:
    """Build the code of a placeholder from its raw text, as `<b>` or `%s`, and the name of the rule that it matches. A
    `link` or `tag` opens or closes a pair, but `<br/>` and all other kinds stand alone. Comments, markup and escapes
    have no value; the other kinds that are neither links nor tags have the raw text as the value that a model may read.
    """
    if kind == "link":
        return InlineCode(raw, "open" if raw == "[" else "close", kind, in_text=True)
    if kind in _MARKUP_NAMES:
        return InlineCode(raw, "alone", kind, in_text=True)
    if kind != "tag":
        return InlineCode(raw, "alone", kind, value=raw, in_text=True)
    name = _TAG_NAME.match(raw)
    assert name is not None
    role: CodeRole = "close" if raw[1] == "/" else "alone" if raw.endswith("/>") else "open"
    return InlineCode(raw, role, name[1].lower(), in_text=True)


def has_message(segment: Segment) -> bool:
    """Return whether a segment holds a message of several forms, as ICU and Fluent have for plurals and selections."""
    return any(isinstance(part, InlineCode) and part.name == MESSAGE_NAME for part in scan_placeholders(segment))


def list_unknown_marks(segment: Segment) -> list[str]:
    """Return the parts of a segment's texts that look like placeholders but match no rule."""
    return [mark for part in scan_placeholders(segment) if isinstance(part, str) for mark in find_unknown_marks(part)]


def get_code_key(code: InlineCode) -> str:
    """Return the key by which two codes are compared: the raw code, or the digits of a number, because languages
    group digits differently.
    """
    return "".join(filter(str.isdigit, code.raw)) if code.name == NUMBER_NAME else code.raw


def remove_accelerator(segment: Segment) -> tuple[Segment, str]:
    """Remove the accelerator mark from a segment; return the segment and the mark with its letter (empty if there is
    none).

    The mark is `&` (Qt, Windows), `_` (GTK) or `~` (LibreOffice), and the text has exactly one. Inside a word it counts
    in short texts only: `E_xit` has one, `max_length` in a sentence does not.
    """
    words = sum(len(part.split()) for part in segment if isinstance(part, str))
    if words > 3 * _SHORT_TEXT:
        return segment, ""
    candidates = (
        (number, mark)
        for number, part in enumerate(segment)
        if isinstance(part, str)
        for mark in _iter_accelerators(part)
    )
    first_two = list(islice(candidates, 2))
    if len(first_two) != 1:
        return segment, ""
    number, mark = first_two[0]
    text = segment[number]
    assert isinstance(text, str)
    if not _is_accelerator(text, mark, words=words):
        return segment, ""
    cleaned = text[: mark.start()] + text[mark.start("letter") :]
    return (*segment[:number], cleaned, *segment[number + 1 :]), mark[0]


def _iter_accelerators(text: str) -> Iterator[re.Match[str]]:
    """Yield possible accelerator marks with their letters in a text, outside of placeholders. A name with a single `_`
    does not count as a placeholder, because it may be a word with a mark.
    """
    placeholders = ((token.start, token.stop, text[token.start : token.stop]) for token in iter_placeholders(text))
    spans = [(start, stop) for start, stop, raw in placeholders if not (raw.isidentifier() and raw.count("_") == 1)]
    for mark in _ACCELERATOR.finditer(text):
        index = bisect_right(spans, mark.start(), key=itemgetter(0))
        if not index or spans[index - 1][1] <= mark.start():
            yield mark


def _is_accelerator(text: str, match: re.Match[str], *, words: int) -> bool:
    """Return whether a sign matched in a text is an accelerator mark, and not part of an entity, `AT&T`, `~/folder` or
    `max_length`. `words` is the number of words of the segment: in long ones a sign inside a word is no mark.
    """
    before = text[: match.start()]
    if not before[-1:].isalnum():
        return text[match.end() : match.end() + 1] != "/" or match["mark"] != "~"
    prefix = re.split(r"[\W\d]", before)[-1]
    is_uppercase = before[-1].isupper() and match["letter"].isupper()
    is_variable = match["mark"] == "_" and len(prefix) > _MAX_LOWERCASE_PREFIX and not prefix[0].isupper()
    return words <= _SHORT_TEXT and not is_uppercase and not is_variable


def insert_accelerator(segment: Segment, mark: str) -> Segment:
    """Insert an accelerator mark, given with its letter as in `&F`, before the same letter, preferably at the beginning
    of a word, else before the first letter.

    Placeholders are not changed. A text without letters of an alphabet gets mark and letter in brackets at its end, as
    in Chinese and Japanese menus.
    """
    sign, letter = mark[0], mark[1]
    segment = scan_placeholders(segment)
    texts = [(number, part) for number, part in enumerate(segment) if isinstance(part, str)]
    escaped_letter = re.escape(letter)
    for pattern in (rf"\b{escaped_letter}", escaped_letter, r"(?<![^\W_])[^\W\d_]"):
        for number, text in texts:
            match = re.search(pattern, text, re.IGNORECASE)
            if match is not None and match[0] < "\u2e80":
                marked = f"{text[: match.start()]}{sign}{text[match.start() :]}"
                return (*segment[:number], marked, *segment[number + 1 :])
    if not texts:
        return segment
    number, text = texts[-1]
    bare = text.rstrip(" .:\u2026\uff1a")
    tail = text[len(bare) :]
    return (*segment[:number], f"{bare}({sign}{letter.upper()}){tail}", *segment[number + 1 :])


def to_plain_text(segment: Segment) -> str:
    """Return the text of a segment that a model reads: with the values of placeholders, without markup and
    accelerator mark.
    """
    if all(isinstance(part, str) and not _MARKUP_SIGN.search(part) for part in segment):
        return " ".join(remove_invisible("".join(map(str, segment))).split())
    cleaned, _ = remove_accelerator(segment)
    visible = (
        part if isinstance(part, str) else part.value or " " * (part.name in (BREAK_NAME, ESCAPE_NAME))
        for part in scan_placeholders(cleaned)
    )
    return " ".join(remove_invisible("".join(visible)).split())


def restore_placeholders(segment: Segment) -> Segment:
    """Turn codes that were found in texts into text again, as it is written to a file."""
    return flatten_nodes(part.raw if isinstance(part, InlineCode) and part.in_text else part for part in segment)
