"""What a plan may say. No field has a default: a key left out or deleted is missing, and a key not here is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING


@dataclass
class ModelConf:
    name: str = MISSING
    """A registered model's name, or the path of a GGUF file (`--champion`, `--draft`); becomes an identity at
    freeze."""


@dataclass
class ArmConf:
    """One arm; which of the optional fields apply depends on the kind, and the rest stay null."""

    kind: str = MISSING
    """champion_alone, prompt_lookup, neural_draft, …"""
    k: int | None = None
    """Proposal length asked for."""
    min_ngram: int | None = None
    max_ngram: int | None = None
    policy: dict[str, Any] | None = None
    """Proposal-length policy with its frozen inputs; null: fixed at k."""
    slowdown: float | None = None
    """The dummy arm: share of each request's time spent waiting."""
    probe_rate: float | None = None
    """Share of rounds run at full K regardless of the policy."""
    options: dict[str, Any] | None = None
    """Further fields of the arm's kind, copied into its entry as they stand."""


@dataclass
class ArmsConf:
    candidate: str = MISSING
    """The arm under judgement."""
    entries: dict[str, ArmConf] = MISSING
    """By name; champion_alone has to be one of them."""


@dataclass
class StratumConf:
    weight: float = MISSING
    designated: bool = MISSING
    """Whether the speed-up is claimed here (at most four)."""
    source: str = MISSING
    """Name of a shipped stratum, or the path of a user's file."""
    prompts: int | None = None
    """A number of prompts of its own; null: `prompts_per_stratum`."""


@dataclass
class StrataConf:
    prompts_per_stratum: int = MISSING
    """The first so many prompts of the split in file order, families kept whole; 0 for all."""
    split: str = MISSING
    """open, reserve or all."""
    seal: bool = MISSING
    """Commit to the reserve prompts by a salted hash, revealed when the run starts."""
    entries: dict[str, StratumConf] = MISSING


@dataclass
class DecodingConf:
    temperature: float = MISSING
    top_k: int = MISSING
    top_p: float = MISSING
    min_p: float = MISSING
    typical_p: float = MISSING
    repetition_penalty: float = MISSING
    frequency_penalty: float = MISSING
    presence_penalty: float = MISSING
    logit_bias: dict[str, float] = MISSING
    suppress: list[int] = MISSING
    bad_words: list[str] = MISSING
    min_new_tokens: int = MISSING
    grammar: dict[str, str] | None = MISSING
    stop_strings: list[str] = MISSING


@dataclass
class ScheduleConf:
    blocks: int = MISSING
    max_new_tokens: int = MISSING
    warmup_requests: int = MISSING
    order: str = MISSING
    """interleaved: in a unit the arms take turns, request by request; williams: one arm after the other. Either way a
    process each, and the order of arms from a Williams design."""
    prefix_cache: str = MISSING
    """conversation: a process keeps its last request, and the next one reads neither the beginning that the chat
    template gives to all nor the earlier turns of the conversation it continues; none: every request reads its whole
    prompt."""
    cold: bool = MISSING
    """Whether the first request of each fresh process is run and recorded as a cold entry."""
    canaries: int = MISSING
    """Identical requests per arm at the start, the middle and the end."""
    rest_s: float = MISSING
    """Pause before each process."""
    threads: int = MISSING
    """Engine threads; 0 for every core, resolved at freeze."""


@dataclass
class GateConf:
    requirement: str = MISSING
    """required, if-available or not-applicable."""
    params: dict[str, Any] = field(default_factory=dict)
    """Thresholds by name; every one the gate has must be stated."""


@dataclass
class MeasurementConf:
    memory_interval_ms: int = MISSING
    energy: bool = MISSING
    shadow_k: int = MISSING
    """Full block of the shadow replay; 0 for none."""
    shadow_rounds_per_request: int = MISSING
    score_tokens: int = MISSING
    """Tokens scored for the distribution tests of stochastic plans; 0 for none."""
    cold_loads: int = MISSING
    """Cold loads of each model in fresh processes; 0 for none."""


@dataclass
class ExclusionConf:
    rule: str = MISSING
    """probe: the computation timed before a request took more than `limit` times the run's median. steal: the kernel
    counted more than `limit` ticks of stolen time during the request. Either drops the pair on every arm."""
    limit: float = MISSING


@dataclass
class StoppingConf:
    rule: str = MISSING
    """fixed: every scheduled request is run, and looked at once."""
    detail: str = MISSING


@dataclass
class SampleSizeConf:
    prompts_per_stratum: int = MISSING
    blocks: int = MISSING
    power: float = MISSING
    """Aimed at; what the decision card then says is the truth."""
    basis: str = MISSING


@dataclass
class OperationalConf:
    """Not hashed: where things lie on this machine."""

    champion_path: str | None = None
    draft_path: str | None = None
    kernel: str | None = None


@dataclass
class PlanConf:
    name: str = MISSING
    title: str = MISSING
    seed: str = MISSING
    """16 hexadecimal digits."""
    hypotheses: list[str] = MISSING
    outcomes: list[str] = MISSING
    exclusions: list[ExclusionConf] = MISSING
    stopping: StoppingConf = MISSING
    sample_size: SampleSizeConf = MISSING
    seen: list[str] = MISSING
    """What of these prompts and arms has been seen already: pilot runs by id, or nothing."""
    alpha: float = MISSING
    attempts_budget: int = MISSING
    champion: ModelConf = MISSING
    draft: ModelConf | None = MISSING
    arms: ArmsConf = MISSING
    strata: StrataConf = MISSING
    decoding: DecodingConf = MISSING
    schedule: ScheduleConf = MISSING
    gates: dict[str, GateConf] = MISSING
    measurement: MeasurementConf = MISSING
    session_lengths: dict[str, dict[str, Any]] = MISSING
    """By stratum or *: answers' total length in one session, for the break-even."""
    memory_envelope_bytes: int = MISSING
    operational: OperationalConf = field(default_factory=OperationalConf)
