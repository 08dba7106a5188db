"""Whole runs through the harness, with the shipped arms over toy models: audited, replayed, judged, tampered with."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draftgate.arms.neural_draft import NeuralDraft
from draftgate.arms.ngram_cache import count, write_cache
from draftgate.gates.proofs import audits
from draftgate.gates.proofs.audits import run_audits
from draftgate.gates.proofs.families import settings, shapes
from draftgate.gates.proofs.replay import replay_run
from draftgate.gates.proofs.sabotage.caches import FAULTS
from draftgate.gates.proofs.trace import TraceMissing
from draftgate.harness import bound, execute, runner
from draftgate.harness import freeze as freeze_module
from draftgate.harness.cli import Services
from draftgate.harness.errors import IntegrityError, PlanError
from draftgate.harness.execute import Execution
from draftgate.harness.freeze import FreezeOptions, freeze, load_plan
from draftgate.harness.plan import compose_plan
from draftgate.harness.process import InlineExecutor
from draftgate.harness.rundir import RunDir
from draftgate.harness.runner import RunOptions
from draftgate.harness.store import read_table
from draftgate.harness.verify import verify_run
from support import toy_pair_backend
from support.toy_pair_backend import STOP

BACKEND = "support.toy_pair_backend"
PLAN = Path(__file__).parents[2] / "harness" / "toy_plan.yaml"
WORDS = ("arms=neural", "schedule.max_new_tokens=16", "schedule.blocks=1", "sample_size.blocks=1")


class Quiet(Services):
    def decision_card(self, plan: dict[str, Any]) -> dict[str, Any]:
        return {"format": "draftgate-card/1"}


Made = tuple[Path, Path, Any]
"""Folder of the models, run directory, outcome."""


@pytest.fixture(scope="module", autouse=True)
def steady() -> Iterator[None]:
    """No waiting for the disk, no edits seen, a small enumeration: the whole one is test_prove.py's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        for module in (freeze_module, bound):
            patch.setattr(module, "source_digest", lambda: "5" * 64)
        for module in (execute, runner):
            patch.setattr(module, "machine_state", lambda: {"governor": None})
        patch.setattr(execute, "memory_bandwidth", lambda threads: None)
        patch.setattr(audits, "shapes", lambda: [f for f in shapes() if f.name == "generic-v4-k1"])
        patch.setattr(audits, "settings", lambda: [f for f in settings() if f.name == "stop-inside"])
        yield


def made(folder: Path, *words: str) -> Made:
    (folder / "champion.json").write_text('{"seed": 1}')
    (folder / "draft.json").write_text('{"seed": 1, "draft": true}')
    return folder, *swept(folder, *words)


@pytest.fixture(scope="module")
def greedy(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return made(tmp_path_factory.mktemp("greedy"), "decoding=greedy")


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return made(tmp_path_factory.mktemp("sampled"), "decoding=sampled", "measurement.score_tokens=60")


def swept(folder: Path, *words: str) -> tuple[Path, Any]:
    out = folder / "run"
    composed = compose_plan(
        (*WORDS, *words),
        plan_file=PLAN,
        champion=str(folder / "champion.json"),
        draft=str(folder / "draft.json"),
    )
    freeze(composed, out, Quiet(), FreezeOptions(BACKEND, InlineExecutor()))
    return out, execution(out).go()


def execution(out: Path) -> Execution:
    return Execution(RunDir(out), Quiet(), RunOptions(backend=BACKEND, executor=InlineExecutor()))


def loader(folder: Path) -> Callable[[str], Any]:
    return lambda which: toy_pair_backend.load_model(str(folder / f"{which}.json"), threads=1, kernel=None)


def bodies(out: Path) -> dict[str, dict[str, Any]]:
    records = [json.loads(line) for line in (out / "ledger.jsonl").read_text().splitlines()]
    return {r["body"]["name"]: r["body"] for r in records if r["kind"] == "audit"}


def test_a_greedy_run_is_audited_and_judged(greedy: Made) -> None:
    folder, out, outcome = greedy
    found = bodies(out)
    wanted = {"accounting", "replay", "enumeration", "conformance", "causality", "fresh_state", "greedy_battery"}
    assert wanted | {"reliability", "deletion", "timing_shape"} <= set(found)
    assert all(body["ok"] for name, body in found.items() if name in wanted | {"reliability", "deletion"}), found
    status = {gate.id: gate.status for gate in outcome.verdict.gates}
    assert status["exact-greedy"] in ("pass", "inconclusive"), outcome.verdict.gates  # few events of some class
    assert status["logit-conformance"] == status["reliability"] == status["deletion"] == "pass"
    result = replay_run(out, loader(folder))
    assert result.ok and result.requests >= 5


def test_a_sampled_run_is_replayed_and_scored(sampled: Made) -> None:
    folder, out, outcome = sampled
    found = bodies(out)
    assert all(found[name]["ok"] for name in ("accounting", "replay", "enumeration", "fresh_state", "battery"))
    scores = read_table(out, "scores")
    assert 20 <= len(scores) <= 60 + 16 and scores["pit_ratio"].between(0, 1).all()
    assert set(scores["arm"]) == {"neural_draft"} and not scores.duplicated(["request_id", "position"]).any()
    status = {gate.id: gate.status for gate in outcome.verdict.gates}
    assert status["exact-law"] in ("pass", "inconclusive"), outcome.verdict.gates
    result = replay_run(out, loader(folder))
    assert result.ok and result.skipped >= 4, "champion-alone was force-decoded"


@pytest.mark.parametrize("decoding", ["greedy", "sampled"])
def test_a_run_of_a_hybrid_beside_its_draft_is_audited_verified_and_judged(decoding: str, tmp_path: Path) -> None:
    words = ("arms=hybrid", f"decoding={decoding}", "measurement.score_tokens=60", "measurement.shadow_k=4")
    folder, out, outcome = made(tmp_path, *words, "arms.entries.hybrid.options.min_match=1")
    found = bodies(out)
    battery = "greedy_battery" if decoding == "greedy" else "battery"
    assert all(found[name]["ok"] for name in ("accounting", "replay", "fresh_state", "reliability", battery)), found
    report = verify_run(out, Quiet())
    assert report.ok, report.problems
    status = {gate.id: gate.status for gate in outcome.verdict.gates}
    assert status["reliability"] == "pass" and "fail" not in (status["exact-greedy"], status["exact-law"])
    requests = read_table(out, "requests").groupby("arm")
    drafted = requests["draft_calls"].sum()
    assert drafted["hybrid"] > 0 < drafted["neural_draft"] and drafted["prompt_lookup"] == 0
    assert drafted["hybrid"] < requests["proposed"].sum()["hybrid"], "some of it was copied"
    assert {"hybrid", "neural_draft"} <= set(read_table(out, "shadow")["arm"])
    assert replay_run(out, loader(folder)).ok


def cached(folder: Path, text: list[int]) -> Path:
    """An n-gram cache in the toys' letters."""
    tokenizer = toy_pair_backend.toy_model(np.zeros((1, toy_pair_backend.VOCABULARY), np.float32), "any", (STOP,))
    write_cache(folder / "public.npz", count([text], [1]), tokenizer.tokenizer.sha256)
    return folder / "public.npz"


def test_an_ngram_cache_is_frozen_by_name_and_hash_and_no_other_file_runs(tmp_path: Path) -> None:
    path = cached(tmp_path, [i % STOP for i in range(200)])
    entry = f"+arms.entries.cache={{kind: ngram_cache, k: 3, options: {{cache: '{path}'}}}}"
    folder, out, _ = made(tmp_path, "decoding=greedy", entry, "arms.candidate=cache")
    frozen = next(a for a in load_plan(out)["arms"] if a["name"] == "cache")
    sha = hashlib.sha256(path.read_bytes()).hexdigest()
    assert frozen == {"name": "cache", "kind": "ngram_cache", "k": 3, "cache": "public.npz", "sha256": sha}
    found = bodies(out)
    assert all(found[name]["ok"] for name in ("accounting", "replay", "fresh_state", "greedy_battery", "privacy")), (
        found
    )
    assert read_table(out, "requests").groupby("arm")["proposed"].sum()["cache"] > 0
    moved = Path(shutil.copytree(out, tmp_path / "moved"))
    (moved / "ledger.jsonl").unlink()
    shutil.rmtree(moved / "parts")
    kept = path.rename(tmp_path / "kept.npz")
    with pytest.raises(PlanError, match=r"public\.npz is not here; put it beside plan\.json"):
        execution(moved).go()
    cached(moved, [1, 2, 3] * 5)
    with pytest.raises(IntegrityError, match=r"arms\.cache\.sha256: frozen"):
        execution(moved).go()
    shutil.copy(kept, out / "public.npz")
    assert replay_run(out, loader(folder)).ok


def test_a_run_with_a_rotten_draft_cache_is_not_let_through(tmp_path: Path) -> None:
    fault = next(f for f in FAULTS if f.name == "last proposal never fed to the draft")
    with fault.plant(fault.worlds[0]):
        _, out, outcome = made(tmp_path, "decoding=greedy")
    found = bodies(out)
    assert not found["replay"]["ok"] or not found["fresh_state"]["ok"]
    status = {gate.id: gate.status for gate in outcome.verdict.gates}
    assert status["exact-greedy"] == "fail" and outcome.verdict.verdict == "NO-GO"


def test_an_audit_that_stumbles_is_recorded_as_not_in_order(greedy: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, out, _ = greedy
    monkeypatch.setattr(NeuralDraft, "propose", lambda *a: 1 / 0)
    found = {body["name"]: body for body in run_audits(out, loader(folder))}
    assert not found["fresh_state"]["ok"] and "ZeroDivisionError" in found["fresh_state"]["detail"]["reason"]
    assert found["replay"]["ok"], "the auditor has its own account of the draft"


def test_scores_that_cannot_be_made_are_recorded_and_stop_nothing(
    sampled: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out, _ = sampled
    monkeypatch.setattr(audits, "score_rows", lambda *a: iter([1 / 0]))
    last = list(run_audits(out, loader(folder)))[-1]
    assert last["name"] == "scores" and not last["ok"] and "ZeroDivisionError" in last["detail"]["reason"]


def test_a_changed_private_part_or_none_is_named(sampled: Made, tmp_path: Path) -> None:
    folder, original, _ = sampled
    out = Path(shutil.copytree(original, tmp_path / "run"))
    part = next((out / "private").glob("0*.jsonl"))
    text = part.read_bytes()
    assert b'"round":0' in text
    part.write_bytes(text.replace(b'"round":0', b'"round":9'))
    with pytest.raises(ValueError, match="not what was recorded"):
        replay_run(out, loader(folder))
    part.unlink()
    with pytest.raises(TraceMissing):
        replay_run(out, loader(folder))


def test_another_draft_does_not_explain_the_run(sampled: Made, tmp_path: Path) -> None:
    folder, out, _ = sampled
    (tmp_path / "champion.json").write_bytes((folder / "champion.json").read_bytes())
    (tmp_path / "draft.json").write_text('{"seed": 2, "draft": true}')
    result = replay_run(out, loader(tmp_path))
    assert not result.ok and result.finding().body()["detail"]["mismatches"][0]["request_id"]
