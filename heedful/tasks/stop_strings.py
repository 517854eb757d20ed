"""What a continuation reads like while it grows: where it ends, and how much of it is certain."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from heedful.data.tokenizers import Tokenizer
from heedful.errors import RecipeError
from heedful.generation.hypotheses import Hypothesis
from heedful.given_texts import text_list

_BROKEN = "\ufffd"
_LONGEST_BROKEN = 3
"""Bytes of a character of four that may be there while the last is not."""


@final
class Ends:
    """Strings at which a text ends, before the first of them; a single string is a list of one.

    Raises:
        RecipeError: one is empty.
    """

    def __init__(self, strings: Iterable[str]) -> None:
        self.strings = tuple(dict.fromkeys(text_list(strings, name="stop")))
        if "" in self.strings:
            raise RecipeError("stop string: one is empty, which would end every text at once; leave it out")

    def cut(self, text: str) -> tuple[str, str | None]:
        """The text before the first string, and which one that was; of two at one place, the shorter one."""
        found = [(at, len(string)) for string in self.strings if (at := text.find(string)) >= 0]
        if not found:
            return text, None
        at, length = min(found)
        return text[:at], text[at : at + length]

    def certain(self, text: str) -> str:
        """As much of a growing text as will be in it whatever follows: no beginning of a string that may come."""
        kept, _ = self.cut(complete(text))
        begun = (
            size
            for string in self.strings
            for size in range(1, min(len(string) - 1, len(kept)) + 1)
            if kept.endswith(string[:size])
        )
        return kept[: len(kept) - max(begun, default=0)]


@final
class Following:
    """The text of what follows a prompt, with the space between them where there is one.

    Args:
        tokenizer: of both.
        prompt: its ids.
        read: how many of them are read; what follows these writes the others again, in whatever tokens.
        unread: characters of the prompt that its ids do not spell, because one of the others is unknown.
    """

    def __init__(
        self, tokenizer: Tokenizer, prompt: Sequence[int], *, read: int | None = None, unread: int = 0
    ) -> None:
        self._tokenizer = tokenizer
        self._prompt = list(prompt[:read])
        self._before = len(tokenizer.decode(prompt)) + unread

    def text(self, ids: Iterable[int]) -> str:
        """Of these ids behind the prompt."""
        return self._tokenizer.decode([*self._prompt, *ids])[self._before :]


@dataclass(frozen=True)
class _Written:
    """What each row has written, -1 where there is nothing; which prompt it follows; whether it has ended."""

    ids: Int[Tensor, "N L"]
    prompts: Int[Tensor, " N"]
    ended: Bool[Tensor, " N"]


@final
class AtString:
    """Ends a row as soon as its text holds one of some strings, wherever tokens begin and end.

    Args:
        ends: the strings.
        following: how each row of the batch reads.
    """

    def __init__(self, ends: Ends, following: Sequence[Following]) -> None:
        self._ends = ends
        self._following = tuple(following)

    def begin(self, written: Int[Tensor, "N L"], /) -> _Written:
        """A forced prefix counts as written."""
        assert len(written) == len(self._following), "each row follows a prompt"
        rows = torch.arange(len(written), device=written.device)
        return _Written(written, rows, torch.zeros_like(rows, dtype=torch.bool))

    def __call__(self, ids: Int[Tensor, " N"], state: _Written, /) -> tuple[Bool[Tensor, " N"], _Written]:
        """The whole text is read again, since what an id reads like depends on those beside it."""
        written = torch.cat((state.ids, ids.unsqueeze(1)), 1)
        rows = zip(written.tolist(), state.prompts.tolist(), state.ended.tolist(), strict=True)
        ended = torch.tensor([done or self._ends_in(row, prompt) for row, prompt, done in rows], dtype=torch.bool)
        ended = ended.to(ids.device)
        return ended, _Written(written, state.prompts, ended)

    def _ends_in(self, row: list[int], prompt: int) -> bool:
        text = complete(self._following[prompt].text(number for number in row if number >= 0))
        return self._ends.cut(text)[1] is not None


def complete(text: str) -> str:
    """The text without a character at its end of which some bytes have not come."""
    broken = len(text) - len(text.rstrip(_BROKEN))
    return text[: len(text) - min(broken, _LONGEST_BROKEN)]


@final
class Growing(Iterator[str]):
    """A text as its ids come, in pieces; what may be a part of a stop string or of a character waits.

    Attributes:
        ids: those that have come, with the one that ended the text.
        text: all pieces that have come.
        stop: the stop string that ended the text; None while it grows, and where none did.
        found: what was found, once it has ended.
    """

    def __init__(self, ids: Generator[int, None, Hypothesis], *, following: Following, ends: Ends) -> None:
        self.ids: list[int] = []
        self.text = ""
        self.stop: str | None = None
        self.found: Hypothesis | None = None
        self._pieces = self._grown(ids, following, ends)

    def __next__(self) -> str:
        piece = next(self._pieces)
        self.text += piece
        return piece

    def _grown(self, ids: Generator[int, None, Hypothesis], following: Following, ends: Ends) -> Iterator[str]:
        shown = ""
        for number in self._noted(ids):
            self.ids.append(number)
            text = ends.certain(following.text(self.ids))
            if len(text) > len(shown):
                yield text[len(shown) :]
                shown = text
        text, self.stop = ends.cut(complete(following.text(self.ids)))
        if rest := text[len(shown) :]:
            yield rest

    def _noted(self, ids: Generator[int, None, Hypothesis]) -> Iterator[int]:
        self.found = yield from ids
