"""The front door: finds the module of one subcommand and runs it.

This is the one file that may import upward, and only inside functions, so that `draftgate --help` stays fast. A command
module has ``configure(parser)`` and ``run(args, services) -> int``.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import os
import sys
from pathlib import Path
from typing import Any

MAX_LINE = 500
LISTINGS = ("models", "strata", "doctor", "generate", "compare", "power", "bench", "init")
"""Commands whose output may be cut short without harm."""
FULL = (errno.ENOSPC, errno.EDQUOT)
PACKAGE = __name__.rsplit(".", 2)[0]

COMMANDS: dict[str, tuple[str, str]] = {
    "sweep": ("harness.commands.sweep", "freeze, run, gate and report in one; resumes an existing directory"),
    "freeze": ("harness.commands.freeze", "fix a plan by hash and print its decision card"),
    "check": ("harness.commands.check", "re-verify identities, print what would run and how long; runs nothing"),
    "run": ("harness.commands.run", "run or resume a frozen plan"),
    "gate": ("gates.commands.gate", "evidence to verdict; the exit code is the verdict"),
    "report": ("reports.commands.report", "write report.html, report.md and figures"),
    "verify": ("harness.commands.verify", "a third party's check of a run directory"),
    "amend": ("harness.commands.amend", "a new plan that names its parent, the change and what had been seen"),
    "power": ("gates.commands.power", "sample size and chances of each verdict from pilot data"),
    "calibrate": ("gates.commands.calibrate", "the gates' own error rates on simulated truths"),
    "prove": ("gates.commands.prove", "the exactness proofs"),
    "sabotage": ("gates.commands.sabotage", "planted faults, each of which must be caught"),
    "generate": ("arms.commands.generate", "stream one answer from a champion, with or without a draft"),
    "distill": ("arms.commands.distill", "train a draft for a champion"),
    "ngram-cache": ("arms.commands.ngram_cache", "build an n-gram cache from public text"),
    "models": ("arms.commands.models", "list, pull, inspect or clean models"),
    "strata": ("strata.commands", "list, show, check or import workloads"),
    "ci": ("reports.commands.ci", "judge one candidate in a pipeline"),
    "compare": ("reports.commands.compare", "several candidates side by side"),
    "lint-plan": ("harness.commands.lint_plan", "refuse a silently weakened threshold"),
    "init": ("harness.commands.init", "write a commented plan to start from"),
    "bench": ("arms.commands.bench", "engine speed, verification cost and memory bandwidth"),
    "doctor": ("harness.commands.doctor", "versions, and what this machine can measure"),
}


class Services:
    """What the harness may use from the folders above it, passed down by this file alone."""

    def judge(self, run_dir: Path) -> Any:
        """The verdict of a finished run (`gates.result.Verdict`), computed from its records."""
        from ..gates.judge import judge

        return judge(run_dir)

    def write_verdict(self, run_dir: Path, verdict: Any) -> Path:
        from ..gates.judge import write_verdict

        return write_verdict(run_dir, verdict)

    def write_reports(self, run_dir: Path, verdict: Any) -> list[Path]:
        from ..reports.write import write_reports

        return write_reports(run_dir, verdict)

    def print_verdict(self, verdict: Any, file: Any = None) -> None:
        """The verdict as a table for people, to ``file`` (standard output when None)."""
        from ..reports.terminal import print_verdict

        print_verdict(verdict, file)

    def decision_card(self, plan: dict[str, Any]) -> dict[str, Any]:
        from ..gates.power import decision_card

        return decision_card(plan)

    def validate_gates(self, gates: list[dict[str, Any]]) -> list[str]:
        """Problems in a plan's gates (unknown id, missing threshold), empty when there are none."""
        from ..gates.registry import validate_gates

        return validate_gates(gates)

    def audits(self, run_dir: Path, load_model: Any) -> Any:
        """Iterates over the audit bodies of a run whose requests are all recorded (`gates/proofs/audits.py`)."""
        from ..gates.proofs.audits import run_audits

        return run_audits(run_dir, load_model)

    def token_counter(self, name_or_path: str | Path) -> Any:
        """A callable from a `strata.schema.Prompt` to its tokens, template included and answers not; loads no
        weights."""
        from ..arms.engine.gguf import read_gguf
        from ..arms.engine.tokenizer import Tokenizer
        from ..arms.models import Model, load_template, resolve

        file = read_gguf(resolve(name_or_path))
        tokenizer = Tokenizer.from_gguf(file)
        unloaded: Any = None
        model = Model(unloaded, tokenizer, load_template(file, tokenizer), file)

        def count(prompt: Any) -> int:
            if prompt.raw is not None:
                return len(model.encode_raw(prompt.raw))
            first, *later = prompt.turns
            return len(model.encode_chat(first)) + sum(len(model.encode_turn(turn)) for turn in later)

        return count

    def replay(self, run_dir: Path) -> Any:
        from ..gates.proofs.replay import replay_run

        return replay_run(run_dir)


def _parser() -> argparse.ArgumentParser:
    from .. import __version__

    parser = argparse.ArgumentParser(
        prog="draftgate",
        description="Decide, with evidence fixed in advance, whether a speculative-decoding draft may go in front of a "
        "language model.",
        epilog="Exit codes: 0 success or GO, 1 internal error, 2 usage or unreadable input, 3 NO-GO, 4 INCONCLUSIVE, "
        "5 INVALID or integrity failure, 6 incomplete run.",
    )
    parser.add_argument("--version", action="version", version=f"draftgate {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (_, text) in COMMANDS.items():
        commands.add_parser(name, help=text, add_help=False)
    return parser


def _parsed(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """Options and positionals in any order, where the command has no commands of its own."""
    try:
        return parser.parse_intermixed_args(words)
    except TypeError:
        return parser.parse_args(words)


def _open_streams() -> None:
    """A stream that the caller closed is None; everything below writes and reads without asking."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")


def _cut_short(command: str) -> int:
    """The reader went away. Fine for a listing; where the exit code is a verdict it must never read as GO."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0 if command in LISTINGS else 6


def main(argv: list[str] | None = None) -> int:
    _open_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] not in COMMANDS:
        _parser().parse_args(words or ["--help"])
        return 2
    module_name, text = COMMANDS[words[0]]
    module = importlib.import_module(f"{PACKAGE}.{module_name}")
    parser = argparse.ArgumentParser(
        prog=f"draftgate {words[0]}",
        description=module.__doc__ or text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.configure(parser)
    args = _parsed(parser, words[1:])
    try:
        done = int(module.run(args, Services()))
        sys.stdout.flush()
        return done
    except KeyboardInterrupt:
        print("draftgate: interrupted; the same command goes on from here", file=sys.stderr)
        return 6
    except BrokenPipeError:
        return _cut_short(words[0])
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # rich turns one into the other
            return _cut_short(words[0])
        raise
    except OSError as error:  # a path or a disk, not a fault of ours
        named = f"{error.filename}: " if error.filename is not None else ""
        print(f"draftgate: {named}{error.strerror or error}"[:MAX_LINE], file=sys.stderr)
        return 6 if error.errno in FULL else 2
    except Exception as error:
        code = getattr(error, "exit_code", None)  # every folder's own user errors carry one
        if not isinstance(code, int):
            raise
        print(f"draftgate: {error}", file=sys.stderr)
        return code


if __name__ == "__main__":
    sys.exit(main())
