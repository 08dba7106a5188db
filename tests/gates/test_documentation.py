"""The examples of gates/README.md, run as written, and the table of parameters against the registry."""

from __future__ import annotations

import doctest
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import draftgate.gates as gates
from draftgate.gates.registry import checks

README = Path(str(files("draftgate.gates"))) / "README.md"


def test_examples_print_what_they_say() -> None:
    found = doctest.testfile(str(README), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 15 and found.failed == 0


def test_every_gate_and_parameter_is_documented() -> None:
    text = README.read_text()
    for name, check in checks().items():
        assert f"`{name}`" in text
        row = next(line for line in text.splitlines() if line.startswith("|") and f"`{name}`" in line)
        for parameter in check.defaults:
            assert f"`{parameter}`" in row
            assert (f"**`{parameter}`**" in row) == (parameter in check.thresholds)


def test_every_public_name_is_there() -> None:
    for name in gates.__all__:
        assert getattr(gates, name) is not None
    assert set(dir(gates)) == set(gates.__all__)


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, draftgate.gates; print([m for m in ('numpy', 'pandas', 'scipy') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_judging_does_not_import_statsmodels() -> None:
    code = (
        "import sys; from draftgate.gates import judge, registry as r; r.checks(); print('statsmodels' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        == "False"
    )
