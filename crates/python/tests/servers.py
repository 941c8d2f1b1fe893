"""Servers that speak like S3, on the loopback interface. Tests import this when `needs` has found moto."""

import itertools
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.request

import boto3
from conftest import missing
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

ID, SECRET = "loopback-id", "loopback-secret"
NUMBERS = itertools.count()


class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *_):
        pass


class Server:
    """moto's server, with a count of its requests and of the bytes that they return."""

    def __init__(self):
        self.requests = []
        self.holds = None
        self.held = threading.Event()
        self.released = threading.Event()
        server = make_server(
            "127.0.0.1", 0, self._counted(DomainDispatcherApplication(create_backend_app)), True, 1, Quiet
        )
        self.url = f"http://127.0.0.1:{server.port}"
        self.stop = server.shutdown
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def hold(self, which):
        """Keeps requests waiting for which `which(environ)` is true, until `release` is called."""
        self.held.clear()
        self.released.clear()
        self.holds = which

    def release(self):
        self.holds = None
        self.released.set()

    def _counted(self, app):
        def counted(environ, start):
            method = environ["REQUEST_METHOD"]
            if self.holds is not None and self.holds(environ):
                self.held.set()
                self.released.wait()

            def started(status, headers, *rest):
                # The server sends its own, and strict clients refuse two.
                return start(status, [(name, value) for name, value in headers if name.lower() != "server"], *rest)

            returned = [part for part in app(environ, started)]
            sent = 0 if method == "HEAD" else sum(map(len, returned))
            self.requests.append((method, environ["PATH_INFO"], environ.get("HTTP_RANGE"), sent))
            return returned

        return counted

    def cost(self, work):
        """What the work returns, and the requests and bytes of objects that it cost."""
        self.requests.clear()
        result = work()
        return result, [request[0] for request in self.requests], sum(request[3] for request in self.requests)


class Versity:
    """versitygw, which keeps objects as files of a folder."""

    def __init__(self, folder):
        if shutil.which("versitygw") is None:
            missing("versitygw")
        # An address of this machine that nobody else has: nobody takes its port before the server does.
        process = os.getpid()
        host = f"127.{128 + next(NUMBERS) % 127}.{process >> 8 & 255}.{process & 255}"
        with socket.create_server((host, 0)) as free:
            port = free.getsockname()[1]
        environment = {**os.environ, "ROOT_ACCESS_KEY": ID, "ROOT_SECRET_KEY": SECRET}
        arguments = ["versitygw", "--port", f"{host}:{port}", "posix", str(folder)]
        nothing = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(arguments, env=environment, **nothing)
        self.url = f"http://{host}:{port}"
        self._wait()

    def _wait(self):
        while self._process.poll() is None:
            try:
                return urllib.request.urlopen(self.url)
            except urllib.error.HTTPError:
                return None
            except OSError:
                time.sleep(0.05)
        raise AssertionError("versitygw does not start")

    def stop(self):
        self._process.kill()
        self._process.wait()


def client(url):
    """A client of Amazon's own library."""
    return boto3.client("s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id=ID, aws_secret_access_key=SECRET)
