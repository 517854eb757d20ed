"""Which form of a noun goes with which number, as the header of a PO file says in C."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

_HEADER: Final = re.compile(r"nplurals\s*=\s*0*(\d{1,9})\s*;\s*plural\s*=\s*([^;]+)")
_TOKEN: Final = re.compile(r"\s*((?<!\d)\d{1,9}(?!\d)|n|\|\||&&|[=!<>]=|[<>!%*/+()?:-])")
_PRECEDENCE: Final = (("||",), ("&&",), ("==", "!="), ("<", ">", "<=", ">="), ("+", "-"), ("*", "/", "%"))
"""Operators of two sides, those that bind least first."""
_MAX_FORMS: Final = 64
_MAX_TOKENS: Final = 300
"""Tokens of a rule; that of Arabic has 41."""
_TESTED_NUMBERS: Final = 1000
PluralExpression = Callable[[int], int]


@final
@dataclass(frozen=True)
class PluralRule:
    """How many forms there are, and which of them a number takes.

    Attributes:
        count: forms.
        singular: the form of the number 1.
        shared: whether other numbers take that form too, as 21 does in Russian.
    """

    count: int
    singular: int
    shared: bool


GERMANIC_RULE: Final = PluralRule(2, 0, shared=False)
"""One, and all others: what a file without a rule is taken to mean."""


def parse_plural_forms(header: str) -> PluralRule | None:
    """What the field Plural-Forms says; None where it says nothing that can be computed."""
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
    """Reads an expression of the number n by recursive descent; `ValueError` where it is none."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = _TOKEN.findall(text)
        if "".join(self._tokens) != "".join(text.split()) or len(self._tokens) > _MAX_TOKENS:
            raise ValueError(text)

    def parse(self) -> PluralExpression:
        expression = self._parse_conditional()
        if self._tokens:
            raise ValueError(self._tokens[0])
        return expression

    def _parse_conditional(self) -> PluralExpression:
        condition = self._parse_binary(0)
        if self._accept("?"):
            if_true = self._parse_conditional()
            self._expect(":")
            if_false = self._parse_conditional()
            return lambda n: if_true(n) if condition(n) else if_false(n)
        return condition

    def _parse_binary(self, level: int) -> PluralExpression:
        if level == len(_PRECEDENCE):
            return self._parse_unary()
        expression = self._parse_binary(level + 1)
        while self._tokens and self._tokens[0] in _PRECEDENCE[level]:
            expression = _apply_operator(self._tokens.pop(0), expression, self._parse_binary(level + 1))
        return expression

    def _parse_unary(self) -> PluralExpression:
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
        if self._tokens and self._tokens[0] == token:
            del self._tokens[0]
            return True
        return False

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise ValueError(token)


def _apply_operator(operator: str, left: PluralExpression, right: PluralExpression) -> PluralExpression:
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
