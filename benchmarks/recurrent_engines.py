"""Training loops and engines of the benchmark of recurrent models."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from plain_recurrent import PlainRecurrent, build_input_feeding_model, build_joey_model, copy_weights_to_plain
from synthetic_data import draw_caption_lengths
from torch import Tensor
from training_loops import HeedfulLoop, PlainTrainingLoop, TrainingLoop, TrainingWork

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
"""Random models do not learn to end a sentence, so all outputs have the same number of tokens."""


def build_bahdanau_model(model: dict[str, Any], vocabulary: int) -> SequenceToSequence[Tokens]:
    """Build heedful's model with new weights."""
    reading = {"kind": "bahdanau", "alignment_bias": True}
    config = RecurrentConfig.model_validate({**model, "cell": "gru", "reading": reading})
    return build_sequence_to_sequence(config, DataSizes(vocabulary, vocabulary, 128))


def build_plain_copy(model: SequenceToSequence[Tokens], sizes: dict[str, Any], vocabulary: int) -> PlainRecurrent:
    """Build the plain model with the same weights."""
    sizes = dict(sizes)
    plain = PlainRecurrent(vocabulary, sizes.pop("d_model"), **sizes)
    copy_weights_to_plain(model, plain)
    return plain


class Engine(ABC):
    """Engine that decodes greedily."""

    @abstractmethod
    def decode(self, source: Tokens, *, length: int) -> list[list[int]]:
        """Return the ids of each sentence."""


class HeedfulEngine(Engine):
    """`greedy_search`, with the layout of weights and the memory settings of `heedful translate`."""

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
        results = greedy_search(self._model.step, state, prompt, eos=EOS, max_new_tokens=length, filters=filters)
        return [list(hypotheses[0].ids) for hypotheses in results]


class PlainEngine(Engine):
    """A tutorial's loop."""

    def __init__(self, model: PlainRecurrent) -> None:
        self._model = model.eval()

    def decode(self, source: Tokens, *, length: int) -> list[list[int]]:
        with torch.inference_mode():
            ids: list[list[int]] = self._model.decode_greedily(source.ids, length=length, forbidden=FORBIDDEN).tolist()
        return ids


class JoeyEngine(Engine):
    """`joeynmt.search.greedy`, which forbids the end before `min_output_length`."""

    def __init__(self, model: Any) -> None:
        from joeynmt.search import greedy

        self._model, self._greedy = model, greedy

    def decode(self, source: Tokens, *, length: int) -> list[list[int]]:
        real: Tensor = source.ids != PAD
        mask, lengths = real.unsqueeze(1), real.sum(1)
        with torch.inference_mode():
            encoded, last, *_ = self._model(return_type="encode", src=source.ids, src_length=lengths, src_mask=mask)
            limits = {"max_output_length": length, "min_output_length": length}
            output = self._greedy(mask, model=self._model, encoder_output=encoded, encoder_hidden=last, **limits)[0]
        ids: list[list[int]] = output.tolist()
        return ids


def build_job_runner(settings: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that does jobs {"updates"} or {"batch", "sentences", "length"} for a contestant."""
    torch.manual_seed(1)
    if settings["job"] == "train":
        loop = _build_loop(settings)
        return lambda job: vars(loop.train(job["updates"]))
    engine, vocabulary = _build_engine(settings), settings["vocabulary"]
    warm: set[int] = set()

    def run_job(job: dict[str, Any]) -> dict[str, Any]:
        sources = build_batches(job["sentences"], job["batch"], vocabulary)
        if job["batch"] not in warm:
            engine.decode(sources[0], length=job["length"])
            warm.add(job["batch"])
        start = time.perf_counter()
        ids = [row for source in sources for row in engine.decode(source, length=job["length"])]
        return {"seconds": time.perf_counter() - start, "ids": ids}

    return run_job


def build_batches(sentences: int, size: int, vocabulary: int) -> list[Tokens]:
    """Build batches of random sentences as long as captions, longest first."""
    dice = np.random.default_rng(2)
    lengths: Sequence[int] = sorted((draw_caption_lengths(sentences, dice) - 1).tolist(), reverse=True)
    rows = [dice.integers(UNK + 1, vocabulary, length).tolist() for length in lengths]
    return [collate_sources(rows[start : start + size], eos=EOS) for start in range(0, sentences, size)]


def _build_loop(settings: dict[str, Any]) -> TrainingLoop:
    work = TrainingWork(**settings["work"])
    model = build_bahdanau_model(work.model, work.vocabulary)
    if settings["who"] == "heedful":
        return HeedfulLoop(model, work, precision="fp32")
    return PlainTrainingLoop(
        build_plain_copy(model, work.model, work.vocabulary), work, bf16=False, keep=settings["keep"]
    )


def _build_engine(settings: dict[str, Any]) -> Engine:
    model, vocabulary = settings["model"], settings["vocabulary"]
    widths = {"d_model": model["d_model"], "d_embedding": model["d_embedding"]}
    match settings["who"]:
        case "heedful":
            return HeedfulEngine(build_bahdanau_model(model, vocabulary))
        case "plain":
            return PlainEngine(build_plain_copy(build_bahdanau_model(model, vocabulary), model, vocabulary))
        case "heedful-feeding":
            return HeedfulEngine(build_input_feeding_model(vocabulary, **widths))
        case "joeynmt":
            return JoeyEngine(build_joey_model(build_input_feeding_model(vocabulary, **widths), vocabulary, **widths))
    raise ValueError(f"unknown engine {settings['who']}")
