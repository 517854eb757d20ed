"""Use a trained model from Python: translate, use other searches, score, align, evaluate.

    python examples/translate_in_python.py [run folder]

Without an argument it uses the model that examples/train_in_python.py trains.
"""

from __future__ import annotations

import sys
from pathlib import Path

import heedful
from heedful.data.tokenizers import EOS
from heedful.generation import GNMTLengthPenalty
from heedful.generation.search import BeamSearch, GreedySearch
from heedful.inspection.heatmap import draw_alignment_svg, draw_alignment_text


def main(run: str = "runs/tiny") -> None:
    """Load the run and print what it can do."""
    model = heedful.load(run)
    sentence = "two black cats and a white dog"

    # The recipe sets the search; here it is beam search with a beam of five.
    best = model.translate([sentence])[0]
    print(f"{best.source} -> {best.text}")

    # To use a different search, pass a search object.
    greedy = model.translate([sentence], search=GreedySearch(EOS))[0]
    print(f"greedy finds {'the same' if greedy.text == best.text else greedy.text}")
    several = model.translate([sentence], search=BeamSearch(EOS, 5, GNMTLengthPenalty(0.6), n_best=3))[0]
    for candidate in several.candidates:
        print(f"{candidate.score:8.3f}  {candidate.text}")

    # You can force the beginning of a translation.
    forced = model.translate([sentence], prefixes=["drei"])[0]
    print(f"beginning with 'drei': {forced.text}")

    # Score given translations. Log-probabilities are in nats.
    right, wrong = model.score([(sentence, best.text), (sentence, "ein schwarzer Hund")])
    print(f"right {right.log_probability:.2f}, wrong {wrong.log_probability:.2f}")

    # Show which source words each target word attends to, as text for the terminal or as a picture.
    alignment = model.align(sentence, best.text)
    weights = list(alignment.weights.values())[-1]
    print(draw_alignment_text(alignment.source_tokens, alignment.target_tokens, weights), end="")
    picture = Path(run).with_name("alignment.svg")
    picture.write_text(
        draw_alignment_svg(alignment.source_tokens, alignment.target_tokens, weights, title=sentence), encoding="utf-8"
    )
    print(f"the same in colour: {picture}")

    # Evaluate translations against references.
    report = heedful.evaluate([best.text], ["zwei schwarze Katzen und ein weißer Hund"])
    print(f"BLEU {report.bleu:.1f}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
