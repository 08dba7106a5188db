"""The hardware class a plan's timing gates are scoped to, and a fingerprint of this one machine."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from .canonical import digest

CPUINFO = Path("/proc/cpuinfo")
SETS = ("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx_vnni", "amx_int8", "asimd", "sve")
"""Instruction sets that change which kernel runs or how fast."""


def cores() -> int:
    """CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def instruction_sets(cpuinfo: Path = CPUINFO) -> list[str]:
    """Those of SETS the kernel lists for the first CPU; empty where it lists none."""
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        return []
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features"))), [])
    return [name for name in SETS if name in flags]


def cpu_model(cpuinfo: Path = CPUINFO) -> str:
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 0


def memory_class(total: int) -> str:
    """Physical memory to the nearest power of two above, in GiB: coarse on purpose."""
    gib = 1
    while gib * 2**30 < total * 0.95:
        gib *= 2
    return f"{gib} GiB" if total else "unknown"


def hardware_class() -> dict[str, Any]:
    """Architecture, instruction sets, core count and memory class."""
    return {
        "architecture": platform.machine(),
        "instruction_sets": instruction_sets(),
        "cores": cores(),
        "memory_class": memory_class(memory_bytes()),
    }


def machine_fingerprint(salt: str) -> str:
    """Tells whether a directory is continued on the machine it was started on, and nothing else: salted, hashed."""
    try:
        identity = Path("/etc/machine-id").read_text().strip()
    except OSError:
        identity = platform.node()
    return digest(f"{salt}|{identity}|{cpu_model()}|{platform.machine()}".encode())
