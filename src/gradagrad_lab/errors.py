"""Errors that a user can fix, each with an exit code for its kind."""

import difflib
from collections.abc import Iterable

USAGE = 2
DATA = 3
OUTPUT = 4
INTERRUPTED = 130


class UserError(Exception):
    """An error that the user can fix. The command prints the message without a traceback."""

    def __init__(self, message: str, exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[type["UserError"], tuple[str, int]]:
        # The default would pickle the message alone: an error raised in a worker process must keep its exit code.
        return type(self), (self.message, self.exit_code)


def unknown(what: str, got: str, known: Iterable[str], more: str = "") -> UserError:
    """The error for an unknown name. It lists the known names and suggests the closest one."""
    names = list(known)
    near = difflib.get_close_matches(got, names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return UserError(f"{what} must be one of {', '.join(names)}{more}, got {got!r}.{hint}", USAGE)
