"""Where results go: what was there stays until they come, and a terminal is shown what would otherwise act on it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from heedful.architectures.stack import EncoderConfig
from heedful.cli.output import escape_control_characters, open_output
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizers import WordTokenizer
from heedful.errors import DataError
from heedful.models.heads import TextClassifier, TokenClassifier
from heedful.tasks.classification.predictor import Classifier
from heedful.tasks.pretraining.predictor import MaskedLanguageModelPredictor
from heedful.tasks.pretraining.task import build_masked_language_model
from heedful.tasks.spans.data import WindowSettings
from heedful.tasks.spans.predictor import QuestionAnsweringPredictor
from heedful.tasks.tagging.predictor import Tagger

Say = Callable[..., "Said"]


def test_control_characters_are_signs_and_all_else_stays() -> None:
    assert escape_control_characters("a\tb\n") == "a\tb\n"
    assert escape_control_characters("\x1b[31m\x07\r\x00\x7f\x9b2J\x85") == "␛[31m␇␍␀[U+007F][U+009B]2J[U+0085]"
    assert escape_control_characters("é\u200d\u00ad😀 \u2028") == "é\u200d\u00ad😀 \u2028"


def test_a_file_keeps_its_content_until_the_first_result(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("before")
    with pytest.raises(DataError, match="wrong"), open_output(path):
        raise DataError("wrong")
    assert path.read_text() == "before"
    with open_output(path) as out:
        assert path.read_text() == "before"
        out.write("after")
        out.write("\x1b")
        out.flush()
        assert path.read_text() == "after\x1b", "files get texts as they are"
    with open_output(path):
        pass
    assert path.read_text() == "", "no results are results too"
    with pytest.raises(DataError, match="cannot be written"), open_output(tmp_path / "nowhere" / "out"):
        pass


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Makes commands find a model that is already there."""
    return lambda model: monkeypatch.setattr("heedful.runs.load.load", lambda *_, **__: model)


@pytest.fixture
def on_a_terminal(say: Say, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What a command prints on a terminal; elsewhere it prints control characters as they are."""

    def run(*words: object, stdin: str = "") -> str:
        plain = say(*words, stdin=stdin)
        assert plain.code == 0, plain
        assert any(character in plain.out for character in "\x1b\x9b")
        with monkeypatch.context() as patch:
            patch.setattr(sys.stdout, "isatty", lambda: True)
            told = say(*words, stdin=stdin)
        assert told.out == plain.out.replace("\x1b", "␛").replace("\x9b", "[U+009B]")
        return str(told.out)

    return run


ODD = "\x1b[31mred"


def test_models_and_texts_cannot_act_on_a_terminal(
    on_a_terminal: Callable[..., str], found: Callable[[Any], None]
) -> None:
    words = WordTokenizer([ODD, "the", "is"], lowercase=False, masked=True)
    config = EncoderConfig.model_validate({"d_model": 8, "heads": 2, "layers": 1, "dropout": 0.0})
    model = build_masked_language_model(config, vocabulary=words.size, longest=16, paired=True).eval()
    labels = LabelVocabulary([ODD, "\x9b2J"])
    found(MaskedLanguageModelPredictor(model, tokenizer=words, max_length=16))
    on_a_terminal("fill", "run", "--text", "the [MASK]")
    found(Tagger(TokenClassifier(model.encoder, output=nn.Linear(8, 2)).eval(), tokenizer=words, tags=labels))
    on_a_terminal("tag", "run", "--text", "the is")
    text = TextClassifier(model.encoder, output=nn.Linear(8, 2)).eval()
    found(Classifier(text, tokenizer=words, answer_type="class", labels=labels, max_length=16))
    on_a_terminal("classify", "run", stdin="the\n")
    record = json.loads(on_a_terminal("classify", "run", "--text", "the", "--format", "jsonl"))
    assert set(record["probabilities"]) == {ODD, "[U+009B]2J"}, "JSON escapes by itself what it can"
    spans = TokenClassifier(model.encoder, output=nn.Linear(8, 2)).eval()
    cutting = WindowSettings(max_length=16, stride=4, max_question=4)
    found(QuestionAnsweringPredictor(spans, tokenizer=words, settings=cutting, max_answer=3, threshold=None))
    on_a_terminal("answer", "run", "--question", "is", "--context", "\x9bred\x9b", "--n-best", "9", "--format", "jsonl")


def test_what_is_generated_cannot_act_on_a_terminal(
    on_a_terminal: Callable[..., str], trained: Path, tmp_path: Path
) -> None:
    on_a_terminal("translate", trained, "--text", "1 \x9b2J", "--format", "jsonl")

    import heedful

    (tmp_path / "t.txt").write_text("a \x1b[31m b.\n" * 20)
    (tmp_path / "r.toml").write_text(
        f'task = "language_modelling"\noutput = "{tmp_path / "run"}"\n[data]\ntrain = {{ path = "t.txt" }}\n'
        'validation = { path = "t.txt" }\nlength = 8\n[tokenizer]\nkind = "characters"\n'
        '[model]\nkind = "recurrent"\nd_model = 8\nlayers = 1\n[training]\nsteps = 1\nbatch_tokens = 64\n'
        'evaluate_every = 1\nschedule = { kind = "constant", rate = 1e-2 }\n'
    )
    run = heedful.train(heedful.load_recipe(tmp_path / "r.toml"), device="cpu").folder
    on_a_terminal("generate", run, "--prompt", "a \x1b", "--tokens", "3")
    on_a_terminal("generate", run, "--prompt", "a \x1b", "b", "--tokens", "3")
