"""Sans-IO decoders that turn the bytes of a streaming response into frames."""
