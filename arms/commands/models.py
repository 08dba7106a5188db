"""List, pull, inspect or clean models.

A model is a GGUF file: given by path, bundled with draftgate, or downloaded once by name into the user cache
($DRAFTGATE_CACHE, else $XDG_CACHE_HOME/draftgate, else ~/.cache/draftgate).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="bundled and registered models, and which are on this machine")
    listing.add_argument("--json", action="store_true", help="print JSON")
    pulling = actions.add_parser("pull", help="download a registered model, check its hash, keep it in the cache")
    pulling.add_argument("name", nargs="+")
    inspecting = actions.add_parser("inspect", help="architecture, sizes, quantisation, hashes, licence of a model")
    inspecting.add_argument("model", help="a path or a name")
    inspecting.add_argument("--json", action="store_true", help="print JSON")
    actions.add_parser("clean", help="remove downloaded models from the cache")


def run(args: argparse.Namespace, services: Any) -> int:
    actions = {"list": _list, "pull": _pull, "inspect": _inspect, "clean": _clean}
    return actions[args.action](args)


def _list(args: argparse.Namespace) -> int:
    from ..bundled_models import bundled
    from ..model_cache import cached_path, is_cached
    from ..model_registry import REGISTRY
    from ..training_receipt import read_document

    def licence(path: Path) -> str:
        found = read_document(path)
        return str(found[0].get("licence") or "") if found else ""

    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "source": "bundled",
            "here": True,
            "bytes": path.stat().st_size,
            "path": str(path),
            "licence": licence(path),
        }
        for name, path in bundled().items()
    ]
    rows += [
        {
            "name": model.name,
            "source": "registered",
            "here": is_cached(model),
            "bytes": model.bytes,
            "path": str(cached_path(model)),
            "licence": model.licence,
            "about": model.about,
        }
        for model in REGISTRY.values()
    ]
    if args.json:
        print(json.dumps(rows, indent=2))
        return 0
    for row in rows:
        state = "on this machine" if row["here"] else f"get it with: draftgate models pull {row['name']}"
        print(f"{row['name']:<28} {row['bytes'] / 1e6:8.1f} MB  {row['source']:<11} {state}")
    return 0


def _pull(args: argparse.Namespace) -> int:
    from rich.console import Console

    from ..models import pull

    console = Console(stderr=True)
    for name in args.name:
        if console.is_terminal:
            with console.status(f"getting {name}"):
                path = pull(name)
        else:
            path = pull(name)
        print(path)
    return 0


def _inspect(args: argparse.Namespace) -> int:
    from ..engine.gguf import read_gguf
    from ..model_info import describe
    from ..models import resolve

    info = describe(read_gguf(resolve(args.model)))
    if args.json:
        print(json.dumps(info.as_dict(), indent=2))
        return 0
    mix = ", ".join(
        f"{kind} {entry['tensors']} tensors {entry['bytes'] / 1e6:.1f} MB" for kind, entry in info.quantisation.items()
    )
    heads = f"{info.heads} heads, {info.kv_heads or info.heads} of keys and values"
    shape = f"{info.layers} layers of width {info.width}, {heads}"
    lines = {
        "path": info.path,
        "name": info.name,
        "architecture": f"{info.architecture} (GGUF version {info.gguf_version})",
        "size": f"{info.bytes} bytes, {info.parameters / 1e6:.1f} million parameters",
        "shape": shape if info.layers is not None else None,
        "context": f"{info.context_limit} tokens" if info.context_limit is not None else None,
        "quantisation": mix or "no tensors",
        "vocabulary": f"{info.vocabulary} tokens" if info.vocabulary is not None else None,
        "file sha256": info.sha256,
        "tokenizer sha256": info.tokenizer_sha256 or "unsupported tokenizer",
        "template sha256": info.template_sha256 or "no chat template",
        "licence": info.licence or "not stated in the file",
        "draft of": f"the champion with sha256 {info.champion_sha256}" if info.champion_sha256 else None,
        "receipt": _about(info),
        "usable": "yes" if info.problem is None else f"no: {info.problem}",
    }
    for label, value in lines.items():
        if value is not None:
            print(f"{label:<17} {_printable(value)}")
        if label == "receipt" and info.receipt is not None:
            for key, said in sorted(info.receipt.items()):
                print(f"  {_printable(key):<21} {_printable(said if isinstance(said, str) else json.dumps(said))}")
    return 0


def _printable(text: str) -> str:
    """Text from an untrusted file, without the control characters that would steer a terminal."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _clean(args: argparse.Namespace) -> int:
    from ..model_cache import clean, models_folder

    removed = clean()
    for path in removed:
        print(f"removed {path}")
    if not removed:
        print(f"nothing to remove in {models_folder()}", file=sys.stderr)
    return 0


def _about(info: Any) -> str:
    if info.receipt is None:
        return "none beside the file"
    return "of this file:" if info.receipt.get("file_sha256") == info.sha256 else "OF ANOTHER FILE (sha256 differs):"
