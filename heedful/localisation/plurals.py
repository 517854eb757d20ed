"""Plural rules: which form of a noun belongs to which number, as the header of a PO file defines in C."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

_HEADER: Final = re.compile(r"nplurals\s*=\s*0*(\d{1,9})\s*;\s*plural\s*=\s*([^;]+)")
_TOKEN: Final = re.compile(r"\s*((?<!\d)\d{1,9}(?!\d)|n|\|\||&&|[=!<>]=|[<>!%*/+()?:-])")
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
    """Build the function of a binary operator; integers as in C, none of them negative."""
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
