"""Seals for many new users of a shreddable key over /v2, and prints the memory of the server: new_users.py PROGRAM [USERS]"""
import http.client, os, socket, struct, subprocess, sys, tempfile, time

class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost"); self.path = path
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX); self.sock.connect(self.path)

def rss(pid):
    line = next(l for l in open(f"/proc/{pid}/status") if l.startswith("VmRSS:"))
    return int(line.split()[1]) // 1024

program, many = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
with tempfile.TemporaryDirectory() as temp:
    d, key = temp + "/dir", temp + "/key"
    open(key, "wb").write(bytes(range(32))); os.chmod(key, 0o600)
    subprocess.run([program, "init", "--dir", d, "--key-file", key], check=True)
    server = subprocess.Popen([program, "run", "--dir", d, "--key-file", key])
    while not os.path.exists(d + "/server.sock"): time.sleep(.02)
    time.sleep(.3)
    subprocess.run([program, "key", "new", "k", "--mode", "shreddable", "--dir", d], check=True)
    client = Unix(d + "/server.sock")
    def seal(a, b):
        body = bytearray()
        for i in range(a, b):
            user = b"user %d" % i
            body += struct.pack("<HHII", 1, len(user), 0, 16) + b"k" + user + b"sixteen bytes ok"
        client.request("POST", "/v2/seal", bytes(body), {"Content-Type": "application/octet-stream"})
        r = client.getresponse(); data = r.read(); assert r.status == 200, data[:200]
        at = n = 0
        while at < len(data):
            status, _, ln = struct.unpack_from("<HHI", data, at); assert status == 0, data[at:at+99]; at += 8 + ln; n += 1
        assert n == b - a
    try:
        for _ in range(3): seal(0, 10_000)  # warm: buffers and threads
        print("users 10000 rss MiB", rss(server.pid), flush=True)
        start, step = time.time(), 10_000
        for a in range(10_000, many, step):
            seal(a, min(a + step, many))
            if (a + step) % 100_000 == 0: print("users", a + step, "rss MiB", rss(server.pid), f"{(a + step) / (time.time() - start):.0f} users/s", flush=True)
        print("peak", [l.strip() for l in open(f"/proc/{server.pid}/status") if l.startswith(("VmHWM", "VmRSS"))], "db MiB", os.path.getsize(d + "/server.db") >> 20)
    finally:
        server.terminate(); server.wait()
