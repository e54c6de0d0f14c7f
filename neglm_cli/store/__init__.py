"""The one file format: safetensors with the fields of `schema`, written whole or not at all."""
