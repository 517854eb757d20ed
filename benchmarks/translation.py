"""How fast heedful translates, beside CTranslate2 and Hugging Face's `generate`, with the same weights.

    python benchmarks/translation.py                                     # random weights, small and base
    python benchmarks/translation.py --run runs/x --source test.en       # a trained model and real sentences
    python benchmarks/translation.py --batch 16 --beam 5 --json translation.json --markdown translation.md
    python benchmarks/translation.py --quick                             # whether all of it runs, in half a minute

A run's model is exported to MarianMT and to CTranslate2. All get the same sentences, in batches of the same size sorted
by length, from text to text through the same tokenizer; scores are log-probabilities without length penalty; padding
and begin of sentence are forbidden. Without a run, a model with random weights is made and read random words in
sentences as long as captions. It knows no end, so the end of sentence is forbidden too and every translation has
exactly `forced` tokens in all engines: what is compared then is speed, while equal outputs say less than those of a
trained model, whose alternatives are not close to ties.

Each contestant has processes of its own, which stay, as loading is not what is measured; in every round each setting is
given to one contestant after the other. "Same" is the share of translations that equal heedful's, letter for letter.

heedful           one process, two threads
heedful-2x1       two processes of one thread that share the batches
heedful-int8-*    by the engine `int8`
heedful-native-*  by the engine `native`, where heedful-native is installed
ct2-*             CTranslate2 with two workers of one thread, its best layout on few cores; float32 or int8
transformers      one process, two threads
transformers-2x1  two processes of one thread
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from contest import SIZES, Answer, Contestant, Report, Speeds, Team, jsonable, machine, present, say, serve

from heedful.cli.arguments import parse_script_arguments

Setting = tuple[int, int]
"""Beam and batch size."""


@dataclass(frozen=True)
class Options:
    """Sentences per second of translation, compared."""

    run: Path | None = None
    """a run folder with a trained model; random weights unless given"""
    source: Path | None = None
    """sentences to translate, one a line, plain or gzipped; needed with a run"""
    size: tuple[Literal["small", "base", "tiny"], ...] = ("small", "base")
    """of models with random weights"""
    contestants: tuple[str, ...] = ()
    """who takes part; everybody unless given"""
    batch: tuple[int, ...] = (1, 16, 64)
    """sentences in a batch"""
    beam: tuple[int, ...] = (1, 5)
    """widths of the beam; 1 is greedy search"""
    rounds: int = 5
    """turns of each contestant at each setting"""
    batches: int = 4
    """in each turn, but at least `sentences`"""
    sentences: int = 32
    """in each turn, but at least `batches`"""
    limit: int = 100
    """most tokens of a translation by a trained model"""
    forced: int = 20
    """tokens of each translation by a random model"""
    vocabulary: int = 8000
    """of random models"""
    threads: int = 2
    """of each contestant; its two workers share them"""
    json: Path | None = None
    """write every measurement there"""
    markdown: Path | None = None
    """write the tables there too"""
    quick: bool = False
    """tiny model, one round, few sentences: whether the benchmark works"""


@dataclass(frozen=True)
class Subject:
    """A model in all formats, and what it is to translate."""

    name: str
    run: Path
    source: Path
    marian: Path
    ctranslate2: Path
    rules: dict[str, Any]


def main() -> None:
    """Reads the command line; a worker of ours is told apart by its first word."""
    if sys.argv[1:2] == ["serve"]:
        from translation_engines import build

        serve(build)
        return
    options = parse_script_arguments(Options, __file__)
    if (options.run is None) != (options.source is None):
        raise SystemExit("give --run and --source together, or neither of them")
    if options.quick:
        options = _quick(options)
    report = Report("Translation", [*machine(), *_conditions(options)], raw={"options": jsonable(options)})
    with tempfile.TemporaryDirectory() as folder:
        for name in ("trained",) if options.run else options.size:
            _compare(_subject(name, options, Path(folder)), options, report)
    report.publish(markdown=options.markdown, json_file=options.json)


def contestants(subject: Subject, options: Options) -> list[Contestant]:
    """Everybody, in the order of turns."""
    settings = {name: str(value) for name, value in vars(subject).items()} | {"rules": subject.rules}
    each = max(1, options.threads // 2)
    alone, shared = {"threads": options.threads}, {"workers": 2, "threads": each}

    def entry(name: str, engine: str, more: dict[str, Any], needs: str = "torch", **own: Any) -> Contestant:
        return Contestant(name, {**settings, "engine": engine, **own}, needs=needs, **more)

    def rival(compute: str) -> Contestant:
        own = {"compute": compute, "inter_threads": 2}
        return entry(f"ct2-{compute}", "ctranslate2", {"threads": each}, "ctranslate2", **own)

    return [
        entry("heedful", "heedful", alone),
        entry("heedful-2x1", "heedful", shared),
        entry("heedful-int8-2x1", "heedful", shared, by="int8"),
        entry("heedful-native", "heedful", alone, "heedful_native", by="native"),
        entry("heedful-native-2x1", "heedful", shared, "heedful_native", by="native"),
        rival("float32"),
        rival("int8"),
        entry("transformers", "transformers", alone, "transformers"),
        entry("transformers-2x1", "transformers", shared, "transformers"),
    ]


def _compare(subject: Subject, options: Options, report: Report) -> None:
    settings = [(beam, batch) for beam in options.beam for batch in options.batch]
    measured: dict[Setting, dict[str, list[dict[str, Any]]]] = {setting: {} for setting in settings}
    with ExitStack() as stack:
        chosen = present(contestants(subject, options), options.contestants)
        teams = [stack.enter_context(Team(__file__, contestant)) for contestant in chosen]
        for turn in range(options.rounds):
            for setting in settings:
                for team in teams:
                    result = _turn(team, setting, options)
                    measured[setting].setdefault(team.contestant.name, []).append(result)
                    where = f"{subject.name}, round {turn + 1}, beam {setting[0]}, batch {setting[1]}"
                    say(f"{where}: {team.contestant.name} {result['speed']:.1f} sentences/s")
    for beam in options.beam:
        of_beam = {batch: measured[beam, batch] for batch in options.batch}
        name = f"{subject.name}, {'greedy' if beam == 1 else f'beam {beam}'}"
        report.tables.append((name, *_speeds(of_beam)))
        if any(contestant.name == "heedful-2x1" for contestant in chosen):
            report.tables.append((f"{name}: heedful-2x1 against the others", *_ratios(of_beam)))
    report.raw[subject.name] = [
        {"beam": beam, "batch": batch, "contestant": contestant, "rounds": [_without_texts(each) for each in rounds]}
        for (beam, batch), found in measured.items()
        for contestant, rounds in found.items()
    ]


def _turn(team: Team, setting: Setting, options: Options) -> dict[str, Any]:
    """One measurement; workers begin together, and the last one to finish stops the clock."""
    beam, batch = setting
    sentences = max(options.sentences, options.batches * batch)
    answers: list[Answer] = team.ask({"beam": beam, "batch": batch, "sentences": sentences})
    translations = {source: text for answer in answers for source, text in answer["translations"].items()}
    seconds = max(answer["seconds"] for answer in answers)
    return {"speed": len(translations) / seconds, "seconds": seconds, "translations": translations}


def _speeds(measured: dict[int, dict[str, list[dict[str, Any]]]]) -> tuple[list[str], list[list[str]]]:
    names = list(next(iter(measured.values())))
    head = ["sentences/s: median (range)", *(f"batch {batch}" for batch in measured), "same"]
    rows = [[name, *(str(_speed(found[name])) for found in measured.values()), _same(measured, name)] for name in names]
    return head, rows


def _ratios(measured: dict[int, dict[str, list[dict[str, Any]]]]) -> tuple[list[str], list[list[str]]]:
    names = [name for name in next(iter(measured.values())) if name != "heedful-2x1"]
    head = ["times as fast as", *(f"batch {batch}" for batch in measured)]
    rows = [
        [name, *(f"{_speed(found['heedful-2x1']).over(_speed(found[name])):.2f}" for found in measured.values())]
        for name in names
    ]
    return head, rows


def _speed(rounds: list[dict[str, Any]]) -> Speeds:
    return Speeds(tuple(each["speed"] for each in rounds))


def _same(measured: dict[int, dict[str, list[dict[str, Any]]]], name: str) -> str:
    """Over all batch sizes, how many translations are heedful's."""
    if not all("heedful" in found for found in measured.values()):
        return "-"
    pairs = [
        (text, found["heedful"][0]["translations"][source])
        for found in measured.values()
        for source, text in found[name][0]["translations"].items()
    ]
    return f"{sum(a == b for a, b in pairs) / len(pairs):.1%}"


def _subject(name: str, options: Options, folder: Path) -> Subject:
    from heedful.errors import MissingExtraError
    from heedful.runs.export import export_ctranslate2, export_marian

    place = folder / name
    place.mkdir()
    if options.run is not None and options.source is not None:
        run, source = options.run, options.source
        rules = {"limit": options.limit, "forced": False}
    else:
        import made_up

        run = made_up.run(place, options.vocabulary, SIZES[name])
        source = made_up.source_text(place / "source.txt", 1000, options.vocabulary)
        rules = {"limit": options.forced, "forced": True}
    export_marian(run, place / "marian")
    try:
        export_ctranslate2(run, place / "ctranslate2")
    except MissingExtraError as error:
        say(str(error))
    return Subject(name, run, source, place / "marian", place / "ctranslate2", rules)


def _conditions(options: Options) -> list[str]:
    subject = f"random weights, {options.forced} tokens forced" if options.run is None else "a trained model"
    return [
        f"{subject}; {options.rounds} rounds of {options.batches} batches, at least {options.sentences} sentences",
        f"{options.threads} threads each: one process with all of them, or two workers that share them (2x1, ct2)",
    ]


def _quick(options: Options) -> Options:
    few = ("heedful", "heedful-2x1", "ct2-float32", "ct2-int8", "transformers")
    return replace(
        options,
        size=("tiny",),
        contestants=options.contestants or few,
        batch=(1, 4),
        beam=(1, 2),
        rounds=1,
        batches=2,
        sentences=4,
        threads=1,
        vocabulary=200,
    )


def _without_texts(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name != "translations"}


if __name__ == "__main__":
    main()
