"""What a form costs: python forms_load.py PROGRAM MODEL [OPTION…].

Serves MODEL and asks 64 clients at a time, then one, for 256 tokens each: free ones, those of a schema, and those with a
penalty, which draws from edited logits after each step as a schema does. Prints tokens per second. MODEL has a tokenizer;
what its weights say does not matter.
"""

import http.client
import json
import subprocess
import sys
import threading
import time
import urllib.request

PORT = 18190
TEXT = {"type": "string", "maxLength": 24}
FIELDS = {
    "id": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{6}$"},
    "name": TEXT,
    "status": {"enum": ["new", "paid", "sent"]},
    "count": {"type": "integer", "minimum": 1, "maximum": 999},
    "gift": {"type": ["boolean", "null"]},
    "note": {"anyOf": [TEXT, {"type": "null"}]},
}
ORDER = {"type": "object", "properties": FIELDS, "required": list(FIELDS), "additionalProperties": False}
KINDS = {
    "free": {},
    "schema": {"guided_json": {"type": "array", "minItems": 100, "items": ORDER}},
    "penalty": {"frequency_penalty": 0.01},
}


def ask(number, more, lens):
    talk = http.client.HTTPConnection("127.0.0.1", PORT)
    body = {"prompt": f"Order {number}:", "max_tokens": 256, "temperature": 1, "seed": number, "ignore_eos": True}
    talk.request("POST", "/v1/completions", json.dumps(body | more), {"Content-Type": "application/json"})
    lens.append(json.load(talk.getresponse())["usage"]["completion_tokens"])


def rate(num, more):
    lens = []
    clients = [threading.Thread(target=ask, args=(number, more, lens)) for number in range(num)]
    start = time.time()
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return sum(lens) / (time.time() - start)


program, model, *options = sys.argv[1:]
server = subprocess.Popen([program, "serve", model, "--port", str(PORT), *options], stdout=subprocess.DEVNULL)
try:
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health").close()
            break
        except OSError:
            assert server.poll() is None
            time.sleep(0.2)
    for num, rounds in ((64, 5), (1, 3)):
        for number in range(rounds):
            rates = [f"{name} {rate(num, more):,.0f}" for name, more in KINDS.items()]
            # The first round compiles what it needs.
            if number:
                print(f"{num} clients, tokens per second:", ", ".join(rates), flush=True)
finally:
    server.terminate()
    server.wait()
