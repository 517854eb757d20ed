"""Generation in OpenAI's interface: its parameters and their conversion to a search, and tokens with their
log-probabilities.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, Final, Literal, TypeAlias, final

from pydantic import AfterValidator, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from heedful.data.token_offsets import compute_offsets
from heedful.data.tokenizers import SpecialIds, Tokenizer
from heedful.generation.penalties import CountPenalty, LogitBias, LogitsProcessor
from heedful.generation.search import GreedySearch, SamplingSearch
from heedful.recipes.generation import ContinuationConfig, GreedyContinuationConfig, override_generation
from heedful.serving.http_errors import bad_request
from heedful.serving.routes import LenientMessage, RequestContext, add_search_fields, read_search_options
from heedful.serving.settings import ServerLimits
from heedful.tasks.continuations import ContinuationDecoder, strip_incomplete_character
from heedful.tasks.language.token_predictions import TokenPrediction
from heedful.tasks.search_factory import build_continuation_search

_MIN_TEMPERATURE: Final = 0.01
"""Smallest temperature above 0; smaller ones overflow in the division."""
_MAX_STOPS: Final = 64
_NUM_RANDOM_STREAMS: Final = 2**40
"""Number of random streams, from which each request without a seed gets one."""


def _require_absent(value: Any) -> Any:
    if value:
        raise PydanticCustomError("not_done", "is not supported here; leave it out")
    return value


def check_texts(texts: Any) -> Any:
    """Return the value of a field if it is a text or a list of at least one text, else reject it."""
    if isinstance(texts, list) and not all(isinstance(text, str) for text in texts):
        raise PydanticCustomError("texts", "must be a text or a list of texts; lists of token ids are not read here")
    if texts == [] or not isinstance(texts, str | list):
        raise PydanticCustomError("texts", "must be a text, or a list of one text or several")
    return texts


UnsupportedField: TypeAlias = Annotated[Any, AfterValidator(_require_absent)]
"""A field of the protocol that is not supported: a value that would change the answer is rejected."""


class OpenAIMessage(LenientMessage):
    """A message of OpenAI's protocol: types are strict, and null means not given.

    Abstract.
    """

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True)


class StreamOptions(OpenAIMessage):
    """Options of a stream."""

    include_usage: bool | None = None
    """return the numbers of tokens in a last event"""


@add_search_fields(ContinuationConfig, excluded=("search", "tokens"), note=" (not part of OpenAI's interface)")
class TextGenerationRequest(OpenAIMessage):
    """Generation parameters of a request; the recipe of the model sets the others.

    Abstract.
    """

    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """name of a served model, see /v1/models; not needed if only one model can do this"""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """0 always takes the most probable token; below 1 favours probable tokens, above 1 gives more variety"""
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """sample from the smallest set of tokens with this total probability; 0 always takes the most probable token"""
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    """subtracted from the logit of each token that was generated before"""
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    """subtracted from the logit of each token for each time that it was generated"""
    logit_bias: Annotated[dict[str, Annotated[float, Field(ge=-100, le=100)]], Field(max_length=1000)] | None = None
    """added to the logits of tokens, by token id"""
    stop: str | list[str] | None = None
    """one or several strings before which the text ends; the default is the model's own"""
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    """the same seed gives the same text; without one, each request uses other random numbers"""
    stream: bool | None = None
    """send the text while it is generated, as server-sent events"""
    stream_options: StreamOptions | None = None
    """options of the stream"""

    @field_validator("temperature")
    @classmethod
    def _check_temperature(cls, temperature: float | None) -> float | None:
        if temperature is not None and 0 < temperature < _MIN_TEMPERATURE:
            raise PydanticCustomError("too_cold", "must be 0, or at least 0.01")
        return temperature

    @field_validator("stop", mode="before")
    @classmethod
    def _check_stop(cls, stop: Any) -> Any:
        """Reject stop strings that are neither a string nor a list of strings, too many, or empty."""
        is_text_list = isinstance(stop, list) and all(isinstance(text, str) for text in stop)
        if not (stop is None or isinstance(stop, str) or is_text_list):
            raise PydanticCustomError("stop", "must be a string, or a list of strings")
        if is_text_list and len(stop) > _MAX_STOPS:
            raise PydanticCustomError("stop", "holds more than {most} strings", {"most": _MAX_STOPS})
        if stop == "" or (is_text_list and "" in stop):
            raise PydanticCustomError("stop", "an empty string would end every text at once; leave it out")
        return stop

    @field_validator("logit_bias")
    @classmethod
    def _check_logit_bias(cls, bias: dict[str, float] | None) -> dict[str, float] | None:
        """Reject a key of the bias that is not a token id."""
        for token_id in bias or ():
            if not (token_id.isascii() and token_id.isdigit() and len(token_id) < 10):
                raise PydanticCustomError("logit_bias", "{name} is not a token id", {"name": repr(token_id[:40])})
        return bias

    @property
    def stop_strings(self) -> tuple[str, ...] | None:
        """Strings that end the text; None for the model's own."""
        return None if self.stop is None else (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def includes_usage(self) -> bool:
        """Whether a stream ends with the numbers of tokens."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)


@dataclass(frozen=True)
class GenerationPlan:
    """The search that answers a request, with its limits.

    Attributes:
        search: greedy search or sampling.
        limit: maximum number of tokens of a text.
        stop: strings that end a text; None for the model's own.
        stream_index: index of the first text's random stream.
    """

    search: GreedySearch | SamplingSearch
    limit: int
    stop: tuple[str, ...] | None
    stream_index: int


def build_plan(
    message: TextGenerationRequest,
    generation: ContinuationConfig,
    *,
    special: SpecialIds,
    vocab_size: int,
    max_tokens: int | None,
    stream_index: int,
    num_texts: int = 1,
) -> GenerationPlan:
    """Build the plan for a request: the model's own `generation`, changed by the options in the request. A text gets at
    most `max_tokens` tokens; None means the model's own limit. The first text uses random stream `stream_index` if the
    request has a seed, else a random one. Raise an `HTTPError` if `num_texts` is above 1 and the search is greedy.

    Args:
        message: the request.
        generation: the model's own configuration.
        special: special ids of its vocabulary.
        vocab_size: size of its vocabulary.
        max_tokens: of a text, if the request says it.
        stream_index: index of the first text's random stream if the request has a seed.
        num_texts: texts for each prompt.
    """
    options = read_search_options(message, ContinuationConfig)
    options.pop("stop", None)  # also one string; `GenerationPlan.stop`
    if message.temperature == 0 or message.top_p == 0:
        greedy_options = GreedyContinuationConfig.model_fields
        options = {name: value for name, value in options.items() if name in greedy_options} | {"search": "greedy"}
    config = override_generation(generation, ContinuationConfig, options, help_hint="see the list of fields")
    if num_texts > 1 and config.kind == "greedy":
        raise bad_request(
            "n: always taking the most probable token gives only one text; give a temperature and a top_p above 0",
            param="n",
        )
    search, limit = build_continuation_search(
        config, special, n=num_texts, seed=1 if message.seed is None else message.seed
    )
    assert isinstance(search, GreedySearch | SamplingSearch), "continuations are not searched for with a beam"
    chosen_stream = secrets.randbelow(_NUM_RANDOM_STREAMS) if message.seed is None else stream_index
    request_penalties = tuple(_build_penalties(message, vocab_size))
    return GenerationPlan(
        replace(search, penalties=(*search.penalties, *request_penalties)),
        max_tokens or limit,
        message.stop_strings,
        chosen_stream,
    )


def _build_penalties(message: TextGenerationRequest, vocab_size: int) -> Sequence[LogitsProcessor]:
    """Build the penalties and the logit bias that a request sets; raise an `HTTPError` if the bias has a token id that
    is not below `vocab_size`.
    """
    penalties: list[LogitsProcessor] = []
    presence, frequency = message.presence_penalty or 0.0, message.frequency_penalty or 0.0
    if presence or frequency:
        penalties.append(CountPenalty(presence=presence, frequency=frequency))
    bias = {int(token_id): value for token_id, value in (message.logit_bias or {}).items() if value}
    if unknown_ids := sorted(token_id for token_id in bias if token_id >= vocab_size):
        raise bad_request(f"logit_bias: {unknown_ids[0]}: this model has ids 0 to {vocab_size - 1}", param="logit_bias")
    if bias:
        penalties.append(LogitBias(tuple(bias), tuple(bias.values())))
    return penalties


def check_limits(
    context: RequestContext,
    message: TextGenerationRequest,
    texts: Sequence[str],
    *,
    requested_tokens: dict[str, int | None],
) -> ServerLimits:
    """Return the server's limits; raise an `HTTPError` if a request exceeds them.

    Args:
        context: of the request.
        message: the request.
        texts: that the model reads.
        requested_tokens: maximum tokens of a text, by the name of the field that says so.
    """
    limits = context.limits
    characters = sum(map(len, (*texts, *(message.stop_strings or ()))))
    if characters > limits.characters:
        raise bad_request(f"{characters:,} characters of text; a request may have {limits.characters:,}: send fewer")
    for name, count in requested_tokens.items():
        if count is not None and count > limits.tokens:
            raise bad_request(
                f"{name}: {count:,} tokens; at most {limits.tokens:,} are written here: ask for fewer", param=name
            )
    return limits


FinishReason: TypeAlias = Literal["stop", "length"]
"""Whether a text ended by itself or at a stop string, or because it reached the maximum number of tokens."""


class TokenUsage(OpenAIMessage):
    """Numbers of tokens that were read and generated."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int

    @classmethod
    def from_counts(cls, num_prompt_tokens: int, num_completion_tokens: int) -> TokenUsage:
        """Build the usage from the numbers of prompt and completion tokens, with their sum."""
        return cls(
            prompt_tokens=num_prompt_tokens,
            completion_tokens=num_completion_tokens,
            total_tokens=num_prompt_tokens + num_completion_tokens,
        )


_REPLACEMENT: Final = "\ufffd"
_CONTEXT_TOKENS: Final = 4
"""Number of preceding tokens that decide the text of a token; a character has at most four bytes."""


class TokenLogprobs(OpenAIMessage):
    """The tokens of a text and their log-probabilities, in order."""

    tokens: list[str]
    """the text that each token adds, or its name in the vocabulary if that is not a whole character"""
    token_logprobs: list[float]
    """natural logarithm of each token's probability, given all tokens before it"""
    top_logprobs: list[dict[str, float]] | None
    """the most probable tokens at each position, including the token itself; null if none were requested"""
    text_offset: list[int]
    """number of characters before each token, including those of the prompt even if it is not returned"""


@dataclass(frozen=True)
class TokenEntry:
    """A token: its text, the number of characters before it, its log-probability and the most probable tokens at
    its position.
    """

    text: str
    start: int
    log_probability: float
    top_tokens: dict[str, float]


@final
class TokenTracker:
    """Tracks the tokens of a prompt and its continuation, and the piece of text that each adds.

    Args:
        tokenizer: of both.
        prompt: text of the prompt.

    Attributes:
        text: the prompt.
        prompt_ids: its token ids.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: str) -> None:
        self.prompt_ids = tokenizer.encode(prompt)
        self._tokenizer = tokenizer
        self.text = prompt
        self._following = ContinuationDecoder(tokenizer, self.prompt_ids)
        self._ids: list[int] = []
        self._length = 0

    def prompt_entries(self, predictions: Iterable[TokenPrediction]) -> list[TokenEntry]:
        """Return an entry for each token of the prompt, with the prediction at its position; the texts of the entries
        add up to the prompt.

        Raises:
            DataError: the tokens cannot be located in the prompt.
        """
        entries: list[TokenEntry] = []
        start = 0
        for index, (token_id, text, prediction) in enumerate(
            zip(self.prompt_ids, self._split_prompt(), predictions, strict=True)
        ):
            entries.append(
                self._build_entry(
                    token_id, text, start, prediction, self.prompt_ids[max(0, index - _CONTEXT_TOKENS) : index]
                )
            )
            start += len(text)
        return entries

    def _split_prompt(self) -> list[str]:
        """Split the prompt into the piece of each token, with the spaces before it."""
        pieces = list(_iter_added_texts(self._tokenizer, self.prompt_ids))
        if "".join(pieces) == self.text or not pieces:
            return pieces
        spans = compute_offsets(self._tokenizer, self.text)
        # a piece that is only a space gets all spaces up to the next piece
        stops = [next_span[0] if start == stop else stop for (start, stop), next_span in pairwise(spans)]
        return [self.text[start:stop] for start, stop in pairwise([0, *stops, len(self.text)])]

    def add_tokens(self, ids: Sequence[int], predictions: Iterable[TokenPrediction]) -> list[TokenEntry]:
        """Add generated tokens and return their entries."""
        return list(self._iter_new_entries(ids, predictions))

    def _iter_new_entries(self, ids: Sequence[int], predictions: Iterable[TokenPrediction]) -> Iterator[TokenEntry]:
        """Add generated tokens one by one, and yield an entry for each, with the prediction at its position."""
        for token_id, prediction in zip(ids, predictions, strict=True):
            context = [*self.prompt_ids[-_CONTEXT_TOKENS:], *self._ids[-_CONTEXT_TOKENS:]]
            self._ids.append(token_id)
            text = strip_incomplete_character(self._following.decode(self._ids))
            start = len(self.text) + self._length
            yield self._build_entry(token_id, text[self._length :], start, prediction, context)
            self._length = max(self._length, len(text))

    def _build_entry(
        self, token_id: int, text: str, start: int, prediction: TokenPrediction, context: Sequence[int]
    ) -> TokenEntry:
        """Build the entry of a token that adds `text` behind `start` characters; its name in the tokenizer replaces an
        empty text. The most probable tokens come from the prediction, and `context` are the ids before the token.
        """
        name = text or self._tokenizer.to_pieces([token_id])[0]
        likeliest: dict[str, float] = {}
        for other_id, value in prediction.top_tokens:
            likeliest.setdefault(name if other_id == token_id else self._name_token(other_id, context), value)
        if prediction.top_tokens:  # other pieces with the same text
            likeliest[name] = prediction.log_probability
        return TokenEntry(name, start, prediction.log_probability, likeliest)

    def _name_token(self, token_id: int, context: Sequence[int]) -> str:
        """Return the text that a token would add behind a context, or its name in the tokenizer if that is not a whole
        character.
        """
        nearest = context[-_CONTEXT_TOKENS:]
        text = self._tokenizer.decode([*nearest, token_id])[len(self._tokenizer.decode(nearest)) :]
        return self._tokenizer.to_pieces([token_id])[0] if not text or _REPLACEMENT in text else text


def _iter_added_texts(tokenizer: Tokenizer, ids: Sequence[int]) -> Iterator[str]:
    """Yield the text that each id adds behind the ids before it, decoding only as far back as needed."""
    # `ids[complete_stop:stop]` end inside a character; `num_shown` of their characters were yielded before
    first = complete_stop = num_shown = 0
    for stop in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[first:stop])
        complete_text = strip_incomplete_character(text)
        num_known = len(tokenizer.decode(ids[first:complete_stop])) + num_shown
        yield complete_text[num_known:]
        num_shown += max(0, len(complete_text) - num_known)
        if complete_text == text:
            first, complete_stop, num_shown = complete_stop, stop, 0


def build_logprobs(entries: Sequence[TokenEntry], *, num_likeliest: int) -> TokenLogprobs:
    """Convert token entries to OpenAI's format, with the most probable tokens at each position unless `num_likeliest`,
    the requested number of them, is 0.
    """
    return TokenLogprobs(
        tokens=[entry.text for entry in entries],
        token_logprobs=[entry.log_probability for entry in entries],
        top_logprobs=[entry.top_tokens for entry in entries] if num_likeliest else None,
        text_offset=[entry.start for entry in entries],
    )
