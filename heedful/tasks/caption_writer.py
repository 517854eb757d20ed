"""Models that say what they see, whatever it is: the face that they share, its lines, and its scores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar, final

import numpy as np
import torch
from jaxtyping import Float

from heedful.data.clips import Clip
from heedful.data.pictures import Picture
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, RecipeError
from heedful.generation.search import Search
from heedful.generation.start import Request as Wish
from heedful.given_texts import file_list
from heedful.inspection.capture import places
from heedful.inspection.record import Axis, Record
from heedful.inspection.watch import watch
from heedful.metrics.captions import CaptionBLEU, cider_d
from heedful.models.interface import State
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.recipes.generation import GenerationConfig
from heedful.tasks.faces import Asked, Face, Lines, cell, chunked, in_batches
from heedful.tasks.finding import Finder
from heedful.tasks.inspecting import Scope, widened
from heedful.tasks.searches import Length
from heedful.tasks.target import Candidate, ForcedScore, Request, Target
from heedful.values import SOURCE, Grid, by_name

Kept = TypeVar("Kept")
Shown: TypeAlias = Any
"""Whatever a face looks at: a file, or what it holds."""


@dataclass(frozen=True)
class Caption:
    """What is said of something.

    Attributes:
        name: the file, or a number where there is none.
        candidates: best first.
    """

    name: str
    candidates: tuple[Candidate, ...]

    @property
    def text(self) -> str:
        """The best one."""
        return self.candidates[0].text


@dataclass(frozen=True)
class Looked:
    """Where a caption looks: weights of each token, its end last, as the slots lie: [T, frames], [T, rows, columns]."""

    tokens: tuple[str, ...]
    weights: Float[np.ndarray, "T ..."]


@dataclass(frozen=True)
class Given(Generic[Kept]):
    """Something as it is kept, its number, and a caption of it."""

    kept: Kept
    number: int
    ids: tuple[int, ...] = ()


@final
@dataclass(frozen=True)
class Captioning(Finder[Given[Kept]]):
    """Captions by one way to search.

    Attributes:
        target: the side that is written.
        length: how long they may become.
        source: a batch of what is seen.
    """

    target: Target
    length: Length
    source: Callable[[Sequence[Given[Kept]]], Any] = field(compare=False)

    def begun(self, batch: list[Given[Kept]]) -> tuple[State, Wish]:
        """Behind what is seen."""
        requests = [Request(self.length.limit(1), each.number, least=self.length.fewest(1)) for each in batch]
        return self.engine.begin(self.source(batch)), self.target.wish(requests)


class CaptionWriter(Face, Generic[Kept]):
    """A model with its vocabulary, which says what it sees.

    Abstract: what is seen, and how, belongs to the task.

    Attributes:
        seen: what it looks at, in one word.
        view: the figure (`heedful.inspection.figures`) that shows what was looked at, word by word.

    Args:
        model: in evaluation mode.
        tokenizer: of captions.
        search: how captions are looked for unless a call says otherwise.
        length: how long they may become; what is seen counts as one token.
        longest: tokens of the longest caption, its end included; None where there is none.
        generation: what `search` and `length` were made of.
    """

    seen: ClassVar[str]
    view: ClassVar[str]

    def __init__(
        self,
        model: SequenceToSequence[Any],
        *,
        tokenizer: Tokenizer,
        search: Search,
        length: Length,
        generation: GenerationConfig,
        longest: int | None = None,
    ) -> None:
        self.model = model
        self.search = search
        self.length = length
        self.generation = generation
        self.device = next(model.parameters()).device
        self.target = Target(tokenizer, device=self.device, longest=longest)

    @abstractmethod
    def see(self, shown: Shown) -> Kept:
        """What is kept of a file, or of what it holds; `DataError` where it cannot be seen."""

    @abstractmethod
    def source(self, kept: Sequence[Kept]) -> Any:
        """What the model reads of several, where the model is."""

    @abstractmethod
    def axis(self, shown: Shown, kept: Kept) -> Axis:
        """How the slots of one lie, to be looked at."""

    @abstractmethod
    def photograph(self, shown: Shown) -> Picture | None:
        """What one sees, as a picture; None where there is nothing to be seen."""

    def caption(
        self,
        shown: Sequence[Shown],
        *,
        search: Search | None = None,
        length: Length | None = None,
        first: int = 1,
        together: int = 32,
    ) -> list[Caption]:
        """Captions, in the order of what is shown.

        Args:
            shown: files, or what they hold; a single file is a list of one.
            search: instead of its own.
            length: likewise.
            first: number of the first one, its source of chance when sampling.
            together: how many are looked at together.

        Raises:
            DataError: a file is missing or damaged, or is of no kind that is known.
            MissingExtraError: the package that decodes it is not installed.
        """
        how, size = search or self.search, length or self.length

        captioning = Captioning(self.model, how, self.target, size, self._source)
        found: list[Caption] = []
        given = file_list(shown, np.ndarray, Clip, name="shown", noun="file or its content")
        for part in chunked(given, together):  # what is seen of more may not fit into the memory
            asked = [Given(self.see(each), number) for number, each in enumerate(part, first + len(found))]
            said = in_batches(asked, captioning, size=_one, tokens=together)
            names = (named(each, given.number) for each, given in zip(part, asked, strict=True))
            found += map(Caption, names, (tuple(map(self.target.candidate, hypotheses)) for hypotheses in said))
        return found

    def score(self, pairs: Sequence[tuple[Shown, str]], *, together: int = 32) -> list[ForcedScore]:
        """Log-probabilities of given captions; `DataError` where something or its caption cannot be read."""
        return in_batches(self._forced(pairs), self._scores, size=_one, tokens=together)

    def attend(self, pairs: Sequence[tuple[Shown, str]], *, together: int = 32) -> list[Looked]:
        """Where given captions look, token by token: the mean over heads of the last attention to what is seen.

        Raises:
            DataError: something or its caption cannot be read.
            RecipeError: the model begins with what it sees and never looks at it again.
        """
        return in_batches(self._forced(pairs), self._looks, size=_one, tokens=together)

    @property
    def attentive(self) -> bool:
        """Whether there is attention to what is seen."""
        return bool(self._across)

    def inspect(
        self, shown: Shown, caption: str | None = None, *, search: Search | None = None, scope: Scope | None = None
    ) -> Record:
        """Everything the model looks at while it says what it sees, or while it reads a given caption of it.

        Raises:
            DataError: what is shown or the caption cannot be read.
            RecipeError: no such layer or head.
        """
        kept = self.see(shown)
        wanted: list[int] | Request = Request(self.length.limit(1), least=self.length.fewest(1))
        if caption is not None:
            wanted = self.target.encode(caption, place="the caption")
        return self.target.look(
            self.model,
            self.source([kept]),
            wanted,
            search=search or self.search,
            scope=scope or Scope(),
            axes=[self.axis(shown, kept)],
            title=named(shown, 1),
        )

    def lines(self) -> CaptionLines:
        """A file a line."""
        return CaptionLines(self, self.search, self.length)

    @final
    def look(self, asked: Asked) -> Record:
        """See `inspect`; the source is a file."""
        search = self.search
        if asked.tokens is not None:
            raise RecipeError("--tokens: belongs to language models; leave it out")
        if asked.beam is not None:
            search = widened(search, asked.beam)
        return self.inspect(asked.source, asked.target, search=search, scope=asked.scope)

    @property
    def _across(self) -> list[str]:
        return [path for path, place in places(self.model).items() if place.look.role == "cross"]

    def _forced(self, pairs: Sequence[tuple[Shown, str]]) -> list[Given[Kept]]:
        found: list[Given[Kept]] = []
        for number, (shown, text) in enumerate(pairs, 1):
            again = number > 1 and shown is pairs[number - 2][0]  # captions of one thing follow each other
            kept = found[-1].kept if again else self.see(shown)
            found.append(Given(kept, number, tuple(self.target.encode(text, place=f"caption {number}"))))
        return found

    def _source(self, batch: Sequence[Given[Kept]]) -> Any:
        return self.source([each.kept for each in batch])

    def _scores(self, batch: list[Given[Kept]]) -> Iterator[ForcedScore]:
        return self.target.scores(self.model, self._source(batch), [each.ids for each in batch])

    def _looks(self, batch: list[Given[Kept]]) -> Iterator[Looked]:
        if not self.attentive:
            raise RecipeError(f"this model begins with the {self.seen} and never looks at it again")
        last = self._across[-1]
        read, _ = self.target.forced([each.ids for each in batch])
        memory = self.model.encoder(self._source(batch))
        with watch(self.model, only=[last]) as found:
            self.model.decoder(read, self.model.decoder.begin(memory))
        shape = by_name(memory)[SOURCE].shape
        lying = (shape.rows, shape.columns) if isinstance(shape, Grid) else (-1,)
        steps = torch.cat([call.mean(1) if call.dim() == 4 else call for call in found[last]], 1).float().cpu().numpy()
        for each, weights in zip(batch, steps, strict=True):
            tokens = (*self.target.tokenizer.pieces(each.ids), "</s>")
            yield Looked(tokens, weights[: len(tokens)].reshape(len(tokens), *lying))


@final
@dataclass(frozen=True)
class CaptionLines(Lines[str, Caption]):
    """A file a line, and its caption; with several for each, lines of file, caption and score, between tabs."""

    chunk: ClassVar[int] = 256

    captioner: CaptionWriter[Any]
    search: Search
    length: Length
    several: bool = False

    def inputs(self, lines: Iterable[str], *, name: str) -> Iterator[str]:
        """The names of files; `DataError` where there is none."""
        for number, line in enumerate(lines, 1):
            if not line.strip():
                raise DataError(f"{name}:{number}: names no {self.captioner.seen}; leave the line out")
            yield line

    def answers(self, inputs: Sequence[str], *, first: int) -> list[Caption]:
        """Captions."""
        return self.captioner.caption(inputs, search=self.search, length=self.length, first=first)

    def record(self, answer: Caption) -> dict[str, Any]:
        """All candidates."""
        return {
            self.captioner.seen: answer.name,
            "caption": answer.text,
            "candidates": [each.record for each in answer.candidates],
        }

    def text(self, answer: Caption) -> str:
        """The best one, or all."""
        if not self.several:
            return f"{cell(answer.name)}\t{cell(answer.text)}\n"
        return "".join(f"{cell(answer.name)}\t{cell(each.text)}\t{each.score:.4f}\n" for each in answer.candidates)


def caption_score(
    captioner: CaptionWriter[Any], examples: Iterable[tuple[Shown, Sequence[str]]], *, search: Search
) -> dict[str, float]:
    """BLEU-4 and CIDEr-D of captions; what cannot be seen is left out, and so is what has no captions."""
    seen, references = [], []
    for shown, captions in examples:
        try:
            captioner.see(shown)
        except DataError:
            continue
        if captions:
            seen.append(shown)
            references.append(captions)
    texts = [found.text for found in captioner.caption(seen, search=search)]
    return {"bleu": CaptionBLEU(texts, references).value, "cider": cider_d(texts, references).value}


def named(shown: Shown, number: int) -> str:
    """A file by its name, what is no file by its number."""
    return str(shown) if isinstance(shown, str | Path) else str(number)


def _one(_: Given[Any]) -> int:
    return 1
