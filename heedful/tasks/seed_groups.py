"""Runs of a comparison that differ only in their seed: their groups, a table of means and tests, and a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

from heedful.inspection.page import PageTable
from heedful.inspection.plots import LINEAR, LOGARITHMIC, PlotLine, Scale, draw_line_plot
from heedful.metrics.seeds import SeedScores, SeedTest, run_seed_tests, summarize_seeds
from heedful.recipes.sweep_axes import shorten_keys
from heedful.tasks.report_text import NO_VALUE, find_differences, format_number, format_value, name_models

if TYPE_CHECKING:
    from heedful.recipes.recipe import Recipe
    from heedful.tasks.report import EvaluationReport

_MIN_LOGARITHMIC_RATIO = 20.0
"""Ratio of the largest to the smallest value of a key from which the axis of a plot is logarithmic."""


@final
@dataclass(frozen=True)
class SeedGroup:
    """Runs whose recipes differ only in their seed.

    Attributes:
        name: the settings that distinguish the group from the others.
        reports: a report for each seed.
        settings: value of each recipe key that differs between the groups; None if the recipe has no such key.
        reference: the group that it is tested against; None for the first one.
    """

    name: str
    reports: tuple[EvaluationReport, ...]
    settings: Mapping[str, Any]
    reference: SeedGroup | None = None

    @property
    def seeds(self) -> list[int]:
        """Seed of each run."""
        return [report.system.required_summary.recipe.seed for report in self.reports]

    @cached_property
    def scores(self) -> Mapping[str, SeedScores]:
        """Mean and deviation of each metric over the seeds."""
        return summarize_seeds([report.resampled_metrics for report in self.reports])

    @cached_property
    def tests(self) -> Mapping[str, SeedTest]:
        """Test of each metric against the reference, over seeds and examples; empty without a reference."""
        if self.reference is None:
            return {}
        reports = (*self.reference.reports, *self.reports)
        names = [name for name in self.scores if all(name in report.resampled_metrics for report in reports)]
        first, second = (
            [{name: report.resampled_metrics[name] for name in names} for report in group.reports]
            for group in (self.reference, self)
        )
        return run_seed_tests(first, second, self.reports[0].sampling)

    def to_json(self) -> dict[str, Any]:
        """Return the group, its scores and tests as JSON data."""
        return {
            "name": self.name,
            "settings": dict(self.settings),
            "seeds": self.seeds,
            "runs": [report.system.name for report in self.reports],
            "metrics": {name: asdict(scores) for name, scores in self.scores.items()},
            "against_first": {name: asdict(test) for name, test in self.tests.items()},
        }


def group_by_seed(reports: Sequence[EvaluationReport]) -> list[SeedGroup]:
    """Group reports of runs that differ only in their seed, in the order of the first runs; the first group is the
    reference of all others. Of several runs with the same recipe and seed only the first counts.
    """
    members: dict[str, dict[int, EvaluationReport]] = {}
    for report in reports:
        recipe = report.system.required_summary.recipe
        members.setdefault(_get_key(recipe), {}).setdefault(recipe.seed, report)
    recipes = [next(iter(group.values())).system.required_summary.recipe for group in members.values()]
    differences = {key: values for key, values in find_differences(recipes).items() if key != "seed"}
    groups: list[SeedGroup] = []
    for index, (group, model_name) in enumerate(zip(members.values(), name_models(recipes), strict=True)):
        settings = {key: values[index] for key, values in differences.items()}
        short = shorten_keys(list(settings))
        name = ", ".join(f"{short[key]}={format_value(value)}" for key, value in settings.items() if value is not None)
        groups.append(SeedGroup(name or model_name, tuple(group.values()), settings, groups[0] if groups else None))
    return groups


def _get_key(recipe: Recipe) -> str:
    """Return a key that is equal for recipes that differ only in seed and output folder."""
    return recipe.model_dump_json(exclude={"output", "seed"})


def build_seed_table(groups: Sequence[SeedGroup], metrics: Sequence[str]) -> PageTable:
    """Build a table with a row for each group: for each metric its mean, standard deviation over seeds, difference from
    the first group, and p.
    """
    test_columns = ("difference", "p") if len(groups) > 1 else ()
    columns = ["recipe", "seeds", *(cell for name in metrics for cell in (name, "deviation", *test_columns))]
    rows = [
        [
            group.name,
            f"{len(group.reports)}",
            *(cell for name in metrics for cell in _format_cells(group, name, tested=len(groups) > 1)),
        ]
        for group in groups
    ]
    notes = ["deviation: standard deviation over seeds"]
    if len(groups) > 1:
        notes.append(
            f"p: how often chance alone makes a difference from {groups[0].name} at least this large, where chance "
            "chooses the seeds (Student's t) and the examples (paired bootstrap)"
        )
    if any(len(group.reports) == 1 for group in groups):
        notes.append("groups of one seed have no deviation of their own")
    return PageTable("Means over seeds", columns, rows, notes)


def _format_cells(group: SeedGroup, name: str, *, tested: bool) -> list[str]:
    """Format mean and deviation of a metric of a group; with `tested`, also its difference from the reference and p."""
    scores, test, digits = group.scores[name], group.tests.get(name), group.reports[0].metric_digits(name)
    cells = [f"{scores.mean:.{digits}f}", format_number(scores.deviation, f".{digits}f")]
    if tested:
        difference = NO_VALUE if test is None else f"{test.difference:+.{digits}f}"
        cells += [difference, format_number(test.p_value if test else None, ".3f")]
    return cells


def plot_seed_groups(groups: Sequence[SeedGroup], metric: str) -> str:
    """Plot a metric of each group as SVG: a point for each seed, or, if the groups differ in one number only, the means
    over this number, with the lowest and the highest value among the seeds.
    """
    keys = {key for group in groups for key in group.settings}
    if len(keys) == 1 and len(groups) > 1:
        (key,) = keys
        numbers = [group.settings[key] for group in groups]
        if all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
            return _plot_over_key(groups, metric, key)
    lines = [
        PlotLine(group.name, tuple((index, value) for value in group.scores[metric].values))
        for index, group in enumerate(groups, 1)
    ]
    ticks = [(index, str(index)) for index in range(1, len(groups) + 1)]
    return draw_line_plot(
        lines, title=f"{metric} of each seed", x_name="recipe, in the order below", y_name=metric, x_ticks=ticks
    )


def _plot_over_key(groups: Sequence[SeedGroup], metric: str, key: str) -> str:
    """Plot a metric of each group over the value of the key in which they differ, a number."""
    ordered = sorted(groups, key=lambda group: group.settings[key])
    numbers = [group.settings[key] for group in ordered]
    scores = [group.scores[metric] for group in ordered]
    is_wide = numbers[0] > 0 and numbers[-1] / numbers[0] >= _MIN_LOGARITHMIC_RATIO
    scale: Scale = LOGARITHMIC if is_wide else LINEAR
    line = PlotLine(
        metric,
        tuple((number, score.mean) for number, score in zip(numbers, scores, strict=True)),
        spread=tuple((min(score.values), max(score.values)) for score in scores),
    )
    return draw_line_plot(
        [line],
        title=f"{metric} by {key}",
        x_name=key,
        y_name=f"{metric}, mean of the seeds",
        x_ticks=[(number, f"{number:g}") for number in numbers],
        x_scale=scale,
    )
