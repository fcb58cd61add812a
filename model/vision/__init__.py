"""Images to patches, the tower MoonViT-V2, the projector, and rows between tokens."""
