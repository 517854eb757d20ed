"""Answers from anything that steps: greedy, beam search, sampling, forced decoding."""

from heedful.generation.beam import beam_search
from heedful.generation.ensemble import Average, Ensemble, OfLogProbabilities, OfProbabilities
from heedful.generation.filters import Filter, Forbid, MinimumLength, MinP, TopK, TopP
from heedful.generation.hypotheses import Hypotheses, Hypothesis
from heedful.generation.penalties import AverageLength, LengthPenalty, NoPenalty, Wu
from heedful.generation.pick import Best, Multinomial, Pick, Progress
from heedful.generation.ranking import Top, top_k
from heedful.generation.sampling import AtToken, Stop, greedy_search, sample, sampled_search
from heedful.generation.scoring import Scores, score

__all__ = [
    "AtToken",
    "Average",
    "AverageLength",
    "Best",
    "Ensemble",
    "Filter",
    "Forbid",
    "Hypotheses",
    "Hypothesis",
    "LengthPenalty",
    "MinP",
    "MinimumLength",
    "Multinomial",
    "NoPenalty",
    "OfLogProbabilities",
    "OfProbabilities",
    "Pick",
    "Progress",
    "Scores",
    "Stop",
    "Top",
    "TopK",
    "TopP",
    "Wu",
    "beam_search",
    "greedy_search",
    "sample",
    "sampled_search",
    "score",
    "top_k",
]
