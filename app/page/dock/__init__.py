"""The prompt, its images, and what came out."""
