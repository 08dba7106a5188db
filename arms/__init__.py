"""How tokens are produced: the engine, the exact speculation core, the arms."""
