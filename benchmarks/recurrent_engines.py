"""Who trains and who decodes in the benchmark of recurrent models."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from made_up import caption_lengths
from plain_recurrent import PlainRecurrent, feeding_model, joey_model, put_into_plain
from torch import Tensor
from training_loops import Loop, Ours, Plain, Work

from heedful.architectures.build import DataSizes, build_sequence_to_sequence
from heedful.architectures.recurrent import RecurrentConfig
from heedful.data.batches import collate_sources
from heedful.data.tokenizers import BOS, EOS, PAD, UNK
from heedful.engines.select_engine import store_column_major
from heedful.generation import SuppressTokens, greedy_search
from heedful.models.generative import SequenceToSequence
from heedful.runs.device import tune_malloc
from heedful.tensors import Tokens

FORBIDDEN = [PAD, BOS, EOS]
"""Random models know no end, so every output gets the same number of tokens."""


def bahdanau(model: dict[str, Any], vocabulary: int) -> SequenceToSequence[Tokens]:
    """Ours, freshly initialised."""
    reading = {"kind": "bahdanau", "alignment_bias": True}
    config = RecurrentConfig.model_validate({**model, "cell": "gru", "reading": reading})
    return build_sequence_to_sequence(config, DataSizes(vocabulary, vocabulary, 128))


def plain_twin(ours: SequenceToSequence[Tokens], model: dict[str, Any], vocabulary: int) -> PlainRecurrent:
    """The plain model with the same weights."""
    sizes = dict(model)
    twin = PlainRecurrent(vocabulary, sizes.pop("d_model"), **sizes)
    put_into_plain(ours, twin)
    return twin


class Engine(ABC):
    """Decodes greedily."""

    @abstractmethod
    def decode(self, source: Tokens, *, length: int) -> list[list[int]]:
        """The ids of each sentence."""


class Heedful(Engine):
    """`greedy_search`, with weights laid out and memory kept as `heedful translate` does it."""

    def __init__(self, model: SequenceToSequence[Tokens]) -> None:
        tune_malloc()
        self._model = model.eval()
        store_column_major(self._model)

    def decode(self, source: Tokens, *, length: int) -> list[list[int]]:
        rows = len(source.ids)
        prompt = Tokens(torch.full((rows, 1), BOS), torch.zeros(rows, 1, dtype=torch.long))
        with torch.inference_mode():
            state = self._model.init_state(source)
        filters = (SuppressTokens(tuple(FORBIDDEN)),)
        found = greedy_search(self._model.step, state, prompt, eos=EOS, max_new_tokens=length, filters=filters)
        return [list(hypotheses[0].ids) for hypotheses in found]


class PlainGreedy(Engine):
    """The loop of any tutorial."""

    def __init__(self, model: PlainRecurrent) -> None:
        self._model = model.eval()

    def decode(self, source: Tokens, *, length: int) -> list[list[int]]:
        with torch.inference_mode():
            ids: list[list[int]] = self._model.greedy(source.ids, length=length, forbidden=FORBIDDEN).tolist()
        return ids


class Joey(Engine):
    """`joeynmt.search.greedy`, which allows no end before `min_output_length`."""

    def __init__(self, model: Any) -> None:
        from joeynmt.search import greedy

        self._model, self._greedy = model, greedy

    def decode(self, source: Tokens, *, length: int) -> list[list[int]]:
        real: Tensor = source.ids != PAD
        mask, lengths = real.unsqueeze(1), real.sum(1)
        with torch.inference_mode():
            encoded, last, *_ = self._model(return_type="encode", src=source.ids, src_length=lengths, src_mask=mask)
            limits = {"max_output_length": length, "min_output_length": length}
            found = self._greedy(mask, model=self._model, encoder_output=encoded, encoder_hidden=last, **limits)[0]
        ids: list[list[int]] = found.tolist()
        return ids


def build(settings: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What answers {"updates"} or {"batch", "sentences", "length"} for the contestant in the settings."""
    torch.manual_seed(1)
    if settings["job"] == "train":
        loop = _loop(settings)
        return lambda job: vars(loop.train(job["updates"]))
    engine, vocabulary = _engine(settings), settings["vocabulary"]
    warm: set[int] = set()

    def answer(job: dict[str, Any]) -> dict[str, Any]:
        sources = batches(job["sentences"], job["batch"], vocabulary)
        if job["batch"] not in warm:
            engine.decode(sources[0], length=job["length"])
            warm.add(job["batch"])
        began = time.perf_counter()
        ids = [row for source in sources for row in engine.decode(source, length=job["length"])]
        return {"seconds": time.perf_counter() - began, "ids": ids}

    return answer


def batches(sentences: int, size: int, vocabulary: int) -> list[Tokens]:
    """Made-up sentences as long as captions, longest first."""
    dice = np.random.default_rng(2)
    lengths: Sequence[int] = sorted((caption_lengths(sentences, dice) - 1).tolist(), reverse=True)
    rows = [dice.integers(UNK + 1, vocabulary, length).tolist() for length in lengths]
    return [collate_sources(rows[start : start + size], eos=EOS) for start in range(0, sentences, size)]


def _loop(settings: dict[str, Any]) -> Loop:
    work = Work(**settings["work"])
    ours = bahdanau(work.model, work.vocabulary)
    if settings["who"] == "heedful":
        return Ours(ours, work, precision="fp32")
    return Plain(plain_twin(ours, work.model, work.vocabulary), work, bf16=False, keep=settings["keep"])


def _engine(settings: dict[str, Any]) -> Engine:
    model, vocabulary = settings["model"], settings["vocabulary"]
    widths = {"d_model": model["d_model"], "d_embedding": model["d_embedding"]}
    match settings["who"]:
        case "heedful":
            return Heedful(bahdanau(model, vocabulary))
        case "plain":
            return PlainGreedy(plain_twin(bahdanau(model, vocabulary), model, vocabulary))
        case "heedful-feeding":
            return Heedful(feeding_model(vocabulary, **widths))
        case "joeynmt":
            return Joey(joey_model(feeding_model(vocabulary, **widths), vocabulary, **widths))
    raise ValueError(f"no engine is called {settings['who']}")
