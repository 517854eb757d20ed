"""Models of others that write several languages: `--to` asks for one, as of our own."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from untrained_runs import create_untrained_run

import heedful
from heedful.data.factors import SourceEncoder
from heedful.data.pretrained_tokenizers import MappedSentencePieceTokenizer
from heedful.data.tokenizer_files import load_tokenizer
from heedful.errors import RecipeError
from heedful.runs.export import export_marian
from heedful.tasks.translation.source_reader import SourceReader
from heedful.tasks.translation.translations import Translation

Say = Callable[..., Any]
WORDS = ["red", "blue", "green", "dogs", "cats", "birds", "run", "sleep", "sing", "today", "never", "often"]
SOURCES = ["red dogs run", "never", "", "blue birds sing often today"]
UNSAID = "this model writes fra, cmn_Hans: choose one with --to or towards()"


def text(path: Path, seed: int) -> str:
    dice = random.Random(seed)
    path.write_text("".join(f"{' '.join(dice.choices(WORDS, k=dice.randint(1, 9)))}\n" for _ in range(200)))
    return str(path)


def folder_of(path: Path, languages: Sequence[str]) -> Path:
    """Somebody's Marian, whose vocabulary has pieces for languages."""
    paths = {"source": text(path / "a.txt", 1), "target": text(path / "b.txt", 2)}
    run = create_untrained_run(
        {
            "output": str(path / "run"),
            "data": {"train": paths, "validation": paths},
            "tokenizer": {"kind": "bpe", "size": 60},
            "model": {"d_model": 16, "heads": 2, "d_ff": 24, "layers": 1},
            "training": {"steps": 1},
            "generation": {"max_extra": 6},
        }
    )
    folder = path / "opus"
    export_marian(run, folder)
    for own in folder.glob("heedful.*"):
        own.unlink()
    (folder / "generation_config.json").write_text('{"num_beams": 2, "max_new_tokens": 9}')
    pieces: dict[str, int] = json.loads((folder / "vocab.json").read_text())
    renamed = dict(zip(list(pieces)[-len(languages) :], languages, strict=True))
    (folder / "vocab.json").write_text(
        json.dumps({f">>{renamed[piece]}<<" if piece in renamed else piece: n for piece, n in pieces.items()})
    )
    return folder


@pytest.fixture
def opus(tmp_path: Path) -> Path:
    return folder_of(tmp_path, ["fra", "cmn_Hans"])


def translator_of(folder: Path) -> heedful.Translator:
    return heedful.load(folder, kind=heedful.Translator, device="cpu")


def texts(found: Sequence[Translation]) -> list[str]:
    return [each.text for each in found]


def test_a_language_is_asked_for_as_a_text_asks(opus: Path) -> None:
    translator = translator_of(opus)
    assert translator.languages == ("fra", "cmn_Hans")
    for language in translator.languages:
        asked = [f">>{language}<< {line}" if line else "" for line in SOURCES]
        towards = translator.towards(language)
        assert texts(towards.translate(SOURCES)) == texts(translator.translate(asked))
        pairs = list(zip(SOURCES, ["cats", "cats", "", "dogs"], strict=True))
        own = [(source, target) for source, (_, target) in zip(asked, pairs, strict=True)]
        assert [each.log_probability for each in towards.score(pairs)] == [
            each.log_probability for each in translator.score(own)
        ]
        number = translator.source.tag_ids[f"<2{language}>"]
        assert towards.source.encode("red dogs") == [number, *translator.source.encode("red dogs")]
        assert towards.source.to_pieces([number]) == [f">>{language}<<"]
    both = [translator.towards(language).score([("red dogs", "cats")])[0] for language in translator.languages]
    assert both[0].log_probability != both[1].log_probability


def test_on_a_command_line(say: Say, opus: Path) -> None:
    said = say("translate", opus, "--to", "fra", "--text", *SOURCES)
    assert said.lines == texts(translator_of(opus).towards("fra").translate(SOURCES))
    mixed = say("translate", opus, "--text", ">>cmn_Hans<< red dogs run", ">>fra<<never")
    assert mixed.lines == [
        texts(translator_of(opus).towards(language).translate([line]))[0]
        for language, line in (("cmn_Hans", "red dogs run"), ("fra", "never"))
    ]
    told = {
        ("--text", "red"): UNSAID,
        ("--to", "deu", "--text", "red"): "deu: this model does not write this language; it writes fra, "
        "cmn_Hans: choose one of these",
        ("--to", "fra", "--text", ">>cmn_Hans<< red"): "a sentence begins with >>cmn_Hans<<, but fra is already "
        "requested: leave one of them out",
        (
            "--tags",
            ">>fra<<",
            "--text",
            "red",
        ): "--tags: >>fra<< is the tag of a language; leave it out, and give --to fra",
        (
            "--tags",
            "<2fra>",
            "--text",
            "red",
        ): "--tags: <2fra> is the tag of a language; leave it out, and give --to fra",
        (
            "--to",
            "fra",
            "--tags",
            "<news>",
            "--text",
            "red",
        ): "<news>: is not a tag of this vocabulary (it has: <2fra>, <2cmn_Hans>); choose one of these",
    }
    for words, complaint in told.items():
        assert say("translate", opus, *words).complaint == complaint, words


def test_a_file_of_translators_says_it_itself(say: Say, opus: Path, tmp_path: Path) -> None:
    path = tmp_path / "app.po"
    path.write_text('msgid ""\nmsgstr "Language: de\\n"\n\nmsgid "red dogs"\nmsgstr ""\n')
    assert say("translate", opus, path, "-o", tmp_path / "filled.po").complaint.startswith(
        f"{path}: its target language is 'de', but this model writes fra, cmn_Hans"
    )
    path.write_text(path.read_text().replace("Language: de", "Language: fr"))
    said = say("translate", opus, path, "-o", tmp_path / "filled.po")
    assert said.code == 0, said.err
    assert texts(translator_of(opus).towards("fra").translate(["red dogs"]))[0] in (tmp_path / "filled.po").read_text()


def test_every_part_of_a_long_sentence_asks(opus: Path) -> None:
    translator, long = translator_of(opus), " . ".join(["red dogs run today"] * 20)
    asked = translator.towards("fra").source
    parts = SourceReader(SourceEncoder(asked, {}), max_length=40).split_into_parts(long)
    assert len(parts) > 1
    assert all(part.tokens.ids[0] == asked.tag_ids["<2fra>"] for part in parts)
    own = SourceReader(SourceEncoder(translator.source, {}), max_length=40).split_into_parts(f">>fra<< {long}")
    assert own[0].tokens.ids[0] == asked.tag_ids["<2fra>"]
    assert len(own) > 1, "of which nobody asks for more"


def test_one_language_need_not_be_asked_for(tmp_path: Path) -> None:
    translator = translator_of(folder_of(tmp_path, ["fra"]))
    assert translator.languages == ("fra",)
    plain, asked = translator.translate(["red dogs run"])[0], translator.towards("fra").translate(["red dogs run"])[0]
    assert (len(plain.source_tokens) + 1, asked.source_tokens[0]) == (len(asked.source_tokens), ">>fra<<")


def recipe_of(opus: Path, keys: str) -> Path:
    folder = opus.parent
    path = folder / "on.toml"
    path.write_text(
        f'init = "{opus}"\noutput = "{folder}/on"\n[data]\nvalidation = {{ source = "{folder}/a.txt", '
        f'target = "{folder}/b.txt"{keys} }}\n[data.train.texts.one]\nsource = "{folder}/a.txt"\n'
        f'target = "{folder}/b.txt"{keys.replace(", ", chr(10))}\n'
        "[training]\nsteps = 1\nevaluate_every = 1\nbatch_tokens = 200\nmonitor = 'bleu'\n"
    )
    return path


@pytest.mark.slow
def test_who_goes_on_may_ask_or_have_it_forgotten(say: Say, opus: Path) -> None:
    path = recipe_of(opus, "")
    assert say("train", path).code == 0
    own = translator_of(opus.parent / "on")
    assert own.languages == (), "one language is learned, and no sentence asks for it"
    assert own.source.encode(">>fra<< red") == translator_of(opus).source.encode(">>fra<< red")
    assert isinstance(own.source, MappedSentencePieceTokenizer)
    path = recipe_of(opus, ', target_language = "fra"')
    other = '[data.train.texts.two]\nsource = "{0}/a.txt"\ntarget = "{0}/b.txt"\ntarget_language = "{1}"\n'
    path.write_text(path.read_text() + other.format(opus.parent, "cmn_Hans"))
    assert say("train", path, "--output", opus.parent / "asked").code == 0
    asked = translator_of(opus.parent / "asked")
    assert asked.languages == ("fra", "cmn_Hans")
    assert asked.towards("fra").source.encode("red") == translator_of(opus).towards("fra").source.encode("red")
    assert say("translate", opus.parent / "asked", "--text", "red").complaint == UNSAID
    path.write_text(path.read_text().replace("cmn_Hans", "deu"))
    assert say("train", path, "--output", opus.parent / "never").complaint == (
        "data: <2deu> is put before sources, but the vocabulary of init has no such piece (it has <2fra>, "
        "<2cmn_Hans>); give the table [tokenizer], so that one is learned"
    )


def test_a_vocabulary_keeps_whether_it_is_asked(opus: Path, tmp_path: Path) -> None:
    source = translator_of(opus).source
    assert isinstance(source, MappedSentencePieceTokenizer)
    for each in (source, source.without_tags()):
        each.save(tmp_path / "saved")
        again = load_tokenizer(tmp_path / "saved")
        assert dict(again.tag_ids) == dict(each.tag_ids)
        assert again.encode(">>fra<< red") == source.encode(">>fra<< red")
    source.save(tmp_path / "saved")
    record = json.loads((tmp_path / "saved").read_text())
    del record["tags"]
    (tmp_path / "old").write_text(json.dumps({**record, "asks": True}))
    assert dict(load_tokenizer(tmp_path / "old").tag_ids) == dict(source.tag_ids), "as earlier versions saved it"
    (tmp_path / "old").write_text(json.dumps({**record, "asks": False}))
    assert not load_tokenizer(tmp_path / "old").tag_ids
    with pytest.raises(RecipeError, match=r"not a tag of this vocabulary \(it has: none\)"):
        source.without_tags().with_tags(["<2fra>"])
