"""Made-up sequences that separate mechanisms: words in reverse order, words that need three others at once, and gaps
that need both sides together.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

_LETTERS: Final = "abcdefghjkmnprst"
_REVERSAL_LENGTHS: Final = (2, 10)
"""Fewest and most words of the training sequences that are reversed."""
_LONGEST_REVERSAL: Final = 20
"""Most words of the test sequences that are reversed."""
_SIZES: Final = {"validation": 200, "test": 600, "train": 6000}
_FEW_LETTERS: Final = "abcd"
_SUBJECTS: Final = ("duck", "boat", "child", "dog", "robot", "ball")
_PLACES: Final = ("in the river", "on the ice", "in the garden", "on the road", "in the snow", "on the roof")
_VERBS: Final = ("rests", "turns", "jumps", "slides", "waits", "sinks")
_ADJECTIVES: Final = ("old", "small", "red", "quiet", "wet", "big")
_TIMES: Final = ("today", "at noon", "at night", "in May", "again", "soon")


def iter_reversal_files(seed: int) -> Iterator[tuple[str, str]]:
    """Yield the name and content of the files train.tsv, validation.tsv and test.tsv: letters, a tab, and the letters
    in reverse order. The test also has sequences that are longer than those of the training, and its shortest ones
    may occur in the training.
    """
    dice = Random(seed)
    for part, size in _SIZES.items():
        longest = _LONGEST_REVERSAL if part == "test" else _REVERSAL_LENGTHS[1]
        lines = []
        for _ in range(size):
            letters = dice.choices(_LETTERS, k=dice.randint(_REVERSAL_LENGTHS[0], longest))
            lines.append(f"{' '.join(letters)}\t{' '.join(reversed(letters))}\n")
        yield f"{part}.tsv", "".join(lines)


def iter_neighbour_files(seed: int) -> Iterator[tuple[str, str]]:
    """Yield the name and content of the files train.tsv, validation.tsv and test.tsv, with a word and its tag on each
    line. The tag of a letter is made of the letter two before it, the letter two after it (a dash outside of the
    sequence) and the first letter of the sequence, so a layer must fetch three letters at once. An empty line separates
    sequences.
    """
    dice = Random(seed)
    for part, size in _SIZES.items():
        sequences = []
        for _ in range(size):
            letters = dice.choices(_FEW_LETTERS, k=dice.randint(6, 12))
            padded = ["-", "-", *letters, "-", "-"]
            tags = [f"{padded[place]}{padded[place + 4]}{letters[0]}" for place in range(len(letters))]
            sequences.append("".join(f"{letter}\t{tag}\n" for letter, tag in zip(letters, tags, strict=True)))
        yield f"{part}.tsv", "\n".join(sequences)


def iter_gap_files(seed: int) -> Iterator[tuple[str, str]]:
    """Yield the name and content of the files train.tsv, validation.tsv and test.tsv, with a word and its tag on each
    line. The verb of each sentence is a gap, whose tag is the verb; all other tags are a dash. The verb follows from
    the subject on the left and the place on the right together; one of them alone says nothing about it.
    """
    dice, seen = Random(seed), set[str]()
    for part, size in {"test": 400, "validation": 200, "train": 3000}.items():
        sentences: list[str] = []
        while len(sentences) < size:
            subject, place = dice.randrange(len(_SUBJECTS)), dice.randrange(len(_PLACES))
            verb = _VERBS[(subject + place) % len(_VERBS)]
            time, first, second = dice.choice(_TIMES), dice.choice(_ADJECTIVES), dice.choice(_ADJECTIVES)
            text = f"{time} the {first} {_SUBJECTS[subject]} _ {_PLACES[place].replace('the', f'the {second}')}"
            if text not in seen:
                seen.add(text)
                pairs = ((word, verb if word == "_" else "-") for word in text.split())
                sentences.append("".join(f"{word}\t{tag}\n" for word, tag in pairs))
        yield f"{part}.tsv", "\n".join(sentences)
