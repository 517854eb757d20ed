"""`heedful quickstart matching`: a question in one language finds what says the same in another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final, final

from heedful.recipes.toml import value
from heedful.tasks.demonstration import PhrasebookDemonstration, command, say, write_files

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
_ASKED: Final = 8
"""Questions on the page."""
_LISTED: Final = 5
"""Passages beneath each."""
_SHOWN: Final = 3
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

    def write(self) -> Path:
        """Pairs as TSV files, the recipe beside them, and the passages as `heedful index` reads them."""
        book, folder = self.book, self.folder
        recipe = folder / "recipe.toml"
        passages = "".join(f"{target}\n" for _, target in book.test)
        content = _RECIPE.format(
            recipe=quote(str(recipe)), run=value(str(folder / "run")), seed=self.seed, steps=self.steps
        )
        write_files(folder, {**self.texts(), "text/passages.txt": passages, recipe.name: content})
        say(f"{len(book.train):,} pairs such as")
        for source, target in book.train[:3]:
            say(f"  {source}\n  {target}\n")
        return recipe

    def show(self, face: Embedder, run: Path) -> None:
        """How often the right passage is found, and some questions with what is closest to them."""
        from heedful.data.readers import Pair
        from heedful.inspection.page import Table, html_page, write_page
        from heedful.tasks.matching.exam import matching_exam, units

        pairs = self.book.test
        exam = matching_exam([Pair(*pair, "") for pair in pairs], total=len(self.book.train))
        found = {name: each.value for name, each in exam.metrics(exam.ask(face)).items()}
        say(f"\n{len(pairs)} questions that were never in the training text, each beside the passages of all:")
        say(
            f"  the closest passage is the right one: {100 * found['targets recall@1']:.1f} %   among the first five: "
            f"{100 * found['targets recall@5']:.1f} %   by chance: {100 / len(pairs):.1f} %\n"
        )
        asked, passages = pairs[:: max(1, len(pairs) // _ASKED)][:_ASKED], [target for _, target in pairs]
        tables = []
        cosines = units(face, [source for source, _ in asked]) @ units(face, passages).T
        for (source, right), near in zip(asked, cosines, strict=True):
            hits = [(passages[place], near[place]) for place in (-near).argsort(kind="stable")[:_LISTED]]
            say(f"  {source}")
            for text, cosine in hits[:_SHOWN]:
                say(f"    {cosine:5.2f}  {text}{'   <- right' if text == right else ''}")
            rows = [[text, f"{cosine:.3f}", "right" if text == right else ""] for text, cosine in hits]
            tables.append(Table(source, ["passage", "cosine", ""], rows))
        page = run.parent / "found.html"
        write_page(html_page(f"What is found in {len(passages)} passages", tables=tables, pictures=[]), page)
        index = run.parent / "index"
        say(f"\nwhat is found: {page}  (open it in a browser)\n\nwhere to go next")
        command("evaluate", run)
        command("index", index, run.parent / "text/passages.txt", "--model", run)
        command("search", index, "--by", "encoder", "--query", pairs[0][0])
