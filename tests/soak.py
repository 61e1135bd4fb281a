"""The traffic of soak.sh: SERVER (a process id), its serve.json, and how many minutes."""

import base64
import json
import os
import random
import socket
import struct
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

pid, place, minutes = int(sys.argv[1]), json.load(open(sys.argv[2])), float(sys.argv[3])
url, token = place["url"], place["token"]
host, port = urllib.parse.urlsplit(url).hostname, urllib.parse.urlsplit(url).port
end = time.monotonic() + 60 * minutes
# How many runs there are to write to, and how many messages each gets before it is deleted.
RUNS, MESSAGES = 3, 25
counts, failures, lock = {}, [], threading.Lock()


def count(what):
    with lock:
        counts[what] = counts.get(what, 0) + 1


def ask(method, path, body=None):
    """An answer as JSON. Refusals are answers (a lost race, a run that has ended); others are failures."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url + path, data=data, method=method, headers=headers)
    count(method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refused:
        count(refused.code)
        if refused.code not in (404, 409, 422, 503):
            failures.append(f"{method} {path}: {refused.code} {refused.read()[:200]}")
        return None


def runs():
    return (ask("GET", "/api/runs?view=summary&limit=50") or {}).get("runs", [])


def reader(dice):
    """Reads as the page does."""
    for run in dice.sample(runs(), k=min(3, len(runs()))):
        path = f"/api/runs/{run['id']}"
        whole = ask("GET", path)
        ask("GET", f"{path}/events?limit=200")
        ask("GET", f"{path}/diff")
        artifacts = list((whole or {"run": {}})["run"].get("artifacts") or [])
        for artifact in dice.sample(artifacts, k=min(3, len(artifacts))):
            ask("GET", f"{path}/artifacts/{artifact['id'] if isinstance(artifact, dict) else artifact}")
    for path in ("/api/status", "/api/approvals", "/api/flows", "/api/providers", "/api/templates"):
        ask("GET", path)


def begun():
    """A run with two nodes, by the API."""
    run = ask("POST", "/api/runs", {"label": "Soak"})["run"]["id"]
    for name, mode in (("ann", "skip"), ("bob", "gated")):
        node = {"label": name, "roleTemplate": "implementer", "provider": "scripted"}
        made = ask("POST", f"/api/runs/{run}/nodes", {"node": {**node, "permissions": {"cliPermissionsMode": mode}}})
        if not made:
            failures.append("a node was not made")
    return run


own, ended, messages = [], [], 0


def writer(dice):
    """Writes to nodes, so that agents work, and answers what they ask. Its runs end and are deleted after a while: the
    data, and so the memory for them, stay as they are."""
    global messages
    if len(own) < RUNS:
        own.append(begun())
    if messages >= MESSAGES * RUNS:
        ended.append(own.pop(0))
        messages -= MESSAGES
        ask("POST", f"/api/runs/{ended[-1]}/stop", {})
    # A run whose turn is still ending is refused.
    ended[:] = [run for run in ended if ask("DELETE", f"/api/runs/{run}") is None]
    messages += 1
    run = {"id": dice.choice(own)}
    whole = ask("GET", f"/api/runs/{run['id']}") or {"run": {"nodes": {}}}
    nodes = list(whole["run"]["nodes"].values())
    if nodes:
        node = dice.choice(nodes)
        content = dice.choice([f"Think about {dice.random()}.", f"ask: run the tests {dice.random()} times"])
        sent = ask("POST", f"/api/runs/{run['id']}/chat", {"nodeId": node["id"], "content": content})
        count("sent" if sent else "not sent")
    for waiting in (ask("GET", "/api/approvals") or {}).get("approvals", [])[:2]:
        answer = dice.choice([{"status": "approved"}, {"status": "denied", "reason": "no"}])
        ask("POST", f"/api/approvals/{waiting['approval']['approvalId']}/resolve", {"resolution": answer})


def socket_client(dice):
    """A WebSocket that reads for a while, and is cut: properly, or in the middle."""
    key = base64.b64encode(os.urandom(16)).decode()
    with socket.create_connection((host, port), timeout=60) as connection:
        connection.sendall(
            f"GET /ws HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        )
        if b" 101 " not in connection.recv(4096):
            failures.append("no upgrade")
            return
        count("sockets")
        connection.settimeout(dice.uniform(0.1, 3))
        try:
            while connection.recv(65536):
                if dice.random() < 0.05:
                    break
        except TimeoutError:
            pass
        if dice.random() < 0.5:
            connection.sendall(b"\x88\x82" + b"\0\0\0\0" + struct.pack(">H", 1000))


def streamer(dice):
    """Server-sent events, left in the middle."""
    for run in runs()[:1]:
        request = urllib.request.Request(
            f"{url}/api/runs/{run['id']}/events/stream", headers={"Authorization": f"Bearer {token}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=dice.uniform(0.2, 2)) as stream:
                count("streams")
                stream.read(dice.randrange(1, 20_000))
        except (TimeoutError, OSError):
            pass


def hostile(_dice):
    """What is refused: no token, another host, too much."""
    with socket.create_connection((host, port), timeout=60) as connection:
        connection.sendall(b"GET /api/runs HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        if b"421" not in connection.recv(4096):
            failures.append("another host was not refused")
    with socket.create_connection((host, port), timeout=60) as connection:
        connection.sendall(b"GET / HT")
    count("hostile")


def loop(work, seed):
    dice = random.Random(seed)
    while time.monotonic() < end:
        try:
            work(dice)
        except Exception as error:  # A bug of this program is a failure, too.
            failures.append(f"{work.__name__}: {error!r}")
        time.sleep(dice.uniform(0.05, 0.5))


def measured():
    status = open(f"/proc/{pid}/status").read()
    kib = int(status.split("VmRSS:")[1].split()[0])
    threads = int(status.split("Threads:")[1].split()[0])
    return kib, len(os.listdir(f"/proc/{pid}/fd")), threads


works = [reader, reader, writer, socket_client, socket_client, streamer, hostile]
threads = [threading.Thread(target=loop, args=(work, seed)) for seed, work in enumerate(works)]
for thread in threads:
    thread.start()
samples = []
every = min(60.0, 60 * minutes / 20)
while time.monotonic() < end:
    time.sleep(max(0.0, min(every, end - time.monotonic())))
    samples.append(measured())
    print(f"{len(samples)}: {samples[-1][0] / 1024:.1f} MiB, {samples[-1][1]} files, {samples[-1][2]} threads, {counts}", flush=True)
for thread in threads:
    thread.join()
quarter = max(1, len(samples) // 4)
early, late = samples[quarter : 2 * quarter], samples[-quarter:]
memory = [max(one[0] for one in part) / 1024 for part in (early, late)]
files = [max(one[1] for one in part) for part in (early, late)]
print(f"memory {memory[0]:.1f} MiB, then {memory[1]:.1f} MiB; files {files[0]}, then {files[1]}; {counts}")
if memory[1] > 1.2 * memory[0] + 8:
    failures.append("the memory grows")
if counts.get("sent", 0) < 5 * minutes:
    failures.append("the agents had next to no messages")
if files[1] > files[0] + 20:
    failures.append("open files grow")
if len(ended) > RUNS:
    failures.append(f"{len(ended)} runs were not deleted")
for failure in failures[:20]:
    print(failure, file=sys.stderr)
sys.exit(1 if failures else 0)
