"""The unrolled feature draft against a slow reading of what it should compute; needs the extra `train`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.train


def model(width: int = 32, context: int = 64, inner: int = 0) -> Any:
    import torch
    from draftgate.arms.distill.feature_model import FeatureDraft, FeatureShape

    torch.manual_seed(3)
    return FeatureDraft(FeatureShape(width, 4, 2, 48, context, 1e4, 1e-5, inner), torch.rand(width) + 0.5)


def drafted(module: Any, features: Any, embeddings: Any, start: int, steps: int) -> list[Any]:
    """One sequence the way an engine drafts: true features up to ``start``, then its own estimates, one at a time."""
    import torch
    from draftgate.arms.distill.llama_model import norm

    estimates: list[Any] = []
    for _ in range(steps):
        length = start + 1 + len(estimates)
        fused = module.fuse(features[: start + 1], embeddings[: start + 1])
        for at, estimate in enumerate(estimates):
            own = module.fuse(estimate[None], embeddings[None, start + 1 + at])
            fused = torch.cat((fused, own))
        cos, sin = module.cos[:length], module.sin[:length]
        out = module.block(fused[None], cos, sin)[0, -1]
        estimates.append(norm(out, module.output_norm, 1e-5))
    return estimates


@pytest.mark.parametrize("inner", [0, 2])
def test_every_step_sees_true_features_and_then_its_own_as_in_drafting(inner: int) -> None:
    import torch

    module, steps = model(inner=inner), 4
    features, embeddings = torch.randn(2, 20, (1 + inner) * 32), torch.randn(2, 20, 32)
    wanted = torch.zeros(2, 20, dtype=torch.bool)
    wanted[0, 6:18] = True
    wanted[1, 2:15] = True
    with torch.no_grad():
        outputs = module.unroll(features, embeddings, steps, wanted)
        places = {tuple(place): row for row, place in enumerate(wanted.nonzero().tolist())}
        for sequence, start in ((0, 6), (0, 11), (1, 2), (1, 9)):
            slow = drafted(module, features[sequence], embeddings[sequence], start, steps)
            for step, estimate in enumerate(slow):
                fast = outputs[step][places[sequence, start + step]]
                torch.testing.assert_close(fast, estimate, atol=1e-5, rtol=1e-4)


def test_the_linear_start_beats_the_raw_one_and_is_no_surer_than_it_is_right(tmp_path: Path) -> None:
    import torch
    from draftgate.arms.distill.batches import Batch, Labels
    from draftgate.arms.distill.feature import FeatureTask, warm_start
    from draftgate.arms.distill.four_bits import FourBits

    module, vocabulary = model(), 40
    generator = torch.Generator().manual_seed(5)
    embedding, head = (torch.randn(vocabulary, 32, generator=generator) for _ in range(2))
    mixing = torch.randn(64, 32, generator=generator) / 8
    ids = torch.randint(vocabulary, (30, 24), generator=generator)
    hidden = torch.zeros(30, 24, 32)
    for x in range(1, 24):  # a world where the next feature is a noisy linear function of the last one and the token
        hidden[:, x] = torch.cat((hidden[:, x - 1], embedding[ids[:, x]]), -1) @ mixing
        hidden[:, x] += 0.3 * torch.randn(30, 32, generator=generator)
    p = torch.softmax(hidden[:, :-1] @ head.T, -1)
    top_p, top_ids = (torch.cat((torch.zeros(30, 1, 4), part.float()), 1) for part in p.topk(4))
    answer = torch.ones(30, 24, dtype=torch.bool)
    answer[:, :3] = False
    batch = Batch(ids, answer, top_ids.long(), top_p, hidden)

    class Data:
        def batches(self, rng: np.random.Generator) -> Any:
            yield batch

    labels = Labels(np.arange(vocabulary), vocabulary)
    data: Any = Data()
    task = FeatureTask(module, data, embedding, head, labels, 2)
    torch.manual_seed(0)
    before = float(task.loss(batch, 0.0).detach())
    fitted = warm_start(module, data, embedding, head, labels)
    torch.manual_seed(0)
    after = float(task.loss(batch, 0.0).detach())
    assert after < 0.8 * before and fitted < after
    active = [part.active for part in module.modules() if isinstance(part, FourBits)]
    assert len(active) > 4 and not any(active)
    task.loss(batch, 0.5)
    assert all(part.active for part in module.modules() if isinstance(part, FourBits))
