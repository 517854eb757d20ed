from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

import heedful
from heedful.metrics.metric import BootstrapOptions, compute_intervals, run_paired_tests
from heedful.metrics.weighted_sacrebleu import CorpusBLEU, CorpusChrF

Say = Callable[..., Any]
QUICK = ("--samples", "20")


def report(said: Any) -> dict[str, Any]:
    assert said.code == 0, said.err
    content: dict[str, Any] = json.loads(said.out)
    return content


def test_a_run_is_measured_on_its_own_text(say: Say, trained: Path, here: Path) -> None:
    found = report(say("evaluate", trained, *QUICK, "--format", "json", "--output", "out.txt"))
    sources, references = (
        (trained.parent / f"validation.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "de")
    )
    translator = heedful.load(trained, device="cpu")
    translations = [t.text for t in translator.translate(sources)]
    assert (here / "out.txt").read_text(encoding="utf-8").split("\n")[:-1] == translations
    bleu = sacrebleu.metrics.BLEU()
    scores = {score["name"]: score for score in found["scores"]}
    assert scores["BLEU"]["value"] == pytest.approx(bleu.corpus_score(translations, [references]).score)
    assert scores["BLEU"]["signature"] == str(bleu.get_signature())
    chrf = sacrebleu.metrics.CHRF()
    assert scores["chrF2"]["value"] == pytest.approx(chrf.corpus_score(translations, [references]).score)
    words = sacrebleu.metrics.CHRF(word_order=2)
    assert scores["chrF2++"]["value"] == pytest.approx(words.corpus_score(translations, [references]).score)
    assert scores["chrF2++"]["signature"] == str(words.get_signature())
    assert scores["TER"]["value"] == pytest.approx(
        sacrebleu.metrics.TER().corpus_score(translations, [references]).score
    )
    assert any("deck variant" in name for name in scores)
    each = translator.score(list(zip(sources, references, strict=True)))
    nll = -sum(s.log_probability for s in each) / sum(s.count for s in each)
    assert found["perplexity"] == pytest.approx(math.exp(nll))
    final = json.loads((trained / "metrics.jsonl").read_text().splitlines()[-1])
    assert found["perplexity"] == pytest.approx(final["perplexity"], rel=1e-5), "as training measured it"
    assert sum(band["sentences"] for band in found["bleu_by_length"]) == found["sentences"] == 20


def test_the_table_says_the_same(say: Say, trained: Path) -> None:
    found = report(say("evaluate", trained, *QUICK, "--format", "json"))
    said = say("evaluate", trained, *QUICK)
    for score in found["scores"]:
        (line,) = [li for li in said.lines if li.startswith(score["name"] + "  ") and li.endswith(score["signature"])]
        assert f"{score['value']:.2f}" in line


def test_the_runs_test_set_comes_before_its_validation_set(say: Say, small: Path, here: Path) -> None:
    words = ("--data.test.source", "t.en", "--data.test.target", "t.de", "--training.steps", "1", "--device", "cpu")
    (here / "t.en").write_text("1 2\n3\n")
    (here / "t.de").write_text("zwei eins\ndrei\n")
    assert say("train", small, *words).code == 0
    assert report(say("evaluate", small.parent / "run", *QUICK, "--format", "json"))["sentences"] == 2


def test_a_file_of_translations_and_another_one(say: Say, here: Path) -> None:
    references = [f"Das ist der {n}. Satz von vielen." for n in range(30)]
    worse = [line.replace("Satz", "Test") if n % 2 else line for n, line in enumerate(references)]
    for name, lines in (("s", references), ("r", references), ("good", references), ("bad", worse)):
        (here / name).write_text("".join(f"{line}\n" for line in lines))
    words = ("--source", "s", "--target", "r", "--samples", "200", "--format", "json")
    found = report(say("evaluate", "good", "--against", "bad", *words))
    assert found["perplexity"] is None
    assert {s["name"]: s["value"] for s in found["scores"]}["exact match"] == 100
    (bleu,) = [c for c in found["against"]["comparisons"] if c["name"] == "BLEU"]
    assert bleu["first"]["value"] == pytest.approx(100)
    assert bleu["second"]["value"] == pytest.approx(report(say("evaluate", "bad", *words))["scores"][0]["value"])
    assert bleu["difference"]["value"] == pytest.approx(bleu["second"]["value"] - bleu["first"]["value"])
    assert (bleu["difference"]["high"] < 0, bleu["wins"]) == (True, 0)
    assert bleu["p_value"] < 0.05
    same = report(say("evaluate", "good", "--against", "good", *words))
    assert all(c["difference"]["value"] == 0 for c in same["against"]["comparisons"])
    table = say("evaluate", "good", "--against", "bad", *words[:-2])
    assert "against bad (paired bootstrap)" in table.out
    assert (
        f"  BLEU    100.00 and {bleu['second']['value']:.2f}: difference {bleu['difference']['value']:+.2f} "
        in table.out
    )


def test_the_bootstrap_follows_its_seed(say: Say, here: Path) -> None:
    references = [f"Das ist der {n}. Satz von vielen." for n in range(30)]
    for name, word, every in (("r", "Satz", 1), ("one", "Test", 2), ("other", "Rest", 3)):
        lines = [line.replace("Satz", word) if n % every == 0 else line for n, line in enumerate(references)]
        (here / name).write_text("".join(f"{line}\n" for line in lines))
    one, other = ((here / name).read_text().splitlines() for name in ("one", "other"))
    words = ("evaluate", "one", "--against", "other", "--source", "r", "--target", "r", *QUICK, "--format", "json")
    drawn = []
    for seed in (1, 2):
        found = report(say(*words, "--seed", seed))
        mine, theirs = (
            {
                "BLEU": CorpusBLEU(lines, references),
                "chrF2": CorpusChrF(lines, references),
                "chrF2++": CorpusChrF(lines, references, word_order=2),
            }
            for lines in (one, other)
        )
        drawing = BootstrapOptions(20, seed)
        for told, expected in (
            (found["intervals"], compute_intervals(mine, drawing)),
            (found["against"]["comparisons"], run_paired_tests(mine, theirs, drawing)),
        ):
            by_name = {each["name"]: each for each in told}
            assert {name: by_name[name] for name in mine} == {name: asdict(each) for name, each in expected.items()}
        drawn.append(found)
    assert drawn[0]["intervals"] != drawn[1]["intervals"]
    assert report(say(*words)) == drawn[0], "the seed is 1 unless given"


def test_pairs_with_an_empty_side_do_not_count(say: Say, here: Path) -> None:
    (here / "s").write_text("a\n\nc\nd\n")
    (here / "r").write_text("A\nB\n\nD\n")
    (here / "h").write_text("A\nnonsense\nnonsense\nD\n")
    found = report(say("evaluate", "h", "--source", "s", "--target", "r", *QUICK, "--format", "json"))
    assert found["sentences"] == 2
    assert {s["name"]: s["value"] for s in found["scores"]}["exact match"] == 100


def test_bands_of_length_count_words_of_the_sources(say: Say, here: Path) -> None:
    (here / "s").write_text("a b\n" + "a " * 12 + "\n" + "b " * 12 + "\n")
    (here / "r").write_text("A\nA B C D\nE F G H\n")
    found = report(say("evaluate", "r", "--source", "s", "--target", "r", *QUICK, "--format", "json"))
    bands = [(band["from"], band["to"], band["sentences"]) for band in found["bleu_by_length"]]
    assert bands == [(0, 5, 1), (11, 15, 2)]


def test_case_counts_unless_it_should_not(say: Say, here: Path) -> None:
    (here / "r").write_text("Ein Hund läuft schnell nach Hause\n", encoding="utf-8")
    (here / "h").write_text("ein hund läuft schnell nach hause\n", encoding="utf-8")
    words = ("evaluate", "h", "--source", "r", "--target", "r", *QUICK, "--format", "json")
    mixed, lower = (report(say(*words, *more))["scores"][0] for more in ((), ("--lowercase",)))
    assert mixed["value"] < lower["value"] == pytest.approx(100)
    assert ("case:mixed" in mixed["signature"], "case:lc" in lower["signature"]) == (True, True)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("nowhere", "nowhere: no such run folder or file; check the path"),
        ("h", "h: a file of translations needs --source and --target, or --data"),
        (".", ".: contains no manifest.json"),
        ("h --source s", "--source: give --source and --target"),
        ("short --source s --target s", "short: has 1 lines, but there are 2 references; give one for each"),
        ("h --source s --target s --against short", "short: has 1 lines, but there are 2 references"),
        ("h --source s --target s --against nowhere", "nowhere: no such run folder or file"),
        ("h --source s --target short", "s has 2 lines and short has 1"),
        ("latin --source s --target s", "latin:1: byte 1 of the line (0xfc) is not UTF-8"),
        ("empty --source empty --target empty", "empty and empty: no sentences to measure on"),
        ("h --source s --target s --samples 0", "--samples: 0; must be at least 1"),
        ("h --source s --target s --seed -1", "--seed: -1; must be at least 0"),
        ("h --source s --target s --tokenize no", "tokenize: 'no' is not a tokenizer of BLEU; choose one of 13a"),
        ("h --source s --target s --output no/where", "no/where: cannot be written (No such file or directory)"),
    ],
)
def test_wrong_words(say: Say, here: Path, words: str, complaint: str) -> None:
    for name, content in (
        ("h", b"a\nb\n"),
        ("s", b"a\nb\n"),
        ("short", b"a\n"),
        ("latin", b"\xfc\nb\n"),
        ("empty", b""),
    ):
        (here / name).write_bytes(content)
    assert say("evaluate", *words.split()).complaint.startswith(complaint)


def test_a_sentence_that_is_too_long_counts(say: Say, trained: Path, here: Path) -> None:
    """Its translation is that of its parts; perplexity alone, which reads given translations, leaves it out."""
    (here / "s").write_text("1\n" + "2 " * 20 + "\n")
    (here / "t").write_text("eins\nzwei\n")
    (here / "alone.tsv").write_text("1\teins\n")
    words = ("--source", "s", "--target", "t", "--save", "found", *QUICK)
    said = say("evaluate", trained, *words)
    assert said.code == 0
    assert "1 of 2 sentences: longer than the model reads, read in parts\n" in said.out
    assert "1 of 2 sentences: longer than the model reads, themselves or their references, not in the perpl" in said.out
    assert (here / "found").read_text().splitlines() == say("translate", trained, "--text", "1", "2 " * 20).lines
    found = report(say("evaluate", trained, *words, "--format", "json"))
    assert (found["sentences"], list(found["notes"].values())) == (2, [1, 1])
    alone = report(say("evaluate", trained, "--data", "alone.tsv", *QUICK, "--format", "json"))
    assert (found["perplexity"], alone["notes"]) == (pytest.approx(alone["perplexity"]), {})
    (here / "s").write_text("2 " * 20 + "\n")
    (here / "t").write_text("eins\n")
    assert report(say("evaluate", trained, *words, "--format", "json"))["perplexity"] is None


def test_a_page_of_what_is_worth_reading(say: Say, trained: Path, here: Path) -> None:
    said = say("evaluate", trained, *QUICK, "--page", "errors.html", "--output", "out.txt")
    assert said.code == 0
    assert "written: errors.html" in said.err
    page = (here / "errors.html").read_text(encoding="utf-8")
    assert f"Translations by {trained} of 20 sentences" in page
    assert "what each token looked at" in page
    assert "Similar training text" in page
    texts = ("--source", trained.parent / "validation.en", "--target", trained.parent / "validation.de")
    assert say("evaluate", "out.txt", *texts, *QUICK, "--page", "file.html").code == 0
    of_a_file = (here / "file.html").read_text(encoding="utf-8")
    assert "There is no run that names the training text" in of_a_file
    assert "looked at" not in of_a_file


def test_a_page_tells_how_far_it_is(say: Say, trained: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.cli.progress._SECONDS_PER_LINE", 0.0)
    monkeypatch.setattr("heedful.data.similar_pairs._PROGRESS_INTERVAL", 20)
    pairs = len((trained.parent / "train.en").read_text().splitlines())
    said = say("evaluate", trained, *QUICK, "--page", "errors.html").err.splitlines()
    lines = [line.removeprefix("reading text for training: ") for line in said if line.startswith("reading")]
    told = [line.partition(", ")[0] for line in lines]
    assert all(line.endswith(" a second") for line in lines)
    first = [f"{number}" for number in range(20, pairs + 1, 20)]
    assert told == [*first, *(f"{pairs + number} of {2 * pairs}" for number in range(0, pairs, 20))]
    assert len(first) > 1


def test_a_page_without_the_text_for_training(say: Say, small: Path, here: Path) -> None:
    assert say("train", small, "--training.steps", "1", "--device", "cpu").code == 0
    (small.parent / "train.en").unlink()
    assert say("evaluate", small.parent / "run", *QUICK, "--page", "errors.html").code == 0
    page = (here / "errors.html").read_text(encoding="utf-8")
    assert "The page shows no similar training text" in page
    assert "train.en" in page


def test_a_page_where_there_can_be_none(
    say: Say, trained: Path, pretrained: Path, tuned: Callable[[str], Path], here: Path
) -> None:
    assert "does not support --page" in say("evaluate", tuned("tagging"), "--page", "a.html").complaint
    assert "does not support --page" in say("evaluate", pretrained, "--page", "a.html").complaint
    assert say("evaluate", trained, "--page", "a.txt").code == 2
    assert "choose another --page" in say("evaluate", trained, "--page", "nowhere/a.html").complaint
