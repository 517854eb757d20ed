"""Response messages: the records that commands write with `--format jsonl`, and the name of the model."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

RecordT = TypeVar("RecordT")


class _ResponseRecord(BaseModel):
    """Base of response records.

    Unknown fields are allowed, since records may gain fields; fields that a record leaves out are absent. Abstract.
    """

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)


class ModelAnswers(_ResponseRecord, Generic[RecordT]):
    """Answers of a model, in the order of the inputs."""

    model: str
    """name of the model that answered"""
    answers: list[RecordT]
    """one answer for each text, unless several were requested"""


class UnreadInputRecord(_ResponseRecord):
    """An error in place of an answer."""

    error: str
    """why the text could not be read, and what to do"""


class CandidateRecord(_ResponseRecord):
    """One of the texts that a search found."""

    text: str
    score: float
    """score by which the search ranked the text"""
    log_probability: float
    tokens: list[str]
    finished: bool
    """whether the text ended by itself"""


class AlignmentRecord(_ResponseRecord):
    """Attention weights of the tokens of a translation."""

    source: list[str]
    """tokens, the end included"""
    target: list[str]
    """likewise"""
    weights: list[list[float]]
    """a row for each target token"""


class TranslationRecord(_ResponseRecord):
    """A translation, as `heedful translate --format jsonl` writes it."""

    source: str
    translation: str
    candidates: list[CandidateRecord]
    confidence: float | None = None
    """estimated quality of the translation, from models that were trained to predict it"""
    signs: list[str] = []
    """suspicious properties of the translation"""
    constraints: list[str] = []
    unmet: list[str] = []
    """constraints that the translation does not contain"""
    cut: int = 0
    """number of tokens at the end of the source that were not read"""
    parts: list[TranslationRecord] = []
    """records of the parts of a source that is too long for the model"""
    alignment: AlignmentRecord | None = None


class _PairScoreRecord(_ResponseRecord):
    """Log-probability of a translation, as `heedful score --format jsonl` writes it."""

    log_probability: float
    """in nats"""
    count: int
    """tokens, the end included"""
    tokens: list[str]
    token_log_probabilities: list[float]


class _WordLinksRecord(_ResponseRecord):
    """Links between the words of a source and its translation."""

    links: list[list[int]]
    """numbers of a source and a target word, from 0"""
    pharaoh: str
    """as `heedful align` writes them"""


ScoreRecord = _PairScoreRecord | UnreadInputRecord
LinkRecord = _WordLinksRecord | UnreadInputRecord


class ContinuationRecord(_ResponseRecord):
    """A continuation, as `heedful generate --format jsonl` writes it."""

    prompt: str
    text: str
    tokens: list[str]
    log_probability: float
    finished: bool
    """whether the document ended by itself"""
    stop: str | None = None
    """the stop string that ended it"""


class ReplyRecord(_ResponseRecord):
    """The next turn of a dialogue."""

    speaker: str
    text: str
    tokens: list[str]
    log_probability: float
    finished: bool


class GapGuessRecord(_ResponseRecord):
    """A possible token for a gap."""

    piece: str
    id: int
    probability: float


class FilledTextRecord(_ResponseRecord):
    """A text with filled gaps, as `heedful fill --format jsonl` writes it."""

    text: str
    """with the most probable token in each gap"""
    gaps: list[list[GapGuessRecord]]
    cut: int = 0
    """number of tokens at the end that were not read"""


class _TextClassRecord(_ResponseRecord):
    """The class or number of a text, as `heedful classify --format jsonl` writes it."""

    label: str | float
    probabilities: dict[str, float] = {}
    cut: int = 0


class _TextChoiceRecord(_ResponseRecord):
    """The chosen one of several candidates."""

    number: int
    """from 0"""
    probabilities: list[float]
    cut: int = 0


ClassRecord = _TextClassRecord | _TextChoiceRecord


class ReplacedTokenRecord(_ResponseRecord):
    """A token, and the probability that it was replaced, as `heedful detect --format jsonl` writes it."""

    piece: str
    probability: float


class WordTagRecord(_ResponseRecord):
    """The tag of a word."""

    word: str
    name: str
    probability: float


class ContextSpanRecord(_ResponseRecord):
    """A part of a context that may be the answer."""

    text: str
    start: int
    """its first character"""
    stop: int
    """the character behind it"""
    score: float
    probability: float


class SpanAnswerRecord(_ResponseRecord):
    """The answer in a context, as `heedful answer --format jsonl` writes it."""

    answer: str
    """empty where the context has none"""
    none: float
    """probability that the context has no answer"""
    spans: list[ContextSpanRecord]
    cut: int = 0


class StoryAnswerRecord(_ResponseRecord):
    """The answer to a question about a story, as `heedful ask --format jsonl` writes it."""

    question: str
    answer: str
    probability: float
    others: list[Annotated[list[str | float], Field(min_length=2, max_length=2)]]
    looked: list[int]
    """the fact that each hop looks at most, from 0"""
    weights: list[list[float]]
    """of each hop on the last facts of the story"""


class CaptionAttentionRecord(_ResponseRecord):
    """Attention weights of the words of a caption."""

    tokens: list[str]
    """the end included"""
    weights: list[list[list[float]]] | list[list[float]]
    """of each token: rows and columns of the picture's square, or frames"""
    frames: list[int] | None = None
    """indices of the frames of a clip that the model saw, from 0"""


class _CaptionBaseRecord(_ResponseRecord):
    """A caption with the candidates of the search."""

    caption: str
    candidates: list[CandidateRecord]
    looked: CaptionAttentionRecord | None = None


class _PictureCaptionRecord(_CaptionBaseRecord):
    """The caption of a picture, as `heedful caption --format jsonl` writes it."""

    picture: str


class _ClipCaptionRecord(_CaptionBaseRecord):
    """The caption of a clip, as `heedful caption --format jsonl` writes it."""

    clip: str


CaptionRecord = _PictureCaptionRecord | _ClipCaptionRecord


class ClassProbabilityRecord(_ResponseRecord):
    """A class with its probability."""

    name: str
    probability: float


class GlimpseRecord(_ResponseRecord):
    """Position of a glimpse, and the classes that are most probable after it."""

    row: float
    """vertical position of the centre, from 0 at the top to 1"""
    column: float
    """horizontal position of the centre, from 0 on the left to 1"""
    sizes: list[float]
    """sizes of the patches, as fractions of the picture's height"""
    options: list[ClassProbabilityRecord]
    """the most probable classes, best first"""


class PictureClassRecord(_ResponseRecord):
    """The class of a picture, as `heedful look --format jsonl` writes it."""

    picture: str
    label: str = Field(alias="class")
    probabilities: dict[str, float]
    """probabilities of the classes, the most probable first; the mean over all runs"""
    glimpses: list[GlimpseRecord]
    """glimpses of the first run; empty for a model that sees the whole picture at once"""


class TranscriptRecord(_ResponseRecord):
    """The transcript of a sound, as `heedful transcribe --format jsonl` writes it."""

    sound: str
    seconds: float
    text: str
    candidates: list[CandidateRecord]


class PassageRecord(_ResponseRecord):
    """A passage that was found."""

    rank: int
    id: str
    title: str
    text: str
    score: float
    bm25: float
    cosine: float | None
    marks: list[list[int]]
    """where the text is marked: first character and the one behind"""
    answer: str | None = None
    probability: float | None = None


class QueryResultRecord(_ResponseRecord):
    """The passages found for a query, as `heedful search --format jsonl` writes them."""

    query: str
    orders: dict[str, list[PassageRecord]]


class SearchAnswers(_ResponseRecord):
    """The passages that an index returns for each query."""

    index: str
    answers: list[QueryResultRecord]


class InspectionResponse(_ResponseRecord):
    """The recorded attention of a model, as a record, a file or a link to a page."""

    model: str
    format: Literal["record", "safetensors", "link"]
    record: dict[str, object] | str | None = None
    """the record as JSON, or a file in base64"""
    page: str | None = None
    """path of the page on this server"""
    seconds: float | None = None
    """seconds for which the page is stored"""


class ServedModelInfo(_ResponseRecord):
    """A served model, and what can be requested of it."""

    name: str
    does: list[str]
    """paths behind /v1/heedful/ that the model supports"""
    ways: list[Annotated[list[str | None], Field(min_length=2, max_length=2)]] = []
    """pairs of source and target languages, as far as they are known"""
    languages: dict[str, str] = {}
    """names of these languages"""
    takes: Literal["text", "pair", "candidates", "picture", "clip", "sound"] = "text"
    """kind of input"""


class ServerInfo(_ResponseRecord):
    """The served models and indices, and the server's limits."""

    models: list[ServedModelInfo]
    indices: list[str]
    orders: dict[str, list[str]] = {}
    """orderings of passages that each index supports"""
    limits: dict[str, int]
