"""Routes of models that read texts: fill gaps, classify, tag, answer, detect and embed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from heedful.serving.api.handlers import answer_inputs, check_limits, prepare_inspection, to_list
from heedful.serving.api.requests import (
    AnswerRequest,
    ClassifyRequest,
    DetectRequest,
    EmbedRequest,
    FillRequest,
    StoryQuestionRequest,
    TagRequest,
)
from heedful.serving.api.responses import (
    ClassRecord,
    FilledTextRecord,
    ModelAnswers,
    ReplacedTokenRecord,
    SpanAnswerRecord,
    StoryAnswerRecord,
    WordTagRecord,
)
from heedful.serving.capabilities import Capability, find_capable_model, has_capable_model
from heedful.serving.http_errors import bad_request
from heedful.serving.registry import LoadedModel, ModelRegistry
from heedful.serving.routes import RequestContext, Route
from heedful.tasks.classification.predictor import ChoiceLineFormat, Classifier
from heedful.tasks.embedder import EmbeddingLineFormat, TextEmbedder
from heedful.tasks.pretraining.predictor import MaskedLanguageModelPredictor, ReplacedTokenPredictor
from heedful.tasks.spans.predictor import QuestionAnsweringPredictor
from heedful.tasks.stories.predictor import StoryPredictor, split_sentences
from heedful.tasks.tagging.predictor import Tagger

GROUP = "text"


def _warm_up_classifier(predictor: Classifier) -> object:
    """Classify a tiny input of the kind that the classifier reads."""
    text = ("a", "a") if predictor.requires_pairs else "a"
    return predictor.choose([[text, text]]) if predictor.answer_type == "choice" else predictor.classify([text])


def _describe_input(model: LoadedModel[Any]) -> Mapping[str, Any]:
    """Return which kind of input a classifier takes."""
    predictor = model.predictor
    return {
        "takes": "candidates" if predictor.answer_type == "choice" else "pair" if predictor.requires_pairs else "text"
    }


CAPABILITIES = (
    Capability(
        "fill", (MaskedLanguageModelPredictor,), "fill gaps", lambda face: face.fill(["[MASK]"]), prepare_inspection
    ),
    Capability("classify", (Classifier,), "classify", _warm_up_classifier, prepare_inspection, _describe_input),
    Capability("tag", (Tagger,), "tag words", lambda face: face.tag([["a"]]), prepare_inspection),
    Capability(
        "answer",
        (QuestionAnsweringPredictor,),
        "answer questions",
        lambda face: face.answer("a", "a"),
        prepare_inspection,
    ),
    Capability(
        "ask",
        (StoryPredictor,),
        "answer questions about stories",
        lambda face: face.ask(["a"], "a"),
        prepare_inspection,
    ),
    Capability(
        "detect", (ReplacedTokenPredictor,), "find replaced tokens", lambda face: face.detect(["a"]), prepare_inspection
    ),
    Capability("embed", (TextEmbedder,), "make vectors of texts", lambda face: face.embed(["a"]), prepare_inspection),
)


def iter_routes(registry: ModelRegistry) -> Iterator[Route]:
    """Yield the routes of models that read texts, as far as such models are served."""
    for name, handler, summary, request_type, response_type, example in (
        (
            "fill",
            _answer_fill,
            "fill the gaps of texts",
            FillRequest,
            ModelAnswers[FilledTextRecord],
            {"texts": "A [MASK] runs."},
        ),
        (
            "classify",
            _answer_classify,
            "classify texts",
            ClassifyRequest,
            ModelAnswers[ClassRecord],
            {"texts": "A dog runs."},
        ),
        (
            "tag",
            _answer_tag,
            "tag the words of sentences",
            TagRequest,
            ModelAnswers[list[WordTagRecord]],
            {"texts": "A dog runs."},
        ),
        (
            "answer",
            _answer_question,
            "find answers in a text",
            AnswerRequest,
            ModelAnswers[SpanAnswerRecord],
            {"question": "Who runs?", "context": "A dog runs."},
        ),
        (
            "ask",
            _answer_story,
            "answer questions about a story",
            StoryQuestionRequest,
            ModelAnswers[StoryAnswerRecord],
            {"story": "Mary went to the garden.", "question": "Where is Mary?"},
        ),
        (
            "detect",
            _answer_detect,
            "find tokens that were replaced",
            DetectRequest,
            ModelAnswers[list[ReplacedTokenRecord]],
            {"texts": "A dog runs."},
        ),
        (
            "embed",
            _answer_embed,
            "make vectors of texts",
            EmbedRequest,
            ModelAnswers[list[float]],
            {"texts": "A dog runs."},
        ),
    ):
        if has_capable_model(registry, name):
            path = f"/v1/heedful/{name}"
            yield Route(
                path=path,
                handler=handler,
                summary=summary,
                request_type=request_type,
                response_type=response_type,
                group=GROUP,
                examples=(example,),
            )


async def _answer_fill(context: RequestContext, message: FillRequest) -> Mapping[str, Any]:
    """Fill the gaps of texts."""
    texts = _check_texts(context, message, message.texts)
    model = find_capable_model(context.registry, "fill", message.model)
    return await answer_inputs(context, model, replace(model.predictor.line_format(), top=message.top), texts)


async def _answer_classify(context: RequestContext, message: ClassifyRequest) -> Mapping[str, Any]:
    """Classify texts, pairs of texts, or candidates."""
    texts = _check_texts(context, message, message.texts)
    model = find_capable_model(context.registry, "classify", message.model)
    line_format = model.predictor.line_format()
    inputs = [(text,) if isinstance(text, str) else tuple(text) for text in texts]
    for number, text in enumerate(inputs):
        if isinstance(line_format, ChoiceLineFormat) and len(text) < 2:
            raise bad_request(
                f"texts.{number}: {model.name} chooses: give a list of a text and its candidates", param="texts"
            )
    if sum(map(len, inputs)) > context.registry.settings.limits.batch:
        raise bad_request(
            f"texts: more than {context.registry.settings.limits.batch:,} with all candidates; send fewer"
        )
    return await answer_inputs(context, model, line_format, inputs)


async def _answer_tag(context: RequestContext, message: TagRequest) -> Mapping[str, Any]:
    """Tag the words of sentences."""
    texts = _check_texts(context, message, message.texts)
    model = find_capable_model(context.registry, "tag", message.model)
    words = [text.split() if isinstance(text, str) else text for text in texts]
    return await answer_inputs(context, model, model.predictor.line_format(), words)


async def _answer_question(context: RequestContext, message: AnswerRequest) -> Mapping[str, Any]:
    """Find the answers to questions in a context."""
    questions = _check_texts(context, message, message.question)
    model = find_capable_model(context.registry, "answer", message.model)
    line_format = replace(model.predictor.line_format(), n_best=message.n_best)
    return await answer_inputs(context, model, line_format, [(question, message.context) for question in questions])


async def _answer_story(context: RequestContext, message: StoryQuestionRequest) -> Mapping[str, Any]:
    """Answer questions about a story."""
    questions = _check_texts(context, message, message.question)
    model = find_capable_model(context.registry, "ask", message.model)
    story = split_sentences(message.story) if isinstance(message.story, str) else message.story
    return await answer_inputs(
        context, model, model.predictor.line_format(), [(story, question) for question in questions]
    )


async def _answer_detect(context: RequestContext, message: DetectRequest) -> Mapping[str, Any]:
    """Find replaced tokens in texts."""
    texts = _check_texts(context, message, message.texts)
    model = find_capable_model(context.registry, "detect", message.model)
    return await answer_inputs(context, model, model.predictor.line_format(), texts)


async def _answer_embed(context: RequestContext, message: EmbedRequest) -> Mapping[str, Any]:
    """Compute vectors of texts."""
    texts = _check_texts(context, message, message.texts)
    model = find_capable_model(context.registry, "embed", message.model)
    return await answer_inputs(context, model, EmbeddingLineFormat(model.predictor, message.normalise), texts)


def _check_texts(context: RequestContext, message: Any, texts: str | Sequence[Any]) -> list[Any]:
    """Return the texts of a message as a list, after checking the limits."""
    text_list = to_list(texts)
    check_limits(context, message, num_texts=len(text_list))
    return text_list
