"""The scripts that make a release: what they compare, refuse and write, and the files that name them."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
APART = {"aim", "all", "audit", "dev", "docs", "mlflow", "native", "ray", "wandb"}
"""Extras that `all` leaves out."""


def load_script(path: str) -> ModuleType:
    """Load a script of the checkout as a module."""
    name = f"script_{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


release = load_script(".ci/release.py")
installed = load_script(".ci/installed.py")
lowest = load_script(".ci/lowest.py")
software = load_script(".ci/software.py")
build_wheels = load_script("native/build_wheels.py")
build_site = load_script("docs/build_site.py")


def write_wheel(path: Path, *names: str, year: int = 2026, mode: int = 0o644, text: str = "same") -> Path:
    """Write a wheel whose files have a time and a mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as wheel:
        for name in names:
            info = zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0))
            info.external_attr = mode << 16
            wheel.writestr(info, text)
    return path


def test_equal_builds_are_accepted(tmp_path: Path) -> None:
    for build in "ab":
        write_wheel(tmp_path / build / "x.whl", "one", "two")
    assert release.compare_builds(tmp_path / "a", tmp_path / "b") == ["x.whl"]


@pytest.mark.parametrize(
    ("changed", "told"), [({"text": "other"}, "one"), ({"year": 2025}, "2025"), ({"mode": 0o600}, "0o600")]
)
def test_different_builds_are_refused_with_the_first_difference(
    tmp_path: Path, changed: dict[str, Any], told: str
) -> None:
    write_wheel(tmp_path / "a" / "x.whl", "one", "two")
    write_wheel(tmp_path / "b" / "x.whl", "one", "two", **changed)
    with pytest.raises(release.ReleaseError, match=r"x\.whl.*differ") as caught:
        release.compare_builds(tmp_path / "a", tmp_path / "b")
    assert told in str(caught.value)


def test_a_missing_file_is_a_difference(tmp_path: Path) -> None:
    for build, name in (("a", "x.whl"), ("b", "x.whl"), ("b", "y.whl")):
        write_wheel(tmp_path / build / name, "one")
    with pytest.raises(release.ReleaseError, match=r"y\.whl"):
        release.compare_builds(tmp_path / "a", tmp_path / "b")


def test_sums_are_those_of_sha256sum_and_are_checked(tmp_path: Path) -> None:
    for name in ("b.whl", "a.tar.gz"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    release.write_sums(tmp_path)
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=tmp_path, check=True)
    installed.check_sums(tmp_path)
    (tmp_path / "extra").touch()
    with pytest.raises(installed.CheckError, match="extra"):
        installed.check_sums(tmp_path)
    (tmp_path / "extra").unlink()
    (tmp_path / "b.whl").write_text("changed", encoding="utf-8")
    with pytest.raises(installed.CheckError, match=r"b\.whl"):
        installed.check_sums(tmp_path)


def test_a_release_is_made_of_a_commit_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "ROOT", tmp_path)
    with pytest.raises(release.ReleaseError, match="clone"):
        release.read_commit()
    file = tmp_path / "code.py"
    file.write_text("1", encoding="utf-8")
    person = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    moment = {"GIT_COMMITTER_DATE": "1700000000 +0900", **os.environ}
    for words in (("init", "-q"), ("add", "."), (*person, "commit", "-q", "-m", "Add code")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, env=moment)
    assert release.read_commit()[1] == 1700000000
    (tmp_path / "untracked").touch()
    release.read_commit()
    file.write_text("2", encoding="utf-8")
    with pytest.raises(release.ReleaseError, match=r"code\.py.*not committed"):
        release.read_commit()


def test_wheels_of_native_code_do_not_depend_on_order_time_and_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    first = write_wheel(tmp_path / "first.whl", "a.py", "library.so", year=2001, mode=0o600)
    second = write_wheel(tmp_path / "second.whl", "library.so", "a.py", year=2020, mode=0o644)
    for path in (first, second):
        build_wheels.copy_sorted(path, path.with_suffix(".copy"))
    assert first.with_suffix(".copy").read_bytes() == second.with_suffix(".copy").read_bytes()
    with zipfile.ZipFile(first.with_suffix(".copy")) as copy:
        assert [(info.filename, info.external_attr >> 16, info.date_time[0]) for info in copy.infolist()] == [
            ("a.py", 0o100644, 2023),
            ("library.so", 0o100755, 2023),
        ]
        assert copy.read("a.py") == b"same"


def list_bounds() -> dict[str, str]:
    """Return the lower bound of each package that heedful and its extras need."""
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *(line for extra in extras.keys() - APART for line in extras[extra])]
    found = [re.match(r"([\w.-]+)>=([\w.]+)", line) for line in lines]
    return {lowest.get_plain_name(match[1]): match[2] for match in found if match}


@pytest.mark.parametrize(("name", "bound"), sorted(list_bounds().items()))
def test_the_lowest_constraints_are_the_promised_bounds(name: str, bound: str) -> None:
    version = lowest.read_constraints(ROOT / "constraints-lowest.txt")[name].split("==")[1]
    trim = re.compile(r"(\.0)+$")  # 2 and 2.0.0 are the same version
    assert trim.sub("", version) == trim.sub("", bound), (
        f"write {name}=={bound} into constraints-lowest.txt and run make lowest"
    )


def test_lowest_versions_come_first_and_some_may_be_kept() -> None:
    low, new = {"a": "a==1", "b": "b==1"}, {"a": "A==2", "b": "b==2", "c": "c==2"}
    assert lowest.merge_constraints(low, new) == ["a==1", "b==1", "c==2"]
    assert lowest.merge_constraints(low, new, {"a"}) == ["A==2", "b==1", "c==2"]


def test_names_of_constraints_are_compared_in_plain_form(tmp_path: Path) -> None:
    path = tmp_path / "c.txt"
    path.write_text("# a comment\nHugging_Face.Hub==1  # why\n\n", encoding="utf-8")
    assert lowest.read_constraints(path) == {"hugging-face-hub": "Hugging_Face.Hub==1"}


def test_the_extra_all_names_all_extras_but_those_apart() -> None:
    named = {name for line in PROJECT["optional-dependencies"]["all"] for name in re.split(r"[\[\],]", line)[1:-1]}
    assert named == PROJECT["optional-dependencies"].keys() - APART


@pytest.mark.parametrize(
    ("licences", "problem"),
    [
        ([{"expression": "MIT"}], False),
        ([{"expression": "MPL-2.0 AND (MIT OR GPL-3.0-only)"}], False),
        ([{"expression": "MIT AND GPL-3.0-only"}], True),
        ([{"expression": "Apache-2.0 WITH LLVM-exception"}], False),
        ([{"license": {"id": "AGPL-3.0-only"}}], True),
        ([{"license": {"name": "Apache License, Version 2.0"}}], False),
        ([{"license": {"name": "License :: OSI Approved :: MIT License"}}], False),
        ([{"license": {"name": "as is"}}], True),
        ([], True),
    ],
)
def test_unknown_licences_are_found(licences: list[Any], problem: bool) -> None:
    bill = {"components": [{"name": "thing", "version": "1", "licenses": licences}]}
    assert [line.split(":")[0] for line in software.find_licence_problems(bill)] == ["thing 1"] * problem


def test_a_list_of_software_is_valid_and_names_no_path(tmp_path: Path) -> None:
    pytest.importorskip("cyclonedx_py")
    bill = software.write_bill(Path(sys.executable), tmp_path / "bill.json")
    text = (tmp_path / "bill.json").read_text(encoding="utf-8")
    assert bill["metadata"]["component"]["name"] == "heedful"
    assert "torch" in {each["name"] for each in bill["components"]}
    assert "file://" not in text
    assert str(ROOT) not in text
    software.write_bill(Path(sys.executable), tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text(encoding="utf-8") == text


def test_the_newest_version_of_the_documentation_is_stable(tmp_path: Path) -> None:
    for name in ("0.9.0", "0.10.0", "0.2.0", "_static", "0.11.0rc1"):
        (tmp_path / name).mkdir()
    assert build_site.write_versions(tmp_path) == ["0.10.0", "0.9.0", "0.2.0"]
    assert (tmp_path / "stable").readlink() == Path("0.10.0")
    assert 'VERSIONS = ["0.10.0", "0.9.0", "0.2.0"]' in (tmp_path / "versions.js").read_text(encoding="utf-8")
    assert 'href="0.9.0/index.html"' in (tmp_path / "index.html").read_text(encoding="utf-8")
    (tmp_path / "1.0").mkdir()
    build_site.write_versions(tmp_path)
    assert (tmp_path / "stable").readlink() == Path("1.0")


def test_the_workflow_calls_what_exists_with_few_permissions() -> None:
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    jobs = workflow["jobs"].values()
    assert all("permissions" not in job and job["timeout-minutes"] <= 180 for job in jobs)
    steps = [step for job in jobs for step in job["steps"]]
    used = [step["uses"] for step in steps if "uses" in step]
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name) for name in used), used
    commands = [line.strip() for step in steps for line in step.get("run", "").splitlines()]
    assert ".ci/run" in commands
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert all((ROOT / name).exists() for name in re.findall(r"-c (\S+\.txt)", " ".join(commands)))


def test_the_container_copies_what_exists_and_runs_without_rights() -> None:
    lines = (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines()
    copied = [
        name for line in lines if line.startswith("COPY ") and "--from" not in line for name in line.split()[1:-1]
    ]
    assert copied
    assert all((ROOT / name).exists() for name in copied), copied
    assert not any(name.split("/")[0] in {".git", ".venv", "."} for name in copied)
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users
    assert users[-1] not in {"root", "0"}
    assert any(line.startswith("HEALTHCHECK") for line in lines)


def test_versions_agree() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)", changelog, re.MULTILINE)
    version = re.search(r'"(.+)"', (ROOT / "heedful" / "version.py").read_text(encoding="utf-8").split("=")[1])
    native = tomllib.loads((ROOT / "native" / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert newest is not None
    assert version is not None
    assert newest[1] in {version[1], "Unreleased"}
    assert native == version[1]
    minor = ".".join(version[1].split(".")[:2])
    assert f"| {minor} | yes |" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
