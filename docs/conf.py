"""How Sphinx makes the documentation: `make docs`; nothing is fetched from a network."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # what is beside this file

import api_pages
import recipe_pages
from sphinx.application import Sphinx

from heedful import __version__

project = "heedful"
author = "the heedful authors"
copyright = "2026, the heedful authors"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "api_links"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
nitpicky = True
default_role = "py:obj"  # what stands between single backticks in a docstring

autodoc_default_options = {"members": True, "exclude-members": "model_config"}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # api_links shows annotations as they are written
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_attr_annotations = False
add_module_names = False
toc_object_entries = False  # each page copies the whole tree of contents, which took most of the time

html_theme = "furo"
html_title = f"heedful {release}"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["static"]
html_js_files = ["recipes.js"]
html_css_files = ["pages.css"]
html_use_index = False  # of thousands of names; the search finds them

# autodoc rewrites annotations of BaseModel, after which pydantic makes no class that allows further fields.
for documented in (module for page in api_pages.rooms(api_pages.modules()).values() for module in page):
    import_module(documented.full)
api_pages.write()
RECIPES = recipe_pages.write()


def setup(app: Sphinx) -> None:
    """The page of recipes ends with the table of all."""

    def read(app: Sphinx, name: str, source: list[str]) -> None:
        if name == "recipes":
            source[0] += f"\n{RECIPES}"

    app.connect("source-read", read)
    app.connect("env-get-outdated", lambda *_: ["recipes"])  # what it is made of is no file that Sphinx knows
