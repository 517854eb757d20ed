"""Routes of LibreTranslate's interface: translate texts and files, and identify languages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from starlette.responses import Response

from heedful.data.language_identification import LanguagePrediction
from heedful.serving.deadline import run_interruptible
from heedful.serving.directions import AUTO, DirectedModel, TranslationDirections
from heedful.serving.http_errors import bad_request, not_found, unavailable
from heedful.serving.languages import language_name
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
from heedful.serving.libretranslate.translation import (
    FORMATS,
    MULTILINGUAL_SUFFIX,
    StoredFile,
    TextJob,
    check_size,
    check_suffix,
    estimate_memory,
    open_translatable,
    save_upload,
)
from heedful.serving.registry import ModelRegistry
from heedful.serving.resource_limits import TemporaryStore
from heedful.serving.routes import RequestContext, declare_route
from heedful.serving.settings import ServerLimits
from heedful.tasks.translation.translator import Translator

_TYPING_PAUSE: Final = 500
"""Milliseconds without a keystroke after which a web page requests a translation."""
_MAX_STORED_BYTES, _MAX_STORED_FILES = 10, 100
"""Maximum bytes of the translated files that are stored, as a multiple of the size limit of files, and their number."""


def _build_directions(registry: ModelRegistry) -> TranslationDirections:
    return TranslationDirections(registry.find_models(Translator))


def _build_file_store(registry: ModelRegistry) -> TemporaryStore[StoredFile]:
    return TemporaryStore(max_bytes=_MAX_STORED_BYTES * registry.settings.limits.file, max_items=_MAX_STORED_FILES)


def _add_languages(*examples: Mapping[str, Any]) -> Callable[[ModelRegistry], list[Mapping[str, Any]]]:
    """Return a function that adds the languages of a registry's first direction to examples of requests."""

    def build_examples(registry: ModelRegistry) -> list[Mapping[str, Any]]:
        source, target = next(iter(registry.get_shared(_build_directions).models_by_pair))
        return [{**example, "source": source, "target": target} for example in examples]

    return build_examples


_OPTIONS: Final[Mapping[str, Any]] = {
    "format_error": format_error,
    "group": "LibreTranslate",
    "is_served": lambda registry: bool(registry.get_shared(_build_directions).models_by_pair),
}
_TASK_OPTIONS: Final[Mapping[str, Any]] = {
    **_OPTIONS,
    "read_fields": read_fields,
    "key_in_body": True,
    "unauthorized_status": 403,
}
_INFO_OPTIONS: Final[Mapping[str, Any]] = {**_OPTIONS, "method": "GET", "public": True}


@declare_route(
    "/translate",
    "translate a text, or several",
    response_type=TranslateResult,
    examples=_add_languages(
        {"q": "A dog runs."},
        {"q": ["<p>A dog <b>runs</b>.</p>", "Hello!"], "source": "", "target": "", "format": "html", "alternatives": 2},
    ),
    **_TASK_OPTIONS,
)
async def _answer_translate(context: RequestContext, message: TranslateMessage) -> TranslateResult:
    """Translate the text or texts of a request, with alternatives if they are requested; the result names the
    identified languages if the source is `auto`.
    """
    directions = context.registry.get_shared(_build_directions)
    texts = message.texts
    _check_limits(texts, message.alternatives, context.limits)
    target = directions.match_served(message.target, param="target")
    sources = [directions.find_source(text, message.source, target=target) for text in texts]
    translations = await _translate_texts(context, message, target=target, sources=[item.language for item in sources])
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


async def _translate_texts(
    context: RequestContext, message: TranslateMessage, *, target: str, sources: Sequence[str]
) -> list[list[str]]:
    """Translate each text of a message from its own source language to `target`, and return the translations of each,
    best first. Texts for the same model are translated together; a text in the target language is kept.
    """
    directions = context.registry.get_shared(_build_directions)
    translations = [[text] for text in message.texts]
    indices_by_model: defaultdict[DirectedModel | None, list[int]] = defaultdict(list)
    for index, source in enumerate(sources):
        indices_by_model[directions.find_model(source, target)].append(index)
    indices_by_model.pop(None, None)
    for directed_model, indices in indices_by_model.items():
        assert directed_model is not None
        job = TextJob(directed_model, context.deadline, context.limits.tokens, message.alternatives)
        translate = (
            partial(run_interruptible, context.deadline, job.translate_html)
            if message.format == "html"
            else job.translate_plain
        )
        work = partial(translate, [message.texts[index] for index in indices])
        for index, texts in zip(indices, await directed_model.model.run(context.deadline, work), strict=True):
            translations[index] = texts
    return translations


@declare_route(
    "/detect",
    "which language a text is in",
    response_type=LanguageDetection,
    is_list=True,
    examples=({"q": "A dog runs."},),
    **_TASK_OPTIONS,
)
async def _answer_detect(context: RequestContext, message: DetectMessage) -> Sequence[LanguageDetection]:
    """Return the possible languages of a text, the most probable first, without those of confidence 0 unless the first
    has that too.
    """
    _check_limits([message.q], 0, context.limits)
    first, *alternatives = map(
        _format_detection, context.registry.get_shared(_build_directions).rank_languages(message.q)
    )
    return [first, *(candidate for candidate in alternatives if candidate.confidence or not first.confidence)]


@declare_route(
    "/translate_file",
    "translate a file",
    response_type=TranslateFileResult,
    accepts_files=True,
    examples=_add_languages({}),
    **_TASK_OPTIONS,
)
async def _answer_translate_file(context: RequestContext, message: TranslateFileMessage) -> TranslateFileResult:
    """Translate and store an uploaded file, and return the URL at which it can be downloaded for some minutes."""
    directions = context.registry.get_shared(_build_directions)
    upload = message.file
    check_size(upload, max_bytes=context.limits.file)
    suffix = check_suffix(upload)
    if suffix == MULTILINGUAL_SUFFIX and message.source == AUTO:
        raise bad_request(
            f"source: a {MULTILINGUAL_SUFFIX} holds many languages; say which one is read", param="source"
        )
    target = directions.match_served(message.target, param="target")
    source_language = None if message.source == AUTO else directions.match_served(message.source, param="source")
    content = upload.content
    num_bytes = await context.registry.file_queue.run(context.deadline, partial(estimate_memory, upload, suffix))
    async with context.registry.decoding_memory.reserve_async(num_bytes, context.deadline, name="file"):
        with save_upload(upload) as path:
            parse = partial(open_translatable, path, source=source_language, target=target)
            file = await context.registry.file_queue.run(
                context.deadline, partial(run_interruptible, context.deadline, parse)
            )
            source = source_language or directions.find_source(file.sample_text(), AUTO, target=target).language
            directed_model = directions.find_model(source, target)
            if directed_model is not None:
                job = TextJob(directed_model, context.deadline, context.limits.tokens)
                work = partial(run_interruptible, context.deadline, partial(file.translate, job))
                content = await directed_model.model.run(context.deadline, work)
    if context.registry.state == "ending":  # and the result could not be downloaded any more
        raise unavailable(context.registry.state)
    stored_file = StoredFile(f"{Path(upload.name).stem}_{target}{suffix}", content)
    name = context.registry.get_shared(_build_file_store).add(stored_file, size=len(content), suffix=suffix)
    return TranslateFileResult(translatedFileUrl=f"{context.request.base_url}download_file/{name}")


@declare_route(
    "/download_file/{name}", "fetch a translated file", media_type="application/octet-stream", **_INFO_OPTIONS
)
async def _answer_download_file(context: RequestContext) -> Response:
    """Return a response with the stored file of the requested name; raise a 404 error if it is gone."""
    file_store = context.registry.get_shared(_build_file_store)
    stored_file = file_store.get(context.request.path_params["name"])
    if stored_file is None:
        minutes = file_store.seconds / 60
        raise not_found(f"there is no such file; files are kept for {minutes:g} minutes, so translate it again")
    headers = {"Content-Disposition": stored_file.content_disposition, "Cache-Control": "no-store"}
    return Response(stored_file.content, media_type="application/octet-stream", headers=headers)


@declare_route("/languages", "what is translated to what", response_type=LanguageTargets, is_list=True, **_INFO_OPTIONS)
async def _answer_languages(context: RequestContext) -> Sequence[LanguageTargets]:
    """List the served languages with their English names and the languages into which each is translated."""
    directions = context.registry.get_shared(_build_directions)
    return [
        LanguageTargets(code=code, name=language_name(code), targets=list(directions.find_targets(code)))
        for code in directions.languages
    ]


@declare_route(
    "/frontend/settings", "settings of a page that translates", response_type=FrontendSettings, **_INFO_OPTIONS
)
async def _answer_settings(context: RequestContext) -> FrontendSettings:
    """Return the settings of LibreTranslate's web page, as limits, file formats and the languages selected at first."""
    directions = context.registry.get_shared(_build_directions)
    settings = context.registry.settings
    source, target = next(iter(directions.models_by_pair))
    default_source = LanguageOption(code=source, name=language_name(source))
    if directions.profiles is not None:
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


def _format_detection(identified: LanguagePrediction) -> LanguageDetection:
    return LanguageDetection(confidence=round(100 * identified.probability, 1), language=identified.language)


def _check_limits(texts: Sequence[str], alternatives: int, limits: ServerLimits) -> None:
    """Raise an `HTTPError` if a request has more characters, texts or alternatives than the limits allow."""
    characters = sum(map(len, texts))
    if characters > limits.characters:
        raise bad_request(
            f"q: {characters:,} characters; a request may have {limits.characters:,}: send fewer", param="q"
        )
    if len(texts) > limits.batch:
        raise bad_request(f"q: {len(texts):,} texts; a request may have {limits.batch:,}: send fewer", param="q")
    if alternatives > limits.alternatives:
        raise bad_request(
            f"alternatives: {alternatives:,}; a request may have {limits.alternatives:,}: ask for fewer",
            param="alternatives",
        )
