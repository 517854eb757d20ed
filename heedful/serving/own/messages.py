"""What may be asked of our own interface: a table for each thing that models do, with the options of its command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field, field_validator

from heedful.recipes.changed import changed
from heedful.recipes.generation import ContinuationConfig, Continuing, GenerationConfig, Limited
from heedful.recipes.section import Section
from heedful.serving.routes import LARGEST, MOST, Message

Text: TypeAlias = str
Texts: TypeAlias = Text | Annotated[list[Text], Field(min_length=1)]
Least1: TypeAlias = Annotated[int, Field(ge=1, le=MOST)]
Least0: TypeAlias = Annotated[int, Field(ge=0, le=MOST)]
Factor: TypeAlias = Annotated[float, Field(ge=0, le=LARGEST)]
Share: TypeAlias = Annotated[float, Field(gt=0, le=1)]
Sent: TypeAlias = str | bytes
"""The file in base 64, or as a data URL; multipart/form-data has it as a file."""
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]

FILES = ("image", "sound", "clip", "frames")
"""Fields that hold what is sent as files."""
FRAMES = 256
"""Pictures of a clip, at most."""
_KEYS = {"kind": "search", "width": "beam"}
"""Keys of a recipe that are called otherwise here, as on a command line."""


class Own(Message):
    """What is asked of one model.

    Abstract.
    """

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True)

    model: Name | None = None
    """which model, by its name; not needed where one alone does this"""


class _Options(Own):
    """Kind of search, and how tokens are sampled; abstract."""

    temperature: Annotated[float, Field(gt=0, le=LARGEST)] | None = None
    """of sampling: below 1 favours probable tokens, above 1 is more varied"""
    top_k: Least1 | None = None
    """sample from this many most probable tokens only"""
    top_p: Share | None = None
    """sample from the fewest tokens with this probability together"""
    min_p: Share | None = None
    """sample only tokens at least so many times as probable as the most probable one"""
    repetition_penalty: Annotated[float, Field(gt=0, le=LARGEST)] | None = None
    """above 1 makes tokens less probable that were there before, in the prompt too"""
    no_repeat_ngram: Least1 | None = None
    """no so many tokens follow each other twice"""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """of sampling"""

    def _given(self, options: type[_Options], others: frozenset[str]) -> dict[str, Any]:
        """What was asked for, by a recipe's keys."""
        names = {ours: key for key, ours in _KEYS.items()}
        wanted = options.model_fields.keys() - Own.model_fields.keys() - others
        return {names.get(name, name): value for name in sorted(wanted) if (value := getattr(self, name)) is not None}


class Searching(_Options):
    """How answers are looked for, as options of `heedful translate`; what is not given comes from the recipe.

    Abstract.
    """

    search: Literal["greedy", "beam", "sampling"] | None = None
    """kind of search"""
    beam: Least1 | None = None
    """hypotheses that grow side by side"""
    length_penalty: Factor | None = None
    """alpha of Wu et al. 2016: 0 favours short answers"""
    groups: Least1 | None = None
    """groups that share the beam and avoid each other's tokens (diverse beam search)"""
    diversity: Factor | None = None
    """how much they avoid them"""
    coverage: Factor | None = None
    """beta of Wu et al. 2016: how much it counts that the whole source was attended to; for translation"""
    max_ratio: Factor | None = None
    """longest answer, as a multiple of the source's tokens"""
    max_extra: Least0 | None = None
    """tokens granted on top of that"""
    min_ratio: Factor | None = None
    """shortest answer, as a multiple of the source's tokens"""
    min_length: Least0 | None = None
    """shortest answer in tokens"""
    forbid: list[Annotated[str, Field(min_length=1)]] | None = None
    """words that are not written; one in lower case is meant in any case, one with a star at its end also where a
    longer word begins so"""
    n_best: Least1 = 1
    """answers to each text, best first"""

    def config(self, recipe: GenerationConfig) -> GenerationConfig:
        """The recipe's way to search, changed by what was given; `RecipeError` where that does not fit."""
        given = self._given(Searching, frozenset({"seed", "n_best"}))
        found: GenerationConfig = _changed(recipe, GenerationConfig, given, Limited)
        return found

    @property
    def lengthened(self) -> bool:
        """Whether more is said of how long answers may be than the recipe says."""
        return not self.max_ratio is self.max_extra is self.min_ratio is self.min_length is None


class Writing(_Options):
    """How prompts are continued, as options of `heedful generate`; what is not given comes from the recipe.

    Abstract.
    """

    search: Literal["greedy", "sampling"] | None = None
    """how tokens are chosen"""
    stop: Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=16)] | None = None
    """end before the first of these strings"""
    tokens: Least1 | None = None
    """longest continuation"""
    stream: bool = False
    """tell the text while it is written, as server-sent events; of one prompt"""

    def config(self, recipe: ContinuationConfig) -> ContinuationConfig:
        """The recipe's way to write, changed by what was given; `RecipeError` where that does not fit."""
        given = self._given(Writing, frozenset({"seed", "stream"}))
        found: ContinuationConfig = _changed(recipe, ContinuationConfig, given, Continuing)
        return found


def _changed(recipe: Any, config: Any, given: Mapping[str, Any], common: type[Section]) -> Any:
    def called(key: str) -> str:
        return _KEYS.get(key, key)

    return changed(recipe, config, given, common=common, called=called, listed="GET /docs lists what there is")


class Translate(Searching):
    """Texts to translate, as `heedful translate` does."""

    texts: Texts
    """one or several"""
    source: Name | None = None
    """language of the texts, where several models are served and none is named"""
    to: Name | None = None
    """language to translate into, where there are several"""
    align: bool = False
    """tell what each token looked at (mean over heads, last decoder layer)"""
    prefix: Text | None = None
    """how every translation must begin; its last word may be unfinished, unless a space stands behind it"""
    prefixes: list[Text] | None = None
    """how each translation must begin, one for each text"""
    constraints: list[list[Annotated[str, Field(min_length=1)]]] | None = None
    """terms that each translation must hold, a list for each text; a beam looks for them"""
    stream: bool = False
    """tell the translation while it is found, as server-sent events; of one text"""


class Pairs(Own):
    """Texts and their translations."""

    pairs: Annotated[list[Annotated[list[Text], Field(min_length=2, max_length=2)]], Field(min_length=1)]
    """source and translation of each"""
    source: Name | None = None
    """language of the sources, where several models are served and none is named"""
    to: Name | None = None
    """language of the translations, where there are several"""


class Generate(Writing):
    """Prompts to go on with, as `heedful generate` does."""

    prompts: Texts
    """one or several; an empty one begins a document"""
    n_best: Least1 = 1
    """continuations of each, which are sampled"""
    complete: bool = False
    """complete the last word of each prompt, unless a space stands behind it"""


class Turn(Message):
    """What somebody says."""

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True)

    speaker: Name
    """one of those whose dialogues the model learned"""
    text: Text
    """what is said"""


class Chat(Writing):
    """A dialogue to be continued, as `heedful chat` does."""

    turns: list[Turn | Text]
    """what was said so far: by both in turn, the last by whoever asks, or with the names of speakers"""

    @field_validator("turns")
    @classmethod
    def _alike(cls, turns: list[Turn | Text]) -> list[Turn | Text]:
        if len({type(turn) for turn in turns}) > 1:
            raise ValueError("give all turns with a speaker, or none")
        return turns


class Fill(Own):
    """Texts with gaps, as `heedful fill` fills them."""

    texts: Texts
    """with [MASK] where a token is hidden"""
    top: Annotated[int, Field(ge=1, le=100)] = 5
    """guesses for each gap"""


class Classify(Own):
    """Texts to be judged, as `heedful classify` does."""

    texts: Text | Annotated[list[Text | Annotated[list[Text], Field(min_length=1)]], Field(min_length=1)]
    """one or several; a list is two texts that are judged together, or a text and its candidates"""


class Tag(Own):
    """Sentences whose words are to be tagged, as `heedful tag` does."""

    texts: Text | Annotated[list[Text | list[Text]], Field(min_length=1)]
    """one or several; words have spaces between them, or are a list"""


class Answer(Own):
    """Questions that a text answers, as `heedful answer` does."""

    question: Texts
    """one or several"""
    context: Text
    """the text that may answer them"""
    n_best: Least1 = 1
    """parts of the text that are told for each question"""


class Ask(Own):
    """Questions about a story, as `heedful ask` answers them."""

    story: Text | list[Text]
    """its sentences, or a text that has one on each line"""
    question: Texts
    """one or several"""


class Detect(Own):
    """Texts some of whose tokens were replaced, as `heedful detect` finds them."""

    texts: Texts
    """one or several"""


class Embed(Own):
    """Texts of which vectors are made, as `heedful embed` does."""

    texts: Texts
    """one or several"""
    normalise: bool = False
    """make each vector one long, so that products are cosines"""


class Search(Message):
    """Questions to an index of passages, as `heedful search` answers them."""

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True)

    index: Name | None = None
    """which index, by its name; not needed where there is one"""
    query: Texts
    """one question, or several"""
    top: Least1 = 10
    """passages to tell"""
    by: Literal["bm25", "encoder", "product", "all"] | None = None
    """what to order by, or all three side by side; product where the index has vectors, else bm25, if not given"""
    answers: Name | None = None
    """model that answers questions, whose answers are marked"""


Frames: TypeAlias = Annotated[list[Sent], Field(min_length=1, max_length=FRAMES)]


class Caption(Searching):
    """A picture or a clip of which to say what it shows, as `heedful caption` does: one of the three."""

    image: Sent | None = None
    """a picture: the file in base 64, or as a data URL; multipart/form-data has it as a file of this name"""
    clip: Sent | None = None
    """likewise a clip: a video, or whatever file the model learned from"""
    frames: Frames | None = None
    """likewise a clip: its frames as pictures, in their order"""
    align: bool = False
    """tell where each word looked"""


class Look(Own):
    """A picture whose class is told glimpse by glimpse, as `heedful look` does."""

    image: Sent
    """the file in base 64, or as a data URL; multipart/form-data has it as a file of this name"""


class Transcribe(Searching):
    """A sound of which to write what is said, as `heedful transcribe` does."""

    sound: Sent
    """the file in base 64, or as a data URL; multipart/form-data has it as a file of this name"""


class Inspect(Own):
    """A text, or two, or what a model sees or hears, to see what it attends to, as `heedful inspect` does."""

    text: Text = ""
    """what is translated, continued, judged, tagged or asked"""
    pair: Text | None = None
    """a given translation, caption or transcript; the second of two texts; a question's context or story"""
    image: Sent | None = None
    """of models that look at pictures: the file, as `caption` has it"""
    clip: Sent | None = None
    """likewise of those that look at clips"""
    frames: Frames | None = None
    """likewise"""
    sound: Sent | None = None
    """of models that listen: the file, as `transcribe` has it"""
    to: Name | None = None
    """language to translate into, where there are several"""
    beam: Annotated[int, Field(ge=1, le=20)] | None = None
    """width of the search, whose tree is recorded"""
    tokens: Annotated[int, Field(ge=0, le=200)] | None = None
    """of models that write: most tokens"""
    format: Literal["record", "safetensors", "page", "link"] = "record"
    """the record as JSON (as the page reads it) or as a safetensors file in base 64; the page as HTML; or a link to the
    page, which the server keeps for a while"""


def words_of(value: Any) -> Iterator[str]:
    """All texts in a part of a message."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from words_of(each)
    elif isinstance(value, Turn):
        yield value.text
