"""What a measurement says of the machine it was made on."""

import os
import platform
import re
import subprocess
from pathlib import Path
from shutil import which

_SMI = "nvidia-smi"


def processor() -> str:
    """Name the CPU as it names itself."""
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8") if info.exists() else ""
    found = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.processor() or platform.machine()


def memory_bytes() -> int:
    """Say how much memory the host has in all."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def gpu_facts() -> dict[str, object]:
    """Say which driver, clocks and limits the GPU has, where nvidia-smi is there."""
    names = (
        *("driver_version", "clocks.max.sm", "clocks.max.mem"),
        *("clocks.sm", "clocks.mem", "power.limit", "persistence_mode"),
    )
    return dict(zip(names, _ask_smi(*names), strict=False))


def gpu_clock_mhz() -> int | None:
    """Read the GPU's clock now; None where nvidia-smi cannot tell."""
    answer = _ask_smi("clocks.sm")
    found = re.match(r"\d+", answer[0]) if answer else None
    return int(found[0]) if found else None


def _ask_smi(*names: str) -> list[str]:
    """Ask nvidia-smi about the first GPU; nothing where it is not there."""
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
