"""Adapters in the format of PEFT: exported ones work with transformers, and those of others are imported."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import heedful
from heedful.adapters.adapter import LoraAdapter, LoraTarget
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.data.tokenizers import learn_words
from heedful.errors import RunError
from heedful.foreign.families.model_family import ModelConfig
from heedful.foreign.hugging_face import build_from_origin
from heedful.foreign.hugging_face_export import save_hugging_face
from heedful.foreign.peft import is_peft_folder, read_peft_adapter, save_peft_adapter
from heedful.tasks.portable_model import OutputHead, PortableModel

transformers = pytest.importorskip("transformers", reason="transformers is not installed (extra: dev)")
SIZES: dict[str, Any] = {"d_model": 16, "heads": 2, "d_ff": 24}
LEARNED: dict[str, Any] = {"positions": {"kind": "learned", "length": 24}, "scale_embedding": False}
BERT = EncoderConfig.model_validate(
    {**SIZES, **LEARNED, "layers": 2, "activation": "gelu", "embedding_norm": True, "segments": 2}
)
GPT = DecoderConfig.model_validate({**SIZES, **LEARNED, "layers": 2, "residual": "pre_norm", "output_bias": False})
MARIAN = TransformerConfig.model_validate({**SIZES, "encoder_layers": 1, "decoder_layers": 2, "tie": "three_way"})
ALL: tuple[LoraTarget, ...] = ("query", "key", "value", "output", "feed_forward")
NEOX = DecoderConfig.model_validate({**SIZES, "positions": {"kind": "rotary"}, "layers": 2})
CASES = [(GPT, "GPT2LMHeadModel"), (NEOX, "GPTNeoXForCausalLM"), (MARIAN, "MarianMTModel"), (BERT, "BertModel")]
TOKENIZER = learn_words(["one two three four five six seven"], size=32, lowercase=False)


@pytest.fixture(autouse=True)
def _silence_transformers() -> Iterator[None]:
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of other packages
        yield


def build_adapted_model(
    config: ModelConfig, lora: LoraAdapter
) -> tuple[PortableModel, dict[str, Tensor], PortableModel]:
    """Return a base model, a random adapter, and the merged model."""
    tokenizer = (TOKENIZER, TOKENIZER) if isinstance(config, TransformerConfig) else TOKENIZER
    model = build_from_origin(PortableModel(Path("base"), config, tokenizer, {}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    base = PortableModel(Path("base"), config, tokenizer, {name: p.detach() for name, p in model.named_parameters()})
    lora.attach(model)
    own = {name: 0.3 * torch.randn(p.shape) for name, p in model.named_parameters() if lora.is_adapter_parameter(name)}
    return base, own, replace(base, tensors=lora.merge_weights(base.tensors, own, origin="here"))


def apply_adapter(model: nn.Module, folder: Path) -> nn.Module:
    """Compute W + (alpha / r) B A for each named map; a Conv1D has a column for each output."""
    content = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    tensors = load_file(folder / "adapter_model.safetensors")
    names = [name for name in tensors if name.endswith(".lora_A.weight")]
    found = [name.removeprefix("base_model.model.").removesuffix(".lora_A.weight") for name in names]
    assert sorted(found) == sorted(content["target_modules"])
    for name, place in zip(names, found, strict=True):
        a, b = tensors.pop(name), tensors.pop(name.replace("lora_A", "lora_B"))
        alpha = content["alpha_pattern"].get(place, content["lora_alpha"])
        assert len(a) == content["rank_pattern"].get(place, content["r"])
        weight = model.get_submodule(place).weight
        turned = type(model.get_submodule(place)).__name__ == "Conv1D"
        assert turned == content["fan_in_fan_out"]
        with torch.no_grad():
            weight += (alpha / len(a) * b @ a).T if turned else alpha / len(a) * b @ a
    model.load_state_dict(
        {name.removeprefix("base_model.model."): each for name, each in tensors.items()}, strict=False
    )
    return model.eval()


def compute_output(model: Any) -> Tensor:
    ids = torch.tensor([[5, 6, 7, 8, 9], [9, 5, 5, 6, 7]])
    with torch.no_grad():
        if type(model).__name__ == "MarianMTModel":
            return model(input_ids=ids, decoder_input_ids=ids.flip(1)).logits
        found = model(input_ids=ids)
    return found.logits if hasattr(found, "logits") else found.last_hidden_state


@pytest.mark.parametrize(("config", "kind"), CASES)
@pytest.mark.parametrize("on", [("query", "value"), ("key",), ALL])
def test_transformers_computes_the_same_with_the_adapter(
    config: ModelConfig, kind: str, on: tuple[LoraTarget, ...], tmp_path: Path
) -> None:
    lora = LoraAdapter(3, 5.0, targets=on)
    base, own, whole = build_adapted_model(config, lora)
    save_hugging_face(base, tmp_path / "base")
    save_hugging_face(whole, tmp_path / "whole")
    save_peft_adapter(whole, lora, own, tmp_path / "peft", base="base")
    load = getattr(transformers, kind).from_pretrained
    bare, expected = compute_output(load(tmp_path / "base").eval()), compute_output(load(tmp_path / "whole").eval())
    assert float((bare - expected).abs().max()) > 0.005
    torch.testing.assert_close(
        compute_output(apply_adapter(load(tmp_path / "base"), tmp_path / "peft")), expected, atol=1e-4, rtol=1e-4
    )


@pytest.mark.parametrize(("config", "kind"), CASES)
@pytest.mark.parametrize("on", [("query", "value"), ALL])
def test_exported_adapters_can_be_imported(
    config: ModelConfig, kind: str, on: tuple[LoraTarget, ...], tmp_path: Path
) -> None:
    lora = LoraAdapter(3, 5.0, targets=on)
    base, own, whole = build_adapted_model(config, lora)
    save_peft_adapter(whole, lora, own, tmp_path / "peft", base="base")
    assert is_peft_folder(tmp_path / "peft")
    adapter, found = read_peft_adapter(tmp_path / "peft", config)
    read = adapter.merge_weights(base.tensors, found, origin="here")
    for name, tensor in whole.tensors.items():
        torch.testing.assert_close(read[name], tensor, atol=1e-5, rtol=1e-4, msg=name)


@pytest.mark.parametrize("rslora", [False, True])
def test_adapters_of_others_have_their_own_scale(tmp_path: Path, rslora: bool) -> None:
    """Ranks and alphas by pattern, or alpha divided by the root of the rank."""
    prefix = "base_model.model.bert.encoder.layer"
    a, b = torch.randn(4, 16), torch.randn(16, 4)
    save_file(
        {
            f"{prefix}.0.attention.self.key.lora_A.weight": a,
            f"{prefix}.0.attention.self.key.lora_B.weight": b,
            f"{prefix}.1.attention.self.key.lora_A.weight": a[:2].clone(),
            f"{prefix}.1.attention.self.key.lora_B.weight": b[:, :2].clone(),
        },
        tmp_path / "adapter_model.safetensors",
    )
    patterns = (
        {} if rslora else {"rank_pattern": {"1.attention.self.key": 2}, "alpha_pattern": {r"1.attention.self.key": 7}}
    )
    content = {"peft_type": "LORA", "r": 4, "lora_alpha": 6, "bias": "none", "use_rslora": rslora, **patterns}
    (tmp_path / "adapter_config.json").write_text(json.dumps(content), encoding="utf-8")
    adapter, found = read_peft_adapter(tmp_path, BERT)
    base = {
        name: p.detach() for name, p in build_from_origin(PortableModel(Path(), BERT, TOKENIZER, {})).named_parameters()
    }
    read = adapter.merge_weights(base, found, origin="here")
    wanted = (6 / 2 * b @ a, 6 / 2**0.5 * b[:, :2] @ a[:2]) if rslora else (6 / 4 * b @ a, 7 / 2 * b[:, :2] @ a[:2])
    for layer, change in enumerate(wanted):
        name = f"encoder.stack.layers.{layer}.attention.key_value.weight"
        torch.testing.assert_close(
            read[name] - base[name], torch.cat((change, torch.zeros(16, 16))), atol=1e-5, rtol=1e-4
        )


def test_a_head_is_exported_too(tmp_path: Path) -> None:
    lora = LoraAdapter(2, 2.0)
    config, (_, own, whole) = BERT, build_adapted_model(BERT, lora)
    pooler = {"encoder.summary.dense.weight": torch.randn(16, 16), "encoder.summary.dense.bias": torch.randn(16)}
    head = {"output.weight": torch.randn(3, 16), "output.bias": torch.randn(3)}
    whole = replace(whole, tensors={**whole.tensors, **pooler, **head}, head=OutputHead("class", ("a", "b", "c")))
    save_peft_adapter(whole, lora, {**own, **head, **pooler}, tmp_path / "peft", base="base")
    content = json.loads((tmp_path / "peft" / "adapter_config.json").read_text(encoding="utf-8"))
    assert (content["task_type"], sorted(content["modules_to_save"])) == ("SEQ_CLS", ["classifier", "pooler"])
    written = load_file(tmp_path / "peft" / "adapter_model.safetensors")
    assert torch.equal(written["base_model.model.classifier.weight"], head["output.weight"])
    assert torch.equal(written["base_model.model.bert.pooler.dense.bias"], pooler["encoder.summary.dense.bias"])
    assert "base_model.model.bert.encoder.layer.0.attention.self.query.lora_A.weight" in written
    _, found = read_peft_adapter(tmp_path / "peft", config)
    assert {name: each.float().tolist() for name, each in found.items() if "lora" not in name} == {
        name: each.float().tolist() for name, each in {**head, **pooler}.items()
    }


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"peft_type": "IA3"},
            r"adapter_config.json: peft_type = 'IA3': heedful reads only 'LORA'; take a plain LoRA",
        ),
        ({"use_dora": True}, r"adapter_config.json: use_dora = True: heedful reads only False"),
        ({"bias": "all"}, r"adapter_config.json: bias = 'all': heedful reads only 'none'"),
        ({"lora_alpha": None}, r"adapter_config.json: lora_alpha = None is not a number; take a complete copy"),
        ("config", r"adapter_config.json"),
        ("weights", r"adapter_model.safetensors: cannot be read"),
        ("strange", r"adapter_model.safetensors: holds strange.weight, which heedful does not support"),
        (
            "unmatched",
            r"adapter_model.safetensors: .*h.9.attn.c_attn.lora_A.weight adapts a part that this model does not have",
        ),
        (
            "half",
            r"adapter_model.safetensors: .*lora_A.weight adapts a part that this model does not have; name another "
            r"model",
        ),
    ],
)
def test_unsupported_adapters_are_reported(changed: Any, message: str, tmp_path: Path) -> None:
    lora = LoraAdapter(2, 2.0)
    _, own, whole = build_adapted_model(GPT, lora)
    save_peft_adapter(whole, lora, own, tmp_path / "peft", base="base")
    path, weights = tmp_path / "peft" / "adapter_config.json", tmp_path / "peft" / "adapter_model.safetensors"
    tensors = load_file(weights)
    first = next(name for name in tensors if "lora_A" in name)
    match changed:
        case "config":
            path.write_text("{")
        case "weights":
            weights.write_bytes(weights.read_bytes()[:50])
        case "strange":
            save_file({**tensors, "base_model.model.strange.weight": torch.zeros(2)}, weights)
        case "unmatched":
            save_file({name.replace(".h.1.", ".h.9."): each for name, each in tensors.items()}, weights)
        case "half":
            save_file({first: tensors[first]}, weights)
        case _:
            path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changed), encoding="utf-8")
    with pytest.raises(RunError, match=message):
        read_peft_adapter(tmp_path / "peft", GPT)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adapter_model.bin", "adapter_model.pt"])
def test_a_pickled_adapter_is_not_loaded_and_can_be_converted(name: str, tmp_path: Path) -> None:
    """The command of the error message converts the file."""
    lora = LoraAdapter(2, 2.0)
    _, own, whole = build_adapted_model(GPT, lora)
    folder = tmp_path / "a folder"
    save_peft_adapter(whole, lora, own, folder, base="base")
    expected = read_peft_adapter(folder, GPT)[1]
    weights = folder / "adapter_model.safetensors"
    torch.save(load_file(weights), folder / name)
    weights.unlink()
    with pytest.raises(RunError) as caught:
        read_peft_adapter(folder, GPT)
    message = str(caught.value)
    assert message.startswith(
        f"{folder / name}: heedful does not read pickled weights, because opening them may run a program"
    )
    _, code, *files = shlex.split(message.partition("in the same folder: ")[2].replace("python", "", 1))
    subprocess.run([sys.executable, "-c", code, *files], check=True, timeout=120)
    found = read_peft_adapter(folder, GPT)[1]
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[each], tensor) for each, tensor in expected.items())


def test_names_are_those_of_the_adapted_model(tmp_path: Path) -> None:
    """An adapter of an ELECTRA whose shapes also fit a BERT."""
    from reference.test_hugging_face import create_electra

    create_electra(tmp_path / "base", "ElectraModel")
    weight, map_ = torch.randn(2, 24), "base_model.model.encoder.layer.0.attention.self.query"
    (tmp_path / "peft").mkdir()
    tensors = {f"{map_}.lora_A.weight": weight, f"{map_}.lora_B.weight": weight.T.contiguous()}
    save_file(tensors, tmp_path / "peft" / "adapter_model.safetensors")
    content = {"peft_type": "LORA", "r": 2, "lora_alpha": 2}
    (tmp_path / "peft" / "adapter_config.json").write_text(json.dumps(content), encoding="utf-8")
    plain, adapted = (
        heedful.load(tmp_path / "base", device="cpu", adapter=each).encoder.stack.layers[0].attention.query.weight
        for each in (None, tmp_path / "peft")
    )
    torch.testing.assert_close(adapted, plain + weight.T @ weight, atol=1e-5, rtol=1e-5)


def test_unsupported_targets_are_errors(tmp_path: Path) -> None:
    lora = LoraAdapter(2, 2.0)
    _, own, whole = build_adapted_model(GPT, lora)
    with pytest.raises(RunError, match=r"temperature was trained together with the adapter, and PEFT cannot store it"):
        save_peft_adapter(whole, lora, {**own, "temperature": torch.zeros(1)}, tmp_path / "peft", base="base")
    assert not (tmp_path / "peft").exists()
