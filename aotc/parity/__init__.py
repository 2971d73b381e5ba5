"""Engine against eager: inputs, tolerances, figures, verdict."""
