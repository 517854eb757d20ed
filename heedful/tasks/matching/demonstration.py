"""`heedful quickstart matching`: a question in one language finds what says the same in another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final, final

from heedful.recipes.toml import format_value
from heedful.tasks.demonstration import PhrasebookDemonstration, print_command, print_now, write_files

if TYPE_CHECKING:
    from heedful.tasks.embedder import Embedder

_RECIPE: Final = """\
# Written by: heedful quickstart matching. Go on with it: heedful train {recipe} --training.steps 2000

task = "matching"
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
layers = 1
residual = "pre_norm"

[training]
steps = {steps}
pairs = 128
batch_tokens = 1024
schedule = {{ kind = "cosine", rate = 3e-3, warmup = 100 }}
clip = 1.0
monitor = "recall"
evaluate_every = 100
"""
_NUM_QUESTIONS: Final = 8
"""Questions on the page."""
_NUM_PASSAGES: Final = 5
"""Passages beneath each."""
_NUM_PRINTED: Final = 3
"""Of them, those that are told at once."""


@final
@dataclass(frozen=True, kw_only=True)
class MatchingDemonstration(PhrasebookDemonstration):
    """Train a small encoder of two languages on dates, times and numbers in words, and search in one by the other.

    Everything needed is on this machine: the sentences are written by Babel and num2words.
    """

    source: str = "de"
    """language of the questions"""
    target: str = "en"
    """language of the passages"""
    output: Path = Path("runs/quickstart-matching")
    """folder for the text, the recipe and the run; the languages are appended"""
    steps: int = 400
    """updates; less than a minute on two cores"""

    def write_recipe(self) -> Path:
        """Pairs as TSV files, the recipe beside them, and the passages as `heedful index` reads them."""
        book, folder = self.sentence_pairs, self.output_folder
        recipe = folder / "recipe.toml"
        passages = "".join(f"{target}\n" for _, target in book.test)
        content = _RECIPE.format(
            recipe=quote(str(recipe)), run=format_value(str(folder / "run")), seed=self.seed, steps=self.steps
        )
        write_files(folder, {**self.build_tsv_files(), "text/passages.txt": passages, recipe.name: content})
        print_now(f"{len(book.train):,} pairs such as")
        for source, target in book.train[:3]:
            print_now(f"  {source}\n  {target}\n")
        return recipe

    def show_results(self, predictor: Embedder, run_folder: Path) -> None:
        """How often the right passage is found, and some questions with what is closest to them."""
        from heedful.data.readers import SentencePair
        from heedful.inspection.page import PageTable, render_html_page, write_page
        from heedful.tasks.matching.evaluation import build_matching_evaluator, embed_normalized

        pairs = self.sentence_pairs.test
        exam = build_matching_evaluator(
            [SentencePair(*pair, "") for pair in pairs], num_train_pairs=len(self.sentence_pairs.train)
        )
        metrics = {name: metric.value for name, metric in exam.compute_metrics(exam.predict_labels(predictor)).items()}
        print_now(f"\n{len(pairs)} questions that were never in the training text, each beside the passages of all:")
        print_now(
            f"  the closest passage is the right one: {100 * metrics['targets recall@1']:.1f} %   among the first five: "
            f"{100 * metrics['targets recall@5']:.1f} %   by chance: {100 / len(pairs):.1f} %\n"
        )
        questions, passages = (
            pairs[:: max(1, len(pairs) // _NUM_QUESTIONS)][:_NUM_QUESTIONS],
            [target for _, target in pairs],
        )
        tables = []
        cosines = (
            embed_normalized(predictor, [source for source, _ in questions]) @ embed_normalized(predictor, passages).T
        )
        for (source, correct), similarities in zip(questions, cosines, strict=True):
            hits = [
                (passages[position], similarities[position])
                for position in (-similarities).argsort(kind="stable")[:_NUM_PASSAGES]
            ]
            print_now(f"  {source}")
            for text, cosine in hits[:_NUM_PRINTED]:
                print_now(f"    {cosine:5.2f}  {text}{'   <- right' if text == correct else ''}")
            rows = [[text, f"{cosine:.3f}", "right" if text == correct else ""] for text, cosine in hits]
            tables.append(PageTable(source, ["passage", "cosine", ""], rows))
        page = run_folder.parent / "found.html"
        write_page(render_html_page(f"What is found in {len(passages)} passages", tables=tables, pictures=[]), page)
        index = run_folder.parent / "index"
        print_now(f"\nwhat is found: {page}  (open it in a browser)\n\nwhere to go next")
        print_command("evaluate", run_folder)
        print_command("index", index, run_folder.parent / "text/passages.txt", "--model", run_folder)
        print_command("search", index, "--by", "encoder", "--query", pairs[0][0])
