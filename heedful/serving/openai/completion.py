"""Request and response messages of `/v1/completions` of OpenAI's interface."""

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
"""Default number of tokens of a completion, as in OpenAI's interface."""


class CompletionRequest(TextGenerationRequest):
    """Prompts for a language model, and how to continue them."""

    prompt: str | list[str] | None = None
    """a text, or several; an empty or missing one begins a document"""
    max_tokens: Annotated[int, Field(ge=0, le=MAX_INTEGER)] | None = None
    """maximum number of tokens of a completion, 16 by default; 0 with `echo` only scores the prompt"""
    n: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = 1
    """number of completions of each prompt"""
    best_of: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = None
    """number of completions that are generated, of which the `n` with the highest log-probability per token are
    returned"""
    echo: bool | None = None
    """return the prompt before the completion"""
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    """return the tokens, their log-probabilities, and this many most probable tokens at each position"""
    suffix: UnsupportedField = None
    """text after the completion: not supported"""

    @field_validator("prompt", mode="before")
    @classmethod
    def _check_prompt(cls, prompt: Any) -> Any:
        """Check that the prompt is a text or a list of texts."""
        if isinstance(prompt, list) and not all(isinstance(text, str) for text in prompt):
            raise PydanticCustomError(
                "prompt", "must be a text or a list of texts; lists of token ids are not read here"
            )
        if prompt == [] or not isinstance(prompt, str | list | None):
            raise PydanticCustomError("prompt", "must be a text, or a list of one text or several")
        return prompt

    @property
    def prompts(self) -> list[str]:
        """The prompts as a list."""
        return self.prompt if isinstance(self.prompt, list) else [self.prompt or ""]

    @property
    def max_completion_tokens(self) -> int:
        """Maximum number of tokens of a completion."""
        return _DEFAULT_MAX_TOKENS if self.max_tokens is None else self.max_tokens

    @property
    def num_candidates(self) -> int:
        """Number of completions that are generated for each prompt."""
        return self.best_of or self.n or 1


class CompletionChoice(OpenAIMessage):
    """One completion, or a streamed piece of it."""

    index: int
    """index of the completion; those of the first prompt come first"""
    text: str
    logprobs: TokenLogprobs | None
    finish_reason: FinishReason | None
    """stop: the text ended by itself or at a stop string; length: it reached the maximum number of tokens; null: more
    follows"""


class CompletionResponse(OpenAIMessage):
    """The response to a completion request, or one event of its stream."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: TokenUsage | None = None
    notes: list[str] | None = None
    """differences between the request and what the model read (not part of OpenAI's interface)"""
