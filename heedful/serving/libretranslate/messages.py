"""What LibreTranslate's clients send and read, in all the ways in which they send it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, final
from urllib.parse import parse_qsl

from pydantic import BeforeValidator, Field, InstanceOf, WithJsonSchema
from pydantic_core import PydanticCustomError
from starlette.requests import Request

from heedful.serving.forms import multipart
from heedful.serving.refusal import Refusal, wrong
from heedful.serving.routes import Open, json_object, read_body

_FIELDS: Final = 10_000
"""Of a form, more than any batch has."""
_FORM_FIELDS: Final = 1_000
"""Of a form with files."""


@final
@dataclass(frozen=True)
class Upload:
    """A file that came with a form.

    Attributes:
        name: that whoever sent it gave it.
        content: all of it.
    """

    name: str
    content: bytes


def _texts(value: object) -> object:
    odd = (
        [number for number, each in enumerate(value, 1) if not isinstance(each, str)] if isinstance(value, list) else []
    )
    if odd:
        raise PydanticCustomError("texts", "text {number} of the list is no text", {"number": odd[0]})
    if not isinstance(value, list) and not isinstance(value, str):
        raise PydanticCustomError("texts", "must be a text, or a list of texts")
    return value


def _number(value: object) -> object:
    if isinstance(value, bool | float):
        raise PydanticCustomError("number", "must be a whole number")
    return value


def _file(value: object) -> object:
    if not isinstance(value, Upload):
        raise PydanticCustomError("file", "must be a file, sent as a part of multipart/form-data with a file name")
    return value


Key = Annotated[str | None, Field(description="where the server wants keys; a header `Authorization` does as well")]


class TranslateMessage(Open):
    """Texts to translate."""

    q: Annotated[str | list[str], BeforeValidator(_texts), Field(description="a text, or several")]
    source: Annotated[str, Field(description="its language, or `auto`")]
    target: Annotated[str, Field(description="the language that it is to be in")]
    format: Annotated[Literal["text", "html"], Field(description="`html` keeps tags")] = "text"
    alternatives: Annotated[
        int, Field(ge=0, description="so many translations besides the best"), BeforeValidator(_number)
    ] = 0
    api_key: Key = None

    @property
    def texts(self) -> list[str]:
        """One, or several."""
        return [self.q] if isinstance(self.q, str) else self.q


class DetectMessage(Open):
    """A text whose language is to be found out."""

    q: Annotated[str, Field(description="the text")]
    api_key: Key = None


class FileMessage(Open):
    """A file to translate."""

    file: Annotated[InstanceOf[Upload], BeforeValidator(_file), WithJsonSchema({"type": "string", "format": "binary"})]
    source: Annotated[str, Field(description="its language, or `auto`")]
    target: Annotated[str, Field(description="the language that it is to be in")]
    api_key: Key = None


class Detected(Open):
    """A language, and how sure that is, of 100."""

    confidence: float
    language: str


class Translated(Open):
    """A translation, or one of each text."""

    translatedText: str | list[str]  # noqa: N815 - as clients read it
    detectedLanguage: Detected | list[Detected] | None = None  # noqa: N815
    alternatives: list[str] | list[list[str]] | None = None


class TranslatedFile(Open):
    """Where a translated file can be fetched, for some minutes."""

    translatedFileUrl: str  # noqa: N815


class Language(Open):
    """One that is read or written, and what it is translated to."""

    code: str
    name: str
    targets: list[str]


class Named(Open):
    """A language as pages show it."""

    code: str
    name: str


class Pair(Open):
    """What a page begins with."""

    source: Named
    target: Named


class FrontendSettings(Open):
    """What a page needs to know."""

    charLimit: int  # noqa: N815
    frontendTimeout: int  # noqa: N815
    apiKeys: bool  # noqa: N815
    keyRequired: bool  # noqa: N815
    suggestions: bool
    filesTranslation: bool  # noqa: N815
    supportedFilesFormat: list[str]  # noqa: N815
    language: Pair


def told(refusal: Refusal) -> Mapping[str, Any]:
    """A refusal as these clients read it."""
    return {"error": refusal.message}


async def read_asked(request: Request) -> Mapping[str, Any]:
    """What a request says in its query, and in its body as JSON or a form; the body counts where both say something,
    and what is null is not said.

    It is kept as `request.state.table`, since it may hold a key.
    """
    table = _joined(_pairs(request.scope["query_string"], "the query"))
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        table |= _joined(await _parts(request))
    elif kind == "application/x-www-form-urlencoded":
        table |= _joined(_pairs(await read_body(request), "the form"))
    elif body := await read_body(request):
        table |= {name: each for name, each in json_object(body).items() if each is not None}
    request.state.table = table
    return table


def _pairs(content: bytes, place: str) -> list[tuple[str, str]]:
    """Names and values of a query or a form, of which letters may stand as they are."""
    try:
        return parse_qsl(content.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS)
    except UnicodeDecodeError:
        raise wrong(f"{place}: is not UTF-8; encode it as UTF-8") from None
    except ValueError:
        raise wrong(f"{place}: has more than {_FIELDS:,} fields; send fewer texts at a time") from None


async def _parts(request: Request) -> list[tuple[str, str | Upload]]:
    async with multipart(request, files=1, fields=_FORM_FIELDS) as form:
        return [
            (name, each if isinstance(each, str) else Upload(each.filename or "", await each.read()))
            for name, each in form.multi_items()
        ]


def _joined(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """By their names; `q` is a list where it comes more than once, of others the last counts."""
    several = list(pairs)
    texts = [value for name, value in several if name == "q"]
    return {**dict(several), **({"q": texts} if len(texts) > 1 else {})}
