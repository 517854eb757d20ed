"""Train a small model from Python on sentences that this script generates.

The script writes runs/tiny.toml, runs/tiny-text/*.tsv and, in a few seconds, runs/tiny: the model that the examples of
the documentation use. If you start it again after an interruption, training continues from its last checkpoint.
"""

from __future__ import annotations

import random
from pathlib import Path

import heedful

NUMBERS = {"two": "zwei", "three": "drei"}
COLOURS = {"black": "schwarz", "white": "weiß", "brown": "braun", "grey": "grau"}
ANIMALS = {
    "dog": ("ein", "er", "Hund", "Hunde"),
    "cat": ("eine", "e", "Katze", "Katzen"),
    "horse": ("ein", "es", "Pferd", "Pferde"),
    "bird": ("ein", "er", "Vogel", "Vögel"),
    "duck": ("eine", "e", "Ente", "Enten"),
}
RECIPE = """\
[data]
train = { path = "tiny-text/train.tsv" }
validation = { path = "tiny-text/validation.tsv" }
test = { path = "tiny-text/test.tsv" }
max_length = 24

[tokenizer]
kind = "words"

[model]
d_model = 64
heads = 4
d_ff = 128
layers = 1

[training]
steps = 150
batch_tokens = 512
schedule = { kind = "cosine", rate = 5e-3, warmup = 20 }
evaluate_every = 50
threads = 1
"""


def sample_animals(rng: random.Random) -> tuple[str, str]:
    """Sample animals in English and in German, which has genders: "a grey cat", "eine graue Katze"."""
    animal, colour = rng.choice(list(ANIMALS)), rng.choice(list(COLOURS))
    article, ending, singular, plural = ANIMALS[animal]
    number = rng.choice(["a", *NUMBERS])
    if number == "a":
        return f"a {colour} {animal}", f"{article} {COLOURS[colour]}{ending} {singular}"
    return f"{number} {colour} {animal}s", f"{NUMBERS[number]} {COLOURS[colour]}e {plural}"


def sample_sentence(rng: random.Random) -> tuple[str, str]:
    """Sample a sentence that names two kinds of animals, in English and in German."""
    (english_1, german_1), (english_2, german_2) = sample_animals(rng), sample_animals(rng)
    return f"{english_1} and {english_2}", f"{german_1} und {german_2}"


def write_text(folder: Path) -> None:
    """Write 460 different pairs: 400 for training, 30 for validation and 30 for the test."""
    rng, pairs = random.Random(1), dict[str, str]()
    while len(pairs) < 460:
        source, target = sample_sentence(rng)
        pairs[source] = target
    lines = [f"{source}\t{target}\n" for source, target in pairs.items()]
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in (("train", lines[:400]), ("validation", lines[400:430]), ("test", lines[430:])):
        (folder / f"{name}.tsv").write_text("".join(part), encoding="utf-8")


def main() -> None:
    """Write data and recipe, train the model and translate two sentences."""
    write_text(Path("runs/tiny-text"))
    Path("runs/tiny.toml").write_text(RECIPE, encoding="utf-8")
    recipe = heedful.load_recipe("runs/tiny.toml")
    outcome = heedful.train(recipe, say=print)
    print(f"trained {outcome.folder}")

    model = heedful.load(outcome.folder)
    for translation in model.translate(["two black cats and a white dog", "a grey duck and three brown horses"]):
        print(f"{translation.source} -> {translation.text}")


if __name__ == "__main__":
    main()
