"""A trained captioner as its users see it: pictures in, captions out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from heedful.data.pictures import Framing, Picture, read_picture
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, RecipeError
from heedful.generation.search import Beam, Search
from heedful.inspection.capture import places
from heedful.inspection.record import Axis, Record
from heedful.inspection.watch import watch
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.recipes.generation import GenerationConfig
from heedful.tasks.captioning.sight import Sight
from heedful.tasks.faces import Asked, Face, Lines, cell, in_batches
from heedful.tasks.inspecting import Scope
from heedful.tasks.searches import Length
from heedful.tasks.target import Candidate, ForcedScore, Request, Target
from heedful.values import SOURCE, Grid

Shown: TypeAlias = str | Path | Picture
"""A picture, or the file that holds one."""


@dataclass(frozen=True)
class Caption:
    """What is said of a picture.

    Attributes:
        picture: the file, or a number where there is none.
        candidates: best first.
    """

    picture: str
    candidates: tuple[Candidate, ...]

    @property
    def text(self) -> str:
        """The best one."""
        return self.candidates[0].text


@dataclass(frozen=True)
class Looked:
    """Where a caption looks: weights [T, rows, columns] of each token, its end last."""

    tokens: tuple[str, ...]
    weights: Float[np.ndarray, "T rows columns"]


@dataclass(frozen=True)
class _Asked:
    """A picture as it is kept, its number, and what it should begin with or be."""

    kept: Shaped[np.ndarray, ...]
    number: int
    ids: tuple[int, ...] = ()


class Captioner(Face):
    """A model with what looks at pictures for it, and its vocabulary.

    Args:
        model: in evaluation mode.
        tokenizer: of captions.
        sight: what is kept of a picture.
        framing: how pictures become squares.
        search: how captions are looked for unless a call says otherwise.
        length: how long they may become; a picture counts as one token.
        longest: tokens of the longest caption, its end included; None where there is none.
        generation: what `search` and `length` were made of.
    """

    def __init__(
        self,
        model: SequenceToSequence[Tensor],
        *,
        tokenizer: Tokenizer,
        sight: Sight,
        framing: Framing,
        search: Search,
        length: Length,
        generation: GenerationConfig,
        longest: int | None = None,
    ) -> None:
        self.model = model
        self.sight = sight
        self.framing = framing
        self.search = search
        self.length = length
        self.generation = generation
        self.device = next(model.parameters()).device
        self.target = Target(tokenizer, device=self.device, longest=longest)

    def caption(
        self,
        pictures: Sequence[Shown],
        *,
        search: Search | None = None,
        length: Length | None = None,
        first: int = 1,
        together: int = 32,
    ) -> list[Caption]:
        """Captions of pictures, in their order.

        Args:
            pictures: files, or red, green and blue bytes [H, W, 3].
            search: instead of the captioner's own.
            length: likewise.
            first: number of the first picture, its source of chance when sampling.
            together: pictures that are looked at together.

        Raises:
            DataError: a file is missing, damaged or no picture.
            MissingExtraError: Pillow is not installed.
        """
        how, size = search or self.search, length or self.length
        limit = int(size.ratio) + size.extra

        def say(batch: list[_Asked]) -> Iterable[tuple[Candidate, ...]]:
            requests = [Request(limit, stream=each.number) for each in batch]
            found = self.target.find(self.model, self._source(batch), requests, search=how)
            return [tuple(map(self.target.candidate, hypotheses)) for hypotheses in found]

        asked = [_Asked(self.see(each), number) for number, each in enumerate(pictures, first)]
        said = in_batches(asked, say, size=_one, tokens=together)
        return [
            Caption(_name(each, n), found) for n, (each, found) in enumerate(zip(pictures, said, strict=True), first)
        ]

    def score(self, pairs: Sequence[tuple[Shown, str]], *, together: int = 32) -> list[ForcedScore]:
        """Log-probabilities of given captions; `DataError` where a picture or a caption cannot be read."""
        return in_batches(
            self._forced(pairs),
            lambda batch: self.target.scores(self.model, self._source(batch), [each.ids for each in batch]),
            size=_one,
            tokens=together,
        )

    def attend(self, pairs: Sequence[tuple[Shown, str]], *, together: int = 32) -> list[Looked]:
        """Where given captions look, token by token: the mean over heads of the last attention to the picture.

        Raises:
            DataError: a picture or a caption cannot be read.
            RecipeError: the model begins with the picture and never looks at it again.
        """
        return in_batches(self._forced(pairs), self._looks, size=_one, tokens=together)

    @property
    def attentive(self) -> bool:
        """Whether there is attention to the picture."""
        return bool(self._across)

    def see(self, picture: Shown) -> Shaped[np.ndarray, ...]:
        """What is kept of a picture."""
        return self.sight(self.frame(picture))

    def frame(self, picture: Shown) -> Picture:
        """The square that the model sees."""
        return self.framing(read_picture(Path(picture)) if isinstance(picture, str | Path) else picture)

    def inspect(
        self, picture: Shown, caption: str | None = None, *, search: Search | None = None, scope: Scope | None = None
    ) -> Record:
        """Everything the model looks at while it tells a picture, or while it reads a given caption of it.

        Raises:
            DataError: the picture or the caption cannot be read.
            RecipeError: no such layer or head.
        """
        square = self.frame(picture)
        source = self._source([_Asked(self.sight(square), 1)])
        with torch.inference_mode():
            shape = self.model.encoder(source).shape
        assert isinstance(shape, Grid)
        wanted: list[int] | Request = Request(int(self.length.ratio) + self.length.extra)
        if caption is not None:
            wanted = self.target.encode(caption, place="the caption")
        return self.target.look(
            self.model,
            source,
            wanted,
            search=search or self.search,
            scope=scope or Scope(),
            axes=[Axis.grid(SOURCE, rows=shape.rows, columns=shape.columns, pictures=square[None])],
            title=_name(picture, 1),
        )

    def lines(self) -> CaptionLines:
        """A file a line."""
        return CaptionLines(self, self.search, self.length)

    def look(self, asked: Asked) -> Record:
        """See `inspect`; the source is a file."""
        search = self.search
        if asked.tokens is not None:
            raise RecipeError("--tokens: belongs to language models; leave it out")
        if asked.beam is not None:
            if not isinstance(search, Beam):
                raise RecipeError("--beam: this run's recipe does not search with a beam; leave it out")
            search = replace(search, width=asked.beam)
        return self.inspect(asked.source, asked.target, search=search, scope=asked.scope)

    @property
    def _across(self) -> list[str]:
        return [path for path, place in places(self.model).items() if place.look.role == "cross"]

    def _forced(self, pairs: Sequence[tuple[Shown, str]]) -> list[_Asked]:
        found, kept = [], dict[int | str, Any]()
        for number, (picture, text) in enumerate(pairs, 1):
            key = id(picture) if isinstance(picture, np.ndarray) else str(picture)
            if key not in kept:  # captions of one picture follow each other
                kept = {key: self.see(picture)}
            found.append(_Asked(kept[key], number, tuple(self.target.encode(text, place=f"caption {number}"))))
        return found

    def _source(self, batch: Sequence[_Asked]) -> Tensor:
        return torch.from_numpy(np.stack([each.kept for each in batch])).to(self.device)

    def _looks(self, batch: list[_Asked]) -> Iterator[Looked]:
        if not self.attentive:
            raise RecipeError("this model begins with the picture and never looks at it again")
        source, last = self._source(batch), self._across[-1]
        read, _ = self.target.forced([each.ids for each in batch])
        memory = self.model.encoder(source)
        with watch(self.model, only=[last]) as seen:
            self.model.decoder(read, self.model.decoder.begin(memory))
        steps = torch.cat([call.mean(1) if call.dim() == 4 else call for call in seen[last]], 1).float().cpu().numpy()
        for each, weights in zip(batch, steps, strict=True):
            tokens = (*self.target.tokenizer.pieces(each.ids), "</s>")
            grid = weights[: len(tokens)].reshape(len(tokens), memory.shape.rows, memory.shape.columns)
            yield Looked(tokens, grid)


@dataclass(frozen=True)
class CaptionLines(Lines[str, Caption]):
    """A file a line, and its caption; with several for each, lines of file, caption and score, between tabs."""

    chunk: ClassVar[int] = 256

    captioner: Captioner
    search: Search
    length: Length
    several: bool = False
    heard: Callable[[Caption], None] | None = field(default=None, compare=False)

    def inputs(self, lines: Iterable[str], *, name: str) -> Iterator[str]:
        """The names of files; `DataError` where there is none."""
        for number, line in enumerate(lines, 1):
            if not line.strip():
                raise DataError(f"{name}:{number}: names no picture; leave the line out")
            yield line

    def answers(self, inputs: Sequence[str], *, first: int) -> list[Caption]:
        """Captions."""
        found = self.captioner.caption(inputs, search=self.search, length=self.length, first=first)
        if self.heard is not None:
            for each in found:
                self.heard(each)
        return found

    def record(self, answer: Caption) -> dict[str, Any]:
        """All candidates."""
        return {
            "picture": answer.picture,
            "caption": answer.text,
            "candidates": [each.record for each in answer.candidates],
        }

    def text(self, answer: Caption) -> str:
        """The best one, or all."""
        if not self.several:
            return f"{cell(answer.picture)}\t{cell(answer.text)}\n"
        return "".join(f"{cell(answer.picture)}\t{cell(each.text)}\t{each.score:.4f}\n" for each in answer.candidates)


def _one(_: _Asked) -> int:
    return 1


def _name(picture: Shown, number: int) -> str:
    return str(picture) if isinstance(picture, str | Path) else str(number)
