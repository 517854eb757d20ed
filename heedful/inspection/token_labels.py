"""Tokens as visible text for pictures and terminals, whatever characters they contain."""

from __future__ import annotations

import unicodedata
from html import escape


def make_visible(token: str) -> str:
    """Replace every character that would not show, or that XML or a terminal cannot hold, by a visible sign."""
    if token and not token.strip(" "):
        return "␣" * len(token)
    return "".join(map(_replace_invisible, token)) or "∅"


def _replace_invisible(character: str) -> str:
    """Return the character, or a visible sign in its place if it would not show."""
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    joins = character in "\u200c\u200d"  # Persian words and emoji need them
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") and not joins:
        return f"[U+{code:04X}]"
    return character


def escape_svg_label(token: str, *, longest: int = 24) -> str:
    """Escape an already visible token as SVG text, cut to `longest` columns."""
    return escape(shorten_text(token, longest))


def shorten_text(token: str, width: int) -> str:
    """Cut a text to at most `width` terminal columns; the last one is an ellipsis if something is missing."""
    if measure_columns(token) <= width:
        return token
    prefix = ""
    for letter in split_graphemes(token):
        if measure_columns(prefix + letter) >= width:
            break
        prefix += letter
    return prefix + "…"


def split_graphemes(text: str) -> list[str]:
    """Split a text into characters, each with its combining marks."""
    graphemes: list[str] = []
    for character in text:
        if graphemes and measure_columns(character) == 0:
            graphemes[-1] += character
        else:
            graphemes.append(character)
    return graphemes


def measure_columns(text: str) -> int:
    """Return the terminal columns of a text: two for wide East Asian characters, none for combining marks."""
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me", "Cf") else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
