"""Makes the pictures of docs/gallery.md that need no trained model: made-up weights, and unrolled recipes.

    python docs/gallery_views.py

They go to docs/images/gallery.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from heedful.inspection.figures import draw_figure

HERE = Path(__file__).parent
IMAGES = HERE / "images" / "gallery"
VIEWS = {"chain": "build_chain_record", "turns": "build_dialogue_record"}
UNROLLED = {"luong": "recipes/road/luong.toml", "transformer": "recipes/multi30k-en-de.toml"}
SIZE = ("--tokenizer.size", "10000")


def main() -> None:
    """Draws everything."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    import view_records

    IMAGES.mkdir(parents=True, exist_ok=True)
    for view, make in VIEWS.items():
        (IMAGES / f"{view}.svg").write_text(draw_figure(getattr(view_records, make)(), view=view), encoding="utf-8")
    for name, recipe in UNROLLED.items():
        picture = IMAGES / f"unrolled-{name}.svg"
        command = (sys.executable, "-m", "heedful", "describe", HERE.parent / recipe, *SIZE, "--figure", picture)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
