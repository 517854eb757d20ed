"""Translate plain texts and HTML so that everything between the sentences is kept."""

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
from heedful.data.text_splitting import split_sentences
from heedful.localisation.documents import TranslatableDocument, TranslationUnit
from heedful.localisation.html_document import HtmlDocument
from heedful.localisation.placeholders import to_plain_text
from heedful.localisation.segments import Segment
from heedful.localisation.text_content import TextContent
from heedful.serving.deadline import RequestDeadline
from heedful.serving.directions import DirectedModel
from heedful.tasks.predictor import iter_chunks
from heedful.tasks.translation.markup_translation import MarkupTranslator
from heedful.tasks.translation.translations import Translation

_LINE: Final = re.compile(r"(?P<line>[^\r\n]*)(?P<end>\r\n|\r|\n|\Z)")
_CHUNK_SIZE: Final = 4096
"""Number of sentences of a text that are translated together."""
_TEXT_PATH: Final = Path("q")
"""Path in messages about a text that came without a file."""


@final
@dataclass(frozen=True)
class TextJob:
    """Translation parameters of one request, with methods that translate its texts.

    Attributes:
        directed_model: model for its languages.
        deadline: of the request.
        max_tokens: tokens that are generated for a sentence at most.
        alternatives: number of translations besides the best one.
    """

    directed_model: DirectedModel
    deadline: RequestDeadline
    max_tokens: int
    alternatives: int = 0

    def translate_sentences(self, texts: Sequence[SourceSentence]) -> list[Translation]:
        """Translate sentences as `heedful translate` does.

        Raises:
            HTTPError: the deadline has passed.
        """
        self.deadline.raise_if_over()
        translator = self.directed_model.translator
        length = replace(translator.length, max_length=self.max_tokens)
        return translator.translate(texts, search=self.directed_model.get_search(self.alternatives), length=length)

    def translate_plain(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the distinct translations of each text, best first.

        Each line is translated sentence by sentence; what stands between sentences and lines is kept.
        """
        following = self.directed_model.translator.following
        split_texts = [_split_sentences(text) for text in texts]
        sentences_in_context = [
            sentence for pieces, _ in split_texts for sentence in following(sentence for _, sentence in pieces)
        ]
        translations = self._iter_candidate_texts(sentences_in_context)
        return [
            self._combine_ranks(pieces, ending, [next(translations) for _ in pieces]) for pieces, ending in split_texts
        ]

    def translate_html(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the distinct translations of each HTML text, best first; tags stay with what they enclose, and
        placeholders are kept.
        """
        documents = [HtmlDocument(TextContent(text), _TEXT_PATH) for text in texts]
        ranked_translator, ranks = _RankedTranslator(self), range(self.alternatives + 1)
        texts_by_rank = [_translate_documents(documents, ranked_translator.build_protecting(rank)) for rank in ranks]
        return [list(dict.fromkeys(variants)) for variants in zip(*texts_by_rank, strict=True)]

    def _iter_candidate_texts(self, sentences: Sequence[SourceSentence]) -> Iterator[Sequence[str]]:
        """Translate sentences in chunks, and yield the texts of each sentence's candidates; everything else of a chunk
        is dropped before the next one, because a file may have a million sentences.
        """
        for chunk in iter_chunks(sentences, _CHUNK_SIZE):
            for translation in self.translate_sentences(chunk):
                yield [candidate.text for candidate in translation.candidates]

    def _combine_ranks(
        self, pieces: Sequence[tuple[str, str]], tail: str, translations: Sequence[Sequence[str]]
    ) -> list[str]:
        """Join the best translations of all sentences into one text, then the second ones, and so on; a sentence with
        fewer candidates repeats its last one. `pieces` are pairs of what stands before a sentence and the sentence;
        `tail` is added at the end.
        """
        gaps = [self._fill_gap(gap, is_first=not number) for number, (gap, _) in enumerate(pieces)]
        num_ranks = max(map(len, translations))
        ranked = [
            [candidates[min(rank, len(candidates) - 1)] for candidates in translations] for rank in range(num_ranks)
        ]
        texts = (
            "".join(piece for pair in zip(gaps, translation, strict=True) for piece in pair) + tail
            for translation in ranked
        )
        return list(dict.fromkeys(texts))

    def _fill_gap(self, gap: str, *, is_first: bool) -> str:
        """Return what stands before a sentence (`gap`). If it is empty, return a space, unless the sentence is the
        first one of the text or the target language is written without spaces.
        """
        return gap or (
            "" if is_first or parse_language_code(self.directed_model.target).code in SPACELESS_LANGUAGES else " "
        )


@final
@dataclass(frozen=True)
class _RankedTranslator:
    """Caches the translations of one job's sentences with all their candidates, so that each sentence is translated
    once for all ranks.
    """

    job: TextJob
    _cache: dict[SourceSentence, Translation] = field(default_factory=dict)

    def build_protecting(self, rank: int) -> MarkupTranslator:
        """Return a translator for marked-up segments that uses the candidates of this rank, where 0 is the best."""
        return MarkupTranslator(self.job.directed_model.translator, partial(self._translate_at_rank, rank))

    def _translate_at_rank(self, rank: int, texts: Sequence[SourceSentence]) -> list[Translation]:
        """Translate texts, and drop the candidates that are better than this rank, where 0 is the best; the last
        candidate always stays.
        """
        uncached = [text for text in dict.fromkeys(texts) if text not in self._cache]
        self._cache.update(zip(uncached, self.job.translate_sentences(uncached), strict=True))
        return [
            replace(translation, candidates=translation.candidates[rank:] or translation.candidates[-1:])
            for translation in map(self._cache.__getitem__, texts)
        ]


def _split_sentences(text: str) -> tuple[list[tuple[str, str]], str]:
    """Split a text into pairs of what stands before a sentence and the sentence, and what stands behind the last one; a
    line without a sentence has an empty sentence.
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
    """Translate the units of all documents together with the translator `protecting`, which keeps their markup, and
    return the documents as texts.
    """
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
    """Return the sources of those previous units (document index, unit index, unit) that belong to this document."""
    return [unit.source for other_index, _, unit in previous_units if other_index == document_index]
