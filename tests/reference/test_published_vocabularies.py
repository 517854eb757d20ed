"""Vocabularies of published models, as they come: SentencePiece models, tokenizer.json, bytes; compared with
transformers.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch

import heedful
from heedful.__main__ import main
from heedful.data.pretrained_tokenizers import PretrainedTokenizer
from heedful.data.token_offsets import compute_offsets
from heedful.data.tokenizer_files import load_tokenizer
from heedful.errors import RecipeError, RunError
from heedful.foreign.families.registry import MODEL_FAMILIES
from heedful.foreign.folder_files import TranslationSide, read_text_vocabulary
from heedful.foreign.hugging_face import open_hugging_face
from heedful.recipes.parallel_data import format_language_tag, format_source_tag
from heedful.runs.export import export_hugging_face
from heedful.serving.directions import TranslationDirections
from heedful.serving.languages import find_languages
from heedful.serving.registry import LoadedModel
from heedful.serving.settings import ModelSettings, ServerSettings

transformers = pytest.importorskip("transformers")

WORDS = ["the", "un", "washed", "dogs", "cats", "sleep", "walking", "Naïve", "don't", "42", "été", ",", "unwashed"]
TEXT = [" ".join(random.Random(n).choices(WORDS, k=n % 7 + 1)) + " ." for n in range(200)]
ODD = ["  two  spaces and a\ttab ", "", "ÀÉ\u0301x İstanbul ﬁne… 日本語!", "😀😀 ok👍🏽", "x" * 120]
"""Sentencepiece and transformers split several spaces in their own ways."""
LANGUAGES = {
    "mbart": ["en_XX", "fr_XX", "ro_RO"],
    "m2m_100": ["eng_Latn", "fra_Latn", "zho_Hans"],
}
SIZE = 600
"""More rows than any of these vocabularies has pieces."""


@pytest.fixture(autouse=True)
def _use_float32() -> None:
    torch.set_default_dtype(torch.float32)  # as in their files
    transformers.logging.set_verbosity_error()


def train_sentencepiece(folder: Path, kind: str, **options: Any) -> Path:
    """Train a SentencePiece model on the texts and return its path."""
    options = {"vocab_size": 60, "hard_vocab_limit": False, **options}
    folder.mkdir(parents=True, exist_ok=True)
    prefix = str(folder / kind)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_prefix=prefix, model_type=kind, minloglevel=3, **options
    )
    return Path(f"{prefix}.model")


def like_llama(folder: Path) -> Path:
    """BPE with bytes for unknown characters, all spaces and no normalisation."""
    return train_sentencepiece(
        folder, "bpe", vocab_size=330, byte_fallback=True, normalization_rule_name="identity",
        remove_extra_whitespaces=False,
    )  # fmt: skip


def like_t5(folder: Path) -> Path:
    """A unigram model with the special ids of T5."""
    return train_sentencepiece(folder, "unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)


def like_albert(folder: Path) -> Path:
    """A unigram model with ALBERT's special pieces."""
    return train_sentencepiece(
        folder, "unigram", pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, control_symbols=["[CLS]", "[SEP]", "[MASK]"]
    )


def plain(kind: str) -> Callable[[Path], Path]:
    return lambda folder: train_sentencepiece(folder, kind)


CASES: dict[str, tuple[str, str, Callable[[Path], Path], dict[str, Any]]] = {
    "t5": ("T5Tokenizer", "t5", like_t5, {}),
    "mbart_50": ("MBart50Tokenizer", "mbart", plain("unigram"), {"src_lang": "en_XX"}),
    "nllb": ("NllbTokenizer", "m2m_100", plain("bpe"), {"src_lang": "eng_Latn"}),
    "xlm_roberta": ("XLMRobertaTokenizer", "xlm-roberta", plain("unigram"), {}),
    "camembert": ("CamembertTokenizer", "camembert", plain("unigram"), {}),
    "llama_2": ("LlamaTokenizer", "llama", like_llama, {"add_bos_token": True}),
}
"""Class of transformers, family, model, and options of the class."""


def read(folder: Path, family: str, *, side: str = "source") -> PretrainedTokenizer:
    """Read the vocabulary of a folder as one side of a translation model, or as that of a language model."""
    kind = MODEL_FAMILIES[family]
    key, tag = ("src_lang", format_source_tag) if side == "source" else ("tgt_lang", format_language_tag)
    translation = TranslationSide(start=0, language_key=key, format_tag=tag)
    return read_text_vocabulary(
        folder, family=kind, size=SIZE, side=translation if kind.task == "translation" else None
    )


def prepare(name: str, folder: Path) -> Any:
    """Write the folder as its authors publish it, `raw`, and as transformers saves it, `saved`; return the tokenizer of
    transformers.
    """
    class_name, family, train, options = CASES[name]
    kind = getattr(transformers, class_name)
    raw = folder / "raw"
    raw.mkdir()
    shutil.copy(train(folder / "models"), raw / kind.vocab_files_names["vocab_file"])
    languages = {"additional_special_tokens": LANGUAGES.get(family, [])}
    (raw / "special_tokens_map.json").write_text(json.dumps(languages))
    (raw / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": class_name, **options}))
    theirs = kind.from_pretrained(str(raw), **options)
    if name == "nllb":  # whose languages are in its tokenizer.json
        theirs.add_special_tokens({"additional_special_tokens": LANGUAGES[family]})
    theirs.save_pretrained(folder / "saved")
    return kind.from_pretrained(str(folder / "saved"), **options)


@pytest.mark.parametrize("where", ["raw", "saved"])
@pytest.mark.parametrize("name", CASES)
def test_the_same_tokens_as_in_transformers(name: str, where: str, tmp_path: Path) -> None:
    theirs = prepare(name, tmp_path)
    mine = read(tmp_path / where, CASES[name][1])
    mine.save(tmp_path / "vocabulary")
    loaded = load_tokenizer(tmp_path / "vocabulary")
    assert (loaded.special, loaded.size, loaded.prefix_ids) == (mine.special, mine.size, mine.prefix_ids)
    assert dict(loaded.tag_ids) == dict(mine.tag_ids)
    num_prefix = len(mine.prefix_ids)
    for text in [*TEXT[:40], *ODD[1:]]:
        expected = theirs(text, add_special_tokens=False)["input_ids"]
        assert mine.encode(text)[num_prefix:] == expected == loaded.encode(text)[num_prefix:]
        if mine.special.unk not in expected:
            assert mine.decode(expected) == loaded.decode(expected) == theirs.decode(expected).strip()
    for text in (*TEXT[:40], *ODD):
        spans = compute_offsets(mine, text)
        assert len(spans) == len(mine.encode(text))
        assert "".join(text[start:stop] for start, stop in dict.fromkeys(spans)).split() or not text.strip()


@pytest.mark.parametrize(("name", "family"), [("mbart_50", "mbart"), ("nllb", "m2m_100")])
def test_languages_stand_before_texts(name: str, family: str, tmp_path: Path) -> None:
    theirs = prepare(name, tmp_path)
    first, other, _ = LANGUAGES[family]
    source, target = (read(tmp_path / "saved", family, side=side) for side in ("source", "target"))
    assert source.encode("red dogs") == theirs("red dogs")["input_ids"][:-1]
    theirs.src_lang = other
    assert source.with_tags([format_source_tag(other)]).encode("red dogs") == theirs("red dogs")["input_ids"][:-1]
    assert target.prefix_ids == ()
    forced = target.with_tags([format_language_tag(other)])
    assert forced.prefix_ids == (theirs.convert_tokens_to_ids(other),)
    assert forced.with_tags([format_language_tag(first)]).prefix_ids == (theirs.convert_tokens_to_ids(first),)
    assert {f"<2{language}>" for language in LANGUAGES[family]} <= {*target.tag_ids}


@pytest.mark.parametrize(("name", "family"), [("mbart_50", "mbart"), ("nllb", "m2m_100")])
def test_languages_follow_the_pieces_of_a_model(name: str, family: str, tmp_path: Path) -> None:
    prepare(name, tmp_path)
    source = read(tmp_path / "raw", family)
    model = next((tmp_path / "raw").glob("*.model"))
    size = sentencepiece.SentencePieceProcessor(str(model)).vocab_size()
    numbers = {f"<src:{language}>": size + 1 + index for index, language in enumerate(LANGUAGES[family])}
    assert source.tag_ids == numbers
    assert source.prefix_ids == (size + 1,)


def test_m2m100_adds_languages_behind_its_list(tmp_path: Path) -> None:
    model = train_sentencepiece(tmp_path / "models", "bpe")
    shutil.copy(model, tmp_path / "sentencepiece.bpe.model")
    processor = sentencepiece.SentencePieceProcessor(str(model))
    pieces = [processor.id_to_piece(number) for number in range(3, processor.vocab_size())]
    random.Random(5).shuffle(pieces)
    ids = {piece: number for number, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *pieces])}
    (tmp_path / "vocab.json").write_text(json.dumps(ids))
    languages = ["__af__", "__en__", "__zh__"]
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": languages}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"src_lang": "en"}))
    mine = read(tmp_path, "m2m_100")
    assert mine.prefix_ids == (len(ids) + 1,)
    assert mine.tag_ids == {"<src:af>": len(ids), "<src:en>": len(ids) + 1, "<src:zh>": len(ids) + 2}
    assert mine.to_pieces(mine.encode("the dogs")[1:]) == processor.encode_as_pieces("the dogs")


def test_pegasus_numbers_pieces_from_its_offset(tmp_path: Path) -> None:
    model = train_sentencepiece(tmp_path, "unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    model.rename(tmp_path / "spiece.model")
    mine = read(tmp_path, "pegasus")
    processor = sentencepiece.SentencePieceProcessor(str(tmp_path / "spiece.model"))
    expected = [number + 103 for number in processor.encode("red dogs")]
    assert mine.encode("red dogs") == expected
    assert (mine.special.eos, mine.special.unk, mine.special.mask, mine.pad_id) == (1, 105, 3, 0)


def test_albert_has_its_special_pieces_in_the_model(tmp_path: Path) -> None:
    like_albert(tmp_path).rename(tmp_path / "spiece.model")
    mine = read(tmp_path, "albert")
    processor = sentencepiece.SentencePieceProcessor(str(tmp_path / "spiece.model"))
    assert mine.encode("the dogs") == processor.encode("the dogs")
    special = mine.special
    names = [processor.id_to_piece(number) for number in (special.bos, special.eos, special.unk, special.mask)]
    assert names == ["[CLS]", "[SEP]", "<unk>", "[MASK]"]
    assert mine.encode_with_masks("the [MASK] sleep").count(special.mask) == 1


def test_byt5_reads_bytes(tmp_path: Path) -> None:
    theirs = transformers.ByT5Tokenizer()
    theirs.save_pretrained(tmp_path)
    mine = read(tmp_path, "t5")
    mine.save(tmp_path / "vocabulary")
    loaded = load_tokenizer(tmp_path / "vocabulary")
    for text in (*TEXT[:9], *ODD[1:]):
        ids = theirs(text, add_special_tokens=False)["input_ids"]
        assert mine.encode(text) == ids == loaded.encode(text)
        assert mine.decode(ids) == text == loaded.decode(ids)
        spans = compute_offsets(mine, text)
        assert len(spans) == len(ids)
        assert "".join(text[start:stop] for start, stop in dict.fromkeys(spans)) == "".join(text.split())
    assert mine.decode([*mine.encode("é")[:1]]) == ""
    assert mine.to_pieces(mine.encode("a é")) == ["a", "▁", "<0xC3>", "<0xA9>"]


def test_a_folder_without_a_vocabulary_names_the_files(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"does not contain a vocabulary; it needs tokenizer\.json, or vocab\.json "):
        read(tmp_path, "t5")
    (tmp_path / "spiece.model").write_bytes(b"nothing")
    with pytest.raises(RunError, match="sentencepiece model cannot be read, or is damaged"):
        read(tmp_path, "t5")


def test_a_language_behind_the_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "MBartTokenizer"}')
    with pytest.raises(RunError, match="read the language behind the text"):
        read(tmp_path, "mbart")


def create_model(name: str, folder: Path) -> tuple[Any, Any, Path]:
    """Write a tiny model of this kind with its vocabulary; return it, its tokenizer and the folder."""
    tokenizer = prepare(name, folder)
    here = folder / "saved"
    common = {"vocab_size": SIZE, "d_model": 24, "decoder_start_token_id": 2}
    sizes = {"encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40}
    heads = {"encoder_attention_heads": 3, "decoder_attention_heads": 3, "max_position_embeddings": 64}
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "forced_eos_token_id": None}
    if name == "t5":
        config = transformers.T5Config(
            vocab_size=SIZE, d_model=16, d_kv=6, d_ff=40, num_layers=2, num_heads=3, decoder_start_token_id=0
        )
        model = transformers.T5ForConditionalGeneration(config)
    else:
        kind = {"mbart_50": "MBart", "nllb": "M2M100"}[name]
        config = getattr(transformers, f"{kind}Config")(**common, **sizes, **heads, **ids)
        model = getattr(transformers, f"{kind}ForConditionalGeneration")(config)
    torch.manual_seed(3)
    with torch.no_grad():
        for path, tensor in model.named_parameters():
            if "embed_positions" not in path:
                tensor.add_(torch.randn_like(tensor) * 0.5)
    model.eval().save_pretrained(here)
    return model, tokenizer, here


def generate(model: Any, tokenizer: Any, texts: list[str], *, suppressed: tuple[int, ...], **options: Any) -> list[Any]:
    """Generate greedily with transformers; return the ids of each text up to its end, without the start."""
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    found = model.generate(
        batch["input_ids"], attention_mask=batch["attention_mask"], max_length=12, do_sample=False, num_beams=1,
        bad_words_ids=[[number] for number in suppressed], **options,
    )  # fmt: skip
    end = model.config.eos_token_id
    return [row[1 : row.index(end, 1)] if end in row[1:] else row[1:] for row in found.tolist()]


@pytest.mark.parametrize("name", ["t5", "mbart_50", "nllb"])
def test_translations_are_the_same(name: str, tmp_path: Path) -> None:
    model, tokenizer, folder = create_model(name, tmp_path)
    config = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps({**config, "max_length": 12}))
    translator = heedful.load(folder, device="cpu")
    texts = ["the dogs sleep", "Naïve cats don't sleep .", "walking"]
    options = {}
    if name != "t5":
        language = LANGUAGES[CASES[name][1]][1]
        with pytest.raises(RecipeError, match=rf"this model writes .*{language}.*: choose one with --to"):
            translator.translate(texts)
        with pytest.raises(RecipeError, match="xx: this model does not write this language"):
            translator.towards("xx")
        translator = translator.towards(language[:2], source="en")
        options = {"forced_bos_token_id": tokenizer.convert_tokens_to_ids(language)}
    expected = generate(model, tokenizer, texts, suppressed=translator.target.special.suppressed_ids, **options)
    found = translator.translate(texts)
    assert [list(translation.candidates[0].ids) for translation in found] == expected
    assert len({translation.text for translation in found}) >= 2
    scores = translator.score([(text, translation.text) for text, translation in zip(texts, found, strict=True)])
    again = [score.log_probability for score in scores]
    for translation, score in zip(found, again, strict=True):  # the language is part of what is scored
        candidate = translation.candidates[0]
        if candidate.finished and translator.target.encode(candidate.text) == list(candidate.ids):
            assert score == pytest.approx(candidate.log_probability, abs=1e-4)


@pytest.mark.parametrize("where", ["raw", "saved"])
@pytest.mark.parametrize("name", ["t5", "mbart_50", "nllb"])
def test_vocabularies_are_written_as_they_came(name: str, where: str, tmp_path: Path) -> None:
    _, tokenizer, folder = create_model(name, tmp_path)
    if where == "raw":
        for file in folder.glob("*token*"):
            file.unlink()
        for file in (tmp_path / "raw").iterdir():
            shutil.copy(file, folder)
    export_hugging_face(folder, tmp_path / "again")
    origins = [open_hugging_face(path).origin.tokenizers for path in (folder, tmp_path / "again")]
    for before, after in zip(*origins, strict=True):
        assert before.encode("the dogs sleep") == after.encode("the dogs sleep")
        assert (dict(before.tag_ids), before.prefix_ids) == (dict(after.tag_ids), after.prefix_ids)
        assert before.special == after.special
    if where == "saved":
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
        for text in TEXT[:9]:
            assert theirs(text)["input_ids"] == tokenizer(text)["input_ids"]


def test_llama_writes_behind_its_first_token(tmp_path: Path) -> None:
    tokenizer = prepare("llama_2", tmp_path)
    config = transformers.LlamaConfig(
        vocab_size=SIZE, max_position_embeddings=64, hidden_size=24, num_hidden_layers=1, num_attention_heads=3,
        intermediate_size=40, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    torch.manual_seed(5)
    model = transformers.LlamaForCausalLM(config).eval()
    for where in ("raw", "saved"):
        model.save_pretrained(tmp_path / where)
        generator = heedful.load(tmp_path / where, device="cpu")
        suppressed = [[number] for number in generator.tokenizer.special.suppressed_ids]
        for prompt in ("the dogs", "日 x"):
            ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
            assert ids[0, 0] == 1
            found = model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=8, pad_token_id=0,
                bad_words_ids=suppressed,
            )[0, ids.shape[1] :].tolist()  # fmt: skip
            tokens = generator.write([prompt], limit=8)[0][0].tokens
            assert list(tokens) == generator.tokenizer.to_pieces(found[: found.index(2)] if 2 in found else found)


def run_command(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([*map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_commands_name_both_languages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, folder = create_model("nllb", tmp_path)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "src_lang": None}))
    translator = heedful.load(folder, device="cpu")
    text = "the dogs sleep"
    expected = translator.towards("fra_Latn", source="eng_Latn").translate([text])[0].text
    code, out, _ = run_command(capsys, "translate", folder, "--from", "en", "--to", "fr", "--text", text)
    assert (code, out) == (0, f"{expected}\n")
    for arguments, message in {
        ("--to", "fr"): "this model reads eng_Latn, fra_Latn, zho_Hans: name the language of the texts with --from",
        ("--from", "en"): "this model writes eng_Latn, fra_Latn, zho_Hans: choose one with --to",
        ("--from", "de", "--to", "fr"): "de: this model does not read this language; it reads eng_Latn",
    }.items():
        code, _, err = run_command(capsys, "translate", folder, *arguments, "--text", text)
        assert code == 2
        assert message in err


@pytest.mark.slow
def test_training_goes_on_in_one_direction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, tokenizer, _ = create_model("nllb", tmp_path)
    for name in ("source", "target"):
        (tmp_path / name).write_text("\n".join(TEXT[:60]))
    recipe = tmp_path / "recipe.toml"
    texts = 'source = "source"\ntarget = "target"\nsource_language = "en"\ntarget_language = "{}"\n'
    recipe.write_text(
        f'init = "saved"\noutput = "{tmp_path}/run"\n[data.train]\n{texts.format("fr")}'
        f"[data.validation]\n{texts.format('fr')}[training]\nsteps = 2\nevaluate_every = 2\nbatch_tokens = 300\n"
    )
    code, _, err = run_command(capsys, "train", recipe)
    assert code == 0, err
    translator = heedful.load(tmp_path / "run", device="cpu")
    assert (translator.languages, translator.source_languages) == ((), ())
    english, french = map(tokenizer.convert_tokens_to_ids, ("eng_Latn", "fra_Latn"))
    assert translator.source.encode("the dogs")[0] == english
    assert translator.target.prefix_ids == (french,)
    assert translator.translate(["the dogs"])[0].candidates[0].ids[0] == french
    export_hugging_face(tmp_path / "run", tmp_path / "again")
    again = heedful.load(tmp_path / "again", device="cpu")
    own, exported = (each.translate(["the dogs"])[0].candidates[0].ids[:20] for each in (translator, again))
    assert own == exported
    recipe.write_text(recipe.read_text().replace('source_language = "en"\n', "").replace('/run"', '/other"'))
    code, _, err = run_command(capsys, "train", recipe)
    assert code == 2
    assert "data.train.source_language: the model of init reads eng_Latn, fra_Latn, zho_Hans; name one of these" in err


def test_a_server_offers_the_directions_of_its_settings(tmp_path: Path) -> None:
    _, _, folder = create_model("nllb", tmp_path)
    predictor = heedful.load(folder, device="cpu")
    settings = ModelSettings(run=folder, source_language="en", target_language="fr")
    languages = find_languages(predictor, settings, name="en-fr", log=print)
    assert languages.pairs == (("en", "fr"),)
    every = find_languages(predictor, ModelSettings(run=folder), name="nllb", log=print)
    assert len(every.pairs) == 6
    with pytest.raises(RecipeError, match=r"models\.x: de: this model does not write this language"):
        find_languages(
            predictor, ModelSettings(run=folder, source_language="en", target_language="de"), name="x", log=print
        )
    model = LoadedModel("en-fr", predictor, ServerSettings(), model_languages=languages)
    directions = TranslationDirections([model])
    directed = directions.find_model("en", "fr")
    assert directed is not None
    assert directed.translator.target.prefix_ids == predictor.towards("fr").target.prefix_ids
