"""Versions, and what this machine can measure: what is missing is said, never taken for zero."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import shutil
from typing import Any

PACKAGES = (
    "numpy", "pandas", "scipy", "statsmodels", "matplotlib", "pyarrow", "hydra-core", "tokenizers", "jinja2",
    "rfc8785", "rich",
    "psutil", "llguidance", "securesystemslib", "ray",
)  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true")


def run(args: argparse.Namespace, services: Any) -> int:
    from .. import hardware, machine
    from ..identity import package_version, source_digest

    state = machine.machine_state()
    found: dict[str, Any] = {
        "draftgate": package_version(),
        "source_digest": source_digest(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()}",
        "packages": {name: _version(name) for name in PACKAGES},
        "hardware_class": hardware.hardware_class(),
        "cpu_model": hardware.cpu_model(),
        "state": state,
        "memory_bandwidth_bytes_per_s": {str(n): machine.memory_bandwidth(n) for n in sorted({1, hardware.cores()})},
        "measures": {
            "energy": state["energy_readable"],
            "governor": state["governor"] is not None,
            "frequency": state["frequency_khz"] is not None,
            "steal": state["steal_ticks"] is not None,
            "throttling": state["throttle_count"] is not None,
            "resident memory": machine.resident_bytes() > 0,
            "peak memory": machine.peak_resident_bytes() > 0,
            "memory bandwidth": machine.memory_bandwidth(1) is not None,
            "SSH signatures": shutil.which("ssh-keygen") is not None,
            "git order": shutil.which("git") is not None,
        },
    }
    if args.json:
        print(json.dumps(found))
        return 0
    print(
        f"draftgate {found['draftgate']} (source {found['source_digest'][:12]}), Python {found['python']}, "
        f"{found['platform']}"
    )
    print(f"{found['cpu_model']}: {json.dumps(found['hardware_class'])}")
    for threads, value in found["memory_bandwidth_bytes_per_s"].items():
        print(f"memory bandwidth, {threads} threads: {'not measured' if value is None else f'{value / 1e9:.1f} GB/s'}")
    for name, can in found["measures"].items():
        print(f"{name}: {'can be measured' if can else 'not-measured on this machine'}")
    for key, value in state.items():
        print(f"{key}: {'unknown' if value is None else value}")
    for name, version in found["packages"].items():
        print(f"{name} {version or 'not installed'}")
    return 0


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
