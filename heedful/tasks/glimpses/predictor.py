"""The glimpse predictor: pictures in, classes and glimpse paths out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Final, final

import numpy as np
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from heedful.argument_checks import to_file_list
from heedful.attention.hooks import PATCH_AXIS, SOURCE_AXIS, WHOLE_AXIS
from heedful.data.labels import LabelVocabulary
from heedful.data.pictures import Picture, Resampling, read_picture
from heedful.deprecation import keep_old_names
from heedful.inspection.record import AnswerOption, AttentionMap, Glimpse, InspectionRecord, MapAxis, ModelAnswer
from heedful.models.picture_classifier import PictureClassifier
from heedful.tasks.glimpses.data import PictureShape, PixelArray, fit_picture_to_shape, run_glimpses
from heedful.tasks.glimpses.recipe import LookingConfig
from heedful.tasks.inspection_records import InspectionSelection, record_attention, top_options
from heedful.tasks.predictor import AnswerRecord, InspectRequest, LineFormat, Predictor, escape_cell, run_batched

_MAX_OPTIONS: Final = 10
"""Number of classes that are shown after each glimpse."""
_ATTENTION_NOTE: Final = (
    "Over the picture are the weights that the class token gives to the patches; the rest of its weight is its own."
)


@keep_old_names(after="labels_after", path="glimpses")
@dataclass(frozen=True)
class GlimpsePrediction:
    """Class probabilities and glimpses of a picture.

    Attributes:
        probabilities: by class, most probable first; the mean over all copies.
        labels_after: the most probable class after each glimpse, over all copies; one entry if the whole picture is
            seen at once.
        glimpses: the glimpses of the first copy; empty if the whole picture is seen at once.
    """

    probabilities: Mapping[str, float]
    labels_after: tuple[str, ...]
    glimpses: tuple[Glimpse, ...]

    @property
    def label(self) -> str:
        """The most probable class."""
        return next(iter(self.probabilities))


class ClassProbabilityRecord(AnswerRecord):
    """A class with its probability."""

    name: str
    probability: float
    place: SkipJsonSchema[None] = None


class GlimpseRecord(AnswerRecord):
    """Position of a glimpse, and the classes that are most probable after it."""

    row: float
    """vertical position of the centre, from 0 at the top to 1"""
    column: float
    """horizontal position of the centre, from 0 on the left to 1"""
    sizes: list[float]
    """sizes of the patches, as fractions of the picture's height"""
    options: list[ClassProbabilityRecord]
    """the most probable classes, best first"""


class PictureClassRecord(AnswerRecord):
    """The class of a picture, as `heedful look --format jsonl` writes it."""

    picture: str
    label: str = Field(alias="class")
    probabilities: dict[str, float]
    """probabilities of the classes, the most probable first; the mean over all runs"""
    glimpses: list[GlimpseRecord]
    """glimpses of the first run; empty for a model that sees the whole picture at once"""


@keep_old_names(read="load_picture")
@dataclass(frozen=True, eq=False, repr=False)
class GlimpsePredictor(Predictor):
    """A picture classifier with its class labels; it may look by glimpses.

    Attributes:
        model: in evaluation mode.
        labels: the class labels.
        shape: channels, height and width of the input pictures.
        draws: number of random glimpse positions per copy.
        looking: number of copies, and the seed of the glimpse positions.
        resampling: filter that resizes picture files.
    """

    command = "look"

    model: PictureClassifier
    _: KW_ONLY
    labels: LabelVocabulary
    shape: PictureShape
    draws: int
    looking: LookingConfig
    resampling: Resampling = "bicubic"

    def look_at(self, pictures: Any, *, batch: int = 256) -> list[GlimpsePrediction]:
        """Classify pictures of the model's shape; the result for a picture does not depend on the others.

        Args:
            pictures: arrays or paths of picture files; a single one is a list of one.
            batch: pictures per batch.

        Raises:
            DataError: an element is neither, or a file is not a picture.
        """
        is_single = isinstance(pictures, np.ndarray) and pictures.ndim == len(self.shape)
        inputs = to_file_list([pictures] if is_single else pictures, np.ndarray, name="pictures", noun="picture")
        pixels = [item if isinstance(item, np.ndarray) else self.load_picture(Path(item)) for item in inputs]
        return run_batched(pixels, self._predict_batch, size=lambda _: 1, batch_tokens=batch)

    def line_format(self) -> PictureLineFormat:
        """Return the line format that reads one picture path per line."""
        return PictureLineFormat(self)

    def load_picture(self, path: Path) -> PixelArray:
        """Read a picture file and resize it to the model's shape; `DataError` if it is not a picture."""
        return self.fit_picture(read_picture(path))

    def fit_picture(self, picture: Picture) -> PixelArray:
        """Resize a decoded picture to the model's shape."""
        return fit_picture_to_shape(picture, self.shape, resampling=self.resampling)

    def inspect_request(self, request: InspectRequest) -> InspectionRecord:
        """Inspect the picture file named by the request: the glimpses, and the prediction after each, or the attention
        over patches.
        """
        request.selection.check_layers(self.model)
        path = Path(request.require_no_generation().require_single_text("a looker's"))
        return self.inspect(self.load_picture(path), title=path.name, scope=request.selection)

    def inspect(
        self, pixels: PixelArray, *, title: str = "", scope: InspectionSelection | None = None
    ) -> InspectionRecord:
        """Record the glimpses at a picture, given as pixels in the model's shape, and the prediction after each; of a
        vision transformer, its attention over the patches.

        Args:
            pixels: the picture.
            title: name of the picture on the page.
            scope: layers, heads and details of attention to record; all by default.

        Raises:
            RecipeError: no such layer or head.
        """
        rgb = np.ascontiguousarray(np.broadcast_to(pixels.transpose(1, 2, 0), (1, *pixels.shape[1:], 3)))
        if (size := self.model.region_size) is not None:
            rows, columns = (side // size for side in pixels.shape[1:])
            regions = MapAxis.from_grid(SOURCE_AXIS, rows=rows, columns=columns, pictures=rgb)
            tokens = MapAxis(PATCH_AXIS, ("[class]", *regions.tokens))
            record, (prediction,) = record_attention(
                self.model,
                lambda: self.look_at([pixels]),
                selection=scope or InspectionSelection(),
                axes=(tokens, MapAxis(WHOLE_AXIS, ("the picture",)), regions),
                title=title,
            )
            maps, answers = (*record.maps, *map(_select_class_token, record.maps)), (_build_answer(prediction),)
            return replace(record, maps=maps, answers=answers, notes=(*record.notes, _ATTENTION_NOTE))
        prediction, copies = self.look_at([pixels])[0], self.looking.copies
        note = f"The path is that of the first of {copies} looks, and the class comes from the mean of all looks."
        if not prediction.glimpses:
            note = "This model sees the whole picture at once, so there is no path to show."
        return InspectionRecord(
            model="recurrent visual attention" if prediction.glimpses else "network that sees the whole picture",
            axes=(MapAxis.from_grid("picture", rows=1, columns=1, pictures=rgb),),
            maps=(),
            answers=(_build_answer(prediction),),
            glimpses=prediction.glimpses,
            notes=(note,) if copies > 1 or not prediction.glimpses else (),
            title=title,
        )

    def _predict_batch(self, pictures: list[PixelArray]) -> Iterable[GlimpsePrediction]:
        """Yield the prediction of each picture in a batch; probabilities are means over all copies, glimpses those of
        the first copy.
        """
        looking, device = self.looking, next(self.model.parameters()).device
        outputs, probabilities = run_glimpses(
            self.model, np.stack(pictures), copies=looking.copies, draws=self.draws, seed=looking.seed, device=device
        )
        best, first_copy = probabilities.argmax(-1).tolist(), outputs.logits[:, 0].softmax(-1)
        centres = ((outputs.locations[:, 0] + 1) / 2).tolist()
        sizes = tuple(size / self.shape[1] for size in self.model.patch_sizes)
        for after, class_probabilities, step_probabilities, positions in zip(
            best, probabilities[:, -1].tolist(), first_copy, centres, strict=True
        ):
            # a model that sees the whole picture predicts without a glimpse
            path = tuple(
                Glimpse(
                    row,
                    column,
                    sizes,
                    top_options(option_probabilities, self._get_label_names, max_options=_MAX_OPTIONS),
                )
                for (row, column), option_probabilities in zip(positions, step_probabilities, strict=False)
            )
            ranked = sorted(zip(self.labels.names, class_probabilities, strict=True), key=lambda pair: -pair[1])
            yield GlimpsePrediction(dict(ranked), tuple(self._get_label_names(after)), path)

    def _get_label_names(self, numbers: Sequence[int]) -> list[str]:
        return [self.labels.names[number] for number in numbers]


def _select_class_token(map_: AttentionMap) -> AttentionMap:
    """Return the weights that the class token, the first token of a map, gives to the regions of the picture."""
    weights, visible = map_.weights[:, :1, 1:], map_.visible[:1, 1:]
    return replace(
        map_, role="summary", queries=WHOLE_AXIS, keys=SOURCE_AXIS, weights=weights, visible=visible, walk=None
    )


def _build_answer(prediction: GlimpsePrediction) -> ModelAnswer:
    """Return the most probable classes of a picture as an answer of a record."""
    options = tuple(AnswerOption(*pair) for pair in islice(prediction.probabilities.items(), _MAX_OPTIONS))
    return ModelAnswer("class", "", None, options)


@final
@dataclass(frozen=True)
class PictureLineFormat(LineFormat[tuple[str, PixelArray], tuple[str, GlimpsePrediction]]):
    """Reads one picture path per line; writes path, class and probability, tab-separated.

    JSON output has all probabilities and the glimpses.
    """

    chunk_size: ClassVar[int] = 512

    predictor: GlimpsePredictor

    def parse_lines(self, lines: Iterable[str], *, source_name: str) -> Iterator[tuple[str, PixelArray]]:
        """Read the picture file that each line names, resized to the model's shape; `source_name` is not used."""
        return ((line, self.predictor.load_picture(Path(line))) for line in lines)

    def answer_inputs(
        self, inputs: Sequence[tuple[str, PixelArray]], *, start: int
    ) -> list[tuple[str, GlimpsePrediction]]:
        """Return the path and the prediction of each picture; `start` is not used."""
        predictions = self.predictor.look_at([pixels for _, pixels in inputs])
        return [(path, prediction) for (path, _), prediction in zip(inputs, predictions, strict=True)]

    def to_record(self, answer: tuple[str, GlimpsePrediction]) -> PictureClassRecord:
        """Return a picture's path and its prediction with all class probabilities and glimpses."""
        path, prediction = answer
        return PictureClassRecord.model_validate(
            {
                "picture": path,
                "class": prediction.label,
                "probabilities": prediction.probabilities,
                "glimpses": list(map(asdict, prediction.glimpses)),
            }
        )

    def format_answer(self, answer: tuple[str, GlimpsePrediction]) -> str:
        """Format path, class and probability as one line."""
        path, prediction = answer
        return (
            f"{escape_cell(path)}\t{escape_cell(prediction.label)}\t{prediction.probabilities[prediction.label]:.4f}\n"
        )
