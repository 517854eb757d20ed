"""`heedful study`: small experiments that demonstrate a claim of a paper."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence

from heedful.bundled import format_items, get_item, list_studies
from heedful.errors import DataError

_HELP = """\
usage: heedful study [NAME [options]]

Run a small experiment that demonstrates a claim of a paper. Without a name, all
experiments are listed; heedful study NAME --help shows the options of one."""


def run(argv: Sequence[str]) -> int:
    """Run `heedful study`: run an experiment, or list all. Return the exit code; if the experiment ends with a message,
    raise `DataError`.
    """
    available = list_studies()
    if not argv:
        print(format_items(available))
        return 0
    name, *options = argv
    if name in ("-h", "--help"):
        print(_HELP)
        return 0
    path = get_item(name.removeprefix("studies/").removesuffix(".py"), available, noun="study").path
    saved_state = sys.argv, sys.path
    # As if Python had been given the file: what it imports from its own folder is found.
    sys.argv, sys.path = [str(path), *options], [str(path.parent), *sys.path]
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as stop:
        if isinstance(stop.code, str):
            raise DataError(stop.code) from None
        raise
    finally:
        sys.argv, sys.path = saved_state
    return 0
