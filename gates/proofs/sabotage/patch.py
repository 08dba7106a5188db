"""Planting faults from outside: an asserted patch of a shipped function's syntax tree, or a replacement, undone.

Nothing in the shipped code knows of this. A patch names the source it expects; if that source is not there exactly as
often as expected, planting fails loudly, so a fault can never turn into a no-op when the code moves on.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any


class PatchDidNotApply(AssertionError):
    """The source to be replaced is not in the function, or not as often as expected."""


def _nodes(source: str) -> tuple[str, list[ast.stmt] | ast.expr]:
    body = ast.parse(textwrap.dedent(source)).body
    if len(body) == 1 and isinstance(body[0], ast.Expr):
        return "expression", body[0].value
    return "statements", body


def _same(a: ast.AST, b: ast.AST) -> bool:
    """Equal up to load or store context and positions."""
    return ast.dump(a).replace("Store()", "Load()") == ast.dump(b).replace("Store()", "Load()")


class _Replace(ast.NodeTransformer):
    def __init__(self, old: list[ast.stmt] | ast.expr, new: list[ast.stmt] | ast.expr) -> None:
        self.old, self.new, self.hits = old, new, 0

    def visit(self, node: ast.AST) -> Any:
        if isinstance(self.old, ast.expr) and isinstance(node, ast.expr) and _same(node, self.old):
            self.hits += 1
            assert isinstance(self.new, ast.expr)
            return self.new
        self.generic_visit(node)
        if isinstance(self.old, list):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list):
                    setattr(node, name, self._replace_run(block))
        return node

    def _replace_run(self, block: list[ast.stmt]) -> list[ast.stmt]:
        assert isinstance(self.old, list)
        if not block:
            return block
        out: list[ast.stmt] = []
        i, size = 0, len(self.old)
        while i < len(block):
            run = block[i : i + size]
            if len(run) == size and all(_same(a, b) for a, b in zip(run, self.old, strict=True)):
                self.hits += 1
                new = [ast.Expr(self.new)] if isinstance(self.new, ast.expr) else self.new
                out.extend(new)
                i += size
            else:
                out.append(block[i])
                i += 1
        return out or [ast.Pass()]


def patched(function: Callable[..., Any], *changes: tuple[str, str], expect: int | Sequence[int] = 1) -> FunctionType:
    """``function`` recompiled with each (old, new) pair of source fragments exchanged.

    A fragment is one expression or a run of statements of one block. ``expect`` is how often each must be found. Raises
    PatchDidNotApply otherwise.
    """
    plain = inspect.unwrap(function)
    if not isinstance(plain, FunctionType) or plain.__closure__:
        raise PatchDidNotApply(f"{function!r} is not a plain function")
    tree = ast.parse(textwrap.dedent(inspect.getsource(plain)))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    counts = [expect] * len(changes) if isinstance(expect, int) else list(expect)
    for (old, new), count in zip(changes, counts, strict=True):
        kind, old_nodes = _nodes(old)
        new_kind, new_nodes = _nodes(new)
        if kind == "expression" and new_kind != "expression":
            old_nodes = ast.parse(textwrap.dedent(old)).body
        transformer = _Replace(old_nodes, new_nodes)
        tree = transformer.visit(tree)
        if transformer.hits != count:
            raise PatchDidNotApply(f"{plain.__qualname__}: {old!r} found {transformer.hits} times, expected {count}")
    ast.fix_missing_locations(tree)
    space: dict[str, Any] = {}
    exec(compile(tree, f"<patched {plain.__qualname__}>", "exec"), plain.__globals__, space)
    made = space[plain.__name__]
    assert isinstance(made, FunctionType)
    made.__qualname__, made.__defaults__, made.__kwdefaults__ = (
        plain.__qualname__,
        plain.__defaults__,
        plain.__kwdefaults__,
    )
    return made


@contextmanager
def planted(owner: Any, name: str, replacement: Any) -> Iterator[None]:
    """Put ``replacement`` where ``owner.name`` is, and wherever else the package holds that object by that name.

    ``owner`` is a module, a class or an instance. Everything is put back on exit. Raises PatchDidNotApply where the
    name does not exist or the replacement is the original.
    """
    if not hasattr(owner, name):
        raise PatchDidNotApply(f"{owner!r} has no {name}")
    own = name in vars(owner)
    stored = vars(owner)[name] if own else None
    original = getattr(owner, name)
    if replacement is original:
        raise PatchDidNotApply(f"{name}: the replacement is the original")
    root = __name__.split(".gates.")[0]
    holders = []
    if inspect.ismodule(owner):
        for module_name, module in list(sys.modules.items()):
            if module is not owner and module_name.startswith(root) and vars(module).get(name) is original:
                holders.append(module)
    setattr(owner, name, replacement)
    for module in holders:
        setattr(module, name, replacement)
    try:
        yield
    finally:
        if own:
            setattr(owner, name, stored)
        else:
            delattr(owner, name)
        for module in holders:
            setattr(module, name, original)
