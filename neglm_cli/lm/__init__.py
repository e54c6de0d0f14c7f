"""Language models: an LSTM over words, trained by negative sampling."""
