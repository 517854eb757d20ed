"""`/v1/chat/completions` of OpenAI's interface: continue dialogues with conversation models."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Literal, final

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from heedful.serving.capabilities import has_capable_model
from heedful.serving.http_errors import bad_request
from heedful.serving.openai.generation import (
    FinishReason,
    GenerationPlan,
    OpenAIMessage,
    TextGenerationRequest,
    TokenUsage,
    UnsupportedField,
    build_plan,
    check_limits,
)
from heedful.serving.openai.models import GROUP
from heedful.serving.registry import LoadedModel
from heedful.serving.routes import MAX_INTEGER, HandlerResult, RequestContext, declare_route
from heedful.serving.sse import OPENAI_CHUNKS, stream_response
from heedful.tasks.conversation.data import DialogueTurn
from heedful.tasks.conversation.predictor import ChatPredictor

_UNSUPPORTED_ROLES = {
    "system": "the model has learned from dialogues and takes no instructions; leave the message out",
    "developer": "the model has learned from dialogues and takes no instructions; leave the message out",
    "tool": "tools are not supported; leave the message out",
    "function": "functions are not supported; leave the message out",
}


class ChatTextPart(OpenAIMessage):
    """A piece of text of a chat message."""

    type: Literal["text"]
    text: str


class ChatMessage(OpenAIMessage):
    """One message of a dialogue."""

    role: Literal["user", "assistant"]
    """user: speaks to the model; assistant: the model"""
    content: str | list[ChatTextPart]
    """a text, or a list of text parts"""
    name: Annotated[str, Field(min_length=1)] | None = None
    """name of the speaker; needed for user messages if the dialogues of the model have more than two speakers"""
    tool_calls: UnsupportedField = None
    """not supported"""
    function_call: UnsupportedField = None
    """not supported"""

    @model_validator(mode="before")
    @classmethod
    def _check_role(cls, message: Any) -> Any:
        """Reject a message whose role is not supported, as `system` or `tool`, and say why."""
        role = message.get("role") if isinstance(message, Mapping) else None
        if isinstance(role, str) and role in _UNSUPPORTED_ROLES:
            raise PydanticCustomError(
                "role", "role {role}: {why}", {"role": repr(role), "why": _UNSUPPORTED_ROLES[role]}
            )
        return message

    @field_validator("content", mode="before")
    @classmethod
    def _check_content(cls, content: Any) -> Any:
        """Reject a content that is neither a text nor a list of objects of type `text`, each with a text."""
        text_parts = content if isinstance(content, list) else ()
        if not isinstance(content, str | list):
            raise PydanticCustomError("content", "must be a text, or a list of pieces of text")
        for text_part in text_parts:
            if not (
                isinstance(text_part, Mapping)
                and text_part.get("type") == "text"
                and isinstance(text_part.get("text"), str)
            ):
                raise PydanticCustomError("content", "must be pieces of text: objects whose type is text, with a text")
        return content

    @property
    def full_text(self) -> str:
        """The whole text of the message."""
        return self.content if isinstance(self.content, str) else "".join(text_part.text for text_part in self.content)


class ChatCompletionRequest(TextGenerationRequest):
    """A dialogue, and how to generate the next message."""

    messages: list[ChatMessage]
    """the dialogue so far; if empty, the model begins"""
    max_tokens: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = None
    """maximum number of tokens of the reply; the default is the model's own"""
    max_completion_tokens: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = None
    """the newer name of `max_tokens`"""
    n: Annotated[int, Field(ge=1, le=1)] | None = None
    """number of replies, which must be 1"""
    logprobs: UnsupportedField = None
    """log-probabilities of tokens: not supported"""
    top_logprobs: UnsupportedField = None
    """not supported"""
    tools: UnsupportedField = None
    """not supported"""
    functions: UnsupportedField = None
    """not supported"""
    response_format: dict[str, Any] | None = None
    """only text is supported"""
    modalities: list[str] | None = None
    """only text is supported"""
    audio: UnsupportedField = None
    """not supported"""
    web_search_options: UnsupportedField = None
    """not supported"""

    @field_validator("response_format")
    @classmethod
    def _check_response_format(cls, response_format: dict[str, Any] | None) -> dict[str, Any] | None:
        if response_format is not None and response_format.get("type") != "text":
            raise PydanticCustomError("format", "only text is written here; leave it out")
        return response_format

    @field_validator("modalities")
    @classmethod
    def _check_modalities(cls, modalities: list[str] | None) -> list[str] | None:
        if modalities not in (None, ["text"]):
            raise PydanticCustomError("modalities", "only text is written here; leave it out")
        return modalities

    @property
    def max_reply_tokens(self) -> int | None:
        """Maximum number of tokens of the reply, or None."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens


class ChatReplyMessage(OpenAIMessage):
    """The message that the model generated."""

    role: Literal["assistant"]
    content: str


class ChatChoice(OpenAIMessage):
    """One generated message of a chat completion."""

    index: int
    message: ChatReplyMessage
    logprobs: None
    finish_reason: FinishReason
    """stop: the reply ended by itself or at a stop string; length: it reached the maximum number of tokens"""


class ChatCompletion(OpenAIMessage):
    """The response to a chat completion request."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: TokenUsage


class ChatDelta(OpenAIMessage):
    """The new part of a streamed message."""

    role: Literal["assistant"] | None = None
    content: str | None = None


class ChatChunkChoice(OpenAIMessage):
    """The new part of one streamed reply."""

    index: int
    delta: ChatDelta
    logprobs: None
    finish_reason: FinishReason | None


class ChatChunk(OpenAIMessage):
    """One event of a streamed chat completion."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: TokenUsage | None = None


@declare_route(
    "/v1/chat/completions",
    "a dialogue model writes the next turn",
    response_type=ChatCompletion,
    group=GROUP,
    examples=({"messages": [{"role": "user", "content": "I want to eat something cheap."}]},),
    is_served=partial(has_capable_model, capability="chat"),
)
async def _answer_chat(context: RequestContext, message: ChatCompletionRequest) -> HandlerResult:
    """Generate the next message of a dialogue, and return the chat completion or, if a stream is requested, a response
    that streams it.
    """
    model = context.registry.get_model(ChatPredictor, message.model, action="talk")
    predictor: ChatPredictor = model.predictor
    token_fields = {"max_tokens": message.max_tokens, "max_completion_tokens": message.max_completion_tokens}
    limits = check_limits(
        context, message, [chat_message.full_text for chat_message in message.messages], requested_tokens=token_fields
    )
    if len(message.messages) > limits.batch:
        raise bad_request(
            f"messages: {len(message.messages):,}; a request may have {limits.batch:,}: send the newest",
            param="messages",
        )
    script = predictor.encoder
    plan = build_plan(
        message,
        predictor.generation,
        special=script.special_ids,
        vocab_size=script.vocab_size,
        max_tokens=message.max_reply_tokens,
        stream_index=1,
    )
    plan = replace(plan, limit=min(plan.limit, limits.tokens))
    job = ChatJob(context, message, model, plan, tuple(_convert_turns(predictor, message.messages)))
    if message.stream:
        return await stream_response(context, model, job.stream, event_format=OPENAI_CHUNKS)
    return await model.run(context.deadline, job.run)


def _convert_turns(predictor: ChatPredictor, messages: Sequence[ChatMessage]) -> Iterator[DialogueTurn]:
    """Convert chat messages to dialogue turns with the speaker names that the predictor knows; empty messages are
    skipped. Raise an `HTTPError` if a user message names no speaker and there are several.
    """
    names = predictor.encoder.speakers.names
    for number, message in enumerate(messages):
        if message.name is None and message.role == "user" and len(names) > 2:
            speakers = ", ".join(name for name in names if name != predictor.speaker)
            raise bad_request(
                f"messages.{number}.name: this model has several speakers ({speakers}); name one", param="messages"
            )
        speaker = message.name or (predictor.speaker if message.role == "assistant" else predictor.other_speaker)
        if message.full_text.strip():
            yield DialogueTurn(speaker, message.full_text)


@final
@dataclass(frozen=True)
class ChatJob:
    """A validated chat request, which runs in a worker thread."""

    context: RequestContext
    message: ChatCompletionRequest
    model: LoadedModel[ChatPredictor]
    plan: GenerationPlan
    turns: tuple[DialogueTurn, ...]
    created: int = field(default_factory=lambda: int(time.time()))

    def is_over(self) -> bool:
        """Return whether the request's deadline is over or its client has disconnected."""
        return self.context.deadline.is_over

    def run(self) -> Mapping[str, Any]:
        """Generate the reply and return the complete response."""
        plan = self.plan
        (reply,) = self.model.predictor.reply(
            [self.turns],
            search=plan.search,
            limit=plan.limit,
            stop=plan.stop,
            first=plan.stream_index,
            until=self.is_over,
        )
        self.context.deadline.raise_if_over()
        choice = ChatChoice(
            index=0,
            message=ChatReplyMessage(role="assistant", content=reply.text),
            logprobs=None,
            finish_reason="stop" if reply.finished or reply.stop is not None else "length",
        )
        completion = ChatCompletion(
            id=self._completion_id,
            object="chat.completion",
            created=self.created,
            model=self.model.name,
            choices=[choice],
            usage=TokenUsage.from_counts(self._num_prompt_tokens, len(reply.tokens)),
        )
        return completion.model_dump(mode="json", exclude_unset=True)

    def stream(self, emit: Callable[[Mapping[str, Any]], None]) -> None:
        """Generate the reply, and call `emit` with a chunk for each new piece of text, one with the finish reason and,
        if it was requested, one with the usage.
        """
        plan, eos = self.plan, self.model.predictor.encoder.special_ids.eos
        text_stream = self.model.predictor.stream(
            self.turns,
            search=plan.search,
            limit=plan.limit,
            stop=plan.stop,
            number=plan.stream_index,
            until=self.is_over,
        )
        usage = {"usage": None} if self.message.includes_usage else {}
        delta = {"role": "assistant", "content": ""}
        for piece in text_stream:
            if delta:
                emit(self._build_chunk(delta, **usage))
                delta = {}
            emit(self._build_chunk({"content": piece}, **usage))
        self.context.deadline.raise_if_over()
        is_stopped = text_stream.stop is not None or text_stream.ids[-1:] == [eos]
        emit(self._build_chunk(delta, finish_reason="stop" if is_stopped else "length", **usage))
        if self.message.includes_usage:
            num_tokens = len(text_stream.ids) - text_stream.ids.count(eos)
            emit(
                {
                    **self._build_chunk({}, usage=TokenUsage.from_counts(self._num_prompt_tokens, num_tokens)),
                    "choices": [],
                }
            )

    @property
    def _completion_id(self) -> str:
        return f"chatcmpl-{self.context.id}"

    @property
    def _num_prompt_tokens(self) -> int:
        return len(self.model.predictor.encoder.encode_source(self.turns))

    def _build_chunk(
        self, delta: Mapping[str, Any], *, finish_reason: FinishReason | None = None, **usage: Any
    ) -> Mapping[str, Any]:
        """Build a chunk of the stream as a JSON object: `delta` is the new part of the message, `finish_reason` is None
        while more follows, and `usage` is the field of this name, if it was requested.
        """
        choice = ChatChunkChoice(index=0, delta=ChatDelta(**delta), logprobs=None, finish_reason=finish_reason)
        chunk = ChatChunk(
            id=self._completion_id,
            object="chat.completion.chunk",
            created=self.created,
            model=self.model.name,
            choices=[choice],
            **usage,
        )
        return chunk.model_dump(mode="json", exclude_unset=True)
