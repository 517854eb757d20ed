"""Routes of language and dialogue models: generate continuations and replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from pydantic import field_validator
from starlette.responses import Response

from heedful.generation.results import Hypothesis
from heedful.generation.search import SearchStrategy
from heedful.recipes.generation import ContinuationConfig
from heedful.serving.api.handlers import (
    ContinuationRequest,
    InputText,
    InputTexts,
    IntAtLeast1,
    ModelAnswers,
    RequestTurn,
    check_limits,
    prepare_inspection,
    to_list,
)
from heedful.serving.capabilities import Capability, declare_model_route, find_capable_model
from heedful.serving.http_errors import bad_request
from heedful.serving.registry import LoadedModel
from heedful.serving.routes import RequestContext
from heedful.serving.sse import NAMED_EVENTS, NamedEvent, stream_response
from heedful.tasks.continuations import TextStream
from heedful.tasks.conversation import data
from heedful.tasks.conversation.predictor import ChatPredictor, Reply
from heedful.tasks.language.predictor import Continuation, ContinuationRecord, TextGenerator
from heedful.tasks.search_factory import build_continuation_search

GROUP = "text"
_WARM_UP_TOKENS: Final = 2
"""Tokens of a warm-up text."""
CAPABILITIES = (
    Capability(
        "generate",
        (TextGenerator,),
        "continue texts",
        lambda predictor: predictor.write(["a"], limit=_WARM_UP_TOKENS),
        prepare_inspection,
    ),
    Capability(
        "chat",
        (ChatPredictor,),
        "talk",
        lambda predictor: predictor.reply([predictor.build_turns(["a"])], limit=_WARM_UP_TOKENS),
        prepare_inspection,
    ),
)


class GenerateRequest(ContinuationRequest):
    """A request to continue prompts, as `heedful generate` does."""

    prompts: InputTexts
    """one prompt or several; an empty one begins a document"""
    n_best: IntAtLeast1 = 1
    """number of sampled continuations of each prompt"""
    complete: bool = False
    """complete the last word of each prompt, unless a space follows it"""


class DialogueRequest(ContinuationRequest):
    """A request to continue a dialogue, as `heedful chat` does."""

    turns: list[RequestTurn | InputText]
    """the dialogue so far: texts in turn, of which the user's is the last, or turns with the names of speakers"""

    @field_validator("turns")
    @classmethod
    def _check_turns(cls, turns: list[RequestTurn | InputText]) -> list[RequestTurn | InputText]:
        """Check that all turns have a speaker, or none has."""
        if len({type(turn) for turn in turns}) > 1:
            raise ValueError("give a speaker for all turns, or for none")
        return turns


@declare_model_route(
    "generate", "continue prompts", ModelAnswers[ContinuationRecord], {"prompts": "Once upon a time"}, group=GROUP
)
async def _answer_generate(context: RequestContext, message: GenerateRequest) -> Any:
    """Continue the prompts of a request, and return the model's name and the records of the continuations or, if a
    stream is requested, a response that streams the only one.
    """
    prompts = to_list(message.prompts)
    check_limits(context, message, num_texts=len(prompts))
    if message.n_best > 1 and message.search is None:
        message = message.model_copy(update={"search": "sampling"})
    model = find_capable_model(context.registry, "generate", message.model)
    predictor: TextGenerator = model.predictor
    config = message.build_config(predictor.generation)
    search, limit = build_continuation_search(config, predictor.tokenizer.special, n=message.n_best, seed=message.seed)
    options = {**_generation_options(context, search, limit, config), "complete": message.complete}
    if message.stream:
        if len(prompts) > 1 or message.n_best > 1:
            raise bad_request("stream: sends one continuation of one prompt; ask for only one", param="stream")
        return await _stream_text(
            context,
            model,
            lambda: predictor.stream(prompts[0], **options),
            partial(_build_continuation_record, predictor, prompts[0]),
        )

    def work() -> list[Mapping[str, Any]]:
        continuations = predictor.write(prompts, **options)
        context.deadline.raise_if_over()
        line_format = predictor.line_format()
        return [
            line_format.to_json((prompt, continuation))
            for prompt, prompt_continuations in zip(prompts, continuations, strict=True)
            for continuation in prompt_continuations
        ]

    return {"model": model.name, "answers": await model.run(context.deadline, work)}


@declare_model_route(
    "chat", "write the next turn of a dialogue", ModelAnswers[Reply], {"turns": ["Hello"]}, group=GROUP
)
async def _answer_chat(context: RequestContext, message: DialogueRequest) -> Any:
    """Write the next turn of a dialogue, and return the model's name and the record of the turn or, if a stream is
    requested, a response that streams it.
    """
    check_limits(context, message)
    model = find_capable_model(context.registry, "chat", message.model)
    predictor: ChatPredictor = model.predictor
    config: ContinuationConfig = message.build_config(predictor.generation)
    search, limit = build_continuation_search(config, predictor.encoder.special_ids, seed=message.seed)
    turns, options = build_turns(predictor, message), _generation_options(context, search, limit, config)
    if message.stream:
        return await _stream_text(
            context, model, lambda: predictor.stream(turns, **options), partial(_build_reply_record, predictor)
        )

    def work() -> list[Mapping[str, Any]]:
        replies = predictor.reply([turns], **options)
        context.deadline.raise_if_over()
        return [predictor.line_format().to_json(reply) for reply in replies]

    return {"model": model.name, "answers": await model.run(context.deadline, work)}


def _generation_options(
    context: RequestContext, search: SearchStrategy, limit: int, config: ContinuationConfig
) -> dict[str, Any]:
    """Return the keyword arguments of a predictor's generation: the search, the stop strings of the config, and
    `limit`, or the server's limit of tokens if that is lower; it stops when the request's deadline is over.
    """
    max_tokens = min(limit, context.limits.tokens)
    return {"search": search, "limit": max_tokens, "stop": config.stop, "until": lambda: context.deadline.is_over}


def _build_continuation_record(
    predictor: TextGenerator, prompt: str, text_stream: TextStream, hypothesis: Hypothesis
) -> Mapping[str, Any]:
    """Build the record of a prompt's continuation from its text stream, which has ended, and its final hypothesis."""
    continuation = Continuation(
        text_stream.text,
        tuple(predictor.tokenizer.to_pieces(hypothesis.ids)),
        hypothesis.log_probability,
        hypothesis.finished,
        text_stream.stop,
        hypothesis.ids,
        hypothesis.token_log_probabilities,
    )
    record: Mapping[str, Any] = predictor.line_format().to_json((prompt, continuation))
    return record


def _build_reply_record(predictor: ChatPredictor, text_stream: TextStream, hypothesis: Hypothesis) -> Mapping[str, Any]:
    """Build the record of a reply from its text stream, which has ended, and its final hypothesis."""
    pieces = tuple(predictor.encoder.to_pieces(hypothesis.ids))
    outcome = hypothesis.log_probability, hypothesis.finished, text_stream.stop
    reply = Reply(predictor.speaker, text_stream.text, pieces, *outcome)
    record: Mapping[str, Any] = predictor.line_format().to_json(reply)
    return record


async def _stream_text(
    context: RequestContext,
    model: LoadedModel[Any],
    start: Callable[[], TextStream],
    build_record: Callable[[TextStream, Hypothesis], Mapping[str, Any]],
) -> Response:
    """Return a response that streams the pieces of a text as they are generated, and at the end its record. `start`
    begins to generate the text on the model; `build_record` makes the record from the ended text and its hypothesis.
    """

    def work(emit: Callable[[NamedEvent], None]) -> None:
        text_stream = start()
        for piece in text_stream:
            context.deadline.raise_if_over()
            emit(("growing", {"piece": piece}))
        context.deadline.raise_if_over()
        assert text_stream.hypothesis is not None, "it has ended"
        emit(("record", {"model": model.name, "answers": [build_record(text_stream, text_stream.hypothesis)]}))

    return await stream_response(context, model, work, event_format=NAMED_EVENTS)


def build_turns(predictor: ChatPredictor, message: DialogueRequest) -> tuple[data.DialogueTurn, ...]:
    """Return the turns of the dialogue in a message; without names, the predictor's speaker and the other one
    alternate. Raise an `HTTPError` if the predictor does not know a speaker.
    """
    if not message.turns or not isinstance(message.turns[0], RequestTurn):
        return predictor.build_turns([turn for turn in message.turns if isinstance(turn, str)])
    speakers = predictor.encoder.speakers.names
    turns = [turn for turn in message.turns if isinstance(turn, RequestTurn)]
    for turn in turns:
        if turn.speaker not in speakers:
            raise bad_request(
                f"turns: no speaker is called {turn.speaker!r}; the speakers are {', '.join(speakers)}", param="turns"
            )
    return tuple(data.DialogueTurn(turn.speaker, turn.text) for turn in turns)
