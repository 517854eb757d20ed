"""GLUE (Wang et al. 2018): nine tasks and a diagnostic set, in tab-separated files without quoting."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from heedful.data.labelled import ColumnKey, LabelledTsv
from heedful.tasks.benchmarks.definitions import BenchmarkDefinition, BenchmarkFile, MetricName

_PAIR = ("sentence1", "sentence2")
_BOTH_TEXTS = "both texts as they are"
_NLI = {"entailment": "entailment", "neutral": "neutral", "contradiction": "contradiction"}
_TWO_WAY = {"entailment": "entailment", "not_entailment": "not_entailment"}
_WNLI_LABELS = {"0": "not_entailment", "1": "entailment"}
_ACCEPTABLE = {"0": "unacceptable", "1": "acceptable"}
_POLARITY = {"0": "negative", "1": "positive"}
_EQUIVALENT = {"0": "not_equivalent", "1": "equivalent"}
_DUPLICATE = {"0": "not_duplicate", "1": "duplicate"}


def _define_file(
    *files: str, texts: tuple[ColumnKey, ...], label: ColumnKey | None = None, names: Mapping[str, str] | None = None
) -> BenchmarkFile:
    """Define a file by the columns of its texts and its label: a class if there are `names`, else a number."""
    field_names = [column if isinstance(column, str) else f"column {column + 1}" for column in texts]
    if label is not None:
        field_names.append(f"label in {label if isinstance(label, str) else f'column {label + 1}'}")
    open_reader = partial(LabelledTsv, texts=texts, label=label, names=names, number=names is None)
    return BenchmarkFile(files, ", ".join(field_names), open_reader)


def _define_task(
    name: str,
    title: str,
    folder: str,
    *,
    texts: tuple[str, ...] = _PAIR,
    input_text: str = _BOTH_TEXTS,
    label: str = "label",
    names: Mapping[str, str] | None = None,
    metrics: tuple[MetricName, ...] = ("accuracy",),
    suffix: str = "",
) -> BenchmarkDefinition:
    """Define a task with the usual three files, of which the test file has no labels."""
    return BenchmarkDefinition(
        name=name,
        title=title,
        head="regression" if names is None else "pair" if len(texts) > 1 else "classes",
        metrics=metrics,
        folders=(folder,),
        files={
            "train": _define_file("train.tsv", texts=texts, label=label, names=names),
            "dev": _define_file(f"dev{suffix}.tsv", texts=texts, label=label, names=names),
            "test": _define_file(f"test{suffix}.tsv", texts=texts),
        },
        texts=input_text,
        labels=() if names is None else tuple(names.values()),
    )


TASKS = (
    BenchmarkDefinition(
        name="glue/cola",
        title="Is the sentence acceptable English? (Warstadt et al. 2018)",
        head="classes",
        metrics=("matthews",),
        folders=("CoLA",),
        files={
            # The fourth of four columns without a header; the test file has a header and other columns.
            "train": _define_file("train.tsv", texts=(3,), label=1, names=_ACCEPTABLE),
            "dev": _define_file("dev.tsv", texts=(3,), label=1, names=_ACCEPTABLE),
            "test": _define_file("test.tsv", texts=("sentence",)),
        },
        texts="the sentence",
        labels=tuple(_ACCEPTABLE.values()),
    ),
    _define_task(
        "glue/sst-2",
        "Is the film review positive? (Socher et al. 2013)",
        "SST-2",
        texts=("sentence",),
        input_text="the sentence, or in training also phrases of it",
        names=_POLARITY,
    ),
    _define_task(
        "glue/mrpc",
        "Do both sentences mean the same? (Dolan and Brockett 2005)",
        "MRPC",
        texts=("#1 String", "#2 String"),
        label="Quality",
        names=_EQUIVALENT,
        metrics=("accuracy", "f1"),
    ),
    _define_task(
        "glue/sts-b",
        "How similar are both sentences, from 0 to 5? (Cer et al. 2017)",
        "STS-B",
        label="score",
        metrics=("pearson", "spearman"),
    ),
    _define_task(
        "glue/qqp",
        "Do both questions have the same meaning? (Iyer et al. 2017)",
        "QQP",
        texts=("question1", "question2"),
        label="is_duplicate",
        names=_DUPLICATE,
        metrics=("accuracy", "f1"),
    ),
    _define_task(
        "glue/mnli",
        "Does the hypothesis follow from the premise? Texts of the genres of training (Williams et al. 2018)",
        "MNLI",
        label="gold_label",
        names=_NLI,
        suffix="_matched",
    ),
    _define_task(
        "glue/mnli-mm",
        "The same with texts of other genres",
        "MNLI",
        label="gold_label",
        names=_NLI,
        suffix="_mismatched",
    ),
    _define_task(
        "glue/qnli",
        "Does the sentence answer the question? (made from SQuAD)",
        "QNLI",
        texts=("question", "sentence"),
        names=_TWO_WAY,
    ),
    _define_task(
        "glue/rte", "Does the second sentence follow from the first? (RTE 1, 2, 3 and 5)", "RTE", names=_TWO_WAY
    ),
    _define_task(
        "glue/wnli",
        "Does the sentence follow when a name replaces its pronoun? (Levesque et al. 2012)",
        "WNLI",
        names=_WNLI_LABELS,
    ),
    BenchmarkDefinition(
        name="glue/ax",
        title="Diagnostic sentences for models of MNLI",
        head="pair",
        metrics=("matthews",),
        folders=("AX", "diagnostic", "MNLI"),
        files={
            "dev": _define_file("diagnostic-full.tsv", texts=("Premise", "Hypothesis"), label="Label", names=_NLI),
            "test": _define_file("AX.tsv", "diagnostic.tsv", texts=_PAIR),
        },
        texts=_BOTH_TEXTS,
        labels=tuple(_NLI),
        trained_on="glue/mnli",
    ),
)
"""The tasks, in the order of the paper's table."""
