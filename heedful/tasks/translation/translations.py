"""Translations, their alignments, what is done with their candidates, and their line formats."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import tee
from typing import Annotated, Any, ClassVar, Final, Protocol, final

import numpy as np
from jaxtyping import Float
from pydantic import Field

from heedful.data.context import SourceSentence, attach_context, get_context, get_text
from heedful.data.factors import SourceEncoder
from heedful.data.text_splitting import iter_gaps
from heedful.data.tokenizers import UNKNOWN_TEXT, Tokenizer
from heedful.deprecation import keep_old_names
from heedful.errors import DataError
from heedful.files import parse_json
from heedful.generation.search import SearchStrategy
from heedful.metrics.weighted_sacrebleu import PairwiseUtility
from heedful.tasks.decoder_target import ForcedScore, TextCandidate
from heedful.tasks.predictor import (
    OMIT_EMPTY,
    READ_IN_PARTS,
    READ_TRUNCATED,
    AnswerRecord,
    CandidateRecord,
    LineFormat,
    UnreadableInput,
    answer_readable,
    escape_cell,
)
from heedful.tasks.search_factory import LengthLimits, rank_by_expected_utility
from heedful.tasks.translation.glossary import TargetTerm
from heedful.tasks.translation.quality_estimation import ConfidenceCurve, hallucination_signs


class SentenceTranslator(Protocol):
    """What line formats need of a `heedful.tasks.translation.translator.Translator`, which knows them."""

    @property
    def source(self) -> Tokenizer:
        """Return the tokenizer of source texts."""
        ...

    @property
    def target(self) -> Tokenizer:
        """Return the tokenizer of translations."""
        ...

    @property
    def context(self) -> int:
        """Return how many previous sentences are read with each."""
        ...

    @property
    def source_encoder(self) -> SourceEncoder:
        """Return the encoder of source texts."""
        ...

    @property
    def confidence(self) -> ConfidenceCurve | None:
        """Return the curve of expected quality of a calibrated model."""
        ...

    @property
    def has_attention(self) -> bool:
        """Return whether words can be aligned."""
        ...

    def following(self, lines: Iterable[str]) -> Iterator[SourceSentence]:
        """Attach the previous sentences to each sentence."""
        ...

    def unread(self, pairs: Sequence[tuple[SourceSentence, str]], *, first: int = 1) -> dict[int, UnreadableInput]:
        """Find the pairs that are too long."""
        ...

    def score(self, pairs: Sequence[tuple[SourceSentence, str]]) -> list[ForcedScore]:
        """Compute the log-probabilities of given translations."""
        ...

    def align(self, source: SourceSentence, target: str | TextCandidate) -> TokenAlignment:
        """Return the attention of each target token to the source tokens."""
        ...

    def align_all(self, pairs: Sequence[tuple[SourceSentence, str | TextCandidate]]) -> list[TokenAlignment]:
        """Align many sentences."""
        ...

    def translate(
        self,
        sentences: Sequence[SourceSentence],
        *,
        search: SearchStrategy | None = None,
        length: LengthLimits | None = None,
        prefixes: Sequence[str] | None = None,
        constraints: Sequence[Sequence[TargetTerm | str]] | None = None,
        batch_tokens: int = 4096,
        tick: Callable[[int], None] | None = None,
        first: int = 1,
        heard: Callable[[int, TextCandidate], None] | None = None,
    ) -> list[Translation]:
        """Translate sentences, in their order, numbered from `first`. `search` and `length` replace the defaults;
        `prefixes` and `constraints` are required beginnings and terms. `tick` is called with the number of newly
        finished sentences, `heard` with the index of a sentence and its text so far.
        """
        ...


UNMET_TERM: Final = "a term that it should hold is not in the translation"
"""Note on a sentence whose translation lacks a required term (see `LineFormat.input_notes`)."""


@final
@dataclass(frozen=True)
class TranslationInput:
    """A sentence to translate, with the prefix and terms of its translation and the sentences before it."""

    text: str
    prefix: str = ""
    constraints: tuple[TargetTerm, ...] = ()
    before: tuple[str, ...] = ()


WordLinks = tuple[tuple[int, int], ...]
"""Pairs of a source and a target word, both counted from 0."""


def read_translation_inputs(lines: Iterable[str], *, name: str) -> Iterator[TranslationInput]:
    """Parse JSON lines with `source` and optionally `constraints` (a list of terms) and `prefix`; errors show `name`.

    Raises:
        DataError: a line is not valid; the message contains `name`, the name of the input.
    """
    for number, line in enumerate(lines, 1):
        try:
            record = parse_json(line)
        except ValueError:
            record = None
        if not isinstance(record, dict) or not isinstance(record.get("source"), str):
            raise DataError(f'{name}:{number}: is not a JSON object with a text "source"; write {{"source": "..."}}')
        if unknown_fields := record.keys() - {"source", "constraints", "prefix"}:
            raise DataError(
                f"{name}:{number}: {min(unknown_fields)!r} is not a valid field; give only source, constraints and "
                "prefix"
            )
        terms, prefix = record.get("constraints", []), record.get("prefix", "")
        if not isinstance(terms, list) or not all(isinstance(term, str) and term.strip() for term in terms):
            raise DataError(f'{name}:{number}: "constraints" is not a list of non-empty texts; correct it')
        if not isinstance(prefix, str):
            raise DataError(f'{name}:{number}: "prefix" is not a text; correct it')
        yield TranslationInput(record["source"], prefix, tuple(map(TargetTerm, terms)))


def add_context(sentences: Iterable[TranslationInput], translator: SentenceTranslator) -> Iterator[TranslationInput]:
    """Add the previous sentences that a translator reads to each input; an empty sentence ends a document."""
    inputs, texts = tee(sentences)
    for sentence, with_context in zip(inputs, translator.following(input_.text for input_ in texts), strict=True):
        yield replace(sentence, before=get_context(with_context))


@keep_old_names(asked="input_text", signs="warning_signs")
@dataclass(frozen=True)
class Translation:
    """The translation of one sentence; an empty line stays empty.

    Attributes:
        source: the given sentence.
        source_tokens: its pieces.
        candidates: best first.
        parts: translations of its parts if the sentence is longer than the model reads; see `join_translations`.
        cut: number of tokens that were not read, because their part is too long and cannot be split.
        constraints: required terms.
        unmet: required terms that the best translation lacks, because a piece is unknown or forbidden, or the length
            limit came first.
        before: previous sentences with which the source was read.
        doubts: warning signs of a calibrated model about the best translation.
    """

    source: str
    source_tokens: tuple[str, ...]
    candidates: tuple[TextCandidate, ...]
    parts: tuple[Translation, ...] = ()
    cut: int = 0
    constraints: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def input_text(self) -> SourceSentence:
        """The source as it was given to the translator, with its previous sentences."""
        return attach_context(self.source, self.before)

    @property
    def read_parts(self) -> list[Translation]:
        """The parts that the model read separately, or the translation itself; empty for an empty line."""
        return [part for part in self.parts or (self,) if part.source_tokens]

    @property
    def text(self) -> str:
        """The best translation."""
        return self.candidates[0].text

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on sentences that were split or cut, missing terms and warning signs; see `LineFormat.input_notes`."""
        conditions = {READ_IN_PARTS: self.parts, READ_TRUNCATED: self.cut, UNMET_TERM: self.unmet}
        return (*(note for note, holds in conditions.items() if holds), *self.warning_signs)

    @property
    def warning_signs(self) -> tuple[str, ...]:
        """Signs that the best translation may be wrong; see `hallucination_signs` and `doubts`."""
        return (*hallucination_signs(self.source, self.candidates[0]), *self.doubts) if self.source_tokens else ()


def join_translations(source: str, parts: Sequence[Translation]) -> Translation:
    """Join the translations of a sentence's parts, with the white space that separates them in the source.

    The best candidate is made of the best ones of all parts, the second of the second ones, and so on; a part with
    fewer candidates uses its last one. Log-probabilities and scores are sums over the parts.

    Args:
        source: the whole sentence.
        parts: in their order; their sources have no white space around them.
    """
    gaps = list(iter_gaps(source, (part.source for part in parts)))

    def join_candidates(rank: int) -> TextCandidate:
        """Join the candidates of all parts at this rank, or their last ones."""
        chosen = [part.candidates[min(rank, len(part.candidates) - 1)] for part in parts]
        texts = [
            text
            for gap, part_candidate in zip(gaps, chosen, strict=True)
            if part_candidate.text
            for text in (gap, part_candidate.text)
        ]
        return TextCandidate(
            "".join(texts[1:]),
            tuple(number for part_candidate in chosen for number in part_candidate.ids),
            tuple(piece for part_candidate in chosen for piece in part_candidate.tokens),
            sum(part_candidate.log_probability for part_candidate in chosen),
            sum(part_candidate.score for part_candidate in chosen),
            all(part_candidate.finished for part_candidate in chosen),
        )

    return Translation(
        source,
        tuple(piece for part in parts for piece in part.source_tokens),
        tuple(map(join_candidates, range(max(len(part.candidates) for part in parts)))),
        tuple(parts),
        sum(part.cut for part in parts),
        tuple(term for part in parts for term in part.constraints),
        tuple(term for part in parts for term in part.unmet),
        doubts=tuple(dict.fromkeys(doubt for part in parts for doubt in part.doubts)),
    )


def select_minimum_risk(
    translation: Translation, *, utility: PairwiseUtility, keep: int = 1, weighted: bool = False
) -> Translation:
    """Keep the `keep` candidates with the highest expected utility, which becomes their score; with `weighted`,
    candidates count by their probability.

    See `rank_by_expected_utility`.

    Each part of a split sentence is selected separately.

    Args:
        translation: with all its candidates.
        utility: compares two candidates.
        keep: number of candidates to keep.
        weighted: whether candidates are weighted by their probability, as needed for beam search; samples count
            equally.
    """
    if translation.parts:
        parts = [select_minimum_risk(part, utility=utility, keep=keep, weighted=weighted) for part in translation.parts]
        return join_translations(translation.source, parts)
    log_probabilities = [candidate.log_probability for candidate in translation.candidates] if weighted else None
    selected = rank_by_expected_utility(
        [candidate.text for candidate in translation.candidates], utility, log_probabilities=log_probabilities
    )[:keep]
    candidates = tuple(replace(translation.candidates[index], score=score) for index, score in selected)
    return replace(translation, candidates=candidates, doubts=())


class AlignmentRecord(AnswerRecord):
    """Attention weights of the tokens of a translation."""

    source: list[str]
    """tokens, the end included"""
    target: list[str]
    """likewise"""
    weights: list[list[float]]
    """a row for each target token"""


class TranslationRecord(AnswerRecord):
    """A translation, as `heedful translate --format jsonl` writes it."""

    source: str
    translation: str
    candidates: list[CandidateRecord]
    confidence: float | None = None
    """estimated quality of the translation, from models that were trained to predict it"""
    signs: Annotated[list[str], OMIT_EMPTY] = Field(default_factory=list)
    """suspicious properties of the translation"""
    constraints: Annotated[list[str], OMIT_EMPTY] = Field(default_factory=list)
    unmet: list[str] = Field(default_factory=list)
    """constraints that the translation does not contain"""
    cut: Annotated[int, OMIT_EMPTY] = 0
    """number of tokens at the end of the source that were not read"""
    parts: Annotated[list[TranslationRecord], OMIT_EMPTY] = Field(default_factory=list)
    """records of the parts of a source that is too long for the model"""
    alignment: AlignmentRecord | None = None


class PairScoreRecord(AnswerRecord):
    """Log-probability of a translation, as `heedful score --format jsonl` writes it."""

    log_probability: float
    """in nats"""
    count: int
    """tokens, the end included"""
    tokens: list[str]
    token_log_probabilities: list[float]


@keep_old_names(telling="best_weights", record="to_json")
@dataclass(frozen=True)
class TokenAlignment:
    """Attention weights [T, S] of target to source tokens, for each cross-attention by its path, averaged over heads.

    Attributes:
        source_tokens: with the end.
        target_tokens: with the end.
        weights: by path.
        guided: weights of the attention that was trained with word alignments, if there is one.
    """

    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    weights: dict[str, Float[np.ndarray, "T S"]]
    guided: Float[np.ndarray, "T S"] | None = None

    @property
    def best_weights(self) -> Float[np.ndarray, "T S"]:
        """Weights that align tokens best: those of the guided attention, otherwise of the last one."""
        return list(self.weights.values())[-1] if self.guided is None else self.guided

    def to_record(self) -> AlignmentRecord:
        """Return the record with the best weights."""
        return AlignmentRecord(
            source=list(self.source_tokens),
            target=list(self.target_tokens),
            weights=[[round(float(weight), 4) for weight in row] for row in self.best_weights],
        )

    @property
    def to_json(self) -> dict[str, Any]:
        """The record as JSON data."""
        return self.to_record().model_dump()


def link_words(
    weights: Float[np.ndarray, "T S"], *, source_words: Sequence[int], target_words: Sequence[int]
) -> WordLinks:
    """Align each target word with the source word of highest attention (Luong et al. 2015, section 4.4); `source_words`
    and `target_words` are the word numbers of the pieces.

    The weights of the pieces of a source word are added, and so are the rows of a target word. Pieces after the words
    (the ends of the sentences) and words without pieces are ignored.

    Args:
        weights: of each target piece to each source piece.
        source_words: number of the word of each source piece, -1 if it belongs to none; see
            `Translator.get_word_numbers`.
        target_words: number of the word of each target piece, likewise.
    """
    (source, source_index), (target, target_index) = (
        np.unique(np.array(word_numbers, int), return_inverse=True) for word_numbers in (source_words, target_words)
    )
    total = np.zeros((len(target), len(source)))
    rows, columns = np.meshgrid(target_index, source_index, indexing="ij")
    np.add.at(total, (rows, columns), weights[: len(target_words), : len(source_words)])
    total = total[target >= 0][:, source >= 0]
    if not total.size:
        return ()
    best = source[source >= 0][total.argmax(1)]
    return tuple(zip(best.tolist(), target[target >= 0].tolist(), strict=True))


def format_pharaoh(links: Iterable[tuple[int, int]]) -> str:
    """Format word links as a line of `source-target` pairs, the Pharaoh format."""
    return " ".join(f"{source}-{target}" for source, target in links)


def replace_unknown(translator: SentenceTranslator, translations: Sequence[Translation]) -> list[Translation]:
    """Replace every unknown piece in the translations of a translator by the source word of highest attention.

    Names and numbers are often the same in both languages (Luong et al. 2015, section 4.2, without their dictionary).

    Raises:
        RecipeError: the model has no attention to its source.
    """
    unknown = translator.target.special.unk
    parts = [part for translation in translations for part in translation.parts or (translation,)]
    candidates_with_unknown = [
        (translation.input_text, replacements)
        for translation in parts
        for replacements in translation.candidates
        if unknown in replacements.ids
    ]
    texts: dict[tuple[SourceSentence, TextCandidate], str] = {}
    for (source, candidate), alignment in zip(
        candidates_with_unknown, translator.align_all(candidates_with_unknown), strict=True
    ):
        surfaces = translator.source_encoder.get_surfaces(get_text(source))[: len(alignment.source_tokens) - 1]
        weights = alignment.best_weights[:, : len(surfaces)]
        word_weights = weights * [bool(surface) for surface in surfaces]  # a space is not a word
        known_texts = candidate.text.split(UNKNOWN_TEXT)
        replacements = [
            surfaces[int(word_weights[position].argmax())]
            for position, piece in enumerate(candidate.ids)
            if piece == unknown
        ]
        assert len(known_texts) == len(replacements) + 1, "each unknown piece reads as one mark"
        texts[source, candidate] = "".join(
            part for pair in zip(known_texts, [*replacements, ""], strict=True) for part in pair
        )

    def replace_in_translation(translation: Translation) -> Translation:
        """Replace unknown pieces in one translation."""
        if translation.parts:
            return replace(
                join_translations(translation.source, list(map(replace_in_translation, translation.parts))),
                before=translation.before,
            )
        candidates = (
            replace(candidate, text=texts.get((translation.input_text, candidate), candidate.text))
            for candidate in translation.candidates
        )
        return replace(translation, candidates=tuple(candidates))

    return list(map(replace_in_translation, translations))


@final
@dataclass(frozen=True)
class TranslationLineFormat(LineFormat[TranslationInput, tuple[int, Translation]]):
    """One sentence per line; its translation, or several with number and score, separated by tabs.

    Attributes:
        translator: of the sentences.
        search: replaces the translator's search.
        length: replaces the translator's length limits.
        all_candidates: whether all candidates are written.
        batch_tokens: padded source tokens of a batch.
        align: whether JSON contains the attention of each token.
        replaces_unknown: whether unknown pieces are replaced by source words.
        on_progress: called with the number of finished sentences.
    """

    translator: SentenceTranslator
    search: SearchStrategy | None = None
    length: LengthLimits | None = None
    all_candidates: bool = False
    batch_tokens: int = 4096
    align: bool = False
    replaces_unknown: bool = False
    on_progress: Callable[[int], None] | None = None

    def parse_lines(self, lines: Iterable[str], *, source_name: str) -> Iterator[TranslationInput]:
        """Convert lines to sentences without prefix and required terms."""
        return add_context(map(TranslationInput, lines), self.translator)

    def answer_inputs(self, inputs: Sequence[TranslationInput], *, start: int) -> list[tuple[int, Translation]]:
        """Translate the sentences and number the results from `start`."""
        translations = self.translator.translate(
            [attach_context(input_.text, input_.before) for input_ in inputs],
            search=self.search,
            length=self.length,
            prefixes=[input_.prefix for input_ in inputs] if any(input_.prefix for input_ in inputs) else None,
            constraints=[input_.constraints for input_ in inputs]
            if any(input_.constraints for input_ in inputs)
            else None,
            batch_tokens=self.batch_tokens,
            tick=self.on_progress,
            first=start,
        )
        if self.replaces_unknown:
            translations = replace_unknown(self.translator, translations)
        return list(enumerate(translations, start))

    def to_record(self, answer: tuple[int, Translation]) -> TranslationRecord:
        """Return all candidates with their scores, and the same for each part of a split sentence."""
        return self._build_record(answer[1])

    def _build_record(self, translation: Translation) -> TranslationRecord:
        """Build the record of a translation and of its parts. It has the expected quality if the model is calibrated,
        missing terms if terms were required, and the alignment if `align` is set and the sentence was not split.
        """
        fields: dict[str, Any] = {}  # those that are absent unless they are known
        if self.translator.confidence is not None and translation.source_tokens:
            fields["confidence"] = round(self.translator.confidence.predict_chrf(translation.candidates[0]), 3)
        if translation.constraints:
            fields["unmet"] = list(translation.unmet)
        if self.align and translation.source_tokens and not translation.parts:
            alignment = self.translator.align(translation.input_text, translation.candidates[0])
            fields["alignment"] = alignment.to_record()
        return TranslationRecord(
            source=translation.source,
            translation=translation.text,
            candidates=[candidate.to_record() for candidate in translation.candidates],
            signs=list(translation.warning_signs),
            constraints=list(translation.constraints),
            cut=translation.cut,
            parts=list(map(self._build_record, translation.parts)),
            **fields,
        )

    def format_answer(self, answer: tuple[int, Translation]) -> str:
        """Format the best translation, or one line for each candidate."""
        number, translation = answer
        if not self.all_candidates:
            return f"{translation.text}\n"
        return "".join(
            f"{number}\t{escape_cell(candidate.text)}\t{candidate.score:.4f}\n" for candidate in translation.candidates
        )

    def input_notes(self, answer: tuple[int, Translation]) -> Iterator[str]:
        """Return notes on sentences that are too long or lack a term, and warning signs."""
        return iter(answer[1].notes)


@final
@dataclass(frozen=True)
class ScoreLineFormat(LineFormat[tuple[SourceSentence, str], ForcedScore]):
    """One sentence and its translation per line, separated by a tab; log-probability and number of tokens.

    Attributes:
        translator: that scores.
    """

    translator: SentenceTranslator
    chunk_size: ClassVar = sys.maxsize

    def parse_lines(self, lines: Iterable[str], *, source_name: str) -> Iterator[tuple[str, str]]:
        """Split each line into sentence and translation; raise DataError with `source_name` if there is no tab."""
        for number, line in enumerate(lines, 1):
            source, tab, target = line.partition("\t")
            if not tab:
                raise DataError(
                    f"{source_name}:{number}: no translation; write it behind its sentence, with a tab between them"
                )
            yield source, target

    def answer_inputs(
        self, inputs: Sequence[tuple[SourceSentence, str]], *, start: int
    ) -> list[ForcedScore | UnreadableInput]:
        """Score the pairs, numbered from `start`; those that are too long get an `UnreadableInput` instead."""
        return answer_readable(inputs, self.translator.unread(inputs, first=start), self.translator.score)

    def to_record(self, answer: ForcedScore) -> PairScoreRecord:
        """Return the record of a score, with the log-probability of each token."""
        return PairScoreRecord(
            log_probability=round(answer.log_probability, 5),
            count=answer.count,
            tokens=[*answer.tokens, "</s>"],
            token_log_probabilities=[round(log_probability, 5) for log_probability in answer.token_log_probabilities],
        )

    def format_answer(self, answer: ForcedScore) -> str:
        """Format a score as two columns."""
        return f"{answer.log_probability:.4f}\t{answer.count}\n"
