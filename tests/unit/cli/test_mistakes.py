"""What those who are new to heedful get wrong, and the sentence that each of them is told.

One table: what is typed, and all that is said. `{run}` is a trained translation model, `{recipe}` a recipe that works;
the other files are those of `FILES`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Say = Callable[..., Any]

WORKING = """\
[data]
train = { source = "train.en", target = "train.de" }
validation = { source = "train.en", target = "train.de" }
[training]
steps = 10
"""
FILES = {
    "r.toml": WORKING,
    "train.en": "one\ntwo\n",
    "train.de": "eins\nzwei\n",
    "windows.toml": WORKING.replace('"train.en"', r'"C:\new\train.en"', 1),
    "users.toml": r'output = "C:\Users\me"' + "\n" + WORKING,
    "bare.toml": "task = tagging\n",
    "yaml.toml": "task: tagging\n",
    "true.toml": WORKING + "tensorboard = True\n",
    "top.toml": "lr = 0.001\nepochs = 3\nhidden_size = 64\n" + WORKING,
    "data.toml": WORKING.replace("[training]", "batch_size = 32\n[training]"),
    "labelled.toml": """\
[data]
train = { path = "tones.tsv", label = "tone" }
validation = { path = "tones.tsv", label = "tone" }
[training]
epochs = 1
""",
    "ner.toml": 'task = "ner"\n',
    "headless.toml": """\
task = "classification"
[data]
train = { path = "tones.tsv" }
validation = { path = "tones.tsv" }
[training]
epochs = 1
""",
    "tones.tsv": "a good film\tgood\na bad film\tbad\n",
    "recipe.yaml": "training:\n  steps: 10\n",
}
RATE = (
    "the peak learning rate is training.schedule.rate, which needs training.schedule.kind = "
    '"inverse_sqrt" or "cosine" or "linear" or "constant"'
)
CHOICES = '"transformer", "recurrent", "convolutional"'

MISTAKES = [
    # commands
    ("tranlate {run}", "'tranlate' is not a command; did you mean translate?"),
    ("Train r.toml", "'Train' is not a command; did you mean train?"),
    ("quickstart vidoe", "quickstart vidoe: no such task; did you mean video?"),
    ("quickstart asr", "quickstart asr: no such task; did you mean speech?"),
    ("recipes multi30k", "'multi30k' is not a recipe; did you mean multi30k-en-fr?"),
    ("study normalization", "'normalization' is not a study; did you mean normalisation?"),
    ("completion powershell", "SHELL: 'powershell' is not one of bash, zsh, fish"),
    # what stands where no option does
    ("train", "heedful train: needs RECIPE; write heedful train RECIPE"),
    ("translate", "heedful translate: needs RUNS; write heedful translate RUNS ..."),
    ("export {run}", "heedful export: needs FOLDER; write heedful export RUN FOLDER"),
    (
        "export {run} x --format onnx --quantization int8",
        "--quantization: belongs to --format ctranslate2; with onnx weights are fp32",
    ),
    ("chat", "heedful chat: needs RUN; write heedful chat RUN"),
    (
        "train r.toml x.toml",
        "heedful train: 'x.toml' is one word too many; put quotes around words that belong together",
    ),
    ("train r.toml training.steps=5", "heedful train: 'training.steps=5' is not an option; write --training.steps=5"),
    (
        "translate nowhere dog",
        "nowhere: no such run folder; check the path, or train first with: heedful train recipe.toml",
    ),
    (
        "translate train.en dog",
        "train.en: is a file and not a run folder; files that are filled end with .docm, .docx, ",
    ),
    (
        "translate r.toml dog",
        "r.toml: is a recipe and not a run; give the folder of its run, or train with: heedful train r.toml",
    ),
    ("new", "heedful new: needs FILE; write heedful new FILE ..., as in heedful new train.en train.de"),
    ("new tones.tsv --task sentiment", "--task: 'sentiment' is not a task; did you mean classification?"),
    (
        "new train.en train.de -o r.toml",
        "r.toml: already exists; choose another place with --output, or add --overwrite",
    ),
    ("ask {run}", "heedful ask: needs STORY; write heedful ask RUN STORY [QUESTION ...]"),
    # values
    ("translate {run} 1 --beam five", "--beam: 'five' is not a whole number"),
    ("translate {run} 1 --beam 2.5", "--beam: '2.5' is not a whole number"),
    ("translate {run} 1 --beam 0", "--beam: 0 must be at least 1"),
    ("translate {run} 1 --beam", "--beam: has no value; give a whole number, as in --beam 4"),
    ("translate {run} 1 --beam --align", "--beam: has no value; give a whole number, as in --beam 4"),
    ("translate {run} 1 --search bem", "--search: 'bem' is not one of beam, greedy, sampling; did you mean beam?"),
    (
        "translate {run} 1 --search Greedy",
        "--search: 'Greedy' is not one of beam, greedy, sampling; did you mean greedy?",
    ),
    ("translate {run} 1 --top-p 0,9", "--top-p: '0,9' is not a number; write 0.9"),
    ("translate {run} 1 --top-p 9", "--top-p: 9.0 must be at most 1"),
    (
        "translate {run} 1 --search greedy --beam 4",
        "--beam: does not fit --search greedy (is not an option of it); leave it out",
    ),
    ("translate {run} 1 --n-best 0", "--n-best: 0; must be at least 1"),
    ("translate {run} 1 --align=yes", "--align: takes no value; leave out =yes"),
    ("translate {run} 1 --format xml", "--format: 'xml' is not one of text, jsonl"),
    ("inspect {run} 1 --compare a", "--compare: has 1 value; give 2 of them, as in --compare PATH PATH"),
    (
        "inspect {run} 1 -o page.pdf",
        "--output: 'page.pdf' ends with .pdf, but the file to write must end with .html or .htm; --figure ",
    ),
    (
        "inspect {run} 1 --figure a.jpg",
        "--figure: 'a.jpg' ends with .jpg, but the file to write must end with .svg or .pdf or .png",
    ),
    (
        "inspect {run} 1 --numbers a.json",
        "--numbers: 'a.json' ends with .json, but the file to write must end with .npz or .csv",
    ),
    # options
    ("translate {run} 1 --serach beam", "heedful translate: --serach is not an option; did you mean --search?"),
    ("translate {run} 1 --num-beams 4", "heedful translate: --num-beams is not an option; did you mean --beam?"),
    ("translate {run} 1 --gpu", "heedful translate: --gpu is not an option; did you mean --device?"),
    ("translate {run} 1 -i out.txt", "heedful translate: -i is not an option; did you mean --input?"),
    (
        "generate {run} 1 --max-new-tokens 9",
        "heedful generate: --max-new-tokens is not an option; did you mean --tokens?",
    ),
    ("evaluate {run} --xyzzy", "heedful evaluate: --xyzzy is not an option; see heedful evaluate --help"),
    ("train r.toml --print-confg", "heedful train: --print-confg is not an option; did you mean --print-config?"),
    (
        "translate {run} --text 1 --input train.en",
        "--text and --input: give one of them, or neither to read standard input",
    ),
    (
        "translate {run} 1 --input nowhere.txt",
        "--text and --input: give one of them, or neither to read standard input",
    ),
    ("translate {run} --input nowhere.txt", "nowhere.txt: there is no such file; check the path"),
    ("score {run} --source train.en", "--source: give --source and --target, or --data with a TSV or JSONL file"),
    (
        "describe {run} --bogus 1 --sede=2",
        "is already trained, so its keys cannot be changed (--bogus, --sede); give a recipe to change keys, or see "
        "heedful describe --help",
    ),
    ("export {run} train.en", "train.en: cannot be written (Not a directory); choose another folder"),
    ("translate {run} 1 --to fr", "fr: this model does not write this language; it writes only one, so leave the "),
    # keys of recipes, as options and in files
    ("train r.toml --lr 0.001", f"command line: lr = 0.001 is not a known key; {RATE}"),
    ("train r.toml --training.lr 0.001", f"command line: training.lr = 0.001 is not a known key; {RATE}"),
    (
        "train r.toml --hidden-size 64",
        "command line: hidden_size = 64 is not a known key; the width of the model is model.d_model",
    ),
    (
        "train r.toml --n_layers 2",
        "command line: n_layers = 2 is not a known key; the number of layers is model.layers",
    ),
    (
        "train r.toml --num_heads 2",
        "command line: num_heads = 2 is not a known key; the number of heads is model.heads",
    ),
    (
        "train r.toml --dropout 0",
        "command line: dropout = 0 is not a known key; the share of numbers that is dropped is model.dropout",
    ),
    ("train r.toml --threads 2", "command line: threads = 2 is not a known key; did you mean training.threads?"),
    (
        "train r.toml --training.stpes 5",
        "command line: training.stpes = 5 is not a known key; did you mean training.steps?",
    ),
    (
        "train r.toml --model.kind lstm",
        f'command line: model.kind = "lstm" must be one of {CHOICES}; did you mean "recurrent"?',
    ),
    ("train r.toml --training.steps", "command line: --training.steps needs a value, as in --training.steps VALUE"),
    ("train r.toml --training.steps many", 'command line: training.steps = "many" must be a whole number'),
    (
        "train r.toml --task tagging",
        "command line: task = 'tagging': a recipe has the tables of one task; write task = ",
    ),
    (
        "train top.toml",
        "top.toml: epochs = 3 is not a known key; the number of passes over the text is training.epochs",
    ),
    (
        "train data.toml",
        "data.toml: data.batch_size = 32 is not a known key; the size of a batch, in tokens, is training.batch_tokens",
    ),
    (
        "train nothing.toml",
        "nothing.toml: cannot read this recipe (No such file or directory); give the path of a TOML file",
    ),
    ("train .", ".: cannot read this recipe (it is a folder and not a regular file); give the path of a TOML file"),
    (
        "train windows.toml",
        r"contains a line end or a tab, which is the meaning of \n and \t in double quotes: write a Windows path in "
        r"single ",
    ),
    (
        "train users.toml",
        r"in double quotes a backslash begins an escape: write a path in single quotes, as in 'C:\new\train.txt'",
    ),
    ("train bare.toml", 'text must be in quotes, as in task = "tagging"'),
    ("train yaml.toml", "write a key and its value as in key = value; a table begins with [name]"),
    ("train recipe.yaml", "write a key and its value as in key = value; a table begins with [name]"),
    ("train true.toml", "True is written true"),
    ("train ner.toml", 'did you mean "tagging"?'),
    ("train labelled.toml", 'task is not given, and these are keys of another one: is it task = "classification"?'),
    (
        "train headless.toml --output out",
        "(available: 'a good film', 'good'); choose other columns, or if the file has no header, set header = false",
    ),
    ("recipe training.kepe", "heedful recipe: 'training.kepe' is not a key of a recipe; did you mean training.keep?"),
]


@pytest.mark.parametrize(("words", "sentence"), MISTAKES, ids=[words for words, _ in MISTAKES])
def test_the_sentence_for_each_mistake(say: Say, trained: Path, here: Path, words: str, sentence: str) -> None:
    for name, content in FILES.items():
        (here / name).write_text(content, encoding="utf-8")
    said = say(*words.format(run=trained).split())
    assert said.code == 2, said
    assert "Traceback" not in said.err
    assert said.out == ""
    assert sentence in said.err, said.err


def test_there_are_mistakes_enough() -> None:
    assert len(MISTAKES) >= 60
    assert len({words for words, _ in MISTAKES}) == len(MISTAKES)
