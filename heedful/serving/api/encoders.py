"""Routes of models that read texts: fill gaps, classify, tag, answer, detect and embed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from heedful.serving.api.handlers import (
    InputText,
    InputTexts,
    IntAtLeast1,
    ModelAnswers,
    ModelRequest,
    answer_inputs,
    check_limits,
    prepare_inspection,
    to_list,
)
from heedful.serving.capabilities import Capability, declare_model_route, find_capable_model
from heedful.serving.http_errors import bad_request
from heedful.serving.registry import LoadedModel
from heedful.serving.routes import RequestContext
from heedful.tasks.classification.predictor import ChoiceLineFormat, ChoiceResult, ClassificationResult, Classifier
from heedful.tasks.embedder import EmbeddingLineFormat, TextEmbedder
from heedful.tasks.pretraining.predictor import (
    FilledText,
    MaskedLanguageModelPredictor,
    ReplacedTokenPredictor,
    ReplacedTokenScore,
)
from heedful.tasks.spans.predictor import QuestionAnsweringPredictor, SpanAnswerRecord
from heedful.tasks.stories.predictor import StoryAnswerRecord, StoryPredictor, split_sentences
from heedful.tasks.tagging.predictor import TaggedWord, Tagger

GROUP = "text"


def _warm_up_classifier(predictor: Classifier) -> object:
    text = ("a", "a") if predictor.requires_pairs else "a"
    return predictor.choose([[text, text]]) if predictor.answer_type == "choice" else predictor.classify([text])


def _describe_input(model: LoadedModel[Any]) -> Mapping[str, Any]:
    """Return which input a classifier takes, as `takes`: `text`, `pair` or `candidates`."""
    predictor = model.predictor
    return {
        "takes": "candidates" if predictor.answer_type == "choice" else "pair" if predictor.requires_pairs else "text"
    }


CAPABILITIES = (
    Capability(
        "fill",
        (MaskedLanguageModelPredictor,),
        "fill gaps",
        lambda predictor: predictor.fill(["[MASK]"]),
        prepare_inspection,
    ),
    Capability("classify", (Classifier,), "classify", _warm_up_classifier, prepare_inspection, _describe_input),
    Capability("tag", (Tagger,), "tag words", lambda predictor: predictor.tag([["a"]]), prepare_inspection),
    Capability(
        "answer",
        (QuestionAnsweringPredictor,),
        "answer questions",
        lambda predictor: predictor.answer("a", "a"),
        prepare_inspection,
    ),
    Capability(
        "ask",
        (StoryPredictor,),
        "answer questions about stories",
        lambda predictor: predictor.ask(["a"], "a"),
        prepare_inspection,
    ),
    Capability(
        "detect",
        (ReplacedTokenPredictor,),
        "find replaced tokens",
        lambda predictor: predictor.detect(["a"]),
        prepare_inspection,
    ),
    Capability(
        "embed", (TextEmbedder,), "make vectors of texts", lambda predictor: predictor.embed(["a"]), prepare_inspection
    ),
)


class FillRequest(ModelRequest):
    """A request to fill the gaps of texts, as `heedful fill` does."""

    texts: InputTexts
    """one text or several, with [MASK] for each hidden token"""
    top: Annotated[int, Field(ge=1, le=100)] = 5
    """number of guesses for each gap"""


@declare_model_route(
    "fill", "fill the gaps of texts", ModelAnswers[FilledText], {"texts": "A [MASK] runs."}, group=GROUP
)
async def _answer_fill(context: RequestContext, message: FillRequest) -> Mapping[str, Any]:
    texts = _check_texts(context, message, message.texts)
    model = find_capable_model(context.registry, "fill", message.model)
    return await answer_inputs(context, model, replace(model.predictor.line_format(), top=message.top), texts)


class ClassifyRequest(ModelRequest):
    """A request to classify texts, as `heedful classify` does."""

    texts: InputText | Annotated[list[InputText | Annotated[list[InputText], Field(min_length=1)]], Field(min_length=1)]
    """one text or several; a list is a pair of texts, or a text and its candidates"""


@declare_model_route(
    "classify",
    "classify texts",
    ModelAnswers[ClassificationResult | ChoiceResult],
    {"texts": "A dog runs."},
    group=GROUP,
)
async def _answer_classify(context: RequestContext, message: ClassifyRequest) -> Mapping[str, Any]:
    """Classify the texts of a request, or choose among the candidates of each, as the model does; return its name and
    the records of the answers.
    """
    texts = _check_texts(context, message, message.texts)
    model = find_capable_model(context.registry, "classify", message.model)
    line_format = model.predictor.line_format()
    inputs = [(text,) if isinstance(text, str) else tuple(text) for text in texts]
    for number, text in enumerate(inputs):
        if isinstance(line_format, ChoiceLineFormat) and len(text) < 2:
            raise bad_request(
                f"texts.{number}: {model.name} chooses: give a list of a text and its candidates", param="texts"
            )
    if sum(map(len, inputs)) > context.limits.batch:
        raise bad_request(f"texts: more than {context.limits.batch:,} with all candidates; send fewer")
    return await answer_inputs(context, model, line_format, inputs)


class TagRequest(ModelRequest):
    """A request to tag the words of sentences, as `heedful tag` does."""

    texts: InputText | Annotated[list[InputText | list[InputText]], Field(min_length=1)]
    """one sentence or several; words are separated by spaces, or given as a list"""


@declare_model_route(
    "tag", "tag the words of sentences", ModelAnswers[list[TaggedWord]], {"texts": "A dog runs."}, group=GROUP
)
async def _answer_tag(context: RequestContext, message: TagRequest) -> Mapping[str, Any]:
    """Tag the words of the texts in a request, and return the model's name and the records of the answers."""
    texts = _check_texts(context, message, message.texts)
    model = find_capable_model(context.registry, "tag", message.model)
    words = [text.split() if isinstance(text, str) else text for text in texts]
    return await answer_inputs(context, model, model.predictor.line_format(), words)


class AnswerRequest(ModelRequest):
    """A request to find answers in a context, as `heedful answer` does."""

    question: InputTexts
    """one question or several"""
    context: InputText
    """the text that may contain the answers"""
    n_best: IntAtLeast1 = 1
    """number of spans that are returned for each question"""


@declare_model_route(
    "answer",
    "find answers in a text",
    ModelAnswers[SpanAnswerRecord],
    {"question": "Who runs?", "context": "A dog runs."},
    group=GROUP,
)
async def _answer_question(context: RequestContext, message: AnswerRequest) -> Mapping[str, Any]:
    """Find answers to the questions of a request in its context, and return the model's name and their records."""
    questions = _check_texts(context, message, message.question)
    model = find_capable_model(context.registry, "answer", message.model)
    line_format = replace(model.predictor.line_format(), n_best=message.n_best)
    return await answer_inputs(context, model, line_format, [(question, message.context) for question in questions])


class StoryQuestionRequest(ModelRequest):
    """A request to answer questions about a story, as `heedful ask` does."""

    story: InputText | list[InputText]
    """list of sentences, or a text with one sentence on each line"""
    question: InputTexts
    """one question or several"""


@declare_model_route(
    "ask",
    "answer questions about a story",
    ModelAnswers[StoryAnswerRecord],
    {"story": "Mary went to the garden.", "question": "Where is Mary?"},
    group=GROUP,
)
async def _answer_story(context: RequestContext, message: StoryQuestionRequest) -> Mapping[str, Any]:
    """Answer the questions of a request about its story, and return the model's name and the records of the answers."""
    questions = _check_texts(context, message, message.question)
    model = find_capable_model(context.registry, "ask", message.model)
    story = split_sentences(message.story) if isinstance(message.story, str) else message.story
    return await answer_inputs(
        context, model, model.predictor.line_format(), [(story, question) for question in questions]
    )


class DetectRequest(ModelRequest):
    """A request to find replaced tokens in texts, as `heedful detect` does."""

    texts: InputTexts
    """one text or several"""


@declare_model_route(
    "detect",
    "find tokens that were replaced",
    ModelAnswers[list[ReplacedTokenScore]],
    {"texts": "A dog runs."},
    group=GROUP,
)
async def _answer_detect(context: RequestContext, message: DetectRequest) -> Mapping[str, Any]:
    texts = _check_texts(context, message, message.texts)
    model = find_capable_model(context.registry, "detect", message.model)
    return await answer_inputs(context, model, model.predictor.line_format(), texts)


class EmbedRequest(ModelRequest):
    """A request to compute vectors of texts, as `heedful embed` does."""

    texts: InputTexts
    """one text or several"""
    normalise: bool = False
    """scale each vector to length 1, so that products are cosines"""


@declare_model_route("embed", "make vectors of texts", ModelAnswers[list[float]], {"texts": "A dog runs."}, group=GROUP)
async def _answer_embed(context: RequestContext, message: EmbedRequest) -> Mapping[str, Any]:
    texts = _check_texts(context, message, message.texts)
    model = find_capable_model(context.registry, "embed", message.model)
    return await answer_inputs(context, model, EmbeddingLineFormat(model.predictor, message.normalise), texts)


def _check_texts(context: RequestContext, message: Any, texts: str | Sequence[Any]) -> list[Any]:
    """Return the texts of a message as a list; raise an `HTTPError` if the message exceeds the limits."""
    text_list = to_list(texts)
    check_limits(context, message, num_texts=len(text_list))
    return text_list
