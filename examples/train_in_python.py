"""Train a small model from Python, on sentences that this script writes itself.

It makes runs/tiny.toml, runs/tiny-text/*.tsv and, in a few seconds, runs/tiny: the model that the examples of the
documentation use. Training goes on where it was left if it is started again.
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


def animals(dice: random.Random) -> tuple[str, str]:
    """Some animals in English and in German, which tells genders apart: "a grey cat", "eine graue Katze"."""
    animal, colour = dice.choice(list(ANIMALS)), dice.choice(list(COLOURS))
    article, ending, one, many = ANIMALS[animal]
    number = dice.choice(["a", *NUMBERS])
    if number == "a":
        return f"a {colour} {animal}", f"{article} {COLOURS[colour]}{ending} {one}"
    return f"{number} {colour} {animal}s", f"{NUMBERS[number]} {COLOURS[colour]}e {many}"


def sentence(dice: random.Random) -> tuple[str, str]:
    """Animals and other animals."""
    (first, erstes), (second, zweites) = animals(dice), animals(dice)
    return f"{first} and {second}", f"{erstes} und {zweites}"


def write_text(folder: Path) -> None:
    """460 different pairs: 400 to learn from, 30 to choose a checkpoint by, 30 to test."""
    dice, pairs = random.Random(1), dict[str, str]()
    while len(pairs) < 460:
        source, target = sentence(dice)
        pairs[source] = target
    lines = [f"{source}\t{target}\n" for source, target in pairs.items()]
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in (("train", lines[:400]), ("validation", lines[400:430]), ("test", lines[430:])):
        (folder / f"{name}.tsv").write_text("".join(part), encoding="utf-8")


def main() -> None:
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
