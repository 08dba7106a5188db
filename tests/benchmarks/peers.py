"""Our engine against llama.cpp and ik_llama.cpp: same file, same threads, same calls, interleaved.

    python tests/benchmarks/peers.py [MODEL] [--json] [--peer-python PYTHON] [--threads 1 2] [--contexts 200]

Each measurement is a fresh process (no engine's waiting threads disturb another's). The processes of one round follow
each other, so a slow minute of the machine slows all of them; ratios are medians over rounds of ours over theirs.
Decoding and calls of several columns are measured at the context named, every time: what a call appends is taken back.
``--peer-python`` is an interpreter with ``llama-cpp-python`` and ``ik-llama-cpp-python``; what it lacks is skipped.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

OURS, PEERS = "draftgate", ("llama.cpp", "ik_llama.cpp")
PREFILL_TOKENS, DECODED, BLOCKS, COLUMNS = 512, 40, 10, 5
VOCABULARY = 40_000


class Feed(Protocol):
    def __call__(self, tokens: Sequence[int], every: bool, keep: bool = True) -> None:
        """Append tokens, with logits for ``every`` one of them or the last only; take them back unless ``keep``."""


def open_ours(path: str, threads: int, context: int) -> tuple[Callable[[], None], Feed]:
    from draftgate.arms.engine.engine import NativeEngine

    engine = NativeEngine.load(path, threads=threads)
    state: dict[str, Any] = {}

    def reset() -> None:
        if "cache" in state:
            state["cache"].close()
        state["cache"] = engine.new_cache(context)

    def feed(tokens: Sequence[int], every: bool, keep: bool = True) -> None:
        transaction = state["cache"].begin()
        engine.verify_linear(transaction, tokens, "all" if every else "last")
        transaction.commit_prefix(len(tokens) if keep else 0)

    return reset, feed


def open_peer(
    api: Any, pointer: Any, clear: Callable[[], None], forget: Callable[[int], None], context: int
) -> tuple[Callable[[], None], Feed]:
    """Either peer through its C interface: the two share it but for how a context is cleared, or cut at a place."""
    batch = api.llama_batch_init(context, 0, 1)
    at = {"position": 0}

    def reset() -> None:
        clear()
        at["position"] = 0

    def feed(tokens: Sequence[int], every: bool, keep: bool = True) -> None:
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i] = token
            batch.pos[i] = at["position"] + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = every or i == len(tokens) - 1
        if api.llama_decode(pointer, batch) != 0:
            raise RuntimeError("llama_decode failed")
        if api.llama_get_logits_ith(pointer, len(tokens) - 1)[0] == 0.0:  # waits for the result
            raise RuntimeError("llama_decode left no logits")
        if keep:
            at["position"] += len(tokens)
        else:
            forget(at["position"])

    return reset, feed


def open_llama_cpp(path: str, threads: int, context: int) -> tuple[Callable[[], None], Feed]:
    import llama_cpp

    model = llama_cpp.Llama(
        path, n_ctx=context, n_batch=context, n_threads=threads, n_threads_batch=threads, verbose=False
    )

    def clear() -> None:  # holds on to the model: it frees its context when it is collected
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(model.ctx), True)

    def forget(position: int) -> None:
        if not llama_cpp.llama_memory_seq_rm(llama_cpp.llama_get_memory(model.ctx), 0, position, -1):
            raise RuntimeError("llama_memory_seq_rm failed")

    return open_peer(llama_cpp, model.ctx, clear, forget, context)


def open_ik_llama_cpp(path: str, threads: int, context: int) -> tuple[Callable[[], None], Feed]:
    import ik_llama_cpp
    from ik_llama_cpp import _ctypes_api

    model = ik_llama_cpp.IkLlama(path, n_ctx=context, n_threads=threads, verbose=False)
    remove = _ctypes_api._lib.llama_kv_cache_seq_rm  # in the library, but not in the wheel's Python names
    remove.argtypes, remove.restype = [ctypes.c_void_p, *[ctypes.c_int32] * 3], ctypes.c_bool

    def forget(position: int) -> None:
        if not remove(model.ctx, 0, position, -1):
            raise RuntimeError("llama_kv_cache_seq_rm failed")

    return open_peer(_ctypes_api, model.ctx, lambda: model._context.kv_cache_clear(), forget, context)


OPENERS = {OURS: open_ours, "llama.cpp": open_llama_cpp, "ik_llama.cpp": open_ik_llama_cpp}


def tokens_of(count: int, seed: int) -> list[int]:
    """Arbitrary ordinary ids, the same for every engine."""
    return [100 + (seed * 7919 + i * 104_729) % VOCABULARY for i in range(count)]


def work(name: str, path: str, threads: int, contexts: list[int]) -> dict[str, Any]:
    """One process's measurements of one engine, tokens and calls per second."""
    clock = time.perf_counter
    started = clock()
    reset, feed = OPENERS[name](path, threads, max(*contexts, PREFILL_TOKENS) + COLUMNS + 8)
    found: dict[str, Any] = {"load_s": clock() - started, "contexts": {}}
    reset()
    feed(tokens_of(64, 1), False)  # warm-up
    rates = []
    for repeat in range(2):
        reset()
        started = clock()
        feed(tokens_of(PREFILL_TOKENS, repeat), False)
        rates.append(PREFILL_TOKENS / (clock() - started))
    found["prefill"] = max(rates)
    for context in contexts:
        reset()
        started = clock()
        for start in range(0, context, PREFILL_TOKENS):
            feed(tokens_of(min(PREFILL_TOKENS, context - start), start), False)
        filled = clock() - started
        singles, blocks = [], []
        for i in range(DECODED):
            started = clock()
            feed(tokens_of(1, i), True, keep=False)
            singles.append(clock() - started)
        for i in range(BLOCKS):
            started = clock()
            feed(tokens_of(COLUMNS, i), True, keep=False)
            blocks.append(clock() - started)
        single, block = statistics.median(singles), statistics.median(blocks)
        found["contexts"][str(context)] = {
            "decode": 1 / single,
            "prefill": context / filled,
            "five_columns_cost": block / single,
        }
    return found


def run_worker(python: str, name: str, args: argparse.Namespace, threads: int) -> dict[str, Any] | None:
    command = [python, os.path.abspath(__file__), args.model, "--worker", name, "--threads", str(threads)]
    command += ["--contexts", *map(str, args.contexts)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    finished = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if finished.returncode != 0:
        lines = finished.stderr.strip().splitlines() or ["no message"]
        print(f"{name} on {threads} threads did not run: {lines[-1][:200]}", file=sys.stderr)
        return None
    result: dict[str, Any] = json.loads(finished.stdout.strip().splitlines()[-1])
    return result


def compare(args: argparse.Namespace) -> dict[str, Any]:
    pythons = {OURS: sys.executable} | dict.fromkeys(PEERS, args.peer_python)
    rounds: dict[int, list[dict[str, dict[str, Any]]]] = {threads: [] for threads in args.threads}
    missing: set[str] = set()
    for number in range(args.rounds):
        for threads in args.threads:
            names = [name for name in (OURS, *PEERS) if name not in missing]
            shifted = names[number % len(names) :] + names[: number % len(names)]
            results = {name: run_worker(pythons[name], name, args, threads) for name in shifted}
            missing |= {name for name, result in results.items() if result is None}
            rounds[threads].append({name: result for name, result in results.items() if result is not None})
            print(f"round {number + 1} of {args.rounds}, {threads} threads", file=sys.stderr)
    peers = {
        name: {str(threads): ratios(rounds[threads], name, args.contexts) for threads in args.threads}
        for name in PEERS
        if name not in missing
    }
    measured = {
        name: {str(threads): summary([r[name] for r in rounds[threads] if name in r]) for threads in args.threads}
        for name in (OURS, *PEERS)
        if name not in missing
    }
    return {
        "ratios": peers.get(PEERS[0], {}),
        "peers": peers,
        "measured": measured,
        "rounds": args.rounds,
        "kernel": os.environ.get("DRAFTGATE_KERNEL", "the fastest here"),
        "processors": os.cpu_count(),
    }


def ratios(rounds: list[dict[str, dict[str, Any]]], peer: str, contexts: list[int]) -> dict[str, Any]:
    """Ours over theirs: at the first context under the plain names, at every context under its own."""
    pairs = [(r[OURS], r[peer]) for r in rounds if OURS in r and peer in r]

    def ratio(pick: Callable[[dict[str, Any]], float]) -> float:
        return statistics.median(pick(ours) / pick(theirs) for ours, theirs in pairs)

    at = {
        str(c): {
            key: ratio(lambda m, c=c, key=key: float(m["contexts"][str(c)][key]))  # type: ignore[misc]
            for key in ("decode", "prefill")
        }
        for c in contexts
    }
    first = at[str(contexts[0])]
    return {"decode": first["decode"], "prefill": ratio(lambda m: float(m["prefill"])), "contexts": at}


def summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over rounds, of the same shape as one result."""
    first = results[0]
    return {
        key: summary([r[key] for r in results])
        if isinstance(value, dict)
        else statistics.median(float(r[key]) for r in results)
        for key, value in first.items()
    }


def table(result: dict[str, Any]) -> str:
    lines = ["engine         threads  context   decode/s  prefill/s  5 columns cost  ours/theirs decode, prefill"]
    for name, by_threads in result["measured"].items():
        for threads, found in by_threads.items():
            for context, row in found["contexts"].items():
                ratio = result["peers"].get(name, {}).get(threads, {}).get("contexts", {}).get(context)
                versus = f"{ratio['decode']:.2f}, {ratio['prefill']:.2f}" if ratio else ""
                lines.append(
                    f"{name:<14} {threads:>7} {context:>8} {row['decode']:>10.1f} {row['prefill']:>10.1f} "
                    f"{row['five_columns_cost']:>15.2f}  {versus}"
                )
    lines += [
        f"prefill of {PREFILL_TOKENS} tokens, ours over {name}, {threads} threads: {r['prefill']:.2f}"
        for name, by_threads in result["peers"].items()
        for threads, r in by_threads.items()
    ]
    return "\n".join(lines)


def default_model() -> str:
    from draftgate.arms.models import pull

    return str(pull("smollm2-135m-instruct"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default=None, help="a GGUF file; default: smollm2-135m-instruct")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--contexts", type=int, nargs="+", default=[200])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", choices=sorted(OPENERS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.model = str(Path(args.model).resolve()) if args.model else default_model()
    if args.worker:
        print(json.dumps(work(args.worker, args.model, args.threads[0], args.contexts)))
        return 0
    result = compare(args)
    print(json.dumps(result, indent=2) if args.json else table(result))
    return 0 if result["peers"] else 2


if __name__ == "__main__":
    sys.exit(main())
