"""Each recipe resolves, builds and learns, and the commands in its comments are valid."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.architectures.build import DataSizes, build_language_model, build_sequence_to_sequence
from heedful.data.pictures import encode_png
from heedful.models.model_size import measure_model
from heedful.recipes.recipe import Recipe, format_data_key
from heedful.tasks.captioning.recipe import CaptioningRecipe, VideoRecipe
from heedful.tasks.captioning.scenes import build_coco_files, generate_scenes
from heedful.tasks.fine_tuning import FineTuningRecipe
from heedful.tasks.glimpses.recipe import GlimpsesRecipe
from heedful.tasks.language.recipe import LanguageRecipe
from heedful.tasks.multitask.recipe import MultitaskRecipe
from heedful.tasks.pretraining.recipe import PretrainingRecipe
from heedful.tasks.pretraining.task import build_pretrained
from heedful.tasks.speech.demonstration import encode_wav
from heedful.tasks.translation.recipe import TranslationRecipe

ROOT = Path(__file__).parents[2]
RECIPES = {path: heedful.load_recipe(path) for path in sorted((ROOT / "recipes").rglob("*.toml"))}
TINY = {
    "model.layers": 1,
    "model.d_model": 16,
    "training.steps": 2,
    "training.epochs": "none",
    "training.evaluate_every": 2,
    "training.average": 1,
    "training.batch_tokens": 300,
    "training.threads": 1,
}
TINIER = {
    "transformer": {"model.heads": 2, "model.d_ff": 16},
    "recurrent": {"model.d_embedding": 8},
    "convolutional": {},
    "conditional": {"model.d_embedding": 8},
    "memory_network": {},
}
UNLIKE = {"memory_network": ("model.layers",)}
"""Keys that models of a kind do not have."""

name = pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)


def list_first_recipes() -> list[object]:
    """List all recipes; all but the first of each task and kind of model are slow."""
    met, found = set(), []
    for path, recipe in RECIPES.items():
        family = (recipe.task, getattr(recipe.model, "kind", None))
        found.append(pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if family in met else []))
        met.add(family)
    return found


def build_small_options(recipe: Recipe) -> dict[str, object]:
    """Return options that make the recipe's model tiny."""
    if isinstance(recipe, GlimpsesRecipe):
        return {"training.steps": 2, "training.epochs": "none", "training.evaluate_every": 2, "data.test": "none"}
    if isinstance(recipe, CaptioningRecipe):
        training = {key: value for key, value in TINY.items() if key.startswith("training.")}
        return training | {
            "model.d_model": 16,
            "model.decoder.d_embedding": 8,
            "model.pictures": '{ kind = "convolutional", widths = [4, 8, 8] }',
            "data.picture_size": 24,
            "tokenizer.size": 20,
            "data.test": "none",
        }
    if isinstance(recipe, VideoRecipe):
        training = {key: value for key, value in TINY.items() if key.startswith("training.")}
        return training | {
            "model.d_model": 16,
            "model.decoder.d_model": 16,
            "model.decoder.d_embedding": 8,
            "model.frames.widths": [4],
            "model.motion.widths": [4],
            "data.frame_size": 8,
            "tokenizer.size": 20,
            "data.test": "none",
        }
    own = "d_model" in type(recipe.model).model_fields
    inner = recipe.model if own else getattr(recipe.model, "decoder", recipe.model)
    options: dict[str, object] = TINY | TINIER[inner.kind]
    options = {key: value for key, value in options.items() if key not in UNLIKE.get(inner.kind, ())}
    if "linear_start" in type(recipe.training).model_fields:
        options["training.linear_start"] = 1
    if inner is not recipe.model:
        options = {key.replace("model.", "model.decoder."): value for key, value in options.items()}
    if isinstance(recipe, LanguageRecipe):
        options |= {} if recipe.tokenizer.kind == "characters" else {"tokenizer.size": 20}
    else:
        size = 20 if recipe.tokenizer.kind in ("words", "characters") else 40
        tables = [format_data_key(name) for name in recipe.datasets]
        options |= {"tokenizer.size": size}
        options |= {
            f"{table}.{key}": value for table in tables for key, value in (("max_length", 64), ("test", "none"))
        }
    if isinstance(recipe, FineTuningRecipe | MultitaskRecipe):
        options |= {"init": "none", "training.min_steps": "none"}
    return options


def list_sized_recipes() -> list[object]:
    """List recipes that fix the size of the model; in others it depends on tags or classes of the texts, or on init."""
    kinds = (TranslationRecipe, PretrainingRecipe, LanguageRecipe)
    return [pytest.param(path, id=path.stem) for path, recipe in RECIPES.items() if isinstance(recipe, kinds)]


@pytest.mark.parametrize("path", list_sized_recipes())
def test_it_can_be_described(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = heedful.load_recipe(path)
    size = recipe.tokenizer.size or 70
    with torch.device("meta"):
        if isinstance(recipe, TranslationRecipe):
            made = build_sequence_to_sequence(recipe.model, DataSizes(size, size, recipe.data.max_length))
        elif isinstance(recipe, PretrainingRecipe):
            made = build_pretrained(recipe.model, recipe.training, vocabulary=size, longest=recipe.data.max_length)
        else:
            assert isinstance(recipe, LanguageRecipe)
            made = build_language_model(recipe.model, vocabulary=size)
        expected = measure_model(made).num_parameters
    from heedful.__main__ import main

    assert main(["describe", str(path), "--tokenizer.size", str(size)]) == 0
    assert f"parameters  {expected:,} " in capsys.readouterr().out


def _check_heads(model: Any, recipe: Any, _text: Path) -> bool:
    assert len(model.head("sst-2").classify(["a dog"])) == 1
    assert [len(tags) for tags in model.head("ewt").tag([["a", "dog"], []])] == [2, 0]
    return model.names == tuple(recipe.tasks)


# What a trained model of each task does, with the model, its recipe and the folder of its text.
USES: dict[str, Callable[[Any, Any, Path], bool]] = {
    "translation": lambda model, *_: len(model.translate(["a dog", "two cats"])) == 2,
    "language_modelling": lambda model, *_: len(model.write(["a dog", ""], limit=5)) == 2,
    "pretraining": lambda model, *_: len(model.fill(["a [MASK]"])) == 1,
    "tagging": lambda model, *_: [len(tags) for tags in model.tag([["a", "dog"], []])] == [2, 0],
    "classification": lambda model, *_: (
        len(model.classify([("a dog", "a cat"), ("a dog", "")])) == 2
        and (model.requires_pairs or len(model.classify(["a dog"])) == 1)
    ),
    "speech": lambda model, _, text: len(model.transcribe(list((text / "spoken").glob("0.*")))) == 1,
    "spans": lambda model, *_: model.answer("a dog", "").text == "",
    "glimpses": lambda model, recipe, _: (
        len(model.look_at([np.zeros(model.shape, dtype=np.uint8)])[0].glimpses) == recipe.model.num_glimpses
    ),
    "captioning": lambda model, *_: len(model.caption([next(generate_scenes("test", 1)).picture])) == 1,
    "video": lambda model, _, text: len(model.caption([text / "a.npz"])) == 1,
    "matching": lambda model, *_: len(model.embed(["a dog", ""])) == 2,
    "stories": lambda model, *_: model.ask("a dog", "what is it").answer in ("odd", "even"),
    "conversation": lambda model, *_: len(model.reply([[], model.build_turns(["a dog"])])) == 2,
    "multitask": _check_heads,
}


@pytest.mark.parametrize("path", list_first_recipes())
def test_two_updates(path: Path, workshop: Path) -> None:
    recipe = heedful.load_recipe(path)
    write = WRITERS[recipe.task]
    places = write(workshop / "runs/tiny-text", path.stem)
    small = [f"--{key}={value}" for key, value in build_small_options(recipe).items()]
    outcome = heedful.train(heedful.load_recipe(path, [*places, *small, "--output", str(workshop / "run" / path.stem)]))
    final = json.loads((outcome.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert (final["kind"], final["step"]) == ("final", 2)
    assert final["loss"] > 0.5
    model = heedful.load(outcome.folder)
    assert USES[recipe.task](model, recipe, workshop / "runs/tiny-text")


def read_sources(text: Path, part: str) -> list[list[str]]:
    return [line.split("\t") for line in (text / f"{part}.tsv").read_text(encoding="utf-8").splitlines()]


def write_parallel_text(text: Path, stem: str) -> list[str]:
    if any(path.stem == stem and recipe.data.train.kind == "tsv" for path, recipe in RECIPES.items()):
        return [word for part in ("train", "validation") for word in (f"--data.{part}.path", f"{text}/{part}.tsv")]
    places: list[str] = []
    for part in ("train", "validation"):
        for column, side in enumerate(("source", "target")):
            file = text / f"{part}.{side}"
            file.write_text("".join(f"{pair[column]}\n" for pair in read_sources(text, part)), encoding="utf-8")
            places += [f"--data.{part}.{side}", str(file)]
    return places


def write_lines(text: Path, _stem: str) -> list[str]:
    file = text / "train.txt"
    file.write_text("".join(f"{pair[0]}\n" for pair in read_sources(text, "train")), encoding="utf-8")
    return ["--data.train.path", str(file), "--data.validation.path", str(file)]


def write_documents(text: Path, _stem: str) -> list[str]:
    """Write documents of two sentences."""
    file = text / "documents.txt"
    sentences = [pair[0] for pair in read_sources(text, "train")]
    blocks = [".\n".join(sentences[at : at + 2]) for at in range(0, len(sentences), 2)]
    file.write_text(".\n\n".join(blocks), encoding="utf-8")
    return ["--data.train.path", str(file), "--data.validation.path", str(file)]


def write_tagged_text(text: Path, stem: str) -> list[str]:
    """Write words whose tag is their length."""
    if stem == "wnut17":
        file = text / "train.conll"
        words = (f"{word}\tB-L{len(word)}\n" for pair in read_sources(text, "train") for word in (*pair[0].split(), ""))
        file.write_text("".join("\n" if word.startswith("\t") else word for word in words), encoding="utf-8")
        return ["--data.train.path", str(file), "--data.validation.path", str(file)]
    file = text / "train.conllu"
    with file.open("w", encoding="utf-8") as out:
        for pair in read_sources(text, "train"):
            for number, word in enumerate(pair[0].split(), 1):
                out.write(f"{number}\t{word}\t_\tL{len(word)}\t_\t_\t_\t_\t_\t_\n")
            out.write("\n")
    return ["--data.train.path", str(file), "--data.validation.path", str(file)]


def write_labelled_text(text: Path, stem: str) -> list[str]:
    """Write files in the format of the recipe's benchmark task; short texts are positive."""
    from heedful.tasks.benchmarks.table import find_definition

    sizes = {path.stem: "sst-2" for path in (ROOT / "recipes/sizes").iterdir()}
    task = sizes.get(stem) or next(task for task in ("sst-2", "mrpc", "rte") if stem.startswith(task))
    folder = text / find_definition(f"glue/{task}").folders[0]
    folder.mkdir(exist_ok=True)
    columns, row = {
        "sst-2": ("sentence\tlabel", "{0}\t{1:d}"),
        "mrpc": ("Quality\t#1 String\t#2 String", "{1:d}\t{0}\t{0}"),
        "rte": ("index\tsentence1\tsentence2\tlabel", "0\t{0}\t{0}\t{2}"),
    }[task]
    for part in ("train", "dev"):
        with (folder / f"{part}.tsv").open("w", encoding="utf-8") as out:
            out.write(f"{columns}\n")
            for pair in read_sources(text, "train"):
                short = len(pair[0]) < 12
                out.write(row.format(pair[0], short, "entailment" if short else "not_entailment") + "\n")
    return ["--data.train.folder", str(text), "--data.validation.folder", str(text)]


def write_questions(text: Path, _stem: str) -> list[str]:
    """Write questions whose answer is the first word of each text."""
    file = text / "train.csv"
    with file.open("w", encoding="utf-8") as out:
        out.write("q_review_id,question,review,human_ans_spans,human_ans_indices\n")
        for number, pair in enumerate(read_sources(text, "train")):
            first = pair[0].split()[0]
            out.write(f'{number},What is first?,"{pair[0]} ANSWERNOTFOUND",{first},"(0, {len(first)})"\n')
    return ["--data.train.path", str(file), "--data.validation.path", str(file)]


def write_pictures(text: Path, _stem: str) -> list[str]:
    """Write a few scenes, and their captions in lines."""
    found = list(generate_scenes("train", 12, size=24))
    names, _ = build_coco_files(found, stem="scene")
    for name, content in names.items():
        (text / name).write_bytes(content)
    told = (f"{name}#0\t{scene.captions[0]}\n" for name, scene in zip(names, found, strict=True))
    (text / "captions.tsv").write_text("".join(told), encoding="utf-8")
    keys = {"path": text / "captions.tsv", "pictures": text, "only": "none"}
    return [f"--data.{part}.{key}={at}" for part in ("train", "validation") for key, at in keys.items()]


def write_recordings(text: Path, stem: str) -> list[str]:
    """Write files in LibriSpeech's format, each text a third of a second of noise; or a table of pictures of noise."""
    folder = text / "spoken"
    folder.mkdir()
    noise = np.random.default_rng(1)
    texts = [pair[0][:8] for pair in read_sources(text, "train")][:40]
    if stem == "handwriting":
        for number, _ in enumerate(texts):
            (folder / f"{number}.png").write_bytes(encode_png(noise.integers(0, 256, (28, 80, 3), np.uint8)))
        table = folder / "all.tsv"
        table.write_text("".join(f"{n}.png\t{text}\n" for n, text in enumerate(texts)), encoding="utf-8")
        return ["--data.train.path", str(table), "--data.validation.path", str(table)]
    for number, _ in enumerate(texts):
        samples = (1000 * noise.standard_normal(6000)).astype("<i2")
        (folder / f"{number}.wav").write_bytes(encode_wav(samples))
    (folder / "all.trans.txt").write_text("".join(f"{n} {text}\n" for n, text in enumerate(texts)), encoding="utf-8")
    return ["--data.train.path", str(folder), "--data.validation.path", str(folder)]


def write_stories(text: Path, _stem: str) -> list[str]:
    """Write bAbI questions about whether a text has an odd number of characters."""
    for part in ("train", "valid"):
        with (text / f"qa2_{part}.txt").open("w", encoding="utf-8") as out:
            for pair in read_sources(text, "train"):
                out.write(f"1 {pair[0]}\n2 what is it\t{'odd' if len(pair[0]) % 2 else 'even'}\t1\n")
    each = [("path", str(text)), ("tasks", "[2]")]
    return [word for part in ("train", "validation") for key, value in each for word in (f"--data.{part}.{key}", value)]


def write_dialogues(text: Path, _stem: str) -> list[str]:
    """Write dialogues in the format of CamRest's file."""
    file = text / "camrest.json"
    said = [{"usr": {"transcript": pair[0]}, "sys": {"sent": pair[1]}} for pair in read_sources(text, "train")]
    file.write_text(json.dumps([{"dial": said[at : at + 3]} for at in range(0, len(said), 3)]), encoding="utf-8")
    return ["--data.train.path", str(file), "--data.validation.path", str(file)]


def write_several_tasks(text: Path, _stem: str) -> list[str]:
    """Write the files of all tasks."""
    places = [
        ("ewt", write_tagged_text(text, "ewt")),
        *((task, write_labelled_text(text, task)) for task in ("sst-2", "mrpc", "rte")),
    ]
    return [word.replace("--data.", f"--tasks.{task}.data.") for task, words in places for word in words]


def write_digits(text: Path, stem: str) -> list[str]:
    """Write files with the bytes of pictures; all are in each part."""
    for number in range(3):
        path = text / f"pictures/{number}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(range(256)) * 49)
    places = [f"--data.{part}.{key}" for part in ("train", "validation") for key in ("path", "start", "stop")]
    return [word for place, value in zip(places, (text / "pictures", 0, "none") * 2, strict=True)
            for word in (place, str(value))]  # fmt: skip


def write_clips(text: Path, _stem: str) -> list[str]:
    """Write one clip for all captions."""
    np.savez(text / "a.npz", frames=np.zeros((3, 8, 8, 3), np.uint8))
    file = text / "clips.tsv"
    file.write_text("".join(f"a.npz\t{pair[0]}\n" for pair in read_sources(text, "train")), encoding="utf-8")
    return [word for part in ("train", "validation") for word in (f"--data.{part}", f'{{ path = "{file}" }}')]


WRITERS = {
    "glimpses": write_digits,
    "translation": write_parallel_text,
    "language_modelling": write_lines,
    "conversation": write_dialogues,
    "pretraining": write_documents,
    "tagging": write_tagged_text,
    "classification": write_labelled_text,
    "spans": write_questions,
    "captioning": write_pictures,
    "speech": write_recordings,
    "matching": write_parallel_text,
    "stories": write_stories,
    "video": write_clips,
    "multitask": write_several_tasks,
}


@name
def test_commands_in_comments_are_valid(path: Path, check_commands: Callable[[str], int]) -> None:
    lines = [line[1:].strip() for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    commands = [line.removesuffix(" ...") for line in lines if line.startswith(("heedful ", "torchrun "))]
    assert check_commands("\n".join(commands)) == len(commands)


def test_commands_that_measured_recipes(check_commands: Callable[[str], int]) -> None:
    table = tomllib.loads((ROOT / "docs/recipe_facts.toml").read_text(encoding="utf-8"))
    found = {each.get("command", "") for facts in table["recipes"].values() for each in facts.get("measured", [])}
    scripts = {command for command in found if command.startswith("python ")}
    assert all((ROOT / command.split()[1]).is_file() for command in scripts)
    commands = found - scripts - {""}
    assert check_commands("\n".join(commands)) == len(commands) > 10


def test_there_are_recipes() -> None:
    assert len(RECIPES) >= 10
