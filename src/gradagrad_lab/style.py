"""How every picture of the lab looks: one palette, readable on a phone, on paper, on dark and with any colour vision.

Draw inside ``with style.use():``, make the figure with `subplots`, write it with `save`. No pyplot, hence no global
state: several threads may draw. Every colour comes from the tables below, so that `darken` can turn a finished SVG into
its dark twin by exchanging colours.
"""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from gradagrad_lab.records import write_atomically

PAPER, INK, MUTED, GRID = "#ffffff", "#1d2733", "#5b6775", "#e3e7ec"
_DARK_OF = {PAPER: "#161c24", INK: "#e8ecf1", MUTED: "#a3afbd", GRID: "#2c3642"}

# Okabe and Ito's hues, darkened until each has contrast 4.5 on white; the second colour is its twin on dark.
_SERIES: dict[str, tuple[str, str, Any]] = {
    "gradagrad": ("#c2410c", "#ff9357", "-"),
    "adagrad": ("#0b63ad", "#6cb6f7", (0, (5, 1.6))),
    "adam": ("#047857", "#46d3a4", (0, (6, 1.5, 1.5, 1.5))),
    "sgd": ("#8a4a9c", "#d3a0e4", (0, (1.6, 1.4))),
    "autogradagrad": ("#9f1239", "#ff8fab", (0, (9, 1.5))),
    "d-adapt": ("#8a6100", "#e3b341", (0, (3, 1.2))),
    "prodigy": ("#3f51c5", "#a3b1ff", (0, (4, 1.2, 1, 1.2, 1, 1.2))),
    "dog": ("#5c6b00", "#bccf52", (0, (2, 1.2))),
    "cocob": ("#0e7490", "#67d3ea", (0, (7, 2))),
    "schedule-free": ("#a3326b", "#f595c2", (0, (3, 1.2, 1, 1.2))),
}
_OTHERS = ("#4a5563", "#b4bfcc", (0, (2.5, 1.5)))

# For ordered families, such as γ₀ from 1 down to 1e-12: lightness falls steadily on white and rises on dark.
_RAMP = (
    ("#c2570c", "#fde08a"),
    ("#c23a3a", "#fdbb63"),
    ("#b02573", "#fb9077"),
    ("#8f1d97", "#ee7bb0"),
    ("#6722a3", "#d089e6"),
    ("#3d2a9a", "#a99bf5"),
    ("#14206b", "#86b3fb"),
)
_DARK_OF |= {light: dark for light, dark, _ in (*_SERIES.values(), _OTHERS)} | dict(_RAMP)

# Inches. At these widths 10-point text is shown at about 14 px on a desktop and 12 px on a phone.
WIDE, NARROW = 8.6, 4.1

_SETTINGS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # shipped with matplotlib: the same picture on every machine
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.labelsize": 10,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.9,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "svg.fonttype": "path",  # glyphs travel with the picture
    "svg.hashsalt": "gradagrad",  # the same picture gives the same bytes
    "figure.constrained_layout.use": True,
}


class HasFolder(Protocol):
    """All that `save` needs to know of a `gradagrad_lab.context.Context`."""

    @property
    def out(self) -> Path: ...


def colour(name: str) -> str:
    """The colour of an optimizer; a variant ("gradagrad rho=4", "GradaGrad (scalar)") has that of its family."""
    return _look(name)[0]


def line(name: str) -> dict[str, Any]:
    """Colour and dashes of an optimizer as keyword arguments of ``plot``: two signs, as not everyone sees the first."""
    shade, _, dashes = _look(name)
    return {"color": shade, "linestyle": dashes, "linewidth": 2.4 if name.lower().startswith("gradagrad") else 1.7}


def _look(name: str) -> tuple[str, str, Any]:
    key = name.lower().replace("_", "-").replace("schedulefree", "schedule-free").replace("dadapt", "d-adapt")
    families = sorted(_SERIES, key=len, reverse=True)
    return next((_SERIES[family] for family in families if key.startswith(family)), _OTHERS)


def ramp(count: int) -> list[str]:
    """``count`` colours for an ordered family, first to last."""
    if not 1 <= count <= len(_RAMP):
        raise ValueError(f"a ramp has 1 to {len(_RAMP)} colours, got {count}; split the family over two panels.")
    return [_RAMP[round(position)][0] for position in np.linspace(0, len(_RAMP) - 1, count)]


@contextmanager
def use() -> Iterator[None]:
    """Matplotlib's defaults for everything drawn inside."""
    with mpl.rc_context(_SETTINGS):
        yield


def subplots(rows: int = 1, columns: int = 1, *, width: float = WIDE, height: float = 3.6, **options: Any) -> Any:
    """Figure and axes (always a 2-D array), without pyplot."""
    with use():
        figure = Figure(figsize=(width, height))
        return figure, figure.subplots(rows, columns, squeeze=False, **options)


def note(axes: Axes, text: str, at: tuple[float, float], *, shade: str = INK, **options: Any) -> None:
    """A label beside a curve, on a patch of the background so that lines may pass beneath it."""
    patch = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.85, "boxstyle": "square,pad=0.1"}
    axes.annotate(text, at, color=shade, fontsize=options.pop("fontsize", 9.5), bbox=patch, **options)


def power(value: float) -> str:
    """A learning rate as people write it: 0.1, 1e-4, 1e-12."""
    if 1e-3 <= value < 1e4:
        return f"{value:g}"
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def band(axes: Axes, x: ArrayLike, low: ArrayLike, high: ArrayLike, shade: str) -> None:
    """The range of a curve (two standard errors, say) in its own colour."""
    axes.fill_between(x, low, high, color=shade, alpha=0.18, linewidth=0)


def save(figure: Figure, context: HasFolder, stem: str, *, narrow: Figure | None = None) -> None:
    """Write ``<out>/figures/<stem>.png`` and ``.svg``, and ``narrow``, a layout for phones, as ``<stem>-narrow``.

    Each file is complete or absent: it is written under a temporary name, then renamed.
    """
    for name, drawing in ((stem, figure), (f"{stem}-narrow", narrow)):
        if drawing is None:
            continue
        for kind in ("png", "svg"):
            write_atomically(context.out / "figures" / f"{name}.{kind}", render(drawing, kind))


def render(figure: Figure, kind: str, dpi: int = 180) -> bytes:
    """The picture as the bytes of a file, the same bytes every time."""
    stamp = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    buffer = io.BytesIO()
    with use():
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=stamp)
    return buffer.getvalue()


def darken(svg: str) -> str:
    """The dark twin of an SVG drawn in this style; colours that are not of this style stay."""
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: _DARK_OF.get(found[0], found[0]), svg)
