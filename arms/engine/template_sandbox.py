"""A jinja2 environment for templates nobody vouches for: no attributes, no files, and a meter on everything that grows.

A chat template comes with a model file. jinja2's own sandbox keeps it from Python's internals; it does not bound time
or memory. So before compilation the template's tree is rewritten: loops, concatenations, literals and output pass
through the meter, which charges steps, characters and time. Methods and filters are the listed ones only.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from jinja2 import nodes, pass_context
from jinja2.ext import loopcontrols
from jinja2.runtime import LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

MAX_TEXT = 4 << 20
"""Characters of one string."""
MAX_TOTAL_TEXT = 32 << 20
"""Characters made in one rendering, intermediate strings included."""
MAX_ITEMS = 100_000
"""Elements of one container, nested ones counted each time they appear."""
MAX_STEPS = 500_000
"""Loop passes, calls and filters in one rendering."""
MAX_SECONDS = 5.0

STRING_METHODS = frozenset(
    "strip lstrip rstrip split rsplit splitlines partition rpartition startswith endswith upper lower title "
    "capitalize replace find rfind index count join isdigit isalpha isalnum isspace isupper islower removeprefix "
    "removesuffix".split()
)
DICT_METHODS = frozenset(("get", "items", "keys", "values"))
LIST_METHODS = frozenset(("index", "count"))
LOOP_ATTRIBUTES = frozenset("index index0 revindex revindex0 first last length previtem nextitem cycle depth".split())

FILTERS = frozenset(
    "abs batch capitalize count d default dictsort e escape first float indent int items join last length list lower "
    "map max min reject rejectattr replace reverse round safe select selectattr slice sort string sum title trim "
    "unique upper".split()
)


class LimitExceeded(Exception):
    """The template asked for more time, text or steps than any chat template needs."""


class Meter:
    """Counts what one rendering uses. Every method raises LimitExceeded past a limit."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.steps = self.characters = 0
        self.deadline = time.monotonic() + MAX_SECONDS

    def step(self, count: int = 1) -> None:
        self.steps += count
        if self.steps > MAX_STEPS:
            raise LimitExceeded(f"more than {MAX_STEPS} steps")
        if time.monotonic() > self.deadline:
            raise LimitExceeded(f"more than {MAX_SECONDS:g} seconds")

    def text(self, length: int) -> None:
        """Before a string of ``length`` characters is made, or after where it cannot be long."""
        self.step()
        self.characters += length
        if length > MAX_TEXT or self.characters > MAX_TOTAL_TEXT:
            raise LimitExceeded(f"more than {MAX_TEXT} characters in a string or {MAX_TOTAL_TEXT} in all")

    def value(self, value: Any) -> Any:
        """Charge a value that an operation has just made; returns it."""
        if isinstance(value, str):
            self.text(len(value))
        elif isinstance(value, int):
            if value.bit_length() > 1024:
                raise LimitExceeded("a number of more than 1024 bits")
        elif isinstance(value, (list, tuple, Mapping, Namespace)):
            self.step(self.weight(value))
        else:
            self.step()
        return value

    def weight(self, value: Any) -> int:
        """Elements of a container, nested ones each time they appear."""
        total, open_ = 0, [value]
        while open_:
            item = open_.pop()
            if isinstance(item, Mapping):
                open_.extend(item.values())
                total += len(item)
            elif isinstance(item, (list, tuple)):
                open_.extend(item)
            total += 1
            if total + len(open_) > MAX_ITEMS:
                raise LimitExceeded(f"a value of more than {MAX_ITEMS} elements")
        return total


class _Timed(list[Any]):
    """What a loop runs over: checks the time at every pass."""

    def __init__(self, items: Any, meter: Meter) -> None:
        super().__init__(items)
        self.meter = meter

    def __iter__(self) -> Any:
        for item in super().__iter__():
            self.meter.step()
            yield item


class _Rewriter(NodeTransformer):
    """Sends everything that grows through a metering filter; filters cannot be shadowed by a template's variables."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        if node.recursive:
            raise LimitExceeded("recursive loops are not supported")
        self.generic_visit(node)
        node.iter = _through("_loop", node.iter)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _through("_concat", nodes.List(node.nodes))

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Node:
        return nodes.Const(node.data)  # as an expression it passes the meter each time it is printed

    def visit_Dict(self, node: nodes.Dict | nodes.List) -> nodes.Node:
        self.generic_visit(node)
        return _through("_value", node)

    visit_List = visit_Dict

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        return _through("_value", node) if node.ctx == "load" else node

    def _refuse(self, node: nodes.Node) -> nodes.Node:
        raise LimitExceeded(f"{type(node).__name__.lower()} of other templates is not supported")

    visit_Include = visit_Import = visit_FromImport = visit_Extends = _refuse


def _through(name: str, node: nodes.Node) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None)


class MeteredEnvironment(ImmutableSandboxedEnvironment):
    """Not thread-safe while rendering: one meter an environment."""

    intercepted_binops = frozenset(("+", "*", "%", "**", "//", "/", "-"))

    def __init__(self, clock: Callable[[str], str]) -> None:
        self.meter = meter = Meter()

        @pass_context  # a context argument keeps jinja2 from folding constants past the meter
        def finalize(_: Any, value: Any) -> Any:
            if not isinstance(value, (str, int, float, Undefined)) and value is not None:
                raise LimitExceeded(f"prints a {type(value).__name__}; only text and numbers can be printed")
            return meter.value(value)

        super().__init__(
            trim_blocks=True, lstrip_blocks=True, optimized=False, extensions=[loopcontrols], finalize=finalize
        )
        self.filters = {name: self._metered(name, self.filters[name]) for name in FILTERS}
        self.filters |= {
            "_loop": lambda value: _Timed(value, meter),
            "_concat": self._concat,
            "_value": meter.value,
            "safe": str,
            "tojson": self._tojson,
        }
        self.globals = {
            "range": self._range,
            "namespace": Namespace,
            "dict": dict,
            "raise_exception": _raise_exception,
            "strftime_now": lambda format: clock(_strftime(format)),
        }

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = _Rewriter().visit(super()._parse(source, name, filename))
        return tree

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str):
            return attr in STRING_METHODS
        if isinstance(obj, Mapping):
            return attr in DICT_METHODS
        if isinstance(obj, (list, tuple)):
            return attr in LIST_METHODS
        if isinstance(obj, LoopContext):
            return attr in LOOP_ATTRIBUTES
        return isinstance(obj, Namespace) and not attr.startswith("_")

    def getitem(self, obj: Any, argument: Any) -> Any:
        return (
            self.meter.value(super().getitem(obj, argument))
            if isinstance(argument, slice)
            else (super().getitem(obj, argument))
        )

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "%" and isinstance(left, str):
            raise LimitExceeded("formatting with % is not supported")
        if operator == "*" and not (isinstance(left, (int, float)) and isinstance(right, (int, float))):
            raise LimitExceeded("repetition with * is not supported")
        if operator == "**" and not (isinstance(right, (int, float)) and abs(right) <= 64):
            raise LimitExceeded("powers above 64 are not supported")
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            self.meter.text(len(left) + len(right))
            return left + right
        return self.meter.value(super().call_binop(context, operator, left, right))

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        owner, name = getattr(__obj, "__self__", None), getattr(__obj, "__name__", "")
        if isinstance(owner, str):
            __self._charge_method(owner, name, args)
        elif not isinstance(owner, (Mapping, list, tuple, LoopContext)) and not (
            isinstance(__obj, Macro) or __obj in __self.globals.values()
        ):
            if isinstance(__obj, Undefined):
                __obj()  # raises the error that names what is undefined
            raise LimitExceeded(f"calls a {type(__obj).__name__}")
        __self.meter.step()
        return __self.meter.value(super().call(__context, __obj, *args, **kwargs))

    def _charge_method(self, owner: str, name: str, args: tuple[Any, ...]) -> None:
        if name == "join" and args:
            self._join_length(args[0], owner)
        elif name == "replace" and len(args) >= 2:
            self._replace_length(owner, args[0], args[1])
        else:
            self.meter.text(len(owner))

    def _join_length(self, items: Any, separator: Any) -> None:
        if not isinstance(items, (list, tuple, str, Mapping)):
            raise LimitExceeded(f"joins a {type(items).__name__}")
        self.meter.value(items)
        self.meter.text(sum(len(item) if isinstance(item, str) else 64 for item in items) + len(separator) * len(items))

    def _replace_length(self, text: Any, old: Any, new: Any) -> None:
        if not (isinstance(text, str) and isinstance(old, str) and isinstance(new, str)):
            raise LimitExceeded("replaces in something that is not text")
        self.meter.text(len(text) + text.count(old) * len(new))

    def _concat(self, items: list[Any]) -> str:
        for item in items:
            if not isinstance(item, (str, int, float, Undefined)) and item is not None:
                raise LimitExceeded(f"concatenates a {type(item).__name__}")
        self.meter.text(sum(len(item) if isinstance(item, str) else 0 for item in items))
        return "".join(str(item) for item in items)

    def _range(self, *bounds: int) -> list[int]:
        numbers = range(*bounds)
        if len(numbers) > MAX_ITEMS:
            raise LimitExceeded(f"a range of more than {MAX_ITEMS} numbers")
        return list(numbers)

    def _tojson(self, value: Any, indent: int | None = None, **options: Any) -> str:
        if isinstance(value, Undefined):
            value = None
        self.meter.value(value)
        width = min(indent, 8) if isinstance(indent, int) else None
        sort = bool(options.get("sort_keys", False))
        return str(self.meter.value(json.dumps(value, ensure_ascii=False, indent=width, sort_keys=sort)))

    def _metered(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        position = 1 if getattr(function, "jinja_pass_arg", None) else 0

        @wraps(function)
        def charged(*args: Any, **kwargs: Any) -> Any:
            value = args[position]
            rest = args[position + 1 :]
            self.meter.value(value)
            if name == "join":
                value = args[position] if isinstance(value, (str, Mapping)) else list(value)
                self._join_length(value, kwargs.get("d", rest[0] if rest else ""))
                args = (*args[:position], value, *rest)
            elif name == "replace":
                self._replace_length(value, *(rest[:2] if len(rest) >= 2 else (None, None)))
            elif name == "indent":
                width = kwargs.get("width", rest[0] if rest else 4)
                if not isinstance(width, int) or not 0 <= width <= 64:
                    raise LimitExceeded("indents by something other than 0 to 64")
                self.meter.text(len(value) + width * (value.count("\n") + 1))
            elif name in ("string", "trim", "upper", "lower", "title", "capitalize", "e", "escape"):
                if isinstance(value, (list, tuple, Mapping)):
                    raise LimitExceeded(f"makes text of a {type(value).__name__}")
            elif name in ("batch", "slice") and not (rest and isinstance(rest[0], int) and 0 < rest[0] <= MAX_ITEMS):
                raise LimitExceeded(f"{name} without a sensible count")
            result = function(*args, **kwargs)
            if not isinstance(result, (str, int, float, list, tuple, Mapping, Undefined)) and result is not None:
                result = self._listed(result)
            return self.meter.value(result)

        return charged

    def _listed(self, items: Any) -> list[Any]:
        """Lazy results become lists of limited length, so that nothing grows behind the meter."""
        kept: list[Any] = []
        for item in items:
            self.meter.step()
            kept.append(item)
        return kept


def _raise_exception(message: str) -> None:
    raise RaisedByTemplate(str(message)[:500])


class RaisedByTemplate(Exception):
    """The template itself refused the messages, through ``raise_exception``."""


def _strftime(format: Any) -> str:
    if not isinstance(format, str) or len(format) > 64 or not re.fullmatch(r"(?:%-?[A-Za-z%]|[^%])*", format):
        raise LimitExceeded("a date format with more than plain directives")
    return format
