"""What a pipeline is: YAML and Python forms, checked, and the plan made of it."""
