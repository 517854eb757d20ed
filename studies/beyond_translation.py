"""Sequence to sequence beyond translation: pronunciation, commands, spelling, tagging and headlines.

The study converts data from their own formats to parallel text. An ordinary recipe of `task = "translation"` trains on
it. The study then evaluates the run with the metrics of the task, beside a simple baseline.

    python studies/beyond_translation.py g2p --data cmudict.dict.gz --output data/g2p
    heedful train recipes/beyond/g2p.toml
    python studies/beyond_translation.py g2p --data cmudict.dict.gz --output data/g2p --run runs/g2p

The split into training, validation and test depends only on the words, sentences or commands themselves, never on
their order. So all pronunciations of a word are in one part, and so are all its misspellings.
"""

from __future__ import annotations

import gzip
import re
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from headlines import compute_rouge_l, compute_rouge_n, read_stories, split_words, take_first_words
from spelling import Corrector, KnownTexts, count_words, generate_misspellings

import heedful
from heedful.cli.arguments import parse_script_arguments
from heedful.cli.option_parser import Positional
from heedful.data.readers import TsvPairReader
from heedful.data.tagged import ConlluReader
from heedful.generation.search import BeamSearch
from heedful.inspection.page import PageTable
from heedful.metrics.error_rates import edit_distance
from heedful.metrics.metric import (
    BootstrapOptions,
    Metric,
    RatioMetric,
    build_mean_metric,
    compute_intervals,
    run_paired_tests,
)

Pairs = Iterable[tuple[str, str]]
AnswerFunction = Callable[[Sequence[str]], Sequence[str]]
MIN_COUNT = 2
"""Minimum count of a known word; words that occur once are too often misspellings."""


@dataclass(frozen=True)
class Options:
    """Convert data to parallel text; with --run, evaluate a run that was trained on it."""

    task: Annotated[Literal["g2p", "scan", "spelling", "tagging", "summaries"], Positional]
    """g2p: words to phonemes (CMUdict); scan: commands to actions (SCAN); spelling: misspellings to words; tagging:
    words to parts of speech; summaries: news stories to headlines (AG News)"""
    data: tuple[Path, ...]
    """the file of CMUdict; the folder of SCAN; any texts, whose words are used; CoNLL-U files of training, validation
    and test; or the tables of AG News. All files may be gzipped"""
    output: Path
    """folder for the parallel text"""
    run: Path | None = None
    """run folder to evaluate; no text is written then"""
    answers: Path | None = None
    """file with the answers of another system to the test, one a line, to evaluate beside the run"""
    misspellings: tuple[Path, ...] = ()
    """for spelling: files of real misspellings for the evaluation, with a wrong and a right word in two columns"""
    seed: int = 1
    """random seed of the generated misspellings"""


class TextTask(ABC):
    """Data preparation, metrics and baseline of one task."""

    @abstractmethod
    def prepare(self, options: Options) -> Mapping[str, Pairs]:
        """Return parallel text by the name of its file in the output folder."""

    @abstractmethod
    def compute_metrics(self, pairs: Sequence[tuple[str, str]], answers: Mapping[str, str]) -> dict[str, Metric]:
        """Compute the metrics of the answers, which are given by source text."""

    def read_tests(self, options: Options) -> Mapping[str, list[tuple[str, str]]]:
        """Return the test sets by name."""
        return {"test": read_pairs(options.output / "test.tsv")}

    def build_baseline(self, options: Options) -> tuple[str, AnswerFunction] | None:
        """Return name and function of a baseline without a neural model, or None."""
        return None

    def build_variants(self, options: Options, model: heedful.Translator) -> Mapping[str, AnswerFunction]:
        """Return other ways to answer with the same model, by name; none by default."""
        return {}


def choose_part(text: str, *, test: int, validation: int) -> str:
    """Choose the part that a text belongs to; `test` and `validation` are the percentages of the held-out texts."""
    bucket = int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") % 100
    return "test" if bucket < test else "validation" if bucket < test + validation else "train"


def split_pairs(pairs: Pairs, key: Callable[[tuple[str, str]], str], *, test: int, validation: int) -> dict[str, Pairs]:
    """Split pairs into train, validation and test by a key text of each pair."""
    parts: dict[str, list[tuple[str, str]]] = {"train": [], "validation": [], **({"test": []} if test else {})}
    for pair in pairs:
        parts[choose_part(key(pair), test=test, validation=validation)].append(pair)
    return dict(parts)


def write_pairs(pairs: Pairs, path: Path) -> None:
    """Write pairs to a file of two columns and print its size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{source}\t{target}\n" for source, target in pairs]
    path.write_text("".join(lines), encoding="utf-8")
    print(f"{path}: {len(lines):,} pairs", flush=True)


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """Read the pairs of a file of two columns."""
    return [(pair.source, pair.target) for pair in TsvPairReader(path)]


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a plain or gzipped file."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        yield from (line.rstrip("\n") for line in file)


class GraphemeToPhonemeTask(TextTask):
    """CMUdict: words that consist of letters only, and their phonemes with stress, as in `hello`, `HH AH0 L OW1`."""

    def prepare(self, options: Options) -> Mapping[str, Pairs]:
        """Split by word: all pronunciations of a word are in one part."""
        pairs = (pair for path in options.data for pair in read_pronunciations(path))
        return split_pairs(pairs, lambda pair: pair[0], test=10, validation=2)

    def compute_metrics(self, pairs: Sequence[tuple[str, str]], answers: Mapping[str, str]) -> dict[str, Metric]:
        """Compute word and phoneme error rates against the closest pronunciation of each word."""
        known: dict[str, list[list[str]]] = defaultdict(list)
        for word, phonemes in pairs:
            known[word].append(phonemes.split())
        metrics: dict[str, Metric] = {}
        for name, normalise in (("", str), (", no stress", lambda phoneme: phoneme.rstrip("012"))):
            closest = []
            for word, references in known.items():
                answer = [*map(normalise, answers[word].split())]
                distances = [(edit_distance(answer, [*map(normalise, ref)]), len(ref)) for ref in references]
                closest.append(min(distances))
            edits, lengths = np.array(closest, dtype=float).T
            metrics[f"word error{name}"] = build_mean_metric(100.0 * (edits > 0))
            metrics[f"phoneme error{name}"] = RatioMetric(100 * edits, lengths)
        return metrics


def read_pronunciations(dictionary: Path) -> Iterator[tuple[str, str]]:
    """Yield words with their phonemes; a word with several pronunciations occurs several times."""
    for line in read_lines(dictionary):
        word, *phonemes = line.split("#")[0].split() or [""]
        word = re.sub(r"\(\d+\)$", "", word)
        if re.fullmatch("[a-z]+", word):
            yield word, " ".join(phonemes)


class ExactMatchTask(TextTask):
    """Base class of tasks whose answers are right or wrong."""

    def compute_metrics(self, pairs: Sequence[tuple[str, str]], answers: Mapping[str, str]) -> dict[str, Metric]:
        """Compute the percentage of right answers."""
        return {"right": build_mean_metric([100.0 * (answers[source] == target) for source, target in pairs])}


class ScanTask(ExactMatchTask):
    """SCAN: a twentieth of the training commands is the validation set."""

    def prepare(self, options: Options) -> Mapping[str, Pairs]:
        """Return a folder of files for each split of SCAN."""
        (folder,) = options.data
        files: dict[str, Pairs] = {}
        for path in sorted(folder.glob("tasks_train_*.txt*")):
            split = path.name.removeprefix("tasks_train_").partition(".")[0]
            parts = split_pairs(read_commands(path), lambda pair: pair[0], test=0, validation=5)
            parts["test"] = read_commands(path.with_name(path.name.replace("_train_", "_test_")))
            files |= {f"{split}/{part}": pairs for part, pairs in parts.items()}
        return files


def read_commands(path: Path) -> Iterator[tuple[str, str]]:
    """Yield commands and actions from lines such as `IN: jump twice OUT: I_JUMP I_JUMP`."""
    for line in read_lines(path):
        command, _, actions = line.removeprefix("IN: ").partition(" OUT: ")
        yield command, actions


class SpellingTask(ExactMatchTask):
    """Words of texts with randomly generated misspellings; real misspellings are used only for evaluation."""

    def prepare(self, options: Options) -> Mapping[str, Pairs]:
        """Generate misspellings; one hundredth is the validation set and one hundredth the test set."""
        pairs = generate_misspellings(count_known_words(options), seed=options.seed)
        return split_pairs(pairs, lambda pair: pair[0], test=1, validation=1)

    def read_tests(self, options: Options) -> Mapping[str, list[tuple[str, str]]]:
        """Return the generated misspellings, and the real ones that consist of Latin letters, like their words."""
        tests = {"made up": [pair for pair in read_pairs(options.output / "test.tsv") if pair[0] != pair[1]]}
        for path in options.misspellings:
            pairs = ((wrong.lower(), right.lower()) for wrong, right in read_pairs(path))
            tests[path.stem] = [pair for pair in pairs if all(re.fullmatch("[a-z]+", word) for word in pair)]
        return tests

    def build_baseline(self, options: Options) -> tuple[str, AnswerFunction]:
        """Return Norvig's corrector with the same known words."""
        corrector = Corrector(count_known_words(options))
        return "Norvig's corrector", lambda words: [corrector.correct(word) for word in words]

    def build_variants(self, options: Options, model: heedful.Translator) -> Mapping[str, AnswerFunction]:
        """Return a search that writes known words only."""
        assert isinstance(model.search, BeamSearch)
        words = KnownTexts(map(model.target.encode, count_known_words(options)), eos=model.search.eos)
        search = replace(model.search, width=max(10, model.search.width), logits_masks=(words,))
        return {"known words only": lambda texts: [text.text for text in model.translate(texts, search=search)]}


def count_known_words(options: Options) -> dict[str, int]:
    """Count the words of the texts that occur often enough to be known."""
    counts = count_words(line for path in options.data for line in read_lines(path))
    return {word: count for word, count in counts.items() if count >= MIN_COUNT}


class TaggingTask(TextTask):
    """Universal Dependencies: words separated by spaces, and one part of speech for each word."""

    def prepare(self, options: Options) -> Mapping[str, Pairs]:
        """Read the files, in the order train, validation, test."""
        parts = zip(("train", "validation", "test"), options.data, strict=True)
        return {part: ((" ".join(s.words), " ".join(s.tags)) for s in ConlluReader(path)) for part, path in parts}

    def compute_metrics(self, pairs: Sequence[tuple[str, str]], answers: Mapping[str, str]) -> dict[str, Metric]:
        """Compute the percentages of right tags and of sentences in which all tags are right."""
        references = [target.split() for _, target in pairs]
        predictions = [answers[source].split() for source, _ in pairs]
        right = [
            sum(a == b for a, b in zip(*sentence, strict=False))
            for sentence in zip(references, predictions, strict=True)
        ]
        return {
            "right tags": RatioMetric(100.0 * np.array(right), np.array([float(len(tags)) for tags in references])),
            "right sentences": build_mean_metric(
                [100.0 * (a == b) for a, b in zip(references, predictions, strict=True)]
            ),
        }

    def build_baseline(self, options: Options) -> tuple[str, AnswerFunction]:
        """Return a tagger that gives each word its most frequent tag, and new words the most frequent tag of all."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for words, tags in read_pairs(options.output / "train.tsv"):
            for word, tag in zip(words.split(), tags.split(), strict=True):
                counts[word][tag] += 1
        best = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
        default = sum(counts.values(), Counter[str]()).most_common(1)[0][0]
        return "each word's tag", lambda texts: [" ".join(best.get(w, default) for w in text.split()) for text in texts]


class HeadlineTask(TextTask):
    """AG News: the text of a story, and its headline."""

    def prepare(self, options: Options) -> Mapping[str, Pairs]:
        """Split by headline: all stories with the same headline are in one part."""
        pairs = read_stories(line for path in options.data for line in read_lines(path))
        return split_pairs(pairs, lambda pair: pair[1], test=10, validation=4)

    def compute_metrics(self, pairs: Sequence[tuple[str, str]], answers: Mapping[str, str]) -> dict[str, Metric]:
        """Compute the mean ROUGE-1, ROUGE-2 and ROUGE-L of the headlines."""
        texts = [(split_words(answers[source]), split_words(target)) for source, target in pairs]
        return {
            "ROUGE-1": build_mean_metric([100 * compute_rouge_n(*pair, 1) for pair in texts]),
            "ROUGE-2": build_mean_metric([100 * compute_rouge_n(*pair, 2) for pair in texts]),
            "ROUGE-L": build_mean_metric([100 * compute_rouge_l(*pair) for pair in texts]),
        }

    def build_baseline(self, options: Options) -> tuple[str, AnswerFunction]:
        """Return a baseline that takes the first words of the story, as many as the median headline has."""
        length = int(np.median([len(target.split()) for _, target in read_pairs(options.output / "train.tsv")]))
        return f"first {length} words", lambda texts: [take_first_words(text, length) for text in texts]


TASKS: Mapping[str, TextTask] = {
    "g2p": GraphemeToPhonemeTask(),
    "scan": ScanTask(),
    "spelling": SpellingTask(),
    "tagging": TaggingTask(),
    "summaries": HeadlineTask(),
}


def evaluate_run(options: Options, task: TextTask, run: Path) -> PageTable:
    """Evaluate a run and the other systems; return a table with a row for each system and test.

    The p-values compare each metric with that of the run (paired bootstrap).
    """
    model = heedful.load(run, kind=heedful.Translator)
    systems: dict[str, AnswerFunction] = {
        run.name: lambda texts: [translation.text for translation in model.translate(texts)]
    }
    systems |= task.build_variants(options, model)
    if baseline := task.build_baseline(options):
        systems[baseline[0]] = baseline[1]
    if options.answers is not None:
        lines = [*read_lines(options.answers)]
        sources = [*dict.fromkeys(source for source, _ in next(iter(task.read_tests(options).values())))]
        other_answers = dict(zip(sources, lines, strict=True))
        systems[options.answers.stem] = lambda texts: [other_answers[text] for text in texts]
    rows: list[list[str]] = []
    names: list[str] = []
    for test, pairs in task.read_tests(options).items():
        sources = [*dict.fromkeys(source for source, _ in pairs)]
        run_metrics: dict[str, Metric] = {}
        for name, answer in systems.items():
            metrics = task.compute_metrics(pairs, dict(zip(sources, answer(sources), strict=True)))
            intervals, run_metrics = compute_intervals(metrics, BootstrapOptions()), run_metrics or metrics
            tests = {} if metrics is run_metrics else run_paired_tests(run_metrics, metrics, BootstrapOptions())
            names = [*metrics]
            cells = [
                f"{interval.value:.2f} ({interval.low:.2f} to {interval.high:.2f})" for interval in intervals.values()
            ]
            p_values = [f", p = {tests[metric].p_value:.3f}" if metric in tests else "" for metric in metrics]
            rows.append([name, test, f"{len(sources):,}", *(f"{a}{b}" for a, b in zip(cells, p_values, strict=True))])
    return PageTable("", ["system", "test", "texts", *(f"{name}, %" for name in names)], rows)


def main(options: Options) -> None:
    """Write the parallel text, or evaluate a run and print the table."""
    task = TASKS[options.task]
    if options.run is not None:
        print(evaluate_run(options, task, options.run).format_text())
        return
    for name, pairs in task.prepare(options).items():
        write_pairs(pairs, options.output / f"{name}.tsv")


if __name__ == "__main__":
    main(parse_script_arguments(Options, __file__))
