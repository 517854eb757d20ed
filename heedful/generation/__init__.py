"""Answers from anything that steps: greedy, beam search, sampling, forced decoding."""

from heedful.generation.bans import Ban, NoRepeat, NotBefore, Unwritten, Word
from heedful.generation.columns import Stream, sample
from heedful.generation.ensemble import Average, Ensemble, OfLogProbabilities, OfProbabilities
from heedful.generation.hypotheses import After, Found, Hypotheses, Hypothesis
from heedful.generation.penalties import AverageLength, LengthPenalty, NoPenalty, Penalty, Power, RepetitionPenalty, Wu
from heedful.generation.pick import Best, Filter, Forbid, MinimumLength, MinP, Multinomial, Pick, Progress, TopK, TopP
from heedful.generation.ranking import Top, top_k
from heedful.generation.scoring import Scores, score
from heedful.generation.search import beam_search, greedy_search, sampled_search
from heedful.generation.stopping import AnyOf, AtToken, Deadline, Stop, Until
from heedful.generation.window import Windowed, kept_of

__all__ = [
    "After",
    "AnyOf",
    "AtToken",
    "Average",
    "AverageLength",
    "Ban",
    "Best",
    "Deadline",
    "Ensemble",
    "Filter",
    "Forbid",
    "Found",
    "Hypotheses",
    "Hypothesis",
    "LengthPenalty",
    "MinP",
    "MinimumLength",
    "Multinomial",
    "NoPenalty",
    "NoRepeat",
    "NotBefore",
    "OfLogProbabilities",
    "OfProbabilities",
    "Penalty",
    "Pick",
    "Power",
    "Progress",
    "RepetitionPenalty",
    "Scores",
    "Stop",
    "Stream",
    "Top",
    "TopK",
    "TopP",
    "Until",
    "Unwritten",
    "Windowed",
    "Word",
    "Wu",
    "beam_search",
    "greedy_search",
    "kept_of",
    "sample",
    "sampled_search",
    "score",
    "top_k",
]
