"""Measurements of decoding on a GPU: batches of translations, and texts that join and leave a continuous batch."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from comparison import is_installed
from synthetic_data import create_language_model_run, create_translation_run, write_source_text
from translation_engines import Engine, HeedfulEngine, SearchRules, TransformersEngine, build_batches

import heedful
from heedful.data.readers import read_lines
from heedful.data.tokenizers import Tokenizer
from heedful.generation import SuppressTokens
from heedful.generation.continuous_batch import ContinuousBatch, FinishedRequest
from heedful.generation.prefill import GenerationRequest
from heedful.generation.search import GreedySearch
from heedful.recipes.recipe import EngineName
from heedful.runs.export import export_marian
from heedful.tensors import Tokens

LEAST_REQUESTS, PROMPT = 8, 16
"""Least number of sentences or requests of a round; tokens of a prompt."""
ENGINES: tuple[EngineName, ...] = ("torch", "torch-bfloat16", "torch-graphs", "torch-graphs-bfloat16")
"""Engines of heedful; the first one is what others are compared with."""


@dataclass(frozen=True)
class TranslationSubject:
    """Engines with the same weights, the tokenizer, and the sentences to translate."""

    engines: dict[str, Engine]
    tokenizer: Tokenizer
    text: list[str]


def build_translation_subject(
    folder: Path, model: dict[str, Any], *, vocabulary: int, forced: int, device: str
) -> TranslationSubject:
    """Build the engines with random weights, which write `forced` tokens for each sentence; files are in `folder`."""
    run, rules = create_translation_run(folder, vocabulary, model), SearchRules(forced, forced=True)
    text = list(read_lines(write_source_text(folder / "source.txt", 1000, vocabulary)))
    tokenizer = heedful.load(run, device=device, engine="torch").source
    engines: dict[str, Engine] = {
        f"heedful {engine}": HeedfulEngine(run, rules, engine=engine, device=device) for engine in ENGINES
    }
    if is_installed("transformers"):
        export_marian(run, folder / "marian")
        engines["transformers"] = TransformersEngine(folder / "marian", tokenizer, rules, device=device)
    return TranslationSubject(engines, tokenizer, text)


def measure_translation(subject: TranslationSubject, *, batch: int, beam: int, rounds: int) -> dict[str, Any]:
    """Return the sentences per second of each engine in each round (`speeds`), after a first round, and the share of
    its translations that equal those of the first engine (`same`).
    """
    batches = build_batches(subject.text, subject.tokenizer, count=max(LEAST_REQUESTS, batch), size=batch)
    count, measured, expected = sum(map(len, batches)), dict[str, Any](), list[str]()
    for name, engine in subject.engines.items():
        output, speeds = engine.translate(batches, beam=beam), []
        for _ in range(rounds):
            start = time.perf_counter()
            engine.translate(batches, beam=beam)  # ends with texts, so the GPU has finished
            speeds.append(count / (time.perf_counter() - start))
        expected = expected or output
        measured[name] = {"speeds": speeds, "same": sum(map(str.__eq__, output, expected)) / count}
    return measured


def build_writers(
    folder: Path, model: dict[str, Any], *, letters: int, device: str
) -> dict[EngineName, heedful.TextGenerator]:
    """Build a GPT with random weights over an alphabet of `letters` letters, by engine; files are in `folder`."""
    settings = {"kind": "transformer", **model, "positions": {"kind": "learned", "length": 256}}
    run = create_language_model_run(folder, letters, settings)
    return {engine: heedful.load(run, kind=heedful.TextGenerator, device=device, engine=engine) for engine in ENGINES}


def measure_continuous_batch(
    writer: heedful.TextGenerator, *, places: int, shortest: int, longest: int, rounds: int
) -> list[float]:
    """Return the new tokens per second of each round, after a first round; the lengths of texts are random."""
    dice, speeds = torch.Generator().manual_seed(1), []
    requests = max(LEAST_REQUESTS, 2 * places)
    prompts = torch.randint(writer.tokenizer.size // 2, writer.tokenizer.size, (requests, PROMPT), generator=dice)
    limits = torch.randint(shortest, longest + 1, (requests,), generator=dice).tolist()
    for _ in range(rounds + 1):
        start = time.perf_counter()
        serve_requests(writer, prompts, limits, places=places)
        speeds.append(sum(limits) / (time.perf_counter() - start))
    return speeds[1:]


def serve_requests(
    writer: heedful.TextGenerator, prompts: torch.Tensor, limits: Sequence[int], *, places: int
) -> list[FinishedRequest]:
    """Write a text of the given number of tokens for each row of `prompts`, at most `places` at the same time; a
    waiting request joins as soon as there is a place.
    """
    eos = writer.tokenizer.special.eos
    search, running = GreedySearch(eos, (SuppressTokens((eos,)),)), ContinuousBatch(writer.model.step, width=1)
    waiting, finished = deque(zip(prompts.to(writer.device), limits, strict=True)), list[FinishedRequest]()
    positions = torch.arange(prompts.size(1), device=writer.device).unsqueeze(0)
    while waiting or len(running):
        while waiting and len(running) < places:
            ids, limit = waiting.popleft()
            request = GenerationRequest(Tokens(ids.unsqueeze(0), positions), limit)
            finished += running.add_requests(writer.model.init_state(), request, search)[1]
        finished += running.step()
    return finished
