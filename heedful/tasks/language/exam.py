"""What language models are asked, and how surprised they are: documents, or pieces of them, for any vocabulary."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, final

import numpy as np
import torch
from jaxtyping import Float, Int

from heedful.data.documents import Document
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, RecipeError
from heedful.metrics.likelihood import Perplexity
from heedful.metrics.metric import Metric, Ratio
from heedful.recipes.recipe import Recipe
from heedful.tasks.exam import PLAIN, Asking, Exam
from heedful.tasks.language.face import Writer
from heedful.tasks.language.problem import Apart, Packed, Pieces
from heedful.tasks.language.recipe import LanguageRecipe
from heedful.tasks.likelihood import log_likelihoods
from heedful.values import move

_ENOUGH: Final = 50
"""Documents that an interval needs; where there are fewer, pieces of them are drawn."""
_WORDS: Final = 100
"""Words in a piece."""
_BATCH_TOKENS: Final = 4096
_MASSES: Final = ("nats", "tokens", "unknown", "ends", "words", "characters", "bytes", "lines")


@dataclass(frozen=True)
class Surprised:
    """The likelihood of each example, and how much text it is as the model's tokenizer reads it.

    Attributes:
        nats: the negative log-likelihood.
        tokens: the ends of documents included.
        unknown: of them, those without a piece of their own. Their text is not predicted, only that it is unknown.
        ends: of documents.
        words: stretches without white space.
        characters: code points.
        bytes: in UTF-8.
        lines: ends of lines, also of a last one that nothing but its document's end stands behind.
        keeps_lines: whether ends of lines are tokens, or parts of them, and so predicted.
        context: tokens that were read at a time.
        stride: of them, how many were predicted at a time.
    """

    nats: Float[np.ndarray, " N"]
    tokens: Float[np.ndarray, " N"]
    unknown: Float[np.ndarray, " N"]
    ends: Float[np.ndarray, " N"]
    words: Float[np.ndarray, " N"]
    characters: Float[np.ndarray, " N"]
    bytes: Float[np.ndarray, " N"]
    lines: Float[np.ndarray, " N"]
    keeps_lines: bool
    context: int
    stride: int

    def total(self, name: str) -> int:
        """Of all examples."""
        return int(getattr(self, name).sum())


@final
class TextExam(Exam):
    """A text that is predicted from its first to its last token.

    What is drawn are documents, or where there are few of them pieces of about a hundred words: the same stretches of
    the text for every vocabulary. A token belongs to the piece in which its first character stands.

    Args:
        documents: the text; long ones may come in parts.
        text: the files that they are from, in words.
        part: of the data.
        asking: what of it there is for language models.

    Raises:
        DataError: there is nothing to read.
    """

    right = ()

    def __init__(self, documents: Sequence[Document], *, text: str, part: str, asking: Asking = PLAIN) -> None:
        if not any(document.text.strip() for document in documents):
            raise DataError(f"{text}: there is no text to measure on; check the file")
        self.documents = self.asked = documents
        self.doing = "reading the text"
        self.text = text
        self.part = part
        self.asking = asking
        self.whole = sum(document.ends for document in documents) >= _ENOUGH
        if self.whole:
            self._firsts = [0, *accumulate(int(document.ends) for document in documents)]
            self.size = self._firsts[-1] + (not documents[-1].ends)
        else:
            counts = (max(1, -(-len(document.text.split()) // _WORDS)) for document in documents)
            self._firsts = [0, *accumulate(counts)]
            self.size = self._firsts[-1]

    @property
    def drawn(self) -> str:
        """What intervals and tests draw, in words."""
        return f"{self.size:,} {'documents' if self.whole else f'pieces of about {_WORDS} words'}"

    def answers(self, user: Writer, recipe: Recipe) -> Surprised:
        """The likelihood of each example, each token given those before it in its window."""
        assert isinstance(recipe, LanguageRecipe)
        context, stride = reading(recipe, self.asking)
        read = [self._read(user.tokenizer, number) for number in range(len(self.documents))]
        stream = np.concatenate([ids for ids, _, _ in read])
        owners = np.concatenate([owner for _, owner, _ in read])
        cut = Apart if recipe.data.documents == "apart" else Packed
        pieces = cut(stream, before=user.tokenizer.special.eos, length=context)
        nats = token_nats(user, pieces, context=context, stride=stride)
        unknown = stream == (-1 if user.tokenizer.special.unk is None else user.tokenizer.special.unk)
        sums = {"nats": nats, "tokens": np.ones(len(stream)), "unknown": unknown}
        found = {name: np.bincount(owners, each, minlength=self.size) for name, each in sums.items()}
        sizes = np.zeros((len(_MASSES) - 3, self.size))
        for _, _, places in read:
            for example, *counts in places:
                sizes[:, example] += counts
        keeps_lines = "\n" in user.tokenizer.normalise("a\nb")
        amounts = dict(zip(_MASSES[3:], sizes, strict=True))
        return Surprised(**found, **amounts, keeps_lines=keeps_lines, context=context, stride=stride)

    def metrics(self, answers: Surprised) -> Mapping[str, Metric]:
        """Nats per token, perplexities and bits; the end of a document counts as one word, character or byte.

        `word_perplexity_with_line_ends` counts the end of each line as a word instead, which is how results on the Penn
        Treebank (Mikolov et al. 2010) and WikiText (Merity et al. 2016) are published.
        """
        words, characters, size = (each + answers.ends for each in (answers.words, answers.characters, answers.bytes))
        bits = answers.nats / math.log(2)
        return {
            "loss": Ratio(answers.nats, answers.tokens),
            "perplexity": Perplexity(answers.nats, answers.tokens),
            "word_perplexity": Perplexity(answers.nats, words),
            "word_perplexity_with_line_ends": Perplexity(answers.nats, answers.words + answers.lines),
            "character_perplexity": Perplexity(answers.nats, characters),
            "bits_per_character": Ratio(bits, characters),
            "bits_per_byte": Ratio(bits, size),
        }

    def _read(
        self, tokenizer: Tokenizer, number: int
    ) -> tuple[Int[np.ndarray, " T"], Int[np.ndarray, " T"], list[tuple[int, int, int, int, int, int]]]:
        """The ids of a document, to which example each belongs, and of examples ends, words, characters, bytes and
        lines.
        """
        document, first = self.documents[number], self._firsts[number]
        ids, text = tokenizer.encode(document.text), tokenizer.normalise(document.text)
        last = first if self.whole else self._firsts[number + 1] - 1
        begins = [0] if self.whole else _begins(text)[: last - first + 1]
        places = []
        for example, (start, stop) in enumerate(zip(begins, [*begins[1:], len(text)], strict=True), first):
            piece = text[start:stop]
            places.append((example, 0, len(piece.split()), len(piece), len(piece.encode()), 0))
        if ids:
            places += ((min(first + piece, last), 0, 0, 0, 0, 1) for piece in _line_ends(document))
        owners = first + np.searchsorted(begins, _places(tokenizer, document.text, text), side="right") - 1
        if ids and document.ends:
            ids, owners = [*ids, tokenizer.special.eos], np.append(owners, last)
            places.append((last, 1, 0, 0, 0, 0))
        return np.array(ids, dtype=np.int64), owners, places


def reading(recipe: LanguageRecipe, asking: Asking) -> tuple[int, int]:
    """How many tokens are read at a time, and predicted.

    Raises:
        RecipeError: what a user wants does not fit the model.
    """
    longest = recipe.model.longest
    context = recipe.data.length if asking.context is None else asking.context
    if context < 1 or (longest is not None and context > longest.tokens):
        most = "" if longest is None else f" and at most {longest.key} = {longest.tokens}"
        raise RecipeError(f"--context: {context}; must be at least 1{most}")
    stride = context if asking.stride is None else asking.stride
    if not 1 <= stride <= context:
        raise RecipeError(f"--stride: {stride}; must be from 1 to {context}, the tokens that are read at a time")
    return context, stride


def token_nats(user: Writer, pieces: Pieces, *, context: int, stride: int) -> Float[np.ndarray, " N"]:
    """-log p of each token of a stream, given those before it in its window."""
    nats = np.zeros(len(pieces.stream))
    windows = pieces.windows(context=context, stride=stride)
    for places, batch in pieces.in_order(windows, tokens=max(_BATCH_TOKENS, context)):
        tokens, labels = move((batch.tokens, batch.labels), user.device)
        with torch.inference_mode():
            hidden, _ = user.model(tokens, user.model.begin())
            real = (labels >= 0).flatten().nonzero().squeeze(1)
            taken = (hidden.flatten(0, 1).index_select(0, real), labels.flatten().index_select(0, real))
            nats[places] = -log_likelihoods(*taken, output=user.model.output).double().cpu().numpy()
    return nats


def _begins(text: str) -> list[int]:
    """Where pieces begin: behind each hundredth word, so that white space belongs to the word that follows it."""
    ends = [word.end() for word in re.finditer(r"\S+", text)]
    return [0, *ends[_WORDS - 1 : -1 : _WORDS]]


def _line_ends(document: Document) -> Iterator[int]:
    """In which piece each line ends, counted from 0; the last one of a document may end with the document alone."""
    *lines, rest = document.text.split("\n")
    if rest and document.ends:
        lines.append(rest)
    words = 0
    for line in lines:
        words += len(line.split())
        yield max(0, words - 1) // _WORDS


def _places(tokenizer: Tokenizer, written: str, text: str) -> Int[np.ndarray, " T"]:
    """The character of the normalised text at which each token begins; a space belongs to what follows it."""
    shown = np.array([place for place, letter in enumerate(text) if letter != " "], dtype=np.int64)
    lengths = [len(surface.replace(" ", "")) for surface in tokenizer.surfaces(written)]
    before = np.cumsum([0, *lengths])[:-1]
    if not len(shown):
        return np.zeros(len(lengths), dtype=np.int64)
    places: Int[np.ndarray, " T"] = shown[np.minimum(before, len(shown) - 1)]
    return places
