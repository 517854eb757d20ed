"""Make the golden runs beside this file: one tiny trained run of each task and architecture, with its answers.

The existing folders were made by an older version, which wrote run folders and recipes of format 1. They show that the
current version loads old runs, gives the same answers, and continues their training. So the current version never makes
them again, because it would then be compared with itself. A new run, such as one of a new task, is a new entry of
`RUNS`; existing folders are not changed:

    PYTHONPATH=tests python -m golden.make

Each folder contains

    recipe.toml     as a user wrote it, and its texts
    run/            the run folder; without checkpoints and encoded text, unless its training is continued: its manifest
                    lists them anyway, as after a user has removed them
    expected.json   questions to the run and its answers, in Python and on the command line; its resolved recipe; and
                    for complete runs the result of two more updates

Numbers in expected.json have all their digits. They were computed in fp32 on a processor with one thread. Texts were
checked to stay the same when each weight is changed by 1e-5 of itself, so other kernels do not change them.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from golden.asking import ask, find_differences, parse_printed, to_plain
from safetensors.torch import load_file, save_file

import heedful
from heedful.__main__ import main
from heedful.atomic_io import MANIFEST, compute_digest
from heedful.data.pictures import encode_png
from heedful.recipes.load import build_recipe
from heedful.runs.load import open_run
from heedful.tasks.captioning.scenes import build_clip_files as moving_files
from heedful.tasks.captioning.scenes import build_coco_files, generate_clips, generate_scenes
from heedful.tasks.glimpses.demonstration import encode_idx
from heedful.tasks.speech.demonstration import generate_recordings

HERE: Final = Path(__file__).parent
STEPS: Final = 80
EVERY: Final = 20
MOVED: Final = 1e-5

# --- texts ------------------------------------------------------------------------------------------------

SUBJECTS = (("the dog", "der Hund"), ("the cat", "die Katze"), ("a child", "ein Kind"), ("my friend", "mein Freund"))
VERBS = (("sees", "sieht"), ("hears", "hört"), ("likes", "mag"))
OBJECTS = (("the dog", "den Hund"), ("the cat", "die Katze"), ("a bird", "einen Vogel"), ("the sea", "das Meer"))
PAIRS = [(f"{s[0]} {v[0]} {o[0]} .", f"{s[1]} {v[1]} {o[1]} .") for s, v, o in product(SUBJECTS, VERBS, OBJECTS)]
SENTENCES = [f"{source[0].upper()}{source[1:-2]}." for source, _ in PAIRS]
TAGS = {"the": "DET", "a": "DET", "my": "PRON", ".": "PUNCT"} | {verb: "VERB" for verb, _ in VERBS}
ENTITIES = {"my": "B-person", "friend": "I-person", "sea": "B-place"}
OUTSIDE = ("bird", "sea")


def split_lines(lines: Sequence[str], *, train: str, validation: str, head: str = "") -> dict[str, str]:
    """Split lines: each fifth line is for validation, the others for training."""
    ends = {
        train: [line for n, line in enumerate(lines) if n % 5],
        validation: [line for n, line in enumerate(lines) if not n % 5],
    }
    return {name: head + "".join(f"{line}\n" for line in kept) for name, kept in ends.items()}


def build_parallel_text() -> dict[str, str]:
    """Build English and German text."""
    sides = (
        split_lines([pair[side] for pair in PAIRS], train=f"train.{name}", validation=f"validation.{name}")
        for side, name in enumerate(("en", "de"))
    )
    return {name: text for side in sides for name, text in side.items()}


def build_documents() -> dict[str, str]:
    """Build documents of four sentences, separated by empty lines."""
    mixed = [SENTENCES[n * 7 % len(SENTENCES)] for n in range(len(SENTENCES))]
    whole = ["\n".join(mixed[n : n + 4]) + "\n" for n in range(0, len(mixed), 4)]
    return split_lines(whole, train="train.txt", validation="validation.txt")


def build_columns() -> dict[str, str]:
    """Build words with their parts of speech."""
    tagged = ["".join(f"{w}\t{TAGS.get(w, 'NOUN')}\n" for w in source.split()) for source, _ in PAIRS]
    return split_lines(tagged, train="train.tsv", validation="validation.tsv")


def build_entities() -> dict[str, str]:
    """Build CoNLL-U with entity tags in the column of language-specific parts of speech."""
    tagged = [
        "".join(
            f"{n}\t{w}\t_\t{TAGS.get(w, 'NOUN')}\t{ENTITIES.get(w, 'O')}\t_\t_\t_\t_\t_\n"
            for n, w in enumerate(source.split(), 1)
        )
        for source, _ in PAIRS
    ]
    return split_lines(tagged, train="train.conllu", validation="validation.conllu")


def build_labelled_text() -> dict[str, str]:
    """Build sentences with the place of what is perceived."""
    rows = [f"{s}\t{'outside' if s.split()[-2] in OUTSIDE else 'home'}" for s, _ in PAIRS]
    return split_lines(rows, train="train.tsv", validation="validation.tsv", head="text\tlabel\n")


def build_numbered_pairs() -> dict[str, str]:
    """Build pairs of sentences with their share of common words."""
    rows = []
    for n, (first, _) in enumerate(PAIRS):
        second = PAIRS[(n * 11 + 5) % len(PAIRS)][0]
        common = len(set(first.split()) & set(second.split())) / len(set(first.split()))
        rows.append(json.dumps({"one": first, "two": second, "alike": round(common, 3)}))
    return split_lines(rows, train="train.jsonl", validation="validation.jsonl")


def build_entailment() -> dict[str, str]:
    """Build pairs of sentences, and whether they have the same subject."""
    rows = []
    for n, (first, _) in enumerate(PAIRS):
        second = PAIRS[(n * 7 + 3) % len(PAIRS)][0]
        rows.append(f"{first},{second},{'yes' if first.split()[1] == second.split()[1] else 'no'}")
    return split_lines(rows, train="train.csv", validation="validation.csv", head="premise,hypothesis,label\n")


def build_alternatives() -> dict[str, str]:
    """Build SuperGLUE's COPA: the sea, or something else."""
    rows = []
    for n, (first, _) in enumerate(PAIRS):
        both = [PAIRS[n // 4 * 4 + n % 3][0], PAIRS[n // 4 * 4 + 3][0]]
        if n % 2:
            both.reverse()
        question = "cause" if n % 3 else "effect"
        row = {"premise": first, "choice1": both[0], "choice2": both[1], "question": question, "label": 1 - n % 2}
        rows.append(json.dumps(row | {"idx": n}))
    return split_lines(rows, train="train.jsonl", validation="val.jsonl")


def build_dialogues() -> dict[str, str]:
    """Build dialogues: a speaker translates English to German, and repeats it."""
    rows = []
    for source, target in PAIRS:
        said = (("user", source), ("system", target), ("user", "again ?"), ("system", target))
        rows.append(json.dumps({"turns": [{"speaker": speaker, "text": text} for speaker, text in said]}))
    return split_lines(rows, train="train.jsonl", validation="validation.jsonl")


def build_questions() -> dict[str, str]:
    """Build questions about who does something, with two sentences; each third one has no answer."""
    rows = []
    for n, ((s, _), (v, _), (o, _)) in enumerate(product(SUBJECTS, VERBS, OBJECTS)):
        other = SENTENCES[(n * 13 + 6) % len(SENTENCES)]
        context = f"{s.capitalize()} {v} {o}. {other}"
        answers = [] if n % 3 == 2 else [{"text": s.capitalize(), "start": 0}]
        asked = f"Who {v} {o}?" if answers else "Who sleeps?"
        rows.append(json.dumps({"question": asked, "context": context, "answers": answers}))
    return split_lines(rows, train="train.jsonl", validation="validation.jsonl")


def build_stories() -> dict[str, str]:
    """Build stories with questions about who perceives something; one of the facts has the answer."""
    rows = []
    for n, ((s, _), (v, _), (o, _)) in enumerate(product(SUBJECTS, VERBS, OBJECTS)):
        facts = [SENTENCES[(n * 13 + 6 * k) % len(SENTENCES)] for k in range(n % 4)]
        facts.insert(n % (len(facts) + 1), f"{s.capitalize()} {v} {o}.")
        asked = {"facts": facts, "question": f"Who {v} {o}?", "answer": s, "supporting": [n % len(facts)]}
        rows.append(json.dumps(asked | {"task": v}))
    story = "".join(f"{number} {fact}\n" for number, fact in enumerate(SENTENCES[:3], 1))
    return {**split_lines(rows, train="train.jsonl", validation="validation.jsonl"), "story.txt": story}


def build_two_tasks() -> dict[str, str]:
    """Build the files of a classifier and of a tagger."""
    named = (("labels", build_labelled_text()), ("tags", build_columns()))
    return {f"{task}-{file}": text for task, files in named for file, text in files.items()}


def build_dots() -> dict[str, bytes]:
    """Build pictures of 8 x 8 pixels in IDX, with a square whose corner is the class; two also as files."""
    shown, labels = np.zeros((60, 8, 8), dtype=np.uint8), np.arange(60) % 4
    for number, label in enumerate(labels):
        row, column = 4 * (label // 2) + number // 4 % 3, 4 * (label % 2) + number // 12 % 3
        shown[number, row : row + 2, column : column + 2] = 255 - number
    parts = {"train": slice(48), "validation": slice(48, 60)}
    found = {f"{name}.idx": encode_idx(shown[part]) for name, part in parts.items()}
    found |= {f"{name}-labels.idx": encode_idx(labels[part].astype(np.uint8)) for name, part in parts.items()}
    return found | {f"{n}.png": encode_png(np.repeat(shown[n, :, :, None], 3, axis=2)) for n in (48, 49)}


def build_scenes() -> dict[str, str | bytes]:
    """Build scenes of one or two shapes with their captions and boxes."""
    found: dict[str, str | bytes] = {}
    for part, count in (("train", 24), ("validation", 6)):
        pictures, table = build_coco_files(generate_scenes(part, count, size=16), stem=part[0])
        found |= {**pictures, f"{part}.json": table}
    return found


def build_clips() -> dict[str, str | bytes]:
    """Build clips of two shapes with their captions and events."""
    found: dict[str, str | bytes] = {}
    for part, count in (("train", 12), ("validation", 4)):
        found |= moving_files(generate_clips(part, count, size=12), stem=part)
    return found


def build_recordings() -> dict[str, str | bytes]:
    """Build recordings of two spoken digits, in a few voices."""
    found: dict[str, str | bytes] = {}
    for part, count in (("train", 8), ("validation", 3)):
        said = list(generate_recordings(part, count, seed=1, digits=2))
        found |= {f"{part}{number}.wav": each.wav for number, each in enumerate(said)}
        found[f"{part}.tsv"] = "".join(f"{part}{number}.wav\t{each.text}\n" for number, each in enumerate(said))
    return found


# --- recipes ----------------------------------------------------------------------------------------------


def format_training(*more: str, batch_tokens: int = 200) -> str:
    """Return a small table [training] in fp32."""
    lines = [
        f"steps = {STEPS}",
        f"batch_tokens = {batch_tokens}",
        f"evaluate_every = {EVERY}",
        'precision = "fp32"',
        "threads = 1",
        *more,
    ]
    if not any(line.startswith("schedule") for line in more):
        lines.append('schedule = { kind = "constant", rate = 3e-2 }')
    return "\n[training]\n" + "".join(f"{line}\n" for line in lines)


def format_data(train: str, validation: str, *more: str) -> str:
    """Return the table [data], with each part in curly brackets."""
    lines = [f"train = {{ {train} }}", f"validation = {{ {validation} }}", *more]
    return "\n[data]\n" + "".join(f"{line}\n" for line in lines)


def format_paths(suffix: str, *more: str, keys: str = "") -> str:
    """Return the table [data] for files named train and validation."""
    return format_data(f'path = "train.{suffix}"{keys}', f'path = "validation.{suffix}"{keys}', *more)


WORDS = '\n[tokenizer]\nkind = "words"\n'
LOWER = WORDS + "lowercase = true\n"
CHARACTERS = '\n[tokenizer]\nkind = "characters"\n'
TRANSLATION = format_data(
    'source = "train.en", target = "train.de"',
    'source = "validation.en", target = "validation.de"',
    "max_length = 16",
)
SMALL = "\n[model]\nd_model = 8\nheads = 2\nd_ff = 16\nlayers = 1\n"
ENCODER = SMALL + 'positions = { kind = "learned", length = 32 }\n'
BEAM = "\n[generation]\nwidth = 3\nmax_extra = 5\n"

# --- questions ---------------------------------------------------------------------------------------------

NEW = ["the dog hears the sea .", "my friend likes a child .", "", "a bird sees the cat ."]
GREEDY = {"kind": "greedy"}
TRANSLATED: list[dict[str, Any]] = [
    {"call": "translate", "asked": [NEW]},
    {"call": "translate", "asked": [NEW], "given": {"search": GREEDY}},
    {
        "call": "translate",
        "asked": [NEW],
        "given": {"search": {"kind": "beam", "width": 5, "alpha": 1.0, "n_best": 3}},
    },
    {
        "call": "translate",
        "asked": [NEW],
        "given": {"search": {"kind": "sampling", "temperature": 0.7, "seed": 5, "n": 2}},
    },
    {
        "call": "translate",
        "asked": [NEW[:2]],
        "given": {"prefixes": ["die Katze", "mein"], "search": GREEDY},
    },
    {"call": "score", "asked": [[*map(list, PAIRS[3:6]), ["a sea sees", "das Meer hört xyz"]]]},
    {"call": "embed", "asked": [NEW]},
    {"call": "align", "asked": ["my friend sees a", "mein Freund sieht"]},
    {"call": "inspect", "asked": ["a child likes", "ein Kind"]},
]
TRANSLATE = [
    ["translate", "run", "--text", *NEW],
    ["translate", "run", "--text", *NEW, "--search", "greedy", "--format", "jsonl"],
    ["translate", "run", "--text", *NEW, "--format", "jsonl", "--n-best", "2", "--align"],
    ["score", "run", "--source", "validation.en", "--target", "validation.de", "--format", "jsonl"],
    ["evaluate", "run", "--format", "json", "--samples", "10"],
]
PROMPTS = ["The dog", "", "My friend hears the", "A child likes"]
WRITTEN: list[dict[str, Any]] = [
    {"call": "write", "asked": [PROMPTS], "given": {"search": GREEDY, "limit": 20}},
    {"call": "write", "asked": [PROMPTS], "given": {"search": GREEDY, "limit": 30, "stop": [".\n"]}},
    {
        "call": "write",
        "asked": [PROMPTS],
        "given": {"search": {"kind": "sampling", "temperature": 0.8, "seed": 5, "n": 2}, "limit": 12},
    },
    {"call": "write", "asked": [PROMPTS[:1]]},
    {"call": "surprise", "asked": [[*SENTENCES[:3], "", "Zebras? The cat sees my friend."]]},
]
WRITE = [
    ["generate", "run", "--prompt", "The dog", "--search", "greedy", "--tokens", "12"],
    ["generate", "run", "--prompt", *PROMPTS, "--search", "greedy", "--tokens", "12", "--format", "jsonl"],
    ["evaluate", "run", "--format", "json"],
]
SAID = ["the dog hears the sea .", "a child likes a bird .\tein Kind mag einen Vogel .\tagain ?", ""]
CHAT = [
    ["predict", "run", "--text", *SAID],
    ["predict", "run", "--text", *SAID, "--format", "jsonl"],
    ["evaluate", "run", "--format", "json"],
]
GAPS = ["The dog [MASK] the sea.", "[MASK] friend hears a [MASK]."]
EMBEDDED = {"call": "embed", "asked": [[*SENTENCES[:3], "", "An unknown cat."]]}
WORDS_ASKED = [["my", "friend", "sees", "the", "sea", "."], [], ["a", "zebra", "likes", "a", "dog"]]
MEASURE = ["evaluate", "run", "--format", "json"]
ASKED_CLASSES = ["the dog hears the sea .", "the sea hears the dog", "", "a child likes a zebra ."]
ASKED_PAIRS = [["the dog hears the sea .", "the dog sees a bird ."], ["my friend sees", "a cat likes a bird ."]]
ASKED_SPANS = [
    ["Who hears a bird?", "The dog sees the sea. My friend hears a bird."],
    ["Who sleeps?", "The cat likes the sea. A child hears the dog."],
    ["Who likes the cat?", "A child likes the cat. " + " ".join(SENTENCES[5:13])],
    ["Who?", ""],
    [
        "Who like?",
        "My friend hears a bird. The cat likes the sea.",
    ],  # the answer, if the learned threshold for no answer were 0
]

ASKED_STORIES = [
    [["The dog sees the sea.", "My friend hears a bird."], "Who hears a bird?"],
    [["A child likes a zebra."], "Who likes a zebra?"],
    [[], "Who sleeps?"],
    [SENTENCES[:6], "Who sees the sea?"],
]


@dataclass(frozen=True)
class Golden:
    """A run and its questions.

    Attributes:
        recipe: recipe as TOML.
        texts: files that the recipe names.
        questions: questions for `ask`.
        commands: words of command lines, in the folder with the run `run`.
        complete: whether checkpoints and encoded text are kept, to continue the training.
    """

    recipe: str
    texts: Mapping[str, str | bytes]
    questions: list[dict[str, Any]]
    commands: list[list[str]] = field(default_factory=list)
    complete: bool = False


def ask_earlier_step(question: dict[str, Any]) -> dict[str, Any]:
    """Return the same question to the last checkpoint but one."""
    return question | {"step": STEPS - EVERY}


RUNS: Final[dict[str, Golden]] = {
    "translation-transformer": Golden(
        "seed = 3\n" + TRANSLATION + LOWER + SMALL + 'dropout = 0.0\nresidual = "pre_norm"\n'
        + format_training("average = 2", "keep = 2", 'monitor = "bleu"') + BEAM,
        build_parallel_text(), [*TRANSLATED, ask_earlier_step(TRANSLATED[0])],
        [*TRANSLATE, ["translate", "run", "--text", *NEW, "--step", str(STEPS - EVERY)]], complete=True,
    ),
    "translation-recurrent": Golden(
        TRANSLATION + WORDS + "joint = false\n"
        + '\n[model]\nkind = "recurrent"\nd_model = 8\ncell = "gru"\ntie = "two_way"\n'
        + 'reading = { kind = "bahdanau", score = "additive" }\n' + format_training("clip = 1.0") + BEAM,
        build_parallel_text(), TRANSLATED, TRANSLATE,
    ),
    "translation-sampled": Golden(
        TRANSLATION + WORDS
        + '\n[model]\nkind = "recurrent"\nd_model = 8\ncell = "lstm"\ndropout = 0.0\nbidirectional = false\n'
        + 'source_order = "reversed"\nreading = { kind = "luong", weights = "sampled" }\n'
        + format_training("keep = 1") + '\n[generation]\nkind = "greedy"\n',
        build_parallel_text(), TRANSLATED, TRANSLATE[:2], complete=True,
    ),
    "translation-convolutional": Golden(
        TRANSLATION + WORDS + '\n[model]\nkind = "convolutional"\nd_model = 8\nlayers = 1\npositions_length = 24\n'
        + format_training() + "\n[generation]\nwidth = 2\nmax_ratio = 0.5\nmax_extra = 1\nlength_penalty = 1.0\n",
        build_parallel_text(), TRANSLATED, TRANSLATE,
    ),
    "language-transformer": Golden(
        'task = "language_modelling"\n' + format_paths("txt", "length = 48") + CHARACTERS
        + SMALL + 'positions = { kind = "learned", length = 48 }\n' + format_training(batch_tokens=400)
        + "\n[generation]\ntemperature = 0.5\ntop_k = 5\ntokens = 30\nrepetition_penalty = 1.1\n",
        build_documents(), [*WRITTEN, {"call": "inspect", "asked": ["The cat"], "given": {"limit": 0}}], WRITE,
    ),
    "language-lstm": Golden(
        'task = "language_modelling"\n' + format_paths("txt", "length = 32", 'documents = "apart"')
        + WORDS + '\n[model]\nkind = "recurrent"\ncell = "lstm"\nd_model = 8\nlayers = 1\ndropout = 0.0\n'
        + format_training("ema = 0.8", "keep = 1", "truncation = 8", "accumulate = 2")
        + '\n[generation]\nkind = "greedy"\ntokens = 15\nstop = ["sea"]\n',
        build_documents(), WRITTEN, WRITE, complete=True,
    ),
    "conversation-transformer": Golden(
        'task = "conversation"\n' + format_paths("jsonl", "window = 2", "max_length = 16")
        + WORDS + SMALL + 'dropout = 0.0\nresidual = "pre_norm"\n' + format_training("average = 2", "keep = 2"),
        build_dialogues(), [], CHAT,
    ),
    "conversation-decoder-only": Golden(
        'task = "conversation"\n'
        + format_paths("jsonl", "window = 3", "max_length = 40", 'learned = "dialogues"') + WORDS
        + '\n[model]\nkind = "decoder_only"\n[model.decoder]\nkind = "recurrent"\n'
        + 'cell = "gru"\nd_model = 8\nlayers = 1\n'
        + "dropout = 0.0\n" + format_training("ema = 0.8", "keep = 1") + "\n[generation]\ntokens = 9\n",
        build_dialogues(), [], CHAT, complete=True,
    ),
    "pretraining-hidden-tokens": Golden(
        'task = "pretraining"\n' + format_paths("txt", "max_length = 32") + LOWER + ENCODER
        + 'initialisation = "xavier"\n' + format_training('masking = { kind = "words", share = 0.3 }'),
        build_documents(),
        [
            {"call": "fill", "asked": [GAPS]},
            EMBEDDED,
            {"call": "inspect", "asked": ["The [MASK] sees.", "The sea."]},
        ],
        [["fill", "run", "--text", *GAPS, "--format", "jsonl"], ["embed", "run", "--text", *SENTENCES[:2]], MEASURE],
    ),
    "pretraining-replaced-tokens": Golden(
        'task = "pretraining"\n' + format_paths("txt", "max_length = 32") + LOWER + ENCODER + "segments = 1\n"
        + format_training('objective = { kind = "replaced_tokens" }', 'pairing = "alone"'),
        build_documents(),
        [{"call": "detect", "asked": [[*SENTENCES[:2], "The dog sees friend bird.", ""]]}, EMBEDDED],
        [["embed", "run", "--text", *SENTENCES[:2], "--normalise"], MEASURE],
    ),
    "stories": Golden(
        'task = "stories"\n' + format_paths("jsonl", "memory = 4") + "\n[model]\nd_model = 8\nhops = 2\n"
        + format_training("linear_start = 4", "noise = 0.1", batch_tokens=8),
        build_stories(),
        [
            {"call": "answer", "asked": [ASKED_STORIES]},
            {"call": "inspect", "asked": ASKED_STORIES[0], "given": {"supporting": [1]}},
        ],
        [["ask", "run", "story.txt", "Who sees a bird?", "--format", "jsonl"], MEASURE], complete=True,
    ),
    "stories-chain": Golden(
        'task = "stories"\n' + format_paths("jsonl") + WORDS
        + '\n[model]\nd_model = 8\nhops = 2\nattention = "binary_chain"\ntie = "layer_wise"\n'
        + format_training('optimizer = { kind = "sgd" }', batch_tokens=8),
        build_stories(),
        [{"call": "answer", "asked": [ASKED_STORIES]}, {"call": "inspect", "asked": ASKED_STORIES[3]}],
        [MEASURE],
    ),
    "tagging-transformer": Golden(
        'task = "tagging"\n' + format_paths("tsv", "max_length = 16") + CHARACTERS.replace("characters", "words")
        + SMALL + 'positions = { kind = "rotary" }\n' + format_training('monitor = "accuracy"'),
        build_columns(),
        [{"call": "tag", "asked": [WORDS_ASKED]}, {"call": "inspect", "asked": [WORDS_ASKED[0]]}],
        [["tag", "run", "--text", *map(" ".join, WORDS_ASKED), "--format", "jsonl"], MEASURE],
    ),
    "tagging-recurrent": Golden(
        'task = "tagging"\n' + format_paths("conllu", keys=', tag = "xpos"') + WORDS
        + '\n[model]\nkind = "recurrent"\nd_model = 8\ncell = "lstm"\n' + format_training('monitor = "f1"'),
        build_entities(), [{"call": "tag", "asked": [WORDS_ASKED]}],
        [["tag", "run", "--text", *map(" ".join, WORDS_ASKED)], MEASURE],
    ),
    "classification": Golden(
        'task = "classification"\ninit = "../pretraining-hidden-tokens/run"\n' + format_paths("tsv", "max_length = 16")
        + format_training('schedule = { kind = "linear", rate = 3e-2, warmup_share = 0.1 }', 'monitor = "accuracy"'),
        build_labelled_text(),
        [
            {"call": "classify", "asked": [ASKED_CLASSES]},
            {"call": "embed", "asked": [ASKED_CLASSES]},
            {"call": "inspect", "asked": [ASKED_CLASSES[0]]},
        ],
        [["classify", "run", "--text", *ASKED_CLASSES, "--format", "jsonl"], MEASURE],
    ),
    "classification-self-attentive": Golden(
        'task = "classification"\n' + format_paths("tsv", "max_length = 16") + WORDS
        + '\n[model]\nkind = "recurrent"\ncell = "lstm"\nd_model = 8\nd_hidden = 8\n'
        + 'summary = { kind = "self_attentive", hops = 2, d_alignment = 8 }\n' + format_training(),
        build_labelled_text(),
        [
            {"call": "classify", "asked": [ASKED_CLASSES[:2]]},
            {"call": "embed", "asked": [ASKED_CLASSES[:2]]},
            {"call": "inspect", "asked": [ASKED_CLASSES[0]]},
        ],
        [["classify", "run", "--text", *ASKED_CLASSES[:2], "--format", "jsonl"], MEASURE],
    ),
    "classification-numbers": Golden(
        'task = "classification"\n'
        + format_paths(
            "jsonl", "numbers = true", "max_length = 24", keys=', text = "one", pair = "two", label = "alike"'
        ) + WORDS + ENCODER + 'summary = { kind = "mean" }\n' + format_training('monitor = "pearson"'),
        build_numbered_pairs(), [{"call": "classify", "asked": [ASKED_PAIRS]}],
        [
            [
                "classify", "run", "--text", *(one for one, _ in ASKED_PAIRS),
                "--pair", *(two for _, two in ASKED_PAIRS), "--format", "jsonl",
            ],
            MEASURE,
        ],
    ),
    "classification-conditional": Golden(
        'task = "classification"\n'
        + format_paths("csv", "max_length = 24", 'positive = "yes"', keys=', text = "premise", pair = "hypothesis"')
        + WORDS + '\n[model]\nkind = "conditional"\nd_model = 8\n' + format_training('monitor = "f1"'),
        build_entailment(),
        [{"call": "classify", "asked": [ASKED_PAIRS]}, {"call": "inspect", "asked": [ASKED_PAIRS[0]]}],
        [
            [
                "classify", "run", "--text", *(one for one, _ in ASKED_PAIRS),
                "--pair", *(two for _, two in ASKED_PAIRS), "--format", "jsonl",
            ],
            MEASURE,
        ],
    ),
    "classification-choice": Golden(
        'task = "classification"\n'
        + format_data(
            'benchmark = "superglue/copa", folder = ".", split = "train"',
            'benchmark = "superglue/copa", folder = ".", split = "dev"',
            "max_length = 32",
        )
        + WORDS + ENCODER + format_training(),
        build_alternatives(),
        [{"call": "choose", "asked": [[[[one, one], [one, two]] for one, two in ASKED_PAIRS]]}],
        [
            ["classify", "run", "--text", ASKED_PAIRS[0][0], "--pair", *ASKED_PAIRS[0], "--format", "jsonl"],
            MEASURE,
        ],
    ),
    "spans": Golden(
        'task = "spans"\n' + format_paths("jsonl", "max_length = 32", "max_question = 10", "max_answer = 6")
        + '\n[tokenizer]\nkind = "bpe"\nsize = 60\n' + ENCODER + format_training(batch_tokens=400),
        build_questions(),
        [
            {"call": "answer_all", "asked": [ASKED_SPANS], "given": {"n_best": 3}},
            {"call": "inspect", "asked": ["Who sees?", "The cat sees."]},
        ],
        [
            ["answer", "run", "--question", ASKED_SPANS[0][0], "--context", ASKED_SPANS[0][1]],
            [
                "answer", "run", "--question", ASKED_SPANS[2][0], "--context", ASKED_SPANS[2][1],
                "--format", "jsonl", "--n-best", "2",
            ],
            MEASURE,
        ],
    ),
    "matching": Golden(
        'task = "matching"\n' + TRANSLATION + WORDS + ENCODER
        + format_training("pairs = 8", "margin = 0.1", "keep = 1"),
        build_parallel_text(),
        [{"call": "embed", "asked": [NEW]}, {"call": "inspect", "asked": [NEW[0]]}],
        [["embed", "run", "--text", *NEW], MEASURE],
    ),
    "multitask": Golden(
        'task = "multitask"\n'
        + '\n[tasks.kind-of-thing]\n'
        + 'data = { train = { path = "labels-train.tsv" }, validation = { path = "labels-validation.tsv" }, '
        + "max_length = 16 }\n"
        + '\n[tasks.speech]\nkind = "tagging"\nweight = 0.5\n'
        + 'data = { train = { path = "tags-train.tsv" }, validation = { path = "tags-validation.tsv" }, '
        + "max_length = 16 }\n"
        + WORDS + SMALL
        + 'dropout = 0.0\ninitialisation = "xavier"\npositions = { kind = "learned", length = 16 }\n'
        + format_training(
            "temperature = 2.0", "keep = 1", 'monitor = "loss"', 'schedule = { kind = "constant", rate = 1e-2 }'
        ),
        build_two_tasks(),
        [
            {"head": "kind-of-thing", "call": "classify", "asked": [ASKED_CLASSES]},
            {"head": "speech", "call": "tag", "asked": [WORDS_ASKED]},
        ],
        [
            ["classify", "run", "--text", *ASKED_CLASSES, "--format", "jsonl"],
            ["tag", "run", "--text", *map(" ".join, WORDS_ASKED), "--format", "jsonl"],
            MEASURE,
        ],
        complete=True,
    ),
    "glimpses": Golden(
        'task = "glimpses"\n'
        + format_data(
            'path = "train.idx", labels = "train-labels.idx"',
            'path = "validation.idx", labels = "validation-labels.idx"',
            "height = 8", "width = 8", 'scene = { kind = "translated", side = 9 }',
        )
        + '\n[model]\nd_model = 12\nd_glimpse = 8\nglimpses = 3\npatch = 4\nscales = 2\n'
        + format_training("copies = 2", "warp = { shift = 0.5 }", batch_tokens=24) + "\n[looking]\ncopies = 3\n",
        build_dots(), [], [["look", "run", "48.png", "49.png", "--format", "jsonl"], MEASURE], complete=True,
    ),
    "captioning": Golden(
        'task = "captioning"\n' + format_paths("json", "picture_size = 16", "max_length = 24")
        + '\n[model]\nd_model = 8\npictures = { widths = [4, 8] }\n'
        + 'decoder = { kind = "recurrent", dropout = 0.0, start = "mlp", reading = { gate = true } }\n'
        + format_training("doubly_stochastic = 0.1", "keep = 1") + BEAM,
        build_scenes(), [],
        [["caption", "run", "v00000.png", "v00001.png", "v00002.png", "--format", "jsonl", "--n-best", "2"], MEASURE],
        complete=True,
    ),
    "video": Golden(
        'task = "video"\n' + format_paths("jsonl", "frames = 16", "frame_size = 12", "max_length = 16")
        + '\n[model]\nd_model = 8\nframes = { widths = [4, 8] }\nmotion = { widths = [4] }\n'
        + 'decoder = { kind = "recurrent", dropout = 0.0, reading = { kind = "bahdanau" } }\n'
        + format_training("keep = 1", batch_tokens=60) + BEAM,
        build_clips(), [],
        [["caption", "run", *(f"validation/0000{n}.npz" for n in range(4)), "--format", "jsonl"], MEASURE],
        complete=True,
    ),
    "speech": Golden(
        'task = "speech"\n' + format_paths("tsv", "frames = { rate = 8000 }", "max_seconds = 4", "max_length = 8")
        + WORDS + '\n[model]\nd_model = 8\nheads = 2\nlayers = 1\nd_ff = 16\nchannels = 4\nctc_weight = 0.5\n'
        + "\n[model.decoder]\nlayers = 1\nheads = 2\nd_ff = 16\n"
        + format_training("keep = 1", batch_tokens=400),
        build_recordings(), [],
        [["transcribe", "run", *(f"validation{n}.wav" for n in range(3)), "--format", "jsonl"], MEASURE],
    ),
    "language-memory": Golden(
        'task = "language_modelling"\n' + format_paths("txt", "length = 32", 'documents = "apart"')
        + WORDS + '\n[model]\nkind = "memory_network"\nd_model = 8\nhops = 3\nmemory = 5\ndeviation = 0.3\n'
        + format_training("keep = 1") + '\n[generation]\nkind = "greedy"\ntokens = 15\nstop = ["sea"]\n',
        build_documents(), [*WRITTEN, {"call": "inspect", "asked": ["The cat"], "given": {"limit": 0}}], WRITE,
        complete=True,
    ),
}  # fmt: skip


# --- making -----------------------------------------------------------------------------------------------


def run_command(*words: str) -> tuple[str, str]:
    """Run a command, which must succeed, and return its output and its messages."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words))
    said, told = (stream.buffer.getvalue().decode() for stream in (out, err))
    assert code == 0, (words, told)
    return said, told


@contextlib.contextmanager
def copy_runs(folder: Path) -> Iterator[Path]:
    """Copy all golden folders, which init may need; the copy of one is the current folder."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(HERE, Path(place) / "golden")
        os.chdir(Path(place) / "golden" / folder.name)
        try:
            yield Path.cwd()
        finally:
            os.chdir(before)


def train(name: str, golden: Golden) -> Path:
    """Train a run in its folder, so that all paths are relative to it."""
    folder = HERE / name
    folder.mkdir()
    for file, text in golden.texts.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_bytes(text.encode() if isinstance(text, str) else text)
    (folder / "recipe.toml").write_text(golden.recipe, encoding="utf-8", newline="\n")
    os.chdir(folder)
    sys.argv = ["heedful", "train", "recipe.toml"]  # run.json keeps this
    # load_recipe would make the paths absolute, and so contain the name of the machine
    recipe = build_recipe({"output": "run", **tomllib.loads(golden.recipe)}, source=name)
    heedful.train(recipe, device="cpu", say=print)
    os.chdir(HERE)
    strip_run(folder / "run", complete=golden.complete)
    return folder


def strip_run(run: Path, *, complete: bool) -> None:
    """Remove what depends on this machine, and what only training needs."""
    (run / ".lock").unlink()
    about = json.loads((run / "run.json").read_text(encoding="utf-8"))
    about |= {"platform": "Linux", "device": "cpu"}
    (run / "run.json").write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if not complete:
        for place in (run / "checkpoints", run / "data", *run.glob("tasks/*/data")):
            shutil.rmtree(place)


def compute_expected(folder: Path, golden: Golden) -> dict[str, Any]:
    """Compute all answers."""
    recipe = open_run(folder / "run").recipe
    expected: dict[str, Any] = {
        "made_by": f"heedful {heedful.__version__}, torch {torch.__version__}",
        "recipe": recipe.model_dump(mode="json", exclude_none=True),
        "answers": [
            {"question": question, "answer": answer_question(folder / "run", question)} for question in golden.questions
        ],
    }
    with copy_runs(folder):
        expected["commands"] = [
            {"words": words, "printed": parse_printed(run_command(*words, "--device", "cpu")[0])}
            for words in golden.commands
        ]
    if golden.complete:
        with copy_runs(folder):
            more = ("--output", "run", "--training.steps", str(STEPS + 2))
            run_command("train", "recipe.toml", *more, "--device", "cpu")
            *_, last = Path("run/metrics.jsonl").read_text(encoding="utf-8").splitlines()
            expected["resumed"] = {"steps": STEPS + 2, "final": json.loads(last)}
    return json.loads(json.dumps(to_plain(expected)))  # type: ignore[no-any-return]  # as it will be read


def format_expected(expected: dict[str, Any]) -> str:
    """Format as JSON with a line for each answer, so that differences are easy to find."""
    parts = []
    for key, value in expected.items():
        text = json.dumps(value, ensure_ascii=False)
        if isinstance(value, list):
            text = "[\n" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in value) + "\n]"
        parts.append(f'"{key}": {text}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def answer_question(run: Path, question: dict[str, Any]) -> Any:
    """Ask a run, or one of its checkpoints."""
    return ask(heedful.load(run, device="cpu", step=question.get("step")), question)


def check_stability(folder: Path, expected: dict[str, Any]) -> None:
    """Check that slightly changed weights give the same texts, because other kernels may change weights."""
    with copy_runs(folder):
        run = Path("run")
        for name in [path for path in run.rglob("*.safetensors") if "training" not in path.name]:
            generator = torch.Generator().manual_seed(1)
            moved = {
                key: weight * (1 + MOVED * torch.randn(weight.shape, generator=generator))
                for key, weight in load_file(name).items()
            }
            save_file(moved, name)
            manifest = json.loads((run / MANIFEST).read_text(encoding="utf-8"))
            manifest["files"][name.relative_to(run).as_posix()] = compute_digest(name)
            (run / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
        for each in expected["answers"]:
            found = json.loads(json.dumps(answer_question(run, each["question"])))
            other = [*islice(find_differences(found, each["answer"], relative=0.1, absolute=0.05), 3)]
            assert not other, (folder.name, each["question"], other)


def make() -> None:
    """Make each run that does not exist yet."""
    torch.set_num_threads(1)
    for name, golden in RUNS.items():
        if (HERE / name / "expected.json").exists():
            print(f"{name}: is here and stays as it is")
            continue
        shutil.rmtree(HERE / name, ignore_errors=True)
        folder = train(name, golden)
        expected = compute_expected(folder, golden)
        check_stability(folder, expected)
        (folder / "expected.json").write_text(format_expected(expected), encoding="utf-8", newline="\n")
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        print(f"{name}: {size:,} bytes", flush=True)


if __name__ == "__main__":
    make()
