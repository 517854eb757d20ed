"""Tokens as text that shows: in pictures and in terminals, whatever characters they hold."""

from __future__ import annotations

import unicodedata
from html import escape


def make_visible(token: str) -> str:
    """The token with a sign for every character that would not show, or that XML or a terminal would not bear."""
    if token and not token.strip(" "):
        return "␣" * len(token)
    return "".join(map(_replace_invisible, token)) or "∅"


def _replace_invisible(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    joins = character in "\u200c\u200d"  # Persian words and emoji need them
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") and not joins:
        return f"[U+{code:04X}]"
    return character


def escape_svg_label(token: str, *, longest: int = 24) -> str:
    """A token that is visible already as the text of an SVG, cut where it is longer than so many columns."""
    return escape(shorten_text(token, longest))


def shorten_text(token: str, width: int) -> str:
    """At most `width` columns of a terminal, the last an ellipsis where something is missing."""
    if measure_columns(token) <= width:
        return token
    prefix = ""
    for letter in split_graphemes(token):
        if measure_columns(prefix + letter) >= width:
            break
        prefix += letter
    return prefix + "…"


def split_graphemes(text: str) -> list[str]:
    """Characters, each with the marks that combine with it."""
    graphemes: list[str] = []
    for character in text:
        if graphemes and measure_columns(character) == 0:
            graphemes[-1] += character
        else:
            graphemes.append(character)
    return graphemes


def measure_columns(text: str) -> int:
    """Columns in a terminal: two for wide Asian letters, none for marks that combine."""
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me", "Cf") else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
