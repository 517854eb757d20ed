"""Looking at pictures: reading them, scenes, chance, what is learned and what is told."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from external_data import find_external_data
from torch import nn

from heedful.architectures.build_vision import build_picture_classifier
from heedful.architectures.vision import GlimpsesConfig, WholePictureFeedForwardConfig
from heedful.data.corpus import Corpus, write_corpus
from heedful.data.labels import LabelVocabulary
from heedful.data.pictures import encode_png
from heedful.data.random_numbers import SeededRandom
from heedful.errors import DataError, RecipeError
from heedful.models.picture_classifier import PictureClassifier
from heedful.tasks.glimpses.data import (
    ByteFilePictures,
    CanvasRenderer,
    FolderPictures,
    IdxPictures,
    LabelledPicture,
    PictureReader,
    PlainRenderer,
    SceneRenderer,
    build_picture_encoding,
    fit_picture_to_shape,
    hash_pixels,
    render_scenes,
    sample_picture_noise,
    sample_training_noise,
    warp_pictures,
)
from heedful.tasks.glimpses.demonstration import draw_digit, encode_idx, generate_digits
from heedful.tasks.glimpses.predictor import GlimpsePredictor
from heedful.tasks.glimpses.recipe import GlimpsesTrainingConfig, LookingConfig, WarpConfig
from heedful.tasks.glimpses.task import GlimpsesObjective, build_picture_evaluator
from heedful.tasks.predictor import InspectRequest

SHAPE = (1, 6, 5)
LABELS = LabelVocabulary(["a", "b", "c"])


def noise(count: int, *, seed: int = 1, shape: tuple[int, int, int] = SHAPE) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def pictures(count: int, *, seed: int = 1) -> list[LabelledPicture]:
    return [LabelledPicture(pixels, "abc"[n % 3], f"x:{n}") for n, pixels in enumerate(noise(count, seed=seed))]


def model(**options: object) -> PictureClassifier:
    table = {"d_model": 8, "d_glimpse": 4, "glimpses": 3, "patch": 2, "scales": 2, "spread": 0.3, **options}
    made = build_picture_classifier(GlimpsesConfig.model_validate(table), picture=SHAPE, classes=3)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5)
    return made.eval()


def problem(
    folder: Path, *, scene: SceneRenderer | None = None, draws: int = 3, seed: int = 1, **options: Any
) -> GlimpsesObjective:
    parts = [
        write_corpus(folder / name, pictures(count, seed=seed), encoder=build_picture_encoding(LABELS, SHAPE))
        if not (folder / name).exists()
        else Corpus.open(folder / name)
        for name, count, seed in (("train", 20, 1), ("validation", 7, 2))
    ]
    looking = LookingConfig(copies=options.pop("looks", 1))
    config = GlimpsesTrainingConfig.model_validate({"steps": 1, "batch_tokens": 6, **options})
    return GlimpsesObjective(
        *parts,
        renderer=scene or PlainRenderer(),
        config=config,
        looking=looking,
        draws=draws,
        seed=seed,
        device=torch.device("cpu"),
    )


# --- reading ----------------------------------------------------------------------------------------------


def files(folder: Path, shown: np.ndarray, labels: Sequence[int], *, packed: bool = False) -> tuple[Path, Path]:
    paths = folder / "images", folder / "labels"
    for path, array in zip(paths, (shown, np.array(labels, dtype=np.uint8)), strict=True):
        path.write_bytes(gzip.compress(encode_idx(array)) if packed else encode_idx(array))
    return paths


def read(reader: PictureReader) -> list[tuple[bytes, str]]:
    found = list(reader)
    assert all(each.pixels.shape == reader.shape and each.pixels.dtype == np.uint8 for each in found)
    return [(each.pixels.tobytes(), each.label) for each in found]


@pytest.mark.parametrize("packed", [False, True])
def test_idx_grey_and_in_colours(tmp_path: Path, packed: bool) -> None:
    grey, colours = noise(4)[:, 0], noise(4, shape=(6, 5, 3))
    images, labels = files(tmp_path, grey, [3, 1, 4, 1], packed=packed)
    assert read(IdxPictures(images, labels=labels, shape=SHAPE)) == [
        (pixels.tobytes(), name) for pixels, name in zip(grey, "3141", strict=True)
    ]
    images, labels = files(tmp_path, colours, [0, 1, 0, 1], packed=packed)
    first = next(iter(IdxPictures(images, labels=labels, shape=(3, 6, 5))))
    assert np.array_equal(first.pixels, colours[0].transpose(2, 0, 1))
    assert first.location == f"{images}:0"


def test_files_of_bytes_and_folders_of_pictures(tmp_path: Path) -> None:
    shown = noise(5)
    (tmp_path / "bytes").mkdir()
    (tmp_path / "bytes/b.u8.gz").write_bytes(gzip.compress(shown[:2].tobytes()))
    (tmp_path / "bytes/c").write_bytes(shown[2:].tobytes())
    expected = [(pixels.tobytes(), name) for pixels, name in zip(shown, "bbccc", strict=True)]
    assert read(ByteFilePictures(tmp_path / "bytes", shape=SHAPE)) == expected
    for number, (pixels, name) in enumerate(zip(shown, "bbccc", strict=True)):
        path = tmp_path / f"folders/{name}/{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_png(np.repeat(pixels.transpose(1, 2, 0), 3, axis=2)))
    assert read(FolderPictures(tmp_path / "folders", shape=SHAPE)) == expected
    assert {len(pixels) for pixels, _ in read(FolderPictures(tmp_path / "folders", shape=(3, 4, 8)))} == {96}


def test_colours_become_as_light_as_they_look() -> None:
    colours = np.zeros((1, 4, 3), dtype=np.uint8)
    colours[0, [0, 1, 2], [0, 1, 2]] = 200
    colours[0, 3] = 200
    assert fit_picture_to_shape(colours, (1, 1, 4)).tolist() == [[[60, 117, 23, 200]]]


def test_parts_have_no_picture_in_common_and_are_all_of_them(tmp_path: Path) -> None:
    shown = np.concatenate([noise(20), noise(20)[:10], noise(3, seed=7)])[:, 0]
    images, labels = files(tmp_path, shown, [0] * 33)
    cuts = [0, 7, 15, 16, 24, None]
    parts = [
        read(IdxPictures(images, labels=labels, shape=SHAPE, start=start or 0, stop=stop))
        for start, stop in pairwise(cuts)
    ]
    seen = [{pixels for pixels, _ in part} for part in parts]
    assert sum(map(len, seen)) == len(set().union(*seen)) == 23
    assert sum(map(len, parts)) == 33
    assert all(abs(len(part) - size) <= 1 for part, size in zip(parts, (7, 8, 1, 8, 9), strict=True))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            {"labels": encode_idx(np.zeros(3, np.uint8))},
            r"has 4 pictures and .* 3 labels; name files that belong together",
        ),
        ({"labels": b"\0\0\x08"}, "is too short for an IDX file"),
        (
            {"labels": encode_idx(np.zeros((4, 1), np.uint8))},
            "begins with 00000802; it must be an IDX file with bytes along 1 axes",
        ),
        ({"images": encode_idx(noise(4)[:, 0])[:-1]}, "has 119 bytes, but declares 4 x 6 x 5"),
        ({"images": encode_idx(noise(4)[:, 0, :5])}, r"pictures of 1 x 5 x 5 .* says 1 x 6 x 5; set data.channels"),
        ({"images": struct.pack(">HBB3I", 0, 13, 3, 0, 0, 0)}, "begins with 00000d03"),
        ({"images": gzip.compress(bytes(50))[:-9]}, "damaged gzip file"),
        ({"start": 4}, "holds 4 pictures, but those from 4 to 4 are requested"),
        ({"stop": 5}, "holds 4 pictures, but those from 0 to 5 are requested"),
    ],
)
def test_damaged_idx(tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
    images, labels = files(tmp_path, noise(4)[:, 0], [0] * 4)
    images.write_bytes(change.pop("images", images.read_bytes()))
    labels.write_bytes(change.pop("labels", labels.read_bytes()))
    with pytest.raises(DataError, match=complaint):
        list(IdxPictures(images, labels=labels, shape=SHAPE, **change))


def test_damaged_folders(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a folder that can be read"):
        ByteFilePictures(tmp_path / "none", shape=SHAPE)
    with pytest.raises(DataError, match="has no files, one for each class"):
        ByteFilePictures(tmp_path, shape=SHAPE)
    (tmp_path / "a").write_bytes(bytes(31))
    with pytest.raises(DataError, match="a: has 31 bytes, which is not a whole number of pictures of 1 x 6 x 5"):
        list(ByteFilePictures(tmp_path, shape=SHAPE))
    with pytest.raises(DataError, match="has no folders, one for each class"):
        FolderPictures(tmp_path, shape=SHAPE)
    with pytest.raises(DataError, match=r"x:0: class 'd' is not among those of data\.train"):
        write_corpus(
            tmp_path / "c", [LabelledPicture(noise(1)[0], "d", "x:0")], encoder=build_picture_encoding(LABELS, SHAPE)
        )


# --- scenes and chance ------------------------------------------------------------------------------------


def test_a_canvas_shows_the_picture_whole_and_pieces_of_others() -> None:
    picture, others = noise(1)[0] // 2 + 60, noise(5, seed=3)
    places = set()
    for number in range(40):
        made = CanvasRenderer(9).render(picture, others, SeededRandom(1, number))
        rows, columns = (np.flatnonzero(made[0].any(axis)) for axis in (1, 0))
        assert (len(rows), len(columns)) == (6, 5)
        assert np.array_equal(made[:, rows[0] : rows[0] + 6, columns[0] : columns[0] + 5], picture)
        places.add((rows[0], columns[0]))
        cluttered = CanvasRenderer(9, pieces=2, piece=3).render(picture, others, SeededRandom(1, number))
        assert (cluttered >= made).all() and (cluttered > made).any()
        assert (cluttered != made).sum() <= 18
    assert {row for row, _ in places} == set(range(4))
    assert {column for _, column in places} == set(range(5))


def test_scenes_depend_on_number_and_seed_alone() -> None:
    shown, scene = noise(6), CanvasRenderer(12, pieces=2, piece=3)
    together = render_scenes(scene, shown, others=shown, numbers=range(6))
    alone = render_scenes(scene, shown[3:4], others=shown, numbers=[3])
    assert np.array_equal(together[3:4], alone)
    assert not np.array_equal(alone, render_scenes(scene, shown[3:4], others=shown, numbers=[9]))
    assert not np.array_equal(alone, render_scenes(scene, shown[3:4], others=shown, numbers=[3], seed=2))


def test_warping_moves_and_keeps() -> None:
    shown = np.zeros((3, 1, 21, 15), dtype=np.uint8)
    shown[:, :, 8:13, 5:10] = 200
    numbers = np.array([4, 5, 6])
    still = WarpConfig(degrees=0, scale=0, shear=0, shift=0)
    assert np.array_equal(warp_pictures(shown, numbers, **still.model_dump(), seed=1), shown)
    shifted = warp_pictures(
        shown, numbers, **WarpConfig(degrees=0, scale=0, shear=0, shift=3).model_dump(), seed=1
    ).astype(float)
    assert shifted.sum((1, 2, 3)) == pytest.approx(shown.astype(float).sum((1, 2, 3)), rel=0.02)  # bytes are rounded
    middle = (shifted * np.arange(21)[:, None]).sum((1, 2, 3)) / shifted.sum((1, 2, 3))
    assert (abs(middle - 10) <= 3.1).all() and abs(middle - 10).max() > 0.5
    turned = warp_pictures(
        shown, numbers, **WarpConfig(degrees=45, scale=0, shear=0, shift=0).model_dump(), seed=1
    ).astype(float)
    # a square that is turned is as large as before, in a picture that is no square either
    assert turned.sum((1, 2, 3)) == pytest.approx(shown.astype(float).sum((1, 2, 3)), rel=0.05)
    rows, columns = np.mgrid[-10:11, -7:8]
    spread = [(each * (rows**2 + columns**2)).sum((1, 2, 3)) / each.sum((1, 2, 3)) for each in (turned, shown)]
    assert spread[0] == pytest.approx(spread[1], rel=0.1), "rays are turned, not drawn out"  # pixels are blurred
    usual = WarpConfig().model_dump()
    alone = warp_pictures(shown[1:2], numbers[1:2], **usual, seed=1)[0]
    assert np.array_equal(alone, warp_pictures(shown, numbers, **usual, seed=1)[1])


def test_chance_is_of_a_picture_whatever_stands_beside_it() -> None:
    shown = noise(4)
    several = sample_picture_noise(shown, copies=5, draws=3, seed=1)
    assert several.shape == (4, 5, 3, 2)
    assert torch.equal(sample_picture_noise(shown[2:3], copies=2, draws=3, seed=1)[0], several[2, :2])
    assert not torch.equal(sample_picture_noise(shown, copies=5, draws=3, seed=2), several)
    assert several.min() >= 0 and several.max() < 1
    numbers = np.array([3, 23])
    first, second = sample_training_noise(numbers, copies=2, draws=9, seed=1)
    assert not torch.equal(first, second), "another way in each epoch"
    assert torch.equal(sample_training_noise(numbers[1:], copies=2, draws=9, seed=1)[0], second)


# --- what is learned --------------------------------------------------------------------------------------


@torch.no_grad()
def test_loss_and_metrics_are_those_of_each_picture_alone(tmp_path: Path) -> None:
    made = model()
    what = problem(tmp_path, scene=CanvasRenderer(8, pieces=1, piece=2), copies=2, looks=3)
    numbers = what.plan_epoch(0)[0] + 20
    whole = what.loss(made, what.build_batch(numbers))
    alone = [what.loss(made, what.build_batch(numbers[row : row + 1])) for row in range(len(numbers))]
    assert whole.count == len(numbers)
    assert float(whole.total) == pytest.approx(sum(float(each.total) for each in alone), rel=1e-4)
    for name, part in whole.parts.items():
        assert float(part.total) == pytest.approx(sum(float(each.parts[name].total) for each in alone), rel=1e-4)

    face = GlimpsePredictor(made, labels=LABELS, shape=(1, 8, 8), draws=3, looking=LookingConfig(copies=3))
    plain = [each.pixels for each in pictures(7, seed=2)]
    exam = build_picture_evaluator(pictures(7, seed=2), renderer=what.renderer, train=pictures(20))
    sights = face.look_at(list(render_scenes(what.renderer, plain, others=plain, numbers=range(7))), batch=2)
    right = [sight.label == "abc"[number % 3] for number, sight in enumerate(sights)]
    losses = [-np.log(sight.probabilities["abc"[number % 3]]) for number, sight in enumerate(sights)]
    assert what.evaluate(made) == pytest.approx({"loss": np.mean(losses), "accuracy": np.mean(right)}, rel=1e-4)
    answers = exam.predict(face, None)  # type: ignore[arg-type]  # it is not read
    assert answers == [sight.labels_after for sight in sights]
    assert exam.compute_metrics(answers)["accuracy"].value == pytest.approx(np.mean(right))
    assert [*exam.compute_metrics(answers)] == ["accuracy", "after 1", "after 2"]
    assert exam.compute_metrics(exam.baseline_answers)["accuracy"].value == pytest.approx(3 / 7)


def test_each_epoch_has_every_picture_once_and_shows_it_in_another_way(tmp_path: Path) -> None:
    what = problem(tmp_path, scene=CanvasRenderer(9), warp={"degrees": 20.0})
    for epoch in (0, 3):
        numbers = np.sort(np.concatenate(what.plan_epoch(epoch)))
        assert numbers.tolist() == list(range(20 * epoch, 20 * epoch + 20))
    first, later = what.build_batch(np.array([4])), what.build_batch(np.array([24]))
    assert first.labels.tolist() == later.labels.tolist() == [1]
    assert not torch.equal(first.pictures, later.pictures)
    assert not torch.equal(first.noise, later.noise)
    again = problem(tmp_path, scene=CanvasRenderer(9), warp={"degrees": 20.0}).build_batch(np.array([2, 24]))
    assert torch.equal(again.pictures[1], later.pictures[0])
    assert first.pictures.min() >= 0 and 0.5 < first.pictures.max() <= 1


@torch.no_grad()
def test_pictures_side_by_side_are_told_as_alone() -> None:
    shown = list(noise(9))
    for made, draws in ((model(), 3), (model(cell="lstm", policy="random"), 3)):
        face = GlimpsePredictor(made, labels=LABELS, shape=SHAPE, draws=draws, looking=LookingConfig(copies=2))
        together = face.look_at(shown, batch=4)
        for pixels, sight in zip(shown, together, strict=True):
            alone = face.look_at([pixels])[0]
            assert alone.probabilities == pytest.approx(dict(sight.probabilities), rel=1e-4)
            assert alone.labels_after == sight.labels_after
            assert [glance.row for glance in alone.glimpses] == pytest.approx(
                [each.row for each in sight.glimpses], abs=1e-5
            )
        assert face.look_at([]) == []
        assert all(sum(sight.probabilities.values()) == pytest.approx(1) for sight in together)


def test_many_looks_are_averaged() -> None:
    made, shown = model(), noise(1)
    with torch.no_grad():
        looks = made(torch.from_numpy(shown).float() / 255, sample_picture_noise(shown, copies=40, draws=3, seed=1))
    one, many = (
        GlimpsePredictor(made, labels=LABELS, shape=SHAPE, draws=3, looking=LookingConfig(copies=copies))
        for copies in (1, 40)
    )
    each = looks.logits[0, :, -1].softmax(-1)
    assert [one.look_at(list(shown))[0].probabilities[name] for name in "abc"] == pytest.approx(each[0].tolist())
    assert [many.look_at(list(shown))[0].probabilities[name] for name in "abc"] == pytest.approx(each.mean(0).tolist())
    places = [[glance.row for glance in user.look_at(list(shown))[0].glimpses] for user in (one, many)]
    assert places[0] == pytest.approx(places[1], abs=1e-5)


def test_a_record_has_the_path_over_the_picture(tmp_path: Path) -> None:
    face = GlimpsePredictor(model(), labels=LABELS, shape=SHAPE, draws=3, looking=LookingConfig())
    pixels = noise(1)[0]
    path = tmp_path / "a.png"
    path.write_bytes(encode_png(np.repeat(pixels.transpose(1, 2, 0), 3, axis=2)))
    record = face.inspect_request(InspectRequest(str(path)))
    sight = face.look_at([pixels])[0]
    assert [(glimpse.row, glimpse.column) for glimpse in record.glimpses] == [
        (glance.row, glance.column) for glance in sight.glimpses
    ]
    assert record.glimpses[0].sizes == pytest.approx((2 / 6, 4 / 6))
    assert record.glimpses[-1].options == record.answers[0].options, "of one look the last glimpse says the class"
    assert record.answers[0].answer_text == sight.label
    shown = record.axes[0].pictures
    assert shown is not None
    assert np.array_equal(shown[0, :, :, 1], pixels[0])
    config = WholePictureFeedForwardConfig(d_model=4)
    control = build_picture_classifier(config, picture=SHAPE, classes=3).eval()
    whole = GlimpsePredictor(control, labels=LABELS, shape=SHAPE, draws=0, looking=LookingConfig(copies=3)).inspect(
        pixels
    )
    assert whole.glimpses == () and "at once" in whole.notes[0]
    with pytest.raises(RecipeError, match="this model has no attention"):
        face.inspect_request(InspectRequest(str(path), selection=InspectRequest("").selection.__class__(layers=(1,))))


# --- digits drawn by rule ---------------------------------------------------------------------------------


def test_drawn_digits_differ_and_are_the_same_again() -> None:
    found = list(generate_digits(300, seed=5))
    assert len({hash_pixels(each.pixels) for each in found}) == 300
    assert [each.label for each in found] == [number % 10 for number in range(300)]
    assert np.array_equal(
        found[7].pixels, next(each for n, each in enumerate(generate_digits(8, seed=5)) if n == 7).pixels
    )
    assert not np.array_equal(found[0].pixels, next(generate_digits(1, seed=6)).pixels)
    for each in found:
        assert 8 < (each.pixels > 100).sum() < 130
    assert draw_digit("0", SeededRandom(1)).shape == (16, 16)


def test_digits_of_a_class_are_like_each_other() -> None:
    """The nearest of 350 others, moved by nothing, is of the same class for most: the rule draws digits."""
    found = list(generate_digits(400, seed=2))
    flat = np.stack([each.pixels.ravel() for each in found]).astype(float)
    labels = np.array([each.label for each in found])
    near = ((flat[:50, None] - flat[None, 50:]) ** 2).sum(-1).argmin(1)
    assert (labels[50:][near] == labels[:50]).mean() > 0.85


# --- real digits ------------------------------------------------------------------------------------------


def test_parts_of_real_digits_have_their_share_of_each_class() -> None:
    folder = find_external_data("mnist10k")
    parts = [
        ByteFilePictures(folder, shape=(1, 28, 28), start=start, stop=stop) for start, stop in ((0, 8000), (8000, None))
    ]
    found = [[each.label for each in part] for part in parts]
    assert [len(labels) for labels in found] == [8000, 2000]
    for name in sorted(set(found[0])):
        # of about 1,000 digits of a class 200 are held out; the standard deviation is 12.6
        assert found[1].count(name) / (found[0].count(name) + found[1].count(name)) == pytest.approx(0.2, abs=0.05)
