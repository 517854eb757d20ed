"""What is asked and answered at `/v1/completions` of OpenAI's interface."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from heedful.serving.openai.generation import (
    FinishReason,
    OpenAIMessage,
    TextGenerationRequest,
    TokenUsage,
    UnsupportedField,
)
from heedful.serving.openai.token_logprobs import TokenLogprobs
from heedful.serving.routes import MAX_INTEGER

_DEFAULT_MAX_TOKENS = 16
"""Tokens of a completion where a request says nothing, as OpenAI's interface has it."""


class CompletionRequest(TextGenerationRequest):
    """What a language model is to go on with, and how."""

    prompt: str | list[str] | None = None
    """a text, or several; nothing, or an empty one, begins a document"""
    max_tokens: Annotated[int, Field(ge=0, le=MAX_INTEGER)] | None = None
    """most tokens of a completion, 16 unless given; 0, with `echo`, only reads the prompt"""
    n: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = 1
    """completions of each prompt"""
    best_of: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = None
    """completions that are written, of which the `n` most probable by token are sent"""
    echo: bool | None = None
    """send the prompt before the completion"""
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    """tell the tokens, how probable each was, and so many that were most probable in its place"""
    suffix: UnsupportedField = None
    """text behind the completion: not done here"""

    @field_validator("prompt", mode="before")
    @classmethod
    def _check_prompt(cls, prompt: Any) -> Any:
        if isinstance(prompt, list) and not all(isinstance(text, str) for text in prompt):
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
    def max_completion_tokens(self) -> int:
        """Tokens of a completion."""
        return _DEFAULT_MAX_TOKENS if self.max_tokens is None else self.max_tokens

    @property
    def num_candidates(self) -> int:
        """Completions of each prompt that are written."""
        return self.best_of or self.n or 1


class CompletionChoice(OpenAIMessage):
    """One completion, or a piece of it."""

    index: int
    """of the completion: those of the first prompt first"""
    text: str
    logprobs: TokenLogprobs | None
    finish_reason: FinishReason | None
    """stop: ended by itself, or at a string of `stop`; length: had as many tokens as it may; null: goes on"""


class CompletionResponse(OpenAIMessage):
    """What a language model wrote, or a piece of it."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: TokenUsage | None = None
    notes: list[str] | None = None
    """what of the request was read otherwise than given (not of OpenAI's)"""
