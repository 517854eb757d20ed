"""Sources as a model reads them, in parts if they are long, and the search that translates a batch of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, final

from heedful.data.context import (
    SourceSentence,
    attach_context,
    find_sentence_positions,
    get_context,
    get_text,
    prepend_context,
)
from heedful.data.corpus import CHARACTERS_PER_TOKEN
from heedful.data.factors import EncodedText, SourceEncoder
from heedful.data.text_splitting import split_text
from heedful.data.word_alignments import map_context_pieces_to_words
from heedful.errors import DataError, RecipeError
from heedful.generation.prefill import AttentionLookup
from heedful.generation.prefill import GenerationRequest as Wish
from heedful.models.interface import State
from heedful.tasks.batch_executor import SearchCall
from heedful.tasks.decoder_target import DecoderTarget, TargetRequest
from heedful.tasks.translation.glossary import AnnotationMarks, TargetTerm, assign_terms
from heedful.tasks.translation.languages import list_briefly, list_tag_languages
from heedful.tensors import Tokens

_TAG_LENGTH: Final = 40
"""Number of letters at the beginning of a text in which a language tag is searched."""


@final
@dataclass(frozen=True)
class SourcePart:
    """A sentence or a part of one, with its encoded tokens (perhaps preceded by context), the number of tokens
    `cut` from its end, and the terms its translation must contain.
    """

    sentence: SourceSentence
    tokens: EncodedText
    cut: int = 0
    terms: tuple[TargetTerm, ...] = ()

    @property
    def text(self) -> str:
        """Text of the part alone."""
        return get_text(self.sentence)


@final
@dataclass(frozen=True)
class SourceReader:
    """Reads sentences with the limits of a model.

    Attributes:
        encoder: encodes texts into pieces.
        max_length: maximum number of pieces, end included.
        context: maximum number of previous sentences that are read with a sentence.
        direction_problem: why texts cannot be translated as they are, if a language is not named; else None.
    """

    encoder: SourceEncoder
    max_length: int
    context: int = 0
    direction_problem: str | None = None

    def split_into_parts(self, sentence: SourceSentence) -> list[SourcePart]:
        """Return the sentence, or its parts if it is too long (`heedful.data.text_splitting`), each with the previous
        ones as context.
        """
        self._require_language(sentence)
        full_part = self.read_part(sentence)
        texts = split_text(get_text(sentence), self._fits, protected=AnnotationMarks().pattern) if full_part.cut else []
        if len(texts) < 2:
            return [full_part]
        sentences = [*get_context(sentence), *(part.strip() for part in texts)]
        start = len(sentences) - len(texts)
        return [
            self.read_part(attach_context(sentences[index], sentences[max(0, index - self.context) : index]))
            for index in range(start, len(sentences))
        ]

    def read_part(self, sentence: SourceSentence) -> SourcePart:
        """Encode as much of a sentence as the model can read."""
        tokens, limit = self._encode_with_context(sentence), self.max_length - 1
        return SourcePart(sentence, tokens.truncate(limit), max(0, len(tokens) - limit))

    def encode_whole(self, sentence: SourceSentence, number: int) -> EncodedText:
        """Encode a whole sentence; raise DataError with its number if it is too long."""
        self._require_language(sentence)
        tokens = self._encode_with_context(sentence)
        if len(tokens) >= self.max_length:
            raise DataError(
                f"sentence {number}: has {len(tokens)} tokens, this model reads at most {self.max_length - 1}; split it"
            )
        return tokens

    def encode_truncated(self, text: str, number: int, on_truncated: Callable[[int], None] | None) -> EncodedText:
        """Encode a single text, truncated if it is too long; `on_truncated` is called with its number, and without
        it this is a DataError.
        """
        tokens, limit = self.encoder.encode(text), self.max_length - 1
        if len(tokens) <= limit:
            return tokens
        if on_truncated is None:
            raise DataError(f"text {number}: has {len(tokens)} tokens, this model reads at most {limit}; split it")
        on_truncated(number)
        return tokens.truncate(limit)

    def own_positions(self, tokens: EncodedText) -> list[int]:
        """Return the positions of a sentence's own pieces among the encoded ones, which may begin with its context."""
        return find_sentence_positions(self.encoder.tokenizer, tokens.ids)

    def get_word_numbers(self, sentence: SourceSentence) -> list[int]:
        """Return for each piece the number of the white-space-separated word in which it begins; -1 for context and
        tags.

        Raises:
            DataError: the sentence is longer than the model can read, or its pieces cannot be located in it.
        """
        text = self.encoder.strip_labels(get_text(sentence))
        return map_context_pieces_to_words(self.encoder.tokenizer, text, self.encode_whole(sentence, 1).ids)

    def _fits(self, text: str) -> bool:
        """Return whether a text can be read without truncation."""
        return len(text) <= CHARACTERS_PER_TOKEN * self.max_length and not self.read_part(text.strip()).cut

    def _encode_with_context(self, sentence: SourceSentence) -> EncodedText:
        """Encode a sentence with its previous ones; raise RecipeError if it has any and the model reads none."""
        previous = get_context(sentence)
        if previous and not self.context:
            raise RecipeError(
                "this model reads each sentence by itself: give sentences alone, or train one with data.context"
            )
        tokens = self.encoder.encode(get_text(sentence))
        return (
            prepend_context(self.encoder, tokens, previous[-self.context :], max_pieces=self.max_length - 1)
            if previous
            else tokens
        )

    def _require_language(self, sentence: SourceSentence) -> None:
        """Raise RecipeError if a model of several languages is asked for no language, or for two: by its own tags and
        by a tag at the beginning of the sentence.
        """
        if self.direction_problem is not None:
            raise RecipeError(self.direction_problem)
        if not self._language_of_id:
            return
        tokenizer = self.encoder.tokenizer
        requested = [self._language_of_id[number] for number in tokenizer.prefix_ids if number in self._language_of_id]
        first_ids = tokenizer.encode(get_text(sentence)[:_TAG_LENGTH])[len(tokenizer.prefix_ids) :][:1]
        in_text = [self._language_of_id[number] for number in first_ids if number in self._language_of_id]
        if requested and in_text:
            raise RecipeError(
                f"a sentence begins with >>{in_text[0]}<<, but {requested[0]} is already requested: leave one of them "
                "out"
            )
        if first_ids and len(self._language_of_id) > 1 and not requested and not in_text:
            languages = list_briefly([*self._language_of_id.values()])
            raise RecipeError(f"this model writes {languages}: choose one with --to or towards()")

    @cached_property
    def _language_of_id(self) -> Mapping[int, str]:
        """Languages that can be requested, by the piece that does so."""
        tags = self.encoder.tokenizer.tag_ids
        return {number: language for tag, number in tags.items() for language in list_tag_languages([tag])}


def assign_constraints(parts: Sequence[SourcePart], terms: Sequence[TargetTerm | str]) -> list[SourcePart]:
    """Return the parts of a sentence with the terms that their translations must contain (`assign_terms`)."""
    unique_terms = dict.fromkeys(TargetTerm(term) if isinstance(term, str) else term for term in terms)
    assigned = assign_terms(list(unique_terms), [part.text for part in parts])
    return [replace(part, terms=part_terms) for part, part_terms in zip(parts, assigned, strict=True)]


@final
@dataclass(frozen=True)
class TranslationRequest:
    """The index of a sentence, the encoded source of it or of one of its parts, and the generation request."""

    row: int
    source: EncodedText
    request: TargetRequest


@final
class SentenceCounter:
    """Counts finished sentences; a sentence is finished with the last of its parts.

    Args:
        rows: index of the sentence of each part.
        on_progress: called with the number of newly finished sentences.
        empty: number of sentences without a part, which are finished at once.
    """

    def __init__(self, rows: Sequence[int], on_progress: Callable[[int], None] | None, *, empty: int) -> None:
        self._rows = rows
        self._on_progress = on_progress
        self._remaining = Counter(rows)
        if on_progress is not None and empty:
            on_progress(empty)

    def __call__(self, parts: Sequence[int]) -> None:
        """Count the sentences that these finished parts complete."""
        rows = [self._rows[part] for part in parts]
        self._remaining.subtract(rows)
        if self._on_progress is not None:
            self._on_progress(sum(not self._remaining[row] for row in set(rows)))


@final
@dataclass(frozen=True)
class TranslationSearch(SearchCall[TranslationRequest]):
    """A translation search; translators that differ only in the tags before their sources can share it.

    Attributes:
        target: decoder side of the search.
        collate_sources: collates encoded sources into a batch.
        build_coverage: builds the attention function of a batch, for coverage.
    """

    target: DecoderTarget
    collate_sources: Callable[[Sequence[EncodedText]], Tokens] = field(compare=False)
    build_coverage: Callable[[Sequence[EncodedText]], AttentionLookup] = field(compare=False)

    def start_search(self, batch: list[TranslationRequest]) -> tuple[State, Wish]:
        """Return the initial decoding state of a batch and its generation request."""
        sources = [item.source for item in batch]
        request = self.target.build_generation_request(
            [item.request for item in batch], attention_lookup=self.build_coverage(sources)
        )
        return self.engine.init_state(self.collate_sources(sources)), request
