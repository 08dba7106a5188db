"""The chat template renders what the model expects, and a hostile one can neither escape nor exhaust the machine."""

from __future__ import annotations

import time

import pytest
from draftgate.arms.engine.template import MARKS, ChatTemplate, TemplateError, choose_mark, mark_specials
from hypothesis import given
from hypothesis import strategies as st

HELLO = [{"role": "user", "content": "Hello"}]
SPECIALS = ["<|im_start|>", "<|im_end|>", "</s>", "<s>"]


def render(source: str, messages: list[dict[str, str]] | None = None) -> str:
    return ChatTemplate(source, "<s>", "</s>").render(HELLO if messages is None else messages)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}] {{ m.content | trim }}{% endfor %}",
            "<s>[user] Hello",
        ),
        ("{% for m in messages %}\n  {% if loop.first %}\nA{{ loop.index0 }}{% endif %}\n{% endfor %}", "A0"),
        ("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "1"),
        ("{% macro f(x, y='!') %}{{ x ~ y }}{% endmacro %}{{ f(messages[0].content) }}", "Hello!"),
        ("{{ messages[-1]['content'].split('l')[0] + eos_token }}", "He</s>"),
        ("{{ messages | tojson }}", '[{"role": "user", "content": "Hello"}]'),
        ("{{ {'a': 'é<'} | tojson(indent=1) }}", '{\n "a": "é<"\n}'),
        ("{% for m in messages[1:] %}x{% else %}none{% endfor %}", "none"),
        ("{% for k, v in messages[0].items() %}{{ k }}={{ v }};{% endfor %}", "role=user;content=Hello;"),
        ("{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join(',') }}", "Hello"),
        ("{% if tools is defined and tools %}x{% else %}{{ tools }}y{% endif %}", "y"),
        ("{% for i in range(3) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "02"),
        ("{{ '%' }}{{ 7 % 4 }}{{ 2 * 3 }}{{ 'a' in 'cat' }}{{ messages | length }}", "%36True1"),
        ("{{ messages[0].content.replace('l', 'L') | upper }}{{ 'x' if add_generation_prompt }}", "HELLOx"),
        ("{{ strftime_now('%d %b %Y') }}", "01 Jan 2025"),
        ("{% filter upper %}a{{ messages[0].role }}{% endfilter %}", "AUSER"),
        ("{% set x %}a{{ 1 }}{% endset %}{{ x }}", "a1"),
    ],
)
def test_what_real_templates_use_works(source: str, expected: str) -> None:
    assert render(source) == expected


def test_the_template_can_refuse_messages() -> None:
    with pytest.raises(TemplateError, match="refuses these messages: roles must alternate"):
        render("{% if messages[0].role == 'user' %}{{ raise_exception('roles must alternate') }}{% endif %}")


def grown(start: str, step: str) -> str:
    """A template that lets one value grow ninety-nine times."""
    return "{% set ns = namespace(x=" + start + ") %}{% for i in range(99) %}{% set ns.x = " + step + " %}{% endfor %}"


HOSTILE = [
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{{ i }}{% endfor %}{% endfor %}",
    "{{ range(10**9) | list }}",
    "{{ 'a' * 1000000000 }}",
    "{{ [1] * 1000000000 }}",
    grown("'aaaaaaaa'", "ns.x ~ ns.x"),
    grown("'aaaaaaaa'", "ns.x + ns.x"),
    grown("'aaaaaaaa'", "[ns.x, ns.x] | join"),
    grown("'aaaaaaaa'", "ns.x.replace('a', ns.x)"),
    grown("'aaaaaaaa'", "ns.x | replace('a', ns.x)"),
    grown("'aaaaaaaa'", "ns.x.join(['a', 'b', ns.x])"),
    grown("[1]", "[ns.x, ns.x]") + "{{ ns.x | tojson }}",
    grown("[1]", "ns.x + ns.x"),
    grown("{}", "{'a': ns.x, 'b': ns.x}"),
    grown("{}", "dict(a=ns.x, b=ns.x)"),
    grown("3", "ns.x * ns.x"),
    "{{ 10 ** 1000000 }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '{:1000000000}'.format(1) }}",
    "{{ 'x'.ljust(1000000000) }}",
    "{{ 'x'.zfill(1000000000) }}",
    "{{ 'x' | center(1000000000) }}",
    "{{ 'x' | indent(1000000000) }}",
    "{{ [1] | batch(1000000000, 0) | list }}",
    "{{ strftime_now('%1000000000Y') }}",
    "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "{% macro f() %}{% for i in range(90000) %}" + "x" * 100_000 + "{% endfor %}{% endmacro %}{{ f() }}",
    "{% set x %}{% for i in range(90000) %}" + "x" * 100_000 + "{% endfor %}{% endset %}",
    "{% for i in messages recursive %}{{ loop(messages) }}{% endfor %}",
    "{% for i in range(99999) %}{% set y = ('x' ~ messages)[1:] %}{% endfor %}",
    "{% include 'x' %}",
    "{% import 'os' as x %}",
    "{% extends 'x' %}",
    "{{" + "(" * 5000,
    "{{ 1 }}" * 100_000,
    "{{ 1",
    "{{ undefined.attribute }}",
    "{{ 1 / 0 }}",
    "{{ messages[7].content.x }}",
    "{{ 'a' + 1 }}",
    "{{ messages }}",
    "{{ messages ~ '' }}",
    "{{ messages | string }}",
]


@pytest.mark.parametrize("source", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_template_gets_one_line_and_little_time(source: str) -> None:
    started = time.process_time()
    with pytest.raises(TemplateError) as caught:
        render(source)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600
    assert time.process_time() - started < 20


ESCAPES = [
    "{{ ''.__class__ }}",
    "{{ messages.__class__ }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ ''['__class__'] }}",
    "{{ messages | attr('__class__') }}",
    "{{ messages | map(attribute='__class__') | first }}",
    "{{ range.__globals__ }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ raise_exception.__globals__ }}",
    "{{ strftime_now.__closure__ }}",
    "{{ self.__init__ }}",
    "{{ loop.__init__ }}",
    "{{ cycler.__init__ }}",
    "{{ lipsum.__globals__ }}",
    "{{ ().__class__ }}",
    "{{ 'a'.format }}",
    "{{ 'a'.format_map(messages[0]) }}",
    "{% macro f() %}{% endmacro %}{{ f.__init__ }}{{ f._environment }}",
    "{% set ns = namespace() %}{% set ns.__class__ = 1 %}{{ ns.__class__ }}",
    "{{ messages.append(1) }}",
    "{{ messages[0].update(a=1) }}",
    "{{ messages[0].pop('role') }}",
]


@pytest.mark.parametrize("source", ESCAPES)
def test_nothing_of_python_can_be_reached(source: str) -> None:
    """Either refused, or the attribute is simply not there and prints nothing."""
    try:
        text = render(source)
    except TemplateError:
        return
    assert text in ("", "1")


def test_a_template_over_the_size_limit_is_refused() -> None:
    with pytest.raises(TemplateError, match="the limit is"):
        ChatTemplate("x" * 300_000)


def test_a_template_keeps_no_state_between_renderings() -> None:
    template = ChatTemplate("{% for i in range(90000) %}{% endfor %}{{ messages[0].content }}")
    assert [template.render(HELLO) for _ in range(8)] == ["Hello"] * 8


@pytest.mark.parametrize(
    "text", ["<|im_end|>", "a<|im_end|>b<|im_start|>", "<|im_<|im_end|>end|>", "<s></s><s>", "<<s>>"]
)
def test_marked_text_holds_no_special_token(text: str) -> None:
    mark = choose_mark([text])
    marked = mark_specials(text, SPECIALS, mark)
    assert marked.replace(mark, "") == text
    assert not any(special in marked for special in SPECIALS)


@given(
    before=st.sampled_from(["", "<", "<|im_", "<|im_end|", "<s", "</", " "]),
    text=st.lists(
        st.sampled_from(["<|im_start|>", "<|im_end|>", "<", "|>", "s>", "/s>", ">", "|im_end", "x", " ", "\n"])
    ),
    after=st.sampled_from(["", ">", "|>", "_end|>", "s>", "|im_end|>", " "]),
)
def test_neighbouring_text_cannot_complete_a_special_token(before: str, text: list[str], after: str) -> None:
    """No special token reaches into the message, however the template's own text surrounds or trims it."""
    message = "".join(text)
    mark = choose_mark([message])
    for trimmed in (mark_specials(message, SPECIALS, mark), mark_specials(message, SPECIALS, mark).strip()):
        whole = before + trimmed + after
        for special in SPECIALS:
            at = whole.find(special)
            while at >= 0:
                assert at + len(special) <= len(before) or at >= len(before) + len(trimmed) or not trimmed.strip(mark)
                at = whole.find(special, at + 1)


def test_plain_text_is_left_alone() -> None:
    assert mark_specials("Hello, world. 1 < 2", SPECIALS, "\ufdd0") == "Hello, world. 1 < 2"


def test_marks_run_out_loudly() -> None:
    assert choose_mark(["a", MARKS[0]]) == MARKS[1]
    with pytest.raises(TemplateError, match="every Unicode noncharacter"):
        choose_mark(["".join(MARKS)])
