"""GLUE (Wang et al. 2018): nine tasks and a diagnostic set, in tab-separated files without quoting."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from heedful.data.labelled import Column, LabelledTsv
from heedful.tasks.benchmarks.definitions import Definition, MetricName, Source

_PAIR = ("sentence1", "sentence2")
_JOINED = "both texts as they are"
_NLI = {"entailment": "entailment", "neutral": "neutral", "contradiction": "contradiction"}
_TWO_WAY = {"entailment": "entailment", "not_entailment": "not_entailment"}
_FOLLOWS = {"0": "not_entailment", "1": "entailment"}
_ACCEPTABLE = {"0": "unacceptable", "1": "acceptable"}
_POLAR = {"0": "negative", "1": "positive"}
_EQUIVALENT = {"0": "not_equivalent", "1": "equivalent"}
_DUPLICATE = {"0": "not_duplicate", "1": "duplicate"}


def _source(
    *files: str, texts: tuple[Column, ...], label: Column | None = None, names: Mapping[str, str] | None = None
) -> Source:
    """Columns of texts and of their label: a class where there are `names`, else a number."""
    shown = [column if isinstance(column, str) else f"column {column + 1}" for column in texts]
    if label is not None:
        shown.append(f"label in {label if isinstance(label, str) else f'column {label + 1}'}")
    read = partial(LabelledTsv, texts=texts, label=label, names=names, number=names is None)
    return Source(files, ", ".join(shown), read)


def _task(
    name: str,
    title: str,
    folder: str,
    *,
    texts: tuple[str, ...] = _PAIR,
    read: str = _JOINED,
    label: str = "label",
    names: Mapping[str, str] | None = None,
    metrics: tuple[MetricName, ...] = ("accuracy",),
    half: str = "",
) -> Definition:
    """The usual task: three files, of which that of the test has no labels."""
    return Definition(
        name=name,
        title=title,
        head="regression" if names is None else "pair" if len(texts) > 1 else "classes",
        metrics=metrics,
        folders=(folder,),
        sources={
            "train": _source("train.tsv", texts=texts, label=label, names=names),
            "dev": _source(f"dev{half}.tsv", texts=texts, label=label, names=names),
            "test": _source(f"test{half}.tsv", texts=texts),
        },
        texts=read,
        labels=() if names is None else tuple(names.values()),
    )


TASKS = (
    Definition(
        name="glue/cola",
        title="Is the sentence acceptable English? (Warstadt et al. 2018)",
        head="classes",
        metrics=("matthews",),
        folders=("CoLA",),
        sources={
            # The fourth of four columns without a header; the test file has a header and other columns.
            "train": _source("train.tsv", texts=(3,), label=1, names=_ACCEPTABLE),
            "dev": _source("dev.tsv", texts=(3,), label=1, names=_ACCEPTABLE),
            "test": _source("test.tsv", texts=("sentence",)),
        },
        texts="the sentence",
        labels=tuple(_ACCEPTABLE.values()),
    ),
    _task(
        "glue/sst-2",
        "Is what a film review says positive? (Socher et al. 2013)",
        "SST-2",
        texts=("sentence",),
        read="the sentence, or in training also phrases of it",
        names=_POLAR,
    ),
    _task(
        "glue/mrpc",
        "Do both sentences say the same? (Dolan and Brockett 2005)",
        "MRPC",
        texts=("#1 String", "#2 String"),
        label="Quality",
        names=_EQUIVALENT,
        metrics=("accuracy", "f1"),
    ),
    _task(
        "glue/sts-b",
        "How similar are both sentences, from 0 to 5? (Cer et al. 2017)",
        "STS-B",
        label="score",
        metrics=("pearson", "spearman"),
    ),
    _task(
        "glue/qqp",
        "Do both questions ask the same? (Iyer et al. 2017)",
        "QQP",
        texts=("question1", "question2"),
        label="is_duplicate",
        names=_DUPLICATE,
        metrics=("accuracy", "f1"),
    ),
    _task(
        "glue/mnli",
        "Does the hypothesis follow from the premise? Texts of the genres of training (Williams et al. 2018)",
        "MNLI",
        label="gold_label",
        names=_NLI,
        half="_matched",
    ),
    _task(
        "glue/mnli-mm",
        "The same with texts of other genres",
        "MNLI",
        label="gold_label",
        names=_NLI,
        half="_mismatched",
    ),
    _task(
        "glue/qnli",
        "Does the sentence answer the question? (made of SQuAD)",
        "QNLI",
        texts=("question", "sentence"),
        names=_TWO_WAY,
    ),
    _task("glue/rte", "Does the second sentence follow from the first? (RTE 1, 2, 3 and 5)", "RTE", names=_TWO_WAY),
    _task(
        "glue/wnli",
        "Does the sentence with a name for its pronoun follow? (Levesque et al. 2012)",
        "WNLI",
        names=_FOLLOWS,
    ),
    Definition(
        name="glue/ax",
        title="Diagnostic sentences for models of MNLI",
        head="pair",
        metrics=("matthews",),
        folders=("AX", "diagnostic", "MNLI"),
        sources={
            "dev": _source("diagnostic-full.tsv", texts=("Premise", "Hypothesis"), label="Label", names=_NLI),
            "test": _source("AX.tsv", "diagnostic.tsv", texts=_PAIR),
        },
        texts=_JOINED,
        labels=tuple(_NLI),
        trained_on="glue/mnli",
    ),
)
"""The tasks in the order of the paper's table."""
