from __future__ import annotations

import json
import random
import re
import shutil
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

import heedful
from heedful.atomic_io import MODEL_FILE, read_manifest, write_manifest
from heedful.cli import train as train_command

Say = Callable[..., Any]
QUICK = ("--samples", "20", "--device", "cpu")
ONE_STEP = ("--training.steps", "1", "--training.evaluate_every", "1")
SVG = "{http://www.w3.org/2000/svg}"
INTERVALS = ("bleu", "chrf", "chrf++", "ter", "wer", "cer")


def compared(say: Say, *words: object) -> dict[str, Any]:
    """What the command writes as JSON into the current folder."""
    said = say("compare", *words, *QUICK, "--json", "all.json")
    assert said.code == 0, said.err
    content: dict[str, Any] = json.loads(Path("all.json").read_text(encoding="utf-8"))
    return content


def unfinished(run: Path, folder: Path) -> Path:
    """A copy as an interruption leaves it: checkpoints, but no final model."""
    shutil.copytree(run, folder)
    (folder / MODEL_FILE).unlink()
    write_manifest(folder, replace(read_manifest(folder).without_files(MODEL_FILE), finished=False))
    return folder


def cells(page: str, table: int) -> list[list[str]]:
    """The rows of a table of a page, which must be well-formed."""
    root = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))
    rows = list(root.iter("table"))[table].iter("tr")
    return [["".join(cell.itertext()) for cell in row] for row in rows]


def test_the_numbers_are_those_of_evaluate(say: Say, trained: Path, second: Path, here: Path) -> None:
    found = compared(say, trained, second)
    assert (found["sentences"], found["text"]) == (20, " and ".join(
        str(trained.parent / f"validation.{side}") for side in ("en", "de")
    ))  # fmt: skip
    for run, folder in zip(found["runs"], (trained, second), strict=True):
        alone = json.loads(say("evaluate", folder, *QUICK, "--format", "json").out)
        assert [run[name] for name in INTERVALS] == alone["intervals"]
        assert {score["name"]: score["value"] for score in alone["scores"]}["BLEU"] == pytest.approx(
            run["bleu"]["value"]
        )
        assert run["perplexity"] == pytest.approx(alone["perplexity"])
        bands = [{key: band[key] for key in ("from", "to", "sentences", "bleu")} for band in run["bleu_by_length"]]
        assert bands == alone["bleu_by_length"]
    paired = json.loads(say("evaluate", trained, "--against", second, *QUICK, "--format", "json").out)
    assert [run["against_first"] for run in found["runs"]] == [[], paired["against"]["comparisons"]]
    assert found["signatures"] == [score["signature"] for score in alone["scores"][:4]]


def test_all_runs_are_tested_against_the_first(say: Say, trained: Path, second: Path, here: Path) -> None:
    again = shutil.copytree(trained, "again")
    other, same = (run["against_first"][0] for run in compared(say, trained, second, again)["runs"][1:])
    assert (same["difference"]["value"], same["p_value"]) == (0, 1)
    assert other["first"] == same["first"] == same["second"] != other["second"]


def test_a_seed_counts_once_among_seeds(say: Say, trained: Path, second: Path, here: Path) -> None:
    again = shutil.copytree(trained, "again")
    assert compared(say, trained, again)["seed_groups"] == [], "there is one seed only"
    (group,) = compared(say, trained, again, second)["seed_groups"]
    assert group["seeds"] == [3, 4]


def test_search_and_scoring_follow_the_options(say: Say, trained: Path, here: Path) -> None:
    words = ("--search", "greedy", "--lowercase", "--tokenize", "char")
    (run,) = compared(say, trained, *words)["runs"]
    alone = json.loads(say("evaluate", trained, *QUICK, *words, "--format", "json").out)
    assert [run[name] for name in INTERVALS] == alone["intervals"]


def test_what_a_run_is_and_how_it_learned(say: Say, trained: Path, here: Path) -> None:
    folder = Path(shutil.copytree(trained, "run"))
    log = folder / "metrics.jsonl"
    records = [json.loads(line) for line in log.read_text().splitlines()]
    speeds = [900.0, 100.0, 500.0, 700.0]
    lines = [{"kind": "training", "step": 50 * i, "labels_per_second": s} for i, s in enumerate(speeds)]
    odd = {"kind": "validation", "step": 10, "seconds": 1.0, "loss": None}
    text = "".join(json.dumps(line) + "\n" for line in [*lines, odd, *records])
    log.write_text(text + '[]\n{"kind": "validati')
    (run,) = compared(say, folder)["runs"]
    evaluations = [record for record in records if record["kind"] == "validation"]
    assert [(p["step"], p["loss"]) for p in run["curve"]] == [(e["step"], e["loss"]) for e in evaluations]
    assert [p["minutes"] * 60 for p in run["curve"]] == pytest.approx([e["seconds"] for e in evaluations])
    assert run["minutes"] * 60 == pytest.approx(evaluations[-1]["seconds"])
    assert run["training_tokens_per_second"] == statistics.median(speeds)
    weights = [p for model in heedful.load(folder, device="cpu").models for p in model.parameters()]
    assert run["parameters"] == sum(p.numel() for p in weights)
    assert (run["model"], run["finished"], run["step"]) == ("transformer", True, 12)


def test_decoding_is_timed(say: Say, trained: Path, here: Path) -> None:
    found = compared(say, trained)
    (run,) = found["runs"]
    assert run["seconds"] > 0
    assert run["sentences_per_second"] == pytest.approx(20 / run["seconds"])
    assert run["seconds_per_sentence"] == pytest.approx(run["seconds"] / 20)
    sources = (trained.parent / "validation.en").read_text().splitlines()
    best = [t.candidates[0] for t in heedful.load(trained, device="cpu").translate(sources)]
    tokens = sum(len(candidate.ids) + candidate.finished for candidate in best)
    assert run["tokens_per_second"] == pytest.approx(tokens / run["seconds"])


def test_a_run_without_measurements_has_dashes(say: Say, trained: Path, here: Path) -> None:
    folder = Path(shutil.copytree(trained, "run"))
    (folder / "metrics.jsonl").unlink()
    (run,) = compared(say, folder, "--page", "all.html")["runs"]
    assert (run["minutes"], run["training_tokens_per_second"], run["curve"]) == (None, None, [])
    page = Path("all.html").read_text()
    assert dict(zip(*cells(page, 0), strict=True))["minutes"] == "-"
    assert page.count("<svg") == 1, "no learning curve"


def test_table_and_page_say_the_same_as_json(say: Say, trained: Path, second: Path, here: Path) -> None:
    said = say("compare", trained, second, *QUICK, "--json", "all.json", "--page", "all.html", "--figure", "all.svg")
    found, page = (Path(f"all.{kind}").read_text(encoding="utf-8") for kind in ("json", "html"))
    runs = json.loads(found)["runs"]
    heading, first, other = cells(page, 0)
    for run, row, line in zip(runs, (first, other), said.lines[3:5], strict=True):
        shown = dict(zip(heading, row, strict=True))
        bleu = run["bleu"]
        assert (shown["run"], shown["BLEU"]) == (run["run"], f"{bleu['value']:.2f}")
        assert shown["95 % interval"] == f"{bleu['low']:.2f} to {bleu['high']:.2f}"
        assert (shown["chrF2"], shown["parameters"]) == (f"{run['chrf']['value']:.2f}", f"{run['parameters']:,}")
        assert shown["perplexity"] == f"{run['perplexity']:.3f}"
        assert shown["sent/s"] == f"{run['sentences_per_second']:,.1f}"
        assert re.split(r"  +", line) == row
    assert (first[7], other[7]) == ("-", f"{runs[1]['against_first'][0]['p_value']:.3f}")
    values = [run["bleu"]["value"] for run in runs]
    assert cells(page, 1)[0][:4] == ["recipe", "seeds", "BLEU", "deviation"]
    shown_seeds = ["transformer", "2", f"{statistics.mean(values):.2f}", f"{statistics.stdev(values):.2f}"]
    assert cells(page, 1)[1][:4] == shown_seeds
    assert cells(page, 2)[0] == ["run", "0 to 5 (16)", "6 to 10 (4)"]
    assert cells(page, 2)[2] == [str(second), *(f"{band['bleu']:.2f}" for band in runs[1]["bleu_by_length"])]
    assert [row[0] for row in cells(page, 4)] == ["run", str(trained), str(second), "the references"]
    assert cells(page, 4)[0][1:] == ["numbers"], "sources are of digits"
    assert cells(page, 5) == [["key", str(trained), str(second)], ["seed", "3", "4"]]
    assert "besides the model, the recipes differ in seed" in said.lines
    assert said.err.splitlines()[-3:] == ["written: all.html", "written: all.svg", "written: all.json"]
    figure = Path("all.svg").read_text(encoding="utf-8")
    assert figure in page
    ElementTree.fromstring(figure)
    assert re.findall(r"<title>(.*?)</title>\n<style", page) == [
        "BLEU of each seed",
        "BLEU by length",
        "Validation loss by minutes",
        "Validation loss by updates",
    ]
    root = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))
    for plot in root.iter(f"{SVG}svg"):
        texts = [text.text for text in plot.iter(f"{SVG}text")]
        assert texts[-2:] == [str(trained), str(second)] or texts[-1] == "transformer"
    dots = [dot[0].text for dot in root.iter(f"{SVG}circle") if dot[0].text and dot[0].text.startswith(str(second))]
    curve = runs[1]["curve"]
    assert dots[-len(curve) :] == [f"{second}: {p['step']}, {p['loss']:.4g}" for p in curve]


def test_names_are_escaped(say: Say, trained: Path, here: Path) -> None:
    name = "<b>&\"'\x1b"
    shutil.copytree(trained, name)
    said = say("compare", name, *QUICK, "--page", "all.html", "--json", "all.json")
    shown = "<b>&\"'[U+001B]"
    assert json.loads(Path("all.json").read_text())["runs"][0]["run"] == name
    assert said.lines[3].startswith(f"{shown}  transformer")
    page = Path("all.html").read_text(encoding="utf-8")
    assert cells(page, 0)[1][0] == shown
    assert "<b>" not in page


def test_an_unfinished_run_is_compared_at_its_best(say: Say, trained: Path, here: Path) -> None:
    folder = unfinished(trained, here / "half")
    best = read_manifest(folder).best
    said = say("compare", trained, "half", *QUICK, "--json", "all.json")
    assert f"* half is not finished: its best checkpoint so far (step {best}) is compared" in said.lines
    assert said.lines[4].startswith("half *  ")
    run = json.loads(Path("all.json").read_text())["runs"][1]
    assert (run["finished"], run["step"]) == (False, best)
    sources, references = ((trained.parent / f"validation.{s}").read_text().splitlines() for s in ("en", "de"))
    texts = [t.text for t in heedful.load(trained, device="cpu", step=best).translate(sources)]
    assert run["bleu"]["value"] == pytest.approx(heedful.evaluate(texts, references).bleu)


def test_perplexities_of_different_vocabularies_stay_apart(
    say: Say, trained: Path, another: Callable[[str], Path], here: Path
) -> None:
    recipe = another("other")
    assert say("train", recipe, *ONE_STEP, "--tokenizer.size", "14", "--device", "cpu").code == 0
    other = recipe.parent / "run"
    said = say("compare", trained, other, *QUICK, "--page", "all.html", "--json", "all.json")
    assert said.code == 0, said.err
    page = Path("all.html").read_text(encoding="utf-8")
    heading, first, second = cells(page, 0)
    assert heading[-1] == "perplexity"
    assert (first[-1] == "-", second[-1]) == (False, "-")
    assert f"perplexity is per token, so it is shown only for runs with the vocabulary of {trained}" in said.out
    assert page.count("<svg") == 5, "learning curves of different tokens are not drawn into one plot"
    runs = json.loads(Path("all.json").read_text())["runs"]
    assert len({run["vocabulary"] for run in runs}) == 2


def test_models_of_a_kind_are_told_apart(say: Say, another: Callable[[str], Path], here: Path) -> None:
    recipes = [another(name) for name in ("a", "b", "c")]
    recurrent = '[model]\nkind = "recurrent"\nd_model = 16\nlayers = 1\n'
    for recipe, reading in zip(recipes[:2], ("context", "luong"), strict=True):
        text = re.sub(
            r"\[model\](.|\n)*?\n\n", f'{recurrent}reading = {{ kind = "{reading}" }}\n\n', recipe.read_text()
        )
        recipe.write_text(text)
    runs = compared(say, *recipes, "--train", *ONE_STEP)["runs"]
    assert [run["model"] for run in runs] == ["recurrent (context)", "recurrent (luong)", "transformer"]


def test_case_that_one_run_cannot_write_is_mentioned(
    say: Say, trained: Path, another: Callable[[str], Path], here: Path
) -> None:
    recipe = another("other")
    words = ("compare", trained, recipe, "--train", *ONE_STEP, "--tokenizer.lowercase", "true", *QUICK)
    complaint = f"{recipe.parent / 'run'}: writes only lowercase, but case counts here"
    assert complaint in say(*words).out
    assert complaint not in say(*words, "--lowercase").out


# --- text ---------------------------------------------------------------------------------------------------


def test_different_texts_are_refused_unless_one_is_named(
    say: Say, trained: Path, another: Callable[[str], Path], here: Path
) -> None:
    recipe = another("other")
    lines = (recipe.parent / "validation.de").read_text(encoding="utf-8").splitlines()
    (recipe.parent / "validation.de").write_text("".join(f"{line} !\n" for line in lines), encoding="utf-8")
    assert say("train", recipe, *ONE_STEP, "--device", "cpu").code == 0
    other = recipe.parent / "run"
    told = say("compare", trained, other).complaint
    assert told.startswith(f"{other}: translates the same sources into another text ({recipe.parent}")
    assert told.endswith("leave it out, or give one text for all with --source and --target, or --data")
    (here / "t.tsv").write_text("1 2\tzwei eins\n3\tdrei\n")
    found = compared(say, trained, other, "--data", "t.tsv")
    assert (found["sentences"], found["text"]) == (2, "t.tsv")
    (recipe.parent / "validation.en").write_text("1\n" * len(lines))
    assert f"{other}: is tested on another text" in say("compare", trained, other).complaint
    (recipe.parent / "validation.en").unlink()
    told = say("compare", trained, other).complaint
    assert told.startswith(f"{other}: data.validation: {recipe.parent / 'validation.en'}: there is no such file")
    assert told.endswith("or give the text with --source and --target, or --data")


def test_few_sentences_have_no_interval_by_length(say: Say, trained: Path, here: Path) -> None:
    dice = random.Random(1)
    lines = [
        f"{' '.join(str(dice.randrange(10)) for _ in range(length))}\tzwei eins drei vier fünf\n"
        for length, count in ((10, 11), (11, 12), (13, 9))
        for _ in range(count)
    ]
    (here / "t.tsv").write_text("".join(lines[:-12]) + "\tleer\n", encoding="utf-8")
    found = compared(say, trained, "--data", "t.tsv", "--page", "all.html")
    assert found["sentences"] == 20
    first, second = found["runs"][0]["bleu_by_length"]
    assert [(band["from"], band["to"], band["sentences"]) for band in (first, second)] == [(6, 10, 11), (11, 15, 9)]
    assert second["interval"] is None
    (here / "t.tsv").write_text("".join(lines), encoding="utf-8")
    for band in compared(say, trained, "--data", "t.tsv")["runs"][0]["bleu_by_length"]:
        alone = band["interval"]
        assert alone["low"] <= alone["value"] == pytest.approx(band["bleu"])
        assert alone["value"] <= alone["high"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("", "heedful compare: needs RUNS; write heedful compare RUNS ..."),
        ("nowhere", "nowhere: no such run folder; check the path, or train first"),
        ("nowhere --train", "nowhere: no such run folder; check the path, or train first"),
        (".", ".: contains no manifest.json, so it is not a finished or resumable run"),
        ("{run} file", "file: is a file and not a run folder; give the folder of a trained run"),
        ("{small}", "{small}: is a recipe and not a run; add --train, or give the folder of its run"),
        ("no.toml --train", "no.toml: cannot read this recipe"),
        ("{run} {run}", "{run}: is named twice ({run}); name each run once"),
        ("{run} {run}/../run", "{run} and {run}/../run: are the same run"),
        ("{run} --training.steps 3", "heedful compare: --training.steps is not an option; keys of recipes"),
        ("{run} --pgae x", "heedful compare: --pgae is not an option; did you mean --page?"),
        ("{run} --samples 1", "--samples: 1; must be at least 2"),
        ("{run} --threads 0", "--threads: 0; must be at least 1"),
        ("{run} --seed -1", "--seed: -1; must be at least 0"),
        ("{run} --tokenize no", "tokenize: 'no' is not a tokenizer of BLEU"),
        ("{run} --search greedy --beam 3", "--beam: does not fit --search greedy"),
        ("{run} --device nope", "device 'nope': is not a device that PyTorch knows"),
        ("{run} --page no/where", "no/where: cannot be written (No such file or directory); choose another --page"),
        ("{run} --json .", ".: cannot be written (Is a directory); choose another --json"),
        ("{run} --json x --page x", "--page and --json: both are x; give each its own file"),
        ("{run} --json x --figure x", "--figure and --json: both are x; give each its own file"),
        ("{run} --source file", "--source: give --source and --target"),
        ("{run} --source empty --target empty", "empty and empty: no sentences to measure on"),
    ],
)
def test_wrong_words(say: Say, trained: Path, here: Path, words: str, complaint: str) -> None:
    for name, content in (("file", "a\n"), ("empty", "")):
        (here / name).write_text(content)
    names = {"run": trained, "small": trained.parent / "small.toml"}
    told = say("compare", *words.format(**names).split()).complaint
    assert told.startswith(complaint.format(**names)), told
    assert sorted(path.name for path in here.iterdir()) == ["empty", "file"], "nothing was left behind"


def test_a_run_without_a_checkpoint(say: Say, trained: Path, here: Path) -> None:
    folder = unfinished(trained, here / "half")
    write_manifest(folder, replace(read_manifest(folder), checkpoints=(), last=None, best=None))
    assert say("compare", "half").complaint.startswith("half: no checkpoint has been saved yet; continue training")


# --- training first -----------------------------------------------------------------------------------------


def test_recipes_are_trained_first_where_they_are_not_finished(
    say: Say, another: Callable[[str], Path], here: Path
) -> None:
    first, second = another("first"), another("second")
    assert say("train", first, "--training.steps", "4", "--device", "cpu").code == 0
    shutil.move(first.parent / "run", here / "whole")
    unfinished(here / "whole", first.parent / "run")
    said = say("compare", first, second, "--train", *QUICK, "--json", "all.json")
    assert said.code == 0, said.err
    told = said.err.splitlines()
    at = told.index(f"{second}: training {second.parent / 'run'} (2 of 2)")
    assert told[:2] == [f"{first}: training {first.parent / 'run'} (1 of 2)", "resuming this run"]
    assert told[at + 1] == "learning the vocabulary"
    runs = json.loads(Path("all.json").read_text())["runs"]
    assert [(run["run"], run["finished"], run["step"]) for run in runs] == [
        (str(recipe.parent / "run"), True, 12) for recipe in (first, second)
    ]
    again = say("compare", second, first.parent / "run", "--train", *QUICK)
    assert again.err.splitlines()[0] == f"{second}: {second.parent / 'run'} is finished (1 of 2)"
    assert "going on" not in again.err


def test_a_recipe_counts_as_it_was_given(say: Say, another: Callable[[str], Path], here: Path) -> None:
    recipe = another("one")
    words = (recipe, "--train", *ONE_STEP)
    assert compared(say, *words)["sentences"] == 20
    for side in ("en", "de"):
        (here / f"t.{side}").write_text("1\n2\n")
    found = compared(say, *words, "--data.test.source=t.en", "--data.test.target", "t.de")
    assert (found["sentences"], found["runs"][0]["step"]) == (2, 1)
    two_steps = ("--training.steps", "2", *ONE_STEP[2:])
    found = compared(say, recipe, "--train", *two_steps)
    assert found["runs"][0]["step"] == 2, "it may want more than was trained"


def test_nothing_is_trained_that_cannot_be_compared(
    say: Say, another: Callable[[str], Path], trained: Path, here: Path
) -> None:
    first, second = another("first"), another("second")
    words = ("compare", first, second, "--train")
    text = second.read_text()
    second.write_text(text.replace(f'output = "{second.parent}', f'output = "{first.parent}'))
    assert say(*words).complaint.startswith(f"{first} and {second}: are the same run ({first.parent / 'run'}); name")
    second.write_text(text)
    assert say(*words, "--page", "no/where").complaint.startswith("no/where: cannot be written")
    (second.parent / "validation.en").write_text("1\n" * 20)
    assert "is tested on another text" in say(*words).complaint
    assert not any((recipe.parent / "run").exists() for recipe in (first, second))


def test_interrupted_training_ends_the_command(
    say: Say, small: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr(train_command, "run_train", lambda words: calls.append(list(words)) or 130)
    said = say("compare", small, "--train", "--device", "cpu", "--training.steps", "3")
    assert (said.code, said.out) == (130, "")
    assert calls == [[str(small), "--device", "cpu", "--training.steps", "3"]]


def test_several_processes_are_refused(say: Say, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert say("compare", small, "--train").complaint.startswith("heedful compare --train: trains in one process")


def test_all_runs_translate_with_the_same_threads(say: Say, small: Path, here: Path) -> None:
    before = torch.get_num_threads()
    words = (small, "--train", *ONE_STEP, "--training.threads", str(before + 1))
    try:
        assert compared(say, *words)["threads"] == before, "not as many as training took"
        assert compared(say, *words, "--threads", before + 2)["threads"] == before + 2
    finally:
        torch.set_num_threads(before)


def test_edit_rates_are_tested_against_the_first_run(say: Say, trained: Path, second: Path, here: Path) -> None:
    said = say("compare", trained, second, *QUICK, "--json", "all.json")
    runs = json.loads((here / "all.json").read_text())["runs"]
    start = said.lines.index("chrF and edit rates (of which lower is better)")
    rows = [re.split(r"\s{2,}", line) for line in said.lines[start + 1 : start + 4]]
    heads, first, other = rows
    assert heads[1::3] == ["chrF2", "chrF2++", "TER", "WER", "CER"]
    for number, (key, name) in enumerate([("chrf", "chrF2"), ("chrf++", "chrF2++"), ("ter", "TER"), ("wer", "WER")]):
        (test,) = (each for each in runs[1]["against_first"] if each["name"] == name)
        interval = runs[1][key]
        cells = other[1 + 3 * number : 4 + 3 * number]
        assert cells == [
            f"{interval['value']:.2f}",
            f"{interval['low']:.2f} to {interval['high']:.2f}",
            f"{test['p_value']:.3f}",
        ]
        assert first[3 + 3 * number] == "-"
