"""Make the pictures of the guide from what its first page shows: `python examples/site/pictures.py`, with Chromium."""

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from matplotlib import image

GUIDE = Path(__file__).parents[1] / "guide"
PICTURES = GUIDE / "pictures"


def main() -> None:
    """Run the page as far as its report, and take pictures."""
    text = (GUIDE / "start.md").read_text(encoding="utf-8").partition("## Batches")[0]
    os.chdir(tempfile.mkdtemp())
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        exec(compile(block, "start.md", "exec"), names)  # noqa: S102 - the guide's own code
    names["figure"].set_size_inches(8, 2.4)
    names["figure"].savefig(PICTURES / "plot.png", dpi=72, bbox_inches="tight")
    options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=900,1700", "--screenshot=whole.png"]
    subprocess.run(["chromium", *options, "report.html"], check=True)  # noqa: S607 - wherever it is installed
    image.imsave(PICTURES / "report.png", image.imread("whole.png")[760:1120])  # lengths and padding: look at it


if __name__ == "__main__":
    main()
