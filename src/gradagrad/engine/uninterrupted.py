"""A step is taken whole: handlers of signals, which may raise, wait until it has been."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
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
    for number in handlers:
        signal.signal(number, remember)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in arrived:
            handlers[number](number, frame)
