"""Which form of a noun goes with which number, as the header of a PO file says in C."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

_HEADER: Final = re.compile(r"nplurals\s*=\s*0*(\d{1,9})\s*;\s*plural\s*=\s*([^;]+)")
_TOKEN: Final = re.compile(r"\s*((?<!\d)\d{1,9}(?!\d)|n|\|\||&&|[=!<>]=|[<>!%*/+()?:-])")
_LEVELS: Final = (("||",), ("&&",), ("==", "!="), ("<", ">", "<=", ">="), ("+", "-"), ("*", "/", "%"))
"""Operators of two sides, those that bind least first."""
_MOST: Final = 64
_LONGEST: Final = 300
"""Tokens of a rule; that of Arabic has 41."""
_COUNTED: Final = 1000
Expression = Callable[[int], int]


@final
@dataclass(frozen=True)
class Plurals:
    """How many forms there are, and which of them a number takes.

    Attributes:
        count: forms.
        singular: the form of the number 1.
        shared: whether other numbers take that form too, as 21 does in Russian.
    """

    count: int
    singular: int
    shared: bool


GERMANIC: Final = Plurals(2, 0, shared=False)
"""One, and all others: what a file without a rule is taken to mean."""


def plurals(header: str) -> Plurals | None:
    """What the field Plural-Forms says; None where it says nothing that can be computed."""
    found = _HEADER.search(header)
    if found is None or not 1 <= int(found[1]) <= _MOST:
        return None
    try:
        rule = _Reader(found[2]).whole()
        forms = [rule(number) for number in range(_COUNTED)]
    except (ValueError, ZeroDivisionError, RecursionError):
        return None
    count = int(found[1])
    if not all(0 <= form < count for form in forms):
        return None
    return Plurals(count, forms[1], shared=forms.count(forms[1]) > 1)


class _Reader:
    """Reads an expression of the number n by recursive descent; `ValueError` where it is none."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = _TOKEN.findall(text)
        if "".join(self._tokens) != "".join(text.split()) or len(self._tokens) > _LONGEST:
            raise ValueError(text)

    def whole(self) -> Expression:
        found = self._choice()
        if self._tokens:
            raise ValueError(self._tokens[0])
        return found

    def _choice(self) -> Expression:
        condition = self._binary(0)
        if self._takes("?"):
            one = self._choice()
            self._need(":")
            other = self._choice()
            return lambda n: one(n) if condition(n) else other(n)
        return condition

    def _binary(self, level: int) -> Expression:
        if level == len(_LEVELS):
            return self._single()
        left = self._binary(level + 1)
        while self._tokens and self._tokens[0] in _LEVELS[level]:
            left = _joined(self._tokens.pop(0), left, self._binary(level + 1))
        return left

    def _single(self) -> Expression:
        if self._takes("!"):
            inner = self._single()
            return lambda n: int(not inner(n))
        if self._takes("("):
            inner = self._choice()
            self._need(")")
            return inner
        token = self._tokens.pop(0) if self._tokens else ""
        if token == "n":
            return lambda n: n
        number = int(token)
        return lambda _: number

    def _takes(self, token: str) -> bool:
        if self._tokens and self._tokens[0] == token:
            del self._tokens[0]
            return True
        return False

    def _need(self, token: str) -> None:
        if not self._takes(token):
            raise ValueError(token)


def _joined(operator: str, left: Expression, right: Expression) -> Expression:
    """Both sides of an operator; whole numbers as in C, of which none here is below 0."""
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
