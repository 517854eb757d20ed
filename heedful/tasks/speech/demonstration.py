"""`heedful quickstart speech`: train a small model to transcribe digits spoken by synthetic voices."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final, final

from heedful.recipes.toml import format_value
from heedful.tasks.demonstration import Demonstration, print_command, print_now, write_files

if TYPE_CHECKING:
    from heedful.tasks.speech.digits import DigitRecording
    from heedful.tasks.speech.predictor import SpeechRecognizer

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
_TEST_DIGITS: Final = 4
"""In each string of the test part."""


@final
@dataclass(frozen=True, kw_only=True)
class SpeechDemonstration(Demonstration):
    """Train a small Transformer on strings of spoken digits, and show what it transcribes.

    The voices are synthesised by rules: a buzz or a hiss through resonators. The test part has other voices and other
    strings than the training part.
    """

    output: Path = Path("runs/quickstart-speech")
    """folder for the recordings, the recipe and the run"""
    steps: int = 2500
    """updates; about three minutes on two cores"""
    size: int = 2000
    """recordings to learn from"""
    tests: int = 500
    """strings of four digits to test on"""

    def write_recipe(self) -> Path:
        """Write the recordings, their tables and the recipe; return the recipe's path."""
        from heedful.tasks.speech.digits import generate_recordings

        folder, recipe = self.output, self.output / "recipe.toml"
        validation = max(20, self.tests // 5)
        print_now(f"{self.size + self.tests + validation:,} recordings are made")
        parts = {
            "train": generate_recordings("train", self.size, seed=self.seed),
            "validation": generate_recordings("validation", validation, seed=self.seed),
            "test": generate_recordings("test", self.tests, seed=self.seed, digits=_TEST_DIGITS),
        }
        for part, recordings in parts.items():
            table = "".join(
                self._write_recording(part, number, recording) for number, recording in enumerate(recordings)
            )
            write_files(folder, {f"{part}.tsv": table})
        run = format_value(str(folder / "run"))
        write_files(
            folder, {recipe.name: _RECIPE.format(recipe=quote(str(recipe)), run=run, seed=self.seed, steps=self.steps)}
        )
        return recipe

    def show_results(self, predictor: SpeechRecognizer, run_folder: Path) -> None:
        """Print error rates and some transcriptions, and write a page of one recording."""
        from heedful.data.readers import read_lines
        from heedful.inspection.page import write_page
        from heedful.inspection.web import render_viewer
        from heedful.metrics.error_rates import word_error_rate

        folder = run_folder.parent
        rows = [line.split("\t") for line in read_lines(folder / "test.tsv")]
        sounds, references = [folder / name for name, _ in rows], [text for _, text in rows]
        transcripts = [each.text for each in predictor.transcribe(sounds)]
        exact = sum(map(str.__eq__, transcripts, references)) / len(references)
        print_now(f"\n{len(rows)} strings of four digits in voices that were never in the training part:")
        print_now(f"  exact {100 * exact:.1f} %   word errors {word_error_rate(transcripts, references).value:.2f} %\n")
        for sound, text, reference in list(zip(sounds, transcripts, references, strict=True))[:5]:
            print_now(f"  {sound}\n  -> {text}{'' if text == reference else f'   (should be: {reference})'}\n")
        page = folder / "heard.html"
        write_page(render_viewer(predictor.inspect(sounds[0])), page)
        print_now(f"what it listened to: {page}  (open it in a browser)\n\nwhere to go next")
        print_command("transcribe", run_folder, sounds[0])
        print_command("evaluate", run_folder)
        print_now("  heedful train RECIPE    with a recipe for your own recordings; begin with a copy of")
        print_now(f"                          {folder / 'recipe.toml'}")

    def _write_recording(self, part: str, number: int, recording: DigitRecording) -> str:
        """Write a recording; return its line in the table of its part."""
        name = f"{part}/{number:05d}.wav"
        write_files(self.output, {name: recording.wav})
        return f"{name}\t{recording.text}\n"
