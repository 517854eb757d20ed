"""`heedful quickstart video`: a small model learns to say what shapes do, one behind the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final, final

from heedful.errors import RecipeError
from heedful.recipes.toml import value
from heedful.tasks.demonstration import Demonstration, command, say, write_files

if TYPE_CHECKING:
    from heedful.inspection.record import Record
    from heedful.tasks.video.data import CaptionedClip
    from heedful.tasks.video.face import VideoCaptioner

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
    """Train a small model on clips of two shapes that do something one behind the other, and see what it says of them.

    Yao et al. 2015 compare four models; the other three are --no-local, --no-attention, and both.
    """

    output: Path = Path("runs/quickstart-video")
    """folder for the clips, the recipe and the run"""
    steps: int = 1500
    """updates; about three minutes on two cores"""
    clips: int = 8000
    """to learn from"""
    tests: int = 300
    """clips to be measured on, of which no caption was learned from"""
    local: bool = True
    """whether the model sees what moves between neighbouring frames"""
    attention: bool = True
    """whether it looks at other frames for each word, and knows when each is shown, instead of always at their mean"""

    def write(self) -> Path:
        """Clips, tables that say what happens in them and when, and the recipe, as a user would have them."""
        from heedful.tasks.video.moving import files, moving

        for name, count in (("clips", self.clips), ("tests", self.tests)):
            if count < 1:
                raise RecipeError(f"--{name}: {count}; must be at least 1")
        folder, recipe = self.output, self.output / "recipe.toml"
        say(f"{self.clips + self.tests + 100:,} clips are made")
        for part, count in (("train", self.clips), ("validation", 100), ("test", self.tests)):
            write_files(folder, files(moving(part, count, size=_SIZE, seed=self.seed), stem=part))
        content = _RECIPE.format(
            recipe=quote(str(recipe)),
            run=value(str(folder / "run")),
            seed=self.seed,
            steps=self.steps,
            size=_SIZE,
            local=value(self.local),
            times=value(self.attention),
            reading="bahdanau" if self.attention else "context",
        )
        write_files(folder, {recipe.name: content})
        return recipe

    def show(self, face: VideoCaptioner, run: Path) -> None:
        """Scores, some captions, and a page of one clip."""
        from heedful.inspection.page import write_page
        from heedful.inspection.web import viewer_html
        from heedful.tasks.video.data import ClipRecords
        from heedful.tasks.video.exam import video_exam

        folder = run.parent
        clips = list(ClipRecords(folder / "test.jsonl"))
        exam = video_exam(clips, train=list(ClipRecords(folder / "train.jsonl")), see=face.read)
        told = exam.ask(face)
        say(f"\n{len(clips)} clips of what it never saw together:")
        say("  " + "   ".join(f"{name} {metric.value:.1f}" for name, metric in exam.metrics(told).items()) + "\n")
        for clip, text in list(zip(clips, told.texts, strict=True))[:5]:
            right = clip.captions[0]
            say(f"  {clip.clip}\n  -> {text}{'' if text == right else f'   (should be: {right})'}\n")
        page = folder / "looked.html"
        write_page(viewer_html(_marked(face, clips[0])), page)
        say(f"what it looked at: {page}  (open it in a browser)\n\nwhere to go next")
        command("caption", run, clips[0].clip)
        command("evaluate", run)
        say("  heedful train RECIPE    with a recipe for your own clips; begin with a copy of")
        say(f"                          {folder / 'recipe.toml'}")


def _marked(face: VideoCaptioner, clip: CaptionedClip) -> Record:
    """What the model looks at in a clip; the frames of the first event are marked."""
    record, event = face.inspect(clip.clip), clip.events[0]
    frames = record.axes[0]
    numbers = face.see(clip.clip).numbers
    marked = tuple(n for n, number in enumerate(numbers) if event.start <= number < event.stop)
    return replace(record, axes=(replace(frames, marked=marked), *record.axes[1:]))
