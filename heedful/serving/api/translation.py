"""Routes of translation models: translate, score and align."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field

from heedful.data.context import attach_context
from heedful.inspection.record import InspectionRecord
from heedful.serving.api.handlers import (
    DecodingRequest,
    InputText,
    InputTexts,
    InspectHTTPRequest,
    ModelAnswers,
    ModelRequest,
    RequestName,
    answer_inputs,
    check_limits,
    prepare_text_inspection,
    to_list,
)
from heedful.serving.capabilities import Capability, declare_model_route
from heedful.serving.directions import find_pairs, find_translator
from heedful.serving.http_errors import bad_request
from heedful.serving.languages import language_name
from heedful.serving.registry import LoadedModel
from heedful.serving.routes import RequestContext
from heedful.serving.settings import ServerLimits
from heedful.serving.sse import NAMED_EVENTS, NamedEvent, stream_response
from heedful.tasks.decoder_target import TextCandidate
from heedful.tasks.predictor import AnswerRecord, LineFormat, UnreadableInput, answer_readable
from heedful.tasks.search_factory import LengthLimits, build_length_limits, build_search
from heedful.tasks.translation.glossary import TargetTerm
from heedful.tasks.translation.translations import (
    PairScoreRecord,
    ScoreLineFormat,
    TokenAlignment,
    TranslationInput,
    TranslationLineFormat,
    TranslationRecord,
    WordLinks,
    add_context,
    format_pharaoh,
)
from heedful.tasks.translation.translator import Translator

GROUP = "translation"
_ALWAYS_ALIGNED_TOKENS: Final = 32
"""Maximum tokens of a growing translation whose alignment is sent at every step; of longer ones it is sent at
intervals, since it is large."""


class TranslateRequest(DecodingRequest):
    """A request to translate texts, as `heedful translate` does."""

    texts: InputTexts
    """one text or several"""
    source: RequestName | None = None
    """language of the texts, if several models are served and none is named"""
    to: RequestName | None = None
    """language to translate into, if there are several"""
    align: bool = False
    """return the attention weights of each token (mean over the heads of the last decoder layer)"""
    prefix: InputText | None = None
    """text with which every translation must begin; its last word may be unfinished unless a space follows it"""
    prefixes: list[InputText] | None = None
    """text with which each translation must begin, one for each text"""
    constraints: list[list[Annotated[str, Field(min_length=1)]]] | None = None
    """terms that each translation must contain, a list for each text; needs beam search"""
    stream: bool = False
    """send the translation while it is searched for, as server-sent events; for one text"""


class TranslationPairsRequest(ModelRequest):
    """A request about texts and their translations, as `heedful score` and `heedful align` take them."""

    pairs: Annotated[list[Annotated[list[InputText], Field(min_length=2, max_length=2)]], Field(min_length=1)]
    """pairs of a source and its translation"""
    source: RequestName | None = None
    """language of the sources, if several models are served and none is named"""
    to: RequestName | None = None
    """language of the translations, if there are several"""


class UnreadInputRecord(AnswerRecord):
    """An error in place of an answer."""

    error: str
    """why the text could not be read, and what to do"""


class _WordLinksRecord(AnswerRecord):
    """Links between the words of a source and its translation."""

    links: list[list[int]]
    """numbers of a source and a target word, from 0"""
    pharaoh: str
    """as `heedful align` writes them"""


LinkRecord = _WordLinksRecord | UnreadInputRecord


def _warm_up(translator: Translator) -> object:
    directed = translator.towards(translator.languages[0]) if translator.languages else translator
    return directed.translate(["a"])


def _prepare_inspection(
    context: RequestContext, model: LoadedModel[Any], message: InspectHTTPRequest
) -> Callable[[], InspectionRecord]:
    """Return a function that inspects a translation model on the text and the pair in a message, in its direction to
    the requested language.
    """
    _, translator = find_translator(
        context.registry, model.name, capability="translate", source=None, target_language=message.to
    )
    return prepare_text_inspection(translator, message)


def _describe_languages(model: LoadedModel[Any]) -> Mapping[str, Any]:
    """Return the translation directions of a model (`ways`) and the names of their languages (`languages`)."""
    pairs = find_pairs(model)
    languages = dict.fromkeys(language for pair in pairs for language in pair if language is not None)
    return {"ways": [list(pair) for pair in pairs], "languages": {tag: language_name(tag) for tag in languages}}


CAPABILITIES = (
    Capability("translate", (Translator,), "translate", _warm_up, _prepare_inspection, _describe_languages),
    Capability("score", (Translator,), "translate"),
    Capability("align", (Translator,), "translate"),
)


def check_length(
    message: DecodingRequest, length: LengthLimits, limits: ServerLimits, *, max_source_tokens: int
) -> LengthLimits:
    """Return `length`, the length limits of a search; raise an `HTTPError` if the request makes them longer than the
    server allows.

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
    """Build the line format with which a translator answers as a message requests, until the deadline of the request;
    raise a `RecipeError` if the options of the message do not fit.
    """
    config = message.build_config(translator.generation)
    limits = context.limits
    return replace(
        translator.line_format(),
        search=build_search(config, translator.target, n_best=message.n_best, seed=message.seed),
        length=check_length(message, build_length_limits(config), limits, max_source_tokens=translator.max_source),
        all_candidates=message.n_best > 1,
        align=message.align,
        on_progress=lambda _: context.deadline.raise_if_over(),
    )


def build_sentences(translator: Translator, message: TranslateRequest) -> list[TranslationInput]:
    """Build the sentences of a message, with their prefixes and constraints and with the earlier sentences that the
    translator reads too; raise an `HTTPError` if the counts differ.
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


@declare_model_route(
    "translate", "translate texts", ModelAnswers[TranslationRecord], {"texts": "A dog runs."}, group=GROUP
)
async def _answer_translate(context: RequestContext, message: TranslateRequest) -> Any:
    """Translate the texts of a request, and return the model's name and the records of the translations or, if a stream
    is requested, a response that streams the only one.
    """
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

    def work(emit: Callable[[NamedEvent], None]) -> None:
        _stream_translation(context, model.name, line_format, sentence_list[0], emit)

    return await stream_response(context, model, work, event_format=NAMED_EVENTS)


def _stream_translation(
    context: RequestContext,
    model_name: str,
    line_format: TranslationLineFormat,
    sentence: TranslationInput,
    emit: Callable[[NamedEvent], None],
) -> None:
    """Translate a sentence with the search of a line format, within the deadline of the request. Call `emit` with the
    best text so far at each step, and at the end with the record of the translation and the name of the model.
    """
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


@declare_model_route(
    "score", "score given translations", ModelAnswers[PairScoreRecord | UnreadInputRecord], group=GROUP
)
async def _answer_score(context: RequestContext, message: TranslationPairsRequest) -> Mapping[str, Any]:
    return await _answer_pairs(context, message, capability="score", format_type=ScoreLineFormat)


@declare_model_route("align", "align the words of given translations", ModelAnswers[LinkRecord], group=GROUP)
async def _answer_align(context: RequestContext, message: TranslationPairsRequest) -> Mapping[str, Any]:
    return await _answer_pairs(context, message, capability="align", format_type=_LinkLineFormat)


async def _answer_pairs(
    context: RequestContext, message: TranslationPairsRequest, *, capability: str, format_type: Any
) -> Mapping[str, Any]:
    """Answer a request about pairs of texts and translations with a model that has a capability; return its name and
    the records that a line format of the type `format_type` makes.
    """
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
