"""How much text a language model was measured on, and what its likelihood is per word, character and byte."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from heedful.data.documents import Document
from heedful.data.tokenizers import Tokenizer
from heedful.metrics.likelihood import perplexity


@dataclass(frozen=True)
class TextSize:
    """What a text consists of, as its tokenizer reads it.

    Attributes:
        documents: texts that end.
        words: stretches without white space.
        characters: code points.
        bytes: in UTF-8.
    """

    documents: int
    words: int
    characters: int
    bytes: int


@dataclass(frozen=True)
class Likelihood:
    """The likelihood of a text, all of its tokens and the ends of its documents.

    Perplexity per token depends on the tokenizer. The others do not: they spread the same nats over words, characters
    or bytes, where the end of a document counts as one of each, as the end of a sentence does in word-level benchmarks.

    Attributes:
        nats: the negative log-likelihood.
        tokens: the ends of documents included.
        unknown: of them, those without a piece of their own. Their text is not predicted, only that it is unknown.
        size: of the text.
        context: tokens that were read at a time.
        stride: of them, how many were predicted at a time.
    """

    nats: float
    tokens: int
    unknown: int
    size: TextSize
    context: int
    stride: int

    @property
    def loss(self) -> float:
        """Nats for each token."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """For each token: exp(nats / tokens)."""
        return perplexity(-self.nats, self.tokens)

    @property
    def word_perplexity(self) -> float:
        """For each word: exp(nats / (words + documents))."""
        return perplexity(-self.nats, self.size.words + self.size.documents)

    @property
    def character_perplexity(self) -> float:
        """For each character: 2 to the power of `bits_per_character`."""
        return perplexity(-self.nats, self.size.characters + self.size.documents)

    @property
    def bits_per_character(self) -> float:
        """Shannon's information of a character: nats / ln 2 / (characters + documents)."""
        return self.nats / math.log(2) / (self.size.characters + self.size.documents)

    @property
    def bits_per_byte(self) -> float:
        """Of a byte of UTF-8, by which scripts can be compared."""
        return self.nats / math.log(2) / (self.size.bytes + self.size.documents)


def text_size(documents: Iterable[Document], tokenizer: Tokenizer) -> TextSize:
    """The size of some documents; those in which there is nothing to read do not count."""
    ended = words = characters = size = 0
    for document in documents:
        text = tokenizer.normalise(document.text)
        ended += bool(text) and document.ends
        words += len(text.split())
        characters += len(text)
        size += len(text.encode())
    return TextSize(ended, words, characters, size)
