"""What is asked and answered at `/v1/completions` of OpenAI's interface."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from heedful.serving.openai.tokens import Logprobs
from heedful.serving.openai.writing import Absent, Ending, Strict, Usage, Writing
from heedful.serving.routes import MOST

_USUAL = 16
"""Tokens of a completion where a request says nothing, as OpenAI's interface has it."""


class CompletionRequest(Writing):
    """What a language model is to go on with, and how."""

    prompt: str | list[str] | None = None
    """a text, or several; nothing, or an empty one, begins a document"""
    max_tokens: Annotated[int, Field(ge=0, le=MOST)] | None = None
    """most tokens of a completion, 16 unless given; 0, with `echo`, only reads the prompt"""
    n: Annotated[int, Field(ge=1, le=MOST)] | None = 1
    """completions of each prompt"""
    best_of: Annotated[int, Field(ge=1, le=MOST)] | None = None
    """completions that are written, of which the `n` most probable by token are sent"""
    echo: bool | None = None
    """send the prompt before the completion"""
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    """tell the tokens, how probable each was, and so many that were most probable in its place"""
    suffix: Absent = None
    """text behind the completion: not done here"""

    @field_validator("prompt", mode="before")
    @classmethod
    def _texts(cls, prompt: Any) -> Any:
        if isinstance(prompt, list) and not all(isinstance(each, str) for each in prompt):
            raise PydanticCustomError(
                "prompt", "must be a text or a list of texts; lists of token ids are not read here"
            )
        if prompt == [] or not isinstance(prompt, str | list | None):
            raise PydanticCustomError("prompt", "must be a text, or a list of one text or several")
        return prompt

    @property
    def prompts(self) -> list[str]:
        """One or several."""
        return self.prompt if isinstance(self.prompt, list) else [self.prompt or ""]

    @property
    def most(self) -> int:
        """Tokens of a completion."""
        return _USUAL if self.max_tokens is None else self.max_tokens

    @property
    def tried(self) -> int:
        """Completions of each prompt that are written."""
        return self.best_of or self.n or 1


class CompletionChoice(Strict):
    """One completion, or a piece of it."""

    index: int
    """of the completion: those of the first prompt first"""
    text: str
    logprobs: Logprobs | None
    finish_reason: Ending | None
    """stop: ended by itself, or at a string of `stop`; length: had as many tokens as it may; null: goes on"""


class Completion(Strict):
    """What a language model wrote, or a piece of it."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None
    notes: list[str] | None = None
    """what of the request was read otherwise than given (not of OpenAI's)"""
