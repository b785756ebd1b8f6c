#!/usr/bin/env python3
"""Compares the log-probabilities of `warpfold generate` with those of transformers, on a GPU.

beside_transformers.py WARPFOLD MODEL [--prompts 64] [--device cuda:0]     needs torch, transformers, a GPU

Random prompts of 1 to 1,024 tokens are continued by 32 tokens each, in one batch. transformers then computes the same
positions from the same tokens, one prompt after the other: once in the type of the model, once in f32. The reference is
f32; the exit code is 1 if warpfold is further from it than transformers' own 16 bits, by more than a quarter, on
average, or draws a token that f32 puts 8 times as far below its own as 16 bits err on average.

On an H100 (driver 580.159.04, 2026-11-27), Qwen3's shapes with random weights, means of 16,384 differences: 0.6B
warpfold 0.0064, transformers 0.0077; 8B 0.046 and 0.051.
"""
import argparse
import json
import random
import subprocess
import sys
import tempfile

import torch
import transformers

TOKENS = 32


def ours(options, prompts):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as requests:
        for prompt in prompts:
            request = {"prompt_tokens": prompt, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
            requests.write(json.dumps(request | {"logprobs": 8}) + "\n")
        requests.flush()
        command = [options.warpfold, "generate", options.model, "--requests", requests.name, "--json"]
        command += ["--device", options.device]
        lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return [json.loads(line)["outputs"][0] for line in lines]


def theirs(model, prompts, answers):
    """The log-probabilities of the tokens that warpfold names, and the largest, at each position."""
    named, largest = [], []
    for prompt, answer in zip(prompts, answers):
        ids = torch.tensor([prompt + answer["tokens"][:-1]], device=model.device)
        with torch.no_grad():
            logits = model(ids, logits_to_keep=TOKENS).logits[0].float()
        logprobs = torch.log_softmax(logits, -1)
        top = torch.tensor([[token for token, _ in place["top"]] for place in answer["logprobs"]], device=model.device)
        named.append(logprobs.gather(1, top).cpu())
        largest.append(logprobs.max(-1).values.cpu())
    return torch.stack(named), torch.stack(largest)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("warpfold")
    parser.add_argument("model")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--device", default="cuda:0")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    model = transformers.AutoModelForCausalLM.from_pretrained(options.model, dtype="auto")
    draw = random.Random(1)
    vocabulary = model.config.vocab_size
    lengths = [int(2 ** draw.uniform(0, 10)) for _ in range(options.prompts)]
    prompts = [[draw.randrange(vocabulary) for _ in range(length)] for length in lengths]
    answers = ours(options, prompts)
    values = [[[value for _, value in place["top"]] for place in answer["logprobs"]] for answer in answers]
    values = torch.tensor(values)
    model = model.to(options.device)
    short, _ = theirs(model, prompts, answers)
    long, best = theirs(model.float(), prompts, answers)
    print(f"{options.model}: {len(prompts)} prompts, {values.numel()} log-probabilities against f32")
    off = {"warpfold": values - long, "transformers": short - long, "one another": values - short}
    off = {name: error.abs() for name, error in off.items()}
    for name, error in off.items():
        print(f"{name:>14}: mean {error.mean():.5f}, 99 % {error.flatten().quantile(0.99):.5f}, most {error.max():.5f}")
    below = (best - long[..., 0]).max()
    print(f"the token drawn lies {below:.5f} below f32's best at most")
    mean = off["transformers"].mean()
    sys.exit(bool(off["warpfold"].mean() > 1.25 * mean or below > 8 * mean))


if __name__ == "__main__":
    main()
