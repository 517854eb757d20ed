"""Captioning: readers, pictures that share one place, what is left out, and a trained captioner from end to end."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import heedful
from heedful.data.corpus import Corpus, write_corpus
from heedful.data.pictures import SquareResize, encode_png, read_picture
from heedful.data.tokenizers import WordTokenizer, learn_words
from heedful.errors import DataError, HeedfulError, RecipeError, RunError
from heedful.generation import GNMTLengthPenalty
from heedful.generation.search import BeamSearch, GreedySearch
from heedful.models.vision import ResNet
from heedful.recipes.load import load_recipe
from heedful.runs.evaluate import build_run_evaluator, compute_answers
from heedful.runs.load import open_run
from heedful.tasks.captioning.data import (
    CAPTION_SIDE,
    INPUT_SIDE,
    NUMBER_SIDE,
    BoundingBox,
    CaptionColumns,
    CaptionedPicture,
    CocoCaptions,
    PixelFeatures,
    build_caption_encoding,
    collate_captions,
    explain_unreadable,
    split_by_caption,
)
from heedful.tasks.captioning.evaluation import CaptioningOutputs, build_caption_evaluator
from heedful.tasks.captioning.predictor import CaptionAttention, Captioner
from heedful.tasks.captioning.scenes import build_coco_files, generate_scenes
from heedful.tasks.evaluation import DEFAULT_OPTIONS
from heedful.tasks.predictor import InspectRequest


def grey(folder: Path, *names: str, size: int = 8) -> None:
    for number, name in enumerate(names):
        (folder / name).write_bytes(encode_png(np.full((size, size, 3), 20 * number, dtype=np.uint8)))


def words(*texts: str) -> WordTokenizer:
    return learn_words(texts, size=None, lowercase=False)


# --- readers ----------------------------------------------------------------------------------------------


def test_lines_of_one_picture_are_one_example(tmp_path: Path) -> None:
    grey(tmp_path, "a.png", "b.png")
    (tmp_path / "c.tsv").write_text("b.png\tone\na.png\ttwo\nb.png\tthree\nb.png\tone\n\nb.png\t \n")
    assert [(each.file.name, each.captions) for each in CaptionColumns(tmp_path / "c.tsv")] == [
        ("b.png", ("one", "three")),
        ("a.png", ("two",)),
    ]


def test_columns_headers_splits_and_numbers(tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    grey(pictures, "a.png", "b.png")
    with gzip.open(tmp_path / "c.tsv.gz", "wt") as file:
        file.write("image\tpart\ttext\na.png#0\tx\tone\na.png#1\tx\ttwo\nb.png#0\tx\tthree\n")
    (tmp_path / "only.txt").write_text("b.png\nc.png\n")
    options: dict[str, Any] = {"caption_column": 2, "header": True, "numbered": True, "pictures": pictures}
    both = CaptionColumns(tmp_path / "c.tsv.gz", **options)
    assert [each.captions for each in both] == [("one", "two"), ("three",)]
    one = CaptionColumns(tmp_path / "c.tsv.gz", only=tmp_path / "only.txt", **options)
    assert [each.file for each in one] == [pictures / "b.png"]
    assert one.paths == (tmp_path / "c.tsv.gz", tmp_path / "only.txt", pictures / "b.png"), "all that is hashed"


def coco_file(path: Path, **changes: Any) -> Path:
    content: dict[str, Any] = {
        "images": [{"id": 7, "file_name": "a.png"}, {"id": 8, "file_name": "b.png"}],
        "annotations": [
            {"image_id": 8, "caption": "a dog"},
            {"image_id": 8, "category_id": 3, "bbox": [1, 2.5, 3, 4]},
            {"image_id": 7, "caption": "a cat"},
        ],
        "categories": [{"id": 3, "name": "dog"}],
    }
    path.write_text(json.dumps(content | changes))
    return path


def test_coco_with_boxes_in_one_file_or_two(tmp_path: Path) -> None:
    grey(tmp_path, "a.png", "b.png")
    whole = list(CocoCaptions(coco_file(tmp_path / "both.json")))
    assert [(each.file.name, each.captions) for each in whole] == [("b.png", ("a dog",)), ("a.png", ("a cat",))]
    assert whole[0].marks == (BoundingBox("dog", 1, 2.5, 3, 4),)
    texts = coco_file(tmp_path / "t.json", annotations=[{"image_id": 8, "caption": "a dog"}], categories=[])
    reader = CocoCaptions(texts, instances=tmp_path / "both.json")
    assert [each.marks for each in reader] == [whole[0].marks]
    assert tmp_path / "both.json" in reader.paths


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"annotations": [{"image_id": 9, "caption": "x"}]}, "its picture 9 is not among the images"),
        ({"annotations": [{"image_id": 8, "category_id": 4, "bbox": [0, 0, 1, 1]}]}, "its category 4 is not among"),
        ({"annotations": [{"image_id": 8, "category_id": 3, "bbox": [0, 0, 1]}]}, "bbox is not left, top, width"),
        ({"annotations": [{"image_id": 8, "category_id": 3, "bbox": "1"}]}, "bbox is not left, top, width"),
        ({"annotations": [{"image_id": "8", "caption": "x"}]}, "'image_id' is str where a whole number is needed"),
        ({"images": [{"id": 8}]}, "no field 'file_name'"),
        ({"images": 3}, "'images' is int where a list of objects is needed"),
    ],
)
def test_what_is_wrong_in_coco_is_named(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        CocoCaptions(coco_file(tmp_path / "c.json", **changes))


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "c.tsv").write_text("a.png\n")
    with pytest.raises(DataError, match=r"c\.tsv:1: 1 tab-separated column where 2 are needed"):
        CaptionColumns(tmp_path / "c.tsv")
    with pytest.raises(DataError, match="there is no such folder of pictures"):
        CaptionColumns(tmp_path / "c.tsv", pictures=tmp_path / "none")
    with pytest.raises(DataError, match="there is no such file"):
        CaptionColumns(tmp_path / "c.tsv", only=tmp_path / "none")


def test_a_name_that_no_file_can_have_is_that_of_a_missing_picture(tmp_path: Path) -> None:
    (tmp_path / "c.tsv").write_text(f"{'a' * 300}.png\ta cat\n")
    assert CaptionColumns(tmp_path / "c.tsv").paths == (tmp_path / "c.tsv",)


# --- corpora ----------------------------------------------------------------------------------------------


def encoded(folder: Path, examples: list[CaptionedPicture], *, longest: int = 5) -> tuple[Corpus, WordTokenizer]:
    tokenizer = words(*(caption for each in examples for caption in each.captions))
    sight = PixelFeatures(8)
    encoding = build_caption_encoding(
        tokenizer,
        input_spec=sight.array_spec,
        extract=lambda path: sight(SquareResize(8)(read_picture(path)))[None],
        max_length=longest,
    )
    return write_corpus(folder / "corpus", enumerate(examples), encoder=encoding), tokenizer


def test_a_picture_is_stored_once_and_shared_by_its_captions(tmp_path: Path) -> None:
    grey(tmp_path, "a.png", "b.png", "c.png")
    examples = [
        CaptionedPicture(tmp_path / "a.png", ("x y", "z")),
        CaptionedPicture(tmp_path / "b.png", ("y",)),
        CaptionedPicture(tmp_path / "c.png", ("z z z", "x x", "y y")),
    ]
    corpus, tokenizer = encoded(tmp_path, examples)
    assert corpus[INPUT_SIDE].stream.shape == (3, 8, 8, 3)
    special = tokenizer.special
    captions = split_by_caption(corpus, eos=special.eos)
    assert len(captions) == 6
    assert captions[INPUT_SIDE].stream is corpus[INPUT_SIDE].stream
    told = [(each, text) for each in examples for text in each.captions]
    for row, (each, text) in enumerate(told):
        assert captions[CAPTION_SIDE][row].tolist() == [*tokenizer.encode(text), special.eos]
        assert np.array_equal(captions[INPUT_SIDE][row][0], read_picture(each.file))
    rows = np.array([5, 0, 3])
    batch = collate_captions(captions, rows, bos=special.bos)
    for place, row in enumerate(rows):
        each, text = told[row]
        ids = tokenizer.encode(text)
        assert np.array_equal(batch.source[place].numpy(), read_picture(each.file))
        assert batch.labels[place].tolist()[: len(ids) + 1] == [*ids, special.eos]
        assert batch.target.ids[place].tolist()[: len(ids) + 1] == [special.bos, *ids]
        assert set(batch.labels[place].tolist()[len(ids) + 1 :]) <= {-1}


def test_what_cannot_be_used_is_left_out_and_named(tmp_path: Path) -> None:
    grey(tmp_path, "a.png", "d.png", "e.png", "f.png")
    (tmp_path / "b.png").write_bytes(b"no picture")
    examples = [
        CaptionedPicture(tmp_path / "a.png", ("x", "x x x x x", "y y y y")),
        CaptionedPicture(tmp_path / "b.png", ("x",)),
        CaptionedPicture(tmp_path / "c.png", ("x",)),
        CaptionedPicture(tmp_path / "d.png", ("x x x x x",)),
        CaptionedPicture(tmp_path / "e.png", ()),
        CaptionedPicture(tmp_path / "f.png", ("y",)),
    ]
    corpus, tokenizer = encoded(tmp_path, examples)
    assert corpus[NUMBER_SIDE].stream.tolist() == [0, 5]
    assert (corpus.report.kept, corpus.report.empty, corpus.report.too_long) == (2, 3, 1)
    captions = split_by_caption(corpus, eos=tokenizer.special.eos)
    assert [len(captions[CAPTION_SIDE][row]) for row in range(3)] == [2, 5, 2], "too long ones alone are left out"
    said = list(explain_unreadable(examples, corpus, extract=read_picture))
    assert len(said) == 2
    assert "b.png: is not a picture" in said[0]
    assert "c.png: there is no such picture" in said[1]


# --- a trained captioner ----------------------------------------------------------------------------------

RECIPE = """\
task = "captioning"
seed = 2
output = "{run}"

[data]
train = {{ path = "train.json", pictures = "pictures" }}
validation = {{ path = "test.json", pictures = "pictures" }}
picture_size = 32
max_length = 24

[model]
d_model = 24
pictures = {{ widths = [12, 16, 24] }}
decoder = {{ kind = "recurrent", start = "mlp", reading = {{ gate = true }} }}

[training]
steps = 12
batch_tokens = 400
schedule = {{ kind = "constant", rate = 1e-2 }}
precision = "fp32"
evaluate_every = 6
doubly_stochastic = 0.1

[generation]
kind = "greedy"
max_extra = 20
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures, one of them broken, and a recipe."""
    made = tmp_path_factory.mktemp("captioning")
    (made / "pictures").mkdir()
    for part, count in (("train", 40), ("test", 10)):
        files, table = build_coco_files(generate_scenes(part, count, size=32), stem=part)
        for name, content in files.items():
            (made / "pictures" / name).write_bytes(content)
        (made / f"{part}.json").write_text(table)
    (made / "pictures/train00003.png").write_bytes(b"broken")
    (made / "recipe.toml").write_text(RECIPE.format(run=made / "run"))
    return made


def train(folder: Path, name: str, *words: str) -> tuple[Path, list[str]]:
    said: list[str] = []
    recipe = load_recipe(folder / "recipe.toml", ["--output", str(folder / name), *words])
    return heedful.train(recipe, device="cpu", say=said.append).folder, said


@pytest.fixture(scope="module")
def trained(folder: Path) -> tuple[Path, list[str]]:
    return train(folder, "run")


@pytest.fixture(scope="module")
def captioner(trained: tuple[Path, list[str]]) -> Captioner:
    model = heedful.load(trained[0], device="cpu")
    assert isinstance(model, Captioner)
    return model


def shown(folder: Path, count: int = 6) -> list[Path]:
    return sorted((folder / "pictures").glob("test*.png"))[:count]


def test_a_broken_picture_is_left_out_and_named(trained: tuple[Path, list[str]], folder: Path) -> None:
    assert [line for line in trained[1] if "train00003.png: is not a picture" in line]
    assert [line for line in trained[1] if "39 training pictures" in line and "1 empty" in line]


def test_files_arrays_and_batches_give_the_same_captions(captioner: Captioner, folder: Path) -> None:
    paths = shown(folder)
    together = captioner.caption(paths)
    assert [each.text for each in captioner.caption([read_picture(path) for path in paths])] == [
        each.text for each in together
    ]
    assert [captioner.caption([path])[0].text for path in paths] == [each.text for each in together]
    assert [each.text for each in captioner.caption(paths, together=2)] == [each.text for each in together]
    assert captioner.caption([]) == []
    assert together[0].name == str(paths[0])
    other = Image.open(paths[0]).convert("RGBA").resize((50, 50))
    assert isinstance(captioner.caption([np.array(other.convert("RGB"))])[0].text, str), "any size is framed"


def test_searches_and_scores_agree(captioner: Captioner, folder: Path) -> None:
    paths = shown(folder, 3)
    special = captioner.target.tokenizer.special
    found = captioner.caption(paths, search=BeamSearch(special.eos, 3, GNMTLengthPenalty(0.6), 2))
    for path, each in zip(paths, found, strict=True):
        assert len(each.candidates) == 2
        best = each.candidates[0]
        if best.finished:
            # the beam's sums were made step by step
            assert captioner.score([(path, best.text)])[0].log_probability == pytest.approx(
                best.log_probability, abs=1e-3
            )


def test_attention_is_a_distribution_over_regions(captioner: Captioner, folder: Path) -> None:
    pairs = [(path, text) for path in shown(folder, 2) for text in ("a red circle", "a white cross above a red square")]
    for (_, text), looked in zip(pairs, captioner.attend(pairs), strict=True):
        assert looked.weights.shape == (len(text.split()) + 1, 4, 4)
        np.testing.assert_allclose(looked.weights.sum((1, 2)), 1, atol=1e-5)
        assert looked.tokens == (*text.split(), "</s>")


def test_a_record_has_the_picture_and_all_its_regions(captioner: Captioner, folder: Path) -> None:
    path = shown(folder)[0]
    record = captioner.inspect_request(InspectRequest(str(path), "a red circle"))
    axis = record.get_axis("source")
    assert (axis.kind, axis.columns, len(axis.tokens)) == ("grid", 4, 16)
    assert np.array_equal(axis.pictures[0], read_picture(path))
    assert [each.token for each in record.written] == ["a", "red", "circle", "</s>"]
    looked = captioner.attend([(path, "a red circle")])[0].weights
    found = next(each for each in record.maps if each.role == "cross")
    np.testing.assert_allclose(found.weights[0].reshape(4, 4, 4), looked, atol=1e-5)
    own = captioner.inspect_request(InspectRequest(str(path)))
    assert "".join(f"{each.token} " for each in own.written[:-1]).strip() == captioner.caption([path])[0].text
    with pytest.raises(RecipeError, match="--tokens: is an option of language models"):
        captioner.inspect_request(InspectRequest(str(path), max_tokens=3))
    with pytest.raises(RecipeError, match="--beam: this run's recipe does not search"):
        captioner.inspect_request(InspectRequest(str(path), beam=3))


def test_training_is_deterministic_and_resumes(trained: tuple[Path, list[str]], folder: Path) -> None:
    again, _ = train(folder, "again", "--training.steps", "6")
    again, said = train(folder, "again")
    assert "resuming this run" in said
    assert (again / "model.safetensors").read_bytes() == (trained[0] / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        ["--model.decoder.reading", '{ weights = "sampled", expected = 0.5, gate = true }'],
        ["--model.decoder.reading", '{ kind = "context", enters = "start" }', "--training.doubly_stochastic", "0"],
        [
            "--model.decoder",
            '{ kind = "transformer", layers = 1, heads = 2, d_ff = 32 }',
            "--training.monitor",
            "cider",
        ],
    ],
    ids=["hard", "none", "transformer"],
)
def test_all_ways_to_look_are_trained_and_examined(folder: Path, options: list[str], tmp_path: Path) -> None:
    steps = ["--training.steps", "2", "--training.evaluate_every", "1"]
    run, _ = train(folder, str(tmp_path / "run"), *options, *steps)
    opened = open_run(run)
    exam = build_run_evaluator(run, opened.recipe, DEFAULT_OPTIONS)
    told = compute_answers(opened, exam, device="cpu")
    metrics = exam.compute_metrics(told)
    attentive = options[1].find("context") < 0
    assert ("pointing" in metrics) == ("unread" in metrics) == attentive
    assert all(np.isfinite(metric.value) for metric in metrics.values())


def test_the_exam_names_what_it_leaves_out(folder: Path, captioner: Captioner) -> None:
    pictures = [*CocoCaptions(folder / "test.json", pictures=folder / "pictures")]
    broken = replace(pictures[0], file=folder / "pictures/train00003.png")
    exam = build_caption_evaluator([broken, *pictures[1:]], train=pictures)
    assert exam.size == len(pictures) - 1
    assert "train00003.png: is not a picture" in exam.data_warnings[0]
    with pytest.raises(DataError, match="no picture with captions"):
        build_caption_evaluator([broken], train=pictures)


def test_captions_that_are_right_have_all_points(folder: Path) -> None:
    pictures = [*CocoCaptions(folder / "test.json", pictures=folder / "pictures")]
    exam = build_caption_evaluator(pictures, train=pictures)
    metrics = exam.compute_metrics(CaptioningOutputs([each.captions[-1] for each in pictures]))
    for name in ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "exact match"):
        assert metrics[name].value == pytest.approx(100)
    assert exam.compute_metrics(exam.baseline_answers)["exact match"].value < 50


class Pointer(Captioner):
    """Looks where it is told to."""

    def __init__(self, captioner: Captioner, look: Callable[[str], tuple[int, int]]) -> None:
        vars(self).update(vars(captioner))
        self.where = look

    def attend(self, pairs: Any, *, together: int = 32) -> list[CaptionAttention]:
        found = []
        for _, text in pairs:
            tokens = (*text.split(), "</s>")
            weights = np.zeros((len(tokens), 4, 4))
            for step, token in enumerate(tokens):
                weights[(step, *self.where(token))] = 1
            found.append(CaptionAttention(tokens, weights))
        return found


def test_the_pointing_game_is_won_by_who_looks_at_what_is_named(captioner: Captioner, tmp_path: Path) -> None:
    grey(tmp_path, "a.png", size=64)
    # of 64 pixels framed to 32, a region is 16 wide: the box of the dog holds the middle of region (1, 2)
    boxes = (BoundingBox("dog", 36, 20, 8, 8), BoundingBox("old cat", 0, 48, 16, 16), BoundingBox("cow", 0, 0, 64, 64))
    picture = CaptionedPicture(tmp_path / "a.png", ("a dog and an Old cat", "hotdog"), boxes)
    exam = build_caption_evaluator([picture], train=[picture])
    places = {"dog": (1, 2), "Old": (3, 0), "cat": (3, 0)}
    right = Pointer(captioner, lambda token: places.get(token, (0, 0)))
    told = exam.predict_labels(right)
    assert told.pointing_counts.tolist() == [[2, 2]], "hotdog is no dog, and nobody named the cow"
    wrong = Pointer(captioner, lambda token: places.get(token, (0, 0)) if token != "dog" else (2, 1))
    assert exam.predict_labels(wrong).pointing_counts.tolist() == [[1, 2]]
    # 7 and 2 tokens, of which most look at region (0, 0): sums of 4, 1, 2 and of 2 by hand
    first = ((1 - 4) ** 2 + (1 - 1) ** 2 + (1 - 2) ** 2 + 13) / 16
    second = ((1 - 2) ** 2 + 15) / 16
    assert told.unattended.tolist() == pytest.approx([(first + second) / 2])


# --- a network that learns nothing, and one that learns on -------------------------------------------------


@pytest.fixture(scope="module")
def weights(folder: Path) -> Path:
    """Of a small residual network, under torchvision's names."""
    made = torch.Generator().manual_seed(4)
    tensors: dict[str, torch.Tensor] = {}

    def part(conv: str, norm: str, *shape: int) -> None:
        scale = (2 / (shape[1] * shape[2] * shape[3])) ** 0.5
        tensors[f"{conv}.weight"] = torch.randn(shape, generator=made) * scale
        for name, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
            tensors[f"{norm}.{name}"] = torch.full((shape[0],), value)

    part("conv1", "bn1", 64, 3, 7, 7)
    for stage, width, before in ((1, 64, 64), (2, 128, 64)):
        for block in range(2):
            name = f"layer{stage}.{block}"
            part(f"{name}.conv1", f"{name}.bn1", width, before if block == 0 else width, 3, 3)
            part(f"{name}.conv2", f"{name}.bn2", width, width, 3, 3)
        if before != width:
            part(f"layer{stage}.0.downsample.0", f"layer{stage}.0.downsample.1", width, before, 1, 1)
    save_file(tensors, folder / "resnet18.safetensors")
    return folder / "resnet18.safetensors"


def of_weights(weights: Path, *, frozen: bool) -> list[str]:
    table = f'{{ kind = "resnet", depth = 18, stride = 8, weights = "{weights}", frozen = {str(frozen).lower()} }}'
    return ["--model.pictures", table, "--training.steps", "3", "--training.evaluate_every", "3"]


def test_a_frozen_network_is_a_file_of_the_run(folder: Path, weights: Path) -> None:
    run, _ = train(folder, "frozen", *of_weights(weights, frozen=True))
    opened = open_run(run)
    assert (run / "tokenizer/pictures").is_file()
    corpus = Corpus.open(run / "data/train")
    assert corpus[INPUT_SIDE].stream.shape == (39, 4, 4, 128)
    assert corpus[INPUT_SIDE].stream.dtype == np.float16
    weights.rename(weights.with_suffix(".gone"))  # the run needs nothing but itself
    try:
        captioner = heedful.load(run, device="cpu")
        path = shown(folder)[0]
        network = ResNet(18, stride=8)
        assert captioner.picture_features.network.state_dict().keys() == network.state_dict().keys()
        assert captioner.extract_features(path).shape == (4, 4, 128)
        assert captioner.caption([path])[0].text == captioner.caption([read_picture(path)])[0].text
    finally:
        weights.with_suffix(".gone").rename(weights)
    names = [name for name, _ in opened.build_model().named_parameters()]
    assert not [name for name in names if "vision" in name], "nothing of it learns"
    damaged = bytearray((run / "tokenizer/pictures").read_bytes())
    damaged[-1] ^= 1
    (run / "tokenizer/pictures").write_bytes(bytes(damaged))
    with pytest.raises(RunError, match="tokenizer/pictures"):
        heedful.load(run, device="cpu")


def test_a_network_that_learns_on_begins_with_its_weights(folder: Path, weights: Path) -> None:
    from heedful.foreign.vision_weights import load_vision_weights
    from heedful.runs.initialization import create_run, init_model

    recipe = load_recipe(folder / "recipe.toml", ["--output", str(folder / "on"), *of_weights(weights, frozen=False)])
    said: list[str] = []
    model = init_model(create_run(folder / "on", recipe), log=said.append)
    expected = ResNet(18, stride=8)
    load_vision_weights(expected, weights)
    for name, tensor in expected.state_dict().items():
        assert torch.equal(tensor, model.encoder.vision.state_dict()[name])
    assert any("begins with these weights" in line for line in said)
    run, _ = train(folder, "on", *of_weights(weights, frozen=False))
    after = heedful.load(run, device="cpu").model.encoder.vision.state_dict()
    assert not torch.equal(after["layers.0.conv.weight"], expected.state_dict()["layers.0.conv.weight"])


# --- what does not fit ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--data.picture_size", "36"], "data.picture_size = 36 must be a multiple of 8"),
        (["--model.decoder", '{ kind = "transformer", d_model = 32 }'], "must be model.d_model = 24"),
        (["--model.decoder.reading.expected", "0.5"], 'only for weights = "sampled"'),
        (["--training.reinforce.reward", "1.0"], 'set model.decoder.reading.weights = "sampled"'),
        (["--model.pictures", '{ kind = "resnet" }'], "model.pictures.weights is missing"),
        (["--model.pictures", '{ kind = "resnet", weights = "none.pth" }'], "does not exist"),
        (["--data.train.caption_column", "1"], "caption_column"),
        (["--training.doubly_stochastic", "-1"], "training.doubly_stochastic"),
        (
            [
                "--model.decoder",
                '{ kind = "transformer", heads = 2, positions = { kind = "learned", length = 24 } }',
            ],
            "must be above data.max_length = 24",
        ),
    ],
)
def test_what_does_not_fit_is_told(folder: Path, tmp_path: Path, options: list[str], said: str) -> None:
    with pytest.raises(HeedfulError) as error:
        train(folder, str(tmp_path / "run"), *options)
    assert said in str(error.value)


def test_unknown_words_and_nothing_to_look_at(captioner: Captioner, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such picture"):
        captioner.caption([tmp_path / "none.png"])
    assert captioner.score([(shown(folder)[0], "a zebra")])[0].count == 3
    assert captioner.score([(shown(folder)[0], "")])[0].count == 1
    assert isinstance(captioner.search, GreedySearch)
