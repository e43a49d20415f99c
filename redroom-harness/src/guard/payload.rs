//! What the agent's hooks say. Anybody in the sandbox can say the same: it is a claim.

use serde::Deserialize;
use serde_json::Value;

/// A call of the agent's hook.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum HookEvent {
    /// A tool is about to be called.
    PreToolUse(Box<ToolCall>),
    /// A turn begins.
    UserPromptSubmit {
        /// The agent's session.
        session_id: String,
        /// What the user said.
        prompt: String,
    },
    /// A tool has run, or has failed while it ran.
    Ran {
        /// The call's id.
        tool_use_id: String,
    },
    /// Something else.
    Other {
        /// What it calls itself.
        name: String,
        /// The agent's session.
        session_id: String,
    },
}

/// A tool call that the agent is about to make.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolCall {
    /// The tool: `Bash`, `WebFetch`, `mcp__server__tool`.
    pub tool_name: String,
    /// Its arguments.
    pub tool_input: Value,
    /// The call's id, the same as in the model's answer. An agent may announce one call twice.
    pub tool_use_id: String,
    /// The agent's session.
    pub session_id: String,
    /// The sub-agent that makes the call, if it is one.
    pub agent_id: Option<String>,
    /// The MCP server that the tool belongs to, if it does.
    pub mcp_server: Option<String>,
    /// All that the hook said.
    pub payload: Value,
}

#[derive(Deserialize)]
struct Head {
    hook_event_name: String,
    session_id: String,
}

#[derive(Deserialize)]
struct PreToolUse {
    tool_name: String,
    tool_input: Value,
    tool_use_id: String,
    agent_id: Option<String>,
    mcp_server: Option<McpServer>,
}

#[derive(Deserialize)]
struct McpServer {
    name: String,
}

#[derive(Deserialize)]
struct PostToolUse {
    tool_use_id: String,
}

#[derive(Deserialize)]
struct UserPromptSubmit {
    prompt: String,
}

impl HookEvent {
    /// Reads a payload. The error says what is missing.
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, String> {
        let payload: Value = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
        if !payload.is_object() {
            return Err("it is not a JSON object".to_owned());
        }
        let Head { hook_event_name: name, session_id } = read(&payload)?;
        match name.as_str() {
            "PreToolUse" => {
                let call: PreToolUse = read(&payload)?;
                if call.tool_name.is_empty() {
                    return Err("`tool_name` is empty".to_owned());
                }
                Ok(HookEvent::PreToolUse(Box::new(ToolCall {
                    tool_name: call.tool_name,
                    tool_input: call.tool_input,
                    tool_use_id: call.tool_use_id,
                    session_id,
                    agent_id: call.agent_id,
                    mcp_server: call.mcp_server.map(|server| server.name),
                    payload,
                })))
            }
            "UserPromptSubmit" => {
                let UserPromptSubmit { prompt } = read(&payload)?;
                Ok(HookEvent::UserPromptSubmit { session_id, prompt })
            }
            // What failed before it ran is told by neither: tried.
            "PostToolUse" | "PostToolUseFailure" => {
                let PostToolUse { tool_use_id } = read(&payload)?;
                Ok(HookEvent::Ran { tool_use_id })
            }
            _ => Ok(HookEvent::Other { name, session_id }),
        }
    }
}

fn read<'a, T: Deserialize<'a>>(payload: &'a Value) -> Result<T, String> {
    T::deserialize(payload).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::HookEvent;

    #[test]
    fn a_tool_call_of_a_sub_agent_through_mcp_is_read_whole() {
        let payload = json!({
            "session_id": "s", "transcript_path": "/home/agent/x.jsonl", "cwd": "/workspace",
            "permission_mode": "bypassPermissions", "hook_event_name": "PreToolUse", "tool_name": "mcp__fake__lookup",
            "tool_input": { "q": 1 }, "tool_use_id": "toolu_1", "agent_id": "a1", "agent_type": "Explore",
            "mcp_server": { "name": "fake", "source": "dynamic" },
        });
        let Ok(HookEvent::PreToolUse(call)) = HookEvent::parse(payload.to_string().as_bytes()) else { panic!() };
        assert_eq!((call.tool_name.as_str(), call.tool_use_id.as_str()), ("mcp__fake__lookup", "toolu_1"));
        assert_eq!((call.agent_id.as_deref(), call.mcp_server.as_deref()), (Some("a1"), Some("fake")));
        assert_eq!((&call.tool_input, &call.payload), (&json!({ "q": 1 }), &payload));
    }

    #[test]
    fn prompts_and_other_hooks_are_told_apart() {
        let prompt = json!({ "hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "hi" }).to_string();
        assert_eq!(
            HookEvent::parse(prompt.as_bytes()).unwrap(),
            HookEvent::UserPromptSubmit { session_id: "s".into(), prompt: "hi".into() }
        );
        for event in ["PostToolUse", "PostToolUseFailure"] {
            let ran = json!({ "hook_event_name": event, "session_id": "s", "tool_use_id": "t", "tool_response": [1] });
            assert_eq!(
                HookEvent::parse(ran.to_string().as_bytes()).unwrap(),
                HookEvent::Ran { tool_use_id: "t".into() }
            );
        }
        let stop = json!({ "hook_event_name": "Stop", "session_id": "s" }).to_string();
        assert_eq!(
            HookEvent::parse(stop.as_bytes()).unwrap(),
            HookEvent::Other { name: "Stop".into(), session_id: "s".into() }
        );
    }

    #[test]
    fn what_lacks_a_part_is_no_payload() {
        for (payload, says) in [
            ("", "EOF"),
            (r#"["Stop","s"]"#, "not a JSON object"),
            ("{}", "hook_event_name"),
            (r#"{"hook_event_name":"PreToolUse"}"#, "session_id"),
            (r#"{"hook_event_name":"PreToolUse","session_id":"s","tool_use_id":"t","tool_input":{}}"#, "tool_name"),
            (
                r#"{"hook_event_name":"PreToolUse","session_id":"s","tool_use_id":"t","tool_input":{},"tool_name":""}"#,
                "tool_name",
            ),
            (r#"{"hook_event_name":"PreToolUse","session_id":"s","tool_use_id":"t","tool_name":"Bash"}"#, "tool_input"),
            (r#"{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash","tool_input":{}}"#, "tool_use_id"),
            (r#"{"hook_event_name":"UserPromptSubmit","session_id":"s"}"#, "prompt"),
        ] {
            let said = HookEvent::parse(payload.as_bytes()).unwrap_err();
            assert!(said.contains(says), "{payload}: {said}");
        }
    }
}
