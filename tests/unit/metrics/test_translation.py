"""BLEU, chrF, TER and exact match against longhand statements of their formulas, and what they refuse."""

# ruff: noqa: RUF001  # Chinese has commas of its own

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.ter import TER

import heedful
from heedful.errors import DataError, RecipeError
from heedful.language_tags import parse_tag
from heedful.metrics import translation
from heedful.metrics.translation import (
    TOKENIZERS,
    bleu,
    bleu_by_length,
    chrf,
    describe_tokenization,
    exact_match,
    select_bleu_tokenizer,
    ter,
)
from heedful.metrics.weighted_sacrebleu import CorpusBLEU, CorpusChrF, CorpusTER, DeckBLEU, deck_bleu

WORDS = ["the", "a", "cat", "Dog", "sat", "on", "mat", "red", ",", ".", "runs"]


def corpus(sentences: int, *, noise: float = 0.3, empty: bool = True) -> tuple[list[str], list[str]]:
    """References of 0 to 12 words and hypotheses in which words are dropped, doubled and replaced."""
    references = [" ".join(random.choices(WORDS, k=random.randint(0, 12))) for _ in range(sentences)]
    hypotheses = []
    for reference in references:
        words: list[str] = []
        for word in reference.split():
            if random.random() > noise:
                words.append(word)
            else:
                words.extend(random.choice([[], [word, word], [random.choice(WORDS)]]))
        hypotheses.append("" if empty and random.random() < 0.1 else " ".join(words))
    return hypotheses, references


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Papineni et al. 2002 over words between spaces, in percent, without smoothing."""
    matched, total = [0] * 4, [0] * 4
    hypothesis_length = reference_length = 0
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        h, r = hypothesis.split(), reference.split()
        hypothesis_length += len(h)
        reference_length += len(r)
        for n in range(1, 5):
            grams = Counter(tuple(h[i : i + n]) for i in range(len(h) - n + 1))
            allowed = Counter(tuple(r[i : i + n]) for i in range(len(r) - n + 1))
            total[n - 1] += sum(grams.values())
            matched[n - 1] += sum(min(count, allowed[gram]) for gram, count in grams.items())
    if 0 in matched:
        return 0.0
    brevity = 1.0 if hypothesis_length > reference_length else math.exp(1 - reference_length / hypothesis_length)
    return 100 * brevity * math.exp(sum(math.log(m / t) for m, t in zip(matched, total, strict=True)) / 4)


def character_f(hypotheses: Sequence[str], references: Sequence[str], beta: float = 2.0) -> float:
    """Popović 2015 over the corpus: mean precision and recall of character 1- to 6-grams, spaces removed."""
    precisions, recalls = [], []
    for n in range(1, 7):
        both = found = wanted = 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            h, r = hypothesis.replace(" ", ""), reference.replace(" ", "")
            grams = Counter(h[i : i + n] for i in range(len(h) - n + 1))
            allowed = Counter(r[i : i + n] for i in range(len(r) - n + 1))
            both += (grams & allowed).total()
            found += grams.total() if allowed else 0
            wanted += allowed.total()
        precisions.append(both / found)
        recalls.append(both / wanted)
    p, r = sum(precisions) / 6, sum(recalls) / 6
    return 100 * (1 + beta**2) * p * r / (beta**2 * p + r)


@pytest.mark.parametrize("round_", range(5))
def test_bleu_is_the_formula(round_: int) -> None:
    random.seed(round_)
    hypotheses, references = corpus(60)
    score = bleu(hypotheses, references, tokenize="none")
    assert score.value == pytest.approx(corpus_bleu(hypotheses, references), abs=0.01)
    lower = bleu(hypotheses, references, tokenize="none", lowercase=True)
    expected = corpus_bleu([h.lower() for h in hypotheses], [r.lower() for r in references])
    assert lower.value == pytest.approx(expected, abs=0.01)


def test_the_parts_of_bleu_multiply_to_its_value() -> None:
    hypotheses, references = corpus(80)
    score = bleu(hypotheses, references)
    precisions = [score.parts[f"precision_{n}"] for n in range(1, 5)]
    assert score.value == pytest.approx(score.parts["brevity_penalty"] * math.prod(precisions) ** 0.25)
    ratio = score.parts["reference_length"] / score.parts["hypothesis_length"]
    assert score.parts["brevity_penalty"] == pytest.approx(min(1, math.exp(1 - ratio)))


def test_13a_cuts_punctuation_off_and_none_does_not() -> None:
    cut, whole = ["A b c d e , f ."], ["A b c d e, f."]
    assert bleu(cut, whole).value == pytest.approx(100)
    assert bleu(cut, whole, tokenize="none").value < 70


def test_signatures_say_what_was_computed() -> None:
    pair = (["a b c d e"], ["a b c d f"])
    assert "case:mixed" in bleu(*pair).signature
    assert "tok:13a" in bleu(*pair).signature
    lower = bleu(*pair, lowercase=True, tokenize="none").signature
    assert "case:lc" in lower
    assert "tok:none" in lower
    assert chrf(*pair).name == "chrF2"
    assert chrf(*pair, word_order=2).name == "chrF2++"
    assert "nw:2" in chrf(*pair, word_order=2).signature
    assert "case:lc" in ter(*pair).signature
    for score in (bleu(*pair), chrf(*pair), ter(*pair)):
        assert "version:" in score.signature


@pytest.mark.parametrize("round_", range(5))
def test_chrf_is_the_formula(round_: int) -> None:
    random.seed(round_)
    hypotheses, references = corpus(40)
    assert chrf(hypotheses, references).value == pytest.approx(character_f(hypotheses, references), abs=0.01)
    lower = [[s.lower() for s in side] for side in (hypotheses, references)]
    assert chrf(hypotheses, references, lowercase=True).value == pytest.approx(character_f(*lower), abs=0.01)


@pytest.mark.parametrize(
    ("hypothesis", "reference", "edits"),
    [
        ("a b c d", "a b c d", 0),
        ("a b x d", "a b c d", 1),
        ("a b d", "a b c d", 1),
        ("a b c c d", "a b c d", 1),
        ("c d e a b", "a b c d e", 1),  # one shift of a phrase
        ("A B c d", "a b c d", 0),
        ("", "a b c d", 4),
    ],
)
def test_ter_counts_edits_and_shifts(hypothesis: str, reference: str, edits: int) -> None:
    score = ter([hypothesis], [reference])
    assert score.parts["edits"] == edits
    assert score.value == pytest.approx(100 * edits / len(reference.split()))


def test_ter_may_mind_the_case() -> None:
    assert ter(["A B c d"], ["a b c d"], lowercase=False).value == pytest.approx(50)


def test_exact_match_may_leave_case_aside() -> None:
    score = exact_match(["A b", "c"], ["a B", "d"], lowercase=True)
    assert (score.value, score.signature) == (50, "case:lc|tok:none|smooth:none")


def test_exact_match_counts_equal_strings() -> None:
    score = exact_match(["a b", "c", "", "A"], ["a b", "c ", "", "a"])
    assert score.value == 50
    assert score.parts == {"equal": 2, "sentences": 4}


Metric = Callable[[Sequence[str], Sequence[str]], object]
METRICS: list[Metric] = [bleu, chrf, ter, exact_match, deck_bleu]
METRICS += [CorpusBLEU, CorpusChrF, CorpusTER, DeckBLEU, lambda h, r: bleu_by_length(h, r, [1] * len(r))]


@pytest.mark.parametrize("metric", METRICS)
def test_nothing_to_score_is_refused(metric: Metric) -> None:
    with pytest.raises(DataError, match="no sentences"):
        metric([], [])


@pytest.mark.parametrize("metric", METRICS)
def test_every_line_needs_its_own_reference(metric: Metric) -> None:
    with pytest.raises(DataError, match="2 hypotheses but 1 references"):
        metric(["a", "b"], ["a"])


@pytest.mark.parametrize("metric", METRICS)
def test_one_text_is_no_list_of_sentences(metric: Metric) -> None:
    with pytest.raises(DataError, match="split it into lines"):
        metric("abc", "abc")


@pytest.mark.parametrize("metric", [bleu, chrf, exact_match, deck_bleu])
def test_empty_lines_are_sentences(metric: Callable[..., object]) -> None:
    assert metric(["", ""], ["a b c d", "e f"]).value == 0
    some = metric(["", "a b c d e"], ["a b c d e", "a b c d e"]).value
    assert 0 < some < 100
    assert metric(["", "a b c d e"], ["", "a b c d e"]).value >= some


def test_an_unknown_tokenizer_names_those_there_are() -> None:
    with pytest.raises(RecipeError, match=r"tokenize: 'moses' is not a tokenizer of BLEU.*13a"):
        bleu(["a"], ["a"], tokenize="moses")
    assert "spm" not in TOKENIZERS, "it would be fetched from the network"


def test_bands_of_length_hold_every_sentence_once() -> None:
    hypotheses, references = corpus(200, empty=False)
    lengths = [random.randint(1, 70) for _ in references]
    bands = bleu_by_length(hypotheses, references, lengths)
    assert sum(band.num_sentences for band in bands) == 200
    assert [band.longest for band in bands] == [10, 20, 30, 40, 50, None]
    for band in bands:
        inside = [band.shortest <= n <= (band.longest or 999) for n in lengths]
        h, r = ([s for s, i in zip(side, inside, strict=True) if i] for side in (hypotheses, references))
        assert band.score == bleu(h, r)


@pytest.mark.parametrize(("long", "ends"), [(5, [5, 10, 15, 20, 25, 30, None]), (6, [10, 20, 30, 40, 50, None])])
def test_bands_are_narrow_where_few_sentences_are_long(long: int, ends: list[int | None]) -> None:
    lengths = [*(1 + i % 30 for i in range(100 - long)), *(31 + 10 * (i % 3) for i in range(long))]
    bands = bleu_by_length(["a"] * 100, ["a"] * 100, lengths, metric=exact_match)
    assert [band.longest for band in bands] == ends


def test_bands_without_sentences_are_left_out_and_any_metric_will_do() -> None:
    bands = bleu_by_length(["a", "b"], ["a", "c"], [3, 40], edges=[5, 20], metric=exact_match)
    assert [(b.shortest, b.longest, b.num_sentences, b.score.value) for b in bands] == [
        (0, 5, 1, 100.0),
        (21, None, 1, 0.0),
    ]


def test_bands_must_increase_and_every_sentence_has_a_length() -> None:
    with pytest.raises(RecipeError, match="must increase"):
        bleu_by_length(["a"], ["a"], [3], edges=[10, 10])
    with pytest.raises(DataError, match="2 source lengths for 1 sentences"):
        bleu_by_length(["a"], ["a"], [3, 4])


CHINESE = ["今天天气很好，我们去公园玩。", "他昨天在北京买了一本书。", "这家餐厅的菜好吃，价格不贵。"]
JAPANESE = ["今日は天気がいいので公園へ行きます。", "彼は昨日東京で本を買いました。"]
KOREAN = ["오늘은 날씨가 좋아서 공원에 갑니다.", "그는 어제 책을 샀습니다."]
THAI = ["วันนี้อากาศดีเราไปสวนสาธารณะ", "เขาซื้อหนังสือเมื่อวาน"]


@pytest.mark.parametrize(
    ("references", "suited"),
    [
        (CHINESE, {"zh"}),
        ([*CHINESE, "iPhone 15 Pro"], {"zh"}),
        (JAPANESE, {"ja-mecab", "char"}),
        (KOREAN, {"ko-mecab", "13a"}),
        (THAI, {"char"}),
        (["ສະບາຍດີ", "ខ្ញុំ", "မင်္ဂလာပါ"], {"char"}),
        (["ein Hund rennt", "two 狗 run fast"], {"13a"}),
        (["Собака бежит", "यह किताब है"], {"13a"}),
        (["", "1 2 3"], {"13a"}),
    ],
)
def test_words_are_cut_as_the_language_of_references_wants(references: list[str], suited: set[str]) -> None:
    assert select_bleu_tokenizer(references) in suited


@pytest.mark.parametrize("installed", [False, True])
@pytest.mark.parametrize(
    ("language", "wanted"),
    [("zh", "zh"), ("zho_Hant", "zh"), ("yue", "zh"), ("ja-JP", "ja-mecab"), ("jpn", "ja-mecab"), ("ko", "ko-mecab")],
)
def test_a_known_language_decides_as_in_sacrebleu(
    language: str, wanted: str, installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translation, "find_spec", lambda _: installed or None)
    without = {"zh": "zh", "ja-mecab": "char", "ko-mecab": "13a"}[wanted]
    assert BLEU._TOKENIZER_MAP[parse_tag(language).language.replace("yue", "zh")] == wanted
    for references in (["iPhone 15 Pro"], CHINESE, ["ein Hund"]):
        found = select_bleu_tokenizer(references, language=language)
        assert found == (wanted if installed else without)
        said = str(describe_tokenization(references, tokenize=found, language=language))
        assert said.startswith(f"BLEU splits words by {found} (--tokenize), which suits")
        assert (f'pip install "sacrebleu[{wanted[:2]}]"' in said) is (found != wanted)


@pytest.mark.parametrize(("language", "wanted"), [("th", "char"), ("lo", "char"), ("my-MM", "char"), ("bo", "char")])
def test_languages_without_spaces_are_cut_into_characters(language: str, wanted: str) -> None:
    assert select_bleu_tokenizer(["iPhone 15"], language=language) == wanted
    assert select_bleu_tokenizer(THAI, language=None) == wanted
    assert f"tok:{wanted}" in bleu(THAI, THAI, tokenize=wanted).signature


def test_a_language_of_another_name_leaves_it_to_the_letters() -> None:
    for language in ("de", "captions", "x1"):
        assert select_bleu_tokenizer(CHINESE, language=language) == "zh"
        assert select_bleu_tokenizer(["ein Hund"], language=language) == "13a"


def test_bleu_of_chinese_counts_words() -> None:
    nearly = [
        CHINESE[0].replace("玩", "玩吧"),
        CHINESE[1].replace("一本", "一本新"),
        CHINESE[2].replace("不贵", "也不贵"),
    ]
    report = heedful.evaluate(nearly, CHINESE)
    assert report.bleu == pytest.approx(bleu(nearly, CHINESE, tokenize="zh").value)
    assert report.bleu > 50
    assert "tok:zh" in report.scores[0].signature
    assert bleu(nearly, CHINESE).value == 0, "of words between spaces"
    assert heedful.evaluate(nearly, CHINESE, tokenize="13a").bleu == 0


def test_it_is_said_how_words_are_cut() -> None:
    assert describe_tokenization(["ein Hund"], tokenize="13a") is None
    assert describe_tokenization(["ein Hund"], tokenize="char") is None
    assert str(describe_tokenization(CHINESE, tokenize="zh")).startswith(
        "BLEU splits words by zh (--tokenize), which suits"
    )
    assert str(describe_tokenization(CHINESE, tokenize="13a")).startswith(
        "BLEU splits words by 13a; --tokenize zh suits"
    )


@pytest.mark.parametrize("lowercase", [False, True])
def test_edit_rates_leave_case_aside_where_they_are_asked(lowercase: bool) -> None:
    sides = (["ein hund Rennt", "So ist es"], ["Ein Hund rennt", "so ist das"])
    edits = 1 if lowercase else 5
    counted = CorpusTER(*sides, lowercase=lowercase)
    assert ter(*sides, lowercase=lowercase).value == pytest.approx(100 * edits / 6)
    assert counted.value == pytest.approx(100 * edits / 6)
    assert f"case:{'lc' if lowercase else 'mixed'}" in ter(*sides, lowercase=lowercase).signature
    assert ter(*sides).value == TER().corpus_score(sides[0], [sides[1]]).score, "as sacrebleu has it without a word"


def test_reports_have_an_interval_of_edit_rates() -> None:
    right = [f"the {n} dogs run on and on over {n * 7} hills" for n in range(30)]
    found = [line.replace("dogs", "cats") if n % 3 else line for n, line in enumerate(right)]
    report = heedful.evaluate(found, right, samples=200)
    (interval,) = [each for each in report.intervals if each.name == "TER"]
    assert interval.low < interval.value < interval.high
    assert interval.value == pytest.approx(next(each.value for each in report.scores if each.name == "TER"))
