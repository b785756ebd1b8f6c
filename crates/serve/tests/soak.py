"""Requests of random lengths against a server: python soak.py http://127.0.0.1:PORT PID [NUM] [CLIENTS] [LONGEST] [ANSWER].

Each client draws the length of a prompt up to LONGEST tokens and of an answer up to ANSWER (as many, unless it is given),
whether it streams, and whether it leaves early.
Prints the resident memory of the process PID twenty times, and what the server still holds at the end.
"""

import http.client
import json
import random
import sys
import threading
import urllib.parse

base, pid, *rest = sys.argv[1:]
num, clients, longest = (int(word) for word in rest[:3] + ["2000", "8", "200"][len(rest) :])
most = int(rest[3]) if len(rest) > 3 else longest
host = urllib.parse.urlparse(base).netloc
lock, done = threading.Lock(), 0


def resident():
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmRSS"))


def one(draw):
    # Most are short, a few are long.
    length = lambda most: 1 + int(most ** draw.random())
    body = {
        "prompt": [draw.randrange(2, 250) for _ in range(length(longest))],
        "max_tokens": length(most),
        "stream": draw.random() < 0.5,
        "temperature": draw.choice([0, 1]),
        "ignore_eos": True,
    }
    connection = http.client.HTTPConnection(host, timeout=600)
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    if draw.random() < 0.1:
        response.read(1)
    else:
        text = response.read()
        assert response.status in (200, 503), text
    connection.close()


def client(seed):
    global done
    draw = random.Random(seed)
    while True:
        with lock:
            if done >= num:
                return
            done += 1
            if done % max(1, num // 20) == 0:
                print(f"{done} requests, {resident()} MB", flush=True)
        one(draw)


threads = [threading.Thread(target=client, args=(seed,)) for seed in range(clients)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
connection = http.client.HTTPConnection(host, timeout=600)
connection.request("GET", "/metrics")
held = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
lines = connection.getresponse().read().decode().splitlines()
print("\n".join(line for line in lines if any(line.startswith(f"vllm:{name}") for name in held)))
print(f"{num} requests, {resident()} MB at the end")
