"""What a translator answers: translations, scores of given ones, alignments and links; how they stand in lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import tee
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

import numpy as np
from jaxtyping import Float

from heedful.data.context import Readable, before, readable, text_of
from heedful.data.parts import spaces
from heedful.data.tokenizers import UNKNOWN
from heedful.errors import DataError
from heedful.files import parse_json
from heedful.generation.search import Search
from heedful.tasks.faces import CUT, IN_PARTS, Lines, Unread, cell, despite
from heedful.tasks.searches import Length
from heedful.tasks.target import Candidate, ForcedScore
from heedful.tasks.translation.glossary import Term
from heedful.tasks.translation.signs import signs

if TYPE_CHECKING:
    from heedful.tasks.translation.face import Translator

UNMET: Final = "a term that it should hold is not in the translation"
"""What is told of a sentence (`Lines.notes`)."""


@final
@dataclass(frozen=True)
class Sentence:
    """What is to be translated, how that must begin, what it must hold, and the sentences that it follows."""

    text: str
    prefix: str = ""
    constraints: tuple[Term, ...] = ()
    before: tuple[str, ...] = ()


Links = tuple[tuple[int, int], ...]
"""Pairs of a source and a target word, both counted from 0."""


def read_sentences(lines: Iterable[str], *, name: str) -> Iterator[Sentence]:
    """JSON objects with `source` and, if wanted, `constraints`, a list of terms, and `prefix`; one a line.

    Raises:
        DataError: a line is none; `name` says in the message where it is from.
    """
    for number, line in enumerate(lines, 1):
        try:
            found = parse_json(line)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("source"), str):
            raise DataError(f'{name}:{number}: no JSON object with a text "source"; write {{"source": "..."}}')
        if odd := found.keys() - {"source", "constraints", "prefix"}:
            raise DataError(f"{name}:{number}: {min(odd)!r} is no field; give source, constraints and prefix alone")
        terms, prefix = found.get("constraints", []), found.get("prefix", "")
        if not isinstance(terms, list) or not all(isinstance(term, str) and term.strip() for term in terms):
            raise DataError(f'{name}:{number}: "constraints" is no list of texts that are not empty; mend it')
        if not isinstance(prefix, str):
            raise DataError(f'{name}:{number}: "prefix" is no text; mend it')
        yield Sentence(found["source"], prefix, tuple(map(Term, terms)))


def in_order(sentences: Iterable[Sentence], translator: Translator) -> Iterator[Sentence]:
    """Sentences with those that they follow, as far as a translator reads these; an empty one ends a document."""
    ours, texts = tee(sentences)
    for sentence, found in zip(ours, translator.following(each.text for each in texts), strict=True):
        yield replace(sentence, before=before(found))


@dataclass(frozen=True)
class Translation:
    """What became of one sentence; an empty line stays empty.

    Attributes:
        source: the sentence that was given.
        source_tokens: its pieces.
        candidates: best first.
        parts: where the sentence is longer than the model reads, what became of its parts; see `joined`.
        cut: tokens that were not read, since they stand in a part that is too long and cannot be split.
        constraints: what it was to hold.
        unmet: of these, what the best translation does not hold: since a piece is unknown or forbidden, or the length
            limit came first.
        before: sentences that the source follows, with which it was read.
        doubts: what a model that was calibrated finds suspicious of the best translation, as it was found.
    """

    source: str
    source_tokens: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    parts: tuple[Translation, ...] = ()
    cut: int = 0
    constraints: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def asked(self) -> Readable:
        """What was translated, as it was asked for."""
        return readable(self.source, self.before)

    @property
    def text(self) -> str:
        """The best translation."""
        return self.candidates[0].text

    @property
    def notes(self) -> tuple[str, ...]:
        """How the sentence was read if it is too long, whether it lacks a term, and what is suspicious of the best
        translation; see `Lines.notes`.
        """
        told = {IN_PARTS: self.parts, CUT: self.cut, UNMET: self.unmet}
        return (*(note for note, holds in told.items() if holds), *self.signs)

    @property
    def signs(self) -> tuple[str, ...]:
        """What is suspicious of the best translation; see `signs` and `doubts`."""
        return (*signs(self.source, self.candidates[0]), *self.doubts) if self.source_tokens else ()


def joined(source: str, parts: Sequence[Translation]) -> Translation:
    """The translation of a long sentence, made of those of its parts, with what stands between them in the source.

    Its best candidate is made of the best of each part, the second of the second ones, and so on; where a part has
    fewer, its last stands in. Log-probabilities and scores are sums over the parts.

    Args:
        source: the whole sentence.
        parts: in their order; their sources have no white space around them.
    """
    gaps = list(spaces(source, (part.source for part in parts)))

    def candidate(rank: int) -> Candidate:
        chosen = [part.candidates[min(rank, len(part.candidates) - 1)] for part in parts]
        texts = [text for gap, each in zip(gaps, chosen, strict=True) if each.text for text in (gap, each.text)]
        return Candidate(
            "".join(texts[1:]),
            tuple(number for each in chosen for number in each.ids),
            tuple(piece for each in chosen for piece in each.tokens),
            sum(each.log_probability for each in chosen),
            sum(each.score for each in chosen),
            all(each.finished for each in chosen),
        )

    return Translation(
        source,
        tuple(piece for part in parts for piece in part.source_tokens),
        tuple(map(candidate, range(max(len(part.candidates) for part in parts)))),
        tuple(parts),
        sum(part.cut for part in parts),
        tuple(term for part in parts for term in part.constraints),
        tuple(term for part in parts for term in part.unmet),
        doubts=tuple(dict.fromkeys(doubt for part in parts for doubt in part.doubts)),
    )


@dataclass(frozen=True)
class Alignment:
    """What each target token looked at: weights [T, S] of each cross-attention, by its path, averaged over heads.

    Attributes:
        source_tokens: with the end.
        target_tokens: with the end.
        weights: see above.
        guided: those of the attention that was taught by links of words, if one was.
    """

    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    weights: dict[str, Float[np.ndarray, "T S"]]
    guided: Float[np.ndarray, "T S"] | None = None

    @property
    def telling(self) -> Float[np.ndarray, "T S"]:
        """What says best which tokens belong together: the attention that was taught to, otherwise the last one."""
        return list(self.weights.values())[-1] if self.guided is None else self.guided

    @property
    def record(self) -> dict[str, Any]:
        """As JSON has it: what is most telling."""
        return {
            "source": list(self.source_tokens),
            "target": list(self.target_tokens),
            "weights": [[round(float(weight), 4) for weight in row] for row in self.telling],
        }


def link_words(weights: Float[np.ndarray, "T S"], *, source_words: Sequence[int], target_words: Sequence[int]) -> Links:
    """Each target word with the source word that it looked at most (Luong et al. 2015, section 4.4: the argmax).

    Weights on the pieces of one source word count together, as do the rows of one target word. What is behind the
    words, the ends of the sentences, is left out, and so are words without pieces.

    Args:
        weights: of each target piece on each source piece.
        source_words: the word of each source piece, -1 where it is no part of one; see `word_numbers`.
        target_words: the word of each target piece, likewise.
    """
    (source, read), (target, written) = (
        np.unique(np.array(each, int), return_inverse=True) for each in (source_words, target_words)
    )
    total = np.zeros((len(target), len(source)))
    rows, columns = np.meshgrid(written, read, indexing="ij")
    np.add.at(total, (rows, columns), weights[: len(target_words), : len(source_words)])
    total = total[target >= 0][:, source >= 0]
    if not total.size:
        return ()
    best = source[source >= 0][total.argmax(1)]
    return tuple(zip(best.tolist(), target[target >= 0].tolist(), strict=True))


def pharaoh(links: Iterable[tuple[int, int]]) -> str:
    """One line of `source-target` pairs, the format of Pharaoh and its heirs."""
    return " ".join(f"{source}-{target}" for source, target in links)


def replace_unknown(translator: Translator, translations: Sequence[Translation]) -> list[Translation]:
    """Translations in which every unknown piece is the piece of the source that it looked at most.

    Names and numbers are often the same in both languages (Luong et al. 2015, section 4.2, without their dictionary).

    Raises:
        RecipeError: the model has no attention to its source.
    """
    unknown = translator.target.special.unk
    read = [part for each in translations for part in each.parts or (each,)]
    lacking = [(each.asked, found) for each in read for found in each.candidates if unknown in found.ids]
    texts: dict[tuple[Readable, Candidate], str] = {}
    for (source, candidate), alignment in zip(lacking, translator.align_all(lacking), strict=True):
        surfaces = translator.reading.surfaces(text_of(source))[: len(alignment.source_tokens) - 1]
        weights = alignment.telling[:, : len(surfaces)]
        looked = weights * [bool(surface) for surface in surfaces]  # a space is no word
        known = candidate.text.split(UNKNOWN)
        found = [surfaces[int(looked[at].argmax())] for at, piece in enumerate(candidate.ids) if piece == unknown]
        assert len(known) == len(found) + 1, "each unknown piece reads as one mark"
        texts[source, candidate] = "".join(part for pair in zip(known, [*found, ""], strict=True) for part in pair)

    def known_words(each: Translation) -> Translation:
        if each.parts:
            return replace(joined(each.source, list(map(known_words, each.parts))), before=each.before)
        candidates = (replace(old, text=texts.get((each.asked, old), old.text)) for old in each.candidates)
        return replace(each, candidates=tuple(candidates))

    return list(map(known_words, translations))


@final
@dataclass(frozen=True)
class TranslationLines(Lines[Sentence, tuple[int, Translation]]):
    """A sentence a line; its translation, or several with number and score between tabs.

    Attributes:
        translator: who translates.
        search: how; the translator's way unless given.
        length: of translations, likewise.
        several: whether all candidates are told.
        batch_tokens: padded source tokens that are translated at one time.
        align: whether JSON tells what each token looked at.
        unknown: whether the source's words take the place of what the model has no piece for.
        tick: told how many sentences are finished.
    """

    translator: Translator
    search: Search | None = None
    length: Length | None = None
    several: bool = False
    batch_tokens: int = 4096
    align: bool = False
    unknown: bool = False
    tick: Callable[[int], None] | None = None

    def inputs(self, lines: Iterable[str], *, name: str) -> Iterator[Sentence]:
        """Sentences whose translations may be as they like."""
        return in_order(map(Sentence, lines), self.translator)

    def answers(self, inputs: Sequence[Sentence], *, first: int) -> list[tuple[int, Translation]]:
        """Numbers and translations."""
        found = self.translator.translate(
            [readable(each.text, each.before) for each in inputs],
            search=self.search,
            length=self.length,
            prefixes=[each.prefix for each in inputs] if any(each.prefix for each in inputs) else None,
            constraints=[each.constraints for each in inputs] if any(each.constraints for each in inputs) else None,
            batch_tokens=self.batch_tokens,
            tick=self.tick,
            first=first,
        )
        if self.unknown:
            found = replace_unknown(self.translator, found)
        return list(enumerate(found, first))

    def record(self, answer: tuple[int, Translation]) -> Any:
        """All candidates with their scores; of a sentence that was read in parts, the same of each part."""
        return self._record(answer[1])

    def _record(self, translation: Translation) -> dict[str, Any]:
        record: dict[str, Any] = {
            "source": translation.source,
            "translation": translation.text,
            "candidates": [each.record for each in translation.candidates],
        }
        if self.translator.confidence is not None and translation.source_tokens:
            record["confidence"] = round(self.translator.confidence.of(translation.candidates[0]), 3)
        if translation.signs:
            record["signs"] = list(translation.signs)
        if translation.constraints:
            record |= {"constraints": list(translation.constraints), "unmet": list(translation.unmet)}
        if translation.cut:
            record["cut"] = translation.cut
        if translation.parts:
            record["parts"] = list(map(self._record, translation.parts))
        elif self.align and translation.source_tokens:
            record["alignment"] = self.translator.align(translation.asked, translation.candidates[0]).record
        return record

    def text(self, answer: tuple[int, Translation]) -> str:
        """The best one, or a line for each."""
        number, translation = answer
        if not self.several:
            return f"{translation.text}\n"
        return "".join(f"{number}\t{cell(each.text)}\t{each.score:.4f}\n" for each in translation.candidates)

    def notes(self, answer: tuple[int, Translation]) -> Iterator[str]:
        """Of sentences that are too long, or lack a term."""
        return iter(answer[1].notes)


@final
@dataclass(frozen=True)
class ScoreLines(Lines[tuple[Readable, str], ForcedScore]):
    """A sentence and its translation a line with a tab between them; its log-probability and number of tokens.

    Attributes:
        translator: who judges.
    """

    translator: Translator
    chunk: ClassVar = sys.maxsize

    def inputs(self, lines: Iterable[str], *, name: str) -> Iterator[tuple[str, str]]:
        """Pairs."""
        for number, line in enumerate(lines, 1):
            source, tab, target = line.partition("\t")
            if not tab:
                raise DataError(
                    f"{name}:{number}: no translation; write it behind its sentence, with a tab between them"
                )
            yield source, target

    def answers(self, inputs: Sequence[tuple[Readable, str]], *, first: int) -> list[ForcedScore | Unread]:
        """Scores, but of pairs that are too long."""
        return despite(inputs, self.translator.unread(inputs, first=first), self.translator.score)

    def record(self, answer: ForcedScore) -> Any:
        """With each token's."""
        return {
            "log_probability": round(answer.log_probability, 5),
            "count": answer.count,
            "tokens": [*answer.tokens, "</s>"],
            "token_log_probabilities": [round(each, 5) for each in answer.token_log_probabilities],
        }

    def text(self, answer: ForcedScore) -> str:
        """Two columns."""
        return f"{answer.log_probability:.4f}\t{answer.count}\n"
