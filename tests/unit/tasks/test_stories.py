"""Stories: how they are read, what is lost and measured, and what a trained model says."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from external_data import find_external_data

import heedful
from heedful.architectures.build import build_memory_network
from heedful.architectures.model import MemoryNetworkConfig
from heedful.data.corpus import Corpus, write_corpus
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizers import learn_words
from heedful.errors import DataError, RecipeError
from heedful.inspection.capture import watch_attention
from heedful.metrics.metric import Metric
from heedful.models.memory_network import MemoryNetwork
from heedful.tasks.stories.data import BabiReader, StoryEncoder, StoryQuestion, collate_stories, read_stories_jsonl
from heedful.tasks.stories.demonstration import PEOPLE, ROOMS, THINGS, GeneratedQuestion, generate_questions
from heedful.tasks.stories.predictor import StoryAnswer, StoryPredictor, split_sentences
from heedful.tasks.stories.task import (
    StoriesObjective,
    build_story_evaluator,
    compute_story_metrics,
    insert_empty_memories,
)

BABI = """\
1 Mary went home.
2 John took the milk.
3 Where is Mary? \thome\t1
4 John took the ball.
5 What has John?\tmilk,ball\t2 4
1 Is it dark?\tno\t
2 It is night.
3 Is it dark?\tyes\t2
"""


@pytest.fixture
def babi(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks/en"
    folder.mkdir(parents=True)
    for name in ("qa2_two-facts_train.txt", "qa10_valid.txt", "qa10_x_train.txt"):
        (folder / name).write_text(BABI, encoding="utf-8")
    (folder / "readme.txt").write_text("no task")
    return tmp_path / "tasks"


def archived(folder: Path) -> Path:
    path = folder.with_name("tasks.tar.gz")
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, "tasks")
    return path


def without_place(questions: list[StoryQuestion]) -> list[tuple[object, ...]]:
    return [(each.facts, each.question, each.answer, each.supporting, each.task) for each in questions]


def test_babi_is_read_from_a_folder_and_from_an_archive(babi: Path) -> None:
    found = list(BabiReader(babi, part="train", tasks=(10,)))
    assert without_place(found) == [
        (("Mary went home.", "John took the milk."), "Where is Mary?", "home", (0,), "10"),
        (
            ("Mary went home.", "John took the milk.", "John took the ball."),
            *("What has John?", "milk,ball", (1, 2), "10"),
        ),
        ((), "Is it dark?", "no", None, "10"),
        (("It is night.",), "Is it dark?", "yes", (0,), "10"),
    ]
    assert found[0].location == f"{babi}/en/qa10_x_train.txt:3"
    assert without_place(list(BabiReader(archived(babi), part="train", tasks=(10,)))) == without_place(found)


def test_tasks_go_by_their_numbers_and_parts_by_their_names(babi: Path) -> None:
    assert [each.task for each in BabiReader(babi, part="train")] == ["2"] * 4 + ["10"] * 4
    assert [each.task for each in BabiReader(babi, part="train", tasks=(10, 2))] == ["10"] * 4 + ["2"] * 4
    assert BabiReader(babi, part="valid").paths == (babi / "en/qa10_valid.txt",)


def test_babi_as_it_is_published() -> None:
    path = find_external_data("babi/en-valid.tar.gz")
    for part, count in (("train", 900), ("valid", 100), ("test", 1000)):
        found = list(BabiReader(path, part=part, tasks=(2, 8)))
        assert [sum(each.task == task for each in found) for task in ("2", "8")] == [count, count]
        assert all(each.supporting and max(each.supporting) < len(each.facts) for each in found)
        assert all(len(each.supporting or ()) == 2 for each in found if each.task == "2")
    assert any("," in each.answer for each in found), "a list is an answer"


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "archive"])
def test_files_that_are_not_there_or_too_many(babi: Path, packed: bool) -> None:
    (babi / "en-10k").mkdir()
    (babi / "en-10k/qa2_x_train.txt").write_text(BABI)
    path = archived(babi) if packed else babi
    with pytest.raises(DataError, match=r"several files of task 2 .*; choose one with folder"):
        BabiReader(path, part="train")
    assert len(list(BabiReader(path, part="train", tasks=(2,), folder="en-10k"))) == 4
    with pytest.raises(DataError, match=r"has no qa3_..._train.txt; choose other tasks"):
        BabiReader(path, part="train", tasks=(3,))
    with pytest.raises(DataError, match=r"has no file such as qa1_test.txt; name the folder or .tar.gz of bAbI"):
        BabiReader(path, part="test")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("Mary went home.", ":3: has no number and sentence; a line of bAbI looks like"),
        ("3 Where is Mary?\t\t1", ":3: a question needs an answer and the numbers of facts above it"),
        ("3 Where is Mary?\thome\t3", ":3: a question needs an answer and the numbers of facts above it"),
        ("3 Where?\thome\t1\t2", ":3: a question needs an answer and the numbers of facts above it"),
        ("1 E f.\n2 Where?\thome\t2", ":4: a question needs an answer and the numbers of facts above it"),
    ],
)
def test_lines_that_are_not_babis(tmp_path: Path, line: str, complaint: str) -> None:
    (tmp_path / "qa1_train.txt").write_text(f"1 A b.\n2 C d.\n{line}\n")
    with pytest.raises(DataError, match=complaint):
        list(BabiReader(tmp_path, part="train"))


def test_what_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"x.tar.gz: is not a tar archive; name the archive of bAbI, or its folder"):
        BabiReader(tmp_path / "x.tar.gz", part="train")


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ('"answer": "a", "supporting": [1]', "'supporting' names a fact that does not exist; count from 0"),
        ('"answer": "a", "supporting": [-1]', "'supporting' names a fact that does not exist; count from 0"),
        ('"answer": "a", "supporting": ["0"]', "field 'supporting' is list where a list of whole numbers is needed"),
        ('"answer": " "', "an empty answer; correct the line"),
        ('"reply": "a"', "no field 'answer'"),
    ],
)
def test_json_that_says_too_little(tmp_path: Path, fields: str, complaint: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(f'{{"facts": ["A b."], "question": "C?", {fields}}}\n')
    with pytest.raises(DataError, match=f":1: {complaint}"):
        list(read_stories_jsonl(path))


QUESTIONS = [
    StoryQuestion(("Mary went home.", "It is late!"), "Where is Mary?", "home", (0,), "1", "x:1"),
    StoryQuestion(("Mary went home.",), "When is it?", "never", None, "2", "x:2"),
    StoryQuestion((), "Where?", "home", None, "2", "x:3"),
    StoryQuestion(("...", "Went Mary late?", "Zoe"), "Late?", "late", (1, 2), "2", "x:4"),
]


@pytest.fixture
def words() -> StoryEncoder:
    tokenizer = learn_words(["mary went home it is late where"], size=None, lowercase=True)
    return StoryEncoder(tokenizer, LabelVocabulary(["home", "late", "milk,ball"]), max_facts=2, max_words=5)


def test_words_that_are_answers_have_their_numbers(words: StoryEncoder) -> None:
    ids = words.encode_sentence("Mary went HOME, late.")
    assert ids is not None
    assert ids[2:] == [0, 1]
    assert min(ids[:2]) >= 3 + 4
    assert words.encode_sentence("Zoe went") == [-1, ids[1]]
    assert (words.encode_sentence("?!"), words.encode_sentence("")) == ([-1], [-1])
    assert words.encode_sentence("a b c d e f") is None


@pytest.fixture
def corpus(tmp_path: Path, words: StoryEncoder) -> Corpus:
    return write_corpus(tmp_path / "corpus", QUESTIONS, encoder=words.build_encoding())


def test_a_batch_has_the_last_facts_of_each_story(corpus: Corpus, words: StoryEncoder) -> None:
    long = StoryQuestion(("A b c d e f.",), "Where?", "home", None, "2", "x:5")
    assert words.build_encoding().encode(long)[2] is None
    assert (corpus.report.kept, corpus.report.empty) == (3, 1)
    batch = collate_stories(corpus, np.array([0, 2, 1]))
    mary, went, late = (words.encode_sentence(word)[0] for word in ("mary", "went", "late"))  # type: ignore[index]
    assert batch.story.ages.tolist() == [[1, 0], [1, 0], [0, -1]]
    assert batch.story.facts[1].tolist() == [[went, mary, late], [-1, -1, -1]]
    assert batch.story.facts[2].tolist() == [[mary, went, 0], [-1, -1, -1]]
    assert batch.story.question[1].tolist() == [late, -1, -1]
    assert batch.answers.tolist() == [0, 1, 3], "an answer that was never seen has a number that nobody says"


def test_stories_are_read_alike_from_a_corpus_and_by_a_face(
    corpus: Corpus, words: StoryEncoder, network: MemoryNetwork
) -> None:
    reader = StoryPredictor(network, words)
    rows = [reader._encode_question(QUESTIONS[row].facts, QUESTIONS[row].question) for row in (0, 1, 3)]
    first, second = reader._build_story(rows), collate_stories(corpus, np.arange(3)).story
    for name in ("facts", "ages", "question"):
        assert torch.equal(getattr(first, name), getattr(second, name)), name


def test_gaps_make_facts_older_and_keep_their_order() -> None:
    torch.manual_seed(1)
    ages = torch.where(torch.arange(60) < 50, 49 - torch.arange(60), -1).expand(400, 60)
    assert torch.equal(insert_empty_memories(ages, share=0.0), ages)
    noisy = insert_empty_memories(ages, share=0.1)
    assert torch.equal(noisy[:, 50:], ages[:, 50:])
    assert bool((noisy[:, :49] > noisy[:, 1:50]).all())
    added = (noisy - ages)[:, :50].double()
    # 400 draws of a binomial: the mean has a deviation of sqrt(n p q / 400), 0.11 for the oldest
    assert float(added[:, 0].mean()) == pytest.approx(5.0, abs=0.5)
    assert float(added[:, 49].mean()) == pytest.approx(0.1, abs=0.06)


@pytest.fixture
def network(words: StoryEncoder) -> MemoryNetwork:
    config = MemoryNetworkConfig(d_model=4, hops=2)
    return build_memory_network(config, vocabulary=words.vocab_size, answers=words.answers.size, facts=words.max_facts)


def problem(corpus: Corpus, **options: object) -> StoriesObjective:
    made = StoriesObjective(corpus, corpus, max_facts=2, batch_tokens=4, seed=1, device=torch.device("cpu"))
    for name, value in options.items():
        setattr(made, name, value)
    return made


def test_the_softmax_comes_back_after_a_linear_start(corpus: Corpus, network: MemoryNetwork) -> None:
    model, task = network, problem(corpus, linear_updates=2)
    batch = task.build_batch(np.array([0, 1]))
    used = []
    for _ in range(4):
        with watch_attention(model) as weights:
            task.loss(model, batch)
        used.append(bool(weights))
        task.on_update(0.0)
    assert used == [False, False, True, True]
    again = problem(corpus, linear_updates=5)
    again.load_state_dict(task.state_dict())
    with watch_attention(model) as weights:
        again.loss(model, batch)
    assert not weights, "four updates were done, so the fifth is linear"


def test_loss_counts_answers_that_can_be_said_and_accuracy_all(corpus: Corpus, network: MemoryNetwork) -> None:
    model, task = network, problem(corpus)
    with torch.no_grad():
        found = task.evaluate(model)
    with torch.no_grad():
        logits = model(task.build_batch(np.arange(3)).story)
    expected = -(logits.log_softmax(1)[0, 0] + logits.log_softmax(1)[2, 1]) / 2
    # batches of two and of three have kernels of their own
    assert found["loss"] == pytest.approx(float(expected), rel=1e-5)
    right = (logits.argmax(1) == torch.tensor([0, 3, 1])).sum()
    assert found["accuracy"] == pytest.approx(float(right) / 3)


def test_batches_have_as_many_stories_each(corpus: Corpus) -> None:
    """Two of three, whatever their facts; and each once."""
    plan = problem(corpus).plan_epoch(0)
    assert sorted(map(len, plan)) == [1, 2]
    assert sorted(np.concatenate(plan).tolist()) == [0, 1, 2]


@pytest.mark.slow
def test_a_run_that_is_cut_in_its_linear_start_ends_as_one_that_is_not(told: Path, tmp_path: Path) -> None:
    recipe = told.parent / "recipe.toml"
    small = ["--model.d_model", "4", "--training.linear_start", "1", "--training.evaluate_every", "5"]

    def train(name: str, steps: int) -> bytes:
        options = [*small, "--training.steps", str(steps), "--output", str(tmp_path / name)]
        options += ["--training.schedule.kind", "constant", "--training.threads", "1"]
        return (
            heedful.train(heedful.load_recipe(recipe, options), device="cpu").folder / "model.safetensors"
        ).read_bytes()

    train("cut", 20)  # of 29 in its first epoch
    assert train("cut", 36) == train("whole", 36)


def said(answer: str, *looked: int) -> StoryAnswer:
    return StoryAnswer(answer, 0.5, (), looked, np.zeros((len(looked), 3)))


def value(metrics: dict[str, Metric], name: str) -> float:
    return metrics[name].value


def test_what_answers_are_worth() -> None:
    """Task 1 has one question, task 2 three: each task counts once."""
    answers = [said("home", 0, 1), said("never", 0, 0), said("late", 0, 0), said("milk", 2, 1)]
    found = compute_story_metrics(answers, QUESTIONS)
    assert value(found, "accuracy") == 0.5
    assert value(found, "error") == pytest.approx((0 + 2 / 3) / 2)
    assert value(found, "failed") == 1
    assert value(found, "facts") == 1, "of the two whose facts are known, both looked at all, in any order"
    assert value(found, "facts of hop 1") == 1
    assert value(found, "facts of hop 2") == 0.5
    half = compute_story_metrics([*answers[:3], said("late", 1, 1)], QUESTIONS)
    assert value(half, "facts") == 0.5, "one of two is not all"
    assert found["error"].compute_scores(np.array([[1.0, 0, 0, 1]])).tolist() == [0.5]


def test_the_exam_has_a_baseline_and_tells_of_unknown_answers() -> None:
    exam = build_story_evaluator(QUESTIONS, train=QUESTIONS[:1])
    assert (exam.constant_answer, exam.num_train_examples, exam.size) == ("home", 1, 4)
    assert value(dict(exam.compute_metrics(exam.baseline_answers)), "accuracy") == 0.5
    assert value(dict(exam.compute_metrics(exam.baseline_answers)), "facts") == 0
    assert exam.data_warnings == ("2 answers never occur in the training text, and count as wrong",)
    assert "facts" not in compute_story_metrics([said("home")], QUESTIONS[1:2]), "nobody says which facts are right"
    with pytest.raises(DataError, match="there are no questions"):
        build_story_evaluator([], train=QUESTIONS)


def where(facts: tuple[str, ...]) -> tuple[dict[str, str], dict[str, str]]:
    """Where each is and who has what, by reading the sentences."""
    rooms: dict[str, str] = {}
    holders: dict[str, str] = {}
    for fact in facts:
        words = fact.rstrip(".").split()
        person, last = words[0], words[-1]
        if last in ROOMS:
            rooms[person] = last
        elif last in PEOPLE:
            assert holders[words[3]] == person, "nobody gives what he has not"
            holders[words[3]] = last
        else:
            assert last in THINGS
            assert last not in holders, "nobody takes what somebody has"
            holders[last] = person
    return rooms, holders


def answer_by_reading(made: GeneratedQuestion, facts: tuple[str, ...]) -> str:
    rooms, holders = where(facts)
    asked = made.question.rstrip("?").split()[-1]
    if made.question.startswith("Who"):
        return holders[asked]
    return rooms[holders.get(asked, asked)]


def test_made_up_stories_are_true_and_their_facts_suffice() -> None:
    made = list(generate_questions(seed=3, size=300))
    assert len({each.facts for each in made}) == 300
    assert {len(each.supporting) for each in made} == {1, 2}
    for each in made:
        assert each.answer == answer_by_reading(each, each.facts)
        alone = tuple(each.facts[number] for number in sorted(each.supporting))
        told_of = " ".join(alone)
        assert each.answer in told_of
        if len(each.supporting) == 2:
            person = re.match(r"(\w+)", each.facts[each.supporting[1]])
            assert person is not None
            assert person[1] in each.facts[each.supporting[0]]
    assert list(generate_questions(seed=3, size=300)) == made
    assert list(generate_questions(seed=4, size=300)) != made


@pytest.fixture
def reader(told: Path) -> StoryPredictor:
    found = heedful.load(told)
    assert isinstance(found, StoryPredictor)
    return found


def test_a_question_alone_and_among_others_is_answered_alike(reader: StoryPredictor) -> None:
    made = list(generate_questions(seed=9, size=12))
    asked = [((), "Where is Ada?"), *((each.facts, each.question) for each in made), (("Ada went.",), "")]
    together = reader.answer(asked, batch_tokens=200)
    for (facts, question), found in zip(asked, together, strict=True):
        alone = reader.ask(facts, question)
        # rows of a batch go through other kernels than a row alone
        assert alone.probability == pytest.approx(found.probability, abs=1e-4)
        np.testing.assert_allclose(alone.weights, found.weights, atol=1e-4)
        assert found.weights.shape == (2, len(facts))
    assert together[0].looked == ()
    assert sum(chance for _, chance in together[1].others) + together[1].probability <= 1.00001


def test_it_has_learned_something(reader: StoryPredictor, told: Path) -> None:
    """One who knows which names are rooms is right in a sixth of questions where, in a quarter of who."""
    exam = build_story_evaluator(
        list(read_stories_jsonl(told.parent / "test.jsonl")), train=read_stories_jsonl(told.parent / "train.jsonl")
    )
    found = exam.compute_metrics(exam.predict(reader, None))  # type: ignore[arg-type]  # no recipe is read
    assert found["accuracy"].value > 0.35


def test_of_a_long_story_the_last_facts_are_read(reader: StoryPredictor) -> None:
    facts = [f"Ada went to the {room}." for room in ROOMS] * 5
    found, last = reader.ask(facts, "Where is Ada?"), reader.ask(facts[-20:], "Where is Ada?")
    assert (found.answer, found.probability) == (last.answer, last.probability)
    assert [place - 10 for place in found.looked] == list(last.looked)
    assert found.weights.shape == (2, 20)


def test_a_sentence_that_is_too_long_is_named(reader: StoryPredictor) -> None:
    with pytest.raises(DataError, match=r"more than 64 words \(data.max_length\); cut the sentence"):
        reader.ask(["Ada went."], "where " * 65)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ada went. Ben took it! Who?", ["Ada went.", "Ben took it!", "Who?"]),
        ("1 Ada went.\n\n2. Ben took it.", ["Ada went.", "Ben took it."]),
        ("1 Ada went.\n3 keys are here.", ["1 Ada went.", "3 keys are here."]),
        ("  \n", []),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert split_sentences(text) == expected


def test_a_record_has_a_map_for_each_hop(reader: StoryPredictor) -> None:
    facts = ["Ada went to the hall.", "Ben took the key."]
    record = reader.inspect(facts, "Where is Ada?")
    assert [(each.role, each.layer, each.weights.shape) for each in record.maps] == [
        ("cross", 0, (1, 1, 2)),
        ("cross", 1, (1, 1, 2)),
    ]
    assert record.get_axis("facts").tokens == tuple(facts)
    answer = reader.ask(facts, "Where is Ada?")
    assert record.answers[0].answer_text == answer.answer
    np.testing.assert_allclose([each.weights[0, 0] for each in record.maps], answer.weights, atol=1e-6)
    with pytest.raises(DataError, match="no sentence, so there is nothing to show"):
        reader.inspect("", "Where?")


Change = Callable[..., object]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--model.attention", "binary_chain"], "training.linear_start leaves out the softmax of each hop"),
        (["--data.train.kind", "babi"], "data.train.part is missing"),
        (["--training.noise", "1.0"], "training.noise = 1.0 must be below 1"),
        (["--data.memory", "0"], "data.memory = 0 must be at least 1"),
        (["--tokenizer.kind", "bpe"], "tokenizer.kind"),
    ],
)
def test_recipes_that_do_not_fit(told: Path, options: list[str], complaint: str) -> None:
    with pytest.raises(RecipeError, match=re.escape(complaint)):
        heedful.load_recipe(told.parent / "recipe.toml", options)
