"""Mistakes a user can make, each with the exit code that names its kind."""

from __future__ import annotations

USAGE = 2
DATA = 3
OUTPUT = 4
INTERRUPTED = 130


class UserError(Exception):
    """Something the user can put right: the command prints the message in one sentence, without a traceback."""

    def __init__(self, message: str, exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[type[UserError], tuple[str, int]]:
        # The default would pickle the message alone: an error raised in a worker process must keep its exit code.
        return type(self), (self.message, self.exit_code)
