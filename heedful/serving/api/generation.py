"""Routes of language and dialogue models: generate continuations and replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from starlette.responses import Response

from heedful.generation.results import Hypothesis
from heedful.generation.search import SearchStrategy
from heedful.recipes.generation import ContinuationConfig
from heedful.serving.api.events import NamedEvent, stream_events
from heedful.serving.api.handlers import check_limits, prepare_inspection, to_list
from heedful.serving.api.requests import DialogueRequest, GenerateRequest, RequestTurn
from heedful.serving.api.responses import ContinuationRecord, ModelAnswers, ReplyRecord
from heedful.serving.capabilities import Capability, find_capable_model, has_capable_model
from heedful.serving.http_errors import bad_request
from heedful.serving.registry import LoadedModel, ModelRegistry
from heedful.serving.routes import RequestContext, Route
from heedful.tasks.conversation import data
from heedful.tasks.conversation.predictor import ChatPredictor, Reply
from heedful.tasks.language.predictor import Continuation, TextGenerator
from heedful.tasks.search_factory import build_continuation_search
from heedful.tasks.stop_strings import TextStream

GROUP = "text"
_WARM_UP_TOKENS: Final = 2
"""Tokens of a warm-up text."""
CAPABILITIES = (
    Capability(
        "generate",
        (TextGenerator,),
        "continue texts",
        lambda face: face.write(["a"], limit=_WARM_UP_TOKENS),
        prepare_inspection,
    ),
    Capability(
        "chat",
        (ChatPredictor,),
        "talk",
        lambda face: face.reply([face.build_turns(["a"])], limit=_WARM_UP_TOKENS),
        prepare_inspection,
    ),
)


def iter_routes(registry: ModelRegistry) -> Iterator[Route]:
    """Yield the routes of language and dialogue models, as far as such models are served."""
    if has_capable_model(registry, "generate"):
        yield Route(
            path="/v1/heedful/generate",
            handler=_answer_generate,
            summary="continue prompts",
            request_type=GenerateRequest,
            response_type=ModelAnswers[ContinuationRecord],
            group=GROUP,
            examples=({"prompts": "Once upon a time"},),
        )
    if has_capable_model(registry, "chat"):
        yield Route(
            path="/v1/heedful/chat",
            handler=_answer_chat,
            summary="write the next turn of a dialogue",
            request_type=DialogueRequest,
            response_type=ModelAnswers[ReplyRecord],
            group=GROUP,
            examples=({"turns": ["Hello"]},),
        )


async def _answer_generate(context: RequestContext, message: GenerateRequest) -> Any:
    """Continue prompts, at once or as a stream."""
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
            _ContinuationRecorder(predictor, prompts[0]),
        )

    def work() -> list[Mapping[str, Any]]:
        """Generate the continuations in a worker thread."""
        continuations = predictor.write(prompts, **options)
        context.deadline.raise_if_over()
        line_format = predictor.line_format()
        return [
            line_format.to_json((prompt, continuation))
            for prompt, prompt_continuations in zip(prompts, continuations, strict=True)
            for continuation in prompt_continuations
        ]

    return {"model": model.name, "answers": await model.run(context.deadline, work)}


async def _answer_chat(context: RequestContext, message: DialogueRequest) -> Any:
    """Generate the next turn of a dialogue, at once or as a stream."""
    check_limits(context, message)
    model = find_capable_model(context.registry, "chat", message.model)
    predictor: ChatPredictor = model.predictor
    config: ContinuationConfig = message.build_config(predictor.generation)
    search, limit = build_continuation_search(config, predictor.encoder.special_ids, seed=message.seed)
    turns, options = build_turns(predictor, message), _generation_options(context, search, limit, config)
    if message.stream:
        return await _stream_text(context, model, lambda: predictor.stream(turns, **options), _ReplyRecorder(predictor))

    def work() -> list[Mapping[str, Any]]:
        """Generate the reply in a worker thread."""
        replies = predictor.reply([turns], **options)
        context.deadline.raise_if_over()
        return [predictor.line_format().to_json(reply) for reply in replies]

    return {"model": model.name, "answers": await model.run(context.deadline, work)}


def _generation_options(
    context: RequestContext, search: SearchStrategy, limit: int, config: ContinuationConfig
) -> dict[str, Any]:
    """Return the keyword arguments of a predictor's generation; it stops when the deadline is over."""
    max_tokens = min(limit, context.registry.settings.limits.tokens)
    return {"search": search, "limit": max_tokens, "stop": config.stop, "until": lambda: context.deadline.is_over}


@final
@dataclass(frozen=True)
class _ContinuationRecorder:
    """Builds the record of a streamed continuation when it has ended."""

    predictor: TextGenerator
    prompt: str

    def __call__(self, text_stream: TextStream, hypothesis: Hypothesis) -> Mapping[str, Any]:
        pieces = tuple(self.predictor.tokenizer.to_pieces(hypothesis.ids))
        remaining_fields = (
            hypothesis.log_probability,
            hypothesis.finished,
            text_stream.stop,
            hypothesis.ids,
            hypothesis.token_log_probabilities,
        )
        record: Mapping[str, Any] = self.predictor.line_format().to_json(
            (self.prompt, Continuation(text_stream.text, pieces, *remaining_fields))
        )
        return record


@final
@dataclass(frozen=True)
class _ReplyRecorder:
    """Builds the record of a streamed reply when it has ended."""

    predictor: ChatPredictor

    def __call__(self, text_stream: TextStream, hypothesis: Hypothesis) -> Mapping[str, Any]:
        pieces = tuple(self.predictor.encoder.to_pieces(hypothesis.ids))
        remaining_fields = hypothesis.log_probability, hypothesis.finished, text_stream.stop
        reply = Reply(self.predictor.speaker, text_stream.text, pieces, *remaining_fields)
        record: Mapping[str, Any] = self.predictor.line_format().to_json(reply)
        return record


async def _stream_text(
    context: RequestContext,
    model: LoadedModel[Any],
    start: Callable[[], TextStream],
    build_record: _ContinuationRecorder | _ReplyRecorder,
) -> Response:
    """Stream the pieces of a text as they are generated, and at the end its record."""

    def work(emit: Callable[[NamedEvent], None]) -> None:
        """Generate the text in a worker thread and emit its pieces."""
        text_stream = start()
        for piece in text_stream:
            context.deadline.raise_if_over()
            emit(("growing", {"piece": piece}))
        context.deadline.raise_if_over()
        assert text_stream.hypothesis is not None, "it has ended"
        emit(("record", {"model": model.name, "answers": [build_record(text_stream, text_stream.hypothesis)]}))

    return await stream_events(context, model, work)


def build_turns(predictor: ChatPredictor, message: DialogueRequest) -> tuple[data.DialogueTurn, ...]:
    """Return the turns of a dialogue request; raise an `HTTPError` if a speaker is unknown."""
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
