//! The jail backend: Linux namespaces, no engine, nothing to install.

#[cfg(target_os = "linux")]
#[allow(dead_code, unused_imports, reason = "its user is the backend that is being built")]
pub(crate) mod limits;
#[allow(dead_code, reason = "its user is the backend that is being built")]
pub(crate) mod refusal;
#[cfg(target_os = "linux")]
#[allow(dead_code, unused_imports, reason = "its user is the backend that is being built")]
pub(crate) mod tree;
