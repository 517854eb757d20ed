"""Request messages: one for each function of models, with the options of its command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field

from heedful.recipes.config import Config
from heedful.recipes.generation import ContinuationBaseConfig, ContinuationConfig, GenerationConfig, LengthLimitedConfig
from heedful.recipes.generation_overrides import override_generation
from heedful.serving.routes import MAX_FACTOR, MAX_INTEGER, StrictMessage

InputText: TypeAlias = str
InputTexts: TypeAlias = InputText | Annotated[list[InputText], Field(min_length=1)]
IntAtLeast1: TypeAlias = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
IntAtLeast0: TypeAlias = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
BoundedFactor: TypeAlias = Annotated[float, Field(ge=0, le=MAX_FACTOR)]
Probability: TypeAlias = Annotated[float, Field(gt=0, le=1)]
FileContent: TypeAlias = str | bytes
"""A file in base64 or as a data URL, or its bytes if it came with multipart/form-data."""
RequestName: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]

FILE_FIELDS = ("image", "sound", "clip", "frames")
"""Fields that hold files."""
MAX_FRAMES = 256
"""Maximum number of pictures of a clip."""
_OPTION_NAMES = {"kind": "search", "width": "beam"}
"""Recipe keys that have another name here, as on the command line."""


class ModelRequest(StrictMessage):
    """A request to one model.

    Abstract.
    """

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True)

    model: RequestName | None = None
    """name of the model; not needed if only one model can do this"""


class _SamplingRequest(ModelRequest):
    """A request with sampling options. Abstract."""

    temperature: Annotated[float, Field(gt=0, le=MAX_FACTOR)] | None = None
    """for sampling: below 1 favours probable tokens, above 1 gives more variety"""
    top_k: IntAtLeast1 | None = None
    """sample from this many most probable tokens only"""
    top_p: Probability | None = None
    """sample from the smallest set of tokens with this total probability"""
    min_p: Probability | None = None
    """sample only tokens with at least this fraction of the highest probability"""
    repetition_penalty: Annotated[float, Field(gt=0, le=MAX_FACTOR)] | None = None
    """above 1 makes tokens less probable that occurred before, also in the prompt"""
    no_repeat_ngram: IntAtLeast1 | None = None
    """no sequence of this many tokens occurs twice"""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """random seed of sampling"""

    def _to_recipe_options(self, request_type: type[_SamplingRequest], excluded: frozenset[str]) -> dict[str, Any]:
        """Return the options that were given, by the keys of a recipe."""
        recipe_keys = {option_name: key for key, option_name in _OPTION_NAMES.items()}
        field_names = request_type.model_fields.keys() - ModelRequest.model_fields.keys() - excluded
        return {
            recipe_keys.get(name, name): value
            for name in sorted(field_names)
            if (value := getattr(self, name)) is not None
        }


class DecodingRequest(_SamplingRequest):
    """A request with the decoding options of `heedful translate`; the recipe sets those that are not given.

    Abstract.
    """

    search: Literal["greedy", "beam", "sampling"] | None = None
    """kind of search"""
    beam: IntAtLeast1 | None = None
    """number of hypotheses that are searched in parallel"""
    length_penalty: BoundedFactor | None = None
    """alpha of Wu et al. 2016: 0 favours short answers"""
    groups: IntAtLeast1 | None = None
    """groups that share the beam and avoid each other's tokens (diverse beam search)"""
    diversity: BoundedFactor | None = None
    """strength of this avoidance"""
    coverage: BoundedFactor | None = None
    """beta of Wu et al. 2016: weight of attention that covers the whole source; for translation"""
    max_ratio: BoundedFactor | None = None
    """maximum length of an answer, as a multiple of the source's tokens"""
    max_extra: IntAtLeast0 | None = None
    """tokens that are added to this maximum"""
    min_ratio: BoundedFactor | None = None
    """minimum length of an answer, as a multiple of the source's tokens"""
    min_length: IntAtLeast0 | None = None
    """minimum length of an answer in tokens"""
    forbid: list[Annotated[str, Field(min_length=1)]] | None = None
    """words that must not be generated. A word in lower case is forbidden in any case; a word with a star at its end
    also forbids longer words that begin with it."""
    n_best: IntAtLeast1 = 1
    """number of answers to each text, best first"""

    def build_config(self, recipe: GenerationConfig) -> GenerationConfig:
        """Return the recipe's generation config with the options of this request; raise a `RecipeError` if they do
        not fit.
        """
        options = self._to_recipe_options(DecodingRequest, frozenset({"seed", "n_best"}))
        config: GenerationConfig = _apply_options(recipe, GenerationConfig, options, LengthLimitedConfig)
        return config

    @property
    def changes_length(self) -> bool:
        """Whether the request changes the length limits of the recipe."""
        return not self.max_ratio is self.max_extra is self.min_ratio is self.min_length is None


class ContinuationRequest(_SamplingRequest):
    """A request with the options of `heedful generate`; the recipe sets those that are not given.

    Abstract.
    """

    search: Literal["greedy", "sampling"] | None = None
    """kind of search"""
    stop: Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=16)] | None = None
    """end the text before the first of these strings"""
    tokens: IntAtLeast1 | None = None
    """maximum number of tokens of a continuation"""
    stream: bool = False
    """send the text while it is generated, as server-sent events; for one prompt"""

    def build_config(self, recipe: ContinuationConfig) -> ContinuationConfig:
        """Return the recipe's continuation config with the options of this request; raise a `RecipeError` if they
        do not fit.
        """
        options = self._to_recipe_options(ContinuationRequest, frozenset({"seed", "stream"}))
        config: ContinuationConfig = _apply_options(recipe, ContinuationConfig, options, ContinuationBaseConfig)
        return config


def _apply_options(recipe: Any, config: Any, options: Mapping[str, Any], common_type: type[Config]) -> Any:
    """Change the config of a recipe by options, with error messages that use the option names of this interface."""

    def option_name(key: str) -> str:
        return _OPTION_NAMES.get(key, key)

    return override_generation(
        recipe,
        config,
        options,
        common_class=common_type,
        format_key=option_name,
        help_hint="GET /docs lists the fields",
    )


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
    """Yield all texts in a value of a message."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from iter_texts(item)
    elif isinstance(value, RequestTurn):
        yield value.text
