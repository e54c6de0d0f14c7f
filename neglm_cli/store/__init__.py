"""The file format: safetensors with the metadata of `schema`, written atomically."""
