"""Predictor that generates the next turn of a dialogue, and a page of the turns that its replies attended to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from heedful.argument_checks import to_item_list, to_text_list
from heedful.attention.hooks import READ_AXIS, SOURCE_AXIS, WRITTEN_AXIS
from heedful.data.batches import PairBatch
from heedful.deprecation import keep_old_names
from heedful.errors import DataError, RecipeError
from heedful.generation import Hypothesis, score_target
from heedful.generation.prefill import InterruptCondition, never_interrupt
from heedful.generation.search import GreedySearch, SamplingSearch, SearchStrategy
from heedful.inspection.page import escape_page_text, render_html_page
from heedful.inspection.record import InspectionRecord, MapAxis
from heedful.models.generative import ConditionalModel
from heedful.recipes.generation import ContinuationConfig
from heedful.tasks.batch_executor import current_executor, stream_ids
from heedful.tasks.continuations import (
    ContinuationDecoder,
    ContinuationPrompt,
    ContinuationSearchCall,
    StopStrings,
    TextStream,
    strip_incomplete_character,
)
from heedful.tasks.conversation.data import DialogueEncoder, DialogueTurn, Exchange
from heedful.tasks.inspection_records import (
    InspectionSelection,
    add_attribution,
    describe_tokens,
    gather_log_probs,
    record_attention,
    repeat_rows,
)
from heedful.tasks.predictor import InspectRequest, Predictor, TextLineFormat, run_batched
from heedful.tasks.search_factory import build_continuation_search
from heedful.tensors import Tokens, move_to_device


@dataclass(frozen=True)
class Reply:
    """A generated reply.

    Attributes:
        speaker: speaker of the reply.
        text: the text before a stop string.
        tokens: all generated tokens as pieces of text.
        log_probability: log-probability of the tokens, and of the end if it came, in nats.
        finished: whether the turn ended by itself.
        stop: the stop string that ended it, if any.
    """

    speaker: str
    text: str
    tokens: tuple[str, ...]
    log_probability: float
    finished: bool
    stop: str | None = None


@dataclass(frozen=True)
class ScoredReply:
    """Log-probability of each token of a given reply, its end included."""

    tokens: tuple[str, ...]
    token_log_probabilities: tuple[float, ...]

    @property
    def nats(self) -> float:
        """The negative log-likelihood."""
        return -sum(self.token_log_probabilities)


@keep_old_names(script="encoder", other="other_speaker", turns="build_turns")
class ChatPredictor(Predictor):
    """A conversation model with its vocabulary, which replies as one of the speakers of its training dialogues.

    Args:
        model: the model in evaluation mode.
        encoder: encodes turns as ids.
        speaker: speaker of the replies.
        generation: default generation config.
    """

    command = "chat"

    def __init__(
        self, model: ConditionalModel[Tokens], *, encoder: DialogueEncoder, speaker: str, generation: ContinuationConfig
    ) -> None:
        self.model = model
        self.encoder = encoder
        self.speaker = speaker
        self.generation = generation
        self.device = model.device
        search, self.limit = build_continuation_search(generation, encoder.special_ids)
        self.search: SearchStrategy = search
        self.stop = tuple(generation.stop)

    @property
    def other_speaker(self) -> str:
        """The other speaker; raises `RecipeError` if the training dialogues have more than two."""
        others = [name for name in self.encoder.speakers.names if name != self.speaker]
        if len(others) != 1:
            raise RecipeError(f"the training dialogues have {len(others) + 1} speakers; name the one that speaks")
        return others[0]

    def build_turns(self, texts: Sequence[str]) -> tuple[DialogueTurn, ...]:
        """Convert texts to turns in which the model's speaker and the other one alternate and the last turn is the
        other speaker's; empty texts are left out.

        A single text is a list of one.
        """
        speakers, inputs = (self.other_speaker, self.speaker), to_text_list(texts)
        spoken_texts = ((speakers[number % 2], text) for number, text in enumerate(reversed(inputs)))
        return tuple(DialogueTurn(speaker, text) for speaker, text in spoken_texts if text.strip())[::-1]

    def reply(
        self,
        dialogues: Sequence[Sequence[DialogueTurn]],
        *,
        search: SearchStrategy | None = None,
        limit: int | None = None,
        stop: Sequence[str] | None = None,
        batch_tokens: int = 4096,
        first: int = 1,
        until: InterruptCondition = never_interrupt,
    ) -> list[Reply]:
        """Generate the next turn of each dialogue, in their order; a dialogue without turns is started. `limit` is the
        maximum number of tokens, `first` the number of the first dialogue, and `until` can end all replies early.

        Args:
            dialogues: the dialogues so far: turns, or texts as `build_turns` takes them. A string is a dialogue with
                one turn of the other speaker. A single dialogue, of turns or a string, is a list of one.
            search: search algorithm instead of the default; its best result is used.
            limit: tokens of a reply at most, instead of the default.
            stop: strings before which a reply ends, instead of the default.
            batch_tokens: padded context tokens in a batch.
            first: number of the first dialogue, which selects its random stream when sampling.
            until: stops all replies early; what was generated so far is returned.

        Raises:
            DataError: a speaker is unknown.
        """
        stop_strings = StopStrings(self.stop if stop is None else stop)
        dialogue_turns = [
            self._to_turns(dialogue, f"dialogues[{index}]") for index, dialogue in enumerate(_list_dialogues(dialogues))
        ]
        prompts = [
            self._encode_prompt(turns, number, limit=limit) for number, turns in enumerate(dialogue_turns, first)
        ]
        results = run_batched(
            prompts,
            self._build_search_call(search or self.search, stop_strings, until),
            size=lambda prompt: len(prompt.ids) - 1,  # without the speaker of the reply
            batch_tokens=batch_tokens,
            max_rows=64,
        )
        return [self._to_reply(hypotheses[0], stop_strings) for hypotheses in results]

    def _to_turns(self, dialogue: str | Sequence[DialogueTurn | str], name: str) -> Sequence[DialogueTurn]:
        """Return the turns of one dialogue, which may be given as texts; `name` is the argument that the error message
        names.

        Raises:
            DataError: an element is neither a turn nor a text.
        """
        if isinstance(dialogue, str):
            return self.build_turns(dialogue)
        items: list[Any] = to_item_list(
            dialogue, str, DialogueTurn, name=name, noun="turn", remedy="a Turn or a string"
        )
        if any(not isinstance(item, DialogueTurn) for item in items):
            return self.build_turns(to_text_list(items, name=name))
        return items

    def stream(
        self,
        turns: Sequence[DialogueTurn],
        *,
        search: GreedySearch | SamplingSearch,
        limit: int | None = None,
        stop: Sequence[str] | None = None,
        number: int = 1,
        until: InterruptCondition = never_interrupt,
    ) -> TextStream:
        """Generate the reply to one dialogue by the given search, as a stream of text pieces. `limit` is the maximum
        number of tokens, `stop` are strings before which the reply ends, and `until` can end it early.

        `number` is the dialogue's number, which selects its random stream; the other arguments are those of `reply`.
        """
        stop_strings = StopStrings(self.stop if stop is None else stop)
        prompt = self._encode_prompt(self._to_turns(turns, "turns"), number, limit=limit)
        ids = stream_ids(self._build_search_call(search, stop_strings, until), prompt)
        return TextStream(ids, decoder=prompt.decoder, stop_strings=stop_strings)

    def score(self, exchanges: Sequence[Exchange], *, batch_tokens: int = 4096) -> list[ScoredReply]:
        """Return the log-probabilities of the reply of each exchange, given its context, in batches of at most
        `batch_tokens` tokens.

        Raises:
            DataError: a reply is too long for the model, or a speaker is unknown.
        """
        pairs = [
            (self.encoder.encode_source(exchange.context), self._encode_reply(exchange.reply)) for exchange in exchanges
        ]
        return run_batched(
            pairs, self._score_batch, size=lambda pair: max(map(len, pair)), batch_tokens=batch_tokens, max_rows=256
        )

    def inspect(
        self,
        turns: Sequence[DialogueTurn],
        reply: str | None = None,
        *,
        limit: int | None = None,
        scope: InspectionSelection | None = None,
    ) -> InspectionRecord:
        """Record everything the model attends to while it reads turns and generates its reply, or reads the reply
        `reply`.

        Args:
            turns: the turns so far.
            reply: a reply instead of the model's own.
            limit: tokens of the model's own reply at most.
            scope: layers, heads and details to record; all by default.

        Raises:
            DataError: the reply is too long.
            RecipeError: no such layer or head.
        """
        scope = scope or InspectionSelection()
        reply_text = self.reply([turns], limit=limit)[0].text if reply is None else reply
        source, target = self.encoder.encode_source(turns), self._encode_reply(DialogueTurn(self.speaker, reply_text))
        batch = self._build_batch([source], [target])

        def run_model() -> tuple[Tensor, Tokens]:
            """Return the logits of the batch, and the tokens that the decoder reads."""
            hidden, tokens = self.model.forward_all_tokens(scope.pad_tokens(batch.source), batch.target)
            return self.model.output(hidden), tokens

        with torch.inference_mode():
            ids = run_model()[1].ids[0].tolist()
        pieces_of, spans, output_ids = self.encoder.to_pieces, self.encoder.find_turn_spans, [*ids[1:], target[-1]]
        axes = (
            MapAxis(SOURCE_AXIS, scope.name_columns(pieces_of(source)), spans=spans(source)),
            MapAxis(READ_AXIS, tuple(pieces_of(ids)), spans=spans(ids)),
            MapAxis(WRITTEN_AXIS, tuple(pieces_of(output_ids)), spans=spans(output_ids)),
        )
        title = "\n".join(f"{turn.speaker}: {turn.text}" for turn in (*turns, DialogueTurn(self.speaker, reply_text)))
        record, (logits, _) = record_attention(self.model, run_model, selection=scope, axes=axes, title=title)
        used_axes = {name for map_ in record.maps for name in (map_.queries, map_.keys)}
        record = replace(
            record,
            axes=tuple(axis for axis in axes if axis.name in used_axes),
            written=describe_tokens(logits, output_ids, tokenizer=self.encoder, alternatives=scope.alternatives),
        )
        reply_start = len(output_ids) - len(target) + 1  # the speaker was given

        def compute_values(rows: int) -> Tensor:
            inputs = repeat_rows(scope.pad_tokens(batch.source), rows), repeat_rows(batch.target, rows)
            hidden, _ = self.model.forward_all_tokens(*inputs)
            return gather_log_probs(self.model.output(hidden), output_ids)[:, reply_start:]

        return add_attribution(
            record,
            self.model,
            compute_values,
            selection=scope,
            about="written",
            indices=range(reply_start, len(output_ids)),
        )

    def line_format(self) -> ReplyLineFormat:
        """Return the line format with one dialogue per line."""
        return ReplyLineFormat(self)

    def inspect_request(self, request: InspectRequest) -> InspectionRecord:
        """Inspect the request's dialogue, whose turns are tab-separated, the last by the other speaker."""
        if request.beam is not None:
            raise RecipeError("--beam: this model does not search with a beam; leave it out")
        turns = self.build_turns(request.source.split("\t"))
        return self.inspect(turns, request.target, limit=request.max_tokens, scope=request.selection)

    def _encode_reply(self, reply: DialogueTurn) -> list[int]:
        """Encode a given reply; raise `DataError` if it is too long."""
        ids = self.encoder.encode_turn(reply) or [
            self.encoder.get_speaker_id(reply.speaker),
            self.encoder.tokenizer.special.eos,
        ]
        if len(ids) > self.encoder.max_length:
            max_length = self.encoder.max_length
            raise DataError(
                f"the reply {reply.text[:40]!r} has {len(ids)} tokens; this model reads at most {max_length}"
            )
        return ids

    def _score_batch(self, pairs: list[tuple[list[int], list[int]]]) -> Iterator[ScoredReply]:
        """Yield the log-probabilities of the replies in a batch of pairs of context and reply, given as ids."""
        batch = self._build_batch(*map(list, zip(*pairs, strict=True)))
        scores = score_target(self.model.step, self.model.init_state(batch.source), batch.target, labels=batch.labels)
        for (_, target), row in zip(pairs, scores.token_log_probabilities.tolist(), strict=True):
            yield ScoredReply(tuple(self.encoder.to_pieces(target[1:])), tuple(row[: len(target) - 1]))

    def _to_reply(self, hypothesis: Hypothesis, stop_strings: StopStrings) -> Reply:
        text, stop = stop_strings.truncate(strip_incomplete_character(self.encoder.tokenizer.decode(hypothesis.ids)))
        pieces = tuple(self.encoder.to_pieces(hypothesis.ids))
        return Reply(self.speaker, text, pieces, hypothesis.log_probability, hypothesis.finished, stop)

    def _encode_prompt(self, turns: Sequence[DialogueTurn], number: int, *, limit: int | None) -> ContinuationPrompt:
        """Encode the turns before a reply, and its speaker, for the search. `number` selects the random stream, and
        `limit` is the maximum number of tokens of the reply.
        """
        ids = [*self.encoder.encode_source(turns), self.encoder.get_speaker_id(self.speaker)]
        max_tokens = min(limit or self.limit, self.encoder.max_length - 2)
        return ContinuationPrompt(ids, number, max_tokens, ContinuationDecoder(self.encoder.tokenizer, ()))

    def _build_search_call(
        self, search: SearchStrategy, stop_strings: StopStrings, until: InterruptCondition
    ) -> ContinuationSearchCall:
        """Build the call that searches replies; `until` is ignored if an executor runs it, which ends searches that no
        caller needs.
        """
        # an executor itself ends searches that no caller needs
        until = until if current_executor() is None else never_interrupt
        return ContinuationSearchCall(
            self.model, search, stop_strings.strings, until, self._build_inputs, self.encoder.tokenizer
        )

    def _build_inputs(self, prompts: Sequence[list[int]]) -> tuple[Tokens, Tokens]:
        """Build the contexts of replies, and what the decoder reads of their beginning: the speaker."""
        batch = self._build_batch([ids[:-1] for ids in prompts], [ids[-1:] * 2 for ids in prompts])
        return batch.source, batch.target

    def _build_batch(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> PairBatch[Tokens]:
        return move_to_device(self.encoder.build_batch(sources, targets), self.device)


def _list_dialogues(dialogues: Any) -> list[Any]:
    """Return dialogues as a list; a string, or a list of turns, is a list of one."""
    if isinstance(dialogues, str | bytes) or not isinstance(dialogues, Iterable):
        return [dialogues]
    items = list(dialogues)
    return [items] if any(isinstance(item, DialogueTurn) for item in items) else items


@final
@dataclass(frozen=True)
class ReplyLineFormat(TextLineFormat[Reply]):
    """Line format of one dialogue per line, with tab-separated turns, the last by the other speaker, and the reply
    to it.
    """

    predictor: ChatPredictor
    search: SearchStrategy | None = None

    def answer_inputs(self, inputs: Sequence[str], *, start: int) -> list[Reply]:
        """Generate the replies; `start` is the number of the first dialogue, for its random stream."""
        dialogues = [self.predictor.build_turns(line.split("\t")) for line in inputs]
        return self.predictor.reply(dialogues, search=self.search, first=start)

    def format_answer(self, answer: Reply) -> str:
        """Format the text of the reply."""
        return f"{answer.text}\n"


_STYLE: Final = (
    ".turn{max-width:44rem;margin:.8rem 0;padding:.5rem .9rem;border-radius:.8rem;background:#eef0f4}"
    ".turn.own{margin-left:4rem;background:#e3efe6}.turn b{font-size:.8rem;color:#5b6170}.turn p{margin:.2rem 0}"
    ".bar{display:inline-block;height:.6rem;background:#3c8d5a;border-radius:.2rem}summary{cursor:pointer}"
    ".looked{font-size:.85rem;font-variant-numeric:tabular-nums}.looked div{margin:.2rem 0}"
    ".looked i{font-style:normal;padding:0 .1rem;border-radius:.2rem}"
    "@media (prefers-color-scheme:dark){.turn{background:#23252d}.turn.own{background:#1f2f26}.turn b{color:#9aa0af}}"
)


@final
@dataclass(frozen=True)
class TurnAttention:
    """Attention of a reply to one turn, and to each of its tokens, speaker and end included."""

    number: int
    pieces: tuple[str, ...]
    weights: Float[np.ndarray, " T"]

    @property
    def share(self) -> float:
        """Share of the attention to the context."""
        return float(self.weights.sum())


def compute_turn_attention(predictor: ChatPredictor, turns: Sequence[DialogueTurn], reply: str) -> list[TurnAttention]:
    """Return how much attention of the predictor's model a reply pays to each turn before it; empty if the model has no
    attention or there is no context.

    The mean over layers, heads and tokens of the reply. A decoder without an encoder attends to its reply too; only its
    attention to the context counts. Shares add up to 1.

    Raises:
        DataError: the reply is too long.
    """
    context = predictor.encoder.encode_context(turns)
    if not context:
        return []
    record = predictor.inspect(turns, reply, scope=InspectionSelection(attention_steps=False, alternatives=1))
    cross_maps = [map_ for map_ in record.maps if map_.role == "cross"]
    maps = cross_maps or [map_ for map_ in record.maps if map_.role == "decoder"]
    if not maps:
        return []
    size, num_source = (
        len(predictor.encoder.encode_turn(DialogueTurn(predictor.speaker, reply))) - 1,
        1 + sum(map(len, context)),
    )
    token_weights = np.mean([map_.weights[:, -size:, :num_source].mean((0, 1)) for map_ in maps], axis=0)[1:]
    weights_by_turn = np.split(token_weights / token_weights.sum(), np.cumsum([len(ids) for ids in context])[:-1])
    first = len(turns) - len(context) + 1
    return [
        TurnAttention(number, tuple(predictor.encoder.to_pieces(ids)), weights)
        for number, (ids, weights) in enumerate(zip(context, weights_by_turn, strict=True), first)
    ]


def render_transcript(predictor: ChatPredictor, turns: Sequence[DialogueTurn], *, title: str = "A conversation") -> str:
    """Return a self-contained web page of a dialogue, with the attention of the model's replies."""
    return render_html_page(title, tables=[_TurnList(predictor, tuple(turns))], pictures=[], style=_STYLE)


@final
@dataclass(frozen=True)
class _TurnList:
    """The turns of a dialogue as HTML."""

    predictor: ChatPredictor
    turns: tuple[DialogueTurn, ...]

    def to_html(self) -> str:
        """Return one HTML element for each turn."""
        return "\n".join(self._render_turn(number, turn) for number, turn in enumerate(self.turns, 1))

    def _render_turn(self, number: int, turn: DialogueTurn) -> str:
        """Return the HTML of the turn with this number, from 1, with its attention if the model's speaker says it."""
        is_own = turn.speaker == self.predictor.speaker
        attention = compute_turn_attention(self.predictor, self.turns[: number - 1], turn.text) if is_own else []
        attention_html = "".join(_render_attention(attention)) if attention else ""
        name = f"{number} {escape_page_text(turn.speaker)}"
        return (
            "<div "
            f'class="turn{" own" * is_own}"><b>{name}</b><p>{escape_page_text(turn.text)}</p>{attention_html}</div>'
        )


def _render_attention(attention: Sequence[TurnAttention]) -> Iterator[str]:
    """Yield the HTML of the attention of a reply: the turn with the most, and the share of each turn and token."""
    top_turn = max(attention, key=lambda turn: turn.share)
    max_weight = max(float(turn.weights.max()) for turn in attention)
    yield f'<details class="looked"><summary>looked most at turn {top_turn.number} ({top_turn.share:.0%})</summary>'
    for turn in attention:
        yield f'<div>{turn.number} <span class="bar" style="width:{8 * turn.share:.2f}rem"></span> {turn.share:.0%} '
        for piece, weight in zip(turn.pieces, turn.weights.tolist(), strict=True):
            strength = weight / max_weight
            yield f'<i style="background:rgba(60,141,90,{strength:.2f})">{escape_page_text(piece)}</i> '
        yield "</div>"
    yield "</details>"
