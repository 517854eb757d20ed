"""`heedful classify`, `heedful answer`, and `heedful evaluate` of runs of labels."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from torch import nn

import heedful
from heedful.architectures.build import build_text_classifier
from heedful.architectures.classifiers import RecurrentClassifierConfig
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizers import WordTokenizer
from heedful.tasks.classification.predictor import SINGLE_TEXT_WARNING, UNMARKED_TEXT_WARNING, Classifier
from heedful.tasks.classification.recipe import ClassificationDataConfig

Say = Callable[..., "Said"]
Tuned = Callable[[str], Path]


def test_texts_come_from_everywhere_and_are_classified_alike(say: Say, tuned: Tuned, here: Path) -> None:
    run = tuned("classification")
    texts = ["eins zwei", "", "drei drei drei"]
    (here / "t.txt.gz").write_bytes(gzip.compress("\n".join(texts).encode()))
    told = say("classify", run, "--text", *texts)
    assert told.code == 0
    expected = [
        f"{found.label}\t{found.probabilities[str(found.label)]:.4f}" for found in heedful.load(run).classify(texts)
    ]
    assert told.lines == expected
    assert say("classify", run, stdin="\n".join(texts) + "\n").lines == expected
    assert say("classify", run, "--input", "t.txt.gz", "--output", "o.tsv").code == 0
    assert (here / "o.tsv").read_text(encoding="utf-8").split("\n")[:-1] == expected


def test_two_texts_and_all_probabilities(say: Say, tuned: Tuned) -> None:
    run = tuned("classification")
    long = " ".join(["acht"] * 40)
    told = say("classify", run, "--text", "eins", "zwei", "--pair", "drei", long, "--format", "jsonl")
    first, second = map(json.loads, told.lines)
    assert first == json.loads(say("classify", run, "--format", "jsonl", stdin="eins\tdrei\n").out)
    assert set(first["probabilities"]) == {"low", "high"}
    assert sum(first["probabilities"].values()) == pytest.approx(1)
    assert ("cut" in first, second["cut"]) == (False, 1 + 40 - 21)


@pytest.fixture
def chooser(monkeypatch: pytest.MonkeyPatch) -> Classifier:
    """A model that chooses among candidates, which every command now finds."""
    config = RecurrentClassifierConfig(d_model=4, dropout=0.0)
    words = WordTokenizer(["eins", "zwei", "drei"], lowercase=False)
    model = build_text_classifier(config, vocabulary=words.size, outputs=1, longest=20)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    found = Classifier(model.eval(), tokenizer=words, answer_type="choice", labels=None, max_length=20)
    monkeypatch.setattr("heedful.runs.load.load_predictor", lambda *_, **__: found)
    return found


def test_the_best_candidate_is_chosen_behind_what_all_share(say: Say, chooser: Classifier) -> None:
    shared, candidates = "eins zwei", ["drei", "zwei zwei", "eins drei drei"]
    (expected,) = chooser.choose([[(shared, each) for each in candidates]])
    (other,) = chooser.choose([[(each, shared) for each in candidates]])
    assert expected.probabilities != pytest.approx(other.probabilities), "which text comes first matters"
    line = f"{expected.number}\t{max(expected.probabilities):.4f}"
    assert say("classify", "run", "--text", shared, "--pair", *candidates).lines == [line]
    assert say("classify", "run", stdin="\t".join([shared, *candidates]) + "\n").lines == [line]
    found = json.loads(say("classify", "run", "--format", "jsonl", "--text", shared, "--pair", *candidates).out)
    assert found == {"number": expected.number, "probabilities": pytest.approx(expected.probabilities)}
    assert "standard input:1: has no candidates" in say("classify", "run", stdin="eins\n").complaint
    for words in (["--text", "a"], ["--text", "a", "b", "--pair", "c", "d"]):
        assert (
            "this model chooses among candidates; give one text, and its candidates with"
            in say("classify", "run", *words).complaint
        )


@pytest.mark.parametrize(
    ("words", "stdin", "complaint"),
    [
        (["--pair", "a"], "", "--pair: needs --text, the first text of the pair"),
        (["--text", "a", "--pair", "a", "b"], "", "--pair: 2 second texts for 1 texts; give one for each"),
        (["--text", "a", "--input", "x"], "", "--text and --input: give one of them, or neither to read standard"),
        (["--threads", "0"], "", "--threads: 0; must be at least 1"),
        ([], "a\tb\tc\n", "standard input:1: 3 texts; write one, or two with a tab between them"),
        ([], b"\xff\n", "standard input:1: byte 1 of the line (0xff) is not UTF-8"),
    ],
)
def test_what_cannot_be_classified(
    say: Say, tuned: Tuned, words: list[str], stdin: str | bytes, complaint: str
) -> None:
    told = say("classify", tuned("classification"), *words, stdin=stdin)
    assert complaint in told.complaint


NOTE = "1 of 1 texts: longer than the model reads, the end not read\n"


def test_of_a_candidate_that_is_too_long_the_end_is_not_read(say: Say, chooser: Classifier) -> None:
    long, room = "eins " * 99, chooser.max_length - 3
    (found,) = chooser.choose([["eins", ("zwei", long)]])
    assert found.cut == 100 - room
    said = say("classify", "run", "--format", "jsonl", "--text", "zwei", "--pair", "eins", long)
    assert (json.loads(said.out)["cut"], said.err) == (100 - room, NOTE)


def test_of_a_question_that_is_too_long_the_end_is_not_read(say: Say, tuned: Tuned) -> None:
    run, context = tuned("spans"), "zwei drei"
    most = heedful.load(run).settings.max_question
    words = ("answer", run, "--format", "jsonl", "--context", context, "--question")
    said = say(*words, "eins " * (most + 3))
    assert (json.loads(said.out)["cut"], said.err) == (3, NOTE)
    whole = say(*words, "eins " * most)
    assert whole.err == ""
    assert json.loads(whole.out) == {key: each for key, each in json.loads(said.out).items() if key != "cut"}


def test_questions_are_answered_by_parts_of_their_contexts(say: Say, tuned: Tuned, here: Path) -> None:
    run, context = tuned("spans"), "zwei drei vier"
    told = say("answer", run, "--question", "eins", "--context", context, "--format", "jsonl", "--n-best", "3")
    found = json.loads(told.out)
    assert len(found["spans"]) == 3
    assert all(context[span["start"] : span["stop"]] == span["text"] for span in found["spans"])
    assert found["answer"] in ("", found["spans"][0]["text"])
    lines = [{"question": "eins", "context": text} for text in (context, "", "fünf")]
    (here / "q.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    answers = say("answer", run, "--input", "q.jsonl").lines
    assert len(answers) == 3
    assert (answers[0], answers[1]) == (found["answer"], "")


@pytest.mark.parametrize(
    ("words", "stdin", "complaint"),
    [
        (["--question", "a"], "", "--question and --context: give both, or neither to read a file"),
        (["--n-best", "0"], "", "--n-best: 0; must be at least 1"),
        ([], "{\n", "standard input:1: not valid JSON"),
        ([], '{"question": "a"}\n', "standard input:1: no field 'context' (available: 'question')"),
        ([], '{"question": "a", "context": 3}\n', "field 'context' is int where text is needed"),
    ],
)
def test_what_cannot_be_answered(say: Say, tuned: Tuned, words: list[str], stdin: str, complaint: str) -> None:
    assert complaint in say("answer", tuned("spans"), *words, stdin=stdin).complaint


def test_a_text_alone_and_one_without_marks_are_doubted(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    config = RecurrentClassifierConfig(d_model=4, dropout=0.0)
    words = WordTokenizer(["eins", "zwei", "drei"], lowercase=False)
    model = build_text_classifier(config, vocabulary=words.size, outputs=2, longest=20).eval()
    labels = LabelVocabulary(["false", "true"])
    found = Classifier(
        model,
        tokenizer=words,
        answer_type="class",
        labels=labels,
        max_length=20,
        trained_on_pairs=True,
        trained_on_marked=True,
    )
    monkeypatch.setattr("heedful.runs.load.load_predictor", lambda *_, **__: found)
    told = say("classify", "run", stdin="*eins* zwei\teins *zwei*\neins zwei\neins\tzwei\n")
    assert (told.code, len(told.lines)) == (0, 3)
    assert told.err.splitlines() == [f"1 of 3 texts: {SINGLE_TEXT_WARNING}", f"2 of 3 texts: {UNMARKED_TEXT_WARNING}"]
    assert [each.doubts for each in found.classify(["eins", ("*eins*", "zwei")])] == [
        (SINGLE_TEXT_WARNING, UNMARKED_TEXT_WARNING),
        (),
    ]


@pytest.mark.parametrize(
    ("train", "pairs", "marked"),
    [
        ({"kind": "benchmark", "benchmark": "superglue/wic", "folder": "x", "split": "train"}, True, True),
        ({"kind": "benchmark", "benchmark": "glue/sts-b", "folder": "x", "split": "train"}, True, False),
        ({"kind": "benchmark", "benchmark": "glue/cola", "folder": "x", "split": "train"}, False, False),
        ({"kind": "tsv", "path": "a.tsv", "pair": "second"}, True, False),
        ({"kind": "tsv", "path": "a.tsv"}, False, False),
    ],
)
def test_a_recipe_says_whether_pairs_and_marks_are_learned(train: dict[str, str], pairs: bool, marked: bool) -> None:
    data = ClassificationDataConfig.model_validate({"train": train, "validation": train})
    assert (data.has_pairs, data.has_marked_words) == (pairs, marked)


@pytest.mark.parametrize(
    ("task", "metrics", "examples"),
    [
        ("classification", {"accuracy", "macro_f1", "matthews"}, 60),
        ("spans", {"exact_match", "answer_f1", "answerable_f1", "unanswerable"}, 60),
        ("tagging", {"accuracy", "precision", "recall", "f1"}, 285),
    ],
)
def test_runs_are_measured_beside_the_most_frequent_label(
    say: Say, tuned: Tuned, task: str, metrics: set[str], examples: int
) -> None:
    told = json.loads(say("evaluate", tuned(task), "--format", "json").out)
    assert (told["part"], {*told["metrics"]}) == ("validation", metrics)
    assert told["examples"] == examples
    assert {*told["baseline"]} <= metrics
    shown = say("evaluate", tuned(task))
    assert shown.lines[0] == f"{tuned(task)}: validation, {told['examples']:,} examples"
    table = shown.lines[3 : 3 + len(told["metrics"])]
    for line, (name, value) in zip(table, told["metrics"].items(), strict=True):
        assert line.split()[:2] == [name, f"{value:.4f}"]


def test_long_sentences_are_tagged_in_parts(say: Say, tuned: Tuned) -> None:
    words = ["eins", "zwei", "sieben"] * 40
    told = say("tag", tuned("tagging"), "--text", " ".join(words))
    assert [line.split("\t")[0] for line in told.lines[:-1]] == words


@pytest.fixture(scope="module")
def several(tuning: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of four tasks, two of which classify, to be read only."""
    folder = tmp_path_factory.mktemp("several")
    tables = ""
    for name, kind, file in (
        ("tone", "classification", "c.tsv"),
        ("mood", "classification", "c.tsv"),
        ("even", "tagging", "t.txt"),
        ("first", "spans", "q.jsonl"),
    ):
        data = f'{{ path = "{tuning / file}" }}'
        tables += (
            f'[tasks.{name}]\nkind = "{kind}"\ndata = {{ train = {data}, validation = {data}, max_length = 24 }}\n'
        )
    (folder / "m.toml").write_text(
        f'task = "multitask"\noutput = "{folder / "run"}"\n{tables}[tokenizer]\nkind = "words"\n'
        "[model]\nd_model = 16\nheads = 2\nlayers = 1\n[training]\nsteps = 4\nbatch_tokens = 150\n"
        'evaluate_every = 4\nschedule = { kind = "constant", rate = 1e-2 }\nprecision = "fp32"\nthreads = 1\n',
        encoding="utf-8",
    )
    return heedful.train(heedful.load_recipe(folder / "m.toml"), device="cpu").folder


def test_each_command_finds_the_task_that_it_is_for(say: Say, several: Path) -> None:
    heads = heedful.load(several)
    found = heads.head("mood").classify(["eins zwei"])[0]
    told = say("classify", several, "--task", "mood", "--text", "eins zwei")
    assert told.lines == [f"{found.label}\t{found.probabilities[str(found.label)]:.4f}"]
    tags = heads.head("even").tag([["eins", "zwei"]])[0]
    assert say("tag", several, "--text", "eins zwei").lines[:2] == [f"{tag.word}\t{tag.name}" for tag in tags]
    answer = heads.head("first").answer("eins", "zwei drei")
    for words in ((), ("--task", "first")):
        told = say("answer", several, *words, "--question", "eins", "--context", "zwei drei")
        assert told.lines == [" ".join(answer.text.split())]
    assert "eins" in say("inspect", several, "--task", "tone", "--text", "eins zwei").out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["classify", "--text", "a"], "more than one of its tasks classifies texts; choose one of tone, mood with"),
        (["classify", "--task", "x", "--text", "a"], "has no task 'x'; choose one of tone, mood, even, first"),
        (["tag", "--task", "tone", "--text", "a"], "tone is not a task that tags words; choose one of even"),
        (["inspect", "--text", "a"], "choose one of tone, mood, even, first with --task"),
        (["evaluate", "--task", "x"], "has no task 'x'"),
        (["fill", "--text", "a [MASK]"], "none of its tasks fills gaps (tone, mood, even, first); name another run"),
        (
            ["embed", "--task", "even", "--text", "a"],
            "even is not a task that computes vectors of texts; choose one of tone",
        ),
        (["translate", "--text", "a"], "none of its tasks translates"),
    ],
)
def test_a_task_that_is_not_there_is_told(say: Say, several: Path, words: list[str], complaint: str) -> None:
    assert complaint in say(words[0], several, *words[1:]).complaint


def test_a_run_of_one_task_has_none_to_choose(say: Say, tuned: Tuned) -> None:
    for words in (["classify", "--text", "a"], ["evaluate"], ["inspect", "--text", "a"]):
        assert "--task" in say(words[0], tuned("classification"), *words[1:], "--task", "x").complaint


def test_all_tasks_are_measured_beside_their_most_frequent_answers(say: Say, several: Path, tuned: Tuned) -> None:
    told = json.loads(say("evaluate", several, "--format", "json").out)["tasks"]
    assert list(told) == ["tone", "mood", "even", "first"]
    for name, single in (("tone", "classification"), ("even", "tagging"), ("first", "spans")):
        alone = json.loads(say("evaluate", tuned(single), "--format", "json").out)
        for key in ("part", "examples", "baseline", "answer"):
            assert told[name][key] == alone[key]
        assert told[name]["metrics"].keys() == alone["metrics"].keys()
    final = json.loads((several / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert told["mood"]["metrics"]["accuracy"] == pytest.approx(final["mood/accuracy"])
    lines = say("evaluate", several, "--task", "even").lines
    assert [line for line in lines if line.endswith("examples")] == [
        f"even: validation, {told['even']['examples']:,} examples"
    ]
    assert any(line.startswith("f1 ") for line in lines)
