"""What the page's modules make of a record, without a browser: they run in Node.js where there is one."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_records import build_dirichlet_record, build_random_record

import heedful.inspection
from heedful.attention.hooks import AttentionKind
from heedful.inspection.figures.pictures import build_gaussian_kernel
from heedful.inspection.flow import compute_attention_flow, compute_rollout
from heedful.inspection.heads import measure_map
from heedful.inspection.record import AttentionMap, InspectionRecord, MapAxis
from heedful.inspection.web import build_payload, render_viewer

VIEWER = Path(heedful.inspection.__file__).parent / "viewer"

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")


def run(folder: Path, code: str, given: object = None) -> Any:
    """What a module returns that gets `given` and imports the page's modules by their names there."""
    modules = folder / "node_modules" / "heedful"
    shutil.copytree(VIEWER, modules)
    (modules / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    (folder / "given.json").write_text(json.dumps(given), encoding="utf-8")
    (folder / "main.mjs").write_text(
        'import { readFileSync } from "node:fs";\n'
        'const given = JSON.parse(readFileSync("given.json", "utf-8"));\n'
        f"const result = await (async () => {{{code}}})();\n"
        "console.log(JSON.stringify(result ?? null));\n",
        encoding="utf-8",
    )
    done = subprocess.run(["node", "main.mjs"], check=False, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


FLOWS = """
const { buildRecord } = await import("heedful/record.js");
const { unpackArray } = await import("heedful/arrays.js");
const { loadGraph, computeFlows } = await import("heedful/attention_graph.js");
const record = buildRecord(given.record);
const graph = await loadGraph(record, record.overall[given.side]);
const all = [...Array(graph.size).keys()];
const shares = await unpackArray(record.overall[given.side].shares);
return { shares: [...shares.data], flows: graph.queries.tokens.map((_, q) => [...computeFlows(graph, q, all)]) };
"""


@needs_node
@pytest.mark.parametrize(
    "roles", [("encoder",), ("decoder",), ("cross",), ("encoder", "cross"), ("encoder", "decoder", "cross")]
)
def test_flow_is_that_of_python(tmp_path: Path, roles: Sequence[AttentionKind]) -> None:
    record = build_random_record(layers=3, source="abcdef", written="vwxyz", roles=roles)
    side = "encoder" if roles == ("encoder",) else "decoder"
    found = run(tmp_path, FLOWS, {"record": build_payload(record), "side": side})
    expected = compute_rollout(record)
    # the page has weights in 16 bits
    np.testing.assert_allclose(np.reshape(found["shares"], expected.shares.shape), expected.shares, atol=1e-5)
    flows = [compute_attention_flow(record, query).amounts for query in range(len(expected.queries.tokens))]
    np.testing.assert_allclose(found["flows"], flows, atol=5e-4)


@needs_node
def test_every_module_finds_what_it_imports(tmp_path: Path) -> None:
    names = sorted(path.name for path in VIEWER.glob("*.js") if path.name != "main.js")
    assert run(tmp_path, "for (const name of given) await import(`heedful/${name}`);", names) is None


@needs_node
def test_the_page_spreads_weights_as_figures_do(tmp_path: Path) -> None:
    cells = np.random.default_rng(2).dirichlet(np.ones(12))
    code = """
    const { smoothWeights } = await import("heedful/regions_view.js");
    return [...smoothWeights(given, { rows: 3, columns: 4, width: 13, height: 9 })];
    """
    found = np.reshape(run(tmp_path, code, cells.tolist()), (9, 13))
    # the page keeps numbers of 32 bits
    np.testing.assert_allclose(
        found, build_gaussian_kernel(9, 3) @ cells.reshape(3, 4) @ build_gaussian_kernel(13, 4).T, atol=1e-6
    )


def test_the_page_has_the_measures_of_every_head_and_of_their_mean() -> None:
    record = build_random_record(heads=3)
    for each, told in zip(record.maps, build_payload(record)["maps"], strict=True):
        found = measure_map(each)
        assert len(told["measures"]) == 4
        for place in range(3):
            mine = told["measures"][place]
            assert mine["entropy"] == pytest.approx(found.relative_entropy[place], abs=1e-5)
            assert mine["previous"] == pytest.approx(found.previous[place], abs=1e-5)
            assert (mine["distance"] is None) == (each.role == "cross")
        mean = measure_map(made_alone(each))
        assert told["measures"][3]["largest"] == pytest.approx(mean.largest[0], abs=1e-5)


def made_alone(each: AttentionMap) -> AttentionMap:
    """The mean over heads as the only head."""
    return AttentionMap(
        each.path, each.role, each.layer, (0,), each.queries, each.keys, each.mean_weights[None], each.visible
    )


def test_what_is_in_the_way_of_rollout_is_said() -> None:
    told = build_payload(build_random_record(layers=3).keep_maps(layers=[2]))["overall"]
    assert list(told) == ["decoder", "encoder"]
    assert "encoder layers 0, 1 are not in this record" in told["decoder"]["obstacle"]
    assert build_payload(build_random_record(roles=("summary",)))["overall"] == {}


def test_a_grid_is_shown_by_its_cells() -> None:
    picture, words = MapAxis.from_grid("picture", rows=2, columns=3), MapAxis("written", ("a", "dog"))
    weights = np.full((1, 2, 6), 1 / 6, np.float32)
    each = AttentionMap("decoder.across", "cross", 0, (0,), "written", "picture", weights, np.ones((2, 6), bool))
    record = InspectionRecord("captions", (picture, words, MapAxis.from_frames("read", 2)), (each,))
    told = build_payload(record)["axes"]
    assert [(axis["kind"], axis["size"]) for axis in told] == [("grid", "2 x 3"), ("text", "2"), ("frames", "2")]
    assert told[0]["tokens"] == ["0,0", "0,1", "0,2", "1,0", "1,1", "1,2"]
    assert told[2]["tokens"] == ["0", "1"]


def test_a_large_page_stays_small() -> None:
    """144 heads of 128 tokens, as sharp as trained ones."""
    assert len(render_viewer(build_dirichlet_record(12, 12, 128)).encode()) < 1_500_000


def list_code_lines(source: str) -> list[str]:
    """The lines of a module that are not a documentation comment."""
    lines, in_comment = [], False
    for line in source.splitlines():
        begins = in_comment or line.lstrip().startswith("/**")
        in_comment = begins and "*/" not in line
        if not begins or not (in_comment or line.endswith("*/")):
            lines.append(line)
    return lines


def test_pages_leave_out_documentation_comments_and_nothing_else() -> None:
    (imports,) = re.findall(r'<script type="importmap">(.*?)</script>', render_viewer(build_random_record()))
    modules = json.loads(imports)["imports"]
    assert len(modules) == len(list(VIEWER.glob("*.js")))
    for name, address in modules.items():
        module = base64.b64decode(address.partition(",")[2]).decode()
        source = (VIEWER / name.removeprefix("heedful/")).read_text(encoding="utf-8")
        assert module.splitlines() == list_code_lines(source)
        assert len(module) < len(source)
