"""One model that many threads share gives each of them the answers that it gives to one."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from campaigns.framework import Campaign, Failure, Figures
from campaigns.http_targets import create_runs

THREADS = 8
_JOBS = 64


class ThreadCampaign(Campaign):
    """Asks models from several threads at once, and compares each answer with the answer that one thread got."""

    name = "threads"
    summary = "calls of shared models from 8 threads at once, compared with one thread"

    def attempt_all(self, figures: Figures) -> None:
        """Ask in rounds of many jobs."""
        import heedful

        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        runs = create_runs(self.work)
        predictors = {name: heedful.load(run, device="cpu") for name, run in runs.items() if name in USES}
        draw = random.Random(f"{self.name} {figures.seed}")
        with ThreadPoolExecutor(THREADS) as pool:
            while not self.is_over(figures):
                jobs = [(name, draw_text(draw)) for name in draw.choices(sorted(predictors), k=_JOBS)]
                alone = [USES[name](predictors[name], text) for name, text in jobs]
                together = list(pool.map(lambda job: USES[job[0]](predictors[job[0]], job[1]), jobs))
                for (name, text), one, other in zip(jobs, alone, together, strict=True):
                    figures.count(name, "same answer" if one == other else "another answer")
                    if one != other:
                        figures.fail(Failure(f"{name} {text!r}", f"{other} instead of {one}", f"seed {figures.seed}"))


def draw_text(draw: random.Random) -> str:
    """Draw a text that the models read."""
    words = ("eins", "zwei", "drei", "1", "2", "once", "hello", "cat")
    return " ".join(draw.choices(words, k=draw.randint(1, 7)))


def _describe(value: Any) -> str:
    """Return an answer with all digits of its numbers."""
    with np.printoptions(threshold=100_000, precision=17):
        return repr(value)


USES: dict[str, Callable[[Any, str], str]] = {
    "translate": lambda model, text: _describe(model.translate([text, "1 2"])),
    "generate": lambda model, text: _describe(model.write([text])),
    "fill": lambda model, text: _describe([model.fill([f"{text} [MASK]"]), model.embed([text]).tolist()]),
    "classify": lambda model, text: _describe(model.classify([text])),
    "tag": lambda model, text: _describe(model.tag([text])),
    "answer": lambda model, text: _describe(model.answer_all([("eins", text)])),
    "detect": lambda model, text: _describe(model.detect([text])),
}
