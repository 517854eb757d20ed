"""Segments with placeholders and markup, translated so that none is lost: the way with most context goes first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain, pairwise
from typing import Any, Final, TypeAlias, final

from heedful.data.context import Readable, readable
from heedful.data.offsets import offsets
from heedful.data.sentences import sentences
from heedful.errors import DataError, RecipeError
from heedful.localisation.placeholders import (
    has_forms,
    scanned,
    spelled,
    unchecked,
    with_accelerator,
    without_accelerator,
)
from heedful.localisation.projection import Links, Span, links, placed
from heedful.localisation.protection import Framed, Piece, Protected, framed, kept, lacking, pieces, protect
from heedful.localisation.segments import Code, Segment, codes, flat
from heedful.tasks.faces import Lines
from heedful.tasks.translation.face import Translator
from heedful.tasks.translation.translations import Sentence, Translation, in_order

Translate: TypeAlias = Callable[[Sequence[Readable]], list[Translation]]
"""Translations of texts, in their order."""


class Way(Enum):
    """How a segment was translated, those with more context first."""

    BARE = "nothing had to be protected"
    COPIED = "placeholders copied by the model, markup put back by attention"
    PLACED = "placeholders cut out and put back by attention"
    PIECES = "translated in the pieces between placeholders"
    LOST = "not translated, since every way lost a placeholder"
    FORMS = "not translated, since a message of several forms (plural, select) is translated form by form"


UNTRANSLATED: Final = frozenset((Way.LOST, Way.FORMS))


_ORDER: Final = tuple(Way)


@final
@dataclass(frozen=True)
class Outcome:
    """What became of a segment.

    Attributes:
        target: its translation; None if it has none.
        way: that was taken.
        placeholders: that its translation must have.
        lost: how many of these it does not have.
        unchecked: what in the source looks like a placeholder and is none by any rule, so that nobody knows whether
            the translation must have it.
    """

    target: Segment | None
    way: Way
    placeholders: int = 0
    lost: int = 0
    unchecked: tuple[str, ...] = ()


@final
@dataclass(frozen=True)
class _Core:
    """A line or sentence of a segment that goes by itself, and what it follows."""

    segment: Segment
    before: tuple[str, ...] = ()

    def read(self, text: str) -> Readable:
        """One of the texts that stand for it, as it is translated."""
        return readable(text, self.before)


@final
@dataclass(frozen=True)
class Protecting:
    """Translates segments by a model that knows plain text only, and has every code of theirs in what it writes.

    Each line and sentence goes by itself. First, values stand in what the model reads; where it has lost or changed
    one, or made one up, they are cut out as markup is; where that fails too, and for models that attend to nothing,
    only what stands between codes is translated. `kept` judges what comes out of each way.

    Attributes:
        translator: whose attention is asked.
        translate: how texts are translated; by the translator's own search unless given.
    """

    translator: Translator
    translate: Translate | None = None

    def all(
        self, segments: Sequence[Segment], *, accelerators: bool = True, before: Sequence[Sequence[Segment]] = ()
    ) -> list[Outcome]:
        """What becomes of segments, in their order.

        Args:
            segments: as a file has them.
            accelerators: whether a sign before a letter may choose a text from a menu; see `without_accelerator`.
            before: those before each of them in its document, the nearest last, for translators that read these.
        """

        def cut(segment: Segment) -> list[Framed]:
            return framed(without_accelerator(segment)[0] if accelerators else segment, split=sentences)

        bare = [without_accelerator(each) if accelerators else (each, "") for each in segments]
        frames = [[] if has_forms(segment) else framed(segment, split=sentences) for segment, _ in bare]
        earlier = [[frame for each in own for frame in cut(each)] for own in before] or [[]] * len(frames)
        cores = [self._following(own, lead) for own, lead in zip(frames, earlier, strict=True)]
        found = iter(self._cores([core for own in cores for core in own]))
        return [
            _whole(segment, mark, own, [next(found) for _ in own])
            for (segment, mark), own in zip(bare, frames, strict=True)
        ]

    def _following(self, frames: Sequence[Framed], earlier: Sequence[Framed]) -> list[_Core]:
        """What goes by itself, with what it follows: in its segment, and in those before."""
        if not self.translator.context:
            return [_Core(frame.core) for frame in frames]
        found, seen = list[_Core](), deque[str](maxlen=self.translator.context)
        for number, frame in enumerate([*earlier, *frames]):
            if number >= len(earlier):
                found.append(_Core(frame.core, tuple(seen)))
            if (text := protect(frame.core).text).strip():
                seen.append(text)
        return found

    def _cores(self, cores: Sequence[_Core]) -> list[Outcome]:
        """The outcome of each of them."""
        bare = (core for core in cores if not protect(core.segment, values=False).has_words)
        found = {core: Outcome(core.segment, Way.BARE) for core in bare}
        waiting = [core for core in dict.fromkeys(cores) if core not in found]
        for way, attempt in (
            (Way.COPIED, lambda left: self._attempt(left, values=True)),
            (Way.PLACED, lambda left: self._attempt(left, values=False)),
            (Way.PIECES, self._in_pieces),
        ):
            for core, target in zip(waiting, attempt(waiting), strict=True):
                if target is not None and any(map(_is_said, target)) and kept(core.segment, target):
                    found[core] = Outcome(target, way if codes(scanned(core.segment)) else Way.BARE)
            waiting = [core for core in waiting if core not in found]
        return [found.get(core, Outcome(None, Way.LOST)) for core in cores]

    def _attempt(self, cores: Sequence[_Core], *, values: bool) -> list[Segment | None]:
        """Translations of whole segments, with or without `values` in them; None where nothing tells where codes go."""
        texts = [protect(core.segment, values=values) for core in cores]
        worth = [values or any(code.value for code in codes(scanned(core.segment))) for core in cores]
        read = [core.read(text.text) for core, text in zip(cores, texts, strict=True)]
        asked = [each for each, text, is_worth in zip(read, texts, worth, strict=True) if text.has_words and is_worth]
        said = dict(zip(asked, self._said(asked), strict=True))
        found = {each: translation for each, translation in said.items() if not translation.cut}
        both = list(zip(texts, read, strict=True))
        attended = self._links([(text, each, found[each]) for text, each in both if text.parts and each in found])
        return [_put_back(text, found.get(each), attended.get((text, each))) for text, each in both]

    def _links(
        self, read: Sequence[tuple[Protected, Readable, Translation]]
    ) -> dict[tuple[Protected, Readable], Links]:
        """What each word of translations looked at; nothing of texts that were read in parts."""
        whole = [each for each in read if not each[2].parts and each[2].candidates[0].ids]
        try:
            alignments = self.translator.align_all([(asked, said.candidates[0]) for _, asked, said in whole])
        except RecipeError:  # a model without attention
            return {}
        found = {}
        for (text, asked, said), alignment in zip(whole, alignments, strict=True):
            try:
                pieces = offsets(self.translator.source, text.text)
            except DataError:  # its tokenizer reads something else than stands there
                continue
            weights = alignment.telling
            written = self._written(said.candidates[0].ids)
            found[text, asked] = links(weights, source=(text.text, pieces), target=(said.text, written))
        return found

    def _written(self, ids: Sequence[int]) -> list[Span]:
        """Where each piece of a translation stands in it."""
        ends = [len(self.translator.target.decode(ids[:size])) for size in range(len(ids) + 1)]
        return [(start, max(start, stop)) for start, stop in pairwise(ends)]

    def _in_pieces(self, cores: Sequence[_Core]) -> list[Segment | None]:
        """Translations of what stands between codes, with the codes where they were; each piece by itself."""
        cut = [pieces(core.segment) for core in cores]
        texts = [piece.text for own in cut for piece in own if not isinstance(piece, Code)]
        texts = [text for text in dict.fromkeys(texts) if protect(text).has_words]
        said = {text: found.text for text, found in zip(texts, self._said(texts), strict=True) if not found.cut}
        known = {piece.text: piece.text for own in cut for piece in own if not isinstance(piece, Code)}
        known = {text: text for text in known if text not in texts} | said
        return [_joined(own, known) for own in cut]

    def _said(self, texts: Sequence[Readable]) -> list[Translation]:
        if not texts:
            return []
        return self.translate(texts) if self.translate else self.translator.translate(texts)


def _is_said(part: str | Code) -> bool:
    return isinstance(part, str) and bool(part.strip())


def _put_back(text: Protected, said: Translation | None, attended: Links | None) -> Segment | None:
    if said is None or not said.text.strip():
        return None
    if not text.parts:
        return (said.text.strip(),)
    return None if attended is None else placed(text, said.text, attended)


def _joined(cut: Sequence[Piece | Code], known: Mapping[str, str]) -> Segment | None:
    """Pieces with their translations; None where one has none."""
    texts = [piece.text for piece in cut if not isinstance(piece, Code) and piece.text]
    if not all(known.get(text, "").strip() for text in texts):
        return None
    return flat(
        part
        for piece in cut
        for part in ([piece] if isinstance(piece, Code) else [piece.before, known[piece.text], piece.after])
    )


def _whole(segment: Segment, mark: str, frames: Sequence[Framed], outcomes: Sequence[Outcome]) -> Outcome:
    """The outcomes of the parts of a segment as one, which is judged once more as it will be written."""
    if has_forms(segment):
        return Outcome(None, Way.FORMS)
    way = max((outcome.way for outcome in outcomes), key=_ORDER.index, default=Way.BARE)
    targets = [outcome.target for outcome in outcomes if outcome.target is not None]
    if len(targets) < len(frames):
        return Outcome(None, Way.LOST)
    target = flat(chain.from_iterable(frame.around(core) for frame, core in zip(frames, targets, strict=True)))
    if not (kept(segment, target) and kept(_written(segment), _written(target))):
        return Outcome(None, Way.LOST)
    needed = sum(not code.raw.isspace() for code in codes(scanned(segment)))
    marked = with_accelerator(target, mark) if mark else target
    return Outcome(spelled(marked), way, needed, lacking(segment, target), tuple(unchecked(segment)))


def _written(segment: Segment) -> Segment:
    """A segment as one text, so that what forms a placeholder only beside its neighbours is seen too."""
    return ("".join(part if isinstance(part, str) else part.raw for part in segment),)


@final
@dataclass(frozen=True)
class ProtectedLines(Lines[Sentence, tuple[str, Outcome]]):
    """A sentence a line, translated with all its placeholders; as it is where every way lost one.

    Attributes:
        protecting: what translates.
    """

    protecting: Protecting

    def inputs(self, lines: Iterable[str], *, name: str) -> Iterator[Sentence]:
        """Sentences; none has a beginning of its translation."""
        return in_order(map(Sentence, lines), self.protecting.translator)

    def answers(self, inputs: Sequence[Sentence], *, first: int) -> list[tuple[str, Outcome]]:
        """Sentences with what became of them."""
        lines = [each.text for each in inputs]
        before = [[(text,) for text in each.before] for each in inputs]
        return list(zip(lines, self.protecting.all([(line,) for line in lines], before=before), strict=True))

    def record(self, answer: tuple[str, Outcome]) -> Any:
        """With the way that was taken."""
        line, outcome = answer
        return {"source": line, "translation": _text(answer), "protected": outcome.way.name.lower()}

    def text(self, answer: tuple[str, Outcome]) -> str:
        """The translation."""
        return f"{_text(answer)}\n"

    def notes(self, answer: tuple[str, Outcome]) -> Iterator[str]:
        """The ways with less context than a whole sentence."""
        if answer[1].way in (Way.PLACED, Way.PIECES, *UNTRANSLATED):
            yield answer[1].way.value


def _text(answer: tuple[str, Outcome]) -> str:
    line, outcome = answer
    if outcome.target is None:
        return line
    return "".join(part if isinstance(part, str) else part.raw for part in outcome.target)
