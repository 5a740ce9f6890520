r"""Take the pictures of a report that the documents show.

    python benchmarks/report_picture.py sample_traces/generated_gpu \
        --write docs/report.png

The report of the traces is opened in Chromium (Debian: chromium-headless-shell).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import tracedb

ROOT = Path(__file__).parent.parent


def main() -> None:
    """Ingest, report, and write screenshots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--write", type=Path, required=True, metavar="PNG")
    parser.add_argument("--dark", action="store_true", help="In dark colours.")
    asked = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    from browser import browser

    with tempfile.TemporaryDirectory() as folder, tracedb.open() as database:
        report = Path(folder) / "report.html"
        database.ingest(asked.traces)
        database.report(report)
        with browser() as page:
            page.size(1280, 1000)
            page.theme("dark" if asked.dark else "light")
            page.open(report)
            # The second step; the timeline gets the whole height.
            page.run("timeline.goStep(String(timeline.stepSpans()[1]?.[0]))")
            page.run("document.querySelector('#timeline').scrollIntoView()")
            page.settle()
            page.picture(asked.write)


if __name__ == "__main__":
    main()
