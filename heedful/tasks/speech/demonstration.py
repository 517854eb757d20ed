"""`heedful quickstart speech`: a small model learns to write the digits that made-up voices say."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final, final

from heedful.recipes.toml import value
from heedful.tasks.demonstration import Demonstration, command, say, write_files

if TYPE_CHECKING:
    from heedful.tasks.speech.digits import Saying
    from heedful.tasks.speech.face import Recogniser

_RECIPE: Final = """\
# Written by: heedful quickstart speech. Go on with it: heedful train {recipe} --training.steps 2000

task = "speech"
seed = {seed}
output = {run}

[data]
train = {{ path = "train.tsv" }}
validation = {{ path = "validation.tsv" }}
test = {{ path = "test.tsv" }}
frames = {{ rate = 8000 }}
max_seconds = 10
max_length = 20

[tokenizer]
kind = "words"

[model]
d_model = 96
layers = 3
d_ff = 256
channels = 16
ctc_weight = 0.5

[model.decoder]
layers = 1
d_ff = 256

[training]
steps = {steps}
batch_tokens = 3000
schedule = {{ kind = "cosine", rate = 2e-3, warmup = 50 }}
clip = 1.0
evaluate_every = 250
monitor = "exact"

[generation]
width = 4
"""
_DIGITS: Final = 4
"""In each string of the test part."""


@final
@dataclass(frozen=True, kw_only=True)
class SpeechDemonstration(Demonstration):
    """Train a small Transformer on strings of spoken digits, and see what it hears.

    The voices are made by rule, a buzz or a hiss through resonators; those of the test part are others than those that
    are learned from, and so are the strings.
    """

    output: Path = Path("runs/quickstart-speech")
    """folder for the recordings, the recipe and the run"""
    steps: int = 2500
    """updates; about three minutes on two cores"""
    size: int = 2000
    """recordings to learn from"""
    tests: int = 500
    """strings of four digits to be measured on"""

    def write(self) -> Path:
        """Recordings and tables of them, and the recipe beside them, as a user would have them."""
        from heedful.tasks.speech.digits import sayings

        folder, recipe = self.output, self.output / "recipe.toml"
        validation = max(20, self.tests // 5)
        say(f"{self.size + self.tests + validation:,} recordings are made")
        parts = {
            "train": sayings("train", self.size, seed=self.seed),
            "validation": sayings("validation", validation, seed=self.seed),
            "test": sayings("test", self.tests, seed=self.seed, digits=_DIGITS),
        }
        for part, said in parts.items():
            table = "".join(self._kept(part, number, each) for number, each in enumerate(said))
            write_files(folder, {f"{part}.tsv": table})
        run = value(str(folder / "run"))
        write_files(
            folder, {recipe.name: _RECIPE.format(recipe=quote(str(recipe)), run=run, seed=self.seed, steps=self.steps)}
        )
        return recipe

    def show(self, face: Recogniser, run: Path) -> None:
        """Errors, some transcriptions, and a page of one."""
        from heedful.data.readers import read_lines
        from heedful.inspection.page import write_page
        from heedful.inspection.web import viewer_html
        from heedful.metrics.edits import word_error_rate

        folder = run.parent
        rows = [line.split("\t") for line in read_lines(folder / "test.tsv")]
        sounds, right = [folder / name for name, _ in rows], [text for _, text in rows]
        found = [each.text for each in face.transcribe(sounds)]
        exact = sum(map(str.__eq__, found, right)) / len(right)
        say(f"\n{len(rows)} strings of four digits in voices that it never heard:")
        say(f"  exact {100 * exact:.1f} %   word errors {word_error_rate(found, right).value:.2f} %\n")
        for sound, text, said in list(zip(sounds, found, right, strict=True))[:5]:
            say(f"  {sound}\n  -> {text}{'' if text == said else f'   (should be: {said})'}\n")
        page = folder / "heard.html"
        write_page(viewer_html(face.inspect(sounds[0])), page)
        say(f"what it listened to: {page}  (open it in a browser)\n\nwhere to go next")
        command("transcribe", run, sounds[0])
        command("evaluate", run)
        say("  heedful train RECIPE    with a recipe for your own recordings; begin with a copy of")
        say(f"                          {folder / 'recipe.toml'}")

    def _kept(self, part: str, number: int, said: Saying) -> str:
        """Its line in the table of its part."""
        name = f"{part}/{number:05d}.wav"
        write_files(self.output, {name: said.wav})
        return f"{name}\t{said.text}\n"
