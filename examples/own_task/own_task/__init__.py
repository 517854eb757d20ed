"""A task with any number of labels for each text, and an encoder that averages embeddings."""
