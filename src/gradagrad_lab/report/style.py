"""The look of every picture of the lab: one palette, readable on a phone, on paper, in the dark and with any colour
vision.

A figure hands over a `Picture` whose panels draw into axes. `sheet` puts them on one page. `inline` makes each an SVG
in the page's own CSS variables, so it works in light and dark. pyplot is not used, because it has global state. Every
colour comes from the tables below.
"""

import io
import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from gradagrad_lab.records import write_atomically
from gradagrad_lab.report.content import Picture

PAPER, INK, MUTED, GRID = "#ffffff", "#1d2733", "#5b6775", "#e3e7ec"
_NAMES = {PAPER: "paper", INK: "ink", MUTED: "muted", GRID: "grid"}
DARK_OF = {PAPER: "#161c24", INK: "#e8ecf1", MUTED: "#a3afbd", GRID: "#2c3642"}

# Okabe and Ito's hues, darkened until each has contrast 4.5 on white; the second colour is its twin on dark.
_SERIES: dict[str, tuple[str, str, Any]] = {
    "gradagrad": ("#c2410c", "#ff9357", "-"),
    "gradagrad momentum": ("#8f5b00", "#ffd166", (0, (4, 1))),
    "adagrad": ("#0b63ad", "#6cb6f7", (0, (5, 1.6))),
    "adam": ("#047857", "#46d3a4", (0, (6, 1.5, 1.5, 1.5))),
    "sgd": ("#b3307a", "#f08fc4", (0, (1.6, 1.4))),
    "mechanic": ("#6b4423", "#d9a679", (0, (5, 1.2, 1, 1.2))),
    "autogradagrad": ("#5b21d6", "#b69cff", (0, (9, 1.5))),
    "autogradagrad averaged": ("#5b21d6", "#b69cff", "-"),
    "d-adapt": ("#8a6100", "#e3b341", (0, (3, 1.2))),
    "prodigy": ("#9f1239", "#ff7aa2", (0, (4, 1.2, 1, 1.2, 1, 1.2))),
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
LONGEST_RAMP = len(_RAMP)
_NAMES |= {look[0]: name.replace(" ", "-") for name, look in _SERIES.items()} | {_OTHERS[0]: "others"}
_NAMES |= {light: f"ramp-{place}" for place, (light, _) in enumerate(_RAMP, start=1)}
DARK_OF |= {light: dark for light, dark, _ in (*_SERIES.values(), _OTHERS)} | dict(_RAMP)

# Inches. At these widths 10-point text is shown at about 14 px on a desktop and 12 px on a phone.
WIDE, NARROW = 8.6, 4.1

_SETTINGS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # shipped with matplotlib: the same picture on every machine
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    **dict.fromkeys(("text.color", "axes.titlecolor"), INK),
    **dict.fromkeys(("axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), MUTED),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 9),
    **dict.fromkeys(("ytick.major.size", "xtick.minor.size", "ytick.minor.size"), 0),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "axes.spines.left"), False),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), PAPER),
    **dict.fromkeys(("axes.linewidth", "grid.linewidth"), 0.8),
    "xtick.major.size": 3,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "lines.linewidth": 1.9,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "svg.fonttype": "path",  # glyphs travel with the picture
    "svg.hashsalt": "gradagrad",  # the same picture gives the same bytes
    "figure.constrained_layout.use": True,
}


def colour(name: str) -> str:
    """The colour of an optimizer; a variant ("gradagrad rho=4", "GradaGrad (scalar)") has that of its family."""
    return _look(name)[0]


def line(name: str) -> dict[str, Any]:
    """Colour and dashes of an optimizer as keyword arguments of ``plot``, because not everyone sees the colours."""
    shade, _, dashes = _look(name)
    return {"color": shade, "linestyle": dashes, "linewidth": 2.3 if "gradagrad" in name.lower() else 1.4}


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


def css_variables(dark: bool = False) -> str:
    """The palette for a style sheet: ``--gradagrad: #c2410c; …``."""
    return " ".join(f"--{name}: {DARK_OF[light] if dark else light};" for light, name in _NAMES.items())


def sheet(picture: Picture) -> Figure:
    """All panels of a picture on one page, under one legend."""
    columns = min(picture.columns, len(picture.panels))
    rows = -(-len(picture.panels) // columns)
    width, height = picture.size
    figure, grid = subplots(rows, columns, width=max(width * columns, 4.1), height=height * rows + 0.6)
    with use():
        places = list(grid.flat)
        for axes, panel in zip(places, picture.panels, strict=False):
            panel.draw(axes)
            if panel.title:
                axes.set_title(textwrap.fill(panel.title, int(11 * width)), fontsize=10.5 if width > 2.2 else 8)
        for axes in places[len(picture.panels) :]:
            axes.set_visible(False)
        handles, labels = places[0].get_legend_handles_labels()
        if labels:
            across = max(1, min(len(labels), int(width * columns / 1.7)))
            figure.legend(handles, labels, loc="outside upper left", ncols=across)
    return figure


@dataclass(frozen=True)
class Inline:
    """A picture for the page: an SVG per panel, the legend, and the numbers behind the labelled lines."""

    panels: list[tuple[str, str]]
    """Title, which the page sets so that it can wrap, and SVG."""
    legend: list[tuple[str, str]]
    """For each entry a small SVG and its words."""
    numbers: list[tuple[str, str, float, float]]
    """Panel, line, x, y."""


def inline(picture: Picture) -> Inline:
    """The picture's panels, drawn for a page that sets the colours."""
    drawn: list[tuple[str, str]] = []
    legend: list[tuple[str, str]] = []
    numbers: list[tuple[str, str, float, float]] = []
    for place, panel in enumerate(picture.panels):
        width, height = picture.size
        with mpl.rc_context({**_SETTINGS, "svg.fonttype": "none", "svg.hashsalt": f"{picture.stem}-{place}"}):
            figure = Figure(figsize=(width, height))
            axes: Axes = figure.subplots()
            panel.draw(axes)
            buffer = io.StringIO()
            figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        drawn.append((panel.title, _for_page(buffer.getvalue())))
        if place == 0:
            legend = [(_sample(handle), label) for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)]
        for line in axes.get_lines():
            label = str(line.get_label())
            x, y = np.asarray(line.get_xdata(), dtype=float), np.asarray(line.get_ydata(), dtype=float)
            if not label.startswith("_"):
                numbers += [(panel.title, label, float(a), float(b)) for a, b in zip(x, y, strict=True)]
    return Inline(drawn, legend, numbers)


_IDLE = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->|\s+(?=<)", re.DOTALL)
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_LONG = re.compile(r"(\d+\.\d)\d+")


def _for_page(svg: str) -> str:
    """An SVG as part of a page: sized by its box, coloured by variables, in the page's font, without idle digits."""
    svg = _IDLE.sub("", svg)
    used = set(re.findall(r"#([\w-]+)[\")]", svg))
    svg = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", svg)
    svg = re.sub(r'(<svg [^>]*?)width="[^"]*"([^>]*?)height="[^"]*"', r'\1\2aria-hidden="true"', svg, count=1)
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"| version="1.1"', "", svg)
    svg = re.sub(r"font-family: [^;\"]*;? ?| transform=\"rotate\(-0 [^\"]*\"|<g/>", "", svg)
    svg = re.sub(r"\s*\n\s*([A-Za-z])", r"\1", svg)
    svg = re.sub(r"<[^>]*>", lambda tag: _LONG.sub(r"\1", tag[0]), svg)  # in tags alone: a label keeps its digits
    return _COLOUR.sub(lambda found: f"var(--{_NAMES[found[0]]})" if found[0] in _NAMES else found[0], svg)


_SIGNS = {"o": "●○", "v": "▼▽", "s": "■□", "D": "◆◇", "P": "✚✚", "|": "❙❙", "^": "▲△"}  # filled, open


def _sample(handle: Any) -> str:
    """The sample before an entry of the legend: a stroke of the line, or its marker."""
    shade = f"var(--{_NAMES.get(str(handle.get_color()), 'ink')})"
    sign, line = str(handle.get_marker()), str(handle.get_linestyle())
    if line in ("None", "none", ""):
        is_open = str(handle.get_markerfacecolor()) in ("none", PAPER)
        return f'<span style="color:{shade}">{_SIGNS.get(sign, "●○")[is_open]}</span>'
    _, pattern = getattr(handle, "_unscaled_dash_pattern", (0, None))
    dashes = " ".join(f"{2 * part:g}" for part in pattern or ())
    return (
        '<svg viewBox="0 0 30 8" width="30" height="8" aria-hidden="true"><path d="M1 4H29" fill="none" '
        f'style="stroke:{shade}" stroke-width="{1.2 * handle.get_linewidth():.2g}" stroke-dasharray="{dashes}"/></svg>'
    )


def save(figure: Figure, folder: Path, stem: str) -> list[Path]:
    """Write ``<folder>/<stem>.png`` and ``.svg``, each complete or absent."""
    paths = [folder / f"{stem}.{kind}" for kind in ("png", "svg")]
    for path in paths:
        write_atomically(path, render(figure, path.suffix[1:]))
    return paths


def render(figure: Figure, kind: str, dpi: int = 180) -> bytes:
    """The picture as the bytes of a file, the same bytes every time."""
    stamp = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    buffer = io.BytesIO()
    with use():
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=stamp)
    return buffer.getvalue()
