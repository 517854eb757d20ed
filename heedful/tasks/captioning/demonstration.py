"""`heedful quickstart captioning`: train a small model to describe pictures of coloured shapes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, final

from heedful.errors import RecipeError
from heedful.recipes.toml import format_value
from heedful.tasks.demonstration import Demonstration, print_command, print_now, write_files

if TYPE_CHECKING:
    from heedful.tasks.captioning.predictor import Captioner

_RECIPE = """\
# Written by: heedful quickstart captioning. Go on with it: heedful train {recipe} --training.steps 2000

task = "captioning"
seed = {seed}
output = {run}

[data]
train = {{ path = "train.json", pictures = "pictures" }}
validation = {{ path = "validation.json", pictures = "pictures" }}
test = {{ path = "test.json", pictures = "pictures" }}
picture_size = 48

[model]
d_model = 128
pictures = {{ kind = "convolutional", widths = [32, 64] }}
decoder = {{ kind = "recurrent", start = "mlp", readout = "maxout", reading = {{ gate = true }} }}

[training]
steps = {steps}
batch_tokens = 800
schedule = {{ kind = "cosine", rate = 3e-3, warmup = 100 }}
clip = 1.0
label_smoothing = 0.0
evaluate_every = 300

[generation]
kind = "greedy"
"""
_SHOWN = 6


@final
@dataclass(frozen=True, kw_only=True)
class CaptioningDemonstration(Demonstration):
    """Train a small network and an attention decoder on pictures of coloured shapes, and show where it looks.

    Nothing is downloaded: the pictures are generated; reading them needs heedful[pictures].
    """

    output: Path = Path("runs/quickstart-captioning")
    """folder for the pictures, the recipe and the run"""
    steps: int = 1000
    """updates; about three minutes on two cores"""
    size: int = 6000
    """pictures to learn from"""
    objects: tuple[int, ...] = (1, 2)
    """how many shapes pictures may have, from 1 to 9; three and four need more updates"""

    def write_recipe(self) -> Path:
        """Write the pictures, COCO files with captions and boxes, and the recipe; return the recipe's path."""
        from heedful.data.pictures import import_pillow
        from heedful.tasks.captioning.scenes import build_coco_files, generate_scenes

        if not self.objects or not all(1 <= count <= 9 for count in self.objects):
            raise RecipeError(f"--objects: {' '.join(map(str, self.objects))}; give numbers from 1 to 9")
        if self.size < 1:
            raise RecipeError(f"--size: {self.size}; must be at least 1")
        import_pillow()
        recipe = self.output / "recipe.toml"
        files: dict[str, str | bytes] = {}
        for part, count in (("train", self.size), ("validation", min(self.size, 300)), ("test", min(self.size, 500))):
            picture_files, coco_json = build_coco_files(
                generate_scenes(part, count, objects=self.objects, seed=self.seed), stem=part
            )
            files |= {f"pictures/{name}": content for name, content in picture_files.items()} | {
                f"{part}.json": coco_json
            }
        run = format_value(str(self.output / "run"))
        content = _RECIPE.format(recipe=quote(str(recipe)), run=run, seed=self.seed, steps=self.steps)
        write_files(self.output, {**files, recipe.name: content})
        print_now(f"{self.size:,} pictures of shapes, such as {self.output / 'pictures/train00000.png'}\n")
        return recipe

    def show_results(self, predictor: Captioner, run_folder: Path) -> None:
        """Print scores and some captions, and write a page that shows where the model looked."""
        from heedful.inspection.page import write_page
        from heedful.tasks.caption_page import build_caption_page
        from heedful.tasks.captioning.data import CocoCaptions
        from heedful.tasks.captioning.evaluation import build_caption_evaluator

        test, train = (
            list(CocoCaptions(self.output / f"{part}.json", pictures=self.output / "pictures"))
            for part in ("test", "train")
        )
        evaluator = build_caption_evaluator(test, train=train)
        outputs = evaluator.predict_labels(predictor)
        metrics = evaluator.compute_metrics(outputs)
        print_now(f"\n{len(test)} pictures whose captions were never in the training part:")
        print_now(f"  exact match {metrics['exact match'].value:.1f} %   CIDEr-D {metrics['CIDEr-D'].value:.2f}")
        print_now(f"  looked at what it named: {metrics['pointing'].value:.1f} % of the time\n")
        for example, text in list(zip(test, outputs.texts, strict=True))[:_SHOWN]:
            verdict = "" if text in example.captions else f"   (should be: {example.captions[0]})"
            print_now(f"  {example.picture.name}  {text}{verdict}")
        page, names = run_folder.parent / "captions.html", [str(example.picture) for example in test[:_SHOWN]]
        write_page(build_caption_page(predictor, names), page)
        print_now(f"\nwhat it looked at, word by word: {page}  (open it in a browser)\n\nwhere to go next")
        print_command("caption", run_folder, names[0], "--page", "page.html")
        print_command("evaluate", run_folder)
        print_now("  heedful train RECIPE    with a recipe for your own pictures; begin with a copy of")
        print_now(f"                          {run_folder.parent / 'recipe.toml'}")
