"""Gaps, classes, tags, answers and vectors in our own interface: what models say of texts that they read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from heedful.serving.house import House, Model
from heedful.serving.own.answers import (
    AnswerRecord,
    Answers,
    ClassRecord,
    FilledRecord,
    StoryRecord,
    SuspicionRecord,
    TagRecord,
)
from heedful.serving.own.asking import listed, look_at, require_within, told
from heedful.serving.own.messages import Answer, Ask, Classify, Detect, Embed, Fill, Tag
from heedful.serving.refusal import wrong
from heedful.serving.routes import Asked, Route
from heedful.serving.uses import Use, is_served, model_for
from heedful.tasks.classification.face import ChoiceLines, Classifier
from heedful.tasks.embedder import EmbedLines, Embeds
from heedful.tasks.pretraining.face import Detector, Reader
from heedful.tasks.spans.face import Answerer
from heedful.tasks.stories.face import StoryReader, sentences
from heedful.tasks.tagging.face import Tagger

GROUP = "text"


def _classified(face: Classifier) -> object:
    text = ("a", "a") if face.paired else "a"
    return face.choose([[text, text]]) if face.answered == "choice" else face.classify([text])


def _taken(model: Model[Any]) -> Mapping[str, Any]:
    face = model.face
    return {"takes": "candidates" if face.answered == "choice" else "pair" if face.paired else "text"}


USES = (
    Use("fill", (Reader,), "fill gaps", lambda face: face.fill(["[MASK]"]), look_at),
    Use("classify", (Classifier,), "classify", _classified, look_at, _taken),
    Use("tag", (Tagger,), "tag words", lambda face: face.tag([["a"]]), look_at),
    Use("answer", (Answerer,), "answer questions", lambda face: face.answer("a", "a"), look_at),
    Use("ask", (StoryReader,), "answer questions about stories", lambda face: face.ask(["a"], "a"), look_at),
    Use("detect", (Detector,), "find replaced tokens", lambda face: face.detect(["a"]), look_at),
    Use("embed", (Embeds,), "make vectors of texts", lambda face: face.embed(["a"]), look_at),
)


def routes(house: House) -> Iterator[Route]:
    """Those of models that read, as far as there are any."""
    for name, answer, about, takes, gives, example in (
        ("fill", _fill, "fill the gaps of texts", Fill, Answers[FilledRecord], {"texts": "A [MASK] runs."}),
        ("classify", _classify, "tell the classes of texts", Classify, Answers[ClassRecord], {"texts": "A dog runs."}),
        ("tag", _tag, "tag the words of sentences", Tag, Answers[list[TagRecord]], {"texts": "A dog runs."}),
        (
            "answer",
            _answer,
            "find answers in a text",
            Answer,
            Answers[AnswerRecord],
            {"question": "Who runs?", "context": "A dog runs."},
        ),
        (
            "ask",
            _ask,
            "answer questions about a story",
            Ask,
            Answers[StoryRecord],
            {"story": "Mary went to the garden.", "question": "Where is Mary?"},
        ),
        (
            "detect",
            _detect,
            "find tokens that were replaced",
            Detect,
            Answers[list[SuspicionRecord]],
            {"texts": "A dog runs."},
        ),
        ("embed", _embed, "make vectors of texts", Embed, Answers[list[float]], {"texts": "A dog runs."}),
    ):
        if is_served(house, name):
            path = f"/v1/heedful/{name}"
            yield Route(
                path=path, answer=answer, about=about, takes=takes, gives=gives, group=GROUP, examples=(example,)
            )


async def _fill(asked: Asked, message: Fill) -> Mapping[str, Any]:
    texts = _within(asked, message, message.texts)
    model = model_for(asked.house, "fill", message.model)
    return await told(asked, model, replace(model.face.lines(), top=message.top), texts)


async def _classify(asked: Asked, message: Classify) -> Mapping[str, Any]:
    texts = _within(asked, message, message.texts)
    model = model_for(asked.house, "classify", message.model)
    lines = model.face.lines()
    columns = [(each,) if isinstance(each, str) else tuple(each) for each in texts]
    for number, each in enumerate(columns):
        if isinstance(lines, ChoiceLines) and len(each) < 2:
            raise wrong(
                f"texts.{number}: {model.name} chooses: give a list of a text and its candidates", param="texts"
            )
    if sum(map(len, columns)) > asked.house.settings.limits.batch:
        raise wrong(f"texts: more than {asked.house.settings.limits.batch:,} with all candidates; send fewer")
    return await told(asked, model, lines, columns)


async def _tag(asked: Asked, message: Tag) -> Mapping[str, Any]:
    texts = _within(asked, message, message.texts)
    model = model_for(asked.house, "tag", message.model)
    words = [each.split() if isinstance(each, str) else each for each in texts]
    return await told(asked, model, model.face.lines(), words)


async def _answer(asked: Asked, message: Answer) -> Mapping[str, Any]:
    questions = _within(asked, message, message.question)
    model = model_for(asked.house, "answer", message.model)
    lines = replace(model.face.lines(), n_best=message.n_best)
    return await told(asked, model, lines, [(question, message.context) for question in questions])


async def _ask(asked: Asked, message: Ask) -> Mapping[str, Any]:
    questions = _within(asked, message, message.question)
    model = model_for(asked.house, "ask", message.model)
    story = sentences(message.story) if isinstance(message.story, str) else message.story
    return await told(asked, model, model.face.lines(), [(story, question) for question in questions])


async def _detect(asked: Asked, message: Detect) -> Mapping[str, Any]:
    texts = _within(asked, message, message.texts)
    model = model_for(asked.house, "detect", message.model)
    return await told(asked, model, model.face.lines(), texts)


async def _embed(asked: Asked, message: Embed) -> Mapping[str, Any]:
    texts = _within(asked, message, message.texts)
    model = model_for(asked.house, "embed", message.model)
    return await told(asked, model, EmbedLines(model.face, message.normalise), texts)


def _within(asked: Asked, message: Any, texts: str | Sequence[Any]) -> list[Any]:
    """The texts of a message, if these are no more than are granted."""
    found = listed(texts)
    require_within(asked, message, texts=len(found))
    return found
