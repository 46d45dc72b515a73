"""Tools to write the pages of the documentation: tables, blocks between two marks, and the look of pictures."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

DOCS = Path(__file__).resolve().parents[2] / "docs"
INK = "#767d87"  # pictures are transparent: the same contrast, about 4, on white and on a dark page
_COLORED = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
_STYLE: Any = {"font.size": 12, "axes.titlesize": 12, "axes.grid": True, "grid.alpha": 0.25, "legend.frameon": False}
_STYLE |= dict.fromkeys(_COLORED, INK) | dict.fromkeys(("axes.spines.top", "axes.spines.right"), False)
styled: Any = plt.rc_context(_STYLE)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows))


def filled(text: str, mark: str, block: Callable[[str], str]) -> str:
    """A page with every block of a mark written anew, by the name that stands in the mark."""
    marks = re.compile(rf"(<!-- {mark}(?:: ([\w-]+))? -->\n).*?(<!-- end -->)", re.DOTALL)
    return marks.sub(lambda found: f"{found[1]}\n{block(found[2])}\n\n{found[3]}", text)


def save(figure: Any, path: Path) -> None:
    """Writes a picture and closes it."""
    figure.savefig(path, dpi=150, transparent=True)
    plt.close(figure)
