"""What a draft's GGUF file says that no other program knows: written by the trainer, read by the engine."""

from __future__ import annotations

from typing import Final

FEATURE_ARCHITECTURE: Final = "draftgate-feature"
CHAMPION_SHA256: Final = "draftgate.champion_sha256"
"""The file whose hidden states a feature draft feeds on."""
TOKENIZER_SHA256: Final = "draftgate.tokenizer_sha256"
"""`Tokenizer.sha256` of that file, as a feature draft carries no tokenizer."""
HEAD_ROWS: Final = "draftgate.head_rows"
"""Rows of the champion's head that a feature draft speaks."""
HEAD_TYPE: Final = "draftgate.head_type"
"""Q4_1 for rows of the champion's head in four bits; absent for rows as they are in its file."""
INNER_LAYERS: Final = "draftgate.inner_layers"
"""Layers of the champion whose states a feature draft is fed beside the last one, ascending; absent for none."""
OUTPUT_ROWS: Final = "draftgate.output_rows"
"""Token of each row of an independent draft's reduced head."""
