"""GLUE (Wang et al. 2018): nine tasks and a diagnostic set, in tab-separated files without quoting."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from heedful.data.labelled import Column, LabelledTsv
from heedful.data.readers import Reader
from heedful.tasks.benchmarks.definitions import Definition, Example, Source, Split

_TRAIN, _DEV, _TEST = "train.tsv", "dev.tsv", "test.tsv"
_PAIR = ("sentence1", "sentence2")
_JOINED = "both texts as they are"
_NLI = {"entailment": "entailment", "neutral": "neutral", "contradiction": "contradiction"}
_TWO_WAY = {"entailment": "entailment", "not_entailment": "not_entailment"}


def _source(
    file: str | tuple[str, ...],
    texts: tuple[Column, ...],
    label: Column | None = None,
    *,
    names: Mapping[str, str] | None = None,
    number: bool = False,
) -> Source:
    def read(path: Path) -> Reader[Example]:
        return LabelledTsv(path, texts=texts, label=label, names=names, number=number)

    shown = [str(column) if isinstance(column, str) else f"column {column + 1}" for column in texts]
    if label is not None:
        shown.append(f"label in {label if isinstance(label, str) else f'column {label + 1}'}")
    return Source((file,) if isinstance(file, str) else file, ", ".join(shown), read)


def _three(
    texts: tuple[Column, ...], label: str, *, names: Mapping[str, str] | None = None, number: bool = False
) -> dict[Split, Source]:
    """The usual three files; the test file has no labels."""
    return {
        "train": _source(_TRAIN, texts, label, names=names, number=number),
        "dev": _source(_DEV, texts, label, names=names, number=number),
        "test": _source(_TEST, texts),
    }


_ACCEPTABLE = {"0": "unacceptable", "1": "acceptable"}
_POLAR = {"0": "negative", "1": "positive"}
_EQUIVALENT = {"0": "not_equivalent", "1": "equivalent"}
_DUPLICATE = {"0": "not_duplicate", "1": "duplicate"}
_FOLLOWS = {"0": "not_entailment", "1": "entailment"}


def _mnli(half: str) -> dict[Split, Source]:
    return {
        "train": _source(_TRAIN, _PAIR, "gold_label", names=_NLI),
        "dev": _source(f"dev_{half}.tsv", _PAIR, "gold_label", names=_NLI),
        "test": _source(f"test_{half}.tsv", _PAIR),
    }


TASKS = (
    Definition(
        name="glue/cola",
        title="Is the sentence acceptable English? (Warstadt et al. 2018)",
        head="classes",
        metrics=("matthews",),
        folders=("CoLA",),
        sources={
            # The fourth of four columns without a header; the test file has a header and other columns.
            "train": _source(_TRAIN, (3,), 1, names=_ACCEPTABLE),
            "dev": _source(_DEV, (3,), 1, names=_ACCEPTABLE),
            "test": _source(_TEST, ("sentence",)),
        },
        texts="the sentence",
        labels=tuple(_ACCEPTABLE.values()),
    ),
    Definition(
        name="glue/sst-2",
        title="Is what a film review says positive? (Socher et al. 2013)",
        head="classes",
        metrics=("accuracy",),
        folders=("SST-2",),
        sources=_three(("sentence",), "label", names=_POLAR),
        texts="the sentence, or in training also phrases of it",
        labels=tuple(_POLAR.values()),
    ),
    Definition(
        name="glue/mrpc",
        title="Do both sentences say the same? (Dolan and Brockett 2005)",
        head="pair",
        metrics=("accuracy", "f1"),
        folders=("MRPC",),
        sources=_three(("#1 String", "#2 String"), "Quality", names=_EQUIVALENT),
        texts=_JOINED,
        labels=tuple(_EQUIVALENT.values()),
    ),
    Definition(
        name="glue/sts-b",
        title="How similar are both sentences, from 0 to 5? (Cer et al. 2017)",
        head="regression",
        metrics=("pearson", "spearman"),
        folders=("STS-B",),
        sources=_three(_PAIR, "score", number=True),
        texts=_JOINED,
    ),
    Definition(
        name="glue/qqp",
        title="Do both questions ask the same? (Iyer et al. 2017)",
        head="pair",
        metrics=("accuracy", "f1"),
        folders=("QQP",),
        sources=_three(("question1", "question2"), "is_duplicate", names=_DUPLICATE),
        texts=_JOINED,
        labels=tuple(_DUPLICATE.values()),
    ),
    Definition(
        name="glue/mnli",
        title="Does the hypothesis follow from the premise? Texts of the genres of training (Williams et al. 2018)",
        head="pair",
        metrics=("accuracy",),
        folders=("MNLI",),
        sources=_mnli("matched"),
        texts=_JOINED,
        labels=tuple(_NLI),
    ),
    Definition(
        name="glue/mnli-mm",
        title="The same with texts of other genres",
        head="pair",
        metrics=("accuracy",),
        folders=("MNLI",),
        sources=_mnli("mismatched"),
        texts=_JOINED,
        labels=tuple(_NLI),
    ),
    Definition(
        name="glue/qnli",
        title="Does the sentence answer the question? (made of SQuAD)",
        head="pair",
        metrics=("accuracy",),
        folders=("QNLI",),
        sources=_three(("question", "sentence"), "label", names=_TWO_WAY),
        texts=_JOINED,
        labels=tuple(_TWO_WAY),
    ),
    Definition(
        name="glue/rte",
        title="Does the second sentence follow from the first? (RTE 1, 2, 3 and 5)",
        head="pair",
        metrics=("accuracy",),
        folders=("RTE",),
        sources=_three(_PAIR, "label", names=_TWO_WAY),
        texts=_JOINED,
        labels=tuple(_TWO_WAY),
    ),
    Definition(
        name="glue/wnli",
        title="Does the sentence with a name for its pronoun follow? (Levesque et al. 2012)",
        head="pair",
        metrics=("accuracy",),
        folders=("WNLI",),
        sources=_three(_PAIR, "label", names=_FOLLOWS),
        texts=_JOINED,
        labels=tuple(_FOLLOWS.values()),
    ),
    Definition(
        name="glue/ax",
        title="Diagnostic sentences for models of MNLI",
        head="pair",
        metrics=("matthews",),
        folders=("AX", "diagnostic", "MNLI"),
        sources={
            "dev": _source("diagnostic-full.tsv", ("Premise", "Hypothesis"), "Label", names=_NLI),
            "test": _source(("AX.tsv", "diagnostic.tsv"), _PAIR),
        },
        texts=_JOINED,
        labels=tuple(_NLI),
        trained_on="glue/mnli",
    ),
)
"""The tasks in the order of the paper's table."""
