"""Rules for placeholders in texts, and the scanner that applies them.

The rules are those of printf and its relatives (C, Objective-C, Python, PHP, Ruby, Go, strftime, Qt), of templates in
braces (ICU MessageFormat, Fluent, i18next, Vue, Angular, .NET, Mustache, Twig), of Laravel (`:name`), Drupal (`@name`),
MediaWiki, ERB and ASP, of markup (XML, HTML, BBCode, Markdown), and of what no language changes: addresses, paths, keys
that are pressed together, versions, names of files and of variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Final, NamedTuple

MESSAGE_NAME: Final = "message"
"""Name of a message with several forms (a plural or a selection), whose forms are texts themselves."""
ESCAPE_NAME: Final = "escape"
"""Name of a character that is written as a backslash escape."""
NUMBER_NAME: Final = "number"

_CONVERSION: Final = r"(?:hh|h|ll|l|z|j|t|L|q|I64|I32)?[diouxXeEfFgGaAcCsSpnvTqQbUKL](?![a-zA-Z])|@"
_SPECIFIER: Final = rf"[-+#0']*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:{_CONVERSION})"
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
        rf"%\d+![^!\n]{{1,20}}!|%(?:\d+\$)?#@\w+@|%\d+\$?{_SPECIFIER}|%L?\d{{1,2}}(?!\d)|%%(?!\w+%%)|%{_SPECIFIER}",
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
    """Replace the marker of a repeated sign in a pattern by a back reference to its first group, which gets a name."""
    if r"\g<doubled>" not in pattern:
        return pattern
    group = f"sign_of_{number}"
    return pattern.replace("(", f"(?P<{group}>", 1).replace(r"\g<doubled>", f"(?P={group})")


_TOKEN: Final = re.compile(
    rf"(?=[^\w\s])(?:{_join_rules(_SIGN_RULES, 0)})|(?=[\w+.-])(?:{_join_rules(_LETTER_RULES, len(_SIGN_RULES))})",
    re.DOTALL,
)
_MESSAGE_START: Final = re.compile(
    r"\{\s*[^{},\n]{0,80}?\s*,\s*(?:plural|select|selectordinal|choice)\s*(?:,|\}|$)|\{[^{}\n]{1,80}->\s"
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
        """Return the kind and end of the placeholder with this opening brace; the end is `start` if it is not a
        placeholder.

        A message with several forms may contain quoted braces. One that is never closed extends to the end of the text,
        because
        its keywords are not text either.
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
    """Return the position after the closing brace of each brace that is closed."""
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
