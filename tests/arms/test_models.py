"""Models by name and path, and conversations to token ids."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from draftgate.arms import models
from draftgate.arms.engine.gguf import read_gguf
from draftgate.arms.engine.template import ChatTemplate, TemplateError
from draftgate.arms.engine.tokenizer import Tokenizer
from draftgate.arms.errors import ArmError
from draftgate.arms.model_info import describe
from draftgate.harness.cli import main
from hypothesis import given, settings
from hypothesis import strategies as st
from support.torture import CHATS
from support.vocabulary_files import write_small

GOLDEN: dict[str, Any] = json.loads((resources.files("draftgate.fixtures") / "golden/llamacpp-logits.json").read_text())
_cached: dict[str, models.Model] = {}


@pytest.fixture(scope="module")
def model(smollm2: Path) -> models.Model:
    """The real tokenizer and template; no test here needs the weights."""
    file = read_gguf(smollm2)
    tokenizer = Tokenizer.from_gguf(file)
    engine: Any = None
    return _cached.setdefault("m", models.Model(engine, tokenizer, models.load_template(file, tokenizer), file))


@dataclass
class Message:
    role: str
    content: str


@pytest.mark.parametrize("name", CHATS)
def test_chats_have_the_ids_of_llama_cpp(model: models.Model, name: str) -> None:
    """llama.cpp's ids of a rendering written out by hand in the golden files' maker."""
    assert model.encode_chat(CHATS[name]) == GOLDEN["cases"][f"chat {name}"]["ids"]
    assert model.encode_chat([Message(m["role"], m["content"]) for m in CHATS[name]]) == model.encode_chat(CHATS[name])


def test_without_generation_prompt_the_ids_are_a_prefix(model: models.Model) -> None:
    chat = CHATS["turns"]
    whole, shorter = model.encode_chat(chat), model.encode_chat(chat, add_generation_prompt=False)
    assert whole[: len(shorter)] == shorter
    assert model.tokenizer.decode(whole[len(shorter) :], special=True) == "<|im_start|>assistant\n"


MESSAGE = st.lists(
    st.sampled_from(
        ["<|im_start|>", "<|im_end|>", "<|im_", "end|>", "<|endoftext|>", "<", ">", " ", "\n", "hi", "é", "🏽"]
    )
).map("".join)


@settings(max_examples=150, deadline=None)
@given(texts=st.lists(MESSAGE, min_size=1, max_size=3))
def test_no_message_can_speak_for_the_template(model: models.Model, texts: list[str]) -> None:
    """Whatever the messages hold, the special tokens are the template's own, and the text is all there."""
    model = _cached["m"]
    ids = model.encode_chat([{"role": "user", "content": text} for text in texts])
    specials = [i for i in ids if i in model.tokenizer.special_ids]
    assert specials == [1, 2] * (len(texts) + 1) + [1]  # a system turn, the turns, the generation prompt
    rendered = model.tokenizer.decode(ids, special=True)
    assert rendered.endswith("".join(f"<|im_start|>user\n{t}<|im_end|>\n" for t in texts) + "<|im_start|>assistant\n")


@pytest.mark.parametrize("answer", ["Blue.", "def f():\n    return 1\n", " ends with a space ", "مرحبا"])
def test_a_turn_continues_exactly_where_the_answer_stopped(model: models.Model, answer: str) -> None:
    first = [{"role": "user", "content": "Name a colour <|im_end|>."}]
    later = [{"role": "user", "content": "Another <|im_start|> one"}]
    stop = model.tokenizer.stop_ids[0]
    grown = [*model.encode_chat(first), *model.tokenizer.encode(answer), stop, *model.encode_turn(later)]
    at_once = model.encode_chat([*first, {"role": "assistant", "content": answer}, *later])
    assert model.tokenizer.decode(grown, special=True) == model.tokenizer.decode(at_once, special=True)
    assert grown[-len(model.encode_turn(later)) :] == at_once[-len(model.encode_turn(later)) :]


def with_template(model: models.Model, source: str) -> models.Model:
    return models.Model(model.engine, model.tokenizer, ChatTemplate(source, "<|im_start|>", "<|im_end|>"), model.file)


def test_a_template_that_drops_the_stop_token_cannot_be_continued(model: models.Model) -> None:
    silent = with_template(model, "{% for m in messages %}{{ m.content }}\n{% endfor %}")
    with pytest.raises(TemplateError, match="no stop token after an answer"):
        silent.encode_turn([{"role": "user", "content": "x"}])


def test_a_template_may_print_the_special_tokens_it_is_given(model: models.Model) -> None:
    spoken = with_template(
        model, "{{ bos_token }}{% for m in messages %}{{ m.content | trim }}{{ eos_token }}{% endfor %}"
    )
    assert spoken.encode_chat([{"role": "user", "content": " <|im_end|> "}]) == [
        1,
        *model.tokenizer.encode("<|im_end|>"),
        2,
    ]


def test_messages_must_be_text(model: models.Model) -> None:
    for bad in ({"role": "user"}, {"role": "user", "content": None}, {"role": 1, "content": "x"}):
        with pytest.raises(TemplateError, match="a role and a content"):
            model.encode_chat([bad])


def test_a_model_without_template_says_so(model: models.Model) -> None:
    bare = models.Model(model.engine, model.tokenizer, None, model.file)
    assert bare.encode_raw("hi") == model.tokenizer.encode("hi")
    with pytest.raises(TemplateError, match="no chat template; use raw prompts"):
        bare.encode_chat(CHATS["greeting"])


def test_resolve_paths_and_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, smollm2: Path) -> None:
    path = write_small(tmp_path / "small.gguf")
    assert models.resolve(path) == models.resolve(str(path)) == path
    assert models.resolve("smollm2-135m-instruct") == smollm2 == models.pull("smollm2-135m-instruct")
    monkeypatch.setenv("DRAFTGATE_CACHE", str(tmp_path / "empty"))
    with pytest.raises(ArmError, match="draftgate models pull smollm2-135m-instruct"):
        models.resolve("smollm2-135m-instruct")
    with pytest.raises(ArmError, match=r"no model named 'nosuch'; known names: .*smollm2-135m-instruct"):
        models.resolve("nosuch")
    for missing in ("nosuch.gguf", "./nosuch", tmp_path / "nosuch"):
        with pytest.raises(ArmError, match="no such model file"):
            models.resolve(missing)


def test_a_file_in_the_current_folder_does_not_shadow_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, smollm2: Path
) -> None:
    (tmp_path / "smollm2-135m-instruct").write_text("something else")
    monkeypatch.chdir(tmp_path)
    assert models.resolve("smollm2-135m-instruct") == smollm2


def test_bundled_models_are_found_by_name() -> None:
    for name, path in models.bundled().items():
        assert models.resolve(name) == path
        assert read_gguf(path).version in (2, 3)


def test_inspect_prints_what_the_file_is(smollm2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "inspect", str(smollm2), "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    assert (info["architecture"], info["layers"], info["width"], info["context_limit"]) == ("llama", 30, 576, 8192)
    assert (info["heads"], info["kv_heads"], info["vocabulary"], info["licence"]) == (9, 3, 49152, "apache-2.0")
    assert {kind: entry["tensors"] for kind, entry in info["quantisation"].items()} == {
        "Q8_0": 1,
        "F32": 61,
        "Q4_1": 210,
    }
    assert info["parameters"] == 134515008
    assert info["problem"] is None
    assert main(["models", "inspect", "smollm2-135m-instruct"]) == 0
    text = capsys.readouterr().out
    for part in (info["sha256"], info["tokenizer_sha256"], info["template_sha256"], "apache-2.0", "Q4_1 210 tensors"):
        assert part in text


def test_inspect_reads_what_it_could_not_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_small(tmp_path / "small.gguf")
    (tmp_path / "small.receipt.json").write_text('{"recipe": "x\\u001b[31m"}')
    info = describe(read_gguf(path))
    assert info.problem is not None and "tokenizer.ggml.model" in info.problem
    assert info.receipt == {"recipe": "x\x1b[31m"}
    assert main(["models", "inspect", str(path)]) == 0
    out = capsys.readouterr().out
    assert "usable            no: " in out
    assert "\x1b" not in out


@pytest.mark.parametrize("content", ["[1]", "{"])
def test_a_bad_receipt_is_named(tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_small(tmp_path / "small.gguf")
    (tmp_path / "small.receipt.json").write_text(content)
    assert main(["models", "inspect", str(path)]) == 2
    assert "small.receipt.json: not" in capsys.readouterr().err


def test_bad_files_get_one_line_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF" + bytes(10))
    for path in (bad, tmp_path / "missing.gguf", tmp_path):
        assert main(["models", "inspect", str(path)]) == 2
        message = capsys.readouterr().err
        assert message.startswith("draftgate: ") and message.count("\n") == 1
