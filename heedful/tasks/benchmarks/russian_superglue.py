"""Russian SuperGLUE (Shavrina et al. 2020; 1.1, Fenogenova et al. 2022): SuperGLUE's formats, Russian texts."""

from __future__ import annotations

from heedful.tasks.benchmarks.definitions import Definition, lines, three
from heedful.tasks.benchmarks.marked_texts import (
    TRUTH,
    alternatives,
    many_answers,
    pair,
    placeholders,
    winograd,
    word_in_context,
)

_NLI = {"entailment": "entailment", "contradiction": "contradiction", "neutral": "neutral"}
_TWO_WAY = {"entailment": "entailment", "not_entailment": "not_entailment"}
_TRUTH = ("false", "true")
_JOINED = "both texts as they are"
_QUESTIONS = {"cause": "Что было причиной этого?", "effect": "Что случилось в результате?"}

TASKS = (
    Definition(
        name="russian-superglue/lidirus",
        title="Diagnostic sentences for models of TERRa, translated from GLUE's",
        head="pair",
        metrics=("matthews",),
        folders=("LiDiRus",),
        sources={
            "test": lines(
                "LiDiRus.jsonl", "sentence1, sentence2, label", pair("sentence1", "sentence2", names=_TWO_WAY)
            )
        },
        texts=_JOINED,
        labels=tuple(_TWO_WAY),
        trained_on="russian-superglue/terra",
    ),
    Definition(
        name="russian-superglue/rcb",
        title="Is the author committed to what the clause says? (like CB)",
        head="pair",
        metrics=("macro_f1", "accuracy"),
        folders=("RCB",),
        sources=three("premise, hypothesis, label", pair("premise", "hypothesis", names=_NLI)),
        texts=_JOINED,
        labels=tuple(_NLI),
    ),
    Definition(
        name="russian-superglue/parus",
        title="Which alternative is the more plausible cause or effect? (like COPA)",
        head="choice",
        metrics=("accuracy",),
        folders=("PARus",),
        sources=three("premise, question, choice1, choice2, label", alternatives(_QUESTIONS)),
        texts=f"premise and {_QUESTIONS['cause']!r} or {_QUESTIONS['effect']!r}; an alternative",
    ),
    Definition(
        name="russian-superglue/muserc",
        title="Which of the answers are right? Several may be (like MultiRC)",
        head="pair",
        metrics=("f1a", "exact_groups"),
        folders=("MuSeRC",),
        sources=three("passage: text, questions: question, answers: text, label", many_answers),
        texts="passage; question and answer",
        labels=_TRUTH,
    ),
    Definition(
        name="russian-superglue/terra",
        title="Does the hypothesis follow from the premise? (like RTE)",
        head="pair",
        metrics=("accuracy",),
        folders=("TERRa",),
        sources=three("premise, hypothesis, label", pair("premise", "hypothesis", names=_TWO_WAY)),
        texts=_JOINED,
        labels=tuple(_TWO_WAY),
    ),
    Definition(
        name="russian-superglue/russe",
        title="Has the word the same sense in both sentences? (like WiC)",
        head="pair",
        metrics=("accuracy",),
        folders=("RUSSE",),
        sources=three("sentence1, start1, end1, sentence2, start2, end2, label", word_in_context),
        texts="each sentence with the word between asterisks",
        labels=_TRUTH,
    ),
    Definition(
        name="russian-superglue/rwsd",
        title="Does the pronoun stand for the name? (like WSC)",
        head="pair",
        metrics=("accuracy",),
        folders=("RWSD",),
        sources=three("text, target: span1_text, span2_text, span2_index; label", winograd),
        texts="text with the pronoun between asterisks; the name",
        labels=_TRUTH,
    ),
    Definition(
        name="russian-superglue/danetqa",
        title="Is the answer to the question about the passage yes? (like BoolQ)",
        head="pair",
        metrics=("accuracy",),
        folders=("DaNetQA",),
        sources=three("passage, question, label", pair("passage", "question", names=TRUTH)),
        texts="passage; question",
        labels=_TRUTH,
    ),
    Definition(
        name="russian-superglue/rucos",
        title="Which name belongs into the gap? (like ReCoRD)",
        head="choice",
        metrics=("answer_f1", "exact_match"),
        folders=("RuCoS",),
        sources=three("passage: text, entities: start, end; qas: query, answers: text", placeholders(inclusive=False)),
        texts="passage; query with a name in place of @placeholder",
    ),
)
"""The tasks in the order of the leader board."""
