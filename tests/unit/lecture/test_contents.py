"""The decks, their figures and models belong together, and the data are what the decks need."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path

import pytest

from heedful.lecture.contents import NUM_DECKS, list_figures, load_deck
from heedful.lecture.data.coreference import ANIMAL_STATES, ANIMALS, PLACES, iter_coreference_files, split_pairs
from heedful.lecture.data.languages import iter_language_files
from heedful.lecture.data.parallel import AREA, VISIT, iter_parallel_files
from heedful.lecture.data.passages import iter_search_files, iter_span_files
from heedful.lecture.data.senses import iter_review_files, iter_sense_files
from heedful.lecture.data.sequences import iter_gap_files, iter_neighbour_files, iter_reversal_files
from heedful.lecture.data.stories import LION_STORY, SAM_STORY, iter_colour_files, iter_thing_files
from heedful.lecture.figures import FIGURES
from heedful.lecture.models import DATA_SETS, MODELS, RecipeModel, select_models
from heedful.recipes.load import load_recipe

DECKS = [load_deck(number) for number in range(NUM_DECKS)]


def test_all_figures_of_the_decks_exist_and_all_are_shown() -> None:
    assert set(list_figures(DECKS)) == set(FIGURES)
    for name, figure in FIGURES.items():
        assert figure.name == name
        assert set(figure.models) <= set(MODELS), name
        assert figure.title, name


def test_all_models_are_needed_and_follow_those_they_start_from() -> None:
    needed = [model.name for model in select_models(name for figure in FIGURES.values() for name in figure.models)]
    assert set(needed) == set(MODELS)
    assert len(needed) == len(set(needed))
    for name in needed:
        if start := MODELS[name].starts_from:
            assert needed.index(start) < needed.index(name)


@pytest.mark.parametrize("deck", DECKS, ids=lambda deck: f"deck {deck.number}")
def test_decks_have_slides_with_explanations_and_questions(deck) -> None:  # type: ignore[no-untyped-def]
    assert len(deck.slides) >= 15
    assert sum(len(slide.questions) for slide in deck.slides) >= 3
    assert sum(bool(slide.figures) for slide in deck.slides) >= 0.7 * len(deck.slides)
    for slide in deck.slides:
        assert slide.explanation.strip().endswith((".", "?")), slide.heading
        for line in slide.equation.splitlines():
            assert line.count("{") == line.count("}"), line


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if isinstance(model, RecipeModel)])
def test_recipes_are_valid_with_the_settings_of_each_model(name: str, tmp_path: Path) -> None:
    model = MODELS[name]
    source = Path(__file__).parents[3] / "heedful" / "lecture" / model.description_file
    run = model.plan_run(tmp_path)
    recipe = load_recipe(source, run.overrides)
    assert recipe.task
    assert run.build_words(tmp_path)[:2] == ["train", str(tmp_path / model.description_file)]


@pytest.mark.parametrize("name", DATA_SETS)
def test_data_are_the_same_for_the_same_seed(name: str) -> None:
    first, again, other = (dict(DATA_SETS[name](seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert {Path(file).stem.rpartition("-")[2] for file in first} >= {"train", "validation"}


@pytest.mark.parametrize("files", [iter_parallel_files, partial(iter_review_files, size=60), iter_search_files])
def test_test_texts_are_not_trained_on(files) -> None:  # type: ignore[no-untyped-def]
    content = dict(files(1))
    train, test = (content[f"{part}.tsv"].splitlines() for part in ("train", "test"))
    assert len(set(test) - set(train)) >= 0.98 * len(test)


def test_the_sentences_of_the_decks_are_held_out() -> None:
    train = dict(iter_parallel_files(1))["train.tsv"]
    assert AREA[0] not in train
    assert VISIT[0] not in train
    assert {word for text in (*AREA, *VISIT) for word in text.split()} <= {
        word for line in train.splitlines() for word in line.split()
    }, "but all their words are known"
    for story, files in ((SAM_STORY, iter_thing_files), (LION_STORY, iter_colour_files)):
        facts = [tuple(json.loads(line)["facts"]) for line in dict(files(1))["train.jsonl"].splitlines()]
        assert story not in facts


def test_adjectives_change_their_order_and_agree() -> None:
    lines = dict(iter_parallel_files(3))["train.tsv"].splitlines()
    pairs = dict(line.split("\t") for line in lines)
    assert pairs.get("Paul likes the European Economic Area", "Paul aime la zone économique européenne") == (
        "Paul aime la zone économique européenne"
    )
    assert "marché économique européen" in " ".join(pairs.values())
    assert "marché économique européenne" not in " ".join(pairs.values())


def test_pronouns_stand_for_what_the_last_word_says() -> None:
    known, held_out = split_pairs(1)
    assert ("animal", "street") in held_out
    assert not set(known) & set(held_out)
    for part, pairs in (("train", known), ("test", held_out)):
        for block in dict(iter_coreference_files(1))[f"{part}.tsv"].strip().split("\n\n")[:200]:
            rows = [line.split("\t") for line in block.splitlines()]
            words = [word for word, _ in rows]
            animal, place = next(w for w in words if w in ANIMALS), next(w for w in words if w in PLACES)
            assert (animal, place) in pairs
            assert dict(rows)["it"] == (animal if words[-1] in ANIMAL_STATES else place)
            assert all(word == label for word, label in rows if word != "it")


@pytest.mark.parametrize("files", [iter_thing_files, iter_colour_files])
def test_supporting_facts_answer_the_question(files) -> None:  # type: ignore[no-untyped-def]
    for line in dict(files(2))["test.jsonl"].splitlines():
        story = json.loads(line)
        supporting = [story["facts"][place] for place in story["supporting"]]
        assert any(story["answer"] in fact for fact in supporting), story
        assert len(set(story["supporting"])) == len(story["supporting"])
        subject = story["question"].rstrip("?").split()[-1]
        assert any(subject in fact for fact in supporting)


def test_things_are_where_the_story_says() -> None:
    """The answer is found again by following the story, fact by fact."""
    for line in dict(iter_thing_files(4))["train.jsonl"].splitlines()[:500]:
        story = json.loads(line)
        rooms: dict[str, str] = {}
        holders: dict[str, str] = {}
        dropped: dict[str, str] = {}
        for fact in story["facts"]:
            person, *words = fact.rstrip(".").split()
            if words[0] == "walks":
                rooms[person] = words[-1]
            elif words[0] == "picks":
                holders[words[-1]] = person
                dropped.pop(words[-1], None)
            else:
                dropped[words[-1]] = rooms[person]
                holders.pop(words[-1])
        thing = story["question"].rstrip("?").split()[-1]
        assert story["answer"] == (dropped[thing] if thing in dropped else rooms[holders[thing]])


def test_answers_are_where_the_passage_says() -> None:
    for part in ("train", "test"):
        content = json.loads(dict(iter_span_files(1))[f"{part}.json"])
        for paragraph in content["data"][0]["paragraphs"][:200]:
            (question,) = paragraph["qas"]
            (answer,) = question["answers"]
            start = answer["answer_start"]
            assert paragraph["context"][start : start + len(answer["text"])] == answer["text"]


def test_tags_of_neighbours_and_reversed_words() -> None:
    block = dict(iter_neighbour_files(1))["test.tsv"].split("\n\n")[0].splitlines()
    letters = [line.split("\t")[0] for line in block]
    for place, line in enumerate(block):
        before = letters[place - 2] if place >= 2 else "-"
        after = letters[place + 2] if place + 2 < len(letters) else "-"
        assert line.split("\t")[1] == before + after + letters[0]
    rows = [line.split("\t") for line in dict(iter_reversal_files(1))["test.tsv"].splitlines()]
    assert all(source.split() == target.split()[::-1] for source, target in rows)
    assert max(len(source.split()) for source, _ in rows) == 20


def test_gaps_follow_from_both_sides_together_and_from_none_alone() -> None:
    by_left, by_right, by_both = (defaultdict[str, Counter[str]](Counter) for _ in range(3))
    for block in dict(iter_gap_files(1))["train.tsv"].split("\n\n"):
        rows = [line.split("\t") for line in block.splitlines()]
        [place] = [place for place, (word, _) in enumerate(rows) if word == "_"]
        assert all((tag == "-") == (word != "_") for word, tag in rows)
        subject, where, verb = rows[place - 1][0], rows[-1][0], rows[place][1]
        by_left[subject][verb] += 1
        by_right[where][verb] += 1
        by_both[subject + where][verb] += 1
    assert (len(by_left), len(by_right)) == (6, 6)
    assert all(len(verbs) == 1 for verbs in by_both.values())
    for verbs in (*by_left.values(), *by_right.values()):
        assert verbs.most_common(1)[0][1] / verbs.total() < 0.25, "about one in six"


def test_banks_have_two_senses() -> None:
    documents = dict(iter_sense_files(1))["train.txt"].split("\n\n")
    for document in documents:
        assert not ("river" in document and "cheque" in document), "a document has one subject"


def test_the_second_language_needs_no_new_letters() -> None:
    content = dict(iter_language_files(1))
    known = set(content["french-train.tsv"])
    assert set(content["german-train.tsv"]) <= known
    mixed = content["german-rehearsed-train.tsv"].splitlines()
    assert 0 < sum(line.startswith("f ") for line in mixed) < 0.2 * len(mixed)
