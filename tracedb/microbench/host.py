"""Facts about the machine of a measurement."""

import os
import platform
import re
import subprocess
from pathlib import Path
from shutil import which

_SMI = "nvidia-smi"


def processor() -> str:
    """The CPU's own model name."""
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8") if info.exists() else ""
    found = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.processor() or platform.machine()


def memory_bytes() -> int:
    """[B] The total memory of the host."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def gpu_facts() -> dict[str, object]:
    """The GPU's driver, clocks and limits, if nvidia-smi is installed."""
    names = (
        *("driver_version", "clocks.max.sm", "clocks.max.mem"),
        *("clocks.sm", "clocks.mem", "power.limit", "persistence_mode"),
    )
    return dict(zip(names, _ask_smi(*names), strict=False))


def gpu_clock_mhz() -> int | None:
    """[MHz] The GPU's current clock; None if nvidia-smi cannot read it."""
    answer = _ask_smi("clocks.sm")
    found = re.match(r"\d+", answer[0]) if answer else None
    return int(found[0]) if found else None


def _ask_smi(*names: str) -> list[str]:
    """Query nvidia-smi about the first GPU; empty if it is not installed."""
    program = which(_SMI)
    if program is None:
        return []
    query = [f"--query-gpu={','.join(names)}", "--format=csv,noheader", "--id=0"]
    done = subprocess.run(  # noqa: S603 (the driver's own program)
        [program, *query], check=False, capture_output=True, text=True
    )
    if done.returncode:
        return []
    return [value.strip() for value in done.stdout.strip().split(",")]
