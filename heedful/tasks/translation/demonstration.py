"""`heedful quickstart`: train a Transformer to translate dates, times and numbers in words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, final

from heedful.data.phrasebook import list_languages
from heedful.tasks.demonstration import PhrasebookDemonstration, format_correction, print_now

if TYPE_CHECKING:
    from heedful.tasks.translation.translator import Translator

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


@final
@dataclass(frozen=True, kw_only=True)
class TranslationDemonstration(PhrasebookDemonstration):
    """Train a small Transformer on dates, times and numbers in words, and show what it learned.

    Everything needed is on this machine: the sentences are written by Babel and num2words.
    """

    recipe_template: ClassVar = _RECIPE
    own_data: ClassVar = "text"
    pair_noun: ClassVar = "sentences"

    source: str = "en"
    """language to translate from"""
    target: str = "de"
    """language to translate to"""
    output: Path = Path("runs/quickstart")
    """folder for the text, the recipe and the run; the languages are appended"""
    steps: int = 700
    """number of updates; about two minutes on two cores"""
    languages: bool = False
    """list the languages there are, and stop"""

    def write_recipe(self) -> Path | None:
        """Write the text and the recipe and return the path of the recipe, or list the languages and return None."""
        if self.languages:
            print(" ".join(list_languages()))
            return None
        return super().write_recipe()

    def show_results(self, predictor: Translator, run_folder: Path) -> None:
        """Print scores and some translations by the trained `predictor`, and the path of an alignment plot beside the
        run folder.
        """
        from heedful.metrics.translation import bleu, exact_match

        pairs = self.sentence_pairs.test
        sources, references = [source for source, _ in pairs], [target for _, target in pairs]
        translations = [item.text for item in predictor.translate(sources)]
        print_now(f"\n{len(sources)} sentences about dates, times and numbers that were never in the training text:")
        print_now(
            f"  exact match {exact_match(translations, references).value:.1f} %   BLEU "
            f"{bleu(translations, references).value:.1f}\n"
        )
        for source, translation, reference in list(zip(sources, translations, references, strict=True))[:6]:
            print_now(f"  {source}\n  -> {translation}{format_correction(translation, reference)}\n")
        path = _draw_alignment(predictor, sources, run_folder.parent)
        commands = (("translate", run_folder, sources[0]), ("evaluate", run_folder))
        self.print_next_steps("what it looked at", path, *commands)


def _draw_alignment(translator: Translator, sources: list[str], folder: Path) -> Path:
    """Draw the alignment of one of the sources, of medium length, with its translation; write it to a file in a folder
    and return its path.
    """
    from heedful.inspection.heatmap import draw_alignment_svg

    source = next((sentence for sentence in sources if 5 <= len(sentence.split()) <= 9), sources[0])
    target = translator.translate([source])[0].text
    alignment = translator.align(source, target)
    weights = alignment.best_weights
    path = folder / "alignment.svg"
    svg = draw_alignment_svg(alignment.source_tokens, alignment.target_tokens, weights, title=f"{source} -> {target}")
    path.write_text(svg, encoding="utf-8")
    return path
