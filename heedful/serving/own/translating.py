"""Translations, their scores and their links in our own interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from heedful.data.context import readable
from heedful.inspection.record import Record
from heedful.serving.house import House, Model
from heedful.serving.languages import called
from heedful.serving.own.answers import Answers, LinkRecord, ScoreRecord, TranslationRecord
from heedful.serving.own.asking import listed, look_plainly, require_within, told
from heedful.serving.own.events import Event, streamed
from heedful.serving.own.messages import Inspect, Pairs, Searching, Translate
from heedful.serving.own.ways import translator_for, ways_of
from heedful.serving.refusal import wrong
from heedful.serving.routes import Asked, Route
from heedful.serving.settings import Limits
from heedful.serving.uses import Use, is_served
from heedful.tasks.faces import Lines, Unread, despite
from heedful.tasks.searches import Length, build_length, build_search
from heedful.tasks.target import Candidate
from heedful.tasks.translation.face import Translator
from heedful.tasks.translation.glossary import Term
from heedful.tasks.translation.translations import (
    Alignment,
    Links,
    ScoreLines,
    Sentence,
    TranslationLines,
    in_order,
    pharaoh,
)

GROUP = "translation"
_SHORT: Final = 32
"""Tokens of a growing translation whose alignment is told each time; of longer ones now and then, since it is large."""


def _first(translator: Translator) -> object:
    one = translator.towards(translator.languages[0]) if translator.languages else translator
    return one.translate(["a"])


def _look(asked: Asked, model: Model[Any], message: Inspect) -> Callable[[], Record]:
    _, face = translator_for(asked.house, model.name, use="translate", source=None, to=message.to)
    return look_plainly(face, message)


def _facts(model: Model[Any]) -> Mapping[str, Any]:
    ways = ways_of(model)
    known = dict.fromkeys(language for way in ways for language in way if language is not None)
    return {"ways": [list(way) for way in ways], "languages": {each: called(each) for each in known}}


USES = (
    Use("translate", (Translator,), "translate", _first, _look, _facts),
    Use("score", (Translator,), "translate"),
    Use("align", (Translator,), "translate"),
)


def routes(house: House) -> Iterator[Route]:
    """Those of translators, where there are any."""
    if not is_served(house, "translate"):
        return
    yield Route(
        path="/v1/heedful/translate",
        answer=_translate,
        about="translate texts",
        takes=Translate,
        gives=Answers[TranslationRecord],
        group=GROUP,
        examples=({"texts": "A dog runs."},),
    )
    yield Route(
        path="/v1/heedful/score",
        answer=_score,
        about="how probable given translations are",
        takes=Pairs,
        gives=Answers[ScoreRecord],
        group=GROUP,
    )
    yield Route(
        path="/v1/heedful/align",
        answer=_align,
        about="which words of given translations belong together",
        takes=Pairs,
        gives=Answers[LinkRecord],
        group=GROUP,
    )


def length_for(message: Searching, length: Length, limits: Limits, *, longest: int) -> Length:
    """How long answers may become; `Refusal` where somebody asks for more tokens than are granted.

    Args:
        message: what is asked.
        length: what it comes to.
        limits: what is granted.
        longest: tokens of the longest source.
    """
    most = length.limit(longest)
    if message.lengthened and most > limits.tokens:
        raise wrong(
            f"max_ratio, max_extra: {most:,} tokens for the longest source; this server writes at most "
            f"{limits.tokens:,}: ask for less"
        )
    return length


def translation_lines(asked: Asked, translator: Translator, message: Translate) -> TranslationLines:
    """How a translator answers this message; `RecipeError` where its options do not fit each other."""
    config = message.config(translator.generation)
    limits = asked.house.settings.limits
    return replace(
        translator.lines(),
        search=build_search(config, translator.target, n_best=message.n_best, seed=message.seed),
        length=length_for(message, build_length(config), limits, longest=translator.max_source),
        several=message.n_best > 1,
        align=message.align,
        tick=lambda _: asked.term.check(),
    )


def sentences(translator: Translator, message: Translate) -> list[Sentence]:
    """The texts, how their translations must begin, and what they must hold; `Refusal` where counts differ."""
    texts = listed(message.texts)
    if message.prefix is not None and message.prefixes is not None:
        raise wrong("prefix, prefixes: give one of them", param="prefix")
    for name in ("prefixes", "constraints"):
        given = getattr(message, name)
        if given is not None and len(given) != len(texts):
            raise wrong(f"{name}: {len(given):,} for {len(texts):,} texts; give one for each", param=name)
    begun = message.prefixes or [message.prefix or ""] * len(texts)
    held = message.constraints or [[] for _ in texts]
    given = (
        Sentence(text, prefix, tuple(map(Term, terms))) for text, prefix, terms in zip(texts, begun, held, strict=True)
    )
    return list(in_order(given, translator))


async def _translate(asked: Asked, message: Translate) -> Any:
    require_within(asked, message, texts=len(listed(message.texts)))
    model, translator = translator_for(
        asked.house, message.model, use="translate", source=message.source, to=message.to
    )
    lines = translation_lines(asked, translator, message)
    wanted = sentences(translator, message)
    if not message.stream:
        return await told(asked, model, lines, wanted)
    if len(wanted) > 1:
        raise wrong(f"stream: tells one translation, and there are {len(wanted):,} texts; give one", param="stream")
    return await streamed(asked, model, lambda say: _grow(asked, model.name, lines, wanted[0], say))


def _grow(asked: Asked, name: str, lines: TranslationLines, sentence: Sentence, say: Callable[[Event], None]) -> None:
    """Tells the best text so far of a sentence, and in the end its record."""
    translator, text = lines.translator, readable(sentence.text, sentence.before)
    aligned = lines.align and translator.attentive and not translator.unread([(text, "")])

    def heard(_place: int, candidate: Candidate) -> None:
        asked.term.check()
        content: dict[str, Any] = {"text": candidate.text, "tokens": list(candidate.tokens)}
        if aligned and candidate.ids and len(candidate.ids) % (1 + len(candidate.ids) // _SHORT) == 0:
            content["alignment"] = _begun(translator.align(text, candidate))
        say(("growing", content))

    (found,) = translator.translate(
        [text],
        search=lines.search,
        length=lines.length,
        prefixes=[sentence.prefix] if sentence.prefix else None,
        constraints=[sentence.constraints] if sentence.constraints else None,
        tick=lines.tick,
        heard=heard,
    )
    say(("record", {"model": name, "answers": [lines.record((1, found))]}))


def _begun(alignment: Alignment) -> dict[str, Any]:
    """Of a translation that has not ended."""
    record = alignment.record
    return {**record, "target": record["target"][:-1], "weights": record["weights"][:-1]}


async def _score(asked: Asked, message: Pairs) -> Mapping[str, Any]:
    return await _paired(asked, message, use="score", kind=ScoreLines)


async def _align(asked: Asked, message: Pairs) -> Mapping[str, Any]:
    return await _paired(asked, message, use="align", kind=_LinkLines)


async def _paired(asked: Asked, message: Pairs, *, use: str, kind: Any) -> Mapping[str, Any]:
    require_within(asked, message, texts=len(message.pairs))
    model, translator = translator_for(asked.house, message.model, use=use, source=message.source, to=message.to)
    return await told(asked, model, kind(translator), [(source, target) for source, target in message.pairs])


@dataclass(frozen=True)
class _LinkLines(Lines[tuple[str, str], Links]):
    """A sentence and its translation; which of their words belong together."""

    translator: Translator
    chunk: ClassVar = 256

    def inputs(self, lines: Any, *, name: str) -> Iterator[tuple[str, str]]:
        """As scores have them."""
        return ScoreLines(self.translator).inputs(lines, name=name)

    def answers(self, inputs: Any, *, first: int) -> list[Links | Unread]:
        """Links, but of pairs that are too long."""
        return despite(inputs, self.translator.unread(inputs, first=first), self.translator.link)

    def record(self, answer: Links) -> dict[str, Any]:
        """Numbers of words from 0, and the same as Pharaoh has it."""
        return {"links": [list(link) for link in answer], "pharaoh": pharaoh(answer)}
