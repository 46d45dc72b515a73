"""A real browser for tests: headless Chromium, driven over its DevTools pipe, so that no package is needed."""

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe"),
)
# The browser wants its pipes at exactly 3 and 4: move them out of the way, then there, then become the browser.
WIRING = """
import os, sys
high = [os.dup2(int(number), 100 + place) for place, number in enumerate(sys.argv[1:3])]
for place, number in enumerate(high):
    os.dup2(number, 3 + place)
    os.close(number)
os.execv(sys.argv[3], sys.argv[3:])
"""

# The worst contrast of words with what lies below them, as WCAG counts it, and those words.
CONTRAST = """
(() => {
  // Colours as the screen shows them: through a canvas, so that every notation ends as red, green, blue, alpha.
  const pen = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = colour => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    return pen.getImageData(0, 0, 1, 1).data;
  };
  const linear = c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => [r, g, b].map(c => linear(c / 255))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const below = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = rgba(getComputedStyle(e).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let worst = [99, ""];
  while (words.nextNode()) {
    const element = words.currentNode.parentElement;
    if (!words.currentNode.data.trim() || !element.getClientRects().length) continue; // nothing, or nothing shown
    const style = getComputedStyle(element), shade = element.closest("svg") ? style.fill : style.color;
    const [a, b] = [light(rgba(shade)), light(below(element))].sort((p, q) => q - p);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < worst[0]) worst = [ratio, words.currentNode.data.trim().slice(0, 60)];
  }
  return worst;
})()
"""


class Chromium:
    """One browser and one page; commands and answers are NUL-separated JSON on file descriptors 3 and 4."""

    def __init__(self, program: str, profile: Path) -> None:
        commands, self._to = os.pipe()
        self._from, answers = os.pipe()
        self._process = subprocess.Popen(
            (sys.executable, "-c", WIRING, f"{commands}", f"{answers}", program, *FLAGS, f"--user-data-dir={profile}"),
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._number = 0
        self._pending = b""
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", session=None, url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", session=None, targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, *, session: str | None = "", **parameters: Any) -> dict[str, Any]:
        """Send one command and return its answer; events that arrive meanwhile are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session or self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def _receive(self, patience: float = 60) -> dict[str, Any]:
        deadline = time.monotonic() + patience
        while b"\0" not in self._pending:
            if not select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError("Chromium did not answer")
            chunk = os.read(self._from, 1 << 20)
            if not chunk:
                raise RuntimeError(f"Chromium ended with exit code {self._process.wait()}")
            self._pending += chunk
        message, _, self._pending = self._pending.partition(b"\0")
        return json.loads(message)

    def open(self, path: Path, *, width: int, scheme: str, media: str = "") -> None:
        """Show a page at a width and in a colour scheme, and wait until it is loaded."""
        self.events.clear()
        self.show(width=width, scheme=scheme, media=media)
        self.ask("Page.navigate", url=path.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())

    def show(self, *, width: int, scheme: str, media: str = "") -> None:
        """Another width and colour scheme for what is open."""
        mobile = width < 600
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=mobile)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", media=media, features=features)

    def press(self, key: str, code: int) -> None:
        """A key goes down and up again."""
        for event in ("rawKeyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=event, key=key, code=key, windowsVirtualKeyCode=code)

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression, promises awaited."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def error_texts(self) -> list[str]:
        """Everything the console, the log or an uncaught exception said since the page was opened."""
        heard = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Network.loadingFailed")
        return [json.dumps(event) for event in self.events if event.get("method") in heard]

    def requests(self) -> list[str]:
        """Addresses asked for, those inside the page excepted."""
        sent = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [url for event in sent if not (url := event["params"]["request"]["url"]).startswith("data:")]

    def close(self) -> None:
        os.close(self._to)  # the browser ends when its pipe does
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._from)
