"""`/v1/embeddings` of OpenAI's interface: compute vectors of texts."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field, field_validator

from heedful.data.tokenizers import Tokenizer
from heedful.serving.capabilities import has_capable_model
from heedful.serving.http_errors import bad_request
from heedful.serving.openai.generation import OpenAIMessage, check_texts
from heedful.serving.openai.models import GROUP
from heedful.serving.routes import MAX_INTEGER, HandlerResult, RequestContext, declare_route
from heedful.tasks.embedder import TextEmbedder


class EmbeddingRequest(OpenAIMessage):
    """Texts to embed."""

    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """name of a served model, see /v1/models; not needed if only one model can do this"""
    input: str | list[str]
    """a text, or several"""
    encoding_format: Literal["float", "base64"] | None = None
    """numbers, or little-endian float32 bytes in base64, which OpenAI's own clients request"""
    dimensions: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = None
    """size of a vector; it must be the model's own"""
    normalise: bool | None = None
    """scale each vector to length 1, as `heedful embed --normalise` (not part of OpenAI's interface)"""

    _check_input = field_validator("input", mode="before")(check_texts)

    @property
    def texts(self) -> list[str]:
        """The texts as a list."""
        return [self.input] if isinstance(self.input, str) else self.input


class EmbeddingItem(OpenAIMessage):
    """The vector of one text."""

    object: Literal["embedding"]
    index: int
    """index of the text"""
    embedding: list[float] | str


class EmbeddingUsage(OpenAIMessage):
    """Number of tokens that were read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingResponse(OpenAIMessage):
    """The vectors of all texts, in order."""

    object: Literal["list"]
    data: list[EmbeddingItem]
    model: str
    usage: EmbeddingUsage


@declare_route(
    "/v1/embeddings",
    "vectors of texts",
    response_type=EmbeddingResponse,
    group=GROUP,
    examples=({"input": ["A dog runs.", "A cat sleeps."], "encoding_format": "float"},),
    is_served=partial(has_capable_model, capability="embed"),
)
async def _answer_embedding(context: RequestContext, message: EmbeddingRequest) -> HandlerResult:
    """Compute the vectors of the texts of a request, and return them with the number of tokens; raise an `HTTPError` if
    the request exceeds the limits or names another size of vectors.
    """
    model = context.registry.get_model((TextEmbedder,), message.model, action="make vectors of texts")
    limits, texts = context.limits, message.texts
    if len(texts) > limits.batch:
        raise bad_request(
            f"input: {len(texts):,} texts; a request may have {limits.batch:,}: send fewer", param="input"
        )
    if (characters := sum(map(len, texts))) > limits.characters:
        raise bad_request(
            f"input: {characters:,} characters of text; a request may have {limits.characters:,}: send fewer",
            param="input",
        )

    def work() -> EmbeddingResponse:
        vectors = model.predictor.embed(texts)
        context.deadline.raise_if_over()
        if message.dimensions not in (None, vectors.shape[1]):
            raise bad_request(
                f"dimensions: vectors of this model have {vectors.shape[1]}; leave it out", param="dimensions"
            )
        if message.normalise:
            vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
        data = [
            EmbeddingItem(object="embedding", index=index, embedding=_encode_vector(vector, message.encoding_format))
            for index, vector in enumerate(vectors)
        ]
        num_tokens = _count_tokens(model.predictor, texts)
        usage = EmbeddingUsage(prompt_tokens=num_tokens, total_tokens=num_tokens)
        return EmbeddingResponse(object="list", data=data, model=model.name, usage=usage)

    return await model.run(context.deadline, work)


def _encode_vector(vector: Float[np.ndarray, " d"], encoding: str | None) -> list[float] | str:
    """Return a vector as base64 of little-endian float32 if the encoding is `base64`, else as a list of numbers."""
    float32_vector = np.ascontiguousarray(vector, dtype="<f4")
    if encoding == "base64":
        return base64.b64encode(float32_vector.tobytes()).decode("ascii")
    numbers: list[float] = float32_vector.tolist()
    return numbers


def _count_tokens(predictor: Any, texts: Sequence[str]) -> int:
    """Count the tokens of texts with the first tokenizer of a predictor, which is that of its input."""
    tokenizer = next(attribute for attribute in vars(predictor).values() if isinstance(attribute, Tokenizer))
    return sum(len(tokenizer.encode(text)) for text in texts)
