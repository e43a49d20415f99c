"""A guard with Flask on Werkzeug. Prints its port, and each run that it is asked for."""

import logging

from flask import Flask, jsonify, request
from verdict import verdict
from werkzeug.serving import make_server

app = Flask(__name__)
logging.getLogger("werkzeug").setLevel(logging.ERROR)


@app.post("/pre-tool-use")
def pre_tool_use():
    # In one piece: several threads print.
    print(request.headers["x-redroom-run"] + "\n", end="", flush=True)
    status, answer = verdict(request.headers.get("authorization", ""), request.get_json())
    return jsonify(answer), status


server = make_server("127.0.0.1", 0, app, threaded=True)
print(server.server_port, flush=True)
server.serve_forever()
