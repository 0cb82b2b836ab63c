"""The machine card that goes with every figure."""

import datetime as dt
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from llvmlite import binding

_PACKAGES = ("streamsketch", "numpy", "numba", "scipy", "pyarrow", "datasketches", "opendp")


def card() -> dict[str, Any]:
    """Return what shaped the figures: processor, cores, load, versions and date; nothing that names the host."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {package: _version(package) for package in _PACKAGES},
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
    }


def _cpu() -> str:
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        lines = information.read_text(encoding="utf-8").splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    return f"{model} ({binding.get_host_cpu_name()})"  # a virtual machine may hide the model, not the kind of core


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
