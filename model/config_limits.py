"""The largest sizes that are read from a config.json: a number in a file must not keep the program busy."""

LARGEST_FILE = 16 * 2**20  # bytes of a config.json; the release's own has 7 kB
MOST_MARKS = {b"{": 100_000, b"[": 100_000, b",": 1_000_000}  # of JSON in it, before it is parsed
MOST_LAYERS = 4096  # of each half; Kimi K3 has 93
MOST_DRAWN = 512  # layers of a model that is drawn: every one is built
WIDTH, HEADS, EXPERTS, VOCABULARY, POSITIONS = 2**20, 2**12, 2**16, 2**24, 2**40

# official key -> the largest value, of those that are whole numbers; Kimi K3's own in the comments
LIMITS = {
    "num_hidden_layers": MOST_LAYERS, "vt_num_hidden_layers": MOST_LAYERS,
    "vocab_size": VOCABULARY,  # 163,840
    "hidden_size": WIDTH, "vt_hidden_size": WIDTH, "routed_expert_hidden_size": WIDTH,  # 7,168
    "intermediate_size": WIDTH, "moe_intermediate_size": WIDTH, "vt_intermediate_size": WIDTH,
    "qkv_hidden_size": WIDTH, "q_lora_rank": WIDTH, "kv_lora_rank": WIDTH,
    "num_attention_heads": HEADS, "vt_num_attention_heads": HEADS, "num_heads": HEADS,  # 96
    "num_key_value_heads": HEADS,
    "qk_nope_head_dim": WIDTH, "qk_rope_head_dim": WIDTH, "v_head_dim": WIDTH, "head_dim": WIDTH,  # 128
    "num_experts": EXPERTS, "num_experts_per_token": EXPERTS, "num_shared_experts": EXPERTS,  # 896, 16, 2
    "first_k_dense_replace": MOST_LAYERS, "attn_res_block_size": MOST_LAYERS,
    "short_conv_kernel_size": 2**10,  # 4
    "init_pos_emb_height": 2**12, "init_pos_emb_width": 2**12, "init_pos_emb_time": 2**12,  # 64, 64 and 4
    "patch_size": 2**10, "merge_kernel_size": 2**6, "mm_hidden_size": WIDTH, "text_hidden_size": WIDTH,
    "max_position_embeddings": POSITIONS, "model_max_length": POSITIONS,
    "bos_token_id": 2**31, "eos_token_id": 2**31, "pad_token_id": 2**31, "media_placeholder_token_id": 2**31,
}  # fmt: skip


def check_drawn(*layers: int) -> None:
    """ValueError for more layers, of either half, than are drawn."""
    if max(layers) > MOST_DRAWN:
        raise ValueError(f"the model has {max(layers):,} layers; up to {MOST_DRAWN} are drawn")
