"""A plan file before it is composed: readable text of a sane size and shape, so that no parser above it is tried."""

from __future__ import annotations

from pathlib import Path

from .errors import PlanError

MAX_BYTES = 1 << 20
MAX_DEPTH = 32


def check_plan_text(path: Path) -> None:
    """Raises PlanError for what cannot be read, is not UTF-8, is too long or too deep, or uses anchors."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise PlanError(f"{path}: cannot be read ({error.strerror})") from None
    if len(raw) > MAX_BYTES:
        raise PlanError(f"{path}: more than {MAX_BYTES >> 20} MiB is no plan")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise PlanError(f"{path}:{line}: not UTF-8 (byte 0x{raw[error.start]:02x}); save the file as UTF-8") from None
    _shape(path, text)


def _shape(path: Path, text: str) -> None:
    """Walks the parser's events, which need no recursion and build nothing."""
    import yaml  # type: ignore[import-untyped]

    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            line = event.start_mark.line + 1
            if getattr(event, "anchor", None) is not None:
                raise PlanError(f"{path}:{line}: a plan is written out: no anchors (&) and no aliases (*)")
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > MAX_DEPTH:
                    raise PlanError(f"{path}:{line}: nested more than {MAX_DEPTH} deep")
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    except yaml.YAMLError as error:
        raise PlanError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
