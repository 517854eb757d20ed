"""Run campaigns: `make campaigns ARGS="--kinds kills errors --minutes 10 --seed 2"`, or `--table` for their figures."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from campaigns.framework import format_table, read_figures
from campaigns.kinds import KINDS


def main() -> int:
    """Run the chosen campaigns; return 1 if an attempt failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--minutes", type=float, default=5.0, help="for each kind (default: 5)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of all choices (default: the time)")
    parser.add_argument("--attempts", type=int, help="largest number of attempts of each kind")
    parser.add_argument("--folder", type=Path, default=Path("build/campaigns"), help="for figures and failures")
    parser.add_argument("--table", action="store_true", help="print the figures of the folder as a table, and exit")
    options = parser.parse_args()
    summaries = {name: kind.summary for name, kind in KINDS.items()}
    failures = 0
    for name in () if options.table else options.kinds:
        figures = KINDS[name](options.folder, limit=options.attempts).run(options.minutes, options.seed)
        failures += len(figures.failures)
        print(f"{name}: {figures.attempts:,} attempts, {len(figures.failures)} failures, {dict(figures.outcomes)}")
    print(format_table(list(read_figures(options.folder)), summaries))
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
