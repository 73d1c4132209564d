"""An ordinary script on one of the HTTP libraries of Python.

It reads from standard input what to send and to whom, as TestClassify writes it,
and sends it as anybody would who has read the manual of the library. It prints
nothing.
"""

import asyncio
import json
import sys
import uuid

order = json.load(sys.stdin)
who = order["identity"]


def new_id(style, n):
    return {"from-0": n, "from-1": n + 1, "uuid": str(uuid.uuid4()), "hex": uuid.uuid4().hex}[style]


class Requests:
    def __init__(self):
        import requests

        self.session = requests.Session()
        self.session.headers["User-Agent"] = who["userAgent"]

    def get(self, url):
        self.session.get(url).raise_for_status()

    def post(self, url, headers, body):
        r = self.session.post(url, json=body, headers=headers)
        r.raise_for_status()
        return r.headers

    def close(self):
        self.session.close()


class Httpx:
    def __init__(self):
        import httpx

        self.client = httpx.Client(timeout=60)
        self.client.headers["User-Agent"] = who["userAgent"]

    def get(self, url):
        self.client.get(url).raise_for_status()

    def post(self, url, headers, body):
        r = self.client.post(url, json=body, headers=headers)
        r.raise_for_status()
        return r.headers

    def close(self):
        self.client.close()


class Aiohttp:
    def __init__(self):
        import aiohttp
        from aiohttp import client_reqrep

        client_reqrep.SERVER_SOFTWARE = who["userAgent"]  # it names the version of Python, too
        self.loop = asyncio.new_event_loop()

        async def open_session():
            return aiohttp.ClientSession()

        self.session = self.loop.run_until_complete(open_session())

    def get(self, url):
        async def go():
            async with self.session.get(url) as r:
                r.raise_for_status()
                await r.read()

        self.loop.run_until_complete(go())

    def post(self, url, headers, body):
        async def go():
            async with self.session.post(url, json=body, headers=headers) as r:
                r.raise_for_status()
                await r.read()
                return r.headers

        return self.loop.run_until_complete(go())

    def close(self):
        self.loop.run_until_complete(self.session.close())
        self.loop.close()


class Conversation:
    """The JSON-RPC requests of one task."""

    def __init__(self, client, url):
        self.client, self.url, self.count = client, url, 0

    def call(self, headers, method, params=None, notification=False):
        frame = {"jsonrpc": "2.0"}
        if not notification:
            frame["id"] = new_id(who["rpcIds"], self.count)
            self.count += 1
        frame["method"] = method
        if params is not None:
            frame["params"] = params
        return self.client.post(self.url, headers, frame)


def ask_a2a(client, task):
    message_id = new_id(who["messageIds"], 0)
    talk = Conversation(client, task["url"])
    if task["dialect"] == "1.0":
        message = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": task["text"]}]}
        talk.call({"A2A-Version": "1.0"}, "SendMessage",
                  {"message": message, "configuration": {"acceptedOutputModes": ["text/plain"]}})
        return
    message = {"kind": "message", "messageId": message_id, "role": "user", "parts": [{"kind": "text", "text": task["text"]}]}
    talk.call(None, "message/send",
              {"message": message, "configuration": {"acceptedOutputModes": ["text/plain"], "blocking": True}})


def ask_mcp(client, task):
    talk = Conversation(client, task["url"])
    headers = {"Accept": "application/json, text/event-stream"}
    answer = talk.call(headers, "initialize", {
        "protocolVersion": who["mcpVersion"], "capabilities": {}, "clientInfo": who["clientInfo"],
    })
    headers["Mcp-Protocol-Version"] = who["mcpVersion"]
    if "Mcp-Session-Id" in answer:
        headers["Mcp-Session-Id"] = answer["Mcp-Session-Id"]
    talk.call(headers, "notifications/initialized", notification=True)
    talk.call(headers, "tools/list")
    talk.call(headers, "tools/call", {"name": task["tool"], "arguments": task["arguments"]})


for task in order["tasks"]:
    client = {"requests": Requests, "httpx": Httpx, "aiohttp": Aiohttp}[who["library"]]()
    if task["kind"] == "card":
        client.get(task["url"])
    elif task["kind"] == "a2a":
        ask_a2a(client, task)
    else:
        ask_mcp(client, task)
    client.close()
