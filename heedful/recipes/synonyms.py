"""Names that other programs use for recipe keys and values, so that error messages can suggest ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_RATE: Final = ("the peak learning rate", ("training.schedule.rate", "training.schedule.factor"))
_SCHEDULE: Final = ("how the learning rate changes", ("training.schedule.kind",))
_WARMUP: Final = ("how many steps the learning rate rises", ("training.schedule.warmup",))
_D_MODEL: Final = ("the width of the model", ("model.d_model",))
_D_FF: Final = ("the width of the feed-forward layers", ("model.d_ff", "model.decoder.d_ff"))
_LAYERS: Final = ("the number of layers", ("model.layers", "model.decoder.layers", "model.hops"))
_HEADS: Final = ("the number of heads", ("model.heads", "model.decoder.heads"))
_DROPOUT: Final = ("the share of numbers that is dropped", ("model.dropout", "model.decoder.dropout"))
_BATCH: Final = ("the size of a batch, in tokens,", ("training.batch_tokens",))
_STEPS: Final = ("the number of updates", ("training.steps",))
_EPOCHS: Final = ("the number of passes over the text", ("training.epochs",))
_CLIP: Final = ("the largest norm of the gradients", ("training.clip",))
_ACCUMULATE: Final = ("the number of batches that make one update", ("training.accumulate",))
_EVALUATE: Final = ("how often the model is measured and saved", ("training.evaluate_every",))
_VOCABULARY: Final = ("the size of the vocabulary", ("tokenizer.size",))
_LENGTH: Final = ("the longest text", ("data.max_length", "data.length"))
_OUTPUT: Final = ("the run folder", ("output",))
_SEED: Final = ("where randomness starts", ("seed",))
_PRECISION: Final = ("the number format", ("training.precision",))
_TRAIN: Final = ("the text to learn from", ("data.train",))
_VALIDATION: Final = ("the text to measure on while training", ("data.validation",))
_TEST: Final = ("the text to measure the finished model on", ("data.test",))
_BEAM: Final = ("how many hypotheses grow side by side", ("generation.width",))
_INIT: Final = ("the model to begin with", ("init",))
_FAMILY: Final = ("the family of models", ("model.kind",))
_POSITIONS: Final = ("how positions are encoded", ("model.positions.kind", "model.decoder.positions.kind"))
_TIE: Final = ("which embeddings are shared", ("model.tie",))
_ACTIVATION: Final = ("the function between the feed-forward layers", ("model.activation",))
_TOKEN_DROPOUT: Final = (
    "the share of whole tokens that is dropped",
    ("training.dropout_source", "training.dropout_target"),
)
_BETA1: Final = ("how long the mean of the gradients lasts", ("training.optimizer.beta1",))
_BETA2: Final = ("how long the mean of the squared gradients lasts", ("training.optimizer.beta2",))
_EPSILON: Final = ("what Adam adds to the root of the mean square", ("training.optimizer.epsilon",))
_DECAY: Final = ("the decay of the weights", ("training.optimizer.weight_decay",))
_SMOOTHING: Final = ("the probability taken from the right token", ("training.label_smoothing",))
_PATIENCE: Final = ("how long training goes on without getting better", ("training.patience",))

KEY_SYNONYMS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    name: meant
    for meant, names in (
        (_RATE, "lr learning_rate max_lr peak_lr base_lr"),
        (_SCHEDULE, "scheduler lr_scheduler lr_scheduler_type lr_schedule"),
        (_WARMUP, "warmup_steps num_warmup_steps lr_warmup warmup_updates"),
        (_D_MODEL, "hidden_size hidden_dim hidden embed_dim embedding_dim embedding_size n_embd model_dim dim width"),
        (_D_FF, "ffn_dim ff_dim dim_feedforward intermediate_size ffn_size d_ffn feed_forward ffn_embed_dim"),
        (_LAYERS, "n_layers num_layers nlayers n_layer num_hidden_layers depth layer"),
        (_HEADS, "n_heads num_heads nheads nhead n_head num_attention_heads attention_heads"),
        (_DROPOUT, "dropout dropout_rate dropout_p p_dropout drop hidden_dropout_prob"),
        (_BATCH, "batch_size batch batchsize per_device_train_batch_size max_tokens tokens_per_batch"),
        (_STEPS, "max_steps num_steps n_steps total_steps iterations max_iters max_updates updates"),
        (_EPOCHS, "epochs epoch num_epochs n_epochs max_epochs num_train_epochs"),
        (_CLIP, "grad_clip max_grad_norm clip_norm clip_grad gradient_clipping grad_norm"),
        (_ACCUMULATE, "gradient_accumulation_steps grad_accum accumulation_steps update_freq accumulate_grad_batches"),
        (_EVALUATE, "eval_steps eval_every eval_interval validate_every validate_interval save_steps save_every"),
        (_VOCABULARY, "vocab_size vocabulary_size vocab vocabulary n_vocab"),
        (_LENGTH, "max_len max_seq_len max_seq_length seq_len seq_length sequence_length block_size context_length"),
        (_OUTPUT, "output_dir out_dir run_dir save_dir out output_folder save"),
        (_SEED, "random_seed rng_seed manual_seed random_state"),
        (_PRECISION, "fp16 bf16 amp mixed_precision dtype torch_dtype"),
        (_TRAIN, "train_file train_path train_data training_data trainset"),
        (_VALIDATION, "valid val dev validation_file valid_file dev_file eval validation_data"),
        (_TEST, "test_file test_data test_path testset"),
        (_BEAM, "beam_size num_beams beam beam_width"),
        (_INIT, "pretrained pretrained_model base_model model_name_or_path from_pretrained init_from checkpoint"),
        (_FAMILY, "architecture arch model_type model_name"),
        (_POSITIONS, "position pos_encoding positional_encoding position_embedding_type positional"),
        (_TIE, "tied tie_embeddings tie_weights share_embeddings tie_word_embeddings weight_tying"),
        (_ACTIVATION, "activation_fn hidden_act activation_function"),
        (_BETA1, "adam_beta1 beta_1"),
        (_BETA2, "adam_beta2 beta_2"),
        (_EPSILON, "eps adam_epsilon adam_eps"),
        (_DECAY, "wd l2 weightdecay"),
        (_SMOOTHING, "smoothing label_smoothing_factor"),
        (_TOKEN_DROPOUT, "word_dropout token_dropout dropout_src dropout_trg rnn_dropout_source"),
        (_PATIENCE, "early_stopping early_stopping_patience"),
    )
    for name in names.split()
}
"""Other names of keys: what the key is about, and candidate keys, of which the first that the recipe has is meant."""

TRAIN_OPTIONS: Final[Mapping[str, str]] = dict.fromkeys(("device", "gpu", "gpus", "cuda"), "--device")
"""Names for which `heedful train` has an option instead of a key."""

VALUE_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    word: meant
    for meant, words in (
        (("recurrent", "lstm", "gru"), "rnn lstm gru seq2seq"),
        (("transformer",), "gpt gpt2 gpt-2 bert decoder encoder attention vaswani"),
        (("convolutional",), "cnn conv convs2s"),
        (("adam",), "adamw"),
        (("inverse_sqrt",), "inv_sqrt rsqrt isqrt"),
        (("cosine",), "cos cosine_annealing"),
        (("fp32",), "float32 float full fp64 32"),
        (("bf16",), "bfloat16 fp16 float16 half 16"),
        (("rotary",), "rope"),
        (("sinusoidal",), "sin sine absolute"),
        (("shaw",), "relative"),
        (("sampling",), "sample nucleus top_k top_p random multinomial"),
        (("beam",), "beam_search beams"),
        (("greedy",), "argmax"),
        (("bpe",), "sentencepiece subword byte_pair"),
        (("words",), "word whitespace space"),
        (("characters", "chars"), "character char letters"),
        (("silu",), "swish"),
        (("gelu_tanh",), "gelu_new"),
        (("none",), "no false off"),
    )
    for word in words.split()
}
"""Other names of values."""
