"""The `generate` command: text on stdout, numbers on stderr, one clear line for bad input."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from draftgate.arms.commands.generate import told
from draftgate.harness.cli import main


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["generate", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_lookup_streams_the_text_that_the_json_holds(smollm2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--champion", str(smollm2), "--prompt", "Say hello.", "--max-new-tokens", "10", "--lookup"]
    code, text, numbers = call(capsys, *words)
    assert code == 0 and "prompt_lookup:" in numbers and "tokens/s" in numbers
    code, out, _ = call(capsys, *words, "--json")
    answer = json.loads(out)
    assert code == 0 and answer["text"] + "\n" == text
    assert answer["new_tokens"] == len(answer["tokens"]) <= 10


def test_a_stop_string_is_never_shown(smollm2: Path, capsys: pytest.CaptureFixture[str], monkeypatch: object) -> None:
    words = ["--champion", str(smollm2), "--raw", "--prompt", "1, 2, 3, 4, 5,", "--max-new-tokens", "14"]
    _, whole, _ = call(capsys, *words)
    string = whole[5:8]
    code, text, numbers = call(capsys, *words, "--stop", string)
    assert code == 0 and text == whole[: whole.index(string)] + "\n" and "stop_string" in numbers


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--temperature", "-1"], "decoding.temperature"),
        (["--top-p", "0"], "decoding.top_p"),
        (["--grammar", "regex"], "KIND:TEXT"),
        (["--grammar", "regex:@/no/such/file"], "cannot be read"),
    ],
)
def test_bad_options_get_one_line_before_any_model_is_loaded(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, "--champion", "nobody", "--prompt", "x", *words)
    assert code == 2 and out == "" and message in err and err.count("\n") == 1


def test_an_unknown_champion_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("hello"))
    code, _, err = call(capsys, "--champion", "nobody")
    assert code == 2 and "nobody" in err and "Traceback" not in err


def test_failures_and_fallbacks_are_told() -> None:
    numbers = {
        "arm": "neural_draft", "finish_reason": "stop", "failure": None, "fallback": "draft_failed", "new_tokens": 3,
        "rounds": 2, "tokens_per_round": 1.5, "proposed": 4, "accepted": 1, "ttft_ms": 5.0, "tokens_per_s": 10.0,
    }  # fmt: skip
    assert "fallback to champion-alone: draft_failed" in told(numbers)


@pytest.mark.parametrize(
    "words",
    [
        ("--threads", "-1"),
        ("--threads", "many"),
        ("--seed", "18446744073709551616"),
        ("--seed", "-1"),
        ("--max-new-tokens", "0"),
        ("--max-new-tokens", "9" * 5000),
    ],
)
def test_a_number_out_of_range_is_named_with_its_option(
    capsys: pytest.CaptureFixture[str], words: tuple[str, str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["generate", "--champion", "any", "--prompt", "x", *words])
    said = capsys.readouterr().err
    assert caught.value.code == 2 and f"argument {words[0]}: {words[1][:40]!r} is not a whole number from" in said
