"""Messages of LibreTranslate's interface, and how they are read from queries, forms and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, final
from urllib.parse import parse_qsl

from pydantic import BeforeValidator, Field, InstanceOf, WithJsonSchema
from pydantic_core import PydanticCustomError
from starlette.requests import Request

from heedful.serving.http_errors import HTTPError, bad_request
from heedful.serving.request_body import open_form, parse_json_object, read_body
from heedful.serving.routes import LenientMessage

_MAX_FIELDS: Final = 10_000
"""Maximum fields of a form, more than any batch has."""
_MAX_FORM_FIELDS: Final = 1_000
"""Maximum fields of a form with files."""


@final
@dataclass(frozen=True)
class UploadedFile:
    """A file that was sent with a form.

    Attributes:
        name: file name that the client gave.
        content: its bytes.
    """

    name: str
    content: bytes


def _check_texts(value: object) -> object:
    """Reject a value of a field that is neither a text nor a list of texts."""
    wrong_positions = (
        [number for number, text in enumerate(value, 1) if not isinstance(text, str)] if isinstance(value, list) else []
    )
    if wrong_positions:
        raise PydanticCustomError("texts", "item {number} of the list is not a text", {"number": wrong_positions[0]})
    if not isinstance(value, list) and not isinstance(value, str):
        raise PydanticCustomError("texts", "must be a text, or a list of texts")
    return value


def _check_integer(value: object) -> object:
    """Reject Booleans and fractions, which pydantic would convert to an integer."""
    if isinstance(value, bool | float):
        raise PydanticCustomError("number", "must be a whole number")
    return value


def _check_file(value: object) -> object:
    if not isinstance(value, UploadedFile):
        raise PydanticCustomError("file", "must be a file, sent as a part of multipart/form-data with a file name")
    return value


ApiKeyField = Annotated[
    str | None, Field(description="API key, if the server needs one; a header `Authorization` is accepted too")
]


class TranslateMessage(LenientMessage):
    """A request to translate texts."""

    q: Annotated[str | list[str], BeforeValidator(_check_texts), Field(description="a text, or several")]
    source: Annotated[str, Field(description="its language, or `auto`")]
    target: Annotated[str, Field(description="language of the translation")]
    format: Annotated[Literal["text", "html"], Field(description="`html` keeps tags")] = "text"
    alternatives: Annotated[
        int, Field(ge=0, description="number of translations besides the best"), BeforeValidator(_check_integer)
    ] = 0
    api_key: ApiKeyField = None

    @property
    def texts(self) -> list[str]:
        """The texts as a list."""
        return [self.q] if isinstance(self.q, str) else self.q


class DetectMessage(LenientMessage):
    """A request to identify the language of a text."""

    q: Annotated[str, Field(description="the text")]
    api_key: ApiKeyField = None


class TranslateFileMessage(LenientMessage):
    """A request to translate a file."""

    file: Annotated[
        InstanceOf[UploadedFile], BeforeValidator(_check_file), WithJsonSchema({"type": "string", "format": "binary"})
    ]
    source: Annotated[str, Field(description="its language, or `auto`")]
    target: Annotated[str, Field(description="language of the translation")]
    api_key: ApiKeyField = None


class LanguageDetection(LenientMessage):
    """A possible language of a text, with its probability in percent."""

    confidence: float
    language: str


class TranslateResult(LenientMessage):
    """The translation of one text, or those of several."""

    translatedText: str | list[str]  # noqa: N815 - as clients read it
    detectedLanguage: LanguageDetection | list[LanguageDetection] | None = None  # noqa: N815
    alternatives: list[str] | list[list[str]] | None = None


class TranslateFileResult(LenientMessage):
    """The URL at which a translated file can be downloaded for some minutes."""

    translatedFileUrl: str  # noqa: N815


class LanguageTargets(LenientMessage):
    """A language, and those into which it can be translated."""

    code: str
    name: str
    targets: list[str]


class LanguageOption(LenientMessage):
    """A language as web pages list it."""

    code: str
    name: str


class DefaultLanguages(LenientMessage):
    """The languages that a web page selects at first."""

    source: LanguageOption
    target: LanguageOption


class FrontendSettings(LenientMessage):
    """Settings for LibreTranslate's web page."""

    charLimit: int  # noqa: N815
    frontendTimeout: int  # noqa: N815
    apiKeys: bool  # noqa: N815
    keyRequired: bool  # noqa: N815
    suggestions: bool
    filesTranslation: bool  # noqa: N815
    supportedFilesFormat: list[str]  # noqa: N815
    language: DefaultLanguages


def format_error(error: HTTPError) -> Mapping[str, Any]:
    """Format an error as LibreTranslate's clients read it."""
    return {"error": error.message}


async def read_fields(request: Request) -> Mapping[str, Any]:
    """Read the fields of a request from its query and its body, which may be JSON or a form.

    A field of the body replaces one of the query, and null values are ignored.

    The fields are also stored as `request.state.table`, since they may hold an API key.
    """
    fields = _merge_fields(_parse_query(request.scope["query_string"], "the query"))
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == "multipart/form-data":
        fields |= _merge_fields(await _read_parts(request))
    elif content_type == "application/x-www-form-urlencoded":
        fields |= _merge_fields(_parse_query(await read_body(request), "the form"))
    elif body := await read_body(request):
        fields |= {name: value for name, value in parse_json_object(body).items() if value is not None}
    request.state.table = fields
    return fields


def _parse_query(content: bytes, part_name: str) -> list[tuple[str, str]]:
    """Parse the names and values of a query or form from its bytes in UTF-8, even if they are not percent-encoded;
    errors call it by `part_name`.
    """
    try:
        return parse_qsl(content.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except UnicodeDecodeError:
        raise bad_request(f"{part_name}: is not UTF-8; encode it as UTF-8") from None
    except ValueError:
        raise bad_request(f"{part_name}: has more than {_MAX_FIELDS:,} fields; send fewer texts at a time") from None


async def _read_parts(request: Request) -> list[tuple[str, str | UploadedFile]]:
    """Read the names and values of a multipart form with at most one file."""
    async with open_form(request, max_files=1, max_fields=_MAX_FORM_FIELDS) as form:
        return [
            (name, value if isinstance(value, str) else UploadedFile(value.filename or "", await value.read()))
            for name, value in form.multi_items()
        ]


def _merge_fields(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Merge fields by name; repeated `q` fields become a list, of other fields the last one counts."""
    pair_list = list(pairs)
    texts = [value for name, value in pair_list if name == "q"]
    return {**dict(pair_list), **({"q": texts} if len(texts) > 1 else {})}
