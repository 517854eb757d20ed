"""Response messages: the name of the model with the records of its answers, which predictors build too."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field

from heedful.tasks.records import AnswerRecord, CandidateRecord

RecordT = TypeVar("RecordT")


class ModelAnswers(AnswerRecord, Generic[RecordT]):
    """Answers of a model, in the order of the inputs."""

    model: str
    """name of the model that answered"""
    answers: list[RecordT]
    """one answer for each text, unless several were requested"""


class UnreadInputRecord(AnswerRecord):
    """An error in place of an answer."""

    error: str
    """why the text could not be read, and what to do"""


class _WordLinksRecord(AnswerRecord):
    """Links between the words of a source and its translation."""

    links: list[list[int]]
    """numbers of a source and a target word, from 0"""
    pharaoh: str
    """as `heedful align` writes them"""


LinkRecord = _WordLinksRecord | UnreadInputRecord


class ContinuationRecord(AnswerRecord):
    """A continuation, as `heedful generate --format jsonl` writes it."""

    prompt: str
    text: str
    tokens: list[str]
    log_probability: float
    finished: bool
    """whether the document ended by itself"""
    stop: str | None = None
    """the stop string that ended it"""


class CaptionAttentionRecord(AnswerRecord):
    """Attention weights of the words of a caption."""

    tokens: list[str]
    """the end included"""
    weights: list[list[list[float]]] | list[list[float]]
    """of each token: rows and columns of the picture's square, or frames"""
    frames: list[int] | None = None
    """indices of the frames of a clip that the model saw, from 0"""


class _CaptionBaseRecord(AnswerRecord):
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


class ClassProbabilityRecord(AnswerRecord):
    """A class with its probability."""

    name: str
    probability: float


class GlimpseRecord(AnswerRecord):
    """Position of a glimpse, and the classes that are most probable after it."""

    row: float
    """vertical position of the centre, from 0 at the top to 1"""
    column: float
    """horizontal position of the centre, from 0 on the left to 1"""
    sizes: list[float]
    """sizes of the patches, as fractions of the picture's height"""
    options: list[ClassProbabilityRecord]
    """the most probable classes, best first"""


class PictureClassRecord(AnswerRecord):
    """The class of a picture, as `heedful look --format jsonl` writes it."""

    picture: str
    label: str = Field(alias="class")
    probabilities: dict[str, float]
    """probabilities of the classes, the most probable first; the mean over all runs"""
    glimpses: list[GlimpseRecord]
    """glimpses of the first run; empty for a model that sees the whole picture at once"""


class PassageRecord(AnswerRecord):
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


class QueryResultRecord(AnswerRecord):
    """The passages found for a query, as `heedful search --format jsonl` writes them."""

    query: str
    orders: dict[str, list[PassageRecord]]


class SearchAnswers(AnswerRecord):
    """The passages that an index returns for each query."""

    index: str
    answers: list[QueryResultRecord]


class InspectionResponse(AnswerRecord):
    """The recorded attention of a model, as a record, a file or a link to a page."""

    model: str
    format: Literal["record", "safetensors", "link"]
    record: dict[str, object] | str | None = None
    """the record as JSON, or a file in base64"""
    page: str | None = None
    """path of the page on this server"""
    seconds: float | None = None
    """seconds for which the page is stored"""


class ServedModelInfo(AnswerRecord):
    """A served model, and what can be requested of it."""

    name: str
    does: list[str]
    """paths behind /v1/heedful/ that the model supports"""
    ways: list[Annotated[list[str | None], Field(min_length=2, max_length=2)]] = Field(default_factory=list)
    """pairs of source and target languages, as far as they are known"""
    languages: dict[str, str] = Field(default_factory=dict)
    """names of these languages"""
    takes: Literal["text", "pair", "candidates", "picture", "clip", "sound"] = "text"
    """kind of input"""


class ServerInfo(AnswerRecord):
    """The served models and indices, and the server's limits."""

    models: list[ServedModelInfo]
    indices: list[str]
    orders: dict[str, list[str]] = Field(default_factory=dict)
    """orderings of passages that each index supports"""
    limits: dict[str, int]
