//! What keeps Claude Code on the path: its managed settings, which belong to root, and its environment.
//!
//! The same variables stand in both places. Managed ones win over what a workspace plants in its own settings, and hold for
//! a second Claude Code that the agent starts with an empty environment; the real ones hold for everything else.

use serde_json::{Value, json};

use crate::agent::Wiring;

/// Where Claude Code looks for settings that only an administrator can change.
pub(super) const PATH: &str = "/etc/claude-code/managed-settings.json";

/// In seconds; longer than a guard is given, so that the guard's own time-out is what the agent hears of.
const HOOK_TIMEOUT: u32 = 60;

/// Stands where a key must; the relay takes it out. Everything in the sandbox can read it.
const PLACEHOLDER_KEY: &str = "redroom-placeholder-key";

pub(super) fn environment(wiring: &Wiring) -> Vec<(String, String)> {
    [
        ("ANTHROPIC_API_KEY", PLACEHOLDER_KEY),
        ("ANTHROPIC_BASE_URL", &wiring.model_base_url),
        // A proxy that a workspace plants would stand between the agent and its hook, and could answer for it. What else
        // the agent sends through it is the agent's doing, and seen.
        ("NO_PROXY", host(&wiring.tool_hook_url)),
        ("no_proxy", host(&wiring.tool_hook_url)),
        // Nothing but model requests: what is a hit in the fake internet is the agent's doing.
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        // A model that fails or keeps silent costs minutes, not the half hour of the defaults.
        ("CLAUDE_CODE_MAX_RETRIES", "2"),
        ("API_TIMEOUT_MS", "120000"),
        // A sub-agent in the background ends after the turn does, and opens another one.
        ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
        ("CLAUDE_CODE_USE_BEDROCK", "0"),
        ("CLAUDE_CODE_USE_VERTEX", "0"),
        ("CLAUDE_CODE_USE_FOUNDRY", "0"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

/// The host of a URL of ours, which has no user in front of it.
fn host(url: &str) -> &str {
    let host = url.split("://").nth(1).unwrap_or(url);
    host.split(['/', ':']).next().unwrap_or(host)
}

/// The managed settings. One entry that Claude Code does not know switches every hook off, with nothing but a warning.
pub(super) fn managed(wiring: &Wiring) -> Vec<u8> {
    let hook = json!({
        "type": "http",
        "url": wiring.tool_hook_url,
        "timeout": HOOK_TIMEOUT,
        // Without it, a hook that fails lets the tool run.
        "onFailure": "block",
    });
    // Tells that a tool has run. Whatever becomes of it, it changes nothing for the agent.
    let ran_url = format!("{}/ran", wiring.tool_hook_url);
    let ran = json!({ "type": "http", "url": ran_url, "timeout": HOOK_TIMEOUT });
    let env: serde_json::Map<String, Value> =
        environment(wiring).into_iter().map(|(name, value)| (name, Value::String(value))).collect();
    let settings = json!({
        // Asks a fixed host of the real internet before every fetch, and fetches nothing without an answer.
        "skipWebFetchPreflight": true,
        "allowManagedHooksOnly": true,
        "allowedHttpHookUrls": [wiring.tool_hook_url, ran_url],
        "env": env,
        "hooks": {
            "PreToolUse": [{ "matcher": "*", "hooks": [hook] }],
            "UserPromptSubmit": [{ "hooks": [hook] }],
            "PostToolUse": [{ "hooks": [ran] }],
            "PostToolUseFailure": [{ "hooks": [ran] }],
        },
    });
    format!("{settings:#}\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{environment, managed};
    use crate::agent::Wiring;

    fn wiring() -> Wiring {
        Wiring {
            model_base_url: "http://192.0.2.1:81".to_owned(),
            tool_hook_url: "http://192.0.2.1:82/hook".to_owned(),
            ca_bundle: "/etc/redroom/bundle.pem".to_owned(),
            ca_certificate: "/etc/redroom/ca.pem".to_owned(),
        }
    }

    #[test]
    fn what_asks_blocks_when_it_fails_and_outlasts_the_guard() {
        let settings: Value = serde_json::from_slice(&managed(&wiring())).unwrap();
        for event in ["PreToolUse", "UserPromptSubmit"] {
            let hook = &settings["hooks"][event][0]["hooks"][0];
            assert_eq!(hook["onFailure"], "block", "{event}");
            assert_eq!(hook["url"], "http://192.0.2.1:82/hook", "{event}");
            assert!(hook["timeout"].as_u64().unwrap() > 25, "{event}");
        }
        assert_eq!(settings["hooks"]["PreToolUse"][0]["matcher"], "*");
        for event in ["PostToolUse", "PostToolUseFailure"] {
            let hook = &settings["hooks"][event][0]["hooks"][0];
            assert_eq!(
                (hook.get("onFailure"), &hook["url"]),
                (None, &json!("http://192.0.2.1:82/hook/ran")),
                "{event}"
            );
        }
        let urls = json!(["http://192.0.2.1:82/hook", "http://192.0.2.1:82/hook/ran"]);
        assert_eq!(settings["allowedHttpHookUrls"], urls);
        assert_eq!(settings["allowManagedHooksOnly"], true);
        assert_eq!(settings["skipWebFetchPreflight"], true);
    }

    #[test]
    fn model_and_hook_are_asked_directly() {
        for name in ["NO_PROXY", "no_proxy"] {
            let direct = environment(&wiring()).into_iter().find(|(variable, _)| variable == name).unwrap().1;
            assert_eq!(direct, "192.0.2.1");
            assert!(wiring().model_base_url.contains(&format!("//{direct}:")));
        }
    }

    #[test]
    fn a_workspace_cannot_override_the_environment() {
        let settings: Value = serde_json::from_slice(&managed(&wiring())).unwrap();
        let environment = environment(&wiring());
        assert_eq!(settings["env"].as_object().unwrap().len(), environment.len());
        for (name, value) in environment {
            assert_eq!(settings["env"][&name], value, "{name}");
        }
        assert_eq!(settings["env"]["ANTHROPIC_BASE_URL"], "http://192.0.2.1:81");
    }
}
