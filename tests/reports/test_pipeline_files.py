"""The action, the hooks and the examples: they call what exists, paste nothing into a shell, pass the verdict on."""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from draftgate.harness.cli import COMMANDS
from draftgate.reports.commands import ci

ROOT = Path(__file__).resolve().parents[2]


def loaded(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


def judging_script() -> str:
    steps = loaded("action.yml")["runs"]["steps"]
    return next(str(s["run"]) for s in steps if s.get("id") == "judge")


def test_no_input_is_pasted_into_a_shell() -> None:
    for step in loaded("action.yml")["runs"]["steps"]:
        if "run" in step:
            assert "${{" not in step["run"] and step["shell"] == "bash"


def test_every_input_is_used_and_every_option_exists() -> None:
    text = (ROOT / "action.yml").read_text("utf-8")
    for name in loaded("action.yml")["inputs"]:
        assert f"inputs.{name}" in text, name
    parser = argparse.ArgumentParser()
    ci.configure(parser)
    known = {o for action in parser._actions for o in action.option_strings}
    assert set(re.findall(r"--[a-z-]+", judging_script())) <= known
    readme = (ROOT / "reports" / "README.md").read_text("utf-8")
    block = next(b for b in readme.split("```")[1::2] if "draftgate ci" in b)
    assert set(re.findall(r"--[a-z-]+", block)) <= known


def test_the_example_gives_only_inputs_that_the_action_has() -> None:
    known = set(loaded("action.yml")["inputs"])
    jobs = loaded("reports/examples/workflow.yml")["jobs"]
    given = [set(s["with"]) for job in jobs.values() for s in job["steps"] if s.get("uses") == "./draftgate"]
    assert len(given) == 2 and all(g <= known and {"plan", "candidate"} <= g for g in given)


def test_hooks_and_examples_call_commands_that_exist() -> None:
    for hook in loaded(".pre-commit-hooks.yaml"):
        program, command, *_ = hook["entry"].split()
        assert program == "draftgate" and command in COMMANDS
        re.compile(hook["files"])
    gitlab = (ROOT / "reports/examples/gitlab-ci.yml").read_text("utf-8")
    assert yaml.safe_load(gitlab) and set(re.findall(r"bin/draftgate (\w+)", gitlab)) <= set(COMMANDS)


@pytest.mark.parametrize(
    ("code", "inconclusive", "exit_code", "verdict"),
    [(0, "fail", 0, "GO"), (3, "warn", 3, "NO-GO"), (4, "fail", 4, "INCONCLUSIVE"), (4, "warn", 0, "INCONCLUSIVE"),
     (5, "warn", 5, "INVALID"), (2, "warn", 2, ""), (6, "warn", 6, ""), (1, "warn", 1, "")],
)  # fmt: skip
def test_the_action_passes_the_verdict_on(
    tmp_path: Path, code: int, inconclusive: str, exit_code: int, verdict: str
) -> None:
    program = tmp_path / "draftgate" / "bin" / "draftgate"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{tmp_path}/words"\nexit {code}\n')
    program.chmod(0o755)
    given = {"PLAN": "my plan.yaml", "CANDIDATE": "$(touch pwned).gguf", "OUT": "runs/ci", "BASELINE": "",
    "HARDWARE_CLASS": "",
             "QUICK": "true", "REASON": "", "INCONCLUSIVE": inconclusive, "RUNNER_TEMP": str(tmp_path),
             "GITHUB_OUTPUT": str(tmp_path / "output"), "PATH": "/usr/bin:/bin"}  # fmt: skip
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", judging_script()], env=given, cwd=tmp_path, capture_output=True
    )
    assert done.returncode == exit_code, done.stderr
    outputs = dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())
    assert outputs["verdict"] == verdict and outputs["exit-code"] == str(code)
    words = (tmp_path / "words").read_text().splitlines()
    assert words == [
        "ci",
        "--plan",
        "my plan.yaml",
        "--candidate",
        "$(touch pwned).gguf",
        "--out",
        "runs/ci",
        "--quick",
    ]
    assert not (tmp_path / "pwned").exists()


SHOWN = ("README.md", "CONTRIBUTING.md", "action.yml", ".pre-commit-hooks.yaml", "harness/conf/template.yaml")


def test_what_users_see_holds_no_placeholder_but_variables_that_it_names() -> None:
    """An address to fill in is a variable, and the same file says so; nothing points to a made-up place."""
    files = [ROOT / name for name in SHOWN]
    files += [
        p for folder in ("reports", "gates", "arms", "strata", "harness") for p in (ROOT / folder).glob("**/*.md")
    ]
    files += [
        *(ROOT / "reports" / "examples").iterdir(),
        *(ROOT / "reports").glob("**/*.j2"),
        *(ROOT / "reports").glob("*.py"),
    ]
    assert len(files) > 30
    for path in files:
        text = path.read_text("utf-8")
        found = re.search(r"YOUR[-_]|example\.(org|com|net)|\bTODO\b|\bFIXME\b|<your", text, re.IGNORECASE)
        assert found is None, f"{path}: {found}"
        for variable in set(re.findall(r"DRAFTGATE_(?:REPOSITORY|REF|URL)", text)):
            assert re.search(rf"(Set|variables)[^\n]*(\n[^\n]*)?{variable}", text), (
                f"{path}: {variable} is not explained"
            )


def test_the_pre_commit_example_is_what_the_hooks_are() -> None:
    readme = (ROOT / "reports" / "README.md").read_text("utf-8")
    block = next(b for b in readme.split("```")[1::2] if "repo: local" in b).removeprefix("yaml")
    shown = {hook["id"]: hook for hook in yaml.safe_load(block)[0]["hooks"]}
    for hook in loaded(".pre-commit-hooks.yaml"):
        assert shown[hook["id"]]["entry"].startswith(hook["entry"])


def test_sources_that_could_not_be_checked_are_named() -> None:
    from draftgate.reports.checklists import SOURCES

    readme = (ROOT / "reports" / "README.md").read_text("utf-8")
    for source in SOURCES:
        assert source.checked or f"{source.authors} ({source.year})" in readme
    assert sum(not s.checked for s in SOURCES) == 1 and all(s.url.startswith("https://") for s in SOURCES)
