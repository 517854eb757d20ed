"""What our own interface answers: the records that commands write with `--format jsonl`, beside the model's name."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

Record = TypeVar("Record")


class _Record(BaseModel):
    """Abstract; fields may come to it, and those that were left out of a record are not there."""

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)


class Answers(_Record, Generic[Record]):
    """Answers in the order of what was asked."""

    model: str
    """which model answered"""
    answers: list[Record]
    """one for each text, unless several were asked for"""


class UnreadRecord(_Record):
    """In the place of an answer."""

    error: str
    """why the text was not read, and what to do"""


class Candidate(_Record):
    """One of the texts that were found."""

    text: str
    score: float
    """what the search ranked by"""
    log_probability: float
    tokens: list[str]
    finished: bool
    """whether the text ended by itself"""


class Alignment(_Record):
    """What each token of a translation looked at."""

    source: list[str]
    """tokens, the end included"""
    target: list[str]
    """likewise"""
    weights: list[list[float]]
    """a row for each target token"""


class TranslationRecord(_Record):
    """As `heedful translate --format jsonl` writes it."""

    source: str
    translation: str
    candidates: list[Candidate]
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
    alignment: Alignment | None = None


class _Score(_Record):
    """As `heedful score --format jsonl` writes it."""

    log_probability: float
    """in nats"""
    count: int
    """tokens, the end included"""
    tokens: list[str]
    token_log_probabilities: list[float]


class _Links(_Record):
    """Which words belong together."""

    links: list[list[int]]
    """numbers of a source and a target word, from 0"""
    pharaoh: str
    """as `heedful align` writes them"""


ScoreRecord = _Score | UnreadRecord
LinkRecord = _Links | UnreadRecord


class ContinuationRecord(_Record):
    """As `heedful generate --format jsonl` writes it."""

    prompt: str
    text: str
    tokens: list[str]
    log_probability: float
    finished: bool
    """whether the document ended by itself"""
    stop: str | None = None
    """the stop string that ended it"""


class ReplyRecord(_Record):
    """What is said next."""

    speaker: str
    text: str
    tokens: list[str]
    log_probability: float
    finished: bool


class Guess(_Record):
    """A token for a gap."""

    piece: str
    id: int
    probability: float


class FilledRecord(_Record):
    """As `heedful fill --format jsonl` writes it."""

    text: str
    """with the most probable token in each gap"""
    gaps: list[list[Guess]]
    cut: int = 0
    """tokens at the end that were not read"""


class _Class(_Record):
    """The class, or the number, of a text; as `heedful classify --format jsonl` writes it."""

    label: str | float
    probabilities: dict[str, float] = {}
    cut: int = 0


class _Choice(_Record):
    """Which of several candidates is right."""

    number: int
    """from 0"""
    probabilities: list[float]
    cut: int = 0


ClassRecord = _Class | _Choice


class SuspicionRecord(_Record):
    """A token, and whether it was replaced; as `heedful detect --format jsonl` writes it."""

    piece: str
    probability: float


class TagRecord(_Record):
    """The tag of a word."""

    word: str
    name: str
    probability: float


class Span(_Record):
    """A part of a context."""

    text: str
    start: int
    """its first character"""
    stop: int
    """the character behind it"""
    score: float
    probability: float


class AnswerRecord(_Record):
    """As `heedful answer --format jsonl` writes it."""

    answer: str
    """empty where the context has none"""
    none: float
    """the probability of that"""
    spans: list[Span]
    cut: int = 0


class StoryRecord(_Record):
    """As `heedful ask --format jsonl` writes it."""

    question: str
    answer: str
    probability: float
    others: list[Annotated[list[str | float], Field(min_length=2, max_length=2)]]
    looked: list[int]
    """the fact that each hop looks at most, from 0"""
    weights: list[list[float]]
    """of each hop on the last facts of the story"""


class Looked(_Record):
    """Where each word of a caption looked."""

    tokens: list[str]
    """the end included"""
    weights: list[list[list[float]]] | list[list[float]]
    """of each token: rows and columns of the picture's square, or frames"""
    frames: list[int] | None = None
    """of a clip: which of its frames were seen, from 0"""


class _Caption(_Record):
    """What was found to say."""

    caption: str
    candidates: list[Candidate]
    looked: Looked | None = None


class _Picture(_Caption):
    """As `heedful caption --format jsonl` writes it of a picture."""

    picture: str


class _Clip(_Caption):
    """As `heedful caption --format jsonl` writes it of a clip."""

    clip: str


CaptionRecord = _Picture | _Clip


class Said(_Record):
    """A class that a model would name."""

    name: str
    probability: float


class Glimpse(_Record):
    """Where a model looked, and what it would say then."""

    row: float
    """of the middle, from 0 at the top to 1"""
    column: float
    """from 0 on the left to 1"""
    sizes: list[float]
    """of the patches, as shares of the picture's height"""
    options: list[Said]
    """the most probable classes, best first"""


class SightRecord(_Record):
    """As `heedful look --format jsonl` writes it."""

    picture: str
    label: str = Field(alias="class")
    probabilities: dict[str, float]
    """of the classes, the most probable first; the mean over all looks"""
    glimpses: list[Glimpse]
    """of the first look; none of a model that sees all at once"""


class SpeechRecord(_Record):
    """As `heedful transcribe --format jsonl` writes it."""

    sound: str
    seconds: float
    text: str
    candidates: list[Candidate]


class Passage(_Record):
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


class FoundRecord(_Record):
    """As `heedful search --format jsonl` writes it."""

    query: str
    orders: dict[str, list[Passage]]


class Found(_Record):
    """What an index holds about each question."""

    index: str
    answers: list[FoundRecord]


class Inspected(_Record):
    """What a model attends to."""

    model: str
    format: Literal["record", "safetensors", "link"]
    record: dict[str, object] | str | None = None
    """JSON, or a file in base 64"""
    page: str | None = None
    """path of the page on this server"""
    seconds: float | None = None
    """for which it is kept"""


class ServedModel(_Record):
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


class Served(_Record):
    """What is served, and within which limits."""

    models: list[ServedModel]
    indices: list[str]
    orders: dict[str, list[str]] = {}
    """by which each index orders passages"""
    limits: dict[str, int]
