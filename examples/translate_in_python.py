"""What a trained model can do from Python: translate, search in other ways, score, align, evaluate.

    python examples/translate_in_python.py [run folder]

Without an argument it uses the model that examples/train_in_python.py makes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import heedful
from heedful.data.tokenizers import EOS
from heedful.generation import Wu
from heedful.generation.search import Beam, Greedy
from heedful.inspection.heatmap import alignment_svg, alignment_text


def main(run: str = "runs/tiny") -> None:
    model = heedful.load(run)
    sentence = "two black cats and a white dog"

    # The recipe says how to search; here that is a beam of five.
    best = model.translate([sentence])[0]
    print(f"{best.source} -> {best.text}")

    # Any other search is an object.
    greedy = model.translate([sentence], search=Greedy(EOS))[0]
    print(f"greedy finds {'the same' if greedy.text == best.text else greedy.text}")
    several = model.translate([sentence], search=Beam(EOS, 5, Wu(0.6), n_best=3))[0]
    for candidate in several.candidates:
        print(f"{candidate.score:8.3f}  {candidate.text}")

    # A translation may be told how to begin.
    forced = model.translate([sentence], prefixes=["drei"])[0]
    print(f"beginning with 'drei': {forced.text}")

    # How probable is a translation that somebody else made? Log-probabilities are in nats.
    right, wrong = model.score([(sentence, best.text), (sentence, "ein schwarzer Hund")])
    print(f"right {right.log_probability:.2f}, wrong {wrong.log_probability:.2f}")

    # What did each word look at? As text for the terminal, or as a picture.
    alignment = model.align(sentence, best.text)
    weights = list(alignment.weights.values())[-1]
    print(alignment_text(alignment.source_tokens, alignment.target_tokens, weights), end="")
    picture = Path(run).with_name("alignment.svg")
    picture.write_text(
        alignment_svg(alignment.source_tokens, alignment.target_tokens, weights, title=sentence), encoding="utf-8"
    )
    print(f"the same in colour: {picture}")

    # Scores of many translations at once.
    report = heedful.evaluate([best.text], ["zwei schwarze Katzen und ein weißer Hund"])
    print(f"BLEU {report.bleu:.1f}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
