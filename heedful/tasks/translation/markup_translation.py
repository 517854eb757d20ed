"""Translation of segments with placeholders and markup without losing any; strategies with most context are tried
first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain, pairwise
from typing import Any, Final, TypeAlias, final

from heedful.data.context import SourceSentence, attach_context
from heedful.data.text_splitting import split_sentences
from heedful.data.token_offsets import compute_offsets
from heedful.errors import DataError, RecipeError
from heedful.localisation.markup_projection import TextSpan, WordAlignment, align_words, insert_parts
from heedful.localisation.placeholders import (
    has_message,
    insert_accelerator,
    list_unknown_marks,
    remove_accelerator,
    restore_placeholders,
    scan_placeholders,
)
from heedful.localisation.protection import (
    FramedSegment,
    ProtectedText,
    TextPiece,
    count_missing_codes,
    has_same_codes,
    protect_codes,
    split_at_codes,
    split_into_frames,
)
from heedful.localisation.segments import InlineCode, Segment, flatten_nodes, list_codes
from heedful.tasks.predictor import LineFormat
from heedful.tasks.translation.translations import SentenceTranslator, Translation, TranslationInput, add_context

TranslateFunction: TypeAlias = Callable[[Sequence[SourceSentence]], list[Translation]]
"""Translates texts, in their order."""


class Strategy(Enum):
    """How a segment was translated; strategies with more context come first."""

    BARE = "nothing had to be protected"
    COPIED = "placeholders copied by the model, markup put back by attention"
    PLACED = "placeholders cut out and put back by attention"
    PIECES = "translated in the pieces between placeholders"
    LOST = "not translated, since every way lost a placeholder"
    FORMS = "not translated, since a message of several forms (plural, select) is translated form by form"


UNTRANSLATED_STRATEGIES: Final = frozenset((Strategy.LOST, Strategy.FORMS))


_STRATEGY_ORDER: Final = tuple(Strategy)


@final
@dataclass(frozen=True, slots=True)
class SegmentResult:
    """The result of translating a segment.

    Attributes:
        target: its translation; None if it has none.
        strategy: the strategy that was used.
        placeholders: number of placeholders that its translation must contain.
        lost: number of these that it lacks.
        unchecked: parts of the source that look like placeholders but match no rule, so that they could not be checked.
    """

    target: Segment | None
    strategy: Strategy
    placeholders: int = 0
    lost: int = 0
    unchecked: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class _SegmentCore:
    """A line or sentence of a segment that is translated separately, with the sentences before it."""

    segment: Segment
    before: tuple[str, ...] = ()

    def with_context(self, text: str) -> SourceSentence:
        """Return a text of this core with the sentences before it, as it is translated."""
        return attach_context(text, self.before)


@final
@dataclass(frozen=True)
class MarkupTranslator:
    """Translates segments with a plain text model, and checks that the translations contain every code.

    Each line and sentence is translated separately. First, values stay in the text; if the model loses, changes or adds
    one, they are cut out like markup; if that fails too, and for models without attention, only the texts between codes
    are translated. `has_same_codes` checks the result of each strategy.

    Attributes:
        translator: whose attention is used.
        translate: translates texts; by default with the translator's own search.
    """

    translator: SentenceTranslator
    translate: TranslateFunction | None = None

    def translate_segments(
        self, segments: Sequence[Segment], *, accelerators: bool = True, before: Sequence[Sequence[Segment]] = ()
    ) -> list[SegmentResult]:
        """Translate segments, in their order. `before` has the previous segments of each in its document; with
        `accelerators`, menu accelerators are taken out and put into the translations.

        Args:
            segments: as in a file.
            accelerators: whether a sign before a letter may be a menu accelerator; see `remove_accelerator`.
            before: the previous segments of each in its document, nearest last, for translators with document context.
        """

        def split_segment(segment: Segment) -> list[FramedSegment]:
            return split_into_frames(remove_accelerator(segment)[0] if accelerators else segment, split=split_sentences)

        cleaned = [remove_accelerator(segment_) if accelerators else (segment_, "") for segment_ in segments]
        frames = [
            [] if has_message(segment) else split_into_frames(segment, split=split_sentences) for segment, _ in cleaned
        ]
        previous_frames = [
            [frame for segment_ in frames_of_one for frame in split_segment(segment_)] for frames_of_one in before
        ] or [[]] * len(frames)
        cores = [
            self._add_context(frames_of_one, previous)
            for frames_of_one, previous in zip(frames, previous_frames, strict=True)
        ]
        results = iter(self._translate_cores([core for frames_of_one in cores for core in frames_of_one]))
        return [
            _combine_results(segment, mark, frames_of_one, [next(results) for _ in frames_of_one])
            for (segment, mark), frames_of_one in zip(cleaned, frames, strict=True)
        ]

    def _add_context(self, frames: Sequence[FramedSegment], previous: Sequence[FramedSegment]) -> list[_SegmentCore]:
        """Build the core of each frame of a segment, with the sentences before it in the segment and in `previous`, the
        frames of the segments before.
        """
        if not self.translator.context:
            return [_SegmentCore(frame.core) for frame in frames]
        cores, recent = list[_SegmentCore](), deque[str](maxlen=self.translator.context)
        for index, frame in enumerate([*previous, *frames]):
            if index >= len(previous):
                cores.append(_SegmentCore(frame.core, tuple(recent)))
            if (text := protect_codes(frame.core).text).strip():
                recent.append(text)
        return cores

    def _translate_cores(self, cores: Sequence[_SegmentCore]) -> list[SegmentResult]:
        """Translate cores by the strategies in turn, until the result of one has all codes; cores without words stay as
        they are.
        """
        without_words = (core for core in cores if not protect_codes(core.segment, values=False).has_words)
        results = {core: SegmentResult(core.segment, Strategy.BARE) for core in without_words}
        pending = [core for core in dict.fromkeys(cores) if core not in results]
        for strategy, attempt in (
            (Strategy.COPIED, lambda remaining: self._translate_whole(remaining, values=True)),
            (Strategy.PLACED, lambda remaining: self._translate_whole(remaining, values=False)),
            (Strategy.PIECES, self._translate_pieces),
        ):
            for core, target in zip(pending, attempt(pending), strict=True):
                if target is not None and any(map(_is_nonblank_text, target)) and has_same_codes(core.segment, target):
                    results[core] = SegmentResult(
                        target, strategy if list_codes(scan_placeholders(core.segment)) else Strategy.BARE
                    )
            pending = [core for core in pending if core not in results]
        return [results.get(core, SegmentResult(None, Strategy.LOST)) for core in cores]

    def _translate_whole(self, cores: Sequence[_SegmentCore], *, values: bool) -> list[Segment | None]:
        """Translate whole cores, with or without `values` in the text; None if nothing shows where codes belong, or if
        the end of a text was not read.
        """
        texts = [protect_codes(core.segment, values=values) for core in cores]
        is_useful = [
            values or any(code.value for code in list_codes(scan_placeholders(core.segment))) for core in cores
        ]
        inputs = [core.with_context(text.text) for core, text in zip(cores, texts, strict=True)]
        requested = [
            input_
            for input_, text, is_worth in zip(inputs, texts, is_useful, strict=True)
            if text.has_words and is_worth
        ]
        translations = dict(zip(requested, self._translate_texts(requested), strict=True))
        complete = {input_: translation for input_, translation in translations.items() if not translation.cut}
        pairs = list(zip(texts, inputs, strict=True))
        alignments = self._align_translations(
            [(text, input_, complete[input_]) for text, input_ in pairs if text.parts and input_ in complete]
        )
        return [_restore_parts(text, complete.get(input_), alignments.get((text, input_))) for text, input_ in pairs]

    def _align_translations(
        self, texts: Sequence[tuple[ProtectedText, SourceSentence, Translation]]
    ) -> dict[tuple[ProtectedText, SourceSentence], WordAlignment]:
        """Return the word alignments of translations, each given with its protected text and the input that was
        translated; none for texts that were read in parts, or if the model has no attention.
        """
        unsplit = [item for item in texts if not item[2].parts and item[2].candidates[0].ids]
        try:
            alignments = self.translator.align_all(
                [(input_, translation.candidates[0]) for _, input_, translation in unsplit]
            )
        except RecipeError:  # a model without attention
            return {}
        alignments_of = {}
        for (text, input_, translation), alignment in zip(unsplit, alignments, strict=True):
            try:
                pieces = compute_offsets(self.translator.source, text.text)
            except DataError:  # its tokenizer reads something else than stands there
                continue
            weights = alignment.best_weights
            target_spans = self._target_spans(translation.candidates[0].ids)
            alignments_of[text, input_] = align_words(
                weights, source=(text.text, pieces), target=(translation.text, target_spans)
            )
        return alignments_of

    def _target_spans(self, ids: Sequence[int]) -> list[TextSpan]:
        """Return the span of each piece in a translation."""
        ends = [len(self.translator.target.decode(ids[:size])) for size in range(len(ids) + 1)]
        return [(start, max(start, stop)) for start, stop in pairwise(ends)]

    def _translate_pieces(self, cores: Sequence[_SegmentCore]) -> list[Segment | None]:
        """Translate the texts between the codes of each core separately and keep the codes in place; None if a text was
        not read to its end, or its translation is empty.
        """
        pieces_of = [split_at_codes(core.segment) for core in cores]
        pieces = (piece for core_pieces in pieces_of for piece in core_pieces)
        results = {piece.text: piece.text for piece in pieces if not isinstance(piece, InlineCode)}
        texts = [text for text in results if protect_codes(text).has_words]
        for text, translation in zip(texts, self._translate_texts(texts), strict=True):
            if translation.cut:
                del results[text]
            else:
                results[text] = translation.text
        return [_join_pieces(core_pieces, results) for core_pieces in pieces_of]

    def _translate_texts(self, texts: Sequence[SourceSentence]) -> list[Translation]:
        if not texts:
            return []
        return self.translate(texts) if self.translate else self.translator.translate(texts)


def _is_nonblank_text(part: str | InlineCode) -> bool:
    """Return whether a part is text that is not white space."""
    return isinstance(part, str) and bool(part.strip())


def _restore_parts(
    text: ProtectedText, translation: Translation | None, alignment: WordAlignment | None
) -> Segment | None:
    """Return a translation with the parts that were cut out of `text`; None if it is missing or empty, or if no
    alignment says where the parts belong.
    """
    if translation is None or not translation.text.strip():
        return None
    if not text.parts:
        return (translation.text.strip(),)
    return None if alignment is None else insert_parts(text, translation.text, alignment)


def _join_pieces(pieces: Sequence[TextPiece | InlineCode], translations: Mapping[str, str]) -> Segment | None:
    """Join pieces with their translations, given by their texts; None if a text has none."""
    texts = [piece.text for piece in pieces if not isinstance(piece, InlineCode) and piece.text]
    if not all(translations.get(text, "").strip() for text in texts):
        return None
    return flatten_nodes(
        part
        for piece in pieces
        for part in (
            [piece] if isinstance(piece, InlineCode) else [piece.before, translations[piece.text], piece.after]
        )
    )


def _combine_results(
    segment: Segment, mark: str, frames: Sequence[FramedSegment], results: Sequence[SegmentResult]
) -> SegmentResult:
    """Combine the results of the frames of a segment, check the whole translation again as it will be written, and
    insert the accelerator `mark`, if any; the result has no target if a frame has none or a code is lost.
    """
    if has_message(segment):
        return SegmentResult(None, Strategy.FORMS)
    strategy = max((result.strategy for result in results), key=_STRATEGY_ORDER.index, default=Strategy.BARE)
    targets = [result.target for result in results if result.target is not None]
    if len(targets) < len(frames):
        return SegmentResult(None, Strategy.LOST)
    target = flatten_nodes(
        chain.from_iterable(frame.wrap_core(core) for frame, core in zip(frames, targets, strict=True))
    )
    if not (has_same_codes(segment, target) and has_same_codes(_as_single_text(segment), _as_single_text(target))):
        return SegmentResult(None, Strategy.LOST)
    num_placeholders = sum(not code.raw.isspace() for code in list_codes(scan_placeholders(segment)))
    with_mark = insert_accelerator(target, mark) if mark else target
    return SegmentResult(
        restore_placeholders(with_mark),
        strategy,
        num_placeholders,
        count_missing_codes(segment, target),
        tuple(list_unknown_marks(segment)),
    )


def _as_single_text(segment: Segment) -> Segment:
    """Return a segment as one text, so that placeholders formed across parts are found too."""
    return ("".join(part if isinstance(part, str) else part.raw for part in segment),)


@final
@dataclass(frozen=True)
class MarkupLineFormat(LineFormat[TranslationInput, tuple[str, SegmentResult]]):
    """One sentence per line, translated with all its placeholders; unchanged if every strategy lost one.

    Attributes:
        translator: translator of the sentences.
    """

    translator: MarkupTranslator

    def parse_lines(self, lines: Iterable[str], *, source_name: str) -> Iterator[TranslationInput]:
        """Convert lines to sentences without prefixes."""
        return add_context(map(TranslationInput, lines), self.translator.translator)

    def answer_inputs(self, inputs: Sequence[TranslationInput], *, start: int) -> list[tuple[str, SegmentResult]]:
        """Translate the sentences; return the text of each with its result. The number `start` has no effect."""
        lines = [input_.text for input_ in inputs]
        before = [[(text,) for text in input_.before] for input_ in inputs]
        return list(
            zip(lines, self.translator.translate_segments([(line,) for line in lines], before=before), strict=True)
        )

    def to_json(self, answer: tuple[str, SegmentResult]) -> Any:
        """Convert a result to JSON data, with its strategy."""
        line, result = answer
        return {"source": line, "translation": _get_text(answer), "protected": result.strategy.name.lower()}

    def format_answer(self, answer: tuple[str, SegmentResult]) -> str:
        """Format the translation as a line."""
        return f"{_get_text(answer)}\n"

    def input_notes(self, answer: tuple[str, SegmentResult]) -> Iterator[str]:
        """Return the strategy if it had less context than a whole sentence."""
        if answer[1].strategy in (Strategy.PLACED, Strategy.PIECES, *UNTRANSLATED_STRATEGIES):
            yield answer[1].strategy.value


def _get_text(answer: tuple[str, SegmentResult]) -> str:
    """Return the translated line of an answer (source line and result), or the source if it was not translated."""
    line, result = answer
    if result.target is None:
        return line
    return "".join(part if isinstance(part, str) else part.raw for part in result.target)
