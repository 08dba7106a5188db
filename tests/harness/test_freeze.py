"""A frozen plan is its bytes: same in, same out; anything else is another plan, refused, amended, signed or sealed."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from draftgate.harness.amend import amend
from draftgate.harness.ancestry import plan_precedes_run
from draftgate.harness.canonical import canonical_bytes
from draftgate.harness.envelope import check_envelope, write_envelope
from draftgate.harness.errors import IntegrityError, PlanError
from draftgate.harness.freeze import FreezeOptions, load_plan, plan_id
from draftgate.harness.ledger import read_ledger
from draftgate.harness.plan import compose_plan
from draftgate.harness.rundir import RunDir
from draftgate.harness.signature import check_signature, sign_plan
from draftgate.harness.verify import verify_run
from draftgate.harness.weakening import comparable, weakened

from .conftest import BACKEND, PLAN, StopAfter, Toy


def test_the_plan_id_is_the_hash_of_the_stored_bytes_and_freezing_again_changes_nothing(toy: Toy) -> None:
    first = toy.freeze()
    raw = first.run_dir.plan.read_bytes()
    assert hashlib.sha256(raw).hexdigest() == first.plan_id == plan_id(load_plan(first.run_dir))
    assert toy.freeze().plan_id == first.plan_id and first.run_dir.plan.read_bytes() == raw
    assert toy.freeze("elsewhere").plan_id == first.plan_id


def test_everything_that_matters_changes_the_plan_id(toy: Toy) -> None:
    found = {toy.freeze().plan_id}
    words = ("seed=5eed00000000aaab", "schedule.blocks=3 sample_size.blocks=3", "decoding.top_k=5", "alpha=0.02",
             "gates.speedup.params.minimum=1.2", "strata.prompts_per_stratum=1", "schedule.threads=1",
             "arms.entries.prompt_lookup.k=6", "title=Another")  # fmt: skip
    for i, word in enumerate(words):
        found.add(toy.freeze(f"other{i}", *word.split()).plan_id)
    toy.champion.write_text('{"seed": 9}')
    found.add(toy.freeze("model").plan_id)
    assert len(found) == len(words) + 2


def test_another_plan_in_the_same_folder_is_refused(toy: Toy) -> None:
    before = toy.freeze().run_dir.plan.read_bytes()
    with pytest.raises(PlanError, match="another frozen plan"):
        toy.freeze("run", "alpha=0.02")
    assert (toy.folder / "run" / "plan.json").read_bytes() == before


@pytest.mark.parametrize("name", ["notes.txt", "results/requests.parquet", "private/diary.txt", ".git/config"])
def test_a_folder_of_somebody_else_is_refused_and_left_as_it_is(toy: Toy, name: str) -> None:
    foreign = toy.folder / "run" / name
    foreign.parent.mkdir(parents=True)
    foreign.write_text("mine")
    with pytest.raises(
        PlanError, match=rf"run: holds files that are not a run's \({name.split('/')[0]}.*new, empty"
    ) as caught:
        toy.freeze()
    assert caught.value.exit_code == 2 and "\n" not in str(caught.value)
    assert [p for p in (toy.folder / "run").rglob("*") if p.is_file()] == [foreign]


def test_an_empty_folder_and_one_that_a_killed_freeze_left_are_taken_and_a_file_is_not(toy: Toy) -> None:
    (toy.folder / "run").mkdir()
    frozen = toy.freeze("run", "strata.split=all", "strata.seal=true")
    assert frozen.run_dir.seal.exists()
    frozen.run_dir.plan.unlink()
    (toy.folder / "run" / ".plan.json.123.part").write_bytes(b"{")
    assert toy.freeze("run", "strata.split=all", "strata.seal=true").plan_id == frozen.plan_id
    with pytest.raises(PlanError, match="is a file"):
        toy.freeze("champion.json")


def test_salts_are_for_their_owner_alone(toy: Toy) -> None:
    toy.freeze("run", "strata.split=all", "strata.seal=true")
    toy.run()
    private = [p for p in (toy.folder / "run" / "private").iterdir() if p.is_file()]
    assert {"salt.json", "seal.json", "00000.jsonl"} <= {p.name for p in private}
    assert {p.name: oct(p.stat().st_mode & 0o777) for p in private} == {p.name: "0o600" for p in private}


def test_an_incomplete_plan_lists_everything_and_leaves_no_folder(toy: Toy) -> None:
    with pytest.raises(PlanError) as caught:
        toy.freeze("run", "seed=1", "alpha=0.9", "++hypotheses=[]")
    for word in ("seed", "alpha", "hypotheses"):
        assert word in str(caught.value)
    assert not (toy.folder / "run").exists()


def test_the_frozen_plan_holds_no_local_path_and_no_text(toy: Toy, tmp_path: Path) -> None:
    source = tmp_path / "secret-folder" / "mine.jsonl"
    source.parent.mkdir()
    source.write_text('{"id": "a", "prompt": "the text of a private prompt"}\n')
    toy.freeze("run", "++strata.entries.mine={weight: 1.0, designated: false, source: '" + str(source) + "'}")
    raw = (toy.folder / "run" / "plan.json").read_text()
    assert "secret-folder" not in raw and str(toy.folder) not in raw and "private prompt" not in raw
    assert '"source":"file:mine.jsonl"' in raw


def test_a_prompt_without_room_is_named(toy: Toy) -> None:
    toy.champion.write_text('{"seed": 1, "context": 10}')
    with pytest.raises(PlanError, match="no room"):
        toy.freeze()


def test_an_empty_prompt_file_and_an_arm_nobody_can_build_are_named(toy: Toy, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    with pytest.raises(Exception, match="no prompts") as caught:
        toy.freeze("run", "++strata.entries.mine={weight: 1.0, designated: false, source: '" + str(empty) + "'}")
    assert caught.value.exit_code == 2  # type: ignore[attr-defined]
    with pytest.raises(Exception, match="unknown arm kind"):
        toy.freeze("run", "++arms.entries.odd={kind: oracle}")


def test_a_sealed_plan_hides_reserve_prompts_until_the_run_reveals_them(toy: Toy, tmp_path: Path) -> None:
    source = tmp_path / "mine.jsonl"
    lines = [{"id": f"p{i}", "prompt": f"number {i}", "split": "reserve" if i % 2 else "open"} for i in range(4)]
    source.write_text("\n".join(map(json.dumps, lines)) + "\n")
    words = ("++strata.entries.mine={weight: 1.0, designated: false, source: '" + str(source) + "'}",
             "strata.split=all", "strata.prompts_per_stratum=0", "schedule.blocks=1", "sample_size.blocks=1",
             "schedule.canaries=0")  # fmt: skip
    open_plan = toy.freeze("open", *words).plan
    sealed = toy.freeze("sealed", *words, "strata.seal=true").plan
    assert toy.freeze("sealed", *words, "strata.seal=true").plan == sealed

    def hashes(plan: dict[str, Any]) -> dict[str, str]:
        return {p["id"]: p["ids_sha256"] for s in plan["strata"] if s["name"] == "mine" for p in s["prompts"]}

    for name, sha in hashes(sealed).items():
        assert (sha == hashes(open_plan)[name]) == (name in ("p0", "p2"))
    toy.run("sealed")
    folder = toy.folder / "sealed"
    assert len(list(read_ledger(folder).records.of_kind("reveal"))) == sealed["sealed"]["prompts"]
    report = verify_run(folder, toy.services)
    assert report.ok, report.problems
    seal = json.loads((folder / "private" / "seal.json").read_bytes())
    other = toy.freeze("resealed", *words, "strata.seal=true")
    (other.run_dir.seal).write_text(json.dumps(seal))
    with pytest.raises(IntegrityError, match="renders to other token ids"):
        toy.run("resealed")
    other.run_dir.seal.unlink()
    with pytest.raises(IntegrityError, match="cannot be opened"):
        toy.run("resealed")


def amended(toy: Toy, name: str, *words: str, reason: str = "a reason") -> dict[str, Any]:
    composed = compose_plan(words, plan_file=PLAN, champion=str(toy.champion))
    options = FreezeOptions(BACKEND, toy.executor)
    return amend(RunDir(toy.folder / "run"), composed, toy.folder / name, reason, toy.services, options).plan


def test_an_amendment_names_its_parent_the_change_and_whether_results_had_been_seen(toy: Toy) -> None:
    first = toy.freeze()
    before = amended(toy, "before", "gates.speedup.params.minimum=1.1")
    assert before["parent"]["plan_id"] == first.plan_id and not before["parent"]["results_seen"]
    assert any("1.15 against 1.1" in line for line in before["parent"]["changes"])
    with pytest.raises(KeyboardInterrupt):
        toy.run(progress=StopAfter(1))
    after = amended(toy, "after", "gates.speedup.params.minimum=1.1")
    assert after["parent"]["results_seen"]
    (toy.folder / "run").rename(toy.folder / "first")
    (toy.folder / "after").rename(toy.folder / "run")
    assert amended(toy, "third", "alpha=0.02")["parent"]["results_seen"], "what was seen once stays seen"


def test_an_amendment_needs_a_reason_a_change_and_a_folder_of_its_own(toy: Toy) -> None:
    toy.freeze()
    for name, words, reason in (("x", ("alpha=0.02",), "  "), ("x", (), "why"), ("run", ("alpha=0.02",), "why")):
        with pytest.raises(PlanError):
            amended(toy, name, *words, reason=reason)
    assert not (toy.folder / "x").exists()


WEAKER = (
    ("gates.speedup.params.minimum=1.05", "minimum"), ("gates.no-regression.params.slowdown=1.2", "slowdown"),
    ("gates.speedup.requirement=if-available", "if-available"), ("alpha=0.05", "alpha"),
    ("strata.prompts_per_stratum=1", "prompts"), ("strata.entries.extraction.designated=false", "designated"),
    ("schedule.blocks=1 sample_size.blocks=1", "blocks"), ("++exclusions.0.limit=1.5", "exclusion"),
)  # fmt: skip


@pytest.mark.parametrize(("words", "said"), WEAKER)
def test_weakening_a_plan_is_seen_and_tightening_it_is_not(toy: Toy, words: str, said: str) -> None:
    strong, weak = toy.freeze("strong").run_dir.path, toy.freeze("weak", *words.split()).run_dir.path
    found = weakened(comparable(strong), comparable(weak))
    assert any(said in line for line in found)
    back = weakened(comparable(weak), comparable(strong))
    assert not any("minimum" in line or "alpha" in line or "slowdown" in line for line in back)


def test_a_signature_by_an_ssh_key_holds_for_this_plan_and_these_signers_alone(toy: Toy, tmp_path: Path) -> None:
    if shutil.which("ssh-keygen") is None:
        pytest.fail("ssh-keygen is needed to sign plans")
    for name in ("alice", "mallory"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    public = (tmp_path / "alice.pub").read_text().split()[:2]
    signers, others = tmp_path / "signers", tmp_path / "others"
    signers.write_text(f"alice@example.org {' '.join(public)}\n")
    others.write_text(f"mallory@example.org {' '.join((tmp_path / 'mallory.pub').read_text().split()[:2])}\n")
    run_dir = toy.freeze().run_dir
    with pytest.raises(IntegrityError, match="not signed"):
        check_signature(run_dir, signers)
    sign_plan(run_dir, tmp_path / "alice")
    sign_plan(run_dir, tmp_path / "alice")
    assert check_signature(run_dir, signers) == "alice@example.org"
    with pytest.raises(IntegrityError, match="not a signature"):
        check_signature(run_dir, others)
    plan = load_plan(run_dir) | {"alpha": 0.03}
    run_dir.plan.write_bytes(canonical_bytes(plan))
    with pytest.raises(IntegrityError, match="not a signature"):
        check_signature(run_dir, signers)
    with pytest.raises(PlanError, match="no such key"):
        sign_plan(run_dir, tmp_path / "nobody")


def test_an_envelope_holds_for_this_plan_and_this_key_alone(toy: Toy, tmp_path: Path) -> None:
    pytest.importorskip("securesystemslib", reason="extra [sign]")
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    for name in ("alice", "mallory"):
        key = Ed25519PrivateKey.generate()
        private = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
        (tmp_path / f"{name}.pem").write_bytes(private)
        public = key.public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)
        (tmp_path / f"{name}.pub.pem").write_bytes(public)
    run_dir = toy.freeze().run_dir
    write_envelope(run_dir, tmp_path / "alice.pem")
    check_envelope(run_dir, tmp_path / "alice.pub.pem")
    with pytest.raises(IntegrityError):
        check_envelope(run_dir, tmp_path / "mallory.pub.pem")
    run_dir.plan.write_bytes(canonical_bytes(load_plan(run_dir) | {"alpha": 0.03}))
    with pytest.raises(IntegrityError, match="something else"):
        check_envelope(run_dir, tmp_path / "alice.pub.pem")
    with pytest.raises(PlanError):
        write_envelope(run_dir, tmp_path / "nobody.pem")


def _git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def test_one_candidate_more_than_the_plan_allows_is_told_when_it_is_frozen(toy: Toy) -> None:
    one = ("attempts_budget=1",)
    assert toy.freeze("first", *one).notes == ()
    toy.run("first")
    assert toy.freeze("again", *one).notes == (), "the same candidate is the same attempt"
    (note,) = toy.freeze("second", *one, "arms.entries.prompt_lookup.k=2").notes
    assert "candidate 2" in note and "INVALID" in note and "attempts_budget" in note
    assert toy.freeze("third", "arms.entries.prompt_lookup.k=2").notes == ()
    kept = (toy.folder / "attempts.jsonl").read_bytes()
    (toy.folder / "attempts.jsonl").write_bytes(b"\xff\xfe not ours\n" + kept)
    assert len(toy.freeze("fourth", *one, "arms.entries.prompt_lookup.k=2").notes) == 1, "a bad line counts as nothing"
    (toy.folder / "attempts.jsonl").write_bytes(kept)
    lines = (toy.folder / "attempts.jsonl").read_text().splitlines()
    assert len(lines) == 1, "freezing counts nothing"


def test_git_shows_the_order_of_plan_and_run(toy: Toy, tmp_path: Path) -> None:
    run_dir = toy.freeze().run_dir
    assert plan_precedes_run(run_dir)[0] is None
    _git(toy.folder, "init", "-q")
    _git(toy.folder, "add", "run/plan.json")
    _git(toy.folder, "commit", "-qm", "plan")
    toy.run()
    assert plan_precedes_run(run_dir)[0] is None
    _git(toy.folder, "add", "run")
    _git(toy.folder, "commit", "-qm", "run")
    assert plan_precedes_run(run_dir)[0] is True
    together = toy.whole("together")
    _git(toy.folder, "add", "together")
    _git(toy.folder, "commit", "-qm", "both at once")
    assert plan_precedes_run(RunDir(together))[0] is False
