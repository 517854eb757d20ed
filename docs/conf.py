"""How Sphinx makes the documentation: `make docs`; nothing is fetched from a network."""

from __future__ import annotations

from heedful import __version__

project = "heedful"
author = "the heedful authors"
copyright = "2026, the heedful authors"
release = version = __version__

extensions = ["myst_parser"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
nitpicky = True

html_theme = "furo"
html_title = f"heedful {release}"
html_copy_source = False
html_show_sphinx = False
