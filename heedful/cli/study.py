"""`heedful study`: small experiments that make a claim of a paper visible."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence

from heedful.errors import DataError
from heedful.shelf import listed, pick, studies

_HELP = """\
usage: heedful study [NAME [options]]

Small experiments that make a claim of a paper visible. Without a name all are listed; the options of one are told by
heedful study NAME --help."""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    known = studies()
    if not arguments:
        print(listed(known))
        return 0
    name, *options = arguments
    if name in ("-h", "--help"):
        print(_HELP)
        return 0
    path = pick(name.removeprefix("studies/").removesuffix(".py"), known, what="study").path
    before = sys.argv, sys.path
    # As if Python had been given the file: what it imports from its own folder is found.
    sys.argv, sys.path = [str(path), *options], [str(path.parent), *sys.path]
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as stop:
        if isinstance(stop.code, str):
            raise DataError(stop.code) from None
        raise
    finally:
        sys.argv, sys.path = before
    return 0
