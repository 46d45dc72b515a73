"""The `gradagrad` command: the paper's experiments, their data, and training on your own data.

Exit codes: 0 fine, 1 a fault of this program, 2 wrong usage, 3 data missing or corrupt, 4 trouble with the output
folder, 130 interrupted (finished work is kept).
"""

import errno
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from gradagrad_lab.cli import data, reproduce, train
from gradagrad_lab.errors import INTERRUPTED, OUTPUT, UserError

# Typer raises click's errors, but which click (the package, or a copy inside typer) depends on its version.
_UsageError: Any = typer.BadParameter.__base__

app = typer.Typer(
    name="gradagrad",
    help="""GradaGrad: AdaGrad whose learning rate can also rise. This command reproduces the paper and lets you try
    the method on a problem of your own.

    Start here:

      gradagrad reproduce                   every figure, and a report to open

      gradagrad reproduce figure3 --full    the paper's protocol

      gradagrad data list                   which data sets are available

      gradagrad compare vowel --tuned       several optimizers, one data set

      gradagrad train vowel -o rho=4        one optimizer, any option
    """,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("reproduce", help=reproduce.HELP)(reproduce.reproduce)
app.command("train", help=train.TRAIN_HELP)(train.train)
app.command("compare", help=train.COMPARE_HELP)(train.compare)
app.add_typer(data.app, name="data")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point: runs the command and turns every outcome into an exit code."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code. For a user's mistake it prints one message on standard error."""
    errors = Console(stderr=True, highlight=False)
    signal.signal(signal.SIGTERM, _terminated)
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code: Any = app(words, standalone_mode=False)
        if code == INTERRUPTED:  # typer raises this for Ctrl-C
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except UserError as error:
        errors.print(_plain(error.message), soft_wrap=True)
        return error.exit_code
    except typer.Exit as finished:
        return finished.exit_code
    except _UsageError as error:
        errors.print(_plain(error.format_message()), soft_wrap=True)
        errors.print(f"See `{error.ctx.command_path if error.ctx else 'gradagrad'} --help`.", soft_wrap=True)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        errors.print("Interrupted; finished work is kept. The same command resumes from there.", soft_wrap=True)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output (head, a pager) has closed it. That is not an error, but we can print nothing more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            errors.print("[bold red]Error:[/] The disk is full; free some space and run the same command again.")
            return OUTPUT
        raise


def _terminated(number: int, frame: object) -> NoReturn:
    """Treat SIGTERM like Ctrl-C, so that worker processes end too."""
    raise KeyboardInterrupt


def _plain(message: str) -> Text:
    """The message as plain text: brackets and colons in a path must not be read as markup or emoji."""
    return Text.assemble(("Error:", "bold red"), " ", message)


if __name__ == "__main__":
    main()
