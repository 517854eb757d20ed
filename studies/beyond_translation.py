"""Sequence to sequence beyond translation: sounds of words, actions of commands, spelling, tags, and headlines of news.

Data in their own formats become parallel text, which an ordinary recipe of `task = "translation"` learns from; what it
reaches is then measured as each field does, beside what needs no such model.

    python studies/beyond_translation.py g2p --data cmudict.dict.gz --output data/g2p
    heedful train recipes/beyond/g2p.toml
    python studies/beyond_translation.py g2p --data cmudict.dict.gz --output data/g2p --run runs/g2p

Which words, sentences or commands are held out is a function of themselves, never of their order: all pronunciations
of a word are in one part, and so are all misspellings of one.
"""

from __future__ import annotations

import gzip
import re
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import numpy as np
import tyro
from headlines import lead, rouge_l, rouge_n, stories, words_in
from spelling import Corrector, misspellings, words_of

import heedful
from heedful.data.readers import TabSeparated
from heedful.data.tagged import ConllU
from heedful.inspection.page import Table
from heedful.metrics.bootstrap import Sampling, intervals, paired_tests
from heedful.metrics.edits import edit_distance
from heedful.metrics.metric import Metric, Ratio, mean

Pairs = Iterable[tuple[str, str]]
Answer = Callable[[Sequence[str]], Sequence[str]]
FEWEST = 2
"""How often a word occurs that counts as known; what occurs once is a misspelling too often."""


@dataclass(frozen=True)
class Options:
    """Makes parallel text of data in their own formats; with --run, measures a run that learned from it."""

    task: tyro.conf.Positional[Literal["g2p", "scan", "spelling", "tagging", "summaries"]]
    """words to phonemes (CMUdict), commands to actions (SCAN), misspellings to words, words to parts of speech, or news
    stories to headlines (AG News)"""
    data: tuple[Path, ...]
    """CMUdict's file; SCAN's folder; any texts to learn words from; CoNLL-U files of training, validation and test; or
    AG News's tables. Each may be gzipped"""
    output: Path
    """folder for the parallel text"""
    run: Path | None = None
    """run folder that is measured instead"""
    answers: Path | None = None
    """answers of another system to the test, one a line, that are measured beside"""
    misspellings: tuple[Path, ...] = ()
    """for spelling: real misspellings to measure by, two columns of a wrong and a right word"""
    seed: int = 1
    """of misspellings"""


class Field(ABC):
    """What there is to do for one kind of data."""

    @abstractmethod
    def prepare(self, options: Options) -> Mapping[str, Pairs]:
        """Parallel text, by the name of its file below the output."""

    @abstractmethod
    def metrics(self, pairs: Sequence[tuple[str, str]], answers: Mapping[str, str]) -> dict[str, Metric]:
        """What answers to the sources of pairs are worth."""

    def tests(self, options: Options) -> Mapping[str, list[tuple[str, str]]]:
        """What is measured, by its name."""
        return {"test": read_pairs(options.output / "test.tsv")}

    def baseline(self, options: Options) -> tuple[str, Answer] | None:
        """What needs no such model, and its name."""
        return None


def part_of(text: str, *, test: int, validation: int) -> str:
    """The part that a text belongs to: `test` and `validation` of a hundred texts are held out."""
    place = int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") % 100
    return "test" if place < test else "validation" if place < test + validation else "train"


def parted(pairs: Pairs, key: Callable[[tuple[str, str]], str], *, test: int, validation: int) -> dict[str, Pairs]:
    """The pairs of each part."""
    found: dict[str, list[tuple[str, str]]] = {"train": [], "validation": [], **({"test": []} if test else {})}
    for pair in pairs:
        found[part_of(key(pair), test=test, validation=validation)].append(pair)
    return dict(found)


def write_pairs(pairs: Pairs, path: Path) -> None:
    """A file of two columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{source}\t{target}\n" for source, target in pairs]
    path.write_text("".join(lines), encoding="utf-8")
    print(f"{path}: {len(lines):,} pairs", flush=True)


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """The columns of such a file."""
    return [(pair.source, pair.target) for pair in TabSeparated(path)]


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a file, plain or gzipped."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        yield from (line.rstrip("\n") for line in file)


class GraphemeToPhoneme(Field):
    """CMUdict: words of letters alone, and their phonemes with stress, as in `hello`, `HH AH0 L OW1`."""

    def prepare(self, options: Options) -> Mapping[str, Pairs]:
        """All pronunciations of a word are in one part."""
        found = (pair for path in options.data for pair in pronunciations(path))
        return parted(found, lambda pair: pair[0], test=10, validation=2)

    def metrics(self, pairs: Sequence[tuple[str, str]], answers: Mapping[str, str]) -> dict[str, Metric]:
        """A word is right if any of its pronunciations is; phonemes are compared with the closest one."""
        known: dict[str, list[list[str]]] = defaultdict(list)
        for word, phonemes in pairs:
            known[word].append(phonemes.split())
        found: dict[str, Metric] = {}
        for name, plain in (("", str), (", no stress", lambda phoneme: phoneme.rstrip("012"))):
            closest = []
            for word, several in known.items():
                said = [*map(plain, answers[word].split())]
                closest.append(min((edit_distance(said, [*map(plain, each)]), len(each)) for each in several))
            edits, lengths = np.array(closest, dtype=float).T
            found[f"word error{name}"] = mean(100.0 * (edits > 0))
            found[f"phoneme error{name}"] = Ratio(100 * edits, lengths)
        return found


def pronunciations(dictionary: Path) -> Iterator[tuple[str, str]]:
    """Words and their phonemes; several lines for a word of several pronunciations."""
    for line in lines_of(dictionary):
        word, *phonemes = line.split("#")[0].split() or [""]
        word = re.sub(r"\(\d+\)$", "", word)
        if re.fullmatch("[a-z]+", word):
            yield word, " ".join(phonemes)


class Exact(Field):
    """Abstract: answers are right or wrong."""

    def metrics(self, pairs: Sequence[tuple[str, str]], answers: Mapping[str, str]) -> dict[str, Metric]:
        """The share of right ones."""
        return {"right": mean([100.0 * (answers[source] == target) for source, target in pairs])}


class Scan(Exact):
    """SCAN: of the commands to learn from a twentieth is for validation."""

    def prepare(self, options: Options) -> Mapping[str, Pairs]:
        """A folder for each split."""
        (folder,) = options.data
        found: dict[str, Pairs] = {}
        for path in sorted(folder.glob("tasks_train_*.txt*")):
            split = path.name.removeprefix("tasks_train_").partition(".")[0]
            parts = parted(commands(path), lambda pair: pair[0], test=0, validation=5)
            parts["test"] = commands(path.with_name(path.name.replace("_train_", "_test_")))
            found |= {f"{split}/{part}": pairs for part, pairs in parts.items()}
        return found


def commands(path: Path) -> Iterator[tuple[str, str]]:
    """Of lines as `IN: jump twice OUT: I_JUMP I_JUMP`."""
    for line in lines_of(path):
        command, _, actions = line.removeprefix("IN: ").partition(" OUT: ")
        yield command, actions


class Spelling(Exact):
    """Words of texts, and misspellings of them that chance makes; real ones are for measuring alone."""

    def prepare(self, options: Options) -> Mapping[str, Pairs]:
        """A hundredth of the misspellings for validation, and one for the test."""
        made = misspellings(known_words(options), seed=options.seed)
        return parted(made, lambda pair: pair[0], test=1, validation=1)

    def tests(self, options: Options) -> Mapping[str, list[tuple[str, str]]]:
        """Made-up misspellings, and real ones of Latin letters whose word is one too."""
        found = {"made up": [pair for pair in read_pairs(options.output / "test.tsv") if pair[0] != pair[1]]}
        for path in options.misspellings:
            pairs = ((wrong.lower(), right.lower()) for wrong, right in read_pairs(path))
            found[path.stem] = [pair for pair in pairs if all(re.fullmatch("[a-z]+", each) for each in pair)]
        return found

    def baseline(self, options: Options) -> tuple[str, Answer]:
        """Norvig's, which knows the same words."""
        corrector = Corrector(known_words(options))
        return "Norvig's corrector", lambda words: [corrector.correct(word) for word in words]


def known_words(options: Options) -> dict[str, int]:
    """Words of the texts, and how often each occurs."""
    counts = words_of(line for path in options.data for line in lines_of(path))
    return {word: count for word, count in counts.items() if count >= FEWEST}


class Tagging(Field):
    """Universal Dependencies: words with spaces between them, and as many parts of speech."""

    def prepare(self, options: Options) -> Mapping[str, Pairs]:
        """Files in this order."""
        parts = zip(("train", "validation", "test"), options.data, strict=True)
        return {part: ((" ".join(s.words), " ".join(s.tags)) for s in ConllU(path)) for part, path in parts}

    def metrics(self, pairs: Sequence[tuple[str, str]], answers: Mapping[str, str]) -> dict[str, Metric]:
        """Right tags in their places, of all words, and sentences without a mistake."""
        golds, said = [target.split() for _, target in pairs], [answers[source].split() for source, _ in pairs]
        right = [sum(a == b for a, b in zip(*each, strict=False)) for each in zip(golds, said, strict=True)]
        return {
            "right tags": Ratio(100.0 * np.array(right), np.array([float(len(tags)) for tags in golds])),
            "right sentences": mean([100.0 * (gold == tags) for gold, tags in zip(golds, said, strict=True)]),
        }

    def baseline(self, options: Options) -> tuple[str, Answer]:
        """The tag that a word has most often; of words that are new, the one most words have."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for words, tags in read_pairs(options.output / "train.tsv"):
            for word, tag in zip(words.split(), tags.split(), strict=True):
                counts[word][tag] += 1
        best = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
        usual = sum(counts.values(), Counter[str]()).most_common(1)[0][0]
        return "each word's tag", lambda texts: [" ".join(best.get(w, usual) for w in text.split()) for text in texts]


class Summaries(Field):
    """AG News: what a story tells, and its headline."""

    def prepare(self, options: Options) -> Mapping[str, Pairs]:
        """All stories under one headline are in one part."""
        found = stories(line for path in options.data for line in lines_of(path))
        return parted(found, lambda pair: pair[1], test=10, validation=4)

    def metrics(self, pairs: Sequence[tuple[str, str]], answers: Mapping[str, str]) -> dict[str, Metric]:
        """Mean F1 of what a headline shares with the right one: words, pairs of words, and words in their order."""
        texts = [(words_in(answers[source]), words_in(target)) for source, target in pairs]
        return {
            "ROUGE-1": mean([100 * rouge_n(*both, 1) for both in texts]),
            "ROUGE-2": mean([100 * rouge_n(*both, 2) for both in texts]),
            "ROUGE-L": mean([100 * rouge_l(*both) for both in texts]),
        }

    def baseline(self, options: Options) -> tuple[str, Answer]:
        """The story's first words, as many as the median headline has."""
        length = int(np.median([len(target.split()) for _, target in read_pairs(options.output / "train.tsv")]))
        return f"first {length} words", lambda texts: [lead(text, length) for text in texts]


FIELDS: Mapping[str, Field] = {
    "g2p": GraphemeToPhoneme(), "scan": Scan(), "spelling": Spelling(), "tagging": Tagging(), "summaries": Summaries(),
}  # fmt: skip


def measure(options: Options, field: Field, run: Path) -> Table:
    """A row for each system and test; p of each metric beside that of the run (paired bootstrap)."""
    model = heedful.load(run)
    systems: dict[str, Answer] = {run.name: lambda texts: [each.text for each in model.translate(texts)]}
    if found := field.baseline(options):
        systems[found[0]] = found[1]
    if options.answers is not None:
        lines = [*lines_of(options.answers)]
        sources = [*dict.fromkeys(source for source, _ in next(iter(field.tests(options).values())))]
        others = dict(zip(sources, lines, strict=True))
        systems[options.answers.stem] = lambda texts: [others[text] for text in texts]
    rows: list[list[str]] = []
    names: list[str] = []
    for test, pairs in field.tests(options).items():
        asked = [*dict.fromkeys(source for source, _ in pairs)]
        first: dict[str, Metric] = {}
        for name, answer in systems.items():
            metrics = field.metrics(pairs, dict(zip(asked, answer(asked), strict=True)))
            spans, first = intervals(metrics, Sampling()), first or metrics
            differences = {} if metrics is first else paired_tests(first, metrics, Sampling())
            names = [*metrics]
            cells = [f"{each.value:.2f} ({each.low:.2f} to {each.high:.2f})" for each in spans.values()]
            ps = [f", p = {differences[each].p_value:.3f}" if each in differences else "" for each in metrics]
            rows.append([name, test, f"{len(asked):,}", *(f"{a}{b}" for a, b in zip(cells, ps, strict=True))])
    return Table("", ["system", "test", "texts", *(f"{name}, %" for name in names)], rows)


def main(options: Options) -> None:
    """Text, or a table."""
    field = FIELDS[options.task]
    if options.run is not None:
        print(measure(options, field, options.run).text())
        return
    for name, pairs in field.prepare(options).items():
        write_pairs(pairs, options.output / f"{name}.tsv")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
