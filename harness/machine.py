"""State of the machine, read from plain files of the kernel; what cannot be read is null, never zero."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

PROC_STAT = Path("/proc/stat")
CPUFREQ = Path("/sys/devices/system/cpu/cpu0/cpufreq")
THROTTLE = Path("/sys/devices/system/cpu/cpu0/thermal_throttle")
BANDWIDTH_BYTES = 256 * 2**20
"""Read once per probe: far more than any cache."""
POWERCAP = Path("/sys/class/powercap")


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text is not None and text.lstrip("-").isdigit() else None


def steal_ticks(stat: Path = PROC_STAT) -> int:
    """CPU time the hypervisor took, in ticks since boot, over all CPUs; -1 where not readable."""
    try:
        with stat.open("rb") as file:
            fields = file.readline().split()
        return int(fields[8])
    except (OSError, IndexError, ValueError):
        return -1


def resident_bytes() -> int:
    """Resident set of this process; 0 where not readable."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


_PAGE = os.sysconf("SC_PAGE_SIZE")


def peak_resident_bytes() -> int:
    """The kernel's high-water mark of this process (VmHWM); 0 where not readable."""
    try:
        with open("/proc/self/status", "rb") as file:
            for line in file:
                if line.startswith(b"VmHWM:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return 0


def energy_counters(root: Path = POWERCAP) -> dict[str, tuple[int, int]]:
    """Package domains of RAPL: name to (microjoules so far, range after which it wraps). Empty where not readable."""
    found: dict[str, tuple[int, int]] = {}
    try:
        zones = sorted(root.glob("*:*"))
    except OSError:
        return {}
    for zone in zones:
        if zone.name.count(":") != 1:  # sub-domains are part of their package
            continue
        now, span = _number(zone / "energy_uj"), _number(zone / "max_energy_range_uj")
        if now is not None and span:
            found[zone.name] = (now, span)
    return found


def energy_between(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> int | None:
    """Microjoules between two readings, wrap-around included; None where nothing was measured."""
    shared = [name for name in before if name in after]
    if not shared or len(shared) != len(before):
        return None
    return sum((after[n][0] - before[n][0]) % before[n][1] for n in shared)


def machine_state() -> dict[str, Any]:
    """Governor, frequency, load, steal, throttling events. JSON values; null where this machine does not say."""
    try:
        load: float | None = round(os.getloadavg()[0], 2)
    except OSError:
        load = None
    steal = steal_ticks()
    return {
        "governor": _text(CPUFREQ / "scaling_governor"),
        "frequency_khz": _number(CPUFREQ / "scaling_cur_freq"),
        "load_1min": load,
        "steal_ticks": None if steal < 0 else steal,
        "throttle_count": _number(THROTTLE / "package_throttle_count"),
        "energy_readable": bool(energy_counters()),
    }


def memory_bandwidth(threads: int) -> float | None:
    """Bytes a second this machine reads from memory right now, by the engine's own probe; None without it."""
    try:
        from ..arms.engine import _native

        return round(float(_native.bandwidth(BANDWIDTH_BYTES, threads)))
    except (ImportError, AttributeError, TypeError):
        return None
