"""`/v1/embeddings` of OpenAI's interface: encoders make vectors of texts."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from heedful.data.tokenizers import Tokenizer
from heedful.serving.openai.writing import Strict
from heedful.serving.refusal import wrong
from heedful.serving.routes import MOST, Answer, Asked
from heedful.tasks.embedder import Embeds


class EmbeddingRequest(Strict):
    """Texts of which vectors are to be made."""

    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """name of a model that is served, see /v1/models; not needed where one alone does this"""
    input: str | list[str]
    """a text, or several"""
    encoding_format: Literal["float", "base64"] | None = None
    """as numbers, or the bytes of little-endian single precision in base64, which OpenAI's own clients ask for"""
    dimensions: Annotated[int, Field(ge=1, le=MOST)] | None = None
    """of a vector: as many as the model makes, or the request is refused"""
    normalise: bool | None = None
    """make each vector one long, as `heedful embed --normalise` (not of OpenAI's)"""

    @field_validator("input", mode="before")
    @classmethod
    def _texts(cls, given: Any) -> Any:
        if isinstance(given, list) and given and not all(isinstance(each, str) for each in given):
            raise PydanticCustomError(
                "input", "must be a text or a list of texts; lists of token ids are not read here"
            )
        if given == [] or not isinstance(given, str | list):
            raise PydanticCustomError("input", "must be a text, or a list of one text or several")
        return given

    @property
    def texts(self) -> list[str]:
        """One or several."""
        return [self.input] if isinstance(self.input, str) else self.input


class Embedding(Strict):
    """The vector of a text."""

    object: Literal["embedding"]
    index: int
    """of the text"""
    embedding: list[float] | str


class EmbeddingUsage(Strict):
    """How many tokens were read."""

    prompt_tokens: int
    total_tokens: int


class Embeddings(Strict):
    """The vectors of all texts, in their order."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage


async def embed(asked: Asked, message: EmbeddingRequest) -> Answer:
    """A vector for each text."""
    model = asked.house.model((Embeds,), message.model, use="make vectors of texts")
    limits, texts = asked.house.settings.limits, message.texts
    if len(texts) > limits.batch:
        raise wrong(f"input: {len(texts):,} texts; a request may have {limits.batch:,}: send fewer", param="input")
    if (characters := sum(map(len, texts))) > limits.characters:
        raise wrong(
            f"input: {characters:,} characters of text; a request may have {limits.characters:,}: send fewer",
            param="input",
        )

    def work() -> Embeddings:
        vectors = model.face.embed(texts)
        asked.term.check()
        if message.dimensions not in (None, vectors.shape[1]):
            raise wrong(f"dimensions: vectors of this model have {vectors.shape[1]}; leave it out", param="dimensions")
        if message.normalise:
            vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
        data = [
            Embedding(object="embedding", index=index, embedding=_written(vector, message.encoding_format))
            for index, vector in enumerate(vectors)
        ]
        read = _tokens(model.face, texts)
        usage = EmbeddingUsage(prompt_tokens=read, total_tokens=read)
        return Embeddings(object="list", data=data, model=model.name, usage=usage)

    return await model.ask(asked.term, work)


def _written(vector: Float[np.ndarray, " d"], form: str | None) -> list[float] | str:
    single = np.ascontiguousarray(vector, dtype="<f4")
    if form == "base64":
        return base64.b64encode(single.tobytes()).decode("ascii")
    numbers: list[float] = single.tolist()
    return numbers


def _tokens(face: Any, texts: Sequence[str]) -> int:
    """Of texts, as a face reads them: its first vocabulary is the one of what it reads."""
    tokenizer = next(each for each in vars(face).values() if isinstance(each, Tokenizer))
    return sum(len(tokenizer.encode(text)) for text in texts)
