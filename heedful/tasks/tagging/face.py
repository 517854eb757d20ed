"""A trained tagger as its user sees it: sentences in, tags out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from typing import Any, final

from torch import Tensor

from heedful.data.batches import padded, tokens_of
from heedful.data.labels import Labels
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.given_texts import word_lists
from heedful.inspection.record import Answer, Record
from heedful.models.token_classifier import TokenClassifier
from heedful.tasks.faces import Asked, Face, Lines, at_once, cell, in_batches
from heedful.tasks.inspecting import Scope, attributed, best_options, encoded, likelihoods, repeated
from heedful.tasks.tagging.data import Stretch, encode_words, framed_words, stretches
from heedful.values import Tokens, move


@dataclass(frozen=True)
class Tag:
    """The tag of a word, and its probability."""

    word: str
    name: str
    probability: float


@dataclass(frozen=True, eq=False, repr=False)
class Tagger(Face):
    """A model with the tokenizer and the tags it was trained with.

    Attributes:
        model: in evaluation mode.
        tokenizer: of the words.
        tags: their names.
        framed: whether words are read between a begin and an end.
        max_length: tokens that are read at a time, longer sentences in several stretches; None where there is no end.
    """

    model: TokenClassifier
    _: KW_ONLY
    tokenizer: Tokenizer
    tags: Labels
    framed: bool = False
    max_length: int | None = None

    def tag(self, sentences: Sequence[Sequence[str]], *, batch_tokens: int | None = None) -> list[list[Tag]]:
        """The most probable tag of each word of each sentence; a sentence without words has none.

        Args:
            sentences: lists of words, or strings with spaces between their words; a single string is a list of one.
            batch_tokens: tokens with padding that are read at one time; see `at_once`.

        Raises:
            DataError: a sentence is neither, or a word is not a string.
        """
        sentences = word_lists(sentences)
        parts = [(row, stretch) for row, words in enumerate(sentences) for stretch in self._stretches(words)]
        encoded = [self._encode(sentences[row], stretch) for row, stretch in parts]
        found = in_batches(
            [ids for ids, _ in encoded], self._best, size=len, tokens=batch_tokens or at_once(self.model)
        )
        tagged: list[list[Tag]] = [[] for _ in sentences]
        for (row, stretch), (_, begins), (best, chances) in zip(parts, encoded, found, strict=True):
            tagged[row] += [
                Tag(sentences[row][word], self.tags.names[best[begin]], chances[begin])
                for word, begin in zip(stretch.read, begins, strict=True)
                if word in stretch.taken
            ]
        return tagged

    def lines(self) -> TagLines:
        """Sentences with spaces between their words."""
        return TagLines(self)

    def look(self, asked: Asked) -> Record:
        """See `inspect`; words have spaces between them."""
        return self.inspect(asked.to_read().alone("a tagger's").split(), scope=asked.scope)

    def inspect(self, words: Sequence[str], *, scope: Scope | None = None) -> Record:
        """Everything the model attends to while it reads a sentence, and the most probable tags of each word.

        Args:
            words: of the sentence, or a string with spaces between them.
            scope: layers, heads and details that are kept; all unless given.

        Raises:
            DataError: no words, or more than the model reads at a time.
            RecipeError: no such layer or head.
        """
        [words] = word_lists([words], name="words")
        scope, parts = scope or Scope(), self._stretches(words)
        if not parts:
            raise DataError("no words to look at: give a sentence")
        if len(parts) > 1:
            raise DataError(
                f"the sentence is read in {len(parts)} parts, since this model reads at most {self.max_length} tokens "
                "at a time; look at a shorter one"
            )
        ids, begins = self._encode(words, parts[0])
        record, chances = encoded(
            self.model, self._said, self._tokens([ids]), tokenizer=self.tokenizer, scope=scope, title=" ".join(words)
        )
        names = self.tags.names
        answers = tuple(
            Answer(
                "tag",
                word,
                begin,
                best_options(chances[begin], lambda ids: [names[number] for number in ids], most=scope.alternatives),
            )
            for word, begin in zip(words, begins, strict=True)
        )
        best = chances[begins].argmax(-1)

        def values(rows: int) -> Tensor:
            told = self.model.output(self.model(repeated(scope.padded(self._tokens([ids])), rows)))
            return likelihoods(told[:, begins], best)

        return attributed(replace(record, answers=answers), self.model, values, scope=scope, about="answers")

    def _said(self, tokens: Tokens) -> Tensor:
        """Of each token of one sentence the probabilities of all tags."""
        return self._chances(tokens)[0]

    def _chances(self, tokens: Tokens) -> Tensor:
        chances: Tensor = self.model.output(self.model(tokens)).float().softmax(-1)
        return chances

    def _tokens(self, rows: Sequence[list[int]]) -> Tokens:
        return move(tokens_of(padded(rows)), next(self.model.parameters()).device)

    def _stretches(self, words: Sequence[str]) -> list[Stretch]:
        if self.max_length is None:
            return [Stretch(range(len(words)), range(len(words)))] if words else []
        sizes = [len(encode_words(self.tokenizer, [word])[0]) for word in words]
        return stretches(sizes, room=self.max_length - 2 * self.framed)

    def _encode(self, words: Sequence[str], stretch: Stretch) -> tuple[list[int], list[int]]:
        read = [words[word] for word in stretch.read]
        ids, begins = framed_words(self.tokenizer, read, framed=self.framed)
        # of a word that is too long by itself the end is not read; its tag stands at its first token
        return ids[: self.max_length], begins

    def _best(self, rows: list[list[int]]) -> Iterator[tuple[list[int], list[float]]]:
        """Of each token of each row the most probable tag, and its probability."""
        best = self._chances(self._tokens(rows)).max(-1)
        return zip(best.indices.tolist(), best.values.tolist(), strict=True)


@final
@dataclass(frozen=True)
class TagLines(Lines[list[str], list[Tag]]):
    """A sentence a line; a word and its tag between tabs on each line, and an empty line after each sentence."""

    tagger: Tagger

    def inputs(self, lines: Iterable[str], *, name: str) -> Iterator[list[str]]:
        """Words."""
        return (line.split() for line in lines)

    def answers(self, inputs: Sequence[list[str]], *, first: int) -> list[list[Tag]]:
        """Tags."""
        return self.tagger.tag(inputs)

    def record(self, answer: list[Tag]) -> Any:
        """With probabilities."""
        return [asdict(tag) for tag in answer]

    def text(self, answer: list[Tag]) -> str:
        """Two columns."""
        return "".join(f"{cell(tag.word)}\t{cell(tag.name)}\n" for tag in answer) + "\n"
