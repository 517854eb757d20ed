"""`heedful lecture`: train the models of the lecture decks, and write the site that shows what they do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from heedful.cli.arguments import OutputPath, require_minimum
from heedful.cli.output import log
from heedful.errors import MissingExtraError, RecipeError


@dataclass(frozen=True)
class LectureArguments:
    """Train the small models of five lectures about attention on generated data, and write a site that shows each
    figure of their slides as what these models really do.

    The site goes through the slides in their order. It needs no network: open index.html in a browser. The same command
    continues an interrupted training and keeps what is trained.
    """

    output: OutputPath = Path("runs/lecture")
    """folder for the site, the data, the recipes and the runs"""
    deck: int | None = None
    """number of one deck, from 0; all if not given"""
    jobs: int | None = None
    """number of models that are trained at a time; one for each processor core if not given"""

    def execute(self) -> int:
        """Run the command; return the exit code."""
        from heedful.lecture.contents import NUM_DECKS, list_figures, load_deck
        from heedful.lecture.figures import FIGURES, LectureRuns
        from heedful.lecture.models import select_models
        from heedful.lecture.site import write_site
        from heedful.lecture.slides import write_slides
        from heedful.lecture.training import train_models
        from heedful.retrieval.bm25 import import_bm25s

        require_minimum(self, jobs=1)
        if self.deck is not None and not 0 <= self.deck < NUM_DECKS:
            raise RecipeError(f"--deck: {self.deck}; there are decks 0 to {NUM_DECKS - 1}")
        decks = [load_deck(number) for number in (range(NUM_DECKS) if self.deck is None else [self.deck])]
        names = list_figures(decks)
        models = select_models(model for name in names for model in FIGURES[name].models)
        if any(model.name == "search" for model in models):
            import_bm25s()  # now, and not when the models are trained
        train_models(models, self.output, jobs=self.jobs, log=log)
        runs, figures = LectureRuns(self.output), {}
        for number, name in enumerate(names, 1):
            log(f"figure {number} of {len(names)}: {FIGURES[name].title}")
            figures[name] = FIGURES[name].draw(runs)
        write_site(decks, figures, models, self.output, log=log)
        try:
            write_slides(decks, figures, self.output / "slides.pptx")
            log(f"written: {self.output / 'slides.pptx'}")
        except MissingExtraError as error:
            log(f"no presentation: {error}")
        log(f"written: {self.output / 'index.html'}  (open it in a browser)")
        return 0
