"""Times, shares and names as a person reads them in a sentence."""

from __future__ import annotations

_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"))
ELLIPSIS = "…"


def duration(time_ns: float) -> str:
    """Write a time with three digits.

    >>> duration(215_340_000), duration(2_028_017), duration(1_200), duration(90)
    ('215 ms', '2.03 ms', '1.20 us', '90 ns')
    """
    for scale, unit in _UNITS:
        if abs(time_ns) >= scale:
            value = time_ns / scale
            digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0  # noqa: PLR2004 (three digits)
            return f"{value:,.{digits}f} {unit}"
    return f"{time_ns:.0f} ns"


def share(value: float) -> str:
    """Write a share in percent; what rounds to nothing is not written as nothing.

    >>> share(0.338), share(0.0004), share(0)
    ('33.8 %', '<0.1 %', '0 %')
    """
    if value == 0:
        return "0 %"
    return "<0.1 %" if abs(value) < 0.0005 else f"{100 * value:.1f} %"  # noqa: PLR2004 (what rounds to 0.0)


def counted(count: int, noun: str) -> str:
    """Write how many of something there are.

    >>> counted(1, "step"), counted(2_000, "step")
    ('1 step', '2,000 steps')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def shortened(name: str, width: int) -> str:
    """Cut a name in the middle: what tells names apart is at both of their ends.

    >>> shortened("ampere_sgemm_128x64_tn", 15)
    'ampere_…8x64_tn'
    >>> shortened("aten::mm", 15)
    'aten::mm'
    """
    if len(name) <= width:
        return name
    tail = (width - 1) // 2
    return name[: width - 1 - tail] + ELLIPSIS + name[len(name) - tail :]
