"""The engines that are compared: each loads the same weights and turns batches of sentences into translations.

All of them cut text into tokens and back by heedful's tokenizer, so what is compared is the search and the model.
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
from heedful.generation import NoLengthPenalty, SuppressTokens
from heedful.generation.search import BeamSearch, GreedySearch, SearchStrategy
from heedful.recipes.recipe import EngineName
from heedful.runs.device import tune_malloc
from heedful.tasks.search_factory import LengthLimits

Batches = list[list[str]]


@dataclass(frozen=True)
class Rules:
    """What every search obeys: scores are plain log-probabilities, padding and begin of sentence are never written.

    Attributes:
        limit: most tokens of a translation.
        forced: whether every translation has exactly that many tokens, the end of sentence being forbidden.
    """

    limit: int
    forced: bool

    @property
    def forbidden(self) -> tuple[int, ...]:
        return (PAD, BOS, EOS) if self.forced else (PAD, BOS)


class Engine(ABC):
    """Translates with a loaded model."""

    @abstractmethod
    def translate(self, batches: Batches, *, beam: int) -> list[str]:
        """Translations of all sentences in their order; beam 1 is greedy search."""


class Heedful(Engine):
    """`heedful.load(run).translate(sentences)`, one call a batch; memory is kept as `heedful translate` keeps it."""

    def __init__(self, run: Path, rules: Rules, *, engine: EngineName = "torch") -> None:
        tune_malloc()
        self._model = heedful.load(run, device="cpu", engine=engine)
        self._model.length = LengthLimits(0.0, rules.limit)
        self._filters = (SuppressTokens(rules.forbidden),)

    def translate(self, batches: Batches, *, beam: int) -> list[str]:
        search: SearchStrategy = GreedySearch(EOS, self._filters)
        if beam > 1:
            search = BeamSearch(EOS, beam, NoLengthPenalty(), filters=self._filters)
        found = [self._model.translate(batch, search=search, batch_tokens=10**9) for batch in batches]
        return [translation.text for batch in found for translation in batch]


class ProductsAlone(Engine):
    """The products of bytes that the same translations need, by native code, and nothing else: the limit.

    Every matrix is one of its own, as in a model, so that all of them come from memory as they would. Attention's
    products are left out, since they depend on what was read.
    """

    def __init__(self, sizes: Mapping[str, int], vocabulary: int, tokenizer: Tokenizer, rules: Rules) -> None:
        width, wide = sizes["d_model"], sizes["d_ff"]
        own, network = [(width, width), (2 * width, width), (width, width)], [(wide, width), (width, wide)]
        layers = range(sizes["layers"])
        self._encoder = [_product(*shape) for _ in layers for shape in (*own, *network)]
        self._across = [_product(2 * width, width) for _ in layers]
        asked = [(width, width), (width, width)]
        self._decoder = [_product(*shape) for _ in layers for shape in (*own, *asked, *network)]
        self._decoder.append(_product(vocabulary, width))
        self._tokenizer, self._rules = tokenizer, rules

    def translate(self, batches: Batches, *, beam: int) -> list[str]:
        for batch in batches:
            lengths = [len(self._tokenizer.encode(sentence)) + 1 for sentence in batch]
            for product in self._encoder:
                product(sum(lengths))
            for product in self._across:
                product(max(lengths) * len(batch))
            for step in range(self._rules.limit):
                for product in self._decoder:
                    product(len(batch) * (beam if step else 1))
        return ["" for batch in batches for _ in batch]


def _product(n: int, k: int) -> Callable[[int], Tensor]:
    """Multiplies so many vectors with a matrix."""
    from heedful.engines.native.plan import NativeProduct

    matrix = Int8Matrix.from_weight(torch.randn(n, k))
    multiply, vectors = NativeProduct(matrix.rows, matrix.scale), torch.randn(1, k)
    return lambda count: multiply(vectors.expand(count, -1), None)


class CTranslate2(Engine):
    """`ctranslate2.Translator` with several workers of one thread; it batches by itself."""

    def __init__(self, folder: Path, tokenizer: Tokenizer, rules: Rules, settings: dict[str, Any]) -> None:
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
        found = self._translator.translate_batch(
            [tokenizer.to_pieces(tokenizer.encode(sentence)) for batch in batches for sentence in batch],
            max_batch_size=len(batches[0]),
            beam_size=beam,
            length_penalty=0,
            max_decoding_length=rules.limit,
            min_decoding_length=rules.limit if rules.forced else 1,
            suppress_sequences=[[piece] for piece in tokenizer.to_pieces((PAD, BOS))],
        )
        return [tokenizer.decode(self._ids[piece] for piece in each.hypotheses[0]) for each in found]


class Transformers(Engine):
    """`MarianMTModel.generate`."""

    def __init__(self, folder: Path, tokenizer: Tokenizer, rules: Rules) -> None:
        from transformers import MarianMTModel

        model: Any = MarianMTModel.from_pretrained(folder)
        self._model = model.eval()
        self._tokenizer, self._rules = tokenizer, rules

    def translate(self, batches: Batches, *, beam: int) -> list[str]:
        return [text for batch in batches for text in self._batch(batch, beam)]

    def _batch(self, sentences: Sequence[str], beam: int) -> list[str]:
        source = collate_sources([self._tokenizer.encode(sentence) for sentence in sentences], eos=EOS)
        rules = self._rules
        found = self._model.generate(
            source.ids,
            attention_mask=(source.positions >= 0).long(),
            num_beams=beam,
            do_sample=False,
            max_length=None,
            max_new_tokens=rules.limit,
            min_new_tokens=rules.limit if rules.forced else None,
            length_penalty=0.0,
        )
        return [self._tokenizer.decode(row) for row in found.tolist()]


def _share(batches: Batches, rank: int, workers: int) -> Batches:
    """Every worker's batches, dealt out forth and back, because they are sorted by length."""
    return [batch for i, batch in enumerate(batches) if i % (2 * workers) in (rank, 2 * workers - 1 - rank)]


def build(settings: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What answers {"batch", "beam", "sentences"} for the contestant in the settings."""
    run, rules = Path(settings["run"]), Rules(**settings["rules"])
    everything = [line for line in read_lines(Path(settings["source"])) if line.strip()]
    tokenizer = heedful.load(run, device="cpu").source
    engine = _engine(settings, run, tokenizer, rules)
    warm: set[tuple[int, int]] = set()

    def answer(job: dict[str, Any]) -> dict[str, Any]:
        batches = cut(everything, tokenizer, count=job["sentences"], size=job["batch"])
        mine = _share(batches, settings["rank"], settings["workers"])
        kind = (job["batch"], job["beam"])
        if kind not in warm:
            engine.translate(mine[:2], beam=job["beam"])
            warm.add(kind)
        began = time.perf_counter()
        texts = engine.translate(mine, beam=job["beam"])
        seconds = time.perf_counter() - began
        sentences = [sentence for batch in mine for sentence in batch]
        return {"seconds": seconds, "translations": dict(zip(sentences, texts, strict=True))}

    return answer


def _engine(settings: dict[str, Any], run: Path, tokenizer: Tokenizer, rules: Rules) -> Engine:
    torch.set_grad_enabled(False)
    match settings["engine"]:
        case "heedful":
            return Heedful(run, rules, engine=settings.get("by", "torch"))
        case "ctranslate2":
            return CTranslate2(Path(settings["ctranslate2"]), tokenizer, rules, settings)
        case "transformers":
            return Transformers(Path(settings["marian"]), tokenizer, rules)
    raise ValueError(f"no engine is called {settings['engine']}")


def cut(everything: Sequence[str], tokenizer: Tokenizer, *, count: int, size: int) -> Batches:
    """Sentences from all over the text, sorted by length so that little is padded, longest first."""
    spread = [everything[number * len(everything) // count] for number in range(min(count, len(everything)))]
    ordered = sorted(dict.fromkeys(spread), key=lambda sentence: -len(tokenizer.encode(sentence)))
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]
