"""Routes of LibreTranslate's interface: translate texts and files, and identify languages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, final

from starlette.responses import Response

from heedful.data.language_identification import LanguagePrediction
from heedful.serving.deadline import run_interruptible
from heedful.serving.directions import AUTO, DirectedModel, TranslationDirections
from heedful.serving.http_errors import bad_request, unavailable
from heedful.serving.languages import language_name
from heedful.serving.libretranslate.files import (
    FORMATS,
    MULTILINGUAL_SUFFIX,
    StoredFile,
    TranslatedFileStore,
    check_size,
    check_suffix,
    estimate_memory,
    open_translatable,
    save_upload,
)
from heedful.serving.libretranslate.messages import (
    DefaultLanguages,
    DetectMessage,
    FrontendSettings,
    LanguageDetection,
    LanguageOption,
    LanguageTargets,
    TranslateFileMessage,
    TranslateFileResult,
    TranslateMessage,
    TranslateResult,
    format_error,
    read_fields,
)
from heedful.serving.libretranslate.texts import TextJob
from heedful.serving.registry import ModelRegistry
from heedful.serving.routes import RequestContext, Route
from heedful.serving.settings import ServerLimits
from heedful.tasks.translation.translator import Translator

_GROUP: Final = "LibreTranslate"
_TYPING_PAUSE: Final = 500
"""Milliseconds without a keystroke after which a web page requests a translation."""
_MAX_STORED_FILES: Final = 10
"""Number of files of the maximum size for which the store has room."""


def iter_routes(registry: ModelRegistry) -> Iterator[Route]:
    """Yield the routes of LibreTranslate's interface, if the languages of any served model are known."""
    handlers = _LibreTranslateHandlers(registry)
    if not handlers.directions.models_by_pair:
        return
    source, target = next(iter(handlers.directions.models_by_pair))
    example_languages = {"source": source, "target": target}
    yield from _iter_task_routes(handlers, example_languages)
    yield from _iter_info_routes(handlers)


def _iter_task_routes(handlers: _LibreTranslateHandlers, example_languages: Mapping[str, str]) -> Iterator[Route]:
    """Yield the routes that translate or identify languages.

    Args:
        handlers: that answer them.
        example_languages: `source` and `target` fields for the examples.
    """
    common_options: dict[str, Any] = {
        "read_fields": read_fields,
        "key_in_body": True,
        "format_error": format_error,
        "unauthorized_status": 403,
        "group": _GROUP,
    }
    yield Route(
        path="/translate",
        handler=handlers.translate,
        summary="translate a text, or several",
        request_type=TranslateMessage,
        response_type=TranslateResult,
        examples=(
            {"q": "A dog runs.", **example_languages},
            {"q": ["<p>A dog <b>runs</b>.</p>", "Hello!"], **example_languages, "format": "html", "alternatives": 2},
        ),
        **common_options,
    )
    yield Route(
        path="/detect",
        handler=handlers.detect,
        summary="which language a text is in",
        request_type=DetectMessage,
        response_type=LanguageDetection,
        is_list=True,
        examples=({"q": "A dog runs."},),
        **common_options,
    )
    yield Route(
        path="/translate_file",
        handler=handlers.translate_file,
        summary="translate a file",
        request_type=TranslateFileMessage,
        response_type=TranslateFileResult,
        accepts_files=True,
        examples=(example_languages,),
        **common_options,
    )


def _iter_info_routes(handlers: _LibreTranslateHandlers) -> Iterator[Route]:
    """Yield the public routes that return languages, settings and translated files."""
    common_options: dict[str, Any] = {"method": "GET", "format_error": format_error, "group": _GROUP, "public": True}
    yield Route(
        path="/download_file/{name}",
        handler=handlers.download_file,
        summary="fetch a translated file",
        media_type="application/octet-stream",
        **common_options,
    )
    yield Route(
        path="/languages",
        handler=handlers.list_languages,
        summary="what is translated to what",
        response_type=LanguageTargets,
        is_list=True,
        **common_options,
    )
    yield Route(
        path="/frontend/settings",
        handler=handlers.describe_settings,
        summary="what a page needs to know",
        response_type=FrontendSettings,
        **common_options,
    )


@final
class _LibreTranslateHandlers:
    """Handlers of the routes, with the translation directions and stored files that they share."""

    def __init__(self, registry: ModelRegistry) -> None:
        self.directions = TranslationDirections(registry.find_models(Translator))
        self._file_store = TranslatedFileStore(max_bytes=_MAX_STORED_FILES * registry.settings.limits.file)

    async def translate(self, context: RequestContext, message: TranslateMessage) -> TranslateResult:
        """Translate texts, each from its own language if the source is `auto`."""
        texts = message.texts
        _check_limits(texts, message.alternatives, context.registry.settings.limits)
        target = self.directions.match_served(message.target, param="target")
        sources = [self._identify_source(text, message.source, target=target) for text in texts]
        translations = await self._translate_texts(
            context, message, target=target, sources=[item.language for item in sources]
        )
        detected_languages = [_format_detection(item) for item in sources] if message.source == AUTO else None
        alternatives = [item[1:] for item in translations] if message.alternatives else None
        if isinstance(message.q, list):
            return TranslateResult(
                translatedText=[item[0] for item in translations],
                detectedLanguage=detected_languages,
                alternatives=alternatives,
            )
        return TranslateResult(
            translatedText=translations[0][0],
            detectedLanguage=detected_languages and detected_languages[0],
            alternatives=alternatives and alternatives[0],
        )

    async def detect(self, context: RequestContext, message: DetectMessage) -> Sequence[LanguageDetection]:
        """Return the possible languages of a text, the most probable first."""
        _check_limits([message.q], 0, context.registry.settings.limits)
        first, *alternatives = map(_format_detection, self.directions.rank_languages(message.q))
        return [first, *(candidate for candidate in alternatives if candidate.confidence or not first.confidence)]

    async def translate_file(self, context: RequestContext, message: TranslateFileMessage) -> TranslateFileResult:
        """Translate a file, store the result, and return its download URL.

        A server that is shutting down answers 503, because the result could no longer be downloaded.
        """
        upload = message.file
        check_size(upload, max_bytes=context.registry.settings.limits.file)
        suffix = check_suffix(upload)
        if suffix == MULTILINGUAL_SUFFIX and message.source == AUTO:
            raise bad_request(
                f"source: a {MULTILINGUAL_SUFFIX} holds many languages; say which one is read", param="source"
            )
        target = self.directions.match_served(message.target, param="target")
        source_language = (
            None if message.source == AUTO else self.directions.match_served(message.source, param="source")
        )
        content = upload.content
        num_bytes = await context.registry.file_queue.run(context.deadline, partial(estimate_memory, upload, suffix))
        async with context.registry.decoding_memory.reserve_async(num_bytes, context.deadline, name="file"):
            with save_upload(upload) as path:
                parse = partial(open_translatable, path, source=source_language, target=target)
                file = await context.registry.file_queue.run(
                    context.deadline, partial(run_interruptible, context.deadline, parse)
                )
                source = source_language or self._identify_source(file.sample_text(), AUTO, target=target).language
                directed_model = self.directions.find_model(source, target)
                if directed_model is not None:
                    job = TextJob(directed_model, context.deadline, context.registry.settings.limits.tokens)
                    work = partial(run_interruptible, context.deadline, partial(file.translate, job))
                    content = await directed_model.model.run(context.deadline, work)
        if context.registry.state == "ending":
            raise unavailable(context.registry.state)
        name = self._file_store.add_file(StoredFile(f"{Path(upload.name).stem}_{target}{suffix}", content))
        return TranslateFileResult(translatedFileUrl=f"{context.request.base_url}download_file/{name}")

    async def download_file(self, context: RequestContext) -> Response:
        """Send a stored translated file."""
        stored_file = self._file_store.get_file(context.request.path_params["name"])
        headers = {"Content-Disposition": stored_file.content_disposition, "Cache-Control": "no-store"}
        return Response(stored_file.content, media_type="application/octet-stream", headers=headers)

    async def list_languages(self, _context: RequestContext) -> Sequence[LanguageTargets]:
        """List all languages with those that each can be translated to."""
        return [
            LanguageTargets(code=code, name=language_name(code), targets=list(self.directions.find_targets(code)))
            for code in self.directions.languages
        ]

    async def describe_settings(self, context: RequestContext) -> FrontendSettings:
        """Return the settings that LibreTranslate's web page reads."""
        settings = context.registry.settings
        source, target = next(iter(self.directions.models_by_pair))
        default_source = LanguageOption(code=source, name=language_name(source))
        if self.directions.profiles is not None:
            default_source = LanguageOption(code=AUTO, name="Detect language")
        return FrontendSettings(
            charLimit=settings.limits.characters,
            frontendTimeout=_TYPING_PAUSE,
            apiKeys=settings.access.keys is not None,
            keyRequired=settings.access.keys is not None,
            suggestions=False,
            filesTranslation=True,
            supportedFilesFormat=list(FORMATS),
            language=DefaultLanguages(
                source=default_source, target=LanguageOption(code=target, name=language_name(target))
            ),
        )

    def _identify_source(self, text: str, requested: str, *, target: str) -> LanguagePrediction:
        """Return the source language of a text, identified if `auto` was requested."""
        if requested == AUTO:
            return self.directions.identify_source(text, target=target)
        return LanguagePrediction(self.directions.match_served(requested, param="source"), 1.0)

    async def _translate_texts(
        self, context: RequestContext, message: TranslateMessage, *, target: str, sources: Sequence[str]
    ) -> list[list[str]]:
        """Return the translations of each text, best first; texts for the same model are translated together."""
        translations = [[text] for text in message.texts]
        indices_by_model: defaultdict[DirectedModel | None, list[int]] = defaultdict(list)
        for index, source in enumerate(sources):
            indices_by_model[self.directions.find_model(source, target)].append(index)
        indices_by_model.pop(None, None)
        for directed_model, indices in indices_by_model.items():
            assert directed_model is not None
            job = TextJob(
                directed_model, context.deadline, context.registry.settings.limits.tokens, message.alternatives
            )
            translate = (
                partial(run_interruptible, context.deadline, job.translate_html)
                if message.format == "html"
                else job.translate_plain
            )
            work = partial(translate, [message.texts[index] for index in indices])
            for index, texts in zip(indices, await directed_model.model.run(context.deadline, work), strict=True):
                translations[index] = texts
        return translations


def _format_detection(identified: LanguagePrediction) -> LanguageDetection:
    """Convert an identified language to LibreTranslate's format, with its probability in percent."""
    return LanguageDetection(confidence=round(100 * identified.probability, 1), language=identified.language)


def _check_limits(texts: Sequence[str], alternatives: int, limits: ServerLimits) -> None:
    """Raise an `HTTPError` if a request exceeds the server's limits."""
    characters = sum(map(len, texts))
    if characters > limits.characters:
        raise bad_request(
            f"q: {characters:,} characters, and {limits.characters:,} are the most of a request; send fewer", param="q"
        )
    if len(texts) > limits.batch:
        raise bad_request(
            f"q: {len(texts):,} texts, and {limits.batch:,} are the most of a request; send fewer", param="q"
        )
    if alternatives > limits.alternatives:
        raise bad_request(
            f"alternatives: {alternatives:,}, and {limits.alternatives:,} are the most; ask for fewer",
            param="alternatives",
        )
