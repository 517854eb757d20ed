"""Request messages: one for each function of models, with the options of its command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeAlias

from annotated_types import MaxLen
from pydantic import ConfigDict, Field, field_validator

from heedful.recipes.generation import ContinuationConfig, GenerationConfig
from heedful.recipes.generation_options import override_generation
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
        """Return the recipe's generation config with the options of this request; raise a `RecipeError` if they do
        not fit.
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
        """Return the recipe's continuation config with the options of this request; raise a `RecipeError` if they
        do not fit.
        """
        config: ContinuationConfig = self._override_config(recipe, ContinuationConfig)
        return config


class TranslateRequest(DecodingRequest):
    """A request to translate texts, as `heedful translate` does."""

    texts: InputTexts
    """one text or several"""
    source: RequestName | None = None
    """language of the texts, if several models are served and none is named"""
    to: RequestName | None = None
    """language to translate into, if there are several"""
    align: bool = False
    """return the attention weights of each token (mean over the heads of the last decoder layer)"""
    prefix: InputText | None = None
    """text with which every translation must begin; its last word may be unfinished unless a space follows it"""
    prefixes: list[InputText] | None = None
    """text with which each translation must begin, one for each text"""
    constraints: list[list[Annotated[str, Field(min_length=1)]]] | None = None
    """terms that each translation must contain, a list for each text; needs beam search"""
    stream: bool = False
    """send the translation while it is searched for, as server-sent events; for one text"""


class TranslationPairsRequest(ModelRequest):
    """A request about texts and their translations, as `heedful score` and `heedful align` take them."""

    pairs: Annotated[list[Annotated[list[InputText], Field(min_length=2, max_length=2)]], Field(min_length=1)]
    """pairs of a source and its translation"""
    source: RequestName | None = None
    """language of the sources, if several models are served and none is named"""
    to: RequestName | None = None
    """language of the translations, if there are several"""


class GenerateRequest(ContinuationRequest):
    """A request to continue prompts, as `heedful generate` does."""

    prompts: InputTexts
    """one prompt or several; an empty one begins a document"""
    n_best: IntAtLeast1 = 1
    """number of sampled continuations of each prompt"""
    complete: bool = False
    """complete the last word of each prompt, unless a space follows it"""


class RequestTurn(StrictMessage):
    """One turn of a dialogue."""

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True)

    speaker: RequestName
    """name of a speaker in the dialogues of the model"""
    text: InputText
    """text of the turn"""


class DialogueRequest(ContinuationRequest):
    """A request to continue a dialogue, as `heedful chat` does."""

    turns: list[RequestTurn | InputText]
    """the dialogue so far: texts in turn, of which the user's is the last, or turns with the names of speakers"""

    @field_validator("turns")
    @classmethod
    def _check_turns(cls, turns: list[RequestTurn | InputText]) -> list[RequestTurn | InputText]:
        """Check that all turns have a speaker, or none has."""
        if len({type(turn) for turn in turns}) > 1:
            raise ValueError("give a speaker for all turns, or for none")
        return turns


class FillRequest(ModelRequest):
    """A request to fill the gaps of texts, as `heedful fill` does."""

    texts: InputTexts
    """one text or several, with [MASK] for each hidden token"""
    top: Annotated[int, Field(ge=1, le=100)] = 5
    """number of guesses for each gap"""


class ClassifyRequest(ModelRequest):
    """A request to classify texts, as `heedful classify` does."""

    texts: InputText | Annotated[list[InputText | Annotated[list[InputText], Field(min_length=1)]], Field(min_length=1)]
    """one text or several; a list is a pair of texts, or a text and its candidates"""


class TagRequest(ModelRequest):
    """A request to tag the words of sentences, as `heedful tag` does."""

    texts: InputText | Annotated[list[InputText | list[InputText]], Field(min_length=1)]
    """one sentence or several; words are separated by spaces, or given as a list"""


class AnswerRequest(ModelRequest):
    """A request to find answers in a context, as `heedful answer` does."""

    question: InputTexts
    """one question or several"""
    context: InputText
    """the text that may contain the answers"""
    n_best: IntAtLeast1 = 1
    """number of spans that are returned for each question"""


class StoryQuestionRequest(ModelRequest):
    """A request to answer questions about a story, as `heedful ask` does."""

    story: InputText | list[InputText]
    """list of sentences, or a text with one sentence on each line"""
    question: InputTexts
    """one question or several"""


class DetectRequest(ModelRequest):
    """A request to find replaced tokens in texts, as `heedful detect` does."""

    texts: InputTexts
    """one text or several"""


class EmbedRequest(ModelRequest):
    """A request to compute vectors of texts, as `heedful embed` does."""

    texts: InputTexts
    """one text or several"""
    normalise: bool = False
    """scale each vector to length 1, so that products are cosines"""


class SearchRequest(StrictMessage):
    """A request to search an index of passages, as `heedful search` does."""

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True)

    index: RequestName | None = None
    """name of the index; not needed if there is only one"""
    query: InputTexts
    """one question or several"""
    top: IntAtLeast1 = 10
    """number of passages to return"""
    by: Literal["bm25", "encoder", "product", "all"] | None = None
    """ordering of the passages, or all three; the default is product if the index has vectors, else bm25"""
    answers: RequestName | None = None
    """name of a model that answers questions, whose answers are marked in the passages"""


FrameList: TypeAlias = Annotated[list[FileContent], Field(min_length=1, max_length=MAX_FRAMES)]


class CaptionRequest(DecodingRequest):
    """A request to describe a picture or a clip, as `heedful caption` does; exactly one of `image`, `clip` and
    `frames` is given.
    """

    image: FileContent | None = None
    """a picture, in base64 or as a data URL; in multipart/form-data, a file of this name"""
    clip: FileContent | None = None
    """a clip, likewise: a video, or another format that the model was trained on"""
    frames: FrameList | None = None
    """a clip as a list of pictures, likewise, in order"""
    align: bool = False
    """return the attention weights of each word"""


class LookRequest(ModelRequest):
    """A request to classify a picture glimpse by glimpse, as `heedful look` does."""

    image: FileContent
    """the picture, in base64 or as a data URL; in multipart/form-data, a file of this name"""


class TranscribeRequest(DecodingRequest):
    """A request to transcribe a sound, as `heedful transcribe` does."""

    sound: FileContent
    """the sound, in base64 or as a data URL; in multipart/form-data, a file of this name"""


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
