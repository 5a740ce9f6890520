"""A headless Chromium for tests and for pictures in docs, without a library.

It speaks the DevTools protocol over two pipes, collects console messages and network
requests, and takes screenshots. `CHROMIUM` is None where none is installed.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--disable-quic", "--hide-scrollbars"),
    *(
        "--disable-dev-shm-usage",
        "--remote-debugging-pipe",
        "--force-color-profile=srgb",
    ),
)
_KEYS = {"Enter": 13, "Escape": 27, "Tab": 9}


class Page:
    """A page of a browser, with its console messages and requests."""

    def __init__(self, to: int, back: int) -> None:
        """Take the pipes to and from a browser, and open a tab."""
        self._to, self._back = to, back
        self._rest = b""
        self.patience = 60.0
        """[s] How long one command may take."""
        self._number = 0
        self._session: str | None = None
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **values: object) -> dict[str, Any]:
        """Send a command of the protocol and return its result."""
        self._number += 1
        number = self._number
        message: dict[str, object] = {"id": number, "method": method, "params": values}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + self.patience
        while True:
            answer = self._read(method, until)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            self._note(answer)

    def _read(self, method: str, until: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            left = max(until - time.monotonic(), 0)
            if not select.select([self._back], [], [], left)[0]:
                seen = f"; the page said {self.errors}" if self.errors else ""
                raise TimeoutError(
                    f"{method}: no answer within {self.patience:g} s{seen}"
                )
            part = os.read(self._back, 1 << 20)
            if not part:
                raise RuntimeError("the browser has gone")
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(text))

    def _note(self, event: dict[str, Any]) -> None:
        method, values = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(values["exceptionDetails"])[:2000])
        elif method == "Runtime.consoleAPICalled":
            self.errors.append(json.dumps(values["args"])[:2000])
        elif method == "Log.entryAdded":
            self.errors.append(values["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.errors.append(f"dialog: {values['message']}")

    def size(self, width: int, height: int) -> None:
        """Set the size of the window."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def theme(self, name: str) -> None:
        """Emulate a `light` or `dark` system, without smooth scrolling."""
        features = [
            {"name": "prefers-color-scheme", "value": name},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.send("Emulation.setEmulatedMedia", features=features)

    def visit(self, url: str) -> None:
        """Open an address and wait until it is loaded."""
        self.send("Page.navigate", url=url)
        self.run(
            "new Promise(r => document.readyState === 'complete' ? r() : "
            "addEventListener('load', () => r()))"
        )

    def open(self, path: Path) -> None:
        """Open a file and wait until it is drawn."""
        self.visit(path.resolve().as_uri())
        self.settle()

    def settle(self) -> None:
        """Wait until the page is drawn."""
        self.run(
            "new Promise(r => requestAnimationFrame("
            "() => requestAnimationFrame(() => r())))"
        )

    def run(self, script: str) -> Any:  # noqa: ANN401 (a value of JavaScript's)
        """The value of a JavaScript expression."""
        answer = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def click(self, x: float, y: float) -> None:
        """Press and release the left mouse button at a point."""
        for kind in ("mousePressed", "mouseReleased"):
            self.send(
                "Input.dispatchMouseEvent",
                type=kind,
                x=x,
                y=y,
                button="left",
                clickCount=1,
            )
        self.settle()

    def press(self, key: str) -> None:
        """Press a key."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        code = _KEYS.get(key, ord(key.upper()) if len(key) == 1 else 0)
        values = {"key": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **values)
        self.send("Input.dispatchKeyEvent", type="keyUp", **values)
        self.settle()

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Write the visible part, or the whole page, as PNG."""
        values: dict[str, object] = {"format": "png"}
        if whole:
            box = self.send("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": box["width"], "height": box["height"]}
            values |= {"captureBeyondViewport": True, "clip": {**clip, "scale": 1}}
        shot = self.send("Page.captureScreenshot", **values)["data"]
        path.write_bytes(base64.b64decode(shot))

    def printed(self) -> bytes:
        """The page printed as PDF."""
        data = self.send("Page.printToPDF", printBackground=True)["data"]
        return base64.b64decode(data)


@contextmanager
def browser() -> Iterator[Page]:
    """A page of a new browser, which is closed at the end of the block."""
    if CHROMIUM is None:
        raise RuntimeError("no Chromium; Debian has it as chromium-headless-shell")
    command_read, command_write = os.pipe()
    answer_read, answer_write = os.pipe()
    # The browser reads commands from descriptor 3 and answers on descriptor 4.
    script = f'exec 3<&{command_read} 4>&{answer_write}; exec "$@"'
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(  # noqa: S603 (our own command)
            [  # noqa: S607 (bash is where the system has it)
                "bash",
                "-c",
                script,
                "bash",
                CHROMIUM,
                *_FLAGS,
                f"--user-data-dir={folder}",
            ],
            pass_fds=(command_read, answer_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(command_read)
        os.close(answer_write)
        try:
            page = Page(command_write, answer_read)
            page.size(1440, 900)
            page.theme("light")
            yield page
        finally:
            process.terminate()
            process.wait(timeout=30)
            os.close(command_write)
            os.close(answer_read)
