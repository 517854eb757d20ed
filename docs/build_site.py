"""Build the documentation of this version beside that of others: FOLDER/VERSION, FOLDER/stable, and a list of versions.

    python docs/build_site.py docs/_build/site

Other versions in the folder are left as they are; only the list, which every page shows, is written again. `stable` is
a link to the newest. To add an older version, check it out and call its `make site` with the same folder.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
SCRIPT = """\
const VERSIONS = %s;
const root = new URL(".", document.currentScript.src).href;
document.addEventListener("DOMContentLoaded", () => {
  const brand = document.querySelector(".sidebar-brand");
  if (!brand) return;
  const list = document.createElement("nav");
  list.className = "versions";
  list.setAttribute("aria-label", "Versions");
  list.append("Versions: ");
  for (const version of VERSIONS) {
    const link = document.createElement("a");
    link.href = `${root}${version}/index.html`;
    link.textContent = version;
    if (location.href.startsWith(`${root}${version}/`)) link.setAttribute("aria-current", "true");
    list.append(link, " ");
  }
  brand.after(list);
});
"""
"""Script of the list of versions; it works from a disk too, where pages may not fetch files."""
PAGE = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>heedful: documentation</title>
<meta http-equiv="refresh" content="0; url=stable/index.html"></head>
<body><p>Documentation of heedful: <a href="stable/index.html">stable</a>, %s</p></body></html>
"""


def list_versions(site: Path) -> list[str]:
    """Return the versions in a folder, the newest first."""
    names = [path.name for path in site.iterdir() if re.fullmatch(r"\d+(\.\d+)*", path.name) and path.is_dir()]
    return sorted(names, key=lambda name: tuple(map(int, name.split("."))), reverse=True)


def write_versions(site: Path) -> list[str]:
    """Write the list of versions and the first page, link `stable` to the newest version, and return the versions."""
    versions = list_versions(site)
    (site / "versions.js").write_text(SCRIPT % json.dumps(versions), encoding="utf-8")
    links = ", ".join(f'<a href="{version}/index.html">{version}</a>' for version in versions)
    (site / "index.html").write_text(PAGE % links, encoding="utf-8")
    stable = site / "stable"
    stable.unlink(missing_ok=True)
    stable.symlink_to(versions[0], target_is_directory=True)
    return versions


def build_version(site: Path) -> None:
    """Build the documentation of this checkout into the folder of its version.

    Raises:
        CalledProcessError: Sphinx failed, or warns of something.
    """
    sys.path.insert(0, str(DOCS.parent))
    from heedful import __version__

    with tempfile.TemporaryDirectory() as folder:
        script = "html_js_files=recipes.js,../../versions.js"  # relative to the folder of static files
        options = ["-W", "--keep-going", "--quiet", "-b", "html", "-D", script]
        subprocess.run([sys.executable, "-m", "sphinx", *options, DOCS, folder], check=True)
        site.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(site / __version__, ignore_errors=True)
        shutil.copytree(folder, site / __version__, ignore=shutil.ignore_patterns(".doctrees", ".buildinfo"))


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else DOCS / "_build" / "site")
    build_version(target)
    print(f"{target}: {', '.join(write_versions(target))}")
