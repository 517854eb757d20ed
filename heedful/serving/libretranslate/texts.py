"""Plain texts and HTML, translated so that what stands between their sentences stays as it is."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, final

from heedful.data.context import Readable
from heedful.data.forms.languages import SPACELESS, code_of
from heedful.data.sentences import sentences
from heedful.localisation.documents import Document, Unit
from heedful.localisation.encodings import Content
from heedful.localisation.html import Html
from heedful.localisation.placeholders import plain
from heedful.localisation.segments import Segment
from heedful.serving.libretranslate.interpreters import Interpreter
from heedful.serving.term import Term
from heedful.tasks.translation.protecting import Protecting
from heedful.tasks.translation.translations import Translation

_LINE: Final = re.compile(r"(?P<line>[^\r\n]*)(?P<end>\r\n|\r|\n|\Z)")
_PLACE: Final = Path("q")
"""For messages about a text that came without a file."""


@final
@dataclass(frozen=True)
class Order:
    """What somebody wants of texts.

    Attributes:
        interpreter: who translates them.
        term: how long that may take.
        tokens: most that are written for a sentence.
        alternatives: so many translations besides the best.
    """

    interpreter: Interpreter
    term: Term
    tokens: int
    alternatives: int = 0

    def translations(self, texts: Sequence[Readable]) -> list[Translation]:
        """Of sentences, as `heedful translate` finds them.

        Raises:
            Refusal: the time is over.
        """
        self.term.check()
        translator = self.interpreter.translator
        length = replace(translator.length, most=self.tokens)
        return translator.translate(texts, search=self.interpreter.search(self.alternatives), length=length)

    def plain(self, texts: Sequence[str]) -> list[list[str]]:
        """The best translation of each text, and others, each of them once.

        Every line is translated sentence by sentence; what stands between sentences and lines is kept.
        """
        following = self.interpreter.translator.following
        laid = [_laid(text) for text in texts]
        read = [sentence for own, _ in laid for sentence in following(sentence for _, sentence in own)]
        found = iter(self.translations(read))
        return [self._ranked(own, tail, [next(found) for _ in own]) for own, tail in laid]

    def html(self, texts: Sequence[str]) -> list[list[str]]:
        """The same of texts with tags, which stay with what they enclose; placeholders are kept too."""
        documents = [Html(Content(text), _PLACE) for text in texts]
        found, ranks = _Found(self), range(self.alternatives + 1)
        filled = [_filled(documents, found.protecting(rank)) for rank in ranks]
        return [list(dict.fromkeys(each)) for each in zip(*filled, strict=True)]

    def _ranked(self, own: Sequence[tuple[str, str]], tail: str, found: Sequence[Translation]) -> list[str]:
        """A text with the best translation of each sentence, then with the second of each, and so on; where a sentence
        has fewer, its last stands in.
        """
        gaps = [self._gap(gap, first=not number) for number, (gap, _) in enumerate(own)]
        most = max(len(each.candidates) for each in found)
        ranked = [[each.candidates[min(rank, len(each.candidates) - 1)].text for each in found] for rank in range(most)]
        texts = ("".join(part for pair in zip(gaps, each, strict=True) for part in pair) + tail for each in ranked)
        return list(dict.fromkeys(texts))

    def _gap(self, gap: str, *, first: bool) -> str:
        """What stands before a sentence; between sentences a space, unless the language that is written has none."""
        return gap or ("" if first or code_of(self.interpreter.target).code in SPACELESS else " ")


@final
@dataclass(frozen=True)
class _Found:
    """Sentences of one order with all their translations, so that each is looked for once, whatever its rank."""

    order: Order
    _known: dict[Readable, Translation] = field(default_factory=dict)

    def protecting(self, rank: int) -> Protecting:
        """What translates by what is of this rank, 0 being the best."""
        return Protecting(self.order.interpreter.translator, partial(self._ranked, rank))

    def _ranked(self, rank: int, texts: Sequence[Readable]) -> list[Translation]:
        wanted = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known.update(zip(wanted, self.order.translations(wanted), strict=True))
        return [replace(own, candidates=own.candidates[rank:] or own.candidates[-1:]) for own in self._of(texts)]

    def _of(self, texts: Sequence[Readable]) -> Iterator[Translation]:
        return (self._known[text] for text in texts)


def _laid(text: str) -> tuple[list[tuple[str, str]], str]:
    """The sentences of a text, each with what stands before it, and what stands behind the last; a line without a
    sentence has an empty one.
    """
    found, gap = list[tuple[str, str]](), ""
    for line in _LINE.finditer(text):
        if not line[0] and found:  # the end of the text, behind the end of its last line
            break
        place = 0
        for sentence in sentences(line["line"]) or [""]:
            start = line["line"].index(sentence, place)
            found.append((gap + line["line"][place:start], sentence))
            gap, place = "", start + len(sentence)
        gap = line["line"][place:] + line["end"]
    return found, gap


def _filled(documents: Sequence[Document], protecting: Protecting) -> list[str]:
    """Documents with their units translated, all of them together."""
    asked = [
        (number, place, unit)
        for number, document in enumerate(documents)
        for place, unit in enumerate(document.units)
        if plain(unit.source)
    ]
    count = protecting.translator.context
    before = [_before(asked[max(0, at - count) : at], of=number) for at, (number, _, _) in enumerate(asked)]
    outcomes = protecting.all([unit.source for _, _, unit in asked], accelerators=False, before=before)
    targets: defaultdict[int, dict[int, Segment]] = defaultdict(dict)
    for (number, place, _), outcome in zip(asked, outcomes, strict=True):
        if outcome.target is not None:
            targets[number][place] = outcome.target
    return [document.filled(targets[number]).decode() for number, document in enumerate(documents)]


def _before(near: Sequence[tuple[int, int, Unit]], *, of: int) -> list[Segment]:
    """Of the units before another one those of its document."""
    return [unit.source for number, _, unit in near if number == of]
