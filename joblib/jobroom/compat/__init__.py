"""Our queue in the place of other packages' own."""
