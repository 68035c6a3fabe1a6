"""Settings: what each one is, where its value comes from, and what is assembled from them."""
