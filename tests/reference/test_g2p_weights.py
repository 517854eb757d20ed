"""The network of g2p-en gives the same phonemes as its formulas, written in NumPy for one word and one step."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from external_data import find_external_data
from weights.g2p import GRAPHEMES, PHONEMES, GraphemeToPhoneme, load_g2p

from heedful.errors import RunError
from heedful.tensors import Tokens

WEIGHTS = "weights/g2p_en_gru/checkpoint20.npz"
DICTIONARY = "cmudict/cmudict.dict.gz"
Arrays = dict[str, Any]


def draw_arrays(d: int = 6, d_letter: int = 4, d_phoneme: int = 5) -> Arrays:
    """Draw random weights, with a different width for each part."""
    dice = np.random.default_rng(3)
    shapes: dict[str, tuple[int, ...]] = {"fc_w": (74, d), "fc_b": (74,)}
    for side, entries, width in (("enc", 29, d_letter), ("dec", 74, d_phoneme)):
        shapes |= {f"{side}_emb": (entries, width), f"{side}_w_ih": (3 * d, width), f"{side}_w_hh": (3 * d, d)}
        shapes |= {f"{side}_b_ih": (3 * d,), f"{side}_b_hh": (3 * d,)}
    return {name: dice.normal(0, 0.7, shape).astype(np.float32) for name, shape in shapes.items()}


def save_arrays(path: Path, arrays: Arrays) -> Path:
    np.savez(path, **arrays)
    return path


def compute_gru_step(arrays: Arrays, side: str, x: Any, h: Any) -> Any:
    """Compute PyTorch's GRU cell: gates in the order reset, update, candidate, each with two biases."""
    d = len(h)
    pieces = []
    for gate in range(3):
        rows = slice(gate * d, (gate + 1) * d)
        pieces.append(
            (
                arrays[f"{side}_w_ih"][rows] @ x + arrays[f"{side}_b_ih"][rows],
                arrays[f"{side}_w_hh"][rows] @ h + arrays[f"{side}_b_hh"][rows],
            )
        )
    reset, update = (1 / (1 + np.exp(-(read + kept))) for read, kept in pieces[:2])
    candidate = np.tanh(pieces[2][0] + reset * pieces[2][1])
    return (1 - update) * candidate + update * h


def pronounce_word(arrays: Arrays, word: str) -> list[str]:
    """Read letters and an end, then write at most 20 phonemes greedily, starting from <s>."""
    h = np.zeros(arrays["enc_w_hh"].shape[1], np.float32)
    letters = ["<pad>", "<unk>", "</s>"] + [chr(ord("a") + n) for n in range(26)]
    for sign in [*word, "</s>"]:
        h = compute_gru_step(arrays, "enc", arrays["enc_emb"][letters.index(sign) if sign in letters else 1], h)
    written: list[int] = []
    last = 2
    while len(written) < 20:
        h = compute_gru_step(arrays, "dec", arrays["dec_emb"][last], h)
        last = int(np.argmax(arrays["fc_w"] @ h + arrays["fc_b"]))
        if last == 3:
            break
        written.append(last)
    return [PHONEMES[number] for number in written]


def draw_dictionary_words(count: int) -> list[str]:
    """Draw words of all kinds and lengths, including words with apostrophes."""
    lines = gzip.decompress(find_external_data(DICTIONARY).read_bytes()).decode().splitlines()
    words = sorted({line.split()[0] for line in lines if "(" not in line.split()[0]})
    return [words[n] for n in np.random.default_rng(5).choice(len(words), count, replace=False)]


@pytest.fixture
def pretrained_model() -> GraphemeToPhoneme:
    return load_g2p(find_external_data(WEIGHTS))


def test_a_hundred_words_are_pronounced_as_by_the_package(pretrained_model: GraphemeToPhoneme) -> None:
    with np.load(find_external_data(WEIGHTS)) as file:
        arrays = dict(file)
    words = draw_dictionary_words(100)
    assert len({len(word) for word in words}) > 8, "the batch has rows of many lengths"
    assert pretrained_model.pronounce(words) == [pronounce_word(arrays, word) for word in words]


def test_words_that_no_dictionary_has(pretrained_model: GraphemeToPhoneme) -> None:
    """The example of g2p-en's page, whose last word is in no dictionary."""
    spoken = ["AE2", "K", "T", "IH0", "V", "EY1", "SH", "AH0", "N", "IH0", "S", "T"]
    assert pretrained_model.pronounce(["activationist"]) == [spoken]


def test_random_weights_and_the_limit(tmp_path: Path) -> None:
    """Random networks hardly ever end a word, so most words reach the limit."""
    arrays = draw_arrays()
    loaded = load_g2p(save_arrays(tmp_path / "w.npz", arrays))
    words = ["a", "", "zyzzyva", "o'clock", "naïve", "straightforwardness"]
    expected = [pronounce_word(arrays, word) for word in words]
    assert max(len(spoken) for spoken in expected) == 20
    assert loaded.pronounce(words) == expected
    assert loaded.pronounce(words, limit=3) == [spoken[:3] for spoken in expected]
    assert loaded.pronounce(["ZyZZyva"]) == [expected[2]]
    assert loaded.pronounce([]) == []


def test_logits(tmp_path: Path) -> None:
    """Logits of a given output in double precision; greedy search alone would not show all of them."""
    arrays = {name: array.astype(np.float64) for name, array in draw_arrays().items()}
    loaded = load_g2p(save_arrays(tmp_path / "w.npz", arrays))
    for parameter, theirs in _pair_parameters(loaded, arrays):
        parameter.data = torch.from_numpy(theirs)
    forced = [2, 40, 7, 7, 73]
    h = np.zeros(6)
    for sign in (*"word", "</s>"):
        h = compute_gru_step(arrays, "enc", arrays["enc_emb"][GRAPHEMES.index(sign)], h)
    expected = []
    for number in forced:
        h = compute_gru_step(arrays, "dec", arrays["dec_emb"][number], h)
        expected.append(arrays["fc_w"] @ h + arrays["fc_b"])
    target = Tokens(torch.tensor([forced]), torch.arange(5).unsqueeze(0))
    found, _ = loaded.model.step(target, loaded.model.init_state(loaded.build_tokens(["word"])))
    torch.testing.assert_close(found[0], torch.from_numpy(np.stack(expected)))


def _pair_parameters(loaded: GraphemeToPhoneme, arrays: Arrays) -> list[tuple[Any, Any]]:
    """Pair each parameter with the array that contains the same numbers."""
    parameters = list(loaded.model.parameters())
    pairs = [
        (parameter, array)
        for parameter in parameters
        for array in arrays.values()
        if parameter.shape == array.shape and np.array_equal(parameter.detach().numpy(), array.astype(np.float32))
    ]
    assert len(pairs) == len(parameters) == len(arrays)
    return pairs


def test_many_words_are_batched(tmp_path: Path) -> None:
    loaded = load_g2p(save_arrays(tmp_path / "w.npz", draw_arrays()))
    dice = np.random.default_rng(1)
    words = ["".join(chr(97 + n) for n in dice.integers(0, 26, dice.integers(1, 9))) for _ in range(300)]
    together = loaded.pronounce(words, limit=2)
    assert len(together) == 300
    assert [together[n] for n in (0, 255, 256, 299)] == [
        loaded.pronounce([words[n]], limit=2)[0] for n in (0, 255, 256, 299)
    ]


def test_the_vocabularies_are_those_of_the_package() -> None:
    assert (len(GRAPHEMES), len(PHONEMES)) == (29, 74)
    # one from each end of the list, and around the vowel that has four forms
    assert {n: PHONEMES[n] for n in (0, 2, 3, 4, 22, 23, 62, 65, 66, 73)} == {
        0: "<pad>", 2: "<s>", 3: "</s>", 4: "AA0", 22: "B", 23: "CH", 62: "UH0", 65: "UW", 66: "UW0", 73: "ZH",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"enc_w_hh": None}, "holds no enc_w_hh"),
        ({"dec_emb": np.zeros((70, 5), np.float32)}, r"dec_emb is \(70, 5\) and should be \(74, 5\)"),
        ({"fc_w": np.zeros(3, np.float32)}, r"is \(.*\) and should be"),
        ({"fc_b": np.array(["x"] * 74)}, "no archive of numbers"),
        ({"fc_b": np.array([object()] * 74)}, "no archive of numbers"),
    ],
)
def test_wrong_contents_are_errors(tmp_path: Path, change: Arrays, message: str) -> None:
    arrays = {name: array for name, array in {**draw_arrays(), **change}.items() if array is not None}
    with pytest.raises(RunError, match=message):
        load_g2p(save_arrays(tmp_path / "w.npz", arrays))


def test_files_that_are_not_archives_are_errors(tmp_path: Path) -> None:
    whole = save_arrays(tmp_path / "w.npz", draw_arrays()).read_bytes()
    np.save(tmp_path / "one.npy", np.zeros(3))
    for name, content in {"text": b"hello", "empty": b"", "cut": whole[:900]}.items():
        (tmp_path / name).write_bytes(content)
    for name in ("text", "empty", "cut", "one.npy"):
        with pytest.raises(RunError, match="no archive of numbers"):
            load_g2p(tmp_path / name)
    with pytest.raises(RunError, match="cannot be read"):
        load_g2p(tmp_path / "nowhere.npz")
