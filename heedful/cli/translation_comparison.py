"""Translation runs side by side."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from heedful.cli.compared_translations import ComparedTranslations, Row
from heedful.cli.comparison import Comparison, Entry
from heedful.cli.parallel import TextOptions
from heedful.data.readers import Pair
from heedful.errors import DataError, RecipeError
from heedful.metrics.translation import bleu_metric
from heedful.runs.device import find_device
from heedful.runs.facts import gather
from heedful.runs.memory import keep_pages
from heedful.tasks.translation.comparison import Scoring, translate
from heedful.tasks.translation.recipe import TranslationRecipe

if TYPE_CHECKING:
    from heedful.cli.compare import Arguments


@dataclass(frozen=True)
class _Text:
    """Pairs to compare on, those with an empty side left out."""

    name: str
    sources: list[str]
    references: list[str]


class TranslationComparison(Comparison):
    """BLEU, chrF, speed and perplexity on the text that was named, or on the test set that all runs share."""

    def __init__(self, entries: Sequence[Entry], given: Arguments) -> None:
        self.entries = entries
        self.given = given
        bleu_metric(lowercase=given.lowercase, tokenize=given.tokenize)
        for entry in entries:
            given.searching.config(_recipe(entry).generation)
        self.text = _text(entries, given.text)

    def compared(self) -> ComparedTranslations:
        """Translates the text with each run."""
        keep_pages()
        given, text = self.given, self.text
        facts = [gather(entry.folder, entry.believed) for entry in self.entries]
        scoring = Scoring(given.lowercase, given.tokenize, given.samples, given.seed)
        rows: list[Row] = []
        for number, (entry, fact) in enumerate(zip(self.entries, facts, strict=True), 1):
            told = f"{fact.folder}: translating {len(text.sources):,} sentences ({number} of {len(facts)})"
            print(told, file=sys.stderr, flush=True)
            recipe = _recipe(entry)
            search = given.searching.config(recipe.generation)
            try:
                found = translate(fact.folder, text.sources, text.references, search=search, device=given.device)
            except DataError as error:
                raise DataError(f"{fact.folder}: {error}") from None
            first = rows[0].translated.texts if rows else None
            scores = scoring.scores(found.texts, text.sources, text.references, against=first)
            rows.append(Row(fact, recipe, found, scores))
        device, threads = str(find_device(given.device)), torch.get_num_threads()
        return ComparedTranslations(tuple(rows), text.name, len(text.sources), scoring, device, threads)


def _recipe(entry: Entry) -> TranslationRecipe:
    assert isinstance(entry.recipe, TranslationRecipe)
    return entry.recipe


def _text(entries: Sequence[Entry], options: TextOptions) -> _Text:
    name, pairs = _named_text(options) if options.named else _shared_text(entries)
    real = [pair for pair in pairs if pair.source and pair.target]
    if not real:
        raise DataError(f"{name}: no sentences to compare on; give a text that has some")
    return _Text(name, [pair.source for pair in real], [pair.target for pair in real])


def _named_text(options: TextOptions) -> tuple[str, list[Pair]]:
    reader = options.reader()
    return " and ".join(map(str, reader.paths)), list(reader)


def _shared_text(entries: Sequence[Entry]) -> tuple[str, list[Pair]]:
    first, *others = entries
    name, pairs = _own_text(first.folder, _recipe(first))
    for each in others:
        other_name, other = _own_text(each.folder, _recipe(each))
        if [pair[:2] for pair in other] != [pair[:2] for pair in pairs]:
            same = [pair.source for pair in other] == [pair.source for pair in pairs]
            how = "translates the same sources into another text" if same else "is tested on another text"
            raise RecipeError(
                f"{each.folder}: {how} ({other_name}) than {first.folder} ({name}), so their scores cannot be "
                "compared; leave it out, or name one text for all with --source and --target, or --data"
            )
    return name, pairs


def _own_text(folder: Path, recipe: TranslationRecipe) -> tuple[str, list[Pair]]:
    try:
        reader = recipe.data.reader(recipe.data.measured)
        return " and ".join(map(str, reader.paths)), list(reader)
    except DataError as error:
        raise DataError(f"{folder}: {error}; or name the text with --source and --target, or --data") from None
