"""The entry point of the `gradagrad` command. If the lab's packages are missing, it says how to get them."""

import sys
from collections.abc import Sequence
from io import TextIOWrapper

import gradagrad

_WRONG_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the lab's command; without its packages, prints what `python -m gradagrad` does and how to get them."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # Not every terminal can show γ.
    if words == ["--version"]:
        print(f"gradagrad {gradagrad.__version__}")
        return
    try:
        from gradagrad_lab.cli.app import main as lab
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("gradagrad", "gradagrad_lab"):
            raise
        from gradagrad.__main__ import lines  # imported here because it loads torch

        print("\n".join(lines()))
        missing = f"The experiments need packages that are not installed ({error.name}): pip install 'gradagrad[lab]'"
        asked_for_help = not words or words in (["--help"], ["-h"])
        print(missing, file=sys.stdout if asked_for_help else sys.stderr)
        sys.exit(0 if asked_for_help else _WRONG_USAGE)
    lab(words)


if __name__ == "__main__":
    main()
