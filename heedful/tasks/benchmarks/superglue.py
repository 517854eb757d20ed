"""SuperGLUE (Wang et al. 2019, v2.0): eight tasks and two diagnostic sets, a JSON object on each line."""

from __future__ import annotations

from heedful.tasks.benchmarks.definitions import Definition, lines, three
from heedful.tasks.benchmarks.marked_texts import (
    TRUTH,
    alternatives,
    many_answers,
    pair,
    placeholders,
    twins,
    winograd,
    word_in_context,
)

_NLI = {"entailment": "entailment", "contradiction": "contradiction", "neutral": "neutral"}
_TWO_WAY = {"entailment": "entailment", "not_entailment": "not_entailment"}
_TRUTH = ("false", "true")
_JOINED = "both texts as they are"
_QUESTIONS = {"cause": "What was the cause of this?", "effect": "What happened as a result?"}

TASKS = (
    Definition(
        name="superglue/boolq",
        title="Is the answer to the question about the passage yes? (Clark et al. 2019)",
        head="pair",
        metrics=("accuracy",),
        folders=("BoolQ",),
        sources=three("passage, question, label", pair("passage", "question", names=TRUTH)),
        texts="passage; question",
        labels=_TRUTH,
    ),
    Definition(
        name="superglue/cb",
        title="Is the author committed to what the clause says? (CommitmentBank, de Marneffe et al. 2019)",
        head="pair",
        metrics=("accuracy", "macro_f1"),
        folders=("CB",),
        sources=three("premise, hypothesis, label", pair("premise", "hypothesis", names=_NLI)),
        texts=_JOINED,
        labels=tuple(_NLI),
    ),
    Definition(
        name="superglue/copa",
        title="Which alternative is the more plausible cause or effect? (Roemmele et al. 2011)",
        head="choice",
        metrics=("accuracy",),
        folders=("COPA",),
        sources=three("premise, question, choice1, choice2, label", alternatives(_QUESTIONS)),
        texts=f"premise and {_QUESTIONS['cause']!r} or {_QUESTIONS['effect']!r}; an alternative",
    ),
    Definition(
        name="superglue/multirc",
        title="Which of the answers are right? Several may be (Khashabi et al. 2018)",
        head="pair",
        metrics=("f1a", "exact_groups"),
        folders=("MultiRC",),
        sources=three("passage: text, questions: question, answers: text, label", many_answers),
        texts="passage; question and answer",
        labels=_TRUTH,
    ),
    Definition(
        name="superglue/record",
        title="Which name belongs into the gap? (Zhang et al. 2018)",
        head="choice",
        metrics=("answer_f1", "exact_match"),
        folders=("ReCoRD",),
        sources=three("passage: text, entities: start, end; qas: query, answers: text", placeholders(inclusive=True)),
        texts="passage; query with a name in place of @placeholder",
    ),
    Definition(
        name="superglue/rte",
        title="Does the hypothesis follow from the premise? (RTE 1, 2, 3 and 5)",
        head="pair",
        metrics=("accuracy",),
        folders=("RTE",),
        sources=three("premise, hypothesis, label", pair("premise", "hypothesis", names=_TWO_WAY)),
        texts=_JOINED,
        labels=tuple(_TWO_WAY),
    ),
    Definition(
        name="superglue/wic",
        title="Has the word the same sense in both sentences? (Pilehvar and Camacho-Collados 2019)",
        head="pair",
        metrics=("accuracy",),
        folders=("WiC",),
        sources=three("sentence1, start1, end1, sentence2, start2, end2, label", word_in_context),
        texts="each sentence with the word between asterisks",
        labels=_TRUTH,
    ),
    Definition(
        name="superglue/wsc",
        title="Does the pronoun stand for the name? (Levesque et al. 2012)",
        head="pair",
        metrics=("accuracy",),
        folders=("WSC",),
        sources=three("text, target: span1_text, span2_text, span2_index; label", winograd),
        texts="text with the pronoun between asterisks; the name",
        labels=_TRUTH,
    ),
    Definition(
        name="superglue/ax-b",
        title="Diagnostic sentences for models of RTE",
        head="pair",
        metrics=("matthews",),
        folders=("AX-b",),
        sources={
            "test": lines("AX-b.jsonl", "sentence1, sentence2, label", pair("sentence1", "sentence2", names=_TWO_WAY))
        },
        texts=_JOINED,
        labels=tuple(_TWO_WAY),
        trained_on="superglue/rte",
    ),
    Definition(
        name="superglue/ax-g",
        title="Pairs of texts that differ in the gender of a pronoun, for models of RTE (Rudinger et al. 2018)",
        head="pair",
        metrics=("parity", "accuracy"),
        folders=("AX-g",),
        sources={
            "test": lines(
                "AX-g.jsonl", "premise, hypothesis, label, idx", twins("premise", "hypothesis", names=_TWO_WAY)
            )
        },
        texts=_JOINED,
        labels=tuple(_TWO_WAY),
        trained_on="superglue/rte",
    ),
)
"""The tasks in the order of the paper's table, and the diagnostic sets."""
