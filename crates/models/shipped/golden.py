#!/usr/bin/env python3
"""What the model that ships answers, computed by numpy in float64 from the file: golden.py > golden.json

Uses the function of `fixtures/models/make.py`, which shares nothing with warpfold. Needs numpy and tokenizers."""
import json, os, struct, sys
import numpy as np
from tokenizers import Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../../fixtures/models"))
from make import forward

PROMPTS = ["Once upon a time", "There was once a king who had", "The old woman looked at the wolf and said"]
STEPS = 16


def weights():
    data = open(os.path.join(HERE, "model.safetensors"), "rb").read()
    (length,) = struct.unpack("<Q", data[:8])
    out = {}
    for name, tensor in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            assert tensor["dtype"] == "BF16"
            start, end = (8 + length + at for at in tensor["data_offsets"])
            bits = np.frombuffer(data[start:end], np.uint16).astype(np.uint32) << 16
            out[name] = bits.view(np.float32).reshape(tensor["shape"])
    return out


config = json.load(open(os.path.join(HERE, "config.json")))
config |= {"kind": "llama", "theta": config["rope_theta"], "windows": [None] * config["num_hidden_layers"]}
W, tokenizer = weights(), Tokenizer.from_file(os.path.join(HERE, "tokenizer.json"))
cases = []
for prompt in PROMPTS:
    ids, steps = tokenizer.encode(prompt).ids, []
    prompt_tokens = list(ids)
    for _ in range(STEPS):
        logits = forward(config, W, ids)
        logprobs = logits - logits.max()
        logprobs -= np.log(np.exp(logprobs).sum())
        first, second = (int(i) for i in np.argsort(-logprobs)[:2])
        steps.append([first, round(float(logprobs[first]), 6), round(float(logprobs[first] - logprobs[second]), 6)])
        ids.append(first)
    text = tokenizer.decode(ids[len(prompt_tokens) :])
    cases.append({"prompt": prompt, "prompt_tokens": prompt_tokens, "text": text, "steps": steps})
print("[" + ",\n ".join(json.dumps(case) for case in cases) + "]")
