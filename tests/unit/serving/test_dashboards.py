"""The dashboards and rules of docs/monitoring name metrics that exist, and leave out none that matters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families as families

from heedful.serving.metrics import ServerMetrics, WorkerState
from heedful.serving.registry import ModelRegistry
from heedful.serving.settings import ServerSettings
from heedful.training.callbacks import EpochPlan, LossSum, SavedCheckpoint, StepMetrics, TrainState, ValidationResult
from heedful.training.prometheus import TrainingMetrics
from heedful.training.trainer import StoppingLimits

FOLDER = Path(__file__).parents[3] / "docs/monitoring"
METRIC = re.compile(r"\b(?:heedful|process)_\w+")
SELECTOR = re.compile(r"([a-zA-Z_:]\w*){([^}]*)}")
FUNCTIONS = {
    *("sum", "min", "max", "by", "rate", "increase", "histogram_quantile", "time", "changes", "last_over_time"),
    *("and", "on", "unless", "label_values"),
}
ADDED_LABELS = {"instance", "job"}
"""Labels that Prometheus adds."""
UNSHOWN = {"process_virtual_memory_bytes", "process_start_time_seconds", "process_cpu_seconds_total"}
UNSHOWN |= {"process_open_fds", "process_max_fds"}


def list_serving_samples(monkeypatch: pytest.MonkeyPatch) -> Any:
    registry = ModelRegistry(ServerSettings(), {}, {})
    registry.list_workers = lambda: [WorkerState(1, True)]
    model: Any = type("Model", (), {"num_waiting": 0, "run_id": "a"})()
    monkeypatch.setattr(ModelRegistry, "has_ready_backends", True)
    registry.models["m"] = model
    metrics: ServerMetrics = registry.metrics
    metrics.count_request("/x", method="GET", status=200, seconds=1.0)
    metrics.count_rejected_connection(400)
    metrics.record_batch("m", 1)
    metrics.count_tokens("m", 1)
    return [sample for family in families(metrics.render_text().decode()) for sample in family.samples]


def list_training_samples(monkeypatch: pytest.MonkeyPatch) -> Any:
    gpus = [("cuda:0", "peak", 1)]
    monkeypatch.setattr("heedful.training.prometheus.list_gpu_memory", lambda: iter(gpus))
    metrics = TrainingMetrics(
        StoppingLimits(1, 1, 1.0, 1), labels={"run_id": "a", "run": "b", "task": "c", "version": "d"}
    )
    metrics.on_epoch_begin(EpochPlan(TrainState(), 1, 0, 1, 1, 1))
    metrics.on_step_end(StepMetrics(1, 0, 1.0, 1.0, 1.0, 1.0, 1, 1.0, parts={"other": LossSum(1.0, 1.0)}))
    metrics.on_evaluate(ValidationResult(TrainState(), {"loss": 1.0}, True))
    metrics.on_save(SavedCheckpoint(TrainState(), 1.0))
    text = generate_latest(metrics.registry).decode()
    return [sample for family in families(text) for sample in family.samples]


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> Any:
    return list_serving_samples(monkeypatch)


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> Any:
    return list_training_samples(monkeypatch)


def read_dashboard(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"grafana-{name}.json").read_text(encoding="utf-8"))
    return found


def list_expressions(name: str) -> list[str]:
    board = read_dashboard(name)
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return expressions + [each["query"] for each in board["templating"]["list"] if each["type"] == "query"]


def list_rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def find_names(expression: str) -> set[str]:
    """The metrics in an expression: names that stand in front of a selector, a range, an operator or the end."""
    bare = re.sub(r'"[^"]*"|{[^}]*}', "", expression)
    return set(METRIC.findall(bare))


def find_faults(expression: str, samples: Any) -> Iterator[str]:
    """What of an expression does not exist."""
    labels: dict[str, set[str]] = {}
    for sample in samples:
        labels.setdefault(sample.name, set()).update(sample.labels)
    yield from sorted(find_names(expression) - labels.keys())
    for name, selector in SELECTOR.findall(expression):
        known = labels.get(name, set()) | ADDED_LABELS
        yield from (
            f"{name}{{{label}}}" for label in re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", selector) if label not in known
        )
    for group in re.findall(r"by \(([^)]*)\)", expression):
        known = {label for name in find_names(expression) for label in labels.get(name, ())} | ADDED_LABELS
        yield from (f"by ({label})" for label in group.split(", ") if label not in known)


def test_each_expression_names_what_exists(serving: Any, training: Any) -> None:
    for name, samples in (("serving", serving), ("training", training)):
        faults = {
            expression: found for expression in list_expressions(name) if (found := [*find_faults(expression, samples)])
        }
        assert faults == {}
    faults = {
        rule["alert"]: found for rule in list_rules() if (found := [*find_faults(rule["expr"], serving + training)])
    }
    assert faults == {}


@pytest.mark.parametrize(
    "expression",
    ["heedful_reqests_total", 'heedful_waiting{modle="a"}', "sum by (rout) (rate(heedful_requests_total[1m]))"],
)
def test_a_wrong_name_is_found(serving: Any, expression: str) -> None:
    assert list(find_faults(expression, serving))


@pytest.mark.parametrize("name", ["serving", "training"])
def test_each_metric_is_shown(name: str, request: pytest.FixtureRequest) -> None:
    samples = request.getfixturevalue(name)
    shown = {metric for expression in list_expressions(name) for metric in find_names(expression)}
    families_shown = {re.sub(r"_(bucket|sum|count)$", "", metric) for metric in shown}
    exported = {sample.name for sample in samples if not sample.name.endswith("_created")} - UNSHOWN
    assert {metric for metric in exported if re.sub(r"_(bucket|sum|count)$", "", metric) not in families_shown} == set()


@pytest.mark.parametrize("name", ["serving", "training"])
def test_names_in_legends_are_labels(name: str, request: pytest.FixtureRequest) -> None:
    known = {label for sample in request.getfixturevalue(name) for label in sample.labels} | ADDED_LABELS
    legends = [target["legendFormat"] for panel in read_dashboard(name)["panels"] for target in panel["targets"]]
    used = {label for legend in legends for label in re.findall(r"{{(\w+)}}", legend)}
    assert used
    assert used <= known


@pytest.mark.parametrize("name", ["serving", "training"])
def test_dashboards_are_complete(name: str) -> None:
    board = read_dashboard(name)
    assert {"uid", "title", "panels", "templating", "schemaVersion", "time"} <= board.keys()
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = {
        (x, y)
        for panel in panels
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    }
    assert len(places) == sum(panel["gridPos"]["w"] * panel["gridPos"]["h"] for panel in panels), "panels overlap"
    assert max(x for x, _ in places) < 24
    for panel in panels:
        assert panel["title"] and panel["type"] in ("timeseries", "stat", "gauge")
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert target["expr"].count("(") == target["expr"].count(")")
    variables = {each["name"] for each in board["templating"]["list"]}
    used = {name for expression in list_expressions(name) for name in re.findall(r"\$(\w+)", expression)}
    assert used | {"datasource"} == variables


def test_rules_say_what_is_wrong() -> None:
    rules = list_rules()
    assert len({rule["alert"] for rule in rules}) == len(rules) > 5
    for rule in rules:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert "{{ $labels.instance }}" in rule["annotations"]["summary"]
        words = set(re.findall(r"\b[a-z_]+(?= ?\()", rule["expr"]))
        assert words <= FUNCTIONS, words
