"""Any number of labels for each text, and an encoder that averages: what heedful lacks, without a fork."""
