"""What may be asked of our own interface: a table for each thing that models do, with the options of its command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field, field_validator

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
"""The file in base 64, or as a data URL; multipart/form-data has it as a file."""
RequestName: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]

FILE_FIELDS = ("image", "sound", "clip", "frames")
"""Fields that hold what is sent as files."""
MAX_FRAMES = 256
"""Pictures of a clip, at most."""
_OPTION_NAMES = {"kind": "search", "width": "beam"}
"""Keys of a recipe that are called otherwise here, as on a command line."""


class ModelRequest(StrictMessage):
    """What is asked of one model.

    Abstract.
    """

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True)

    model: RequestName | None = None
    """which model, by its name; not needed where one alone does this"""


class _SamplingRequest(ModelRequest):
    """Kind of search, and how tokens are sampled; abstract."""

    temperature: Annotated[float, Field(gt=0, le=MAX_FACTOR)] | None = None
    """of sampling: below 1 favours probable tokens, above 1 is more varied"""
    top_k: IntAtLeast1 | None = None
    """sample from this many most probable tokens only"""
    top_p: Probability | None = None
    """sample from the fewest tokens with this probability together"""
    min_p: Probability | None = None
    """sample only tokens at least so many times as probable as the most probable one"""
    repetition_penalty: Annotated[float, Field(gt=0, le=MAX_FACTOR)] | None = None
    """above 1 makes tokens less probable that were there before, in the prompt too"""
    no_repeat_ngram: IntAtLeast1 | None = None
    """no so many tokens follow each other twice"""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """of sampling"""

    def _to_recipe_options(self, request_type: type[_SamplingRequest], excluded: frozenset[str]) -> dict[str, Any]:
        """What was asked for, by a recipe's keys."""
        recipe_keys = {option_name: key for key, option_name in _OPTION_NAMES.items()}
        field_names = request_type.model_fields.keys() - ModelRequest.model_fields.keys() - excluded
        return {
            recipe_keys.get(name, name): value
            for name in sorted(field_names)
            if (value := getattr(self, name)) is not None
        }


class DecodingRequest(_SamplingRequest):
    """How answers are looked for, as options of `heedful translate`; what is not given comes from the recipe.

    Abstract.
    """

    search: Literal["greedy", "beam", "sampling"] | None = None
    """kind of search"""
    beam: IntAtLeast1 | None = None
    """hypotheses that grow side by side"""
    length_penalty: BoundedFactor | None = None
    """alpha of Wu et al. 2016: 0 favours short answers"""
    groups: IntAtLeast1 | None = None
    """groups that share the beam and avoid each other's tokens (diverse beam search)"""
    diversity: BoundedFactor | None = None
    """how much they avoid them"""
    coverage: BoundedFactor | None = None
    """beta of Wu et al. 2016: how much it counts that the whole source was attended to; for translation"""
    max_ratio: BoundedFactor | None = None
    """longest answer, as a multiple of the source's tokens"""
    max_extra: IntAtLeast0 | None = None
    """tokens granted on top of that"""
    min_ratio: BoundedFactor | None = None
    """shortest answer, as a multiple of the source's tokens"""
    min_length: IntAtLeast0 | None = None
    """shortest answer in tokens"""
    forbid: list[Annotated[str, Field(min_length=1)]] | None = None
    """words that are not written; one in lower case is meant in any case, one with a star at its end also where a
    longer word begins so"""
    n_best: IntAtLeast1 = 1
    """answers to each text, best first"""

    def build_config(self, recipe: GenerationConfig) -> GenerationConfig:
        """The recipe's way to search, changed by what was given; `RecipeError` where that does not fit."""
        options = self._to_recipe_options(DecodingRequest, frozenset({"seed", "n_best"}))
        config: GenerationConfig = _apply_options(recipe, GenerationConfig, options, LengthLimitedConfig)
        return config

    @property
    def changes_length(self) -> bool:
        """Whether more is said of how long answers may be than the recipe says."""
        return not self.max_ratio is self.max_extra is self.min_ratio is self.min_length is None


class ContinuationRequest(_SamplingRequest):
    """How prompts are continued, as options of `heedful generate`; what is not given comes from the recipe.

    Abstract.
    """

    search: Literal["greedy", "sampling"] | None = None
    """how tokens are chosen"""
    stop: Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=16)] | None = None
    """end before the first of these strings"""
    tokens: IntAtLeast1 | None = None
    """longest continuation"""
    stream: bool = False
    """tell the text while it is written, as server-sent events; of one prompt"""

    def build_config(self, recipe: ContinuationConfig) -> ContinuationConfig:
        """The recipe's way to write, changed by what was given; `RecipeError` where that does not fit."""
        options = self._to_recipe_options(ContinuationRequest, frozenset({"seed", "stream"}))
        config: ContinuationConfig = _apply_options(recipe, ContinuationConfig, options, ContinuationBaseConfig)
        return config


def _apply_options(recipe: Any, config: Any, options: Mapping[str, Any], common_type: type[Config]) -> Any:
    def option_name(key: str) -> str:
        return _OPTION_NAMES.get(key, key)

    return override_generation(
        recipe,
        config,
        options,
        common_class=common_type,
        format_key=option_name,
        help_hint="GET /docs lists what there is",
    )


class TranslateRequest(DecodingRequest):
    """Texts to translate, as `heedful translate` does."""

    texts: InputTexts
    """one or several"""
    source: RequestName | None = None
    """language of the texts, where several models are served and none is named"""
    to: RequestName | None = None
    """language to translate into, where there are several"""
    align: bool = False
    """tell what each token looked at (mean over heads, last decoder layer)"""
    prefix: InputText | None = None
    """how every translation must begin; its last word may be unfinished, unless a space stands behind it"""
    prefixes: list[InputText] | None = None
    """how each translation must begin, one for each text"""
    constraints: list[list[Annotated[str, Field(min_length=1)]]] | None = None
    """terms that each translation must hold, a list for each text; a beam looks for them"""
    stream: bool = False
    """tell the translation while it is found, as server-sent events; of one text"""


class TranslationPairsRequest(ModelRequest):
    """Texts and their translations."""

    pairs: Annotated[list[Annotated[list[InputText], Field(min_length=2, max_length=2)]], Field(min_length=1)]
    """source and translation of each"""
    source: RequestName | None = None
    """language of the sources, where several models are served and none is named"""
    to: RequestName | None = None
    """language of the translations, where there are several"""


class GenerateRequest(ContinuationRequest):
    """Prompts to go on with, as `heedful generate` does."""

    prompts: InputTexts
    """one or several; an empty one begins a document"""
    n_best: IntAtLeast1 = 1
    """continuations of each, which are sampled"""
    complete: bool = False
    """complete the last word of each prompt, unless a space stands behind it"""


class RequestTurn(StrictMessage):
    """What somebody says."""

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True)

    speaker: RequestName
    """one of those whose dialogues the model learned"""
    text: InputText
    """what is said"""


class DialogueRequest(ContinuationRequest):
    """A dialogue to be continued, as `heedful chat` does."""

    turns: list[RequestTurn | InputText]
    """what was said so far: by both in turn, the last by whoever asks, or with the names of speakers"""

    @field_validator("turns")
    @classmethod
    def _check_turns(cls, turns: list[RequestTurn | InputText]) -> list[RequestTurn | InputText]:
        if len({type(turn) for turn in turns}) > 1:
            raise ValueError("give all turns with a speaker, or none")
        return turns


class FillRequest(ModelRequest):
    """Texts with gaps, as `heedful fill` fills them."""

    texts: InputTexts
    """with [MASK] where a token is hidden"""
    top: Annotated[int, Field(ge=1, le=100)] = 5
    """guesses for each gap"""


class ClassifyRequest(ModelRequest):
    """Texts to be judged, as `heedful classify` does."""

    texts: InputText | Annotated[list[InputText | Annotated[list[InputText], Field(min_length=1)]], Field(min_length=1)]
    """one or several; a list is two texts that are judged together, or a text and its candidates"""


class TagRequest(ModelRequest):
    """Sentences whose words are to be tagged, as `heedful tag` does."""

    texts: InputText | Annotated[list[InputText | list[InputText]], Field(min_length=1)]
    """one or several; words have spaces between them, or are a list"""


class AnswerRequest(ModelRequest):
    """Questions that a text answers, as `heedful answer` does."""

    question: InputTexts
    """one or several"""
    context: InputText
    """the text that may answer them"""
    n_best: IntAtLeast1 = 1
    """parts of the text that are told for each question"""


class StoryQuestionRequest(ModelRequest):
    """Questions about a story, as `heedful ask` answers them."""

    story: InputText | list[InputText]
    """its sentences, or a text that has one on each line"""
    question: InputTexts
    """one or several"""


class DetectRequest(ModelRequest):
    """Texts some of whose tokens were replaced, as `heedful detect` finds them."""

    texts: InputTexts
    """one or several"""


class EmbedRequest(ModelRequest):
    """Texts of which vectors are made, as `heedful embed` does."""

    texts: InputTexts
    """one or several"""
    normalise: bool = False
    """make each vector one long, so that products are cosines"""


class SearchRequest(StrictMessage):
    """Questions to an index of passages, as `heedful search` answers them."""

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True)

    index: RequestName | None = None
    """which index, by its name; not needed where there is one"""
    query: InputTexts
    """one question, or several"""
    top: IntAtLeast1 = 10
    """passages to tell"""
    by: Literal["bm25", "encoder", "product", "all"] | None = None
    """what to order by, or all three side by side; product where the index has vectors, else bm25, if not given"""
    answers: RequestName | None = None
    """model that answers questions, whose answers are marked"""


FrameList: TypeAlias = Annotated[list[FileContent], Field(min_length=1, max_length=MAX_FRAMES)]


class CaptionRequest(DecodingRequest):
    """A picture or a clip of which to say what it shows, as `heedful caption` does: one of the three."""

    image: FileContent | None = None
    """a picture: the file in base 64, or as a data URL; multipart/form-data has it as a file of this name"""
    clip: FileContent | None = None
    """likewise a clip: a video, or whatever file the model learned from"""
    frames: FrameList | None = None
    """likewise a clip: its frames as pictures, in their order"""
    align: bool = False
    """tell where each word looked"""


class LookRequest(ModelRequest):
    """A picture whose class is told glimpse by glimpse, as `heedful look` does."""

    image: FileContent
    """the file in base 64, or as a data URL; multipart/form-data has it as a file of this name"""


class TranscribeRequest(DecodingRequest):
    """A sound of which to write what is said, as `heedful transcribe` does."""

    sound: FileContent
    """the file in base 64, or as a data URL; multipart/form-data has it as a file of this name"""


class InspectHTTPRequest(ModelRequest):
    """A text, or two, or what a model sees or hears, to see what it attends to, as `heedful inspect` does."""

    text: InputText = ""
    """what is translated, continued, judged, tagged or asked"""
    pair: InputText | None = None
    """a given translation, caption or transcript; the second of two texts; a question's context or story"""
    image: FileContent | None = None
    """of models that look at pictures: the file, as `caption` has it"""
    clip: FileContent | None = None
    """likewise of those that look at clips"""
    frames: FrameList | None = None
    """likewise"""
    sound: FileContent | None = None
    """of models that listen: the file, as `transcribe` has it"""
    to: RequestName | None = None
    """language to translate into, where there are several"""
    beam: Annotated[int, Field(ge=1, le=20)] | None = None
    """width of the search, whose tree is recorded"""
    tokens: Annotated[int, Field(ge=0, le=200)] | None = None
    """of models that write: most tokens"""
    format: Literal["record", "safetensors", "page", "link"] = "record"
    """the record as JSON (as the page reads it) or as a safetensors file in base 64; the page as HTML; or a link to the
    page, which the server keeps for a while"""


def iter_texts(value: Any) -> Iterator[str]:
    """All texts in a part of a message."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from iter_texts(item)
    elif isinstance(value, RequestTurn):
        yield value.text
