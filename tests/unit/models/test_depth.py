"""How far parameters are below the head."""

from __future__ import annotations

import pytest

from heedful.architectures.build import build_text_classifier
from heedful.architectures.classifiers import (
    EncoderClassifierConfig,
    RecurrentClassifierConfig,
    SelfAttentiveConfig,
    WindowClassifierConfig,
)
from heedful.architectures.model import ClassifierConfig
from heedful.models.heads import TextClassifier
from heedful.models.parameters import measure_depths
from heedful.runs.trainer_factory import compute_rate_factors, freeze_parameters
from heedful.tasks.classification.recipe import ClassificationTrainingConfig

HOPS = SelfAttentiveConfig(hops=2, d_alignment=3)
CONFIGS: list[ClassifierConfig] = [
    EncoderClassifierConfig(d_model=8, heads=2, layers=3, residual="pre_norm"),
    RecurrentClassifierConfig(d_model=4, layers=3),
    RecurrentClassifierConfig(d_model=4, layers=3, summary=HOPS, d_hidden=5),
]
both = pytest.mark.parametrize("config", CONFIGS, ids=["transformer", "recurrent", "hops"])


def made(config: ClassifierConfig) -> TextClassifier:
    return build_text_classifier(config, vocabulary=9, outputs=2, longest=16)


@both
def test_every_storey_is_one_deeper_than_the_one_above(config: ClassifierConfig) -> None:
    found = measure_depths(made(config), body="encoder")
    assert found.num_layers == 3
    for name, depth in found.by_parameter.items():
        expected = (
            0
            if name.startswith(("output.", "hidden.", "summary.", "encoder.summary."))
            else 4
            if ".embedding." in name
            else 1
        )
        for number in range(3):
            if f".layers.{number}." in name:
                expected = 3 - number
        assert depth == expected, name
    assert set(found.by_parameter.values()) == {0, 1, 2, 3, 4}


def test_embeddings_can_be_frozen_below_what_has_no_layers() -> None:
    model = build_text_classifier(WindowClassifierConfig(d_model=8), vocabulary=9, outputs=2, longest=16)
    freeze_parameters(model, ClassificationTrainingConfig.model_validate({"steps": 1, "freeze": "embeddings"}))
    still = [name for name, parameter in model.named_parameters() if not parameter.requires_grad]
    assert still == ["encoder.embedding.table.weight"]


@pytest.mark.parametrize("freeze", [1, "embeddings"])
def test_freezing_does_not_train_running_averages(freeze: int | str) -> None:
    config = EncoderClassifierConfig(d_model=8, heads=2, layers=3, norm="batch")
    model = build_text_classifier(config, vocabulary=9, outputs=2, longest=16)
    freeze_parameters(model, ClassificationTrainingConfig.model_validate({"steps": 1, "freeze": freeze}))
    averages = [name for name, _ in model.named_parameters() if name.endswith(("norm.mean", "norm.variance"))]
    assert len(averages) >= 12
    assert not any(model.get_parameter(name).requires_grad for name in averages)
    assert model.get_parameter("output.weight").requires_grad


@both
def test_rates_fall_from_storey_to_storey(config: ClassifierConfig) -> None:
    model = made(config)
    found = compute_rate_factors(model, ClassificationTrainingConfig(steps=1, layer_decay=0.5))
    assert {found[name] for name in found if ".layers.0." in name} == {0.125}
    assert found["output.weight"] == 1
    assert compute_rate_factors(model, ClassificationTrainingConfig(steps=1)) == {}


@both
@pytest.mark.parametrize("count", [0, 1, 3, "encoder"])
def test_what_is_frozen_lies_below_what_is_not(config: ClassifierConfig, count: int | str) -> None:
    model = made(config)
    freeze_parameters(model, ClassificationTrainingConfig.model_validate({"steps": 1, "freeze": count}))
    found = measure_depths(model, body="encoder")
    for name, parameter in model.named_parameters():
        still = (
            name.startswith("encoder.")
            if count == "encoder"
            else found.by_parameter[name] > 3 - int(count) and count != 0
        )
        assert parameter.requires_grad != still, name
