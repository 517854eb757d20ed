"""A web page of a dialogue that shows which turns each reply of a model attended to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from jaxtyping import Float

from heedful.inspection.page import escape_page_text, render_html_page
from heedful.tasks.conversation.data import DialogueTurn
from heedful.tasks.conversation.predictor import ChatPredictor
from heedful.tasks.inspection_records import InspectionSelection

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
