"""The lecture decks as a site: small models, trained on generated data, show each figure and answer each question."""
