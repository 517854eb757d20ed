import gzip
import random
from pathlib import Path

import pytest
import torch

from heedful.data.word_vectors import read_word_vectors
from heedful.errors import DataError


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("end", ["\n", " \n", "\r\n"])
@pytest.mark.parametrize("d_model", [1, 5])
def test_words_of_the_vocabulary_get_their_vectors(
    tmp_path: Path, *, header: bool, zipped: bool, end: str, d_model: int
) -> None:
    rng = random.Random(2)
    words = [f"w\u00a0{i}" for i in range(50)]
    numbers = [[rng.gauss(0, 1) for _ in range(d_model)] for _ in words]
    lines = [f"{word} {' '.join(map(repr, row))}" for word, row in zip(words, numbers, strict=True)]
    text = end.join(([f"50 {d_model}"] if header else []) + lines) + end
    path = tmp_path / "vectors"
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    vocabulary = {word: 1000 + i for i, word in enumerate(words) if i % 3 == 0} | {"elsewhere": 7}
    found = read_word_vectors(path, vocabulary=vocabulary, d_model=d_model)
    assert found.ids.tolist() == [1000 + i for i in range(0, 50, 3)]
    torch.testing.assert_close(found.vectors, torch.tensor(numbers[::3]), rtol=0, atol=0)


def test_the_first_vector_of_a_word_counts_and_words_may_hold_spaces(tmp_path: Path) -> None:
    path = tmp_path / "glove"
    path.write_text("a 1 2\n. . 3 4\na 5 6\nnew york 7 8\nb x y\n")
    vectors, ids = read_word_vectors(path, vocabulary={"a": 4, ". .": 5, "york": 6}, d_model=2)
    assert ids.tolist() == [4, 5]
    assert vectors.tolist() == [[1, 2], [3, 4]]


def test_no_word_in_common_gives_no_vectors(tmp_path: Path) -> None:
    path = tmp_path / "glove"
    path.write_text("a 1 2\n")
    vectors, ids = read_word_vectors(path, vocabulary={"z": 4}, d_model=2)
    assert (vectors.shape, vectors.dtype, ids.tolist()) == ((0, 2), torch.float32, [])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a 1 2\nb 1\n", ":2: vectors of 1 numbers where d_model is 2"),
        ("a 1 2\nb 1 2 3\n", ":2: vectors of 3 numbers where d_model is 2"),
        ("a 1 2\n\n", ":2: vectors of 0 numbers"),
        ("1 3\na 1 2 3\n", ":1: vectors of 3 numbers where d_model is 2"),
        ("9" * 5000 + " " + "9" * 5000 + "\n", ":1: vectors of 1 numbers"),
        ("a 1 2\nb 1 x\n", ":2: 'x' is not a number"),
        ("a 1 2\nb 1 nan\n", ":2: a number that is not finite"),
        ("a 1 2\nb 1 1e39\n", ":2: a number that is not finite"),
        ("3 2\na 1 2\nb 1 2\n", ": its header promises 3 words, but there are 2"),
        ("a 1 2\nb 1\0 2\n", ":2: a NUL character"),
    ],
)
def test_broken_files_are_named_with_their_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "glove"
    path.write_text(text)
    with pytest.raises(DataError, match=f"glove{words}"):
        read_word_vectors(path, vocabulary={"a": 4, "b": 5}, d_model=2)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="glove: there is no such file"):
        read_word_vectors(tmp_path / "glove", vocabulary={}, d_model=2)


def test_a_long_field_that_is_no_number_is_told_in_a_short_sentence(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("the 0.1 0.2\ncat 1 " + "x" * 50_000 + "\n")
    with pytest.raises(DataError, match=r"v\.txt:2: 'xxx") as caught:
        read_word_vectors(tmp_path / "v.txt", vocabulary={"the": 0, "cat": 1}, d_model=2)
    assert len(str(caught.value)) < 300
