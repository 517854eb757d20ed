"""`heedful generate`, `heedful tag`, and `heedful evaluate` of what they use."""

from __future__ import annotations

import io
import json
import math
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from shape_checks import disable_shape_checks

import heedful
from heedful.__main__ import main
from heedful.data.documents import BlankSeparatedDocuments, LineDocuments, PlainTextReader
from heedful.tasks.language.evaluation import TextEvaluator
from heedful.tasks.language.predictor import TextGenerator
from heedful.tasks.tagging.predictor import Tagger
from heedful.tensors import Tokens

LANGUAGE = """
task = "language_modelling"
output = "{folder}/run"
[data]
train = {{ path = "text.txt" }}
validation = {{ path = "text.txt" }}
length = 16
[tokenizer]
kind = "characters"
[model]
kind = "recurrent"
d_model = 16
layers = 1
dropout = 0.0
[training]
steps = {steps}
batch_tokens = 128
truncation = 8
evaluate_every = 10
precision = "fp32"
schedule = {{ kind = "constant", rate = 2e-2 }}
"""
TAGGING = """
task = "tagging"
output = "{folder}/run"
[data]
train = {{ path = "text.txt" }}
validation = {{ path = "text.txt" }}
test = {{ path = "text.txt" }}
[tokenizer]
kind = "words"
[model]
kind = "recurrent"
d_model = 8
dropout = 0.0
[training]
steps = {steps}
batch_tokens = 100
monitor = "accuracy"
evaluate_every = 10
precision = "fp32"
schedule = {{ kind = "constant", rate = 3e-2 }}
"""


def language(folder: Path, *, steps: int = 120) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "text.txt").write_text("the cat sat on a mat.\n" * 20)
    path = folder / "r.toml"
    path.write_text(LANGUAGE.format(folder=folder, steps=steps))
    return path


def tagging(folder: Path, *, steps: int = 40) -> Path:
    """A word is `b` behind a `q`, else `a`."""
    folder.mkdir(exist_ok=True)
    dice = random.Random(2)
    lines = []
    for _ in range(60):
        words = dice.choices("pqrs", k=dice.randint(1, 6))
        tags = ["b" if before == "q" else "a" for before in ["", *words[:-1]]]
        lines += [f"{word}\t{tag}" for word, tag in zip(words, tags, strict=True)] + [""]
    (folder / "text.txt").write_text("\n".join(lines))
    path = folder / "r.toml"
    path.write_text(TAGGING.format(folder=folder, steps=steps))
    return path


@pytest.fixture(scope="module")
def writes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with disable_shape_checks():
        return heedful.train(heedful.load_recipe(language(tmp_path_factory.mktemp("lm"))), device="cpu").folder


@pytest.fixture(scope="module")
def tags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with disable_shape_checks():
        return heedful.train(heedful.load_recipe(tagging(tmp_path_factory.mktemp("tag"))), device="cpu").folder


def test_a_model_goes_on_where_a_prompt_ends(writes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--search", "greedy", "--tokens", "22"]
    assert main(["generate", str(writes), "--prompt", "the cat", *options]) == 0
    assert capsys.readouterr().out == "the cat sat on a mat.\nthe cat\n"
    assert main(["generate", str(writes), "--prompt", "the c", "the cat sat on", *options, "--format", "jsonl"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["prompt"] for record in records] == ["the c", "the cat sat on"]
    assert records[1]["text"].startswith(" a mat.\nthe")
    assert len(records[0]["tokens"]) == 22


def test_the_last_word_of_a_prompt_is_completed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = language(tmp_path / "words", steps=1)
    path.write_text(path.read_text().replace('kind = "characters"', 'kind = "words"'))
    run = heedful.train(heedful.load_recipe(path), device="cpu").folder
    words = ["generate", str(run), "--prompt", "the c", "on a m", "--tokens", "2", "--complete", "--device", "cpu"]
    for search in ("greedy", "sampling"):
        assert main([*words, "--search", search, "--format", "jsonl"]) == 0
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [each["tokens"][0] for each in found] == ["cat", "mat"]
        assert [each["text"][:2] for each in found] == ["at", "at"]
    alone = [*words[:4], *words[5:]]
    assert main([*alone, "--search", "greedy"]) == 0
    assert capsys.readouterr().out.startswith("the cat")


def test_a_seed_decides_a_sample_streamed_or_not(writes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*options: str) -> str:
        assert main(["generate", str(writes), "--prompt", "the", "--temperature", "2", "--tokens", "30", *options]) == 0
        return capsys.readouterr().out

    streamed = said("--seed", "4")
    assert streamed == said("--seed", "4") != said("--seed", "5")
    assert json.loads(said("--seed", "4", "--format", "jsonl"))["text"] == streamed.removeprefix("the").removesuffix(
        "\n"
    )
    assert len(said("--n-best", "3", "--format", "jsonl").splitlines()) == 3


GREEDY = ("--search", "greedy", "--tokens", "40")


def test_stop_strings_end_what_is_written_streamed_or_not(writes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prompt = ("--prompt", "the cat", *GREEDY)
    assert main(["generate", str(writes), *prompt, "--stop", "mat", "xyz"]) == 0
    assert capsys.readouterr().out == "the cat sat on a \n"
    assert main(["generate", str(writes), *prompt, "--stop", " a mat.\nthe", "--format", "jsonl"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["text"], record["stop"], record["finished"]) == (" sat on", " a mat.\nthe", False)
    assert len(record["tokens"]) == len(" sat on a mat.\nthe")


def test_penalties_and_filters_change_what_is_written(writes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*options: str) -> str:
        assert main(["generate", str(writes), "--prompt", "the", "--tokens", "30", *options]) == 0
        return capsys.readouterr().out

    greedy = said("--search", "greedy")
    assert said("--min-p", "1") == greedy != said("--temperature", "3")
    assert said("--search", "greedy", "--repetition-penalty", "1") == greedy
    assert said("--search", "greedy", "--repetition-penalty", "4") != greedy


def test_prompts_are_read_from_files_and_standard_input(
    writes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = ["the c", "", *(f"the {'cat sat on a mat'[:n]}" for n in range(1, 17)), *["sat"] * 30]
    (tmp_path / "prompts").write_text("".join(f"{prompt}\n" for prompt in prompts))
    options = ("--temperature", "2", "--tokens", "12", "--n-best", "2", "--seed", "3", "--format", "jsonl")
    assert main(["generate", str(writes), "--input", str(tmp_path / "prompts"), *options]) == 0
    out = capsys.readouterr().out
    records = [json.loads(line) for line in out.splitlines()]
    assert [record["prompt"] for record in records[::2]] == prompts
    monkeypatch.setattr("heedful.tasks.language.predictor.GenerationLineFormat.chunk_size", 7)
    stdin = io.TextIOWrapper(io.BytesIO("".join(f"{prompt}\n" for prompt in prompts).encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert main(["generate", str(writes), "--input", "-", *options]) == 0
    others = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["text"] for each in others] == [each["text"] for each in records], "however many are side by side"
    assert len({each["text"] for each in records if each["prompt"] == "sat"}) > 30


def test_the_recipe_says_how_to_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = language(tmp_path / "x", steps=2)
    options = ["--generation.kind", "greedy", "--generation.stop", '["mat", "\\n"]', "--generation.tokens", "9"]
    assert main(["train", str(path), "--device", "cpu", *options, "--generation.repetition_penalty", "1.5"]) == 0
    writer = heedful.load(tmp_path / "x" / "run", device="cpu")
    assert (writer.stop, writer.limit, writer.max_context) == (("mat", "\n"), 9, None)
    assert [penalty.theta for penalty in writer.search.penalties] == [1.5]
    capsys.readouterr()


GPT = """kind = "transformer"
heads = 2
positions = { kind = "learned", length = 16 }
"""


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose positions end after 16 tokens."""
    path = language(tmp_path_factory.mktemp("gpt"), steps=120)
    path.write_text(path.read_text().replace('kind = "recurrent"\n', GPT))
    return heedful.train(heedful.load_recipe(path), device="cpu").folder


@pytest.mark.slow
def test_prompts_that_are_too_long_are_cut_and_said_to_be(bounded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = "the cat sat on a mat.\nthe cat sat"
    assert main(["generate", str(bounded), "--prompt", "the cat", long, *GREEDY, "--format", "jsonl"]) == 0
    said = capsys.readouterr()
    assert "prompt 2 is too long for the model's 16 positions; its first 17 tokens are not read" in said.err
    assert "prompt 1" not in said.err
    records = [json.loads(line) for line in said.out.splitlines()]
    assert [len(record["tokens"]) for record in records] == [40, 40], "writing goes on where positions end"
    assert main(["generate", str(bounded), "--prompt", long, *GREEDY]) == 0
    assert capsys.readouterr().out == long + records[1]["text"] + "\n"


def test_text_that_is_looked_at_must_fit(bounded: Path) -> None:
    writer = heedful.load(bounded, device="cpu")
    record = writer.inspect("the cat", limit=40)
    assert len(record.written) == 16
    assert "Writing ended after 9 tokens, because the model has no more positions." in record.notes
    with pytest.raises(heedful.DataError, match="20 tokens, but this model has positions only for 16"):
        writer.inspect("the cat sat on a mat")
    assert len(writer.surprise(["the cat sat on a mat"])[0].token_log_probabilities) == 20


def test_language_models_are_measured_by_words_characters_and_bytes(
    writes: Path, bounded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def report(*words: str, run: Path = writes) -> dict[str, Any]:
        assert main(["evaluate", str(run), "--format", "json", *words]) == 0
        return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]

    text = (writes.parent / "text.txt").read_text()
    found = report()
    counts = (found["tokens"], found["documents"], found["words"], found["characters"], found["bytes"])
    assert counts == (len(text) + 1, 1, len(text.split()), len(text), len(text))
    nats = found["nats"]
    assert found["unknown"] == 0
    assert found["loss"] == pytest.approx(nats / (len(text) + 1))
    assert found["perplexity"] == found["character_perplexity"] == pytest.approx(math.exp(found["loss"]))
    assert found["word_perplexity"] == pytest.approx(math.exp(nats / (len(text.split()) + 1)))
    lines = text.count("\n")
    assert (found["line_ends"], lines > 1) == (lines, True)
    published = math.exp(nats / (len(text.split()) + lines))
    assert found["word_perplexity_with_line_ends"] == pytest.approx(published)
    assert found["bits_per_character"] == found["bits_per_byte"] == pytest.approx(found["loss"] / math.log(2))
    final = json.loads((writes / "metrics.jsonl").read_text().splitlines()[-1])
    assert found["perplexity"] == pytest.approx(final["perplexity"], rel=1e-5), "as training measured it"
    assert (found["context"], found["stride"]) == (16, 16)
    assert report("--stride", "16") == found
    for run in (writes, bounded):
        assert report("--stride", "2", run=run)["nats"] < report(run=run)["nats"], "more context helps"
    assert report("--context", "40", "--stride", "20")["context"] == 40
    assert main(["evaluate", str(writes), "--stride", "4"]) == 0
    shown = capsys.readouterr().out
    assert "bits per character" in shown
    told = f"{len(text.split()):,} words and {lines:,} line ends, as of PTB and WikiText"
    assert re.search(rf"^  with line ends +[\d.]+  {told}", shown, re.MULTILINE)
    assert f"{len(text):,} characters and 1 end" in shown
    assert "context 16, stride 4: each token follows at least 12 tokens, or all tokens before it" in shown


def test_documents_are_kept_apart_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = language(tmp_path / "y", steps=3)
    path.write_text(path.read_text().replace('"text.txt" }', '"text.txt", kind = "lines" }'))
    assert main(["train", str(path), "--device", "cpu", "--data.documents", "apart"]) == 0
    assert main(["evaluate", str(tmp_path / "y" / "run"), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["documents"], found["tokens"], found["characters"]) == (20, 20 * 22, 20 * 21)
    writer = heedful.load(tmp_path / "y" / "run", device="cpu")
    logits: Any = []
    ids = [2, *writer.tokenizer.encode("the cat sat on a mat."), 2]
    for start in (0, 16):
        logits += per_token(writer, ids[start : start + 17])
    assert found["nats"] == pytest.approx(-20 * sum(logits), rel=1e-5)


def per_token(writer: TextGenerator, ids: list[int]) -> list[float]:
    read = Tokens(torch.tensor([ids[:-1]]), torch.arange(len(ids) - 1).unsqueeze(0))
    with torch.inference_mode():
        logits, _ = writer.model.step(read, writer.model.init_state())
    return logits[0].log_softmax(-1)[range(len(ids) - 1), ids[1:]].tolist()  # type: ignore[no-any-return]


def test_a_tagger_tags_words_and_files(tags: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tag", str(tags), "--text", "p q r q q s", ""]) == 0
    assert capsys.readouterr().out == "p\ta\nq\ta\nr\tb\nq\ta\nq\tb\ns\tb\n\n\n"
    lines, found = tmp_path / "in", tmp_path / "out"
    lines.write_text("q s\np\n")
    assert main(["tag", str(tags), "--input", str(lines), "--output", str(found), "--format", "jsonl"]) == 0
    records = [json.loads(line) for line in found.read_text().splitlines()]
    assert [[tag["name"] for tag in record] for record in records] == [["a", "b"], ["a"]]
    assert all(0.5 < tag["probability"] <= 1 for record in records for tag in record)


def test_runs_are_measured_by_their_own_metrics(writes: Path, tags: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(tags), "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["part"] == "test"
    assert report["metrics"]["accuracy"] == 1
    assert report["baseline"]["accuracy"] < 1
    assert main(["evaluate", str(writes)]) == 0
    shown = capsys.readouterr().out
    assert "validation\nloss" in shown
    assert "perplexity" in shown


def test_load_gives_what_the_task_is_used_by(writes: Path, tags: Path) -> None:
    assert isinstance(heedful.load(writes), TextGenerator)
    assert isinstance(heedful.load(tags), Tagger)
    with pytest.raises(
        heedful.RunError, match="its task is tagging, whose models cannot form an ensemble; name one run"
    ):
        heedful.load(tags, tags)


@pytest.fixture(scope="module")
def runs(writes: Path, tags: Path, bounded: Path) -> dict[str, Path]:
    return {"writes": writes, "tags": tags, "bounded": bounded}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--search", "greedy", "--n-best", "3"), "--n-best 3: greedy search finds one continuation; add --search"),
        (("--search", "greedy", "--top-k", "3"), "--top-k: does not fit --search greedy"),
        (("--temperature", "0"), "--temperature: 0.0 must be above 0"),
        (("--input", "none/here"), "none/here: there is no such file"),
    ],
)
@pytest.mark.usefixtures("unloaded")
def test_mistakes_are_told_before_a_model_is_loaded(
    words: tuple[str, ...], message: str, writes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", str(writes), *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("translate", "{tags}", "--text", "a"),
            "is a tagger and not a model that translates; use it with heedful tag, or give another model",
        ),
        (("generate", "{writes}", "--search", "greedy", "--top-k", "3"), "--top-k: does not fit --search greedy"),
        (("generate", "{writes}", "--search", "greedy", "--n-best", "3"), "--n-best 3: greedy search finds one"),
        (("generate", "{writes}", "--temperature", "0"), "--temperature: 0.0 must be above 0"),
        (("generate", "{writes}", "--n-best", "0"), "--n-best: 0; must be at least 1"),
        (("generate", "{writes}", "--min-p", "2"), "--min-p: 2.0 must be at most 1"),
        (("generate", "{writes}", "--repetition-penalty", "0"), "--repetition-penalty: 0.0 must be above 0"),
        (("generate", "{writes}", "--search", "greedy", "--min-p", "0.1"), "--min-p: does not fit --search greedy"),
        (("generate", "{writes}", "--stop", ""), "--stop: does not fit --search"),
        (("generate", "{writes}", "--prompt", "a", "--input", "b"), "--prompt and --input: give one"),
        (("generate", "{writes}", "--input", "none/here"), "none/here: there is no such file"),
        (("evaluate", "{writes}", "--stride", "17"), "--stride: 17; must be from 1 to 16"),
        (("evaluate", "{writes}", "--stride", "0"), "--stride: 0; must be from 1 to 16"),
        (("evaluate", "{bounded}", "--context", "17"), "at least 1 and at most model.positions.length = 16"),
        (("evaluate", "{tags}", "--stride", "4"), "its task is tagging, which is measured on data.test or"),
        (("tag", "{tags}", "--text", "a", "--input", "b"), "--text and --input: give one of them"),
        (("evaluate", "{tags}", "--against", "{writes}"), "its task is language_modelling, not that of"),
        (("evaluate", "{tags}", "--output", "out"), "are not written to files"),
        (("compare", "{tags}", "{writes}"), "give runs of one task"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    words: tuple[str, ...], message: str, runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word.format(**runs) for word in words]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told


@pytest.mark.parametrize("make", [language, tagging])
def test_a_run_in_two_sittings_equals_one_in_one(
    make: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, parts = (heedful.load_recipe(make(tmp_path / name, steps=40)) for name in ("a", "b"))
    heedful.train(whole, device="cpu")
    path = str(tmp_path / "b" / "r.toml")
    for steps in ("13", "40"):
        assert main(["train", path, "--training.steps", steps, "--device", "cpu"]) == 0
    assert "resuming this run" in capsys.readouterr().err
    names = ["model.safetensors", "checkpoints/step-00000040.safetensors"]
    for name in names:
        assert (whole.output / name).read_bytes() == (parts.output / name).read_bytes()


@pytest.mark.parametrize(
    ("kind", "text", "ends"),
    [
        ("text", "a cat sat\non a mat\n", 2),
        ("text", "a cat sat\non a mat", 2),
        ("text", "a cat\n\nsat\n", 3),
        ("lines", "a cat sat\non a mat\n", 2),
        ("blocks", "a cat sat\non a mat\n\na dog\n", 3),
    ],
)
def test_ends_of_lines_count_as_words_where_results_are_published_so(
    writes: Path, tmp_path: Path, kind: str, text: str, ends: int
) -> None:
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8")
    documents = list({"text": PlainTextReader, "lines": LineDocuments, "blocks": BlankSeparatedDocuments}[kind](path))
    exam = TextEvaluator(documents, data_description="text.txt", part="test")
    writer = heedful.load(writes, device="cpu")
    answers = exam.predict(writer, heedful.load_recipe(writes.parent / "r.toml"))
    metrics = exam.compute_metrics(answers)
    nats, words = float(answers.nats.sum()), len(text.split())
    assert answers.sum_counts("lines") == ends
    assert metrics["word_perplexity_with_line_ends"].value == pytest.approx(math.exp(nats / (words + ends)))
    assert metrics["word_perplexity"].value == pytest.approx(math.exp(nats / (words + len(documents))))
