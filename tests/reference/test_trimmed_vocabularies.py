"""`heedful trim`: published models with fewer pieces read the texts of their languages as before."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch

import heedful
from heedful.__main__ import main
from heedful.data.pretrained_tokenizers import PretrainedTokenizer
from heedful.errors import DataError, RunError
from heedful.foreign.hugging_face import open_hugging_face
from heedful.tensors import Tokens

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

WORDS = ["red", "dogs", "unwashed", "sleep", "Naïve", "cats", "walking", "don't", "été", "größer", "straße", "42"]
TEXT = [" ".join(random.Random(n).choices(WORDS, k=n % 7 + 1)) + " ." for n in range(200)]
MINE = [text for text in TEXT if "straße" not in text and "größer" not in text]
"""Texts without two words, whose pieces are left out."""


@pytest.fixture(autouse=True)
def _use_float32() -> Iterator[None]:
    torch.set_default_dtype(torch.float32)  # as in their files
    transformers.logging.set_verbosity_error()
    yield


def write_vocabulary(folder: Path, kind: str) -> int:
    """Write a vocabulary of this kind and return the number of its pieces."""
    folder.mkdir(parents=True)
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    if kind == "byte_level":
        learned: Any = tokenizers.ByteLevelBPETokenizer()
        learned.train_from_iterator(TEXT, vocab_size=340, min_frequency=1, show_progress=False, special_tokens=special)
        learned.save(str(folder / "tokenizer.json"))
        size: int = learned.get_vocab_size()
        return size
    if kind == "sentencepiece":
        prefix = str(folder / "sentencepiece.bpe")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(TEXT), model_prefix=prefix, model_type="bpe", vocab_size=110, minloglevel=3,
            hard_vocab_limit=False,
        )  # fmt: skip
        return sentencepiece.SentencePieceProcessor(f"{prefix}.model").vocab_size() + 2
    pieces: Any = tokenizers.models.Unigram() if kind == "unigram" else tokenizers.models.BPE(unk_token="<unk>")
    learned = tokenizers.Tokenizer(pieces)
    learned.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    learned.decoder = tokenizers.decoders.Metaspace()
    trainer = tokenizers.trainers.UnigramTrainer if kind == "unigram" else tokenizers.trainers.BpeTrainer
    options = {"unk_token": "<unk>"} if kind == "unigram" else {}
    learned.train_from_iterator(TEXT, trainer(vocab_size=110, special_tokens=special, show_progress=False, **options))
    learned.post_processor = tokenizers.processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 2)])
    learned.save(str(folder / "tokenizer.json"))
    return int(learned.get_vocab_size())


def create_folder(folder: Path, kind: str) -> Any:
    """Write a tiny BART with a vocabulary of this kind and some rows without pieces; return the model."""
    size = write_vocabulary(folder, kind)
    config = transformers.BartConfig(
        vocab_size=size + 5, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=64,
        forced_eos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(3)
    model = transformers.BartForConditionalGeneration(config).eval()
    with torch.no_grad():
        model.final_logits_bias.normal_()
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("kind", ["byte_level", "unigram", "bpe", "sentencepiece"])
def test_kept_pieces_compute_the_same(kind: str, tmp_path: Path) -> None:
    create_folder(tmp_path / "whole", kind)
    before, after = heedful.trim(tmp_path / "whole", tmp_path / "small", texts=MINE)
    assert after < before - 5
    whole, small = (open_hugging_face(tmp_path / name) for name in ("whole", "small"))
    old, new = (folder.origin.tokenizers for folder in (whole, small))
    assert new[0].size == after
    new_ids = {piece: number for number, piece in enumerate(new[0].to_pieces(range(after)))}
    for side in (0, 1):
        assert isinstance(new[side], PretrainedTokenizer)
        for text in MINE:
            pieces = old[side].to_pieces(old[side].encode(text))
            assert new[side].to_pieces(new[side].encode(text)) == pieces
            assert new[side].decode(new[side].encode(text)) == old[side].decode(old[side].encode(text))
        assert old[side].to_pieces([old[side].special.eos]) == new[side].to_pieces([new[side].special.eos])
    rows = torch.tensor([number for number in range(before) if old[0].to_pieces([number])[0] in new_ids][:after])
    models = [heedful.load(tmp_path / name, device="cpu").models[0] for name in ("whole", "small")]
    for text in MINE[:9]:
        logits = []
        for model, (source, target) in zip(models, (old, new), strict=True):
            read, write = source.encode(text), [target.special.bos, *target.encode(text)]
            with torch.no_grad():
                scores, _ = model.step(batch_of(write), model.init_state(batch_of(read)))
            logits.append(scores[0])
        torch.testing.assert_close(logits[1], logits[0][:, rows], atol=1e-5, rtol=1e-5)


def batch_of(ids: list[int]) -> Tokens:
    return Tokens(torch.tensor([ids]), torch.arange(len(ids)).unsqueeze(0))


@pytest.mark.parametrize("kind", ["unigram", "byte_level"])
def test_transformers_reads_what_is_written(kind: str, tmp_path: Path) -> None:
    create_folder(tmp_path / "whole", kind)
    heedful.trim(tmp_path / "whole", tmp_path / "small", texts=MINE)
    model, report = transformers.BartForConditionalGeneration.from_pretrained(
        tmp_path / "small", output_loading_info=True
    )
    assert not any(report.values())
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "small" / "tokenizer.json"))
    mine = open_hugging_face(tmp_path / "small").origin.tokenizers[1]
    for text in MINE[:20]:
        ids = tokenizer(text)["input_ids"]
        assert mine.encode(text) == (ids[:-1] if kind == "unigram" else ids)
        if kind == "unigram":  # its template adds the end
            assert ids[-1] == mine.special.eos
    assert model.config.vocab_size == mine.size


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create_folder(tmp_path / "whole", "byte_level")
    (tmp_path / "a.txt").write_text("\n".join(MINE[:50]))
    (tmp_path / "b.txt").write_text("\n".join(MINE[50:]))
    arguments = ["trim", str(tmp_path / "whole"), str(tmp_path / "small"), "--texts"]
    assert main([*arguments, str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]) == 0
    assert "pieces instead of" in capsys.readouterr().err
    config = json.loads((tmp_path / "small" / "config.json").read_text())
    assert config["vocab_size"] == open_hugging_face(tmp_path / "small").origin.tokenizers[0].size
    (tmp_path / "empty.txt").touch()
    arguments[2] = str(tmp_path / "other")
    assert main([*arguments, str(tmp_path / "empty.txt")]) == 2
    assert "--texts: contain no text" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_vocabularies_that_cannot_be_trimmed(tmp_path: Path) -> None:
    create_folder(tmp_path / "bytes", "byte_level")
    (tmp_path / "bytes" / "tokenizer.json").unlink()
    (tmp_path / "bytes" / "tokenizer_config.json").write_text('{"tokenizer_class": "ByT5Tokenizer"}')
    with pytest.raises(RunError, match="the pieces of this model are bytes"):
        heedful.trim(tmp_path / "bytes", tmp_path / "small", texts=MINE)
    with pytest.raises(DataError, match="contain no text"):
        heedful.trim(tmp_path / "bytes", tmp_path / "small", texts=[])
