"""A step is taken whole: handlers of signals, which may raise, wait until it has been."""

import signal
import threading
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

# What is caught by user code as a rule; others end the process, or are rare enough to be looked up in vain.
_SIGNALS = [
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGHUP", "SIGVTALRM", "SIGPROF")
    if hasattr(signal, name)
]


@contextmanager
def uninterrupted() -> Generator[None]:
    """Inside, signals with a handler written in Python are remembered; their handlers run at the end.

    Python runs handlers in the main thread alone, so that elsewhere there is nothing to do.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[tuple[Any, FrameType | None]] = []

    def remember(number: int, frame: FrameType | None) -> None:
        arrived.append((number, frame))

    handlers = {number: handler for number in _SIGNALS if callable(handler := signal.getsignal(number))}
    try:
        for number in handlers:
            signal.signal(number, remember)
        yield
    finally:
        with ExitStack() as handling:
            # Only after handlers are back nothing more can arrive.
            handling.callback(_deliver, arrived, handlers)
            _restore(handlers)


def _deliver(arrived: list[tuple[Any, FrameType | None]], handlers: Mapping[Any, Any]) -> None:
    """Calls the handlers of all signals, in order, whatever they raise."""
    if arrived:
        number, frame = arrived.pop(0)
        try:
            handlers[number](number, frame)
        finally:
            _deliver(arrived, handlers)


def _restore(handlers: Mapping[Any, Any]) -> None:
    """Puts all handlers back, although each may raise as soon as it is there again."""
    raised: BaseException | None = None
    left = list(handlers.items())
    while left:
        try:
            signal.signal(*left[-1])
            left.pop()
        except BaseException as error:
            raised = error
    if raised is not None:
        raise raised
