"""`heedful quickstart captioning` and `heedful quickstart video`: train a small model to describe coloured shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, final

from heedful.errors import RecipeError
from heedful.recipes.toml import format_value
from heedful.tasks.demonstration import (
    Demonstration,
    format_correction,
    print_now,
    require_positive,
    write_viewer,
)

if TYPE_CHECKING:
    from heedful.inspection.record import InspectionRecord
    from heedful.tasks.captioning.data import CaptionedClip
    from heedful.tasks.captioning.predictor import Captioner, VideoCaptioner

_PICTURE_RECIPE: Final = """\
# Written by: heedful quickstart captioning. Go on with it: heedful train {recipe} --training.steps 2000

task = "captioning"
seed = {seed}
output = {run}

[data]
train = {{ path = "train.json", pictures = "pictures" }}
validation = {{ path = "validation.json", pictures = "pictures" }}
test = {{ path = "test.json", pictures = "pictures" }}
picture_size = 48

[model]
d_model = 128
pictures = {{ kind = "convolutional", widths = [32, 64] }}
decoder = {{ kind = "recurrent", start = "mlp", readout = "maxout", reading = {{ gate = true }} }}

[training]
steps = {steps}
batch_tokens = 800
schedule = {{ kind = "cosine", rate = 3e-3, warmup = 100 }}
clip = 1.0
label_smoothing = 0.0
evaluate_every = 300

[generation]
kind = "greedy"
"""
_VIDEO_RECIPE: Final = """\
# Written by: heedful quickstart video. Go on with it: heedful train {recipe} --training.steps 3000

task = "video"
seed = {seed}
output = {run}

[data]
train = {{ path = "train.jsonl" }}
validation = {{ path = "validation.jsonl" }}
test = {{ path = "test.jsonl" }}
frames = 20
frame_size = {size}
max_length = 16

[model]
d_model = 128
frames = {{ widths = [16, 32, 64] }}
local = {local}
times = {times}
decoder = {{ kind = "recurrent", reading = {{ kind = "{reading}" }} }}

[training]
steps = {steps}
batch_tokens = 200
label_smoothing = 0.0
schedule = {{ kind = "cosine", rate = 3e-3, warmup = 100 }}
clip = 1.0
evaluate_every = 250

[generation]
kind = "greedy"
max_ratio = 0
max_extra = 16
"""
_SHOWN: Final = 6
"""Captioned pictures that are printed."""
_FRAME_SIZE: Final = 24
"""Pixels along each side of a frame."""


@final
@dataclass(frozen=True, kw_only=True)
class CaptioningDemonstration(Demonstration):
    """Train a small network and an attention decoder on pictures of coloured shapes, and show where it looks.

    Nothing is downloaded: the pictures are generated; reading them needs heedful[pictures].
    """

    recipe_template: ClassVar = _PICTURE_RECIPE
    own_data: ClassVar = "pictures"

    output: Path = Path("runs/quickstart-captioning")
    """folder for the pictures, the recipe and the run"""
    steps: int = 1000
    """number of updates; about three minutes on two cores"""
    size: int = 6000
    """number of training pictures"""
    objects: tuple[int, ...] = (1, 2)
    """how many shapes pictures may have, from 1 to 9; three and four need more updates"""

    def iter_files(self) -> Iterator[tuple[str, str | bytes]]:
        """Yield the name and content of each generated file: the pictures, and COCO files with captions and boxes."""
        from heedful.data.pictures import import_pillow
        from heedful.tasks.captioning.scenes import build_coco_files, generate_scenes

        if not self.objects or not all(1 <= count <= 9 for count in self.objects):
            raise RecipeError(f"--objects: {' '.join(map(str, self.objects))}; give numbers from 1 to 9")
        require_positive(size=self.size)
        import_pillow()
        for part, count in (("train", self.size), ("validation", min(self.size, 300)), ("test", min(self.size, 500))):
            scenes = generate_scenes(part, count, objects=self.objects, seed=self.seed)
            picture_files, coco_json = build_coco_files(scenes, stem=part)
            yield from ((f"pictures/{name}", content) for name, content in picture_files.items())
            yield f"{part}.json", coco_json

    def print_data(self) -> None:
        """Print the path of a picture."""
        print_now(f"{self.size:,} pictures of shapes, such as {self.output / 'pictures/train00000.png'}\n")

    def show_results(self, predictor: Captioner, run_folder: Path) -> None:
        """Print scores and some captions of the predictor on the test part, and write a page beside the run folder that
        shows where the model looked.
        """
        from heedful.inspection.page import write_page
        from heedful.tasks.captioning.data import CocoCaptions
        from heedful.tasks.captioning.evaluation import build_caption_evaluator, build_caption_page

        test, train = (
            list(CocoCaptions(self.output / f"{part}.json", pictures=self.output / "pictures"))
            for part in ("test", "train")
        )
        evaluator = build_caption_evaluator(test, train=train)
        outputs = evaluator.predict_labels(predictor)
        metrics = evaluator.compute_metrics(outputs)
        print_now(f"\n{len(test)} pictures whose captions were never in the training part:")
        print_now(f"  exact match {metrics['exact match'].value:.1f} %   CIDEr-D {metrics['CIDEr-D'].value:.2f}")
        print_now(f"  looked at what it named: {metrics['pointing'].value:.1f} % of the time\n")
        for example, text in list(zip(test, outputs.texts, strict=True))[:_SHOWN]:
            print_now(f"  {example.file.name}  {text}{format_correction(text, *example.captions)}")
        page, names = run_folder.parent / "captions.html", [str(example.file) for example in test[:_SHOWN]]
        write_page(build_caption_page(predictor, names), page)
        print_now()
        self.print_next_steps(
            "what it looked at, word by word",
            page,
            ("caption", run_folder, names[0], "--page", "page.html"),
            ("evaluate", run_folder),
        )


@final
@dataclass(frozen=True, kw_only=True)
class VideoDemonstration(Demonstration):
    """Train a small model on clips of two shapes that each do something, one after the other, and show its captions.

    Yao et al. 2015 compare four models; the other three are --no-local, --no-attention, and both.
    """

    recipe_template: ClassVar = _VIDEO_RECIPE
    own_data: ClassVar = "clips"

    output: Path = Path("runs/quickstart-video")
    """folder for the clips, the recipe and the run"""
    steps: int = 1500
    """number of updates; about three minutes on two cores"""
    clips: int = 8000
    """number of training clips"""
    tests: int = 300
    """number of test clips, none of whose captions are in the training part"""
    local: bool = True
    """whether the model reads the motion between adjacent frames"""
    attention: bool = True
    """whether the model attends to the frames anew for each word, with the time of each, instead of reading their
    mean"""

    def iter_files(self) -> Iterator[tuple[str, str | bytes]]:
        """Yield the name and content of each generated file: the clips, and tables with captions and events."""
        from heedful.tasks.captioning.scenes import build_clip_files, generate_clips

        require_positive(clips=self.clips, tests=self.tests)
        print_now(f"{self.clips + self.tests + 100:,} clips are made")
        for part, count in (("train", self.clips), ("validation", 100), ("test", self.tests)):
            clips = generate_clips(part, count, size=_FRAME_SIZE, seed=self.seed)
            yield from build_clip_files(clips, stem=part).items()

    def recipe_fields(self) -> Mapping[str, object]:
        """Return the values to fill into the recipe: the size of frames, and the keys that select one of the four
        models.
        """
        return {
            "size": _FRAME_SIZE,
            "local": format_value(self.local),
            "times": format_value(self.attention),
            "reading": "bahdanau" if self.attention else "context",
        }

    def show_results(self, predictor: VideoCaptioner, run_folder: Path) -> None:
        """Print scores and some captions of the predictor on the test part, and write a page of one clip beside the run
        folder.
        """
        from heedful.tasks.captioning.data import ClipRecords
        from heedful.tasks.captioning.evaluation import build_video_evaluator

        folder = run_folder.parent
        clips, train = (list(ClipRecords(folder / f"{part}.jsonl")) for part in ("test", "train"))
        evaluator = build_video_evaluator(clips, train=train, read_clip=predictor.read_clip)
        outputs = evaluator.predict_labels(predictor)
        metrics = evaluator.compute_metrics(outputs).items()
        print_now(f"\n{len(clips)} clips of combinations that were never in the training part:")
        print_now(f"  {'   '.join(f'{name} {metric.value:.1f}' for name, metric in metrics)}\n")
        for clip, text in list(zip(clips, outputs.texts, strict=True))[:5]:
            print_now(f"  {clip.file}\n  -> {text}{format_correction(text, clip.captions[0])}\n")
        page = folder / "looked.html"
        write_viewer(_inspect_marked(predictor, clips[0]), page)
        commands = (("caption", run_folder, clips[0].file), ("evaluate", run_folder))
        self.print_next_steps("what it looked at", page, *commands)


def _inspect_marked(captioner: VideoCaptioner, clip: CaptionedClip) -> InspectionRecord:
    """Caption a clip and return the record of attention, in which the frames of the first event are marked."""
    record, event = captioner.inspect(clip.file), clip.marks[0]
    frames = record.axes[0]
    numbers = captioner.extract_features(clip.file).frame_indices
    marked_frames = tuple(n for n, number in enumerate(numbers) if event.start <= number < event.stop)
    return replace(record, axes=(replace(frames, marked=marked_frames), *record.axes[1:]))
