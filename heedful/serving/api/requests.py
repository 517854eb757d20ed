"""Request messages: one for each function of models, with the options of its command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeAlias

from annotated_types import MaxLen
from pydantic import ConfigDict, Field

from heedful.recipes.generation import ContinuationConfig, GenerationConfig, override_generation
from heedful.serving.routes import MAX_INTEGER, StrictMessage
from heedful.serving.search_fields import add_search_fields, read_search_options

InputText: TypeAlias = str
InputTexts: TypeAlias = InputText | Annotated[list[InputText], Field(min_length=1)]
IntAtLeast1: TypeAlias = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
FileContent: TypeAlias = str | bytes
"""A file in base64 or as a data URL, or its bytes if it came with multipart/form-data."""
RequestName: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]

FILE_FIELDS = ("image", "sound", "clip", "frames")
"""Fields that hold files."""
MAX_FRAMES = 256
"""Maximum number of pictures of a clip."""


class ModelRequest(StrictMessage):
    """A request to one model.

    Abstract.
    """

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True)

    model: RequestName | None = None
    """name of the model; not needed if only one model can do this"""


class _SearchRequest(ModelRequest):
    """A request with options of a search. Abstract."""

    search: str | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """random seed of sampling"""

    def _override_config(self, recipe: Any, config_type: Any) -> Any:
        """Return the recipe's config with the options of this request; see `override_generation`."""
        options = read_search_options(self, config_type)
        return override_generation(recipe, config_type, options, help_hint="GET /docs lists the fields")


@add_search_fields(GenerationConfig)
class DecodingRequest(_SearchRequest):
    """A request with the decoding options of `heedful translate`; the recipe sets those that are not given.

    Abstract.
    """

    n_best: IntAtLeast1 = 1
    """number of answers to each text, best first"""

    def build_config(self, recipe: GenerationConfig) -> GenerationConfig:
        """Return `recipe`, the generation config of a model's recipe, with the options of this request; raise a
        `RecipeError` if they do not fit.
        """
        config: GenerationConfig = self._override_config(recipe, GenerationConfig)
        return config

    @property
    def changes_length(self) -> bool:
        """Whether the request changes the length limits of the recipe."""
        options = read_search_options(self, GenerationConfig)
        return not options.keys().isdisjoint(("max_ratio", "max_extra", "min_ratio", "min_length"))


@add_search_fields(ContinuationConfig, limits={"stop": MaxLen(16)})
class ContinuationRequest(_SearchRequest):
    """A request with the options of `heedful generate`; the recipe sets those that are not given.

    Abstract.
    """

    stream: bool = False
    """send the text while it is generated, as server-sent events; for one prompt"""

    def build_config(self, recipe: ContinuationConfig) -> ContinuationConfig:
        """Return `recipe`, the continuation config of a model's recipe, with the options of this request; raise a
        `RecipeError` if they do not fit.
        """
        config: ContinuationConfig = self._override_config(recipe, ContinuationConfig)
        return config


class RequestTurn(StrictMessage):
    """One turn of a dialogue."""

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True)

    speaker: RequestName
    """name of a speaker in the dialogues of the model"""
    text: InputText
    """text of the turn"""


FrameList: TypeAlias = Annotated[list[FileContent], Field(min_length=1, max_length=MAX_FRAMES)]


class InspectHTTPRequest(ModelRequest):
    """A request to record what a model attends to on one or two texts, a picture, a clip or a sound, as `heedful
    inspect` does.
    """

    text: InputText = ""
    """the input text of models that read texts"""
    pair: InputText | None = None
    """a given translation, caption or transcript, the second of two texts, or the context or story of a question"""
    image: FileContent | None = None
    """input of picture models, as in `caption`"""
    clip: FileContent | None = None
    """input of clip models, as in `caption`"""
    frames: FrameList | None = None
    """input of clip models, as in `caption`"""
    sound: FileContent | None = None
    """input of speech models, as in `transcribe`"""
    to: RequestName | None = None
    """language to translate into, if there are several"""
    beam: Annotated[int, Field(ge=1, le=20)] | None = None
    """beam width of the search, whose tree is recorded"""
    tokens: Annotated[int, Field(ge=0, le=200)] | None = None
    """maximum number of generated tokens"""
    format: Literal["record", "safetensors", "page", "link"] = "record"
    """the record as JSON (as the page reads it) or as a safetensors file in base64; the page as HTML; or a link to the
    page, which the server stores for some minutes"""


def iter_texts(value: Any) -> Iterator[str]:
    """Yield all texts in a field of a message: a text, the text of a turn, or those in a list, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from iter_texts(item)
    elif isinstance(value, RequestTurn):
        yield value.text
