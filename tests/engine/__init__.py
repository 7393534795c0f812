"""``tune`` against a real SGLang on real hosts: opt-in, for it needs an engine that serves without a GPU."""
