"""Tokens as text that shows: in pictures and in terminals, whatever characters they hold."""

from __future__ import annotations

import unicodedata
from html import escape


def visible(token: str) -> str:
    """The token with a sign for every character that would not show, or that XML or a terminal would not bear."""
    if token and not token.strip(" "):
        return "␣" * len(token)
    return "".join(map(_sign, token)) or "∅"


def _sign(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    joins = character in "\u200c\u200d"  # Persian words and emoji need them
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") and not joins:
        return f"[U+{code:04X}]"
    return character


def svg_label(token: str, *, longest: int = 24) -> str:
    """A token that is visible already as the text of an SVG, cut where it is longer than so many columns."""
    return escape(shortened(token, longest))


def shortened(token: str, width: int) -> str:
    """At most `width` columns of a terminal, the last an ellipsis where something is missing."""
    if text_width(token) <= width:
        return token
    kept = ""
    for letter in split_letters(token):
        if text_width(kept + letter) >= width:
            break
        kept += letter
    return kept + "…"


def split_letters(text: str) -> list[str]:
    """Characters, each with the marks that combine with it."""
    found: list[str] = []
    for character in text:
        if found and text_width(character) == 0:
            found[-1] += character
        else:
            found.append(character)
    return found


def text_width(text: str) -> int:
    """Columns in a terminal: two for wide Asian letters, none for marks that combine."""
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me", "Cf") else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
