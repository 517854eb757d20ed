"""Routes of translation models: translate, score and align."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from heedful.data.context import attach_context
from heedful.inspection.record import InspectionRecord
from heedful.serving.api.directions import find_pairs, find_translator
from heedful.serving.api.events import NamedEvent, stream_events
from heedful.serving.api.handlers import answer_inputs, check_limits, prepare_text_inspection, to_list
from heedful.serving.api.requests import DecodingRequest, InspectHTTPRequest, TranslateRequest, TranslationPairsRequest
from heedful.serving.api.responses import LinkRecord, ModelAnswers, ScoreRecord, TranslationRecord
from heedful.serving.capabilities import Capability, has_capable_model
from heedful.serving.http_errors import bad_request
from heedful.serving.languages import language_name
from heedful.serving.registry import LoadedModel, ModelRegistry
from heedful.serving.routes import RequestContext, Route
from heedful.serving.settings import ServerLimits
from heedful.tasks.decoder_target import TextCandidate
from heedful.tasks.predictor import LineFormat, UnreadableInput, answer_readable
from heedful.tasks.search_factory import LengthLimits, build_length_limits, build_search
from heedful.tasks.translation.glossary import TargetTerm
from heedful.tasks.translation.translations import (
    ScoreLineFormat,
    TokenAlignment,
    TranslationInput,
    TranslationLineFormat,
    WordLinks,
    add_context,
    format_pharaoh,
)
from heedful.tasks.translation.translator import Translator

GROUP = "translation"
_ALWAYS_ALIGNED_TOKENS: Final = 32
"""Maximum tokens of a growing translation whose alignment is sent at every step; of longer ones it is sent at
intervals, since it is large."""


def _warm_up(translator: Translator) -> object:
    """Translate a tiny text."""
    directed = translator.towards(translator.languages[0]) if translator.languages else translator
    return directed.translate(["a"])


def _prepare_inspection(
    context: RequestContext, model: LoadedModel[Any], message: InspectHTTPRequest
) -> Callable[[], InspectionRecord]:
    """Return a function that inspects a translation model."""
    _, translator = find_translator(
        context.registry, model.name, capability="translate", source=None, target_language=message.to
    )
    return prepare_text_inspection(translator, message)


def _describe_languages(model: LoadedModel[Any]) -> Mapping[str, Any]:
    """Return the translation directions of a model, and the names of their languages."""
    pairs = find_pairs(model)
    languages = dict.fromkeys(language for pair in pairs for language in pair if language is not None)
    return {"ways": [list(pair) for pair in pairs], "languages": {tag: language_name(tag) for tag in languages}}


CAPABILITIES = (
    Capability("translate", (Translator,), "translate", _warm_up, _prepare_inspection, _describe_languages),
    Capability("score", (Translator,), "translate"),
    Capability("align", (Translator,), "translate"),
)


def iter_routes(registry: ModelRegistry) -> Iterator[Route]:
    """Yield the routes of translation models, if any is served."""
    if not has_capable_model(registry, "translate"):
        return
    yield Route(
        path="/v1/heedful/translate",
        handler=_answer_translate,
        summary="translate texts",
        request_type=TranslateRequest,
        response_type=ModelAnswers[TranslationRecord],
        group=GROUP,
        examples=({"texts": "A dog runs."},),
    )
    yield Route(
        path="/v1/heedful/score",
        handler=_answer_score,
        summary="score given translations",
        request_type=TranslationPairsRequest,
        response_type=ModelAnswers[ScoreRecord],
        group=GROUP,
    )
    yield Route(
        path="/v1/heedful/align",
        handler=_answer_align,
        summary="align the words of given translations",
        request_type=TranslationPairsRequest,
        response_type=ModelAnswers[LinkRecord],
        group=GROUP,
    )


def check_length(
    message: DecodingRequest, length: LengthLimits, limits: ServerLimits, *, max_source_tokens: int
) -> LengthLimits:
    """Return the length limits of a search; raise an `HTTPError` if the request makes them longer than the server
    allows.

    Args:
        message: the request.
        length: limits of the recipe and the request.
        limits: of the server.
        max_source_tokens: tokens of the longest source.
    """
    max_tokens = length.max_tokens(max_source_tokens)
    if message.changes_length and max_tokens > limits.tokens:
        raise bad_request(
            f"max_ratio, max_extra: {max_tokens:,} tokens for the longest source; this server writes at most "
            f"{limits.tokens:,}: ask for less"
        )
    return length


def build_line_format(
    context: RequestContext, translator: Translator, message: TranslateRequest
) -> TranslationLineFormat:
    """Build the line format that translates as a message requests; raise a `RecipeError` if its options do not fit."""
    config = message.build_config(translator.generation)
    limits = context.registry.settings.limits
    return replace(
        translator.line_format(),
        search=build_search(config, translator.target, n_best=message.n_best, seed=message.seed),
        length=check_length(message, build_length_limits(config), limits, max_source_tokens=translator.max_source),
        all_candidates=message.n_best > 1,
        align=message.align,
        on_progress=lambda _: context.deadline.raise_if_over(),
    )


def build_sentences(translator: Translator, message: TranslateRequest) -> list[TranslationInput]:
    """Build the sentences of a message, with their prefixes and constraints; raise an `HTTPError` if the counts
    differ.
    """
    texts = to_list(message.texts)
    if message.prefix is not None and message.prefixes is not None:
        raise bad_request("prefix, prefixes: give one of them", param="prefix")
    for name in ("prefixes", "constraints"):
        field_values = getattr(message, name)
        if field_values is not None and len(field_values) != len(texts):
            raise bad_request(f"{name}: {len(field_values):,} for {len(texts):,} texts; give one for each", param=name)
    prefixes = message.prefixes or [message.prefix or ""] * len(texts)
    constraint_lists = message.constraints or [[] for _ in texts]
    field_values = (
        TranslationInput(text, prefix, tuple(map(TargetTerm, terms)))
        for text, prefix, terms in zip(texts, prefixes, constraint_lists, strict=True)
    )
    return list(add_context(field_values, translator))


async def _answer_translate(context: RequestContext, message: TranslateRequest) -> Any:
    """Translate texts, at once or as a stream."""
    check_limits(context, message, num_texts=len(to_list(message.texts)))
    model, translator = find_translator(
        context.registry, message.model, capability="translate", source=message.source, target_language=message.to
    )
    line_format = build_line_format(context, translator, message)
    sentence_list = build_sentences(translator, message)
    if not message.stream:
        return await answer_inputs(context, model, line_format, sentence_list)
    if len(sentence_list) > 1:
        raise bad_request(
            f"stream: sends one translation, but there are {len(sentence_list):,} texts; give one", param="stream"
        )
    return await stream_events(
        context, model, lambda say: _stream_translation(context, model.name, line_format, sentence_list[0], say)
    )


def _stream_translation(
    context: RequestContext,
    model_name: str,
    line_format: TranslationLineFormat,
    sentence: TranslationInput,
    emit: Callable[[NamedEvent], None],
) -> None:
    """Translate a sentence; emit the best text so far at each step, and at the end its record."""
    translator, text = line_format.translator, attach_context(sentence.text, sentence.before)
    with_alignment = line_format.align and translator.has_attention and not translator.unread([(text, "")])

    def emit_candidate(_index: int, candidate: TextCandidate) -> None:
        """Emit the best text so far, and its alignment if that was requested."""
        context.deadline.raise_if_over()
        content: dict[str, Any] = {"text": candidate.text, "tokens": list(candidate.tokens)}
        if (
            with_alignment
            and candidate.ids
            and len(candidate.ids) % (1 + len(candidate.ids) // _ALWAYS_ALIGNED_TOKENS) == 0
        ):
            content["alignment"] = _trim_alignment(translator.align(text, candidate))
        emit(("growing", content))

    (translation,) = translator.translate(
        [text],
        search=line_format.search,
        length=line_format.length,
        prefixes=[sentence.prefix] if sentence.prefix else None,
        constraints=[sentence.constraints] if sentence.constraints else None,
        tick=line_format.on_progress,
        heard=emit_candidate,
    )
    emit(("record", {"model": model_name, "answers": [line_format.to_json((1, translation))]}))


def _trim_alignment(alignment: TokenAlignment) -> dict[str, Any]:
    """Return the alignment of an unfinished translation, without its end token."""
    fields = alignment.to_json
    return {**fields, "target": fields["target"][:-1], "weights": fields["weights"][:-1]}


async def _answer_score(context: RequestContext, message: TranslationPairsRequest) -> Mapping[str, Any]:
    """Score translations."""
    return await _answer_pairs(context, message, capability="score", format_type=ScoreLineFormat)


async def _answer_align(context: RequestContext, message: TranslationPairsRequest) -> Mapping[str, Any]:
    """Align the words of texts and their translations."""
    return await _answer_pairs(context, message, capability="align", format_type=_LinkLineFormat)


async def _answer_pairs(
    context: RequestContext, message: TranslationPairsRequest, *, capability: str, format_type: Any
) -> Mapping[str, Any]:
    """Answer a request about pairs of texts with a line format."""
    check_limits(context, message, num_texts=len(message.pairs))
    model, translator = find_translator(
        context.registry, message.model, capability=capability, source=message.source, target_language=message.to
    )
    return await answer_inputs(
        context, model, format_type(translator), [(source, target) for source, target in message.pairs]
    )


@dataclass(frozen=True)
class _LinkLineFormat(LineFormat[tuple[str, str], WordLinks]):
    """Line format that links the words of sentences and their translations."""

    translator: Translator
    chunk_size: ClassVar = 256

    def parse_lines(self, lines: Any, *, source_name: str) -> Iterator[tuple[str, str]]:
        """Read pairs in the format of scores."""
        return ScoreLineFormat(self.translator).parse_lines(lines, source_name=source_name)

    def answer_inputs(self, inputs: Any, *, start: int) -> list[WordLinks | UnreadableInput]:
        """Link the words of pairs; pairs that are too long get an error."""
        return answer_readable(inputs, self.translator.unread(inputs, first=start), self.translator.link)

    def to_json(self, answer: WordLinks) -> dict[str, Any]:
        """Return the links as word indices from 0, and in Pharaoh format."""
        return {"links": [list(link) for link in answer], "pharaoh": format_pharaoh(answer)}
