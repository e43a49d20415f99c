//! A suite that itself runs in a container, with the engine's socket mounted, as it does in many a CI.

use serde_json::{Value, json};

use crate::engine::ask_with;
use crate::suite::{PATIENCE, Place, start, until};

/// The sidecar's image holds this very executable and the libraries that it needs: so it holds this suite.
pub(crate) fn a_suite_runs_in_a_container_that_has_the_engine_s_socket() {
    let place = Place::new();
    let suite = start(place.suite(&["in_mid_turn"]).env("REDROOM_BACKEND", "docker"));
    until("the turn", PATIENCE, || place.mark().exists());
    let image = place.containers().into_iter().find(|container| container.role == "slot").unwrap().image;
    suite.signal(rustix::process::Signal::TERM);
    suite.end(PATIENCE);

    for network in ["bridge", "host"] {
        let container = Outer::start(&image, network);
        until("its end", PATIENCE, || !container.runs());
        let (code, said) = (container.exit_code(), container.logs());
        assert_eq!(code, Some(0), "{network}: {said}");
        assert!(said.contains("1 passed"), "{network}: {said}");
    }
}

/// A container with a suite in it.
struct Outer(String);

impl Outer {
    fn start(image: &str, network: &str) -> Self {
        let body = json!({
            "Image": image,
            "Entrypoint": ["/sidecar"],
            "Cmd": ["moments::next"],
            "Env": [
                "MANNERS_SUITE=1", "REDROOM_BACKEND=docker", "XDG_RUNTIME_DIR=/run", "REDROOM_OUT=/tmp/out", "LD_LIBRARY_PATH=/lib",
            ],
            "HostConfig": {
                "NetworkMode": network,
                "Binds": ["/var/run/docker.sock:/var/run/docker.sock"],
                "Tmpfs": { "/run": "", "/tmp": "" },
            },
        });
        let made = ask_with("POST", "/containers/create", &body.to_string());
        let id = serde_json::from_str::<Value>(&made).ok().and_then(|made| Some(made["Id"].as_str()?.to_owned()));
        let outer = Outer(id.unwrap_or_else(|| panic!("{made}")));
        let started = ask_with("POST", &format!("/containers/{}/start", outer.0), "");
        assert_eq!(started, "", "{network}");
        outer
    }

    fn state(&self) -> Value {
        let found = ask_with("GET", &format!("/containers/{}/json", self.0), "");
        serde_json::from_str::<Value>(&found).unwrap_or_else(|error| panic!("{error}: {found}"))["State"].clone()
    }

    fn runs(&self) -> bool {
        self.state()["Running"] == true
    }

    fn exit_code(&self) -> Option<i64> {
        self.state()["ExitCode"].as_i64()
    }

    fn logs(&self) -> String {
        ask_with("GET", &format!("/containers/{}/logs?stdout=1&stderr=1", self.0), "")
    }
}

impl Drop for Outer {
    /// With whatever it has left in its own run folder, which is in memory and goes with it.
    fn drop(&mut self) {
        ask_with("DELETE", &format!("/containers/{}?force=1", self.0), "");
    }
}
