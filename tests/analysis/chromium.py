"""A headless Chromium that is spoken to over a pipe, in the words of its DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
          "--remote-debugging-pipe", "--no-first-run", "--disable-background-networking",
          "--disable-component-update", "--disable-extensions", "--disable-sync")  # fmt: skip


def find_chromium() -> str | None:
    """Return the path of a browser."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """One browser with one page."""

    def __init__(self, program: str, profile: Path) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        flags = " ".join((*_FLAGS, f"--user-data-dir={profile}"))
        command = f"exec {program} {flags} about:blank 3<&{theirs_in} 4>&{theirs_out}"
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(["/bin/bash", "-c", command], pass_fds=(theirs_in, theirs_out), stdin=quiet,
                                         stdout=quiet, stderr=quiet)  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._out, self._in = os.fdopen(ours_out, "wb"), os.fdopen(ours_in, "rb")
        self._sent, self._left = 0, b""
        self.events: list[dict[str, Any]] = []
        targets = self._call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self._session = self._call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the answer of the page; events that come meanwhile are kept."""
        return self._call(method, self._session, **params)

    def _call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": params}
        self._out.write(json.dumps({**message, **({"sessionId": session} if session else {})}).encode() + b"\0")
        self._out.flush()
        while True:
            answer = self._next()
            if answer.get("id") == self._sent:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            part = self._in.read1(1 << 20)
            assert part, "the browser has gone"
            self._left += part
        message, _, self._left = self._left.partition(b"\0")
        return json.loads(message)

    def show(self, path: Path, *, width: int, dark: bool, media: str = "screen") -> None:
        """Load a file in a window of a width, and wait until it stands."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[feature])
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def run(self, script: str) -> Any:
        """Return what JavaScript gives."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """Write a picture of the whole page."""
        whole = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(whole["data"]))

    def close(self) -> None:
        """End the browser."""
        self._call("Browser.close")
        self._process.wait(20)
        self._out.close()
        self._in.close()
