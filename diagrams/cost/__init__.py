"""What a step costs, and two models side by side in numbers."""
