"""Vision transformers compared with those of transformers: numbers, folders, pictures, and what starts from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor, nn

import heedful
from heedful.__main__ import main
from heedful.architectures.build_vision import build_clip_encoder, build_picture_classifier
from heedful.architectures.vision import TransformerVisionConfig, VisionTransformerConfig
from heedful.data.pictures import encode_png
from heedful.errors import HeedfulError, RunError
from heedful.foreign.picture_folders import PictureModel, load_encoder_weights, open_picture_folder
from heedful.models.vision import ClipBatch
from heedful.recipes.load import load_recipe
from heedful.runs.export import export_ctranslate2, export_hugging_face, export_onnx
from heedful.runs.initialization import create_run, init_model
from heedful.tasks.captioning.demonstration import CaptioningDemonstration
from heedful.tasks.glimpses.predictor import GlimpsePredictor

transformers = pytest.importorskip("transformers", reason="transformers is not installed")


@pytest.fixture(autouse=True)
def _use_float32() -> None:
    torch.set_default_dtype(torch.float32)  # as in their files


NAMES = ["cat", "dog", "fish", "owl", "snail"]
SIZES = {"patch": 4, "d_model": 24, "heads": 3, "layers": 2, "d_ff": 40, "norm_epsilon": 1e-12}
"""What a recipe says of the encoder of `create_vit`."""
COLOURS = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}


def create_vit(folder: Path, *, head: bool = True, steps: dict[str, Any] | None = None, **changes: Any) -> nn.Module:
    """Write a small random ViT of transformers, and what prepares its pictures, into a folder; return it."""
    config = transformers.ViTConfig(
        **{
            "hidden_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 3,
            "intermediate_size": 40,
            "image_size": 16,
            "patch_size": 4,
            "id2label": dict(enumerate(NAMES)),
            "label2id": {name: number for number, name in enumerate(NAMES)},
            **changes,
        }
    )
    torch.manual_seed(1)
    model = (transformers.ViTForImageClassification if head else transformers.ViTModel)(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(1.0 if "layernorm" in name and name.endswith("weight") else 0.0, 0.3)
    model.save_pretrained(folder)
    sides = config.image_size if isinstance(config.image_size, list) else [config.image_size] * 2
    size = {"height": sides[0], "width": sides[1]}
    transformers.ViTImageProcessorPil(**{"size": size, **(steps or {})}).save_pretrained(folder)
    return model


MAKERS: dict[str, Callable[[Path], nn.Module]] = {
    "classifier": create_vit,
    "with_pooler": lambda folder: create_vit(folder, head=False),
    "other_settings": lambda folder: create_vit(
        folder, qkv_bias=False, hidden_act="gelu_new", layer_norm_eps=1e-3, patch_size=8
    ),
    "grey_and_oblong": lambda folder: create_vit(
        folder, num_channels=1, image_size=[8, 16], steps={"image_mean": [0.2], "image_std": [0.4]}
    ),
    "other_colours": lambda folder: create_vit(folder, steps=COLOURS),
}


def read_model(folder: Path) -> tuple[PictureModel, Any]:
    origin = open_picture_folder(folder).picture_model
    model = origin.build().eval()
    model.load_state_dict(dict(origin.tensors))
    return origin, model


@pytest.mark.parametrize("name", MAKERS)
def test_import_and_export(name: str, tmp_path: Path) -> None:
    """Imported models compute the same numbers; exported models have the same tensors, bit by bit."""
    theirs = MAKERS[name](tmp_path / "theirs")
    origin, ours = read_model(tmp_path / "theirs")
    pictures = torch.rand(3, *origin.shape)
    steps = json.loads((tmp_path / "theirs/preprocessor_config.json").read_text(encoding="utf-8"))
    mean, deviation = (torch.tensor(steps[key]).view(1, -1, 1, 1) for key in ("image_mean", "image_std"))
    with torch.no_grad():
        found = theirs(pixel_values=(pictures - mean) / deviation, output_hidden_states=True)
        memory = ours.encoder(pictures)
        if origin.head is None:
            pairs = [(memory.values, found.last_hidden_state[:, 1:]), (memory.summary, found.pooler_output)]
        else:
            hidden = theirs.vit.layernorm(found.hidden_states[-1])
            logits = ours(pictures, torch.zeros(3, 1, 0, 2)).logits[:, 0, 0]
            pairs = [(memory.values, hidden[:, 1:]), (memory.summary, hidden[:, 0]), (logits, found.logits)]
    for mine, expected in pairs:
        assert expected.std() > 0.1
        torch.testing.assert_close(mine, expected, atol=1e-5, rtol=1e-5)

    assert export_hugging_face(tmp_path / "theirs", tmp_path / "again") == ()
    before, after = (load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "again"))
    if origin.head is None:  # they are saved without the prefix of the whole model
        before = {f"vit.{each}": tensor for each, tensor in before.items()}
    assert before.keys() == after.keys()
    assert not [each for each in before if not torch.equal(before[each], after[each])]
    again, told = type(theirs).from_pretrained(tmp_path / "again", output_loading_info=True)
    assert not any(told.values()), told
    state = again.state_dict()
    assert not [each for each, tensor in theirs.state_dict().items() if not torch.equal(tensor, state[each])]
    settings = {"image_size", "patch_size", "num_channels", "qkv_bias", "hidden_act", "layer_norm_eps"}
    settings |= set() if origin.head is None else {"id2label"}
    assert not [key for key in settings if getattr(again.config, key) != getattr(theirs.config, key)]
    written = json.loads((tmp_path / "again/preprocessor_config.json").read_text(encoding="utf-8"))
    assert {key: value for key, value in steps.items() if written.get(key) != value} == {}


@pytest.mark.parametrize(("resample", "steps"), [(0, {}), (1, {}), (2, {}), (3, COLOURS), (2, {"do_normalize": False})])
def test_pictures_are_prepared_like_theirs(resample: int, steps: dict[str, Any], tmp_path: Path) -> None:
    theirs = create_vit(tmp_path, steps={"resample": resample, **steps})
    pixels = np.random.default_rng(1).integers(0, 256, (40, 60, 3)).astype(np.uint8)
    (tmp_path / "a.png").write_bytes(encode_png(pixels))
    processor = transformers.ViTImageProcessorPil.from_pretrained(tmp_path)
    with torch.no_grad():
        values = processor(images=Image.fromarray(pixels), return_tensors="pt").pixel_values
        expected = theirs(pixel_values=values).logits.softmax(-1)[0]
    (found,) = heedful.load(tmp_path, device="cpu", kind=GlimpsePredictor).look_at(tmp_path / "a.png")
    torch.testing.assert_close(
        torch.tensor([found.probabilities[name] for name in NAMES]), expected, atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("config.json", {"hidden_act": "selu"}, "hidden_act = 'selu': heedful has only"),
        ("config.json", {"pooler_act": "relu"}, "pooler_act = 'relu': heedful has only tanh"),
        ("config.json", {"pooler_output_size": 7}, "pooler_output_size = 7: heedful has only hidden_size = 24"),
        ("config.json", {"num_channels": 4}, "num_channels = 4: a picture has a height"),
        ("config.json", {"image_size": [16, 16, 16]}, "image_size = [16, 16, 16]"),
        ("config.json", {"patch_size": [4, 4]}, "patch"),
        ("config.json", {"patch_size": 5}, "patch_size = 5: must divide image_size = 16 evenly"),
        ("config.json", {"num_hidden_layers": 3}, "does not contain tensor vit.encoder.layer.2"),
        ("config.json", {"num_hidden_layers": 1}, "holds the tensor vit.encoder.layer.1"),
        ("config.json", {"problem_type": "multi_label_classification"}, "give a picture one class"),
        ("preprocessor_config.json", {"do_center_crop": True}, "do_center_crop = True: heedful has only False"),
        ("preprocessor_config.json", {"rescale_factor": 0.5}, "rescale_factor = 0.5: heedful has only"),
        (
            "preprocessor_config.json",
            {"size": {"shortest_edge": 16}},
            "heedful resizes pictures to the model's 16 x 16",
        ),
        ("preprocessor_config.json", {"resample": 5}, "resample = 5: heedful has only 0, 1, 2, 3"),
        ("preprocessor_config.json", {"image_mean": [0, "a"]}, "image_mean = [0, 'a']: must be a list of 3 numbers"),
        ("preprocessor_config.json", {"image_std": [0.0]}, "0.0 must be greater than 0"),
        (
            "preprocessor_config.json",
            {"image_mean": [0.1, 0.2]},
            "image_mean = [0.1, 0.2]: must be a list of 3 numbers",
        ),
    ],
)
def test_what_differs_is_an_error_that_names_it(
    file: str, change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    create_vit(tmp_path)
    content = json.loads((tmp_path / file).read_text(encoding="utf-8"))
    (tmp_path / file).write_text(json.dumps(content | change), encoding="utf-8")
    with pytest.raises(RunError) as error:
        heedful.load(tmp_path, device="cpu")
    assert message in str(error.value)


def test_other_uses_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create_vit(tmp_path / "vit")
    create_vit(tmp_path / "headless", head=False)
    with pytest.raises(RunError, match="has no classifier; name the folder in a recipe"):
        heedful.load(tmp_path / "headless", device="cpu")
    for export in (export_onnx, export_ctranslate2):
        with pytest.raises(RunError, match="only Transformers that read or write text can be used"):
            export(tmp_path / "vit", tmp_path / "out")
    assert main(["embed", str(tmp_path / "vit"), "--text", "a"]) == 2
    assert "is a glimpse predictor and not a model that" in capsys.readouterr().err


# what starts from a folder


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe of captions for a few pictures of 48 x 48 pixels."""
    folder = tmp_path_factory.mktemp("scenes")
    return CaptioningDemonstration(output=folder, steps=2, size=20).write_recipe()


def write_table(folder: Path, **changes: Any) -> str:
    """Write the table of the encoder that fits `create_vit`, as an option of the command line."""
    table = {
        "kind": '"vit"',
        "weights": json.dumps(str(folder)),
        **SIZES,
        **changes,
    }
    return "{ " + ", ".join(f"{key} = {value}" for key, value in table.items()) + " }"


@pytest.mark.slow
@pytest.mark.parametrize("frozen", [False, True])
def test_captioning_starts_from_a_published_encoder(frozen: bool, scenes: Path, tmp_path: Path) -> None:
    theirs = create_vit(tmp_path / "vit", image_size=48, patch_size=16)
    options = write_table(tmp_path / "vit", patch=16, frozen=str(frozen).lower())
    recipe = load_recipe(scenes, ["--output", str(tmp_path / "run"), "--model.pictures", options])
    picture = np.random.default_rng(1).integers(0, 256, (48, 48, 3)).astype(np.uint8)
    with torch.no_grad():
        values = torch.from_numpy(picture).permute(2, 0, 1)[None] / 127.5 - 1
        expected = theirs.vit(pixel_values=values).last_hidden_state[0, 1:].view(3, 3, 24)
    if frozen:
        captioner = heedful.load(heedful.train(recipe).folder, device="cpu")
        found = torch.from_numpy(captioner.picture_features(picture).astype(np.float32))
        torch.testing.assert_close(found, expected, atol=1e-2, rtol=1e-2)  # in half precision
        assert captioner.caption([picture])[0].candidates
        return
    run = create_run(tmp_path / "run", recipe)
    model = init_model(run, log=lambda _: None).eval()
    with torch.no_grad():
        torch.testing.assert_close(model.encoder.vision(torch.from_numpy(picture)[None])[0], expected)
    captioner = heedful.load(heedful.train(recipe).folder, device="cpu")
    record = captioner.inspect(picture)
    assert {attention_map.role for attention_map in record.maps} == {"cross"}
    assert "does not declare what attends to what" in record.notes[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": 3, "heads": 4}, "its weights need heads = 3, layers = 2 in the table of the model; set that"),
        ({"mean": "[0.1]"}, "its weights need mean = [0.5]"),
        ({"patch": 5}, "data.picture_size = 48 must be a multiple of 5"),
        ({"weights": '"none"'}, "none: does not exist; check model.pictures.weights"),
        ({"weights": '"."'}, "is not a Hugging Face folder of a ViT"),
    ],
)
def test_weights_that_do_not_fit(changes: dict[str, Any], message: str, scenes: Path, tmp_path: Path) -> None:
    create_vit(tmp_path / "vit")
    with pytest.raises(HeedfulError) as error:
        options = ["--model.pictures", write_table(tmp_path / "vit", **changes)]
        heedful.train(load_recipe(scenes, ["--output", str(tmp_path / "run"), *options]))
    assert message in str(error.value)


def test_larger_pictures_give_their_numbers(tmp_path: Path) -> None:
    theirs = create_vit(tmp_path)
    config = VisionTransformerConfig.model_validate({**SIZES, "weights": tmp_path})
    ours: Any = build_picture_classifier(config, picture=(3, 20, 12), classes=2).eval()
    load_encoder_weights(ours, config)
    pictures = torch.rand(2, 3, 20, 12)
    with torch.no_grad():
        expected = theirs.vit(pixel_values=2 * pictures - 1, interpolate_pos_encoding=True).last_hidden_state
        torch.testing.assert_close(ours.encoder(pictures).values, expected[:, 1:], atol=1e-5, rtol=1e-5)


def test_grey_weights_do_not_fit_colours(tmp_path: Path) -> None:
    create_vit(tmp_path, num_channels=1, steps={"image_mean": [0.5], "image_std": [0.5]})
    config = VisionTransformerConfig.model_validate({**SIZES, "weights": tmp_path})
    model: Any = build_picture_classifier(config, picture=(3, 16, 16), classes=2)
    with pytest.raises(RunError, match=r"reads pictures of 1 channels; set data\.channels to that"):
        load_encoder_weights(model, config)


def test_clips_are_read_frame_by_frame() -> None:
    """A frame of a clip is the mean of its patches."""
    config = TransformerVisionConfig.model_validate({"patch": 4, "d_model": 24, "heads": 3, "layers": 1})
    encoder = build_clip_encoder(config, None, size=8, d_model=10, encode_times=False).eval()
    frames = torch.randint(256, (2, 3, 8, 8, 3), dtype=torch.uint8)
    positions = torch.tensor([[0, 1, 2], [0, 1, -1]])
    memory = encoder(ClipBatch(frames, positions))
    assert encoder.vision is not None
    expected = encoder.norm(encoder.map(encoder.vision(frames[0]).mean((1, 2))))
    torch.testing.assert_close(memory.values[0], expected)


def test_new_weights_cannot_be_frozen(scenes: Path) -> None:
    with pytest.raises(HeedfulError, match=r"model\.pictures\.frozen = true needs weights"):
        load_recipe(scenes, ["--model.pictures", '{ kind = "vit", frozen = true }'])


def write_digits(folder: Path, count: int = 12) -> Path:
    """Write pictures of two classes, bright above or bright below, and a recipe of a small ViT; return the recipe."""
    dice = np.random.default_rng(1)
    for number in range(count):
        pixels = dice.integers(0, 60, (16, 16, 3)).astype(np.uint8)
        pixels[8 * (number % 2) :][:8] += 150
        for part in ("train", "validation"):
            place = folder / part / ("above", "below")[number % 2]
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{number}.png").write_bytes(encode_png(pixels))
    recipe = folder / "recipe.toml"
    recipe.write_text(
        'task = "glimpses"\n[data]\ntrain = { path = "train" }\nvalidation = { path = "validation" }\n'
        'channels = 3\nheight = 16\nwidth = 16\n[model]\nkind = "vit"\npatch = 4\nd_model = 24\nheads = 3\n'
        'layers = 2\nd_ff = 40\n[training]\nsteps = 3\nbatch_tokens = 4\nprecision = "fp32"\nthreads = 1\n',
        encoding="utf-8",
    )
    return recipe


def test_a_classifier_starts_from_a_published_encoder(tmp_path: Path) -> None:
    theirs = create_vit(tmp_path / "vit")
    settings = ["--model.weights", str(tmp_path / "vit"), "--model.norm_epsilon", "1e-12"]
    recipe = load_recipe(write_digits(tmp_path), ["--output", str(tmp_path / "run"), *settings])
    said: list[str] = []
    model = init_model(create_run(tmp_path / "run", recipe), log=said.append)
    assert f"{tmp_path / 'vit'}: the encoder begins with these weights" in said
    assert torch.equal(model.encoder.patches.class_token, theirs.vit.embeddings.cls_token[0, 0])
    assert torch.equal(model.encoder.stack.layers[1].feed_forward.outer.weight, theirs.vit.layers[1].mlp.fc2.weight)


@pytest.mark.slow
def test_a_run_looks_is_inspected_and_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe, run = write_digits(tmp_path), tmp_path / "run"
    assert main(["train", str(recipe), "--output", str(run)]) == 0
    picture = str(tmp_path / "train/above/0.png")
    capsys.readouterr()
    assert main(["look", str(run), picture, "--page", str(tmp_path / "page.html")]) == 0
    name, label, probability = capsys.readouterr().out.split("\t")
    assert (name, label in ("above", "below")) == (picture, True)
    assert (tmp_path / "page.html").stat().st_size > 10_000
    assert main(["evaluate", str(run), "--samples", "2"]) == 0

    assert main(["export", str(run), str(tmp_path / "exported")]) == 0
    theirs = transformers.ViTForImageClassification.from_pretrained(tmp_path / "exported").eval()
    processor = transformers.ViTImageProcessorPil.from_pretrained(tmp_path / "exported")
    with torch.no_grad():
        values = processor(images=Image.open(picture), return_tensors="pt").pixel_values
        probabilities = theirs(pixel_values=values).logits.softmax(-1)[0].tolist()
    best = max(range(2), key=lambda number: probabilities[number])
    assert (theirs.config.id2label[best], f"{probabilities[best]:.4f}") == (label, probability.strip())
    again = heedful.load(tmp_path / "exported", device="cpu", kind=GlimpsePredictor)
    assert again.resampling == "bicubic"
    assert again.look_at(picture)[0].probabilities[label] == pytest.approx(probabilities[best], abs=1e-6)


def test_positions_that_the_format_lacks_are_refused(tmp_path: Path) -> None:
    recipe = load_recipe(write_digits(tmp_path), ["--model.positions.kind", "none", "--output", str(tmp_path / "run")])
    heedful.train(recipe)
    with pytest.raises(RunError, match=r"model\.positions\.kind = none: ViT has only learned"):
        export_hugging_face(tmp_path / "run", tmp_path / "out")


def test_the_record_shows_what_the_class_token_attends_to(tmp_path: Path) -> None:
    """Its weights are those of transformers, on the cells of the picture."""
    theirs = create_vit(tmp_path, attn_implementation="eager")
    predictor = heedful.load(tmp_path, device="cpu", kind=GlimpsePredictor)
    pixels = np.random.default_rng(1).integers(0, 256, (3, 16, 16)).astype(np.uint8)
    record = predictor.inspect(pixels, title="a.png")
    with torch.no_grad():
        found = theirs(pixel_values=torch.from_numpy(pixels)[None] / 127.5 - 1, output_attentions=True)
    regions = record.get_axis("source")
    assert (regions.kind, regions.columns, len(regions.tokens)) == ("grid", 4, 16)
    assert np.array_equal(regions.pictures[0], pixels.transpose(1, 2, 0))
    for layer, expected in enumerate(found.attentions):
        whole, of_class = (record.find_map(role, layer=layer) for role in ("encoder", "summary"))
        check_close(whole.weights, expected[0])
        check_close(of_class.weights, expected[0, :, :1, 1:])
    assert record.answers[0].answer_text == predictor.look_at([pixels])[0].label


def check_close(mine: np.ndarray, expected: Tensor) -> None:
    torch.testing.assert_close(torch.from_numpy(mine), expected, atol=1e-5, rtol=1e-4)
