"""The largest sizes that are read from a config.json: a number in a file must not keep the program busy."""

LARGEST_FILE = 64 * 1024  # bytes of a config.json; the release's own has 7 kB
MOST_LAYERS = 128  # of each half: every one is built; Kimi K3 has 93
MOST_EXPERTS = 2**18  # of all layers together: each has its own tensors; Kimi K3 has 83,328
_WIDTH, _COUNT = 2**18, 2**12

# official key -> the largest value, of those that are whole numbers; Kimi K3's own in the comments
LIMITS = {
    "num_hidden_layers": MOST_LAYERS, "vt_num_hidden_layers": MOST_LAYERS,
    "vocab_size": 2**22,  # 163,840
    "hidden_size": _WIDTH, "vt_hidden_size": _WIDTH, "routed_expert_hidden_size": _WIDTH,  # 7,168
    "intermediate_size": _WIDTH, "moe_intermediate_size": _WIDTH, "vt_intermediate_size": _WIDTH,
    "qkv_hidden_size": _WIDTH, "q_lora_rank": _WIDTH, "kv_lora_rank": _WIDTH,
    "num_attention_heads": _COUNT, "vt_num_attention_heads": _COUNT, "num_heads": _COUNT,  # 96
    "qk_nope_head_dim": _COUNT, "qk_rope_head_dim": _COUNT, "v_head_dim": _COUNT, "head_dim": _COUNT,  # 128
    "num_experts": 2**14, "num_experts_per_token": 2**14, "num_shared_experts": 2**8,  # 896, 16 and 2
    "first_k_dense_replace": MOST_LAYERS, "attn_res_block_size": MOST_LAYERS,
    "short_conv_kernel_size": 256,  # 4
    "init_pos_emb_height": _COUNT, "init_pos_emb_width": _COUNT, "init_pos_emb_time": _COUNT,  # 64, 64 and 4
    "patch_size": 256, "merge_kernel_size": 16, "mm_hidden_size": _WIDTH, "text_hidden_size": _WIDTH,
    "max_position_embeddings": 2**40, "model_max_length": 2**40,
    "bos_token_id": 2**31, "eos_token_id": 2**31, "pad_token_id": 2**31, "media_placeholder_token_id": 2**31,
}  # fmt: skip
