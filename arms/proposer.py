"""What a proposer is: anything that guesses the champion's next tokens, within one request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from .draws import Draws
from .round import Proposal

Hidden = npt.NDArray[np.float32]
"""float32 [n, (1 + inner layers) * d]: the champion's hidden states of n consumed tokens (`verify_with_hidden`)."""


class Proposer(Protocol):
    """State of one request. How many tokens it proposes is a stopping time: whether to draw the next may depend on what
    was drawn, on its own rows and on earlier rounds, never on the next draw itself or on this round's champion rows."""

    state_layers: Sequence[int] | None
    """The champion's states are to be passed to `observe`, those of these inner layers too; None for no states."""

    @property
    def calls(self) -> int:
        """Forward calls of a draft so far, prefill excluded; 0 without one."""

    @property
    def forward_ns(self) -> int:
        """Time inside the draft's forward calls so far, prefill excluded."""

    def prefill(self, prompt: Sequence[int]) -> None:
        """Take in the prompt, its last token (the first pending one) excluded."""

    def take_over(self, previous: Proposer | None, n: int) -> bool:
        """Copy what ``previous``, which has ended, knows of the first ``n`` >= 1 tokens that both requests begin with.

        Called before `prefill`, at most once; the champion will not read these tokens again. False, with nothing
        changed, where it must: its states of them are needed and ``previous`` has not got them.
        """

    def requested(self) -> int:
        """k the policy asks for now; 0 means one champion step."""

    @property
    def maximum(self) -> int:
        """K, the largest k its policy can ask for."""

    def propose(self, context: Sequence[int], k: int, draws: Draws | None) -> Proposal:
        """At most ``k`` >= 1 tokens to follow ``context`` (prompt and emitted, pending last).

        Opens what it needs provisionally; `settle` or `abandon` follows.
        """

    def settle(self, context: Sequence[int], proposed: int, tested: int, accepted: int) -> None:
        """The round is over; ``context`` is authoritative. Called after every round, proposals or none."""

    def observe(self, tokens: Sequence[int], hidden: Hidden) -> None:
        """Tokens the champion has consumed for good, in order, with the states that `state_layers` wants."""

    def abandon(self) -> None:
        """Roll back the round's provisional state."""

    def fingerprint(self) -> dict[str, object]:
        """Everything later proposals depend on; equal to that of a proposer freshly fed the same tokens."""

    def twin(self, context: Sequence[int], hidden: Hidden | None = None) -> Proposer:
        """A fresh proposer in the state this one should be in after ``context``, its caches fed anew as far.

        ``hidden``: the champion's states of what it has consumed, computed anew, as `state_layers` wants them.
        """

    def close(self) -> None: ...
