"""Plain texts and HTML, translated so that what stands between their sentences stays as it is."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, final

from heedful.data.context import SourceSentence
from heedful.data.detect.languages import SPACELESS_LANGUAGES, parse_language_code
from heedful.data.sentence_splitting import split_sentences
from heedful.localisation.documents import TranslatableDocument, TranslationUnit
from heedful.localisation.html_document import HtmlDocument
from heedful.localisation.placeholders import to_plain_text
from heedful.localisation.segments import Segment
from heedful.localisation.text_content import TextContent
from heedful.serving.deadline import RequestDeadline
from heedful.serving.libretranslate.directions import DirectedModel
from heedful.tasks.translation.markup_translation import MarkupTranslator
from heedful.tasks.translation.translations import Translation

_LINE: Final = re.compile(r"(?P<line>[^\r\n]*)(?P<end>\r\n|\r|\n|\Z)")
_TEXT_PATH: Final = Path("q")
"""For messages about a text that came without a file."""


@final
@dataclass(frozen=True)
class TextJob:
    """What somebody wants of texts.

    Attributes:
        directed_model: who translates them.
        deadline: how long that may take.
        max_tokens: most that are written for a sentence.
        alternatives: so many translations besides the best.
    """

    directed_model: DirectedModel
    deadline: RequestDeadline
    max_tokens: int
    alternatives: int = 0

    def translate_sentences(self, texts: Sequence[SourceSentence]) -> list[Translation]:
        """Of sentences, as `heedful translate` finds them.

        Raises:
            Refusal: the time is over.
        """
        self.deadline.raise_if_over()
        translator = self.directed_model.translator
        length = replace(translator.length, max_length=self.max_tokens)
        return translator.translate(texts, search=self.directed_model.get_search(self.alternatives), length=length)

    def translate_plain(self, texts: Sequence[str]) -> list[list[str]]:
        """The best translation of each text, and others, each of them once.

        Every line is translated sentence by sentence; what stands between sentences and lines is kept.
        """
        following = self.directed_model.translator.following
        split_texts = [_split_sentences(text) for text in texts]
        sentences_in_context = [
            sentence for pieces, _ in split_texts for sentence in following(sentence for _, sentence in pieces)
        ]
        translations = iter(self.translate_sentences(sentences_in_context))
        return [
            self._combine_ranks(pieces, ending, [next(translations) for _ in pieces]) for pieces, ending in split_texts
        ]

    def translate_html(self, texts: Sequence[str]) -> list[list[str]]:
        """The same of texts with tags, which stay with what they enclose; placeholders are kept too."""
        documents = [HtmlDocument(TextContent(text), _TEXT_PATH) for text in texts]
        ranked_translator, ranks = _RankedTranslator(self), range(self.alternatives + 1)
        texts_by_rank = [_translate_documents(documents, ranked_translator.build_protecting(rank)) for rank in ranks]
        return [list(dict.fromkeys(variants)) for variants in zip(*texts_by_rank, strict=True)]

    def _combine_ranks(
        self, pieces: Sequence[tuple[str, str]], tail: str, translations: Sequence[Translation]
    ) -> list[str]:
        """A text with the best translation of each sentence, then with the second of each, and so on; where a sentence
        has fewer, its last stands in.
        """
        gaps = [self._fill_gap(gap, is_first=not number) for number, (gap, _) in enumerate(pieces)]
        num_ranks = max(len(translation.candidates) for translation in translations)
        ranked = [
            [translation.candidates[min(rank, len(translation.candidates) - 1)].text for translation in translations]
            for rank in range(num_ranks)
        ]
        texts = (
            "".join(piece for pair in zip(gaps, translation, strict=True) for piece in pair) + tail
            for translation in ranked
        )
        return list(dict.fromkeys(texts))

    def _fill_gap(self, gap: str, *, is_first: bool) -> str:
        """What stands before a sentence; between sentences a space, unless the language that is written has none."""
        return gap or (
            "" if is_first or parse_language_code(self.directed_model.target).code in SPACELESS_LANGUAGES else " "
        )


@final
@dataclass(frozen=True)
class _RankedTranslator:
    """Sentences of one order with all their translations, so that each is looked for once, whatever its rank."""

    job: TextJob
    _cache: dict[SourceSentence, Translation] = field(default_factory=dict)

    def build_protecting(self, rank: int) -> MarkupTranslator:
        """What translates by what is of this rank, 0 being the best."""
        return MarkupTranslator(self.job.directed_model.translator, partial(self._translate_at_rank, rank))

    def _translate_at_rank(self, rank: int, texts: Sequence[SourceSentence]) -> list[Translation]:
        uncached = [text for text in dict.fromkeys(texts) if text not in self._cache]
        self._cache.update(zip(uncached, self.job.translate_sentences(uncached), strict=True))
        return [
            replace(translation, candidates=translation.candidates[rank:] or translation.candidates[-1:])
            for translation in self._lookup(texts)
        ]

    def _lookup(self, texts: Sequence[SourceSentence]) -> Iterator[Translation]:
        return (self._cache[text] for text in texts)


def _split_sentences(text: str) -> tuple[list[tuple[str, str]], str]:
    """The sentences of a text, each with what stands before it, and what stands behind the last; a line without a
    sentence has an empty one.
    """
    sentence_gaps, gap = list[tuple[str, str]](), ""
    for line in _LINE.finditer(text):
        if not line[0] and sentence_gaps:  # the end of the text, behind the end of its last line
            break
        position = 0
        for sentence in split_sentences(line["line"]) or [""]:
            start = line["line"].index(sentence, position)
            sentence_gaps.append((gap + line["line"][position:start], sentence))
            gap, position = "", start + len(sentence)
        gap = line["line"][position:] + line["end"]
    return sentence_gaps, gap


def _translate_documents(documents: Sequence[TranslatableDocument], protecting: MarkupTranslator) -> list[str]:
    """Documents with their units translated, all of them together."""
    units = [
        (document_index, index, unit)
        for document_index, document in enumerate(documents)
        for index, unit in enumerate(document.units)
        if to_plain_text(unit.source)
    ]
    context_size = protecting.translator.context
    contexts = [
        _select_context(units[max(0, position - context_size) : position], document_index=document_index)
        for position, (document_index, _, _) in enumerate(units)
    ]
    outcomes = protecting.translate_segments([unit.source for _, _, unit in units], accelerators=False, before=contexts)
    targets: defaultdict[int, dict[int, Segment]] = defaultdict(dict)
    for (document_index, index, _), outcome in zip(units, outcomes, strict=True):
        if outcome.target is not None:
            targets[document_index][index] = outcome.target
    return [
        document.fill_targets(targets[document_index]).decode() for document_index, document in enumerate(documents)
    ]


def _select_context(
    previous_units: Sequence[tuple[int, int, TranslationUnit]], *, document_index: int
) -> list[Segment]:
    """Of the units before another one those of its document."""
    return [unit.source for other_index, _, unit in previous_units if other_index == document_index]
