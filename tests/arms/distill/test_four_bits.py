"""Rounding weights to four bits while training; needs the extra `train`."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.train


def test_rounded_weights_are_those_of_the_file_and_of_the_engine_s_own_rounding() -> None:
    import gguf
    import numpy as np
    import torch
    from draftgate.arms.distill.four_bits import rounded
    from draftgate.arms.engine.requantise import to_four_bits

    weight = torch.randn(24, 96) * 0.05
    weight[3] = 0.25  # a row of one value has no scale
    kind = gguf.GGMLQuantizationType.Q4_1
    written = gguf.quants.dequantize(gguf.quants.quantize(weight.numpy(), kind), kind)
    np.testing.assert_array_equal(rounded(weight).numpy(), written)
    own = to_four_bits(weight.numpy().view(np.uint8).reshape(24, -1), "F32", 96)
    back = gguf.quants.dequantize(own, kind)
    step = (weight.reshape(24, 3, 32).amax(2) - weight.reshape(24, 3, 32).amin(2)).repeat_interleave(32, 1) / 15
    assert (np.abs(back - weight.numpy()) <= 0.51 * step.numpy() + 2e-4).all()


def test_gradients_pass_through_and_only_active_layers_round() -> None:
    import torch
    from draftgate.arms.distill import four_bits
    from torch.nn.utils import parametrize

    layer = torch.nn.Linear(64, 8, bias=False)
    plain = layer.weight.detach().clone()
    four_bits.prepare(layer)
    assert torch.equal(layer.weight, plain)
    four_bits.activate(layer, True)
    with parametrize.cached():
        assert torch.equal(layer.weight.detach(), four_bits.rounded(plain)) and not torch.equal(layer.weight, plain)
        layer(torch.ones(1, 64)).sum().backward()
    (original,) = layer.parameters()
    assert original.grad is not None and torch.equal(original.grad, torch.ones(8, 64))
