"""What our own interface answers: the records that commands write with `--format jsonl`, beside the model's name."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

RecordT = TypeVar("RecordT")


class _ResponseRecord(BaseModel):
    """Abstract; fields may come to it, and those that were left out of a record are not there."""

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)


class ModelAnswers(_ResponseRecord, Generic[RecordT]):
    """Answers in the order of what was asked."""

    model: str
    """which model answered"""
    answers: list[RecordT]
    """one for each text, unless several were asked for"""


class UnreadInputRecord(_ResponseRecord):
    """In the place of an answer."""

    error: str
    """why the text was not read, and what to do"""


class CandidateRecord(_ResponseRecord):
    """One of the texts that were found."""

    text: str
    score: float
    """what the search ranked by"""
    log_probability: float
    tokens: list[str]
    finished: bool
    """whether the text ended by itself"""


class AlignmentRecord(_ResponseRecord):
    """What each token of a translation looked at."""

    source: list[str]
    """tokens, the end included"""
    target: list[str]
    """likewise"""
    weights: list[list[float]]
    """a row for each target token"""


class TranslationRecord(_ResponseRecord):
    """As `heedful translate --format jsonl` writes it."""

    source: str
    translation: str
    candidates: list[CandidateRecord]
    confidence: float | None = None
    """how good the translation probably is, of models that learned to say it"""
    signs: list[str] = []
    """what is suspicious of the translation"""
    constraints: list[str] = []
    unmet: list[str] = []
    """constraints that it does not hold"""
    cut: int = 0
    """tokens at the end of the source that were not read"""
    parts: list[TranslationRecord] = []
    """of a source that is longer than the model reads"""
    alignment: AlignmentRecord | None = None


class _PairScoreRecord(_ResponseRecord):
    """As `heedful score --format jsonl` writes it."""

    log_probability: float
    """in nats"""
    count: int
    """tokens, the end included"""
    tokens: list[str]
    token_log_probabilities: list[float]


class _WordLinksRecord(_ResponseRecord):
    """Which words belong together."""

    links: list[list[int]]
    """numbers of a source and a target word, from 0"""
    pharaoh: str
    """as `heedful align` writes them"""


ScoreRecord = _PairScoreRecord | UnreadInputRecord
LinkRecord = _WordLinksRecord | UnreadInputRecord


class ContinuationRecord(_ResponseRecord):
    """As `heedful generate --format jsonl` writes it."""

    prompt: str
    text: str
    tokens: list[str]
    log_probability: float
    finished: bool
    """whether the document ended by itself"""
    stop: str | None = None
    """the stop string that ended it"""


class ReplyRecord(_ResponseRecord):
    """What is said next."""

    speaker: str
    text: str
    tokens: list[str]
    log_probability: float
    finished: bool


class GapGuessRecord(_ResponseRecord):
    """A token for a gap."""

    piece: str
    id: int
    probability: float


class FilledTextRecord(_ResponseRecord):
    """As `heedful fill --format jsonl` writes it."""

    text: str
    """with the most probable token in each gap"""
    gaps: list[list[GapGuessRecord]]
    cut: int = 0
    """tokens at the end that were not read"""


class _TextClassRecord(_ResponseRecord):
    """The class, or the number, of a text; as `heedful classify --format jsonl` writes it."""

    label: str | float
    probabilities: dict[str, float] = {}
    cut: int = 0


class _TextChoiceRecord(_ResponseRecord):
    """Which of several candidates is right."""

    number: int
    """from 0"""
    probabilities: list[float]
    cut: int = 0


ClassRecord = _TextClassRecord | _TextChoiceRecord


class ReplacedTokenRecord(_ResponseRecord):
    """A token, and whether it was replaced; as `heedful detect --format jsonl` writes it."""

    piece: str
    probability: float


class WordTagRecord(_ResponseRecord):
    """The tag of a word."""

    word: str
    name: str
    probability: float


class ContextSpanRecord(_ResponseRecord):
    """A part of a context."""

    text: str
    start: int
    """its first character"""
    stop: int
    """the character behind it"""
    score: float
    probability: float


class SpanAnswerRecord(_ResponseRecord):
    """As `heedful answer --format jsonl` writes it."""

    answer: str
    """empty where the context has none"""
    none: float
    """the probability of that"""
    spans: list[ContextSpanRecord]
    cut: int = 0


class StoryAnswerRecord(_ResponseRecord):
    """As `heedful ask --format jsonl` writes it."""

    question: str
    answer: str
    probability: float
    others: list[Annotated[list[str | float], Field(min_length=2, max_length=2)]]
    looked: list[int]
    """the fact that each hop looks at most, from 0"""
    weights: list[list[float]]
    """of each hop on the last facts of the story"""


class CaptionAttentionRecord(_ResponseRecord):
    """Where each word of a caption looked."""

    tokens: list[str]
    """the end included"""
    weights: list[list[list[float]]] | list[list[float]]
    """of each token: rows and columns of the picture's square, or frames"""
    frames: list[int] | None = None
    """of a clip: which of its frames were seen, from 0"""


class _CaptionBaseRecord(_ResponseRecord):
    """What was found to say."""

    caption: str
    candidates: list[CandidateRecord]
    looked: CaptionAttentionRecord | None = None


class _PictureCaptionRecord(_CaptionBaseRecord):
    """As `heedful caption --format jsonl` writes it of a picture."""

    picture: str


class _ClipCaptionRecord(_CaptionBaseRecord):
    """As `heedful caption --format jsonl` writes it of a clip."""

    clip: str


CaptionRecord = _PictureCaptionRecord | _ClipCaptionRecord


class ClassProbabilityRecord(_ResponseRecord):
    """A class that a model would name."""

    name: str
    probability: float


class GlimpseRecord(_ResponseRecord):
    """Where a model looked, and what it would say then."""

    row: float
    """of the middle, from 0 at the top to 1"""
    column: float
    """from 0 on the left to 1"""
    sizes: list[float]
    """of the patches, as shares of the picture's height"""
    options: list[ClassProbabilityRecord]
    """the most probable classes, best first"""


class PictureClassRecord(_ResponseRecord):
    """As `heedful look --format jsonl` writes it."""

    picture: str
    label: str = Field(alias="class")
    probabilities: dict[str, float]
    """of the classes, the most probable first; the mean over all looks"""
    glimpses: list[GlimpseRecord]
    """of the first look; none of a model that sees all at once"""


class TranscriptRecord(_ResponseRecord):
    """As `heedful transcribe --format jsonl` writes it."""

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
    """As `heedful search --format jsonl` writes it."""

    query: str
    orders: dict[str, list[PassageRecord]]


class SearchAnswers(_ResponseRecord):
    """What an index holds about each question."""

    index: str
    answers: list[QueryResultRecord]


class InspectionResponse(_ResponseRecord):
    """What a model attends to."""

    model: str
    format: Literal["record", "safetensors", "link"]
    record: dict[str, object] | str | None = None
    """JSON, or a file in base 64"""
    page: str | None = None
    """path of the page on this server"""
    seconds: float | None = None
    """for which it is kept"""


class ServedModelInfo(_ResponseRecord):
    """A model, and what may be asked of it."""

    name: str
    does: list[str]
    """paths behind /v1/heedful/"""
    ways: list[Annotated[list[str | None], Field(min_length=2, max_length=2)]] = []
    """languages that it reads and writes, where that is known"""
    languages: dict[str, str] = {}
    """what these are called"""
    takes: Literal["text", "pair", "candidates", "picture", "clip", "sound"] = "text"
    """what it is asked about"""


class ServerInfo(_ResponseRecord):
    """What is served, and within which limits."""

    models: list[ServedModelInfo]
    indices: list[str]
    orders: dict[str, list[str]] = {}
    """by which each index orders passages"""
    limits: dict[str, int]
