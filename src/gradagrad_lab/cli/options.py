"""Options that several commands share, and how values are read."""

import ast
from pathlib import Path
from typing import Annotated, Any

import typer

from gradagrad_lab.errors import USAGE, UserError

DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder with local copies of the data sets; default: the environment variable GRADAGRAD_DATA."),
]
Out = Annotated[Path, typer.Option(help="Folder for records, figures and the report; made if missing.")]
Seeds = Annotated[int | None, typer.Option(min=1, max=1000, help="Number of random seeds.")]
FirstSeed = Annotated[
    int | None, typer.Option(min=0, max=1_000_000, help="The first seed, for other runs than the default ones.")
]
Resume = Annotated[
    bool, typer.Option("--resume/--no-resume", help="Use what --out already holds, or train everything again.")
]
Workers = Annotated[
    int | None, typer.Option(min=1, max=256, help="Processes to train in; default: one per core.", show_default=False)
]
Epochs = Annotated[int, typer.Option(min=1, max=100_000, help="Passes over the data.")]
Batch = Annotated[int, typer.Option(min=1, help="Rows per mini-batch.")]

DEFAULT_OUT = Path("gradagrad-results")


def parse_option(text: str) -> tuple[str, Any]:
    """``name=value``; the value is a Python literal such as 0.1, True or None, or plain text."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UserError(f"an option must have the form name=value, got {text!r}.", USAGE)
    return name.strip(), parse_value(value.strip())


def parse_value(text: str) -> Any:
    """A number, a Python literal, 2^-3, inf, or else the text itself."""
    if text.lower() in ("inf", "+inf"):
        return float("inf")
    if text.startswith("2^"):  # the notation of our own tables
        try:
            return 2.0 ** int(text[2:])
        except OverflowError:
            return float("inf")
        except ValueError:
            return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):  # the last two: nested too deeply
        return text


def parse_options(texts: list[str]) -> dict[str, Any]:
    """Several ``name=value``, each name at most once."""
    options: dict[str, Any] = {}
    for text in texts:
        name, value = parse_option(text)
        if name in options:
            raise UserError(f"option {name!r} must be given once, got two values.", USAGE)
        options[name] = value
    return options
