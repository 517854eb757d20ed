"""The study beyond translation: preparation of text, metrics, spelling corrector and ROUGE."""

from __future__ import annotations

import gzip
import random
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import heedful
from heedful.metrics.error_rates import edit_distance

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def study() -> Iterator[SimpleNamespace]:
    """Import the study, and the file that it imports."""
    sys.path.insert(0, str(ROOT / "studies"))
    try:
        import headlines  # type: ignore[import-not-found]  # beside the study
        import spelling  # type: ignore[import-not-found]

        names = runpy.run_path(str(ROOT / "studies/beyond_translation.py"))
        yield SimpleNamespace(**names, spelling=spelling, headlines=headlines)
    finally:
        sys.path.remove(str(ROOT / "studies"))


def build_options(study: SimpleNamespace, task: str, folder: Path, *data: Path, **more: Any) -> Any:
    return study.Options(task, data=data, output=folder / "out", **more)


def write_text(study: SimpleNamespace, given: Any) -> dict[str, list[tuple[str, str]]]:
    study.main(given)
    return {
        path.relative_to(given.output).with_suffix("").as_posix(): study.read_pairs(path)
        for path in sorted(given.output.rglob("*.tsv"))
    }


def test_pronunciations_of_a_word_are_in_one_part(study: SimpleNamespace, tmp_path: Path) -> None:
    dice = random.Random(1)
    words = ["".join(dice.choices("abcdefgh", k=5)) for _ in range(600)]
    lines = [f"{word}{suffix} AA1 B{' # of a name' * (not suffix)}" for word in words for suffix in ("", "(2)")]
    with gzip.open(tmp_path / "c.gz", "wt") as file:
        file.write("\n".join(["it's IH1 T S", ";;; nothing", "a.d. EY1", *lines, "", ""]))
    parts = write_text(study, build_options(study, "g2p", tmp_path, tmp_path / "c.gz"))
    held = {part: {word for word, _ in pairs} for part, pairs in parts.items()}
    assert held["train"] | held["validation"] | held["test"] == set(words)
    assert sum(map(len, held.values())) == len(set(words)), "no word is in two parts"
    assert {pair for pairs in parts.values() for pair in pairs} == {(word, "AA1 B") for word in words}
    assert 30 <= len(held["test"]) <= 90
    assert 3 <= len(held["validation"]) <= 30


def test_the_closest_pronunciation_counts(study: SimpleNamespace) -> None:
    pairs = [("a", "AH0"), ("a", "EY1"), ("bee", "B IY1"), ("tomato", "T AH0 M")]
    said = {"a": "EY0", "bee": "B IY1", "tomato": "T AH0 M EY1"}
    found = {name: each.value for name, each in study.TASKS["g2p"].compute_metrics(pairs, said).items()}
    assert found["word error"] == pytest.approx(100 * 2 / 3)
    assert found["word error, no stress"] == pytest.approx(100 * 1 / 3), "EY0 and EY1 differ only in stress"
    assert found["phoneme error"] == pytest.approx(100 * 2 / 6)
    assert found["phoneme error, no stress"] == pytest.approx(100 * 1 / 6)


def test_commands_and_their_splits(study: SimpleNamespace, tmp_path: Path) -> None:
    for split in ("simple", "length"):
        train = [f"IN: walk {n} and run OUT: I_WALK I_RUN" for n in range(100)]
        (tmp_path / f"tasks_train_{split}.txt").write_text("\n".join(train) + "\n")
        (tmp_path / f"tasks_test_{split}.txt").write_text("IN: jump OUT: I_JUMP\n")
    parts = write_text(study, build_options(study, "scan", tmp_path, tmp_path))
    assert [*parts] == [f"{split}/{part}" for split in ("length", "simple") for part in ("test", "train", "validation")]
    assert parts["simple/test"] == [("jump", "I_JUMP")]
    assert len(parts["length/train"]) + len(parts["length/validation"]) == 100
    assert parts["length/validation"][0][1] == "I_WALK I_RUN"


def test_misspellings_are_wrong_similar_and_reproducible(study: SimpleNamespace) -> None:
    counts = {"believe": 8, "friend": 2, "cat": 1024, "i": 5, "a": 3}
    made = list(study.spelling.generate_misspellings(counts, seed=1))
    assert made == list(study.spelling.generate_misspellings(dict(reversed(counts.items())), seed=1))
    assert made != list(study.spelling.generate_misspellings(counts, seed=2))
    assert [pair for pair in made if pair[0] == pair[1]] == [(word, word) for word in sorted(counts)]
    assert all(wrong == right or wrong not in counts for wrong, right in made)
    assert all(wrong and edit_distance(wrong, right) <= 4 for wrong, right in made)
    assert sum(right == "cat" for _, right in made) > sum(right == "friend" for _, right in made)


def test_neighbouring_keys(study: SimpleNamespace) -> None:
    assert set(study.spelling.KEYS["g"]) == set("fhtyvb")
    assert set(study.spelling.KEYS["q"]) == set("wa")
    assert all(key in study.spelling.KEYS[near] for key, nears in study.spelling.KEYS.items() for near in nears)


def test_each_mistake(study: SimpleNamespace) -> None:
    dice = random.Random(1)
    made = {kind.__name__: {kind("abc", dice) for _ in range(200)} for kind in study.spelling.MISTAKES}
    assert made["drop_letter"] == {"bc", "ac", "ab"}
    assert made["double_letter"] == {"aabc", "abbc", "abcc"}
    assert made["swap_letters"] == {"bac", "acb"}
    assert made["replace_vowel"] == {f"{vowel}bc" for vowel in "eiouy"}
    assert {len(each) for each in made["hit_neighbour"]} == {3}
    assert {len(each) for each in made["add_neighbour"]} == {4}
    assert "sbc" in made["hit_neighbour"]
    assert "asbc" in made["add_neighbour"]


def test_the_corrector_prefers_few_edits_then_frequent_words(study: SimpleNamespace) -> None:
    """Norvig's examples and his order: known words first, then one edit, then two."""
    corrector = study.spelling.Corrector({"spelling": 3, "the": 900, "then": 90, "bicycle": 2})
    assert corrector.correct("speling") == "spelling", "insertion"
    assert corrector.correct("bycycle") == "bicycle", "replacement"
    assert corrector.correct("hte") == "the", "swap"
    assert corrector.correct("thhen") == "then", "one edit, though `the` is more frequent and two away"
    assert corrector.correct("then") == "then", "known, though a more frequent word is near"
    assert corrector.correct("quintessential") == "quintessential", "no known word is near"
    assert corrector.correct("sppeling") == "spelling", "two edits"


def test_the_number_of_single_edits_is_norvigs(study: SimpleNamespace) -> None:
    """n deletions, n - 1 swaps, 26 n replacements and 26 (n + 1) insertions, before duplicates are removed."""
    assert study.spelling.list_edits("a") >= {"", "b", "ba", "ab", "a"}
    assert len(study.spelling.list_edits("somthing")) == 442, "as his essay says"


def test_a_run_is_evaluated_beside_the_corrector(
    study: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.txt").write_text("the cat sat on the mat and the dog sat on the cat and the mat\n" * 2)
    (tmp_path / "real.tsv").write_text("teh\tthe\nmta\tmat\nIt's\tits\n")
    given = build_options(study, "spelling", tmp_path, tmp_path / "t.txt", misspellings=(tmp_path / "real.tsv",))
    parts = write_text(study, given)
    assert {right for _, right in parts["train"]} == {"the", "cat", "sat", "on", "mat", "and", "dog"}
    study.write_pairs([("hte", "the"), ("the", "the")], given.output / "test.tsv")
    (tmp_path / "r.toml").write_text(
        'data.train.path = "out/train.tsv"\ndata.validation.path = "out/train.tsv"\ntokenizer.kind = "characters"\n'
        "model = { d_model = 8, heads = 2, d_ff = 8, layers = 1 }\ntraining = { steps = 2, threads = 1 }\n"
        "generation = { width = 2 }\n"
    )
    run = heedful.train(heedful.load_recipe(tmp_path / "r.toml", ["--output", str(tmp_path / "run")]), device="cpu")
    capsys.readouterr()
    table = study.evaluate_run(given, study.TASKS["spelling"], run.folder)
    assert [(row[0], row[1], row[2]) for row in table.rows] == [
        ("run", "made up", "1"), ("known words only", "made up", "1"), ("Norvig's corrector", "made up", "1"),
        ("run", "real", "2"), ("known words only", "real", "2"), ("Norvig's corrector", "real", "2"),
    ]  # fmt: skip
    assert table.rows[5][3].startswith("100.00 ")
    model = heedful.load(run.folder, kind=heedful.Translator, device="cpu")
    answer = study.TASKS["spelling"].build_variants(given, model)["known words only"]
    assert {*answer(["hte", "x", "dgo"])} <= {"the", "cat", "sat", "on", "mat", "and", "dog"}


def test_tags_are_counted_in_their_places(study: SimpleNamespace, tmp_path: Path) -> None:
    conllu = "1\tdogs\t_\tNOUN\t_\t_\t_\t_\t_\t_\n2\tbark\t_\tVERB\t_\t_\t_\t_\t_\t_\n\n"
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.conllu").write_text(conllu * 2)
    given = build_options(study, "tagging", tmp_path, *(tmp_path / f"{name}.conllu" for name in "abc"))
    assert write_text(study, given)["test"] == [("dogs bark", "NOUN VERB")] * 2
    pairs = [("dogs bark", "NOUN VERB"), ("a dog", "DET NOUN")]
    found = study.TASKS["tagging"].compute_metrics(pairs, {"dogs bark": "NOUN", "a dog": "DET NOUN X"})
    assert found["right tags"].value == pytest.approx(75)
    assert found["right sentences"].value == 0
    _, answer = study.TASKS["tagging"].build_baseline(given)
    assert answer(["bark new dogs"]) == ["VERB NOUN NOUN"]


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        (r"a second\team of\\  rocketeers", "a second team of rocketeers"),
        (r"a \$8 billion deal, US\$9", "a $8 billion deal, US$9"),
        ("they won #39;t pay  #36;10", "they won't pay $10"),
        ("said  quot;so, quot; AT amp;T", 'said "so," AT&T'),
        ("shares fall; oil up", "shares fall; oil up"),
        ("Broadcom &lt;BRCM.O&gt;, &lt;b&gt;...&lt;/b&gt;", "Broadcom , ..."),
        ('Intel &lt;A HREF="http://a.b/FullQuote.aspx?t=I"&gt;INTC.O&lt;/A&gt; cut', "Intel cut"),
        ('&lt;a href="http://news.com"&gt;Nokia joins&lt;/a&gt; &lt;font size=-1', "Nokia joins"),
    ],
)
def test_remains_of_web_pages_are_removed(study: SimpleNamespace, raw: str, clean: str) -> None:
    assert study.headlines.clean_text(raw) == clean


@pytest.mark.parametrize(
    ("description", "title", "story", "headline"),
    [
        ("AP - A dog barks.", "Dog Barks (AP)", "A dog barks.", "Dog Barks"),
        ("SPACE.com - TORONTO, Canada -- A rocket.", "Up (SPACE.com)", "A rocket.", "Up"),
        ("A dog barks.", "Dog Barks (Update1)", "A dog barks.", "Dog Barks (Update1)"),
        ("NEW YORK (Reuters) - Stocks fell.", "Stocks Fall", "Stocks fell.", "Stocks Fall"),
        ("Athens, Greece (Sports Network) -- The team won.", "Won", "The team won.", "Won"),
        ("ST. LOUIS, Oct. 2 - Pedro won.", "Won", "Pedro won.", "Won"),
        ("IBM - the maker of computers - fell.", "IBM", "IBM - the maker of computers - fell.", "IBM"),
        ("Einstein was right -- again.", "Right", "Einstein was right -- again.", "Right"),
        ("A first - The judge said no.", "No", "A first - The judge said no.", "No"),
    ],
)
def test_source_and_place_of_a_story_are_removed(
    study: SimpleNamespace, description: str, title: str, story: str, headline: str
) -> None:
    assert study.headlines.remove_source(description, title) == (story, headline)


def test_stories_of_a_headline_are_in_one_part(study: SimpleNamespace, tmp_path: Path) -> None:
    rows = [f'"3","Headline {n % 200}","AP - What ""{n}"" tells, at length."' for n in range(400)]
    rows += ['"3","Another (AP)","What ""7"" tells, at length."', '"1","Empty","&lt;p&gt;"']
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write("\n".join([*rows, ""]))
    parts = write_text(study, build_options(study, "summaries", tmp_path, tmp_path / "a.csv.gz"))
    pairs = [pair for part in parts.values() for pair in part]
    assert len(pairs) == len({story for story, _ in pairs})
    held = {part: {headline for _, headline in pairs} for part, pairs in parts.items()}
    assert sum(map(len, held.values())) == len(set.union(*held.values())), "no headline is in two parts"
    assert 8 <= len(held["test"]) <= 40
    assert 2 <= len(held["validation"]) <= 20


def test_a_repeated_story_has_one_headline(study: SimpleNamespace) -> None:
    rows = ['1,b,"It is told."', "1,a,It  is told.", "1,c,AP - It is told."]
    for each in (rows, rows[::-1]):
        assert [*study.headlines.read_stories(each)] == [("It is told.", "a")]


@pytest.mark.parametrize(
    ("summary", "reference", "scores"),
    [
        ("police kill the gunman", "police killed the gunman", (3 / 4, 1 / 3, 3 / 4)),
        ("the gunman kill police", "police killed the gunman", (3 / 4, 1 / 3, 2 / 4)),
        ("the the the", "the cat", (2 / 5, 0, 2 / 5)),
        ("a b a b", "a b a", (6 / 7, 4 / 5, 6 / 7)),
        ("a x b y c", "c b a", (6 / 8, 0, 2 / 8)),
        ("Oil hits $46!", "OIL HITS 46", (1, 1, 1)),
        ("word", "word", (1, 0, 1)),
        ("", "word", (0, 0, 0)),
        ("!", "?", (0, 0, 0)),
    ],
)
def test_rouge(study: SimpleNamespace, summary: str, reference: str, scores: tuple[float, float, float]) -> None:
    """Scores are ROUGE-1, ROUGE-2 and ROUGE-L; the first two summaries are of Lin 2004 (3.1)."""
    found = study.TASKS["summaries"].compute_metrics([("story", reference)], {"story": summary})
    assert [*found] == ["ROUGE-1", "ROUGE-2", "ROUGE-L"]
    assert [each.value for each in found.values()] == pytest.approx([100 * score for score in scores])


def test_the_baseline_is_as_long_as_the_median_headline(study: SimpleNamespace, tmp_path: Path) -> None:
    given = build_options(study, "summaries", tmp_path)
    study.write_pairs([("a", "x"), ("b", "x y z"), ("c", "1 2 3 4 5 6")], given.output / "train.tsv")
    name, answer = study.TASKS["summaries"].build_baseline(given)
    assert name == "first 3 words"
    assert answer(["A dog barks at night.", "A dog"]) == ["A dog barks", "A dog"]
