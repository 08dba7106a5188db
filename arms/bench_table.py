"""`draftgate bench`'s report as tables for people."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table


def print_report(report: dict[str, Any], console: Console) -> None:
    machine = report["machine"]
    console.print(f"{report['model']['name']}, {report['model']['bytes'] / 1e6:.1f} MB; kernel {report['kernel']}")
    console.print(f"{machine['processor']}, {machine['processors']} processors")
    console.print(
        f"load {report['load_s']:.2f} s; resident {report['resident_bytes'] / 1e6:.1f} MB "
        f"({report['resident_bytes'] / report['model']['bytes']:.2f} × the file, "
        f"loading added {report['added_bytes']['unique'] / 1e6:.1f} MB, "
        f"the first text {report['added_bytes']['first_text'] / 1e6:.1f} MB); "
        f"keys and values {report['kv_bytes_per_token'] / 1e3:.1f} kB a token"
    )
    console.print(_rates(report))
    console.print(_costs(report))
    for threads, found in report["threads"].items():
        if "exchange_ns" in found:
            console.print(
                f"{threads} threads: a cache line goes from one thread to another in {found['exchange_ns']:.0f} ns "
                "(tens where they share a cache, hundreds where not: then each column of a call costs more)"
            )
    if "overhead" in report:
        console.print(_overhead(report["overhead"]))
        rows = report["overhead"]["five_rows"]
        costs = ", ".join(f"{name.removesuffix('_us')} {value:.0f} µs" for name, value in rows.items() if "_us" in name)
        console.print(f"choosing tokens from five rows, at most: {costs}")


def _rates(report: dict[str, Any]) -> Table:
    table = Table(title="Rates", box=box.SIMPLE_HEAD)
    for heading in ("threads", "context", "decode/s", "MB read", "GB/s", "share", "prefill/s", "8 sequences/s"):
        table.add_column(heading, justify="right")
    for threads, found in report["threads"].items():
        for i, (context, row) in enumerate(found["contexts"].items()):
            prefill = found["prefill_tokens_per_s"] if i == 0 else row["filling_tokens_per_s"]
            together = next(iter(found["sequences"].values()))
            table.add_row(
                threads if i == 0 else "",
                context,
                f"{row['decode_tokens_per_s']:.1f}",
                f"{row['bytes_read_per_token'] / 1e6:.1f}",
                f"{found['bandwidth_bytes_per_s'] / 1e9:.1f}" if i == 0 else "",
                f"{row['bandwidth_share']:.0%}",
                f"{prefill:.0f}",
                f"{together['tokens_per_s']:.0f} ({together['ratio']:.1f} ×)" if i == 0 else "",
            )
    return table


def _overhead(overhead: dict[str, Any]) -> Table:
    table = Table(title="A round of the arms: inside the models and outside", box=box.SIMPLE_HEAD)
    for heading in ("decoding", "rounds", "round µs", "models µs", "outside µs", "share outside"):
        table.add_column(heading, justify="left" if heading == "decoding" else "right")
    for name, row in overhead.items():
        if isinstance(row, dict) and row.get("rounds"):
            numbers = [f"{row[key]:.0f}" for key in ("rounds", "round_us", "forward_us", "outside_us")]
            table.add_row(name, *numbers, f"{row['outside_share']:.1%}")
    return table


def _costs(report: dict[str, Any]) -> Table:
    table = Table(title="Cost of a call, relative to a call of one token", box=box.SIMPLE_HEAD)
    table.add_column("threads", justify="right")
    table.add_column("context", justify="right")
    lengths = list(next(iter(report["threads"].values()))["verify_cost"])
    for length in lengths:
        table.add_column(length, justify="right")
    for threads, found in report["threads"].items():
        for i, (context, row) in enumerate(found["contexts"].items()):
            costs = [f"{row['verify_cost'][length]:.2f}" for length in lengths]
            table.add_row(threads if i == 0 else "", context, *costs)
    return table
