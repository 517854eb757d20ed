"""`heedful quickstart video`: train a small model to describe what shapes do one after another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final, final

from heedful.errors import RecipeError
from heedful.recipes.toml import format_value
from heedful.tasks.demonstration import Demonstration, print_command, print_now, write_files

if TYPE_CHECKING:
    from heedful.inspection.record import InspectionRecord
    from heedful.tasks.video.data import CaptionedClip
    from heedful.tasks.video.predictor import VideoCaptioner

_RECIPE: Final = """\
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
_SIZE: Final = 24
"""Pixels along each side of a frame."""


@final
@dataclass(frozen=True, kw_only=True)
class VideoDemonstration(Demonstration):
    """Train a small model on clips of two shapes that each do something, one after the other, and show its captions.

    Yao et al. 2015 compare four models; the other three are --no-local, --no-attention, and both.
    """

    output: Path = Path("runs/quickstart-video")
    """folder for the clips, the recipe and the run"""
    steps: int = 1500
    """updates; about three minutes on two cores"""
    clips: int = 8000
    """to learn from"""
    tests: int = 300
    """clips to test on, none of whose captions are in the training part"""
    local: bool = True
    """whether the model sees what moves between neighbouring frames"""
    attention: bool = True
    """whether the model looks at other frames for each word, and knows the time of each, instead of always at their
    mean"""

    def write_recipe(self) -> Path:
        """Write the clips, tables with captions and events, and the recipe; return the recipe's path."""
        from heedful.tasks.video.moving_shapes import build_clip_files, generate_clips

        for name, count in (("clips", self.clips), ("tests", self.tests)):
            if count < 1:
                raise RecipeError(f"--{name}: {count}; must be at least 1")
        folder, recipe = self.output, self.output / "recipe.toml"
        print_now(f"{self.clips + self.tests + 100:,} clips are made")
        for part, count in (("train", self.clips), ("validation", 100), ("test", self.tests)):
            write_files(folder, build_clip_files(generate_clips(part, count, size=_SIZE, seed=self.seed), stem=part))
        content = _RECIPE.format(
            recipe=quote(str(recipe)),
            run=format_value(str(folder / "run")),
            seed=self.seed,
            steps=self.steps,
            size=_SIZE,
            local=format_value(self.local),
            times=format_value(self.attention),
            reading="bahdanau" if self.attention else "context",
        )
        write_files(folder, {recipe.name: content})
        return recipe

    def show_results(self, predictor: VideoCaptioner, run_folder: Path) -> None:
        """Print scores and some captions, and write a page of one clip."""
        from heedful.inspection.page import write_page
        from heedful.inspection.web import render_viewer
        from heedful.tasks.video.data import ClipRecords
        from heedful.tasks.video.evaluation import build_video_evaluator

        folder = run_folder.parent
        clips = list(ClipRecords(folder / "test.jsonl"))
        evaluator = build_video_evaluator(
            clips, train=list(ClipRecords(folder / "train.jsonl")), read_clip=predictor.read_clip
        )
        outputs = evaluator.predict_labels(predictor)
        print_now(f"\n{len(clips)} clips of combinations that were never in the training part:")
        print_now(
            "  "
            + "   ".join(f"{name} {metric.value:.1f}" for name, metric in evaluator.compute_metrics(outputs).items())
            + "\n"
        )
        for clip, text in list(zip(clips, outputs.texts, strict=True))[:5]:
            reference = clip.captions[0]
            print_now(f"  {clip.clip}\n  -> {text}{'' if text == reference else f'   (should be: {reference})'}\n")
        page = folder / "looked.html"
        write_page(render_viewer(_inspect_marked(predictor, clips[0])), page)
        print_now(f"what it looked at: {page}  (open it in a browser)\n\nwhere to go next")
        print_command("caption", run_folder, clips[0].clip)
        print_command("evaluate", run_folder)
        print_now("  heedful train RECIPE    with a recipe for your own clips; begin with a copy of")
        print_now(f"                          {folder / 'recipe.toml'}")


def _inspect_marked(captioner: VideoCaptioner, clip: CaptionedClip) -> InspectionRecord:
    """Return the record of a clip in which the frames of the first event are marked."""
    record, event = captioner.inspect(clip.clip), clip.events[0]
    frames = record.axes[0]
    numbers = captioner.extract_features(clip.clip).frame_indices
    marked_frames = tuple(n for n, number in enumerate(numbers) if event.start <= number < event.stop)
    return replace(record, axes=(replace(frames, marked=marked_frames), *record.axes[1:]))
