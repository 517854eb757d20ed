"""A dialogue as a page: what was said, and at which turns each reply of a model looked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from jaxtyping import Float

from heedful.inspection.page import html_page, page_text
from heedful.tasks.conversation.data import Turn
from heedful.tasks.conversation.face import Partner
from heedful.tasks.inspecting import Scope

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
class Glance:
    """How much of a reply's attention went to one turn, and to each of its tokens, who speaks and its end included."""

    number: int
    pieces: tuple[str, ...]
    weights: Float[np.ndarray, " T"]

    @property
    def share(self) -> float:
        """Of all that went to what had been said."""
        return float(self.weights.sum())


def glances(partner: Partner, turns: Sequence[Turn], reply: str) -> list[Glance]:
    """Which of the turns before it a reply looked at; none where the model has no attention, or nothing was said.

    The mean over layers, heads and tokens of the reply. A decoder without an encoder looks at its reply too; here is
    what it looked at besides. Shares add up to 1.

    Raises:
        DataError: the reply is too long.
    """
    context = partner.script.context(turns)
    if not context:
        return []
    record = partner.inspect(turns, reply, scope=Scope(walks=False, alternatives=1))
    across = [each for each in record.maps if each.role == "cross"]
    maps = across or [each for each in record.maps if each.role == "decoder"]
    if not maps:
        return []
    size, read = len(partner.script.turn(Turn(partner.speaker, reply))) - 1, 1 + sum(map(len, context))
    looked = np.mean([each.weights[:, -size:, :read].mean((0, 1)) for each in maps], axis=0)[1:]
    parts = np.split(looked / looked.sum(), np.cumsum([len(ids) for ids in context])[:-1])
    first = len(turns) - len(context) + 1
    return [
        Glance(number, tuple(partner.script.pieces(ids)), part)
        for number, (ids, part) in enumerate(zip(context, parts, strict=True), first)
    ]


def transcript(partner: Partner, turns: Sequence[Turn], *, title: str = "A conversation") -> str:
    """The page of a dialogue, which needs nothing else; a reply of the model tells where it looked."""
    return html_page(title, tables=[_Said(partner, tuple(turns))], pictures=[], style=_STYLE)


@final
@dataclass(frozen=True)
class _Said:
    """Turns below each other."""

    partner: Partner
    turns: tuple[Turn, ...]

    def html(self) -> str:
        """An element for each turn."""
        return "\n".join(self._turn(number, turn) for number, turn in enumerate(self.turns, 1))

    def _turn(self, number: int, turn: Turn) -> str:
        own = turn.speaker == self.partner.speaker
        found = glances(self.partner, self.turns[: number - 1], turn.text) if own else []
        looked = "".join(_looked(found)) if found else ""
        name = f"{number} {page_text(turn.speaker)}"
        return f'<div class="turn{" own" * own}"><b>{name}</b><p>{page_text(turn.text)}</p>{looked}</div>'


def _looked(found: Sequence[Glance]) -> Iterator[str]:
    most = max(found, key=lambda each: each.share)
    strongest = max(float(each.weights.max()) for each in found)
    yield f'<details class="looked"><summary>looked most at turn {most.number} ({most.share:.0%})</summary>'
    for each in found:
        yield f'<div>{each.number} <span class="bar" style="width:{8 * each.share:.2f}rem"></span> {each.share:.0%} '
        for piece, weight in zip(each.pieces, each.weights.tolist(), strict=True):
            strength = weight / strongest
            yield f'<i style="background:rgba(60,141,90,{strength:.2f})">{page_text(piece)}</i> '
        yield "</div>"
    yield "</details>"
