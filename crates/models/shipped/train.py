#!/usr/bin/env python3
"""Trains the model that ships: train.py TEXTS OUT [STEPS]

TEXTS has the books below as Project Gutenberg has them, each as NUMBER.txt; OUT gets config.json, tokenizer.json,
tokenizer_config.json, model.safetensors (bf16) and samples.txt. Needs torch, numpy, tokenizers and safetensors; takes
minutes on a GPU and a night on a CPU. The same torch on the same device gives the same weights."""
import hashlib, json, math, os, re, sys, time, unicodedata
import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

# Number: title, first and last line of the tales, the first bytes of the file's sha256.
BOOKS = {
    11: ("Alice's Adventures in Wonderland", 41, 3375, "49a0b2726606e129"),
    12: ("Through the Looking-Glass", 43, 3944, "24bae70935e7fce7"),
    54: ("The Marvellous Land of Oz", 195, 6685, "ed840664386fb163"),
    55: ("The Wonderful Wizard of Oz", 114, 4763, "18274f31ae11aea0"),
    113: ("The Secret Garden", 71, 9476, "8a7aebc835ae37ba"),
    128: ("The Arabian Nights Entertainments", 175, 11459, "bc0bc9384c8da759"),
    225: ("At the Back of the North Wind", 42, 10428, "d14238447299aa95"),
    236: ("The Jungle Book", 59, 5444, "2f9486eb4776d23b"),
    420: ("Dorothy and the Wizard in Oz", 154, 5345, "ff91e4557b018023"),
    473: ("Stories to Tell to Children", 854, 6210, "dd0c317793d03800"),
    485: ("The Road to Oz", 126, 5203, "fbff2bc866dd6d44"),
    486: ("Ozma of Oz", 121, 5052, "8363483af3b4c135"),
    501: ("The Story of Doctor Dolittle", 284, 3476, "5a1f308acfe19e34"),
    503: ("The Blue Fairy Book", 89, 13572, "1dc3c13543d1a3b7"),
    517: ("The Emerald City of Oz", 121, 6980, "a27996e8e0c6b23c"),
    540: ("The Red Fairy Book", 126, 14296, "8cd1a7810549f0d8"),
    640: ("The Yellow Fairy Book", 214, 11350, "e8ee7f5149f5a4e2"),
    641: ("The Violet Fairy Book", 149, 11141, "64d94d6cce1b31d4"),
    708: ("The Princess and the Goblin", 88, 6003, "103c5634780f3aac"),
    902: ("The Happy Prince and Other Tales", 104, 1939, "610dd0f6cc2731f0"),
    955: ("The Patchwork Girl of Oz", 150, 7432, "d712dfb36307d04b"),
    956: ("Tik-Tok of Oz", 136, 6270, "2e427698e22b9f75"),
    957: ("The Scarecrow of Oz", 128, 5638, "be371291f8caa563"),
    1597: ("Andersen's Fairy Tales", 65, 5846, "694271fa06569b61"),
    2435: ("The Crimson Fairy Book", 143, 9969, "1735d559df861fd4"),
    2591: ("Grimms' Fairy Tales", 129, 9184, "3090ed9c87b91509"),
    3027: ("The Orange Fairy Book", 446, 11034, "ccdb6c4fe1ff160c"),
    3282: ("The Brown Fairy Book", 152, 10003, "070ec704aa27581f"),
    3454: ("The Lilac Fairy Book", 209, 10661, "daf164a2ee74a6a8"),
    4018: ("Japanese Fairy Tales", 168, 7599, "7f973bfeb4a058bf"),
    4357: ("American Fairy Tales", 70, 4282, "4500f61206a0aee6"),
    5314: ("Household Tales by Brothers Grimm", 300, 24514, "9d33b74d15860c25"),
    5615: ("The Pink Fairy Book", 138, 10653, "7ddf4492bc8c85e9"),
    6746: ("The Grey Fairy Book", 106, 10750, "afc0d6cec507ca6b"),
    7128: ("Indian Fairy Tales", 394, 6570, "9ddc630db8e5deae"),
    7277: ("The Green Fairy Book", 187, 12176, "f8820efcd3d5ddc5"),
    8933: ("Popular Tales from the Norse", 3252, 17208, "f10f644c9d34fda1"),
    27826: ("The Olive Fairy Book", 436, 10355, "acd326c50080b1bd"),
}
END = "<|endoftext|>"
VOCAB, HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 2048, 160, 448, 5, 4, 2, 32
CONTEXT, ROWS, THETA, EPS = 512, 64, 10000.0, 1e-5
LEARNING_RATE, WEIGHT_DECAY, DROPOUT = 4e-3, 0.1, 0.05
OPENINGS = ["Once upon a time", "There was once a king who had", "The old woman looked at the wolf and said"]


def tales(folder, number):
    """The tales of a book: paragraphs in one line each, without headings."""
    title, first, last, digest = BOOKS[number]
    data = open(os.path.join(folder, f"{number}.txt"), "rb").read()
    assert hashlib.sha256(data).hexdigest().startswith(digest), f"{number}.txt is not the edition that is meant"
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    for mark, plain in {"“": '"', "”": '"', "‘": "'", "’": "'", "—": "--", "–": "-", "…": "...", "_": "", "*": ""}.items():
        text = text.replace(mark, plain)
    text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    text = "\n".join(text.replace("\r", "").split("\n")[first - 1 : last])
    text = re.sub(r"\[[^\]]*\]|\(\d+\)", "", text)
    all_tales, tale = [], []
    for paragraph in re.split(r"\n\s*\n", text):
        paragraph = re.sub(r"\s+", " ", paragraph).strip()
        letters = re.sub(r"[^A-Za-z]", "", paragraph)
        is_heading = len(paragraph) < 80 and (letters.isupper() or not re.search(r"[.!?;:,'\"]$", paragraph))
        if is_heading or not letters:
            all_tales.append(tale)
            tale = []
        elif not re.match(r"\(?(From the|Translated|Grimm|Adapted|Traditions|Contes|Folk|Told|\d)", paragraph):
            # The first word of a tale is sometimes in capitals.
            if not tale and re.match(r"[A-Z]{2,} [a-z]", paragraph):
                head, rest = paragraph.split(" ", 1)
                paragraph = head.capitalize() + " " + rest
            tale.append(paragraph)
    all_tales.append(tale)
    # Double quotes for speech, as half of the books have them.
    return ["\n".join(map(unquoted, t)) for t in all_tales if sum(map(len, t)) > 400]


def unquoted(text):
    """Single quotation marks as double ones, where a paragraph has no others."""
    if '"' in text:
        return text
    text = re.sub(r"(^|[\s(-])'(?=\S)", r'\1"', text)
    return re.sub(r"(?<=[.,!?;:-])'(?=[\s).,;-]|$)", '"', text)


def tokenizer_of(all_tales):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=[END], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(all_tales, trainer)
    return tokenizer


def norm(x, weight):
    return F.rms_norm(x.float(), (x.shape[-1],), eps=EPS).to(x.dtype) * weight.to(x.dtype)


def turned(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def key(name):
    """A name for a parameter, which has none with dots."""
    return name.replace(".", "/")


class Llama(torch.nn.Module):
    def __init__(self):
        super().__init__()
        def matrix(name, rows, columns, scale=1.0):
            self.register_parameter(key(name), torch.nn.Parameter(torch.randn(rows, columns) * scale * columns**-0.5))
        def ones(name):
            self.register_parameter(key(name), torch.nn.Parameter(torch.ones(HIDDEN)))
        self.register_parameter(key("model.embed_tokens.weight"), torch.nn.Parameter(torch.randn(VOCAB, HIDDEN) * 0.05))
        out = (2 * LAYERS) ** -0.5
        for i in range(LAYERS):
            p = f"model.layers.{i}."
            ones(p + "input_layernorm.weight")
            matrix(p + "self_attn.q_proj.weight", HEADS * HEAD_DIM, HIDDEN)
            matrix(p + "self_attn.k_proj.weight", KV_HEADS * HEAD_DIM, HIDDEN)
            matrix(p + "self_attn.v_proj.weight", KV_HEADS * HEAD_DIM, HIDDEN)
            matrix(p + "self_attn.o_proj.weight", HIDDEN, HEADS * HEAD_DIM, out)
            ones(p + "post_attention_layernorm.weight")
            matrix(p + "mlp.gate_proj.weight", INNER, HIDDEN)
            matrix(p + "mlp.up_proj.weight", INNER, HIDDEN)
            matrix(p + "mlp.down_proj.weight", HIDDEN, INNER, out)
        ones("model.norm.weight")
        angle = torch.arange(2 * CONTEXT)[:, None] * THETA ** -(torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, ids, dropout=0.0):
        W = lambda name: getattr(self, key(name))
        n = ids.shape[1]
        cos, sin = self.cos[:n], self.sin[:n]
        x = F.embedding(ids, W("model.embed_tokens.weight"))
        for i in range(LAYERS):
            p = f"model.layers.{i}."
            h = norm(x, W(p + "input_layernorm.weight"))
            q, k, v = (F.linear(h, W(f"{p}self_attn.{part}_proj.weight")) for part in "qkv")
            q, k, v = (t.unflatten(-1, (-1, HEAD_DIM)).transpose(1, 2) for t in (q, k, v))
            q, k = turned(q, cos, sin), turned(k, cos, sin)
            k, v = (t.repeat_interleave(HEADS // KV_HEADS, 1) for t in (k, v))
            a = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True).transpose(1, 2).flatten(2)
            x = x + F.dropout(F.linear(a, W(p + "self_attn.o_proj.weight")), dropout, dropout > 0)
            h = norm(x, W(p + "post_attention_layernorm.weight"))
            h = F.silu(F.linear(h, W(p + "mlp.gate_proj.weight"))) * F.linear(h, W(p + "mlp.up_proj.weight"))
            x = x + F.dropout(F.linear(h, W(p + "mlp.down_proj.weight")), dropout, dropout > 0)
        return F.linear(norm(x, W("model.norm.weight")), W("model.embed_tokens.weight"))


def main():
    folder, out = sys.argv[1:3]
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 13000
    os.makedirs(out, exist_ok=True)
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))
    all_tales = [tale for number in BOOKS for tale in tales(folder, number)]
    tokenizer = tokenizer_of(all_tales)
    tokenizer.save(os.path.join(out, "tokenizer.json"))
    end = tokenizer.token_to_id(END)
    ids = [[end] + e.ids for e in tokenizer.encode_batch(all_tales)]
    # Every fortieth tale is kept apart, to see when learning becomes learning by heart.
    train = torch.tensor([t for i, tale in enumerate(ids) if i % 40 for t in tale], device=device)
    held = torch.tensor([t for i, tale in enumerate(ids) if i % 40 == 0 for t in tale], device=device)
    model = Llama().to(device)
    num = sum(p.numel() for p in model.parameters())
    print(f"{len(all_tales)} tales, {sum(map(len, all_tales))} characters, {len(train)} + {len(held)} tokens, {num} parameters", flush=True)

    matrices = [p for name, p in model.named_parameters() if p.dim() == 2]
    vectors = [p for name, p in model.named_parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=(0.9, 0.98), fused=device == "cuda")
    run = torch.compile(model) if device == "cuda" else model
    def loss_of(ids, dropout):
        with torch.autocast(device, torch.bfloat16):
            logits = run(ids[:, :-1], dropout)
        return F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
    held_rows = held[: len(held) // (CONTEXT + 1) * (CONTEXT + 1)].view(-1, CONTEXT + 1)
    begin = time.time()
    for step in range(steps + 1):
        if step % 500 == 0 or step == steps:
            with torch.no_grad():
                at = sum(loss_of(rows, 0.0).item() * len(rows) for rows in held_rows.split(ROWS)) / len(held_rows)
            print(f"step {step}: held-out loss {at:.4f}, {time.time() - begin:.0f} s", flush=True)
        if step == steps:
            break
        warm, rest = min(1.0, (step + 1) / 200), 0.5 * (1 + math.cos(math.pi * step / steps))
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * warm * (0.02 + 0.98 * rest)
        starts = torch.randint(len(train) - CONTEXT - 1, (ROWS,), device=device)
        rows = train[starts[:, None] + torch.arange(CONTEXT + 1, device=device)]
        loss = loss_of(rows, DROPOUT)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 500 == 0:
            print(f"step {step}: loss {loss.item():.4f}", flush=True)

    weights = {name.replace("/", "."): p.detach().to(torch.bfloat16).cpu().contiguous() for name, p in model.named_parameters()}
    save_file(weights, os.path.join(out, "model.safetensors"), {"format": "pt"})
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "hidden_act": "silu",
        "vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "rms_norm_eps": EPS,
        "rope_theta": THETA, "max_position_embeddings": CONTEXT, "tie_word_embeddings": True, "attention_bias": False,
        "bos_token_id": end, "eos_token_id": end,
    }
    template = "{% for message in messages %}{{ message['content'] }}{{ '\\n' }}{% endfor %}"
    for name, value in {"config": config, "tokenizer_config": {"eos_token": END, "chat_template": template}}.items():
        with open(os.path.join(out, f"{name}.json"), "w") as file:
            json.dump(value, file, indent=2)
            file.write("\n")

    # What it says, from the rounded weights.
    with torch.no_grad():
        for name, value in weights.items():
            getattr(model, key(name)).copy_(value.float())
        samples = open(os.path.join(out, "samples.txt"), "w")
        for opening in OPENINGS:
            for temperature in (0.0, 0.6, 0.8):
                ids = tokenizer.encode(opening).ids
                while len(ids) < 160 and (ids[-1] != end):
                    logits = model(torch.tensor([ids], device=device))[0, -1].float()
                    ids.append(int(logits.argmax() if temperature == 0 else torch.multinomial((logits / temperature).softmax(-1), 1)))
                samples.write(f"== {temperature}\n{tokenizer.decode(ids, skip_special_tokens=False)}\n\n")


if __name__ == "__main__":
    main()
