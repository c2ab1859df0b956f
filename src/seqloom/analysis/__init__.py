"""What a mixer or a model costs: by formula, by count, by clock."""
