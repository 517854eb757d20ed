"""`/v1/chat/completions` of OpenAI's interface: models of conversation say what comes next."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, final

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from heedful.serving.house import Model
from heedful.serving.openai.events import streamed
from heedful.serving.openai.writing import Absent, Ending, Strict, Usage, Way, Writing, require_within, way_of
from heedful.serving.refusal import wrong
from heedful.serving.routes import MOST, Answer, Asked
from heedful.tasks.conversation.data import Turn
from heedful.tasks.conversation.face import Partner

_REFUSED = {
    "system": "the model has learned from dialogues and takes no instructions; leave the message out",
    "developer": "the model has learned from dialogues and takes no instructions; leave the message out",
    "tool": "no tools are called here; leave the message out",
    "function": "no functions are called here; leave the message out",
}


class ChatPart(Strict):
    """A piece of what somebody says."""

    type: Literal["text"]
    text: str


class ChatMessage(Strict):
    """What somebody says."""

    role: Literal["user", "assistant"]
    """user: who talks to the model; assistant: the model"""
    content: str | list[ChatPart]
    """a text, or pieces of one"""
    name: Annotated[str, Field(min_length=1)] | None = None
    """which speaker of the dialogues that were learned; needed for users where these have more than two"""
    tool_calls: Absent = None
    """not done here"""
    function_call: Absent = None
    """not done here"""

    @model_validator(mode="before")
    @classmethod
    def _known(cls, message: Any) -> Any:
        role = message.get("role") if isinstance(message, Mapping) else None
        if isinstance(role, str) and role in _REFUSED:
            raise PydanticCustomError("role", "role {role}: {why}", {"role": repr(role), "why": _REFUSED[role]})
        return message

    @field_validator("content", mode="before")
    @classmethod
    def _said(cls, content: Any) -> Any:
        parts = content if isinstance(content, list) else ()
        if not isinstance(content, str | list):
            raise PydanticCustomError("content", "must be a text, or a list of pieces of text")
        for part in parts:
            if not (isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)):
                raise PydanticCustomError("content", "must be pieces of text: objects whose type is text, with a text")
        return content

    @property
    def text(self) -> str:
        """All of it."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ChatRequest(Writing):
    """A dialogue, and how it is to go on."""

    messages: list[ChatMessage]
    """what was said so far; nothing: the model begins"""
    max_tokens: Annotated[int, Field(ge=1, le=MOST)] | None = None
    """most tokens of the reply; the model's own unless given"""
    max_completion_tokens: Annotated[int, Field(ge=1, le=MOST)] | None = None
    """the same, as it is called now"""
    n: Annotated[int, Field(ge=1, le=1)] | None = None
    """replies: one is made here"""
    logprobs: Absent = None
    """how probable tokens were: not told here"""
    top_logprobs: Absent = None
    """likewise"""
    tools: Absent = None
    """not done here"""
    functions: Absent = None
    """not done here"""
    response_format: dict[str, Any] | None = None
    """nothing but text is written here"""
    modalities: list[str] | None = None
    """likewise"""
    audio: Absent = None
    """not done here"""
    web_search_options: Absent = None
    """not done here"""

    @field_validator("response_format")
    @classmethod
    def _text(cls, wanted: dict[str, Any] | None) -> dict[str, Any] | None:
        if wanted is not None and wanted.get("type") != "text":
            raise PydanticCustomError("format", "nothing but text is written here; leave it out")
        return wanted

    @field_validator("modalities")
    @classmethod
    def _written(cls, wanted: list[str] | None) -> list[str] | None:
        if wanted not in (None, ["text"]):
            raise PydanticCustomError("modalities", "nothing but text is written here; leave it out")
        return wanted

    @property
    def most(self) -> int | None:
        """Tokens of the reply."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens


class ChatReply(Strict):
    """What the model says."""

    role: Literal["assistant"]
    content: str


class ChatChoice(Strict):
    """A reply."""

    index: int
    message: ChatReply
    logprobs: None
    finish_reason: Ending
    """stop: ended by itself, or at a string of `stop`; length: had as many tokens as it may"""


class ChatCompletion(Strict):
    """What a model of conversation says next."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class ChatDelta(Strict):
    """What is new of a reply."""

    role: Literal["assistant"] | None = None
    content: str | None = None


class ChatPiece(Strict):
    """A piece of a reply."""

    index: int
    delta: ChatDelta
    logprobs: None
    finish_reason: Ending | None


class ChatChunk(Strict):
    """An event of a stream."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatPiece]
    usage: Usage | None = None


async def chat(asked: Asked, message: ChatRequest) -> Answer:
    """The reply to a dialogue."""
    model = asked.house.model(Partner, message.model, use="talk")
    partner: Partner = model.face
    own = {"max_tokens": message.max_tokens, "max_completion_tokens": message.max_completion_tokens}
    limits = require_within(asked, message, [each.text for each in message.messages], tokens=own)
    if len(message.messages) > limits.batch:
        raise wrong(
            f"messages: {len(message.messages):,}; a request may have {limits.batch:,}: send the newest",
            param="messages",
        )
    script = partner.script
    way = way_of(message, partner.generation, special=script.special, size=script.size, tokens=message.most, first=1)
    way = replace(way, limit=min(way.limit, limits.tokens))
    job = ChatJob(asked, message, model, way, tuple(_turns(partner, message.messages)))
    if message.stream:
        return await streamed(asked, model, job.stream)
    return await model.ask(asked.term, job.whole)


def _turns(partner: Partner, messages: Sequence[ChatMessage]) -> Iterator[Turn]:
    """What was said, by the names of who learned it; what is empty is left out."""
    names = partner.script.speakers.names
    for number, each in enumerate(messages):
        if each.name is None and each.role == "user" and len(names) > 2:
            known = ", ".join(name for name in names if name != partner.speaker)
            raise wrong(f"messages.{number}.name: several speak to this model ({known}); say who", param="messages")
        speaker = each.name or (partner.speaker if each.role == "assistant" else partner.other)
        if each.text.strip():
            yield Turn(speaker, each.text)


@final
@dataclass(frozen=True)
class ChatJob:
    """A request as it is worked for, in a thread of its own."""

    asked: Asked
    message: ChatRequest
    model: Model[Partner]
    way: Way
    turns: tuple[Turn, ...]
    created: int = field(default_factory=lambda: int(time.time()))

    def over(self) -> bool:
        """Whether nobody waits any more."""
        return self.asked.term.over

    def whole(self) -> Mapping[str, Any]:
        """The reply at once."""
        way = self.way
        (reply,) = self.model.face.reply(
            [self.turns], search=way.search, limit=way.limit, stop=way.stop, first=way.first, until=self.over
        )
        self.asked.term.check()
        choice = ChatChoice(
            index=0,
            message=ChatReply(role="assistant", content=reply.text),
            logprobs=None,
            finish_reason="stop" if reply.finished or reply.stop is not None else "length",
        )
        found = ChatCompletion(
            id=self._id,
            object="chat.completion",
            created=self.created,
            model=self.model.name,
            choices=[choice],
            usage=Usage.of(self._read, len(reply.tokens)),
        )
        return found.model_dump(mode="json", exclude_unset=True)

    def stream(self, say: Callable[[Mapping[str, Any]], None]) -> None:
        """The reply as it is written."""
        way, eos = self.way, self.model.face.script.special.eos
        growing = self.model.face.stream(
            self.turns, search=way.search, limit=way.limit, stop=way.stop, number=way.first, until=self.over
        )
        usage = {"usage": None} if self.message.tells_usage else {}
        delta = {"role": "assistant", "content": ""}
        for piece in growing:
            if delta:
                say(self._chunk(delta, **usage))
                delta = {}
            say(self._chunk({"content": piece}, **usage))
        self.asked.term.check()
        ended = growing.stop is not None or growing.ids[-1:] == [eos]
        say(self._chunk(delta, ended="stop" if ended else "length", **usage))
        if self.message.tells_usage:
            written = len(growing.ids) - growing.ids.count(eos)
            say({**self._chunk({}, usage=Usage.of(self._read, written)), "choices": []})

    @property
    def _id(self) -> str:
        return f"chatcmpl-{self.asked.id}"

    @property
    def _read(self) -> int:
        """Tokens of the dialogue that are read."""
        return len(self.model.face.script.read(self.turns))

    def _chunk(self, delta: Mapping[str, Any], *, ended: Ending | None = None, **usage: Any) -> Mapping[str, Any]:
        piece = ChatPiece(index=0, delta=ChatDelta(**delta), logprobs=None, finish_reason=ended)
        found = ChatChunk(
            id=self._id,
            object="chat.completion.chunk",
            created=self.created,
            model=self.model.name,
            choices=[piece],
            **usage,
        )
        return found.model_dump(mode="json", exclude_unset=True)
