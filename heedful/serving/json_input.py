"""JSON that somebody sent: what it may hold is bounded before anything looks at it."""

from __future__ import annotations

import json
from typing import Any, Final

from heedful.serving.http_errors import HTTPError, bad_request

_MAX_DEPTH: Final = 32
"""Lists and objects inside each other; no message of ours needs more than five."""
_MAX_VALUES: Final = 1_000_000
"""Lists, objects and commas; each value takes some 64 bytes of memory, and two in a request."""
_MAX_DIGITS: Final = 1_000
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
        raise bad_request(f"{name} is not UTF-8; encode it as UTF-8") from None
    if text.count(",") + text.count("[") + text.count("{") > _MAX_VALUES:
        raise bad_request(f"{name} has more than {_MAX_VALUES:,} values; send fewer at a time")

    def parse_integer(digits: str) -> int:
        if len(digits) > _MAX_DIGITS:
            raise bad_request(f"{name} has a number of {len(digits):,} digits; send {_MAX_DIGITS:,} at most")
        return int(digits)

    try:
        value = json.loads(text, parse_int=parse_integer)
    except RecursionError:
        raise _too_deep(name) from None
    except ValueError:
        raise bad_request(f"{name} is no JSON; send an object") from None
    _require_max_depth(value, name)
    if "\\u" in text:
        _require_encodable(value, name)
    return value


def _require_max_depth(value: Any, name: str) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        children = (
            child.values() if isinstance(child, dict) else child for child in level if isinstance(child, dict | list)
        )
        level = [child for group in children for child in group if isinstance(child, dict | list)]
        if depth > _MAX_DEPTH:
            raise _too_deep(name)


def _require_encodable(value: Any, name: str) -> None:
    """Escapes may write half a character, which is no text and cannot be sent on."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise bad_request(f"{name} holds half a character, as \\ud800 is; send whole ones") from None


def _too_deep(name: str) -> HTTPError:
    return bad_request(f"{name} has more than {_MAX_DEPTH} lists and objects inside each other; send what is asked for")
