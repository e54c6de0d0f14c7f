"""Models for other tools: PyTorch, ONNX, and folders for the Hugging Face Hub."""
