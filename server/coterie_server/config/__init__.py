"""Settings: their declarations, their sources, and what is assembled from them."""
