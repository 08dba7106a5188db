"""Evidence to verdict."""
