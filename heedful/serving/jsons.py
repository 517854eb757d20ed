"""JSON that somebody sent: what it may hold is bounded before anything looks at it."""

from __future__ import annotations

import json
from typing import Any, Final

from heedful.serving.refusal import Refusal, wrong

_DEEPEST: Final = 32
"""Lists and objects inside each other; no message of ours needs more than five."""
_VALUES: Final = 1_000_000
"""Lists, objects and commas; each value takes some 64 bytes of memory, and two in a request."""
_DIGITS: Final = 1_000
"""Of a number; reading one takes time that grows with the square of them."""


def parse_json(content: bytes | str, *, name: str) -> Any:
    """Return what JSON holds.

    Strings are complete texts without half characters, and numbers are as JSON has them. What a number may be is a
    matter of the field that takes it: a message of pydantic's says which.

    Args:
        content: text, or bytes in UTF-8 (RFC 8259, section 8.1).
        name: of the JSON, for messages.

    Raises:
        Refusal: it is not JSON, or holds more than that.
    """
    try:
        text = content if isinstance(content, str) else content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise wrong(f"{name} is not UTF-8; encode it as UTF-8") from None
    if text.count(",") + text.count("[") + text.count("{") > _VALUES:
        raise wrong(f"{name} has more than {_VALUES:,} values; send fewer at a time")

    def integer(digits: str) -> int:
        if len(digits) > _DIGITS:
            raise wrong(f"{name} has a number of {len(digits):,} digits; send {_DIGITS:,} at most")
        return int(digits)

    try:
        found = json.loads(text, parse_int=integer)
    except RecursionError:
        raise _deep(name) from None
    except ValueError:
        raise wrong(f"{name} is no JSON; send an object") from None
    _require_shallow(found, name)
    if "\\u" in text:
        _require_whole(found, name)
    return found


def _require_shallow(found: Any, name: str) -> None:
    level, depth = [found], 0
    while level:
        depth += 1
        inside = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [each for own in inside for each in own if isinstance(each, dict | list)]
        if depth > _DEEPEST:
            raise _deep(name)


def _require_whole(found: Any, name: str) -> None:
    """Escapes may write half a character, which is no text and cannot be sent on."""
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise wrong(f"{name} holds half a character, as \\ud800 is; send whole ones") from None


def _deep(name: str) -> Refusal:
    return wrong(f"{name} has more than {_DEEPEST} lists and objects inside each other; send what is asked for")
