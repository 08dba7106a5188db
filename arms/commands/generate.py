"""Stream one answer from a champion, with or without a draft, so that a person can try a pair.

The answer goes to stdout as it comes; a short account of the rounds goes to stderr.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .numbers import MAX_SEED, MAX_THREADS, MAX_TOKENS, whole

if TYPE_CHECKING:
    from ..models import Model
    from ..request import Completion


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--champion", required=True, metavar="MODEL", help="name or path of the champion's GGUF")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--draft", metavar="MODEL", help="name or path of a draft with the champion's tokenizer")
    how.add_argument("--lookup", action="store_true", help="propose by prompt lookup")
    parser.add_argument("--prompt", help="what to say; read from stdin when absent")
    parser.add_argument("--system", help="system message")
    parser.add_argument("--raw", action="store_true", help="no chat template: the model continues the prompt")
    parser.add_argument("--max-new-tokens", type=whole(1, MAX_TOKENS), default=256, metavar="N")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 (the default) is greedy")
    parser.add_argument("--top-k", type=int, default=0, metavar="K")
    parser.add_argument("--top-p", type=float, default=1.0, metavar="P")
    parser.add_argument("--min-p", type=float, default=0.0, metavar="P")
    parser.add_argument("--repetition-penalty", type=float, default=1.0, metavar="X")
    parser.add_argument("--grammar", metavar="KIND:TEXT", help="json_schema:…, regex:… or lark:…; @FILE reads a file")
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end before this text; repeatable")
    parser.add_argument("--k", type=int, help="tokens to propose (draft 4, lookup 5)")
    parser.add_argument("--policy", default="fixed", help="fixed, hf-heuristic or confidence")
    parser.add_argument("--seed", type=whole(0, MAX_SEED), default=0)
    parser.add_argument("--threads", type=whole(0, MAX_THREADS))
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the text")


def run(args: argparse.Namespace, services: Any) -> int:
    from ..build import build_arm
    from ..models import load_draft, load_model
    from ..request import Request, StopPolicy

    decoding = decoding_of(args)
    champion = load_model(args.champion, threads=args.threads)
    draft = load_draft(args.draft, champion, threads=args.threads) if args.draft else None
    arm = build_arm(arm_of(args), champion, draft, decoding)
    prompt = prompt_ids(args, champion)
    stop = StopPolicy(tuple(champion.tokenizer.stop_ids), tuple(args.stop))
    request = Request("generate", tuple(prompt), args.max_new_tokens, args.seed, stop, "generate")
    printer = _Printer(champion, stop, silent=args.json)
    completion = arm.generate(request, printer)
    printer.finish(completion)
    if args.json:
        print(json.dumps(summary(arm.name, completion) | {"text": completion.text, "tokens": completion.tokens}))
    else:
        print(told(summary(arm.name, completion)), file=sys.stderr)
    return 1 if completion.finish_reason == "error" else 0


def decoding_of(args: argparse.Namespace) -> dict[str, Any]:
    from ..processors import checked

    return checked(
        {
            "temperature": args.temperature,
            "top_k": args.top_k,
            "top_p": args.top_p,
            "min_p": args.min_p,
            "repetition_penalty": args.repetition_penalty,
            "grammar": _grammar(args.grammar),
            "stop_strings": args.stop,
        }
    )


def _grammar(text: str | None) -> dict[str, str] | None:
    from ..errors import ArmError

    if text is None:
        return None
    kind, found, body = text.partition(":")
    if not found:
        raise ArmError("--grammar is KIND:TEXT, with KIND one of json_schema, regex, lark")
    if body.startswith("@"):
        try:
            body = Path(body[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ArmError(f"the grammar file {body[1:]} cannot be read: {error}") from error
    return {"kind": kind, "text": body}


def arm_of(args: argparse.Namespace) -> dict[str, Any]:
    """The arm entry that a plan would hold."""
    if args.draft:
        policy = {"kind": args.policy}
        return {"name": "neural_draft", "kind": "neural_draft", "k": 4 if args.k is None else args.k, "policy": policy}
    if args.lookup:
        return {"name": "prompt_lookup", "kind": "prompt_lookup", "k": 5 if args.k is None else args.k}
    return {"name": "champion_alone", "kind": "champion_alone"}


def prompt_ids(args: argparse.Namespace, champion: Model) -> list[int]:
    text = args.prompt if args.prompt is not None else sys.stdin.read()
    if args.raw:
        return champion.encode_raw(text)
    messages = [{"role": "system", "content": args.system}] if args.system else []
    return champion.encode_chat([*messages, {"role": "user", "content": text}])


class _Printer:
    """Writes text as tokens come, holding back what may turn out to begin a stop string."""

    def __init__(self, champion: Model, stop: Any, silent: bool) -> None:
        from ..engine.tokenizer import StreamDecoder
        from ..stops import StopWatcher

        self.silent, self.shown = silent, 0
        self.decoder = StreamDecoder(champion.tokenizer)
        self.watcher = StopWatcher(stop, lambda: StreamDecoder(champion.tokenizer)) if stop.strings else None

    def __call__(self, tokens: list[int]) -> None:
        if self.watcher is None:
            self._write(self.decoder.push(tokens))
            return
        for token in tokens:
            self.watcher.ends(token)
        text = self.watcher.visible()
        self._write(text[self.shown :])
        self.shown = max(self.shown, len(text))

    def finish(self, completion: Completion) -> None:
        if self.watcher is None:
            self._write(self.decoder.finish() + "\n")
        else:
            self._write((completion.text or "")[self.shown :] + "\n")

    def _write(self, text: str) -> None:
        if not self.silent:
            print(text, end="", flush=True)


def summary(arm: str, completion: Completion) -> dict[str, Any]:
    """What happened, in numbers."""
    rounds = completion.rounds
    proposed = sum(r.proposed for r in rounds)
    emitted = len(completion.tokens)
    decode_s = (completion.total_ns - completion.ttft_ns) / 1e9
    return {
        "arm": arm,
        "finish_reason": completion.finish_reason,
        "failure": completion.failure,
        "fallback": completion.fallback,
        "new_tokens": emitted,
        "rounds": len(rounds),
        "tokens_per_round": emitted / len(rounds) if rounds else 0.0,
        "proposed": proposed,
        "accepted": sum(r.accepted for r in rounds),
        "ttft_ms": completion.ttft_ns / 1e6,
        "tokens_per_s": (emitted - 1) / decode_s if decode_s > 0 and emitted > 1 else 0.0,
    }


def told(numbers: dict[str, Any]) -> str:
    """The summary in one or two lines."""
    text = (
        f"{numbers['arm']}: {numbers['new_tokens']} tokens in {numbers['rounds']} rounds "
        f"({numbers['tokens_per_round']:.2f} a round), accepted {numbers['accepted']} of {numbers['proposed']} "
        f"proposed; first token after {numbers['ttft_ms']:.0f} ms, then {numbers['tokens_per_s']:.1f} tokens/s; "
        f"ended by {numbers['finish_reason']}"
    )
    if numbers["failure"] or numbers["fallback"]:
        text += f" ({numbers['failure'] or 'fallback to champion-alone: ' + numbers['fallback']})"
    return text
