"""What users can see of a training: diagnostics, recordings and the warning about the first step."""
