"""The same doors with no GPU: a model of SGLang's pipeline scheduler, in virtual time or on the wall clock."""
