"""What models are asked about pictures, and what their answers are worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from heedful.errors import DataError
from heedful.metrics.classes import accuracy
from heedful.metrics.metric import Metric
from heedful.tasks.glimpses.data import Picture, picture_key
from heedful.tasks.glimpses.face import Looker
from heedful.tasks.glimpses.looking import scenes
from heedful.tasks.glimpses.scenes import Scene
from heedful.tasks.labelled import LabelledExam


def picture_exam(pictures: Sequence[Picture], *, scene: Scene, train: Iterable[Picture]) -> LabelledExam:
    """Scenes of pictures, and their classes; an answer is the class that is told after each glimpse.

    Measured is the share of right classes, and beside it what the share would be after fewer glimpses.

    Args:
        pictures: what is asked.
        scene: makes what is looked at.
        train: pictures that tell which class is most frequent.

    Raises:
        DataError: there are no pictures.
    """
    counts = Counter(picture.label for picture in train)
    if not counts or not pictures:
        raise DataError("there is not a single picture; check the files")
    most = min(counts, key=lambda label: (-counts[label], label))
    plain = [picture.pixels for picture in pictures]
    shown = list(scenes(scene, plain, others=plain, numbers=range(len(plain))))
    right = [picture.label for picture in pictures]

    def ask(user: Looker) -> list[tuple[str, ...]]:
        return [sight.after for sight in user.look_at(shown)]

    def measure(answers: Sequence[tuple[str, ...]]) -> Mapping[str, Metric]:
        *earlier, last = zip(*answers, strict=True)
        fewer = {f"after {number}": accuracy(each, right) for number, each in enumerate(earlier, 1)}
        return {"accuracy": accuracy(last, right), **fewer}

    return LabelledExam(
        [picture_key(pixels) for pixels in shown],
        right,
        ask=ask,
        measure=measure,
        size=len(right),
        total=counts.total(),
        constant=most,
        baseline=[(most,)] * len(right),
        main="accuracy",
    )
