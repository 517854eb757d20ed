"""Engines to compare: each loads the same weights and translates batches of sentences.

All use heedful's tokenizer, so the comparison is of models and searches.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import heedful
from heedful.data.batches import collate_sources
from heedful.data.readers import read_lines
from heedful.data.tokenizers import BOS, EOS, PAD, Tokenizer
from heedful.engines.int8 import Int8Matrix
from heedful.generation import NoLengthPenalty, RepetitionPenalty, SuppressTokens
from heedful.generation.search import BeamSearch, GreedySearch, SearchStrategy
from heedful.recipes.recipe import EngineName
from heedful.runs.device import tune_malloc
from heedful.tasks.search_factory import LengthLimits
from heedful.tensors import move_to_device

Batches = list[list[str]]


@dataclass(frozen=True)
class SearchRules:
    """Rules for all searches: scores are log-probabilities; padding and begin of sentence are forbidden.

    Attributes:
        limit: maximal number of tokens of a translation.
        forced: whether the end of sentence is forbidden too, so that each translation has exactly `limit` tokens.
        repetition_penalty: penalty on earlier tokens; 1 is none.
    """

    limit: int
    forced: bool
    repetition_penalty: float = 1.0

    @property
    def forbidden(self) -> tuple[int, ...]:
        return (PAD, BOS, EOS) if self.forced else (PAD, BOS)


class Engine(ABC):
    """Engine with a loaded model."""

    @abstractmethod
    def translate(self, batches: Batches, *, beam: int) -> list[str]:
        """Return the translations of all sentences in their order; beam 1 is greedy search."""


class HeedfulEngine(Engine):
    """`heedful.load(run).translate(sentences)` for each batch, with the memory settings of `heedful translate`."""

    def __init__(
        self, run: Path, rules: SearchRules, *, engine: EngineName = "torch", device: torch.device | str = "cpu"
    ) -> None:
        tune_malloc()
        self._model = heedful.load(run, device=device, engine=engine)
        self._model.length = LengthLimits(0.0, rules.limit)
        self._filters = (SuppressTokens(rules.forbidden),)
        penalty = rules.repetition_penalty
        self._penalties = () if penalty == 1 else (RepetitionPenalty(penalty),)

    def translate(self, batches: Batches, *, beam: int) -> list[str]:
        search: SearchStrategy = GreedySearch(EOS, self._filters, self._penalties)
        if beam > 1:
            search = BeamSearch(EOS, beam, NoLengthPenalty(), filters=self._filters, penalties=self._penalties)
        results = [self._model.translate(batch, search=search, batch_tokens=10**9) for batch in batches]
        return [translation.text for batch in results for translation in batch]


class ProductsEngine(Engine):
    """Only the products of 8-bit integers that the same translations need, in native code: the upper limit.

    Each product has its own matrix, as in a model, so that the matrices are read from memory as in a model. The
    products of attention are left out, because their sizes depend on the sentences.
    """

    def __init__(self, sizes: Mapping[str, int], vocabulary: int, tokenizer: Tokenizer, rules: SearchRules) -> None:
        width, wide = sizes["d_model"], sizes["d_ff"]
        attention, network = [(width, width), (2 * width, width), (width, width)], [(wide, width), (width, wide)]
        layers = range(sizes["layers"])
        self._encoder = [_build_product(*shape) for _ in layers for shape in (*attention, *network)]
        self._cross_attention = [_build_product(2 * width, width) for _ in layers]
        queries = [(width, width), (width, width)]
        self._decoder = [_build_product(*shape) for _ in layers for shape in (*attention, *queries, *network)]
        self._decoder.append(_build_product(vocabulary, width))
        self._tokenizer, self._rules = tokenizer, rules

    def translate(self, batches: Batches, *, beam: int) -> list[str]:
        for batch in batches:
            lengths = [len(self._tokenizer.encode(sentence)) + 1 for sentence in batch]
            for product in self._encoder:
                product(sum(lengths))
            for product in self._cross_attention:
                product(max(lengths) * len(batch))
            for step in range(self._rules.limit):
                for product in self._decoder:
                    product(len(batch) * (beam if step else 1))
        return ["" for batch in batches for _ in batch]


def _build_product(n: int, k: int) -> Callable[[int], Tensor]:
    """Return a function that multiplies the given number of vectors with a matrix."""
    from heedful.engines.native.linear import NativeProduct

    matrix = Int8Matrix.from_weight(torch.randn(n, k))
    multiply, vectors = NativeProduct(matrix.rows, matrix.scale), torch.randn(1, k)
    return lambda count: multiply(vectors.expand(count, -1), None)


class CTranslate2Engine(Engine):
    """`ctranslate2.Translator` with several workers of one thread; it forms batches itself."""

    def __init__(self, folder: Path, tokenizer: Tokenizer, rules: SearchRules, settings: dict[str, Any]) -> None:
        import ctranslate2

        self._translator = ctranslate2.Translator(
            str(folder),
            compute_type=settings["compute"],
            inter_threads=settings["inter_threads"],
            intra_threads=settings["threads"],
        )
        self._tokenizer, self._rules = tokenizer, rules
        self._ids = {piece: number for number, piece in enumerate(tokenizer.to_pieces(range(tokenizer.size)))}

    def translate(self, batches: Batches, *, beam: int) -> list[str]:
        tokenizer, rules = self._tokenizer, self._rules
        results = self._translator.translate_batch(
            [tokenizer.to_pieces(tokenizer.encode(sentence)) for batch in batches for sentence in batch],
            max_batch_size=len(batches[0]),
            beam_size=beam,
            length_penalty=0,
            max_decoding_length=rules.limit,
            min_decoding_length=rules.limit if rules.forced else 1,
            suppress_sequences=[[piece] for piece in tokenizer.to_pieces((PAD, BOS))],
            repetition_penalty=rules.repetition_penalty,
        )
        return [tokenizer.decode(self._ids[piece] for piece in each.hypotheses[0]) for each in results]


class TransformersEngine(Engine):
    """`MarianMTModel.generate`."""

    def __init__(
        self, folder: Path, tokenizer: Tokenizer, rules: SearchRules, *, device: torch.device | str = "cpu"
    ) -> None:
        from transformers import MarianMTModel

        model: Any = MarianMTModel.from_pretrained(folder)
        self._model = model.to(device).eval()
        self._tokenizer, self._rules, self._device = tokenizer, rules, device

    def translate(self, batches: Batches, *, beam: int) -> list[str]:
        return [text for batch in batches for text in self._translate_batch(batch, beam)]

    def _translate_batch(self, sentences: Sequence[str], beam: int) -> list[str]:
        source = collate_sources([self._tokenizer.encode(sentence) for sentence in sentences], eos=EOS)
        source = move_to_device(source, self._device)
        rules = self._rules
        output = self._model.generate(
            source.ids,
            attention_mask=(source.positions >= 0).long(),
            num_beams=beam,
            do_sample=False,
            max_length=None,
            max_new_tokens=rules.limit,
            min_new_tokens=rules.limit if rules.forced else None,
            length_penalty=0.0,
            repetition_penalty=rules.repetition_penalty,
        )
        return [self._tokenizer.decode(row) for row in output.tolist()]


def _select_worker_batches(batches: Batches, rank: int, workers: int) -> Batches:
    """Return the batches of a worker; sorted batches are dealt in alternating directions, so that shares are equal."""
    return [batch for i, batch in enumerate(batches) if i % (2 * workers) in (rank, 2 * workers - 1 - rank)]


def build_job_runner(settings: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that does jobs {"batch", "beam", "sentences"} for the contestant in the settings."""
    run, rules = Path(settings["run"]), SearchRules(**settings["rules"])
    lines = [line for line in read_lines(Path(settings["source"])) if line.strip()]
    tokenizer = heedful.load(run, device="cpu").source
    engine = _build_engine(settings, run, tokenizer, rules)
    warm: set[tuple[int, int]] = set()

    def run_job(job: dict[str, Any]) -> dict[str, Any]:
        batches = build_batches(lines, tokenizer, count=job["sentences"], size=job["batch"])
        own = _select_worker_batches(batches, settings["rank"], settings["workers"])
        kind = (job["batch"], job["beam"])
        if kind not in warm:
            engine.translate(own[:2], beam=job["beam"])
            warm.add(kind)
        start = time.perf_counter()
        texts = engine.translate(own, beam=job["beam"])
        seconds = time.perf_counter() - start
        sentences = [sentence for batch in own for sentence in batch]
        return {"seconds": seconds, "translations": dict(zip(sentences, texts, strict=True))}

    return run_job


def _build_engine(settings: dict[str, Any], run: Path, tokenizer: Tokenizer, rules: SearchRules) -> Engine:
    torch.set_grad_enabled(False)
    match settings["engine"]:
        case "heedful":
            return HeedfulEngine(run, rules, engine=settings.get("by", "torch"))
        case "ctranslate2":
            return CTranslate2Engine(Path(settings["ctranslate2"]), tokenizer, rules, settings)
        case "transformers":
            return TransformersEngine(Path(settings["marian"]), tokenizer, rules)
    raise ValueError(f"unknown engine {settings['engine']}")


def build_batches(lines: Sequence[str], tokenizer: Tokenizer, *, count: int, size: int) -> Batches:
    """Return batches of sentences from the whole text, sorted by length to need little padding, longest first."""
    spread = [lines[number * len(lines) // count] for number in range(min(count, len(lines)))]
    ordered = sorted(dict.fromkeys(spread), key=lambda sentence: -len(tokenizer.encode(sentence)))
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]
