"""The CPU engine: GGUF reader, tokenizer, template, kernels, transactional cache."""
