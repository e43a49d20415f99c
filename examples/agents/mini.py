"""A small coding agent: one tool, bash. Python's standard library only.

One process is one turn: the message comes on standard input, one JSON object a line goes to standard output, and the session
is a file in the home folder. It asks its tool hook, if MINI_HOOK_URL names one, before it runs anything; a hook that does not
answer, or not as it should, is a denial.
"""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

VERSION = "1.0.0"
STEPS = 20
OUTPUT = 32 * 1024
TOOL = {
    "name": "bash",
    "description": "Run a command in the workspace.",
    "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}


def post(url, body, headers=()):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json", **dict(headers)})
    # No proxy of the environment's stands between an agent and its hook.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=120) as answer:
        return json.load(answer)


def ask_model(messages):
    headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"}
    body = {"model": os.environ["MINI_MODEL"], "max_tokens": 4096, "tools": [TOOL], "messages": messages}
    return post(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", body, headers)


def denied(session, call):
    """Why the hook does not want this call, or nothing."""
    url = os.environ.get("MINI_HOOK_URL")
    if not url:
        return None
    payload = {
        "hook_event_name": "PreToolUse",
        "session_id": session,
        "cwd": os.getcwd(),
        "tool_name": call["name"],
        "tool_input": call["input"],
        "tool_use_id": call["id"],
    }
    try:
        said = post(url, payload)["hookSpecificOutput"]
        if said["permissionDecision"] == "allow":
            return None
        return said.get("permissionDecisionReason") or "the hook said no"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"the hook gave no usable answer ({error})"


def run(session, call):
    reason = denied(session, call)
    if reason is not None:
        return {"is_error": True, "content": f"denied: {reason}"}
    done = subprocess.run(
        ["bash", "-c", call["input"]["command"]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    text = done.stdout[:OUTPUT].decode(errors="replace")
    return {"is_error": done.returncode != 0, "content": text or f"exit code {done.returncode}"}


def tell(**event):
    print(json.dumps(event), flush=True)


def turn(session, message):
    path = os.path.expanduser(f"~/.mini/{session}.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    messages = json.load(open(path)) if os.path.exists(path) else []
    messages.append({"role": "user", "content": message})
    for _ in range(STEPS):
        content = ask_model(messages)["content"]
        messages.append({"role": "assistant", "content": content})
        calls = [block for block in content if block["type"] == "tool_use"]
        results = []
        for call in calls:
            tell(type="call", id=call["id"], tool=call["name"], input=call["input"])
            results.append({"type": "tool_result", "tool_use_id": call["id"], **run(session, call)})
        if results:
            messages.append({"role": "user", "content": results})
        json.dump(messages, open(path, "w"))
        if not calls:
            return "".join(block.get("text", "") for block in content)
    raise RuntimeError(f"no end after {STEPS} steps")


def main():
    if sys.argv[1:] == ["--version"]:
        print(f"mini {VERSION}")
        return
    try:
        tell(type="end", text=turn(sys.argv[1], sys.stdin.read()))
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        sys.exit(f"mini: {type(error).__name__}: {error}")


main()
