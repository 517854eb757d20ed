"""`heedful quickstart`: a Transformer learns to translate while one watches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from heedful.cli.arguments import parse
from heedful.errors import RecipeError, TrainingError
from heedful.recipes.toml import value

if TYPE_CHECKING:
    from heedful.data.phrasebook import Phrasebook
    from heedful.tasks.translation.face import Translator

_say = partial(print, flush=True)

_RECIPE = """\
# Written by: heedful quickstart. Go on with it: heedful train {recipe} --training.steps 2000

seed = {seed}
output = {run}

[data]
train = {{ path = "text/train.tsv" }}
validation = {{ path = "text/validation.tsv" }}
test = {{ path = "text/test.tsv" }}
max_length = 64

[tokenizer]
size = 1200

[model]
d_model = 128
heads = 4
d_ff = 256
layers = 2
residual = "pre_norm"

[training]
steps = {steps}
batch_tokens = 2000
schedule = {{ kind = "cosine", rate = 4e-3, warmup = 150 }}
optimizer = {{ beta2 = 0.98 }}
clip = 1.0
evaluate_every = 200

[generation]
kind = "greedy"
"""


@dataclass(frozen=True)
class Arguments:
    """Train a small Transformer on dates, times and numbers in words, and see what it learned.

    Everything needed is on this machine: the sentences are written by Babel and num2words.
    """

    source: str = "en"
    """language to translate from"""
    target: str = "de"
    """language to translate to"""
    output: Path = Path("runs/quickstart")
    """folder for the text, the recipe and the run; the languages are appended"""
    steps: int = 700
    """updates; about two minutes on two cores"""
    size: int = 20_000
    """training pairs"""
    seed: int = 1
    """of the text and of training"""
    languages: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """list the languages there are, and stop"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful quickstart")

    from heedful.cli import train
    from heedful.data.phrasebook import languages, phrasebook

    if given.languages:
        print(" ".join(languages()))
        return 0
    if given.source == given.target:
        raise RecipeError(f"--target: {given.target} is the source language too; choose another")
    book = phrasebook(given.source, given.target, seed=given.seed, size=given.size)
    folder = given.output.with_name(f"{given.output.name}-{given.source}-{given.target}")
    recipe = _write(book, folder, given=given)
    _say(f"{len(book.train):,} sentences such as")
    for source, target in book.train[:3]:
        _say(f"  {source}\n  {target}\n")
    code = train.run([str(recipe)])
    if code == 0:
        _show(book, folder)
    return code


def _write(book: Phrasebook, folder: Path, *, given: Arguments) -> Path:
    """The text as TSV files and the recipe beside them, as a user would have them."""
    recipe = folder / "recipe.toml"
    parts = {"train": book.train, "validation": book.validation, "test": book.test}
    try:
        (folder / "text").mkdir(parents=True, exist_ok=True)
        for name, pairs in parts.items():
            text = "".join(f"{source}\t{target}\n" for source, target in pairs)
            (folder / "text" / f"{name}.tsv").write_text(text, encoding="utf-8")
        content = _RECIPE.format(recipe=recipe, run=value(str(folder / "run")), seed=given.seed, steps=given.steps)
        recipe.write_text(content, encoding="utf-8")
    except OSError as error:
        raise TrainingError(f"{folder}: cannot be written ({error.strerror}); choose another --output") from None
    return recipe


def _show(book: Phrasebook, folder: Path) -> None:
    from heedful.metrics.translation import bleu, exact_match
    from heedful.runs.load import load_as
    from heedful.tasks.translation.face import Translator

    translator = load_as(Translator, folder / "run", use="translates")
    sources, references = [s for s, _ in book.test], [t for _, t in book.test]
    found = [t.text for t in translator.translate(sources)]
    _say(f"\n{len(sources)} sentences about dates, times and numbers that were never in the training text:")
    _say(f"  exact match {exact_match(found, references).value:.1f} %   BLEU {bleu(found, references).value:.1f}\n")
    for source, translation, reference in list(zip(sources, found, references, strict=True))[:6]:
        verdict = "" if translation == reference else f"   (should be: {reference})"
        _say(f"  {source}\n  -> {translation}{verdict}\n")
    picture = _picture(translator, sources, folder)
    run = folder / "run"
    _say(f"what it looked at: {picture}  (open it in a browser)\n\nwhere to go next")
    _say(f'  heedful translate {run} --text "{sources[0]}"')
    _say(f"  heedful evaluate {run}")
    _say("  heedful train RECIPE    with a recipe for your own text; begin with a copy of")
    _say(f"                          {folder / 'recipe.toml'}")


def _picture(translator: Translator, sources: list[str], folder: Path) -> Path:
    """The alignment of one sentence that is neither the shortest nor too long to be read."""
    from heedful.inspection.heatmap import alignment_svg

    source = next((s for s in sources if 5 <= len(s.split()) <= 9), sources[0])
    target = translator.translate([source])[0].text
    alignment = translator.align(source, target)
    weights = list(alignment.weights.values())[-1]
    path = folder / "alignment.svg"
    svg = alignment_svg(alignment.source_tokens, alignment.target_tokens, weights, title=f"{source} -> {target}")
    path.write_text(svg, encoding="utf-8")
    return path
