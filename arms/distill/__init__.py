"""Training drafts for a champion: corpus, models, fitting, export, provenance. Needs the extra `train` (torch)."""
