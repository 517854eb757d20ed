"""LibreTranslate's interface, at the root of the server: texts and files from one language to another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, final

from starlette.responses import Response

from heedful.data.identification import Identified
from heedful.serving.house import House
from heedful.serving.interruption import interruptible
from heedful.serving.languages import called
from heedful.serving.libretranslate.files import (
    FORMATS,
    MANY,
    Kept,
    Shelf,
    check_size,
    decoding_memory,
    opened,
    placed,
    suffix_of,
)
from heedful.serving.libretranslate.interpreters import AUTO, Interpreter, Interpreters
from heedful.serving.libretranslate.messages import (
    Detected,
    DetectMessage,
    FileMessage,
    FrontendSettings,
    Language,
    Named,
    Pair,
    Translated,
    TranslatedFile,
    TranslateMessage,
    read_asked,
    told,
)
from heedful.serving.libretranslate.texts import Order
from heedful.serving.refusal import wrong
from heedful.serving.routes import Asked, Route
from heedful.serving.settings import Limits
from heedful.tasks.translation.face import Translator

_GROUP: Final = "LibreTranslate"
_TYPING: Final = 500
"""Milliseconds without a key after which a page asks for a translation."""
_KEPT: Final = 10
"""Files of the largest size for which there is room on the shelf."""


def routes(house: House) -> Iterator[Route]:
    """Those of this protocol, where some model is known to translate one language to another."""
    desk = _Desk(house)
    if not desk.interpreters.ways:
        return
    source, target = next(iter(desk.interpreters.ways))
    both = {"source": source, "target": target}
    yield from _asking(desk, both)
    yield from _showing(desk)


def _asking(desk: _Desk, both: Mapping[str, str]) -> Iterator[Route]:
    """What has something done; `both` are languages, for examples."""
    asking: dict[str, Any] = {
        "reads": read_asked,
        "holds_key": True,
        "dialect": told,
        "barred": 403,
        "group": _GROUP,
    }
    yield Route(
        path="/translate",
        answer=desk.translate,
        about="translate a text, or several",
        takes=TranslateMessage,
        gives=Translated,
        examples=(
            {"q": "A dog runs.", **both},
            {"q": ["<p>A dog <b>runs</b>.</p>", "Hello!"], **both, "format": "html", "alternatives": 2},
        ),
        **asking,
    )
    yield Route(
        path="/detect",
        answer=desk.detect,
        about="which language a text is in",
        takes=DetectMessage,
        gives=Detected,
        many=True,
        examples=({"q": "A dog runs."},),
        **asking,
    )
    yield Route(
        path="/translate_file",
        answer=desk.translate_file,
        about="translate a file",
        takes=FileMessage,
        gives=TranslatedFile,
        files=True,
        examples=(both,),
        **asking,
    )


def _showing(desk: _Desk) -> Iterator[Route]:
    """What shows what there is."""
    showing: dict[str, Any] = {"method": "GET", "dialect": told, "group": _GROUP, "free": True}
    yield Route(
        path="/download_file/{name}",
        answer=desk.download_file,
        about="fetch a translated file",
        media="application/octet-stream",
        **showing,
    )
    yield Route(
        path="/languages",
        answer=desk.languages,
        about="what is translated to what",
        gives=Language,
        many=True,
        **showing,
    )
    yield Route(
        path="/frontend/settings",
        answer=desk.settings,
        about="what a page needs to know",
        gives=FrontendSettings,
        **showing,
    )


@final
class _Desk:
    """Answers what is asked of a house."""

    def __init__(self, house: House) -> None:
        self.interpreters = Interpreters(house.of(Translator))
        self._shelf = Shelf(size=_KEPT * house.settings.limits.file)

    async def translate(self, asked: Asked, message: TranslateMessage) -> Translated:
        """Texts, each from its own language where that is to be found out."""
        texts = message.texts
        _check(texts, message.alternatives, asked.house.settings.limits)
        target = self.interpreters.language(message.target, param="target")
        sources = [self._source(text, message.source, target=target) for text in texts]
        found = await self._translated(asked, message, target=target, sources=[each.language for each in sources])
        detected = [_detected(each) for each in sources] if message.source == AUTO else None
        others = [each[1:] for each in found] if message.alternatives else None
        if isinstance(message.q, list):
            return Translated(
                translatedText=[each[0] for each in found], detectedLanguage=detected, alternatives=others
            )
        return Translated(
            translatedText=found[0][0],
            detectedLanguage=detected and detected[0],
            alternatives=others and others[0],
        )

    async def detect(self, asked: Asked, message: DetectMessage) -> Sequence[Detected]:
        """The languages that a text may be in, the most probable first."""
        _check([message.q], 0, asked.house.settings.limits)
        first, *others = map(_detected, self.interpreters.ranked(message.q))
        return [first, *(each for each in others if each.confidence or not first.confidence)]

    async def translate_file(self, asked: Asked, message: FileMessage) -> TranslatedFile:
        """A file, for whose translation there is an address then."""
        upload = message.file
        check_size(upload, most=asked.house.settings.limits.file)
        suffix = suffix_of(upload)
        if suffix == MANY and message.source == AUTO:
            raise wrong(f"source: a {MANY} holds many languages; say which one is read", param="source")
        target = self.interpreters.language(message.target, param="target")
        named = None if message.source == AUTO else self.interpreters.language(message.source, param="source")
        content = upload.content
        async with asked.house.decoding.reserve_async(decoding_memory(upload, suffix), asked.term, name="file"):
            with placed(upload) as path:
                parse = partial(opened, path, source=named, target=target)
                file = await asked.house.files.run(asked.term, partial(interruptible, asked.term, parse))
                source = named or self._source(file.beginning(), AUTO, target=target).language
                interpreter = self.interpreters.between(source, target)
                if interpreter is not None:
                    order = Order(interpreter, asked.term, asked.house.settings.limits.tokens)
                    work = partial(interruptible, asked.term, partial(file.translated, order))
                    content = await interpreter.model.ask(asked.term, work)
        name = self._shelf.put(Kept(f"{Path(upload.name).stem}_{target}{suffix}", content))
        return TranslatedFile(translatedFileUrl=f"{asked.request.base_url}download_file/{name}")

    async def download_file(self, asked: Asked) -> Response:
        """A translated file."""
        kept = self._shelf.get(asked.request.path_params["name"])
        headers = {"Content-Disposition": kept.disposition, "Cache-Control": "no-store"}
        return Response(kept.content, media_type="application/octet-stream", headers=headers)

    async def languages(self, _asked: Asked) -> Sequence[Language]:
        """All, also those that nothing is made of."""
        return [
            Language(code=code, name=called(code), targets=list(self.interpreters.targets(code)))
            for code in self.interpreters.languages
        ]

    async def settings(self, asked: Asked) -> FrontendSettings:
        """What a page shows and allows."""
        settings = asked.house.settings
        source, target = next(iter(self.interpreters.ways))
        first = Named(code=source, name=called(source))
        if self.interpreters.profiles is not None:
            first = Named(code=AUTO, name="Detect language")
        return FrontendSettings(
            charLimit=settings.limits.characters,
            frontendTimeout=_TYPING,
            apiKeys=settings.access.keys is not None,
            keyRequired=settings.access.keys is not None,
            suggestions=False,
            filesTranslation=True,
            supportedFilesFormat=list(FORMATS),
            language=Pair(source=first, target=Named(code=target, name=called(target))),
        )

    def _source(self, text: str, asked: str, *, target: str) -> Identified:
        if asked == AUTO:
            return self.interpreters.identified(text, target=target)
        return Identified(self.interpreters.language(asked, param="source"), 1.0)

    async def _translated(
        self, asked: Asked, message: TranslateMessage, *, target: str, sources: Sequence[str]
    ) -> list[list[str]]:
        """The translations of each text, best first; those that one model makes are made together."""
        found = [[text] for text in message.texts]
        places: defaultdict[Interpreter | None, list[int]] = defaultdict(list)
        for place, source in enumerate(sources):
            places[self.interpreters.between(source, target)].append(place)
        places.pop(None, None)
        for interpreter, own in places.items():
            assert interpreter is not None
            order = Order(interpreter, asked.term, asked.house.settings.limits.tokens, message.alternatives)
            translate = partial(interruptible, asked.term, order.html) if message.format == "html" else order.plain
            work = partial(translate, [message.texts[place] for place in own])
            for place, texts in zip(own, await interpreter.model.ask(asked.term, work), strict=True):
                found[place] = texts
        return found


def _detected(found: Identified) -> Detected:
    return Detected(confidence=round(100 * found.probability, 1), language=found.language)


def _check(texts: Sequence[str], alternatives: int, limits: Limits) -> None:
    """`Refusal` where more is asked than is done for anybody."""
    characters = sum(map(len, texts))
    if characters > limits.characters:
        raise wrong(
            f"q: {characters:,} characters, and {limits.characters:,} are the most of a request; send fewer", param="q"
        )
    if len(texts) > limits.batch:
        raise wrong(f"q: {len(texts):,} texts, and {limits.batch:,} are the most of a request; send fewer", param="q")
    if alternatives > limits.alternatives:
        raise wrong(
            f"alternatives: {alternatives:,}, and {limits.alternatives:,} are the most; ask for fewer",
            param="alternatives",
        )
