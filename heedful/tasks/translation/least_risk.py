"""Minimum Bayes risk: not the most probable translation, but that which is most like all that the model may mean."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from heedful.metrics.utility import Utility
from heedful.tasks.translation.translations import Translation, joined


def least_risk(translation: Translation, *, utility: Utility, keep: int = 1) -> Translation:
    """The `keep` candidates of greatest expected utility, which becomes their score (Eikema and Aziz 2020, section 5).

    All candidates together stand for what the model expects: each is compared with all, and those that came several
    times count as often, so they should be samples. A sentence that was read in parts is chosen part by part.
    """
    if translation.parts:
        parts = [least_risk(part, utility=utility, keep=keep) for part in translation.parts]
        return joined(translation.source, parts)
    times = Counter(each.text for each in translation.candidates)
    texts = list(times)
    weights = np.array([times[text] for text in texts]) / times.total()
    expected = dict(zip(texts, (utility(texts) @ weights).tolist(), strict=True))
    first = {each.text: each for each in reversed(translation.candidates)}
    best = sorted(texts, key=lambda text: -expected[text])[:keep]
    return replace(translation, candidates=tuple(replace(first[text], score=expected[text]) for text in best))
