"""The figures of the report. Each module has ``draw(records, verdict) -> Drawn``."""
