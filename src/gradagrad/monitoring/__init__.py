"""What users can see of a training: diagnostics, recordings, plots and the warning about the first step."""
