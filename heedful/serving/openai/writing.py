"""How a text is written, in the words of OpenAI's interface."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from heedful.data.tokenizers import Special
from heedful.generation.frequencies import CountPenalty, LogitBias
from heedful.generation.penalties import Penalty
from heedful.generation.search import Greedy, Sampling
from heedful.recipes.changed import changed
from heedful.recipes.generation import ContinuationConfig, Continuing
from heedful.serving.refusal import wrong
from heedful.serving.routes import LARGEST, MOST, Asked, Open
from heedful.serving.settings import Limits
from heedful.tasks.searches import build_continuation

_COLDEST: Final = 0.01
"""Temperatures between 0 and this one are too small to divide by."""
_MOST_STOPS: Final = 64
_STREAMS: Final = 2**40
"""Sources of chance, of which each request without a seed has its own."""


def _absent(value: Any) -> Any:
    if value:
        raise PydanticCustomError("not_done", "is not done here; leave it out")
    return value


Absent: TypeAlias = Annotated[Any, AfterValidator(_absent)]
"""Something of the protocol that would change an answer and that nobody here can do."""


class Strict(Open):
    """A message of OpenAI's protocol: strict, and null is what is not given.

    Abstract.
    """

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True)


class StreamOptions(Strict):
    """What a stream tells."""

    include_usage: bool | None = None
    """how many tokens were read and written, in a last event"""


class Writing(Strict):
    """How a text is written; what is not given is the model's own way, as its recipe says.

    Abstract.
    """

    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """name of a model that is served, see /v1/models; not needed where one alone does this"""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """0 takes the most probable token each time; below 1 favours probable tokens, above 1 is more varied"""
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """draw from the fewest tokens that together have this probability; 0 takes the most probable token each time"""
    top_k: Annotated[int, Field(ge=1, le=MOST)] | None = None
    """draw from this many most probable tokens only (not of OpenAI's)"""
    min_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """draw only tokens at least so many times as probable as the most probable one (not of OpenAI's)"""
    repetition_penalty: Annotated[float, Field(gt=0, le=LARGEST)] | None = None
    """above 1 makes tokens less probable that were there before, in the prompt too (not of OpenAI's)"""
    no_repeat_ngram: Annotated[int, Field(ge=1, le=MOST)] | None = None
    """no so many tokens follow each other twice (not of OpenAI's)"""
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    """taken off the logit of each token that was written before"""
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    """taken off for each time that it was written"""
    logit_bias: Annotated[dict[str, Annotated[float, Field(ge=-100, le=100)]], Field(max_length=1000)] | None = None
    """added to the logits of tokens, by their ids"""
    stop: str | list[str] | None = None
    """one string or several before which the text ends; the model's own unless given"""
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    """the same seed gives the same text; without one each request has its own chance"""
    stream: bool | None = None
    """send the text while it is written, as server-sent events"""
    stream_options: StreamOptions | None = None
    """of such a stream"""

    @field_validator("temperature")
    @classmethod
    def _divides(cls, temperature: float | None) -> float | None:
        if temperature is not None and 0 < temperature < _COLDEST:
            raise PydanticCustomError("too_cold", "must be 0, or at least 0.01")
        return temperature

    @field_validator("stop", mode="before")
    @classmethod
    def _ends(cls, stop: Any) -> Any:
        several = isinstance(stop, list) and all(isinstance(each, str) for each in stop)
        if not (stop is None or isinstance(stop, str) or several):
            raise PydanticCustomError("stop", "must be a string, or a list of strings")
        if several and len(stop) > _MOST_STOPS:
            raise PydanticCustomError("stop", "holds more than {most} strings", {"most": _MOST_STOPS})
        if stop == "" or (several and "" in stop):
            raise PydanticCustomError("stop", "an empty string would end every text at once; leave it out")
        return stop

    @field_validator("logit_bias")
    @classmethod
    def _ids(cls, bias: dict[str, float] | None) -> dict[str, float] | None:
        for name in bias or ():
            if not (name.isascii() and name.isdigit() and len(name) < 10):
                raise PydanticCustomError("logit_bias", "{name} is no id of a token", {"name": repr(name[:40])})
        return bias

    @property
    def stops(self) -> tuple[str, ...] | None:
        """Strings that end the text; None for the model's own."""
        return None if self.stop is None else (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def tells_usage(self) -> bool:
        """Whether a stream ends with the numbers of tokens."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)


@dataclass(frozen=True)
class Way:
    """How a model writes what a request asks for.

    Attributes:
        search: for tokens.
        limit: most tokens of a text.
        stop: strings that end it; None for the model's own.
        first: number of the first text, which decides its chance.
    """

    search: Greedy | Sampling
    limit: int
    stop: tuple[str, ...] | None
    first: int


def way_of(
    message: Writing,
    generation: ContinuationConfig,
    *,
    special: Special,
    size: int,
    tokens: int | None,
    first: int,
    n: int = 1,
) -> Way:
    """The model's own way to write, changed by what is asked for, as the options of `heedful generate` change it.

    Args:
        message: what is asked for.
        generation: the model's own way.
        special: ids of its vocabulary that stand for no text.
        size: ids of its vocabulary.
        tokens: most of a text, if the request says it.
        first: number of the first text where there is a seed.
        n: texts of each prompt.
    """
    given: dict[str, Any] = {
        "repetition_penalty": message.repetition_penalty,
        "no_repeat_ngram": message.no_repeat_ngram,
    }
    if message.temperature == 0 or message.top_p == 0:
        given["kind"] = "greedy"
    else:
        given |= {name: getattr(message, name) for name in ("temperature", "top_p", "top_k", "min_p")}
    given = {name: value for name, value in given.items() if value is not None}
    config = changed(
        generation, ContinuationConfig, given, common=Continuing, called=str, listed="see the list of what may be asked"
    )
    if n > 1 and config.kind == "greedy":
        raise wrong(
            "n: the most probable token each time makes one text; give a temperature and a top_p above 0", param="n"
        )
    search, limit = build_continuation(config, special, n=n, seed=1 if message.seed is None else message.seed)
    assert isinstance(search, Greedy | Sampling), "continuations are not searched for with a beam"
    number = secrets.randbelow(_STREAMS) if message.seed is None else first
    own = tuple(_penalties(message, size))
    return Way(replace(search, penalties=(*search.penalties, *own)), tokens or limit, message.stops, number)


def _penalties(message: Writing, size: int) -> Sequence[Penalty]:
    found: list[Penalty] = []
    presence, frequency = message.presence_penalty or 0.0, message.frequency_penalty or 0.0
    if presence or frequency:
        found.append(CountPenalty(presence=presence, frequency=frequency))
    bias = {int(name): value for name, value in (message.logit_bias or {}).items() if value}
    if unknown := sorted(number for number in bias if number >= size):
        raise wrong(f"logit_bias: {unknown[0]}: this model has ids 0 to {size - 1}", param="logit_bias")
    if bias:
        found.append(LogitBias(tuple(bias), tuple(bias.values())))
    return found


def require_within(asked: Asked, message: Writing, texts: Sequence[str], *, tokens: dict[str, int | None]) -> Limits:
    """The limits of the settings; `Refusal` where a request has too much text, or asks for too much.

    Args:
        asked: whose.
        message: what is asked.
        texts: that are read.
        tokens: most of a text, by the name of the field that says so.
    """
    limits = asked.house.settings.limits
    characters = sum(map(len, (*texts, *(message.stops or ()))))
    if characters > limits.characters:
        raise wrong(f"{characters:,} characters of text; a request may have {limits.characters:,}: send fewer")
    for name, count in tokens.items():
        if count is not None and count > limits.tokens:
            raise wrong(
                f"{name}: {count:,} tokens; at most {limits.tokens:,} are written here: ask for fewer", param=name
            )
    return limits


Ending: TypeAlias = Literal["stop", "length"]
"""Whether a text ended by itself or at a stop string, or because it may have no more tokens."""


class Usage(Strict):
    """How many tokens were read and written."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int

    @classmethod
    def of(cls, read: int, written: int) -> Usage:
        """Their sum beside them."""
        return cls(prompt_tokens=read, completion_tokens=written, total_tokens=read + written)
