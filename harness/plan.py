"""From overrides to a composed plan: Hydra's compose API, then a fresh structured schema that refuses what it lacks."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from .errors import PlanError
from .plan_text import check_plan_text

DEFAULT_PLAN = "demo"
_NO_SUCH_KEY = re.compile(r"Could not override '([^'/]+)'|^Key '[^']*' not in .*full_key: (\S+)", re.DOTALL)


@dataclass(frozen=True)
class ComposedPlan:
    """A plan before its freeze: plain JSON values in two parts."""

    confirmatory: dict[str, Any]
    operational: dict[str, Any]


def conf_folder() -> Path:
    """The bundled groups and plans."""
    return Path(str(files(__package__))) / "conf"


def bundled_plans() -> list[str]:
    return sorted(p.stem for p in (conf_folder() / "plan").glob("*.yaml"))


def split_plan_name(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """``plan=NAME`` out of the overrides; None when it is not there."""
    named = [w.partition("=")[2] for w in words if w.startswith("plan=")]
    if len(named) > 1:
        raise PlanError(f"plan= is given {len(named)} times; give it once")
    return (named[0] if named else None), [w for w in words if not w.startswith("plan=")]


def compose_plan(
    words: Sequence[str] = (),
    *,
    plan_file: Path | None = None,
    champion: str | None = None,
    draft: str | None = None,
) -> ComposedPlan:
    """Compose ``plan=NAME`` (default demo) or a user's file with overrides.

    ``champion`` and ``draft`` are names or paths given as options: paths need no quoting there. Raises PlanError for an
    unknown plan, group, key or value, a deleted node, and interpolation in the confirmatory part.
    """
    name, overrides = split_plan_name(words)
    for word in overrides:
        if word.startswith("~"):
            raise PlanError(f"{word}: a plan's field cannot be deleted; set it to another value or to null")
        if word.startswith(("hydra.", "+hydra.", "++hydra.", "hydra/", "+hydra/")):
            raise PlanError(f"{word}: hydra's own settings are not part of a plan")
    if plan_file is not None and name is not None:
        raise PlanError(f"plan={name} and --plan {plan_file}: give one of them")
    raw = _compose(name or DEFAULT_PLAN, plan_file, overrides)
    plain = _strict(raw, champion, draft, lambda error: _misspelt(error, name or DEFAULT_PLAN, plan_file, overrides))
    operational = plain.pop("operational")
    return ComposedPlan(plain, operational)


def _compose(name: str, plan_file: Path | None, overrides: list[str]) -> Any:
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError  # type: ignore[import-untyped]

    folder, config, given = conf_folder(), f"plan/{name}", overrides
    if plan_file is not None:
        if not plan_file.is_file():
            raise PlanError(f"{plan_file}: no such plan file")
        if plan_file.suffix not in (".yaml", ".yml"):
            raise PlanError(f"{plan_file}: a plan file ends in .yaml")
        check_plan_text(plan_file)
        config = plan_file.stem
        overrides = [f"hydra.searchpath=['file://{folder}']", *overrides]
        folder = plan_file.resolve().parent
    elif name not in bundled_plans():
        raise PlanError(f"plan={name}: no such plan; there are {', '.join(bundled_plans())}, or --plan FILE")
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(folder), version_base="1.3"):
            return compose(config_name=config, overrides=overrides)
    except (HydraException, OmegaConfBaseException, YAMLError, ValueError, RecursionError) as error:
        hint = _misspelt(error, name, plan_file, given)
        raise PlanError(hint or f"the plan does not compose: {_first_lines(error)}") from None
    finally:
        GlobalHydra.instance().clear()


def _misspelt(error: Exception, name: str, plan_file: Path | None, overrides: Sequence[str]) -> str:
    """The nearest real key where the error is about one that does not exist; empty where it is about something else.

    Hydra's own advice (write +KEY) would only lead to the next refusal.
    """
    from omegaconf import OmegaConf

    from .plan_keys import key_hint

    found = _NO_SUCH_KEY.search(str(error))
    if found is None:
        return ""
    composed: Any = {}
    if overrides:
        with contextlib.suppress(PlanError):
            composed = OmegaConf.to_container(_compose(name, plan_file, []), resolve=False)
    return key_hint(found[1] or found[2], composed)


def _strict(raw: Any, champion: str | None, draft: str | None, misspelt: Callable[[Exception], str]) -> dict[str, Any]:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from .plan_schema import PlanConf

    hit = next(_interpolations(OmegaConf.to_container(raw, resolve=False), ""), None)
    if hit is not None:
        raise PlanError(f"{hit}: a frozen plan holds values, not interpolation (${{…}})")
    try:
        for which, given in (("champion", champion), ("draft", draft)):
            said = given if given is not None else raw.get(which)
            if isinstance(said, str):  # a plan may say `draft: NAME` for `draft: {name: NAME}`
                OmegaConf.update(raw, which, {"name": said}, force_add=True)
        merged = OmegaConf.merge(OmegaConf.structured(PlanConf), raw)
        missing = sorted(OmegaConf.missing_keys(merged))
        if missing:
            raise PlanError("the plan does not say: " + ", ".join(missing))
        plain = OmegaConf.to_container(merged, resolve=False, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise PlanError(misspelt(error) or f"the plan is not valid: {_first_lines(error)}") from None
    assert isinstance(plain, dict)
    return {str(k): v for k, v in plain.items()}


def _interpolations(node: Any, where: str) -> Iterator[str]:
    """Paths of plain values and keys that hold ``${``, at any depth."""
    if isinstance(node, str) and "${" in node:
        yield where
    items: Iterable[tuple[Any, Any]] = node.items() if isinstance(node, dict) else ()
    if isinstance(node, list):
        items = enumerate(node)
    for key, child in items:
        if isinstance(key, str) and "${" in key:
            yield f"{where}.{key}" if where else key
        yield from _interpolations(child, f"{where}.{key}" if where else str(key))


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    choices = next((i for i, line in enumerate(lines) if line.startswith("Available options in")), None)
    if choices is not None:
        listed = itertools.takewhile(lambda line: not line.startswith("Config search path"), lines[choices + 1 :])
        return f"{' '.join(lines[:choices])}. {lines[choices]} {', '.join(listed)}"
    return " ".join(line for line in lines[:3] if not line.startswith(("object_type=", "reference_type=")))
