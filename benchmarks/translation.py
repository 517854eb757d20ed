"""Compare the speed of translation with the same weights: heedful, CTranslate2 and Hugging Face's `generate`.

    python benchmarks/translation.py                                     # random weights, small and base
    python benchmarks/translation.py --run runs/x --source test.en       # a trained model and real sentences
    python benchmarks/translation.py --batch 16 --beam 5 --json translation.json --markdown translation.md
    python benchmarks/translation.py --quick                             # checks in half a minute that everything runs

The model of the run is exported to MarianMT and to CTranslate2. All contestants translate the same sentences, in
batches of the same size sorted by length, with the same tokenizer. Scores are log-probabilities without length penalty;
padding and begin of sentence are forbidden. Without a run, the model has random weights and translates random words in
sentences as long as captions. Such a model does not learn to end a sentence, so the end of sentence is forbidden too,
and each translation has exactly `forced` tokens. The best candidates of a random model have nearly equal scores, so
fewer translations are equal than with a trained model.

Each contestant has its own processes, which stay open, because loading is not measured. In each round, the contestants
take turns for each setting. "Same" is the share of translations that are equal to heedful's.

heedful           one process, two threads
heedful-2x1       two processes of one thread that share the batches
heedful-int8-*    the engine `int8`
heedful-native-*  the engine `native`, if heedful-native is installed
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

from comparison import (
    SIZES,
    Contestant,
    JobResult,
    Report,
    Speeds,
    WorkerGroup,
    describe_machine,
    options_to_json,
    print_progress,
    run_worker,
    select_contestants,
)

from heedful.cli.arguments import parse_script_arguments

Setting = tuple[int, int]
"""Beam and batch size."""


@dataclass(frozen=True)
class Options:
    """Compare sentences per second of translation."""

    run: Path | None = None
    """run folder with a trained model; random weights by default"""
    source: Path | None = None
    """file of sentences, one on each line, plain or gzipped; needed with a run"""
    size: tuple[Literal["small", "base", "tiny"], ...] = ("small", "base")
    """sizes of models with random weights"""
    contestants: tuple[str, ...] = ()
    """contestants to compare; all by default"""
    batch: tuple[int, ...] = (1, 16, 64)
    """number of sentences in a batch"""
    beam: tuple[int, ...] = (1, 5)
    """widths of the beam; 1 is greedy search"""
    rounds: int = 5
    """number of turns of each contestant for each setting"""
    batches: int = 4
    """number of batches in each turn, with at least `sentences` sentences"""
    sentences: int = 32
    """number of sentences in each turn, in at least `batches` batches"""
    limit: int = 100
    """maximal number of tokens of a translation by a trained model"""
    forced: int = 20
    """number of tokens of each translation by a random model"""
    vocabulary: int = 8000
    """size of the vocabulary of random models"""
    threads: int = 2
    """number of threads of each contestant; two workers share them"""
    json: Path | None = None
    """JSON file for all measurements"""
    markdown: Path | None = None
    """Markdown file for the tables"""
    quick: bool = False
    """check with a tiny model, one round and few sentences that the benchmark works"""


@dataclass(frozen=True)
class Subject:
    """A model in all formats, and the file to translate."""

    name: str
    run: Path
    source: Path
    marian: Path
    ctranslate2: Path
    rules: dict[str, Any]


def main() -> None:
    """Run the benchmark, or a worker if that is the first argument."""
    if sys.argv[1:2] == ["worker"]:
        from translation_engines import build_job_runner

        run_worker(build_job_runner)
        return
    options = parse_script_arguments(Options, __file__)
    if (options.run is None) != (options.source is None):
        raise SystemExit("give --run and --source together, or neither of them")
    if options.quick:
        options = _build_quick_options(options)
    report = Report(
        "Translation", [*describe_machine(), *_describe_conditions(options)], raw={"options": options_to_json(options)}
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in ("trained",) if options.run else options.size:
            _compare_contestants(_export_subject(name, options, Path(folder)), options, report)
    report.publish(markdown=options.markdown, json_file=options.json)


def list_contestants(subject: Subject, options: Options) -> list[Contestant]:
    """List the contestants in the order of turns."""
    settings = {name: str(value) for name, value in vars(subject).items()} | {"rules": subject.rules}
    each = max(1, options.threads // 2)
    alone, shared = {"threads": options.threads}, {"workers": 2, "threads": each}

    def build_contestant(name: str, engine: str, more: dict[str, Any], needs: str = "torch", **own: Any) -> Contestant:
        return Contestant(name, {**settings, "engine": engine, **own}, needs=needs, **more)

    def build_ctranslate2(compute: str) -> Contestant:
        own = {"compute": compute, "inter_threads": 2}
        return build_contestant(f"ct2-{compute}", "ctranslate2", {"threads": each}, "ctranslate2", **own)

    return [
        build_contestant("heedful", "heedful", alone),
        build_contestant("heedful-2x1", "heedful", shared),
        build_contestant("heedful-int8-2x1", "heedful", shared, by="int8"),
        build_contestant("heedful-native", "heedful", alone, "heedful_native", by="native"),
        build_contestant("heedful-native-2x1", "heedful", shared, "heedful_native", by="native"),
        build_ctranslate2("float32"),
        build_ctranslate2("int8"),
        build_contestant("transformers", "transformers", alone, "transformers"),
        build_contestant("transformers-2x1", "transformers", shared, "transformers"),
    ]


def _compare_contestants(subject: Subject, options: Options, report: Report) -> None:
    settings = [(beam, batch) for beam in options.beam for batch in options.batch]
    measured: dict[Setting, dict[str, list[dict[str, Any]]]] = {setting: {} for setting in settings}
    with ExitStack() as stack:
        chosen = select_contestants(list_contestants(subject, options), options.contestants)
        groups = [stack.enter_context(WorkerGroup(__file__, contestant)) for contestant in chosen]
        for turn in range(options.rounds):
            for setting in settings:
                for group in groups:
                    result = _measure_turn(group, setting, options)
                    measured[setting].setdefault(group.contestant.name, []).append(result)
                    where = f"{subject.name}, round {turn + 1}, beam {setting[0]}, batch {setting[1]}"
                    print_progress(f"{where}: {group.contestant.name} {result['speed']:.1f} sentences/s")
    for beam in options.beam:
        of_beam = {batch: measured[beam, batch] for batch in options.batch}
        name = f"{subject.name}, {'greedy' if beam == 1 else f'beam {beam}'}"
        report.tables.append((name, *_build_speed_table(of_beam)))
        if any(contestant.name == "heedful-2x1" for contestant in chosen):
            report.tables.append((f"{name}: heedful-2x1 against the others", *_build_ratio_table(of_beam)))
    report.raw[subject.name] = [
        {"beam": beam, "batch": batch, "contestant": contestant, "rounds": [_remove_texts(each) for each in rounds]}
        for (beam, batch), found in measured.items()
        for contestant, rounds in found.items()
    ]


def _measure_turn(workers: WorkerGroup, setting: Setting, options: Options) -> dict[str, Any]:
    """Measure one turn, from the start of all workers to the end of the last one."""
    beam, batch = setting
    sentences = max(options.sentences, options.batches * batch)
    results: list[JobResult] = workers.run_job({"beam": beam, "batch": batch, "sentences": sentences})
    translations = {source: text for result in results for source, text in result["translations"].items()}
    seconds = max(result["seconds"] for result in results)
    return {"speed": len(translations) / seconds, "seconds": seconds, "translations": translations}


def _build_speed_table(measured: dict[int, dict[str, list[dict[str, Any]]]]) -> tuple[list[str], list[list[str]]]:
    names = list(next(iter(measured.values())))
    head = ["sentences/s: median (range)", *(f"batch {batch}" for batch in measured), "same"]
    rows = [
        [
            name,
            *(str(_collect_speeds(found[name])) for found in measured.values()),
            _compute_equal_share(measured, name),
        ]
        for name in names
    ]
    return head, rows


def _build_ratio_table(measured: dict[int, dict[str, list[dict[str, Any]]]]) -> tuple[list[str], list[list[str]]]:
    names = [name for name in next(iter(measured.values())) if name != "heedful-2x1"]
    head = ["times as fast as", *(f"batch {batch}" for batch in measured)]
    rows = [
        [
            name,
            *(
                f"{_collect_speeds(found['heedful-2x1']).compute_ratio(_collect_speeds(found[name])):.2f}"
                for found in measured.values()
            ),
        ]
        for name in names
    ]
    return head, rows


def _collect_speeds(rounds: list[dict[str, Any]]) -> Speeds:
    return Speeds(tuple(each["speed"] for each in rounds))


def _compute_equal_share(measured: dict[int, dict[str, list[dict[str, Any]]]], name: str) -> str:
    """Return the share of translations that are equal to heedful's, over all batch sizes."""
    if not all("heedful" in found for found in measured.values()):
        return "-"
    pairs = [
        (text, found["heedful"][0]["translations"][source])
        for found in measured.values()
        for source, text in found[name][0]["translations"].items()
    ]
    return f"{sum(a == b for a, b in pairs) / len(pairs):.1%}"


def _export_subject(name: str, options: Options, folder: Path) -> Subject:
    from heedful.errors import MissingExtraError
    from heedful.runs.export import export_ctranslate2, export_marian

    place = folder / name
    place.mkdir()
    if options.run is not None and options.source is not None:
        run, source = options.run, options.source
        rules = {"limit": options.limit, "forced": False}
    else:
        import synthetic_data

        run = synthetic_data.create_translation_run(place, options.vocabulary, SIZES[name])
        source = synthetic_data.write_source_text(place / "source.txt", 1000, options.vocabulary)
        rules = {"limit": options.forced, "forced": True}
    export_marian(run, place / "marian")
    try:
        export_ctranslate2(run, place / "ctranslate2")
    except MissingExtraError as error:
        print_progress(str(error))
    return Subject(name, run, source, place / "marian", place / "ctranslate2", rules)


def _describe_conditions(options: Options) -> list[str]:
    subject = f"random weights, {options.forced} tokens forced" if options.run is None else "a trained model"
    return [
        f"{subject}; {options.rounds} rounds of {options.batches} batches, at least {options.sentences} sentences",
        f"{options.threads} threads each: one process with all of them, or two workers that share them (2x1, ct2)",
    ]


def _build_quick_options(options: Options) -> Options:
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


def _remove_texts(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name != "translations"}


if __name__ == "__main__":
    main()
