"""A trained model as its user sees it: pictures in, classes out, and where it looked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Final, final

import numpy as np

from heedful.data.labels import Labels
from heedful.data.pictures import read_picture
from heedful.given_texts import file_list
from heedful.inspection.record import Answer, Axis, Glimpse, Option, Record
from heedful.models.picture_classifier import PictureClassifier
from heedful.tasks.faces import Asked, Face, Lines, cell, in_batches
from heedful.tasks.glimpses.data import Pixels, Shape, fitted
from heedful.tasks.glimpses.looking import looked
from heedful.tasks.glimpses.recipe import LookingConfig
from heedful.tasks.inspecting import best_options

_MOST: Final = 10
"""Classes that are named after each glimpse."""


@dataclass(frozen=True)
class Sight:
    """What a model says of a picture.

    Attributes:
        probabilities: of the classes, the most probable first; the mean over all looks.
        after: the most probable class after each glimpse, of all looks together; once where all is seen at once.
        path: the glimpses of the first look; none where all is seen at once.
    """

    probabilities: Mapping[str, float]
    after: tuple[str, ...]
    path: tuple[Glimpse, ...]

    @property
    def label(self) -> str:
        """The most probable class."""
        return next(iter(self.probabilities))


@dataclass(frozen=True, eq=False, repr=False)
class Looker(Face):
    """A model with the classes it was trained with.

    Attributes:
        model: in evaluation mode.
        labels: the classes.
        shape: channels, height and width of what it looks at.
        draws: places of each look.
        looking: how often it looks, and the seed of its places.
    """

    model: PictureClassifier
    _: KW_ONLY
    labels: Labels
    shape: Shape
    draws: int
    looking: LookingConfig

    def look_at(self, pictures: Any, *, batch: int = 256) -> list[Sight]:
        """The classes of pictures of the model's shape; what is said of one depends on no other.

        Args:
            pictures: what they hold, or paths of their files; a single one is a list of one.
            batch: pictures that are looked at together.

        Raises:
            DataError: an element is neither; or a file holds no picture.
        """
        alone = isinstance(pictures, np.ndarray) and pictures.ndim == len(self.shape)
        given = file_list([pictures] if alone else pictures, np.ndarray, name="pictures", noun="picture")
        seen = [each if isinstance(each, np.ndarray) else self.read(Path(each)) for each in given]
        return in_batches(seen, self._sights, size=lambda _: 1, tokens=batch)

    def lines(self) -> PictureLines:
        """The path of a picture on each line."""
        return PictureLines(self)

    def read(self, path: Path) -> Pixels:
        """The picture in a file, as large as the model wants it; `DataError` where there is none."""
        return fitted(read_picture(path), self.shape)

    def look(self, asked: Asked) -> Record:
        """Where the model looks in the picture whose file is named, and what it would say after each glimpse."""
        asked.scope.check(self.model)
        path = Path(asked.to_read().alone("a looker's"))
        return self.inspect(self.read(path), title=path.name)

    def inspect(self, pixels: Pixels, *, title: str = "") -> Record:
        """The same of a picture of the model's shape."""
        sight, copies = self.look_at([pixels])[0], self.looking.copies
        shown = np.broadcast_to(pixels.transpose(1, 2, 0), (1, *pixels.shape[1:], 3))
        options = tuple(Option(*pair) for pair in islice(sight.probabilities.items(), _MOST))
        note = f"The path is that of the first of {copies} looks, and the class is told by the mean of all."
        if not sight.path:
            note = "This model sees the picture at once, so there is no path to look at."
        return Record(
            model="recurrent visual attention" if sight.path else "network that sees the whole picture",
            axes=(Axis.grid("picture", rows=1, columns=1, pictures=np.ascontiguousarray(shown)),),
            maps=(),
            answers=(Answer("class", "", None, options),),
            glimpses=sight.path,
            notes=(note,) if copies > 1 or not sight.path else (),
            title=title,
        )

    def _sights(self, pictures: list[Pixels]) -> Iterable[Sight]:
        looking, device = self.looking, next(self.model.parameters()).device
        looks, chances = looked(
            self.model, np.stack(pictures), copies=looking.copies, draws=self.draws, seed=looking.seed, device=device
        )
        best, own = chances.argmax(-1).tolist(), looks.logits[:, 0].softmax(-1)
        places = ((looks.places[:, 0] + 1) / 2).tolist()
        sizes = tuple(size / self.shape[1] for size in self.model.sizes)
        for after, said, then, where in zip(best, chances[:, -1].tolist(), own, places, strict=True):
            # a model that sees the whole picture says something after no glimpse
            path = tuple(
                Glimpse(row, column, sizes, best_options(chance, self._names, most=_MOST))
                for (row, column), chance in zip(where, then, strict=False)
            )
            named = sorted(zip(self.labels.names, said, strict=True), key=lambda pair: -pair[1])
            yield Sight(dict(named), tuple(self._names(after)), path)

    def _names(self, numbers: Sequence[int]) -> list[str]:
        return [self.labels.names[number] for number in numbers]


@dataclass(frozen=True)
class PictureFile:
    """A picture and the file that it is from."""

    path: str
    pixels: Pixels


@final
@dataclass(frozen=True)
class PictureLines(Lines[PictureFile, tuple[str, Sight]]):
    """The path of a picture a line; path, class and its probability between tabs. JSON tells all, and the glimpses."""

    chunk: ClassVar[int] = 512

    looker: Looker

    def inputs(self, lines: Iterable[str], *, name: str) -> Iterator[PictureFile]:
        """Pictures of any size, drawn out to that of the model."""
        return (PictureFile(line, self.looker.read(Path(line))) for line in lines)

    def answers(self, inputs: Sequence[PictureFile], *, first: int) -> list[tuple[str, Sight]]:
        """Paths and what is said."""
        sights = self.looker.look_at([each.pixels for each in inputs])
        return [(each.path, sight) for each, sight in zip(inputs, sights, strict=True)]

    def record(self, answer: tuple[str, Sight]) -> Any:
        """With the probabilities of all classes, and each glimpse."""
        path, sight = answer
        return {
            "picture": path,
            "class": sight.label,
            "probabilities": sight.probabilities,
            "glimpses": [asdict(glimpse) for glimpse in sight.path],
        }

    def text(self, answer: tuple[str, Sight]) -> str:
        """A line."""
        path, sight = answer
        return f"{cell(path)}\t{cell(sight.label)}\t{sight.probabilities[sight.label]:.4f}\n"
