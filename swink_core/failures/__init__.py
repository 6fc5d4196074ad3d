"""What went wrong, what it means, and what to say."""
