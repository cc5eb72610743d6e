"""Language models behind OpenAI-compatible endpoints: requests with deadlines, retries, validated answers."""
