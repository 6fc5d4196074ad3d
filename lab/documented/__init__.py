"""Conversations written from the providers' API documents alone, judged by rules and by SDKs."""
