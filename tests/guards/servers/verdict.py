"""What both guards say: a list of words, as many a first guard is."""

WORDS = ("t.redroom.test", "@.env")


def verdict(authorization, call):
    """Status and answer for one hook call."""
    if authorization != "Bearer guard-key-7731":
        return 401, {"error": "who are you?"}
    text = str(call["tool_input"])
    found = [word for word in WORDS if word in text]
    if not found:
        return 200, {}
    return 200, {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": f"{call['tool_name']} may not have {found[0]}",
        }
    }
