"""An arm from its entry in the plan: every setting checked, the draft's tokenizer compared, the processors compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .champion_alone import ChampionAlone
from .engine.contract import Engine
from .engine.feature import FeatureEngine
from .errors import ArmError
from .feature_draft import FeatureDraft
from .grammar import Grammar
from .hybrid import Hybrid
from .kinds import BASELINE, KINDS, WITH_DRAFT
from .neural_draft import NeuralDraft, Truncation
from .ngram_cache import CacheLookup, cache_settings
from .policies import Policy, policy_of
from .prefix_cache import PrefixCache
from .processors import ProcessorChain, checked
from .prompt_lookup import PromptLookup, lookup_settings
from .proposer import Proposer
from .receipt import digest
from .request import Arm, Request
from .session import Champion
from .speculative_arm import SpeculativeArm
from .suffix_automaton import SuffixLookup, suffix_settings

if TYPE_CHECKING:
    from .models import Model

Opener = Callable[[Request], Proposer]
"""Makes the proposer of one request."""


def build_arm(
    spec: Mapping[str, Any],
    champion: Model,
    draft: Model | None = None,
    decoding: Mapping[str, Any] | None = None,
    prefix_cache: PrefixCache | None = None,
) -> Arm:
    """The arm of a plan's entry; with ``prefix_cache`` its requests follow each other and take over from each other.

    Raises ArmError naming an unknown kind, field or value, or the draft's difference."""
    check_spec(spec)
    settings = checked(decoding or {})
    side = Champion(
        cast(Engine, champion.engine),
        chain_for(champion, settings, champion.engine.vocabulary),
        _decoder_of(champion),
        prefix_cache,
    )
    kind, name = spec["kind"], str(spec["name"])
    identities = identities_of(champion, draft if kind in WITH_DRAFT else None, side.chain, spec)
    if kind == BASELINE:
        return ChampionAlone(name, side, _share(spec, "slowdown"), identities)
    probe_rate = _share(spec, "probe_rate")
    if kind not in WITH_DRAFT:
        return SpeculativeArm(name, side, _free_opener(spec, champion), ("champion",), probe_rate, identities)
    if draft is None:
        raise ArmError(f"arm {name} needs a draft model; give one with --draft")
    opener = _draft_opener(spec, champion, draft, settings)
    if kind == "hybrid":
        opener = _hybrid_opener(spec, opener)
    return SpeculativeArm(name, side, opener, ("champion", "draft"), probe_rate, identities)


def check_spec(spec: Mapping[str, Any]) -> None:
    """Raises ArmError for an arm entry that names no known kind or holds a field its kind does not know."""
    kind = str(spec.get("kind"))
    if kind not in KINDS:
        raise ArmError(f"unknown kind of arm {kind!r}; known: {', '.join(KINDS)}")
    if not spec.get("name"):
        raise ArmError(f"an arm of kind {kind} has no name")
    unknown = sorted(set(spec) - {"name", "kind"} - KINDS[kind])
    if unknown:
        raise ArmError(f"arm {spec['name']}: kind {kind} knows no field {unknown[0]!r}")


def _share(spec: Mapping[str, Any], name: str) -> float:
    value = spec.get(name, 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ArmError(f"arm {spec['name']}: {name} must lie in [0, 1], not {value!r}")
    return float(value)


def chain_for(model: Model, settings: Mapping[str, Any], vocabulary: int) -> ProcessorChain:
    """The processors over one model's tokenizer; text in bad_words is encoded, a grammar compiled."""
    words = [model.tokenizer.encode(w) if isinstance(w, str) else w for w in settings["bad_words"]]
    stop_ids = tuple(model.tokenizer.stop_ids)
    spec = settings["grammar"]
    grammar = Grammar(spec, model.tokenizer, vocabulary, stop_ids) if spec is not None else None
    return ProcessorChain({**settings, "bad_words": words}, vocabulary, stop_ids, grammar)


def _decoder_of(model: Model) -> Callable[[], Any]:
    from .engine.tokenizer import StreamDecoder

    return lambda: StreamDecoder(model.tokenizer)


def _free_opener(spec: Mapping[str, Any], champion: Model) -> Opener:
    """The proposers that need no model."""
    if spec["kind"] == "prompt_lookup":
        k, low, high = lookup_settings(spec)
        return lambda request: PromptLookup(k, low, high, frozenset(request.stop.token_ids))
    if spec["kind"] == "suffix_automaton":
        k, match = suffix_settings(spec)
        return lambda request: SuffixLookup(k, match, frozenset(request.stop.token_ids))
    cache, k = cache_settings(spec, champion.tokenizer.sha256, champion.engine.vocabulary)
    return lambda request: CacheLookup(cache, k, frozenset(request.stop.token_ids))


def _hybrid_opener(spec: Mapping[str, Any], opener: Opener) -> Opener:
    k, match = suffix_settings({"k": spec.get("copy_k", 5), "min_match": spec.get("min_match", 4)})
    return lambda request: Hybrid(SuffixLookup(k, match, frozenset(request.stop.token_ids)), opener(request))


def _draft_opener(spec: Mapping[str, Any], champion: Model, draft: Model, settings: Mapping[str, Any]) -> Opener:
    require_same_tokenizer(champion, draft)
    policy = policy_of(spec.get("policy", {"kind": "fixed"}), spec.get("k", 4))
    vocabulary = champion.engine.vocabulary
    output_ids = output_ids_of(draft, vocabulary)
    own = {**settings, **spec.get("draft_decoding", {})}  # p may be anything, as long as it is what was drawn from
    if (own["temperature"] == 0) != (settings["temperature"] == 0):
        raise ArmError(
            f"arm {spec['name']}: a greedy plan needs a greedy draft, and a stochastic one a stochastic draft"
        )
    chain = chain_for(champion, checked(own), vocabulary)
    if isinstance(draft.engine, FeatureEngine):
        return _feature_opener(draft.engine, chain, policy, champion.engine.context_limit)
    truncation = Truncation.of(spec.get("truncation"), draft.engine.context_limit)
    limit = champion.engine.context_limit

    def opened(request: Request) -> Proposer:
        longest = min(limit, len(request.prompt) + request.max_new_tokens)
        return NeuralDraft(
            cast(Engine, draft.engine),
            chain,
            policy,
            truncation,
            request.prompt,
            frozenset(request.stop.token_ids),
            longest,
            output_ids,
        )

    return opened


def _feature_opener(
    engine: FeatureEngine, chain: ProcessorChain, policy: Policy, limit: int
) -> Callable[[Request], Proposer]:
    def opened(request: Request) -> Proposer:
        longest = min(limit, len(request.prompt) + request.max_new_tokens)
        return FeatureDraft(engine, chain, policy, request.prompt, frozenset(request.stop.token_ids), longest)

    return opened


def require_same_tokenizer(champion: Model, draft: Model) -> None:
    """Raises ArmError naming the first difference."""
    from .engine.tokenizer import first_difference

    difference = first_difference(champion.tokenizer, draft.tokenizer)
    if difference is not None:
        raise ArmError(f"the draft's tokenizer is not the champion's: {difference}; use a draft made for this champion")


def output_ids_of(draft: Model, vocabulary: int) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """Token of each logit of a draft with a reduced output vocabulary; None for a whole one. Raises ArmError."""
    given = getattr(draft.engine, "output_ids", None)
    if given is None:
        if draft.engine.vocabulary != vocabulary:
            raise ArmError(
                f"the draft speaks {draft.engine.vocabulary} tokens, the champion {vocabulary}, and the draft's file "
                "does not say which; use a draft made for this champion"
            )
        return None
    ids = np.asarray(given, np.int64)
    if ids.ndim != 1 or len(set(ids.tolist())) != ids.shape[0] or (ids < 0).any() or (ids >= vocabulary).any():
        raise ArmError("the draft's list of output tokens repeats one or leaves the champion's vocabulary")
    return ids


def identities_of(
    champion: Model, draft: Model | None, chain: ProcessorChain, spec: Mapping[str, Any]
) -> dict[str, str]:
    """The hashes a receipt carries."""
    identity = champion.engine.identity
    template = champion.template
    grammar = chain.settings["grammar"]
    return {
        "champion_artifact_hash": identity.model_sha256[:64],
        "draft_artifact_hash": draft.engine.identity.model_sha256[:64] if draft is not None else "none",
        "tokenizer_hash": identity.tokenizer_sha256[:64],
        "chat_template_hash": template.sha256 if template is not None else "none",
        "sampling_policy_hash": digest(chain.policy_text()),
        "grammar_hash": digest(repr(sorted(grammar.items()))) if grammar else "none",
        "position_policy_hash": digest(identity.position_policy),
        "scheduler_policy_hash": digest(
            repr(sorted((k, repr(v)) for k, v in spec.items() if k not in ("name", "cache")))
        ),
    }
