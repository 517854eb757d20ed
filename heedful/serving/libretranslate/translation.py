"""Translate texts, HTML and uploaded files so that everything between the sentences is kept; files are stored for
some minutes.
"""

from __future__ import annotations

import io
import re
import struct
import tempfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, final
from urllib.parse import quote

from heedful.compression import detect_compression
from heedful.data.context import SourceSentence
from heedful.data.detect.languages import SPACELESS_LANGUAGES, parse_language_code
from heedful.data.text_splitting import split_sentences
from heedful.errors import DataError
from heedful.localisation.documents import (
    TextContent,
    TranslatableDocument,
    TranslationUnit,
    decode_text,
    read_file_bytes,
)
from heedful.localisation.files import BINARY_SUFFIXES, DOCUMENT_SUFFIXES, read_document
from heedful.localisation.html_document import HtmlDocument
from heedful.localisation.placeholders import to_plain_text
from heedful.localisation.segments import Segment
from heedful.serving.deadline import RequestDeadline
from heedful.serving.directions import DirectedModel
from heedful.serving.http_errors import bad_request
from heedful.serving.libretranslate.messages import UploadedFile
from heedful.tasks.predictor import iter_chunks
from heedful.tasks.translation.document_translation import translate_document
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


_TEXT_SUFFIX: Final = ".txt"
MULTILINGUAL_SUFFIX: Final = ".tmx"
"""Suffix of files that hold many languages."""
FORMATS: Final = tuple(sorted((*DOCUMENT_SUFFIXES, _TEXT_SUFFIX)))
"""Suffixes of the files that can be translated."""
_MAX_UNPACK_RATIO: Final = 5
"""Maximum size of an unpacked office document, as a multiple of the size limit of files."""


@final
@dataclass(frozen=True)
class _MemoryCost:
    """Bytes of memory for reading and rewriting a file of one format.

    Attributes:
        per_byte: for each byte of the unpacked file.
        signs: bytes with which the parts of a file begin or end.
        per_sign: for each of these in the file.
    """

    per_byte: int
    signs: tuple[bytes, ...] = ()
    per_sign: int = 0


_MARKUP_SIGNS: Final = (b"<", b"=", b"&")
_MARKUP_COST: Final = _MemoryCost(30, _MARKUP_SIGNS, 1_650)
_OFFICE_COST: Final = _MemoryCost(30, _MARKUP_SIGNS, 2_300)
_PO_COST: Final = _MemoryCost(40, (b'"',), 900)
_SRT_COST: Final = _MemoryCost(60, (b"\n", b"\r"), 800)
_TEXT_COST: Final = _MemoryCost(80, (b"\n", b"\r"), 200)
_MEMORY_COSTS: Final[Mapping[str, _MemoryCost]] = {
    **dict.fromkeys((".html", ".htm", ".xhtml", ".xlf", ".xliff", ".tmx"), _MARKUP_COST),
    **dict.fromkeys(BINARY_SUFFIXES, _OFFICE_COST),
    **dict.fromkeys((".po", ".pot"), _PO_COST),
    ".srt": _SRT_COST,
    _TEXT_SUFFIX: _TEXT_COST,
}
"""Costs by suffix, about 1.5 times what was measured.

Measured is the peak of a process that reads a file, translates it without a model, and writes it, for each byte of the
file. The files have 0.3 MB (unpacked) and as little text as possible:

- HTML: 254 for `<p>a`, 146 for `<p>&lt;a`, 140 for different inline tags, 130 for `<i title=a>`, 37 for an ordinary
  page.
- XLIFF and TMX: 203 for `<x/>a`, 211 for `<g>a</g>`, 178 for `<x/>`, 153 for attributes, 52 to 72 for short units.
- Office documents: 239 for `<w:br/>` and 205 for `<a/>` in one paragraph of a DOCX, 181 for `<a/>a` in an ODT, 44 to 66
  for short paragraphs, 20 for an ordinary DOCX.
- PO: 127 for short messages, 59 for ordinary ones, 24 for strings and comments of one letter.
- SRT: 268 for lines of one letter, 125 for empty lines, 88 for short subtitles.
- Text: 118 for lines of one letter, 52 for Chinese sentences of one character.
"""
_READ_SIZE: Final = 1 << 18
"""Bytes of an unpacked file that are counted at a time."""
_ZIP_ERRORS: Final = (
    zipfile.BadZipFile,
    zlib.error,
    ValueError,
    EOFError,
    OSError,
    struct.error,
    NotImplementedError,
    RuntimeError,
)
"""Errors of a file that is not a valid zip file, or is encrypted; its reader rejects it."""
_DETECTION_CHARACTERS: Final = 20_000
"""Number of characters of a file that are used for language identification."""


class TranslatableFile(ABC):
    """The content of a file that can be translated.

    Abstract.
    """

    @abstractmethod
    def sample_text(self) -> str:
        """Return some text from the start of the file, for language identification."""

    @abstractmethod
    def translate(self, job: TextJob) -> bytes:
        """Translate the file, and return its new bytes."""


@final
@dataclass(frozen=True)
class _PlainTextFile(TranslatableFile):
    """A text file, which is translated like a text without a file."""

    content: TextContent
    path: Path

    def sample_text(self) -> str:
        """Return the first characters of the file."""
        return self.content.text[:_DETECTION_CHARACTERS]

    def translate(self, job: TextJob) -> bytes:
        """Translate the text, and return it in its original encoding."""
        return self.content.encode(job.translate_plain([self.content.text])[0][0], path=self.path)


@final
@dataclass(frozen=True)
class _DocumentFile(TranslatableFile):
    """A file of translation units, which is translated as by `heedful translate`."""

    document: TranslatableDocument

    def sample_text(self) -> str:
        """Return the text of the first units, for language identification."""
        texts, num_characters = list[str](), 0
        for unit in self.document:
            if num_characters >= _DETECTION_CHARACTERS:
                break
            if unit.translatable:
                texts.append(to_plain_text(unit.source))
                num_characters += len(texts[-1])
        return "\n".join(texts)[:_DETECTION_CHARACTERS]

    def translate(self, job: TextJob) -> bytes:
        """Translate the units with a job, and return the bytes of the file with their translations."""
        return translate_document(
            self.document, MarkupTranslator(job.directed_model.translator, job.translate_sentences)
        ).content


def check_suffix(upload: UploadedFile) -> str:
    """Return the suffix of an upload's file name; raise an `HTTPError` if the format is not supported or the file
    is compressed.
    """
    suffix = Path(upload.name).suffix.lower()
    if suffix not in FORMATS:
        raise bad_request(
            f"file: the format of {upload.name[:80]!r} is not one of {', '.join(FORMATS)}; convert the file to one of "
            "these",
            param="file",
        )
    if (compression := detect_compression(upload.content)) is not None:  # a few bytes can stand for many
        raise bad_request(f"file: is compressed by {compression.name}; send it unpacked", param="file")
    return suffix


def check_size(upload: UploadedFile, *, max_bytes: int) -> None:
    """Raise an `HTTPError` if an uploaded file has more than `max_bytes`, or if its unpacked content has more than five
    times as many bytes.
    """
    size = len(upload.content)
    if size > max_bytes:
        raise bad_request(f"file: has {size:,} bytes; the maximum is {max_bytes:,}: send it in parts", param="file")
    unpacked = _unpacked_size(upload.content)
    if unpacked > _MAX_UNPACK_RATIO * max_bytes:
        raise bad_request(
            f"file: unpacks to {unpacked:,} bytes; the maximum is {_MAX_UNPACK_RATIO * max_bytes:,}: send it in parts",
            param="file",
        )


def estimate_memory(upload: UploadedFile, suffix: str) -> int:
    """Estimate the bytes of memory that reading and rewriting an uploaded file takes at most, by the costs of the
    format with this suffix; this unpacks office documents.
    """
    cost = _MEMORY_COSTS[suffix]
    size = len(upload.content)
    for chunk in _iter_unpacked(upload.content) if suffix in BINARY_SUFFIXES else (upload.content,):
        size += cost.per_byte * len(chunk) + cost.per_sign * sum(map(chunk.count, cost.signs))
    return size


def _iter_unpacked(content: bytes) -> Iterator[bytes]:
    """Yield the unpacked bytes of an office document in parts, given the content of its zip file; members that are
    damaged end early.
    """
    with suppress(*_ZIP_ERRORS), zipfile.ZipFile(io.BytesIO(content)) as file:
        for member in file.infolist():
            with suppress(*_ZIP_ERRORS), file.open(member) as stream:
                while chunk := stream.read(_READ_SIZE):
                    yield chunk


def _unpacked_size(content: bytes) -> int:
    """Return the number of unpacked bytes of an office document, given the content of its file; 0 if it is not a valid
    zip file, which its reader rejects.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            return sum(member.file_size for member in file.infolist())
    except _ZIP_ERRORS:
        return 0


@contextmanager
def save_upload(upload: UploadedFile) -> Iterator[Path]:
    """Store an upload as a temporary file during the block; errors refer to it by its original name."""
    with tempfile.TemporaryDirectory(prefix="heedful-") as folder:
        path = Path(folder) / f"file{check_suffix(upload)}"
        path.write_bytes(upload.content)
        try:
            yield path
        except DataError as error:
            message = str(error).replace(str(path), upload.name[:80])
            raise bad_request(f"file: {message}", param="file") from None


def open_translatable(path: Path, *, source: str | None, target: str) -> TranslatableFile:
    """Read a file for translation.

    Args:
        path: of the file.
        source: its language, which multilingual formats need.
        target: language to translate into, which they need too.

    Raises:
        DataError: the file is damaged, or has another format than its name says.
    """
    if path.suffix == _TEXT_SUFFIX:
        return _PlainTextFile(decode_text(read_file_bytes(path), path=path), path)
    return _DocumentFile(read_document(path, source=source, target=target))


@final
@dataclass(frozen=True)
class StoredFile:
    """A translated file that waits to be downloaded.

    Attributes:
        name: under which the client saves it.
        content: its bytes.
    """

    name: str
    content: bytes

    @property
    def content_disposition(self) -> str:
        """Value of the Content-Disposition header, with the name in ASCII and in UTF-8."""
        simple = re.sub(r"[^A-Za-z0-9._-]", "_", self.name)
        return f"attachment; filename=\"{simple}\"; filename*=UTF-8''{quote(self.name, safe='')}"
