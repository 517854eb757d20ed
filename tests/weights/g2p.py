"""The trained grapheme-to-phoneme network of the package g2p-en 2.x: one GRU reads letters, one writes phonemes."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from heedful.blocks.embedding import TokenEmbedding
from heedful.blocks.feedforward import StateReadout
from heedful.blocks.recurrent import GRU, RecurrentStack, UnidirectionalLayer
from heedful.errors import RunError
from heedful.generation import greedy_search
from heedful.models.generative import SequenceToSequence
from heedful.models.recurrent_decoder import ContextDecoder, CopyEncoderState, use_at_start
from heedful.models.recurrent_encoder import RecurrentEncoder, take_last_state
from heedful.tensors import Tokens

_CONSONANTS = (*"BDFGKLMNPRSTVWYZ", "CH", "DH", "HH", "JH", "NG", "SH", "TH", "ZH")
_VOWELS = ("AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW")
_STRESSED = [f"{vowel}{stress}" for vowel in _VOWELS for stress in (0, 1, 2)]

GRAPHEMES: Final = ("<pad>", "<unk>", "</s>", *"abcdefghijklmnopqrstuvwxyz")
"""Symbols that the encoder reads, by id."""
PHONEMES: Final = ("<pad>", "<unk>", "<s>", "</s>", *sorted([*_STRESSED, *_CONSONANTS, "UW"]))
"""Symbols that the decoder writes, by id: ARPAbet, vowels with their stress; one vowel also occurs without."""

_PAD, _UNKNOWN, _END_OF_WORD = (GRAPHEMES.index(each) for each in ("<pad>", "<unk>", "</s>"))
_BEGIN, _END = (PHONEMES.index(each) for each in ("<s>", "</s>"))
_AT_ONCE = 256

# The arrays of g2p-en, and the parameters of heedful that they fill.
_PLACES: Mapping[str, str] = {
    "enc_emb": "encoder.embedding.table.weight",
    "dec_emb": "decoder.embedding.table.weight",
    "fc_w": "output.weight",
    "fc_b": "output.bias",
    **{
        f"{side}_{kind}_{letters}": f"{whole}.stack.layers.0.cell.{ours}"
        for side, whole in (("enc", "encoder"), ("dec", "decoder"))
        for kind, letters, ours in (
            ("w", "ih", "input.weight"),
            ("w", "hh", "recurrent.weight"),
            ("b", "ih", "input.bias"),
            ("b", "hh", "recurrent.bias"),
        )
    },
}


@dataclass(frozen=True)
class GraphemeToPhoneme:
    """A model of the pronunciation of words.

    Attributes:
        model: reads ids of `GRAPHEMES`, writes ids of `PHONEMES`; any search of `heedful.generation` works with it.
    """

    model: SequenceToSequence[Tokens]

    def pronounce(self, words: Sequence[str], *, limit: int = 20) -> list[list[str]]:
        """Return the phonemes of each word, each the most probable one after those before it.

        Capitals are read as small letters, and other characters than a to z as unknown, as g2p-en does.

        Args:
            words: single words without spaces.
            limit: maximal number of phonemes of a word; the package has 20.
        """
        spoken: list[list[str]] = []
        for first in range(0, len(words), _AT_ONCE):
            source = self.build_tokens(words[first : first + _AT_ONCE])
            prompt = Tokens(source.ids.new_full((len(source.ids), 1), _BEGIN), source.ids.new_zeros(len(source.ids), 1))
            with torch.inference_mode():
                state = self.model.init_state(source)
            found = greedy_search(self.model.step, state, prompt, eos=_END, max_new_tokens=limit)
            spoken += [[PHONEMES[number] for number in hypotheses[0].ids] for hypotheses in found]
        return spoken

    def build_tokens(self, words: Sequence[str]) -> Tokens:
        """Encode words for `model`: letters and an end, padded on the right."""
        spelled = [[*map(_encode_letter, word.lower()), _END_OF_WORD] for word in words]
        ids = torch.full((len(spelled), max(map(len, spelled))), _PAD)
        for row, letters in enumerate(spelled):
            ids[row, : len(letters)] = torch.tensor(letters)
        return Tokens.from_ids(ids, pad=_PAD)


def load_g2p(path: str | Path) -> GraphemeToPhoneme:
    """Load the network in g2p-en's `checkpoint20.npz` as a model of heedful.

    A GRU reads the letters, its last state is the first state of a second GRU, and a linear map of each state predicts
    the next phoneme (Sutskever et al. 2014).

    Raises:
        RunError: the file cannot be read, or has other contents.
    """
    arrays = _load_arrays(Path(path))
    model = _build_model(*(_get_width(arrays[name]) for name in ("enc_emb", "dec_emb")), d=_get_width(arrays["fc_w"]))
    ours = dict(model.named_parameters())
    assert ours.keys() == set(_PLACES.values())
    with torch.no_grad():
        for theirs, name in _PLACES.items():
            if arrays[theirs].shape != ours[name].shape:
                raise RunError(
                    f"{path}: {theirs} is {tuple(arrays[theirs].shape)} and should be {tuple(ours[name].shape)}; take "
                    "checkpoint20.npz as the package g2p-en 2.1.0 has it"
                )
            ours[name].copy_(arrays[theirs])
    return GraphemeToPhoneme(model.eval())


def _encode_letter(character: str) -> int:
    return GRAPHEMES.index(character) if character in GRAPHEMES else _UNKNOWN


def _load_arrays(path: Path) -> dict[str, Tensor]:
    try:
        with path.open("rb") as opened, np.load(opened) as file:  # it refuses pickled objects by default
            missing = sorted(set(_PLACES) - set(file))
            if not missing:
                return {name: torch.from_numpy(np.asarray(file[name], np.float32)) for name in _PLACES}
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror or error}); give the path of the weights") from None
    except (ValueError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, zlib.error):
        raise RunError(f"{path}: is no archive of numbers that numpy could read; take it from g2p-en 2.1.0") from None
    raise RunError(f"{path}: holds no {missing[0]}; take checkpoint20.npz as the package g2p-en 2.1.0 has it")


def _get_width(matrix: Tensor) -> int:
    """Return the length of the rows of a matrix; 1 for other shapes, which are rejected later."""
    return max(1, matrix.size(1)) if matrix.dim() == 2 else 1


def _build_model(d_letter: int, d_phoneme: int, *, d: int) -> SequenceToSequence[Tokens]:
    reading, speaking = GRU(d_letter, d), GRU(d_phoneme, d)
    encoder = RecurrentEncoder(
        TokenEmbedding(nn.Embedding(len(GRAPHEMES), d_letter), scaled=False),
        RecurrentStack([UnidirectionalLayer(reading)]),
        summary=take_last_state,
    )
    decoder = ContextDecoder(
        TokenEmbedding(nn.Embedding(len(PHONEMES), d_phoneme), scaled=False),
        RecurrentStack([UnidirectionalLayer(speaking)]),
        start=CopyEncoderState([speaking]),
        use=use_at_start,
        readout=StateReadout(d),
    )
    return SequenceToSequence(encoder, decoder, output=nn.Linear(d, len(PHONEMES)))
