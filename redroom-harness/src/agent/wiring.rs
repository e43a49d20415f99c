//! Where an agent finds what it must talk to, and the files that tell it so.

/// Where the agent finds what it must talk to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wiring {
    /// Base URL of the model, without a path: `http://192.0.2.1:81`.
    pub model_base_url: String,
    /// URL of the tool hook: `http://192.0.2.1:82/hook`.
    pub tool_hook_url: String,
    /// The bundle that holds the fake internet's CA and, where the image has them, the usual ones.
    pub ca_bundle: String,
    /// The CA's certificate alone.
    pub ca_certificate: String,
}

/// A file that belongs to root.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RootFile {
    /// Absolute.
    pub path: String,
    /// Its content; mode 0644.
    pub body: Vec<u8>,
}

impl RootFile {
    /// A file at an absolute path.
    pub fn new(path: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        RootFile { path: path.into(), body: body.into() }
    }
}
