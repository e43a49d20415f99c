//! The seam between redroom and what runs a sandbox: a place with no way out, files put in before, commands run in it,
//! files taken out after.
//!
//! A backend knows nothing of models, pages, guards or secrets. What it is given are paths, bytes, commands and limits;
//! what it gives back are bytes and exits. Everything that comes out of a sandbox is hostile.

pub mod docker;
#[cfg(target_os = "linux")]
pub mod jail;
mod program;
mod session;

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redroom_sidecar::Lease;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};

pub use program::{Program, ProgramFile};

use crate::error::{By, Error, Result};
use crate::settings::BackendChoice;

/// The agent's user and group in every sandbox.
pub const AGENT_UID: u32 = 1000;
/// The agent's home folder in every sandbox.
pub const HOME: &str = "/home/agent";
/// The agent's working folder in every sandbox.
pub const WORKSPACE: &str = "/workspace";

/// The backend that was asked for, once it has said that it can do the job. Nothing else takes its place but in `auto`, and nothing
/// without isolation ever does.
///
/// # Errors
///
/// `docker_unavailable`, `jail_unavailable`; `sidecar_unavailable` and `jail_needs_init` where the program did not call
/// `redroom::init()`.
pub(crate) async fn choose(choice: BackendChoice) -> Result<Arc<dyn Backend>> {
    match choice {
        BackendChoice::Docker => docker("asked for").await,
        BackendChoice::Jail => jail("asked for").await,
        BackendChoice::Auto => match docker("an engine answers").await {
            Err(error) if error.code() == "docker_unavailable" => {
                jail(docker::Docker::absence(&error)).await.map_err(|jail| {
                    let detail = format!("{}; and no engine can take its place: {}", jail.detail(), error.detail());
                    Error::new(jail.by(), jail.code().to_owned(), detail)
                })
            }
            docker => docker,
        },
    }
}

/// Sweeps every backend that there is here, whether it could run anything or not.
pub(crate) async fn sweep_all() -> Result<Swept> {
    let engine = async { docker::Docker::connect(Path::new("/proc/self/exe"), "a sweep").await?.sweep().await }.await;
    #[cfg(target_os = "linux")]
    {
        let jail = jail::Jail::unproved("a sweep")?.sweep().await?;
        match engine {
            Ok(swept) => Ok(Swept { groups: jail.groups, ..swept }),
            Err(error) if error.code() == "docker_unavailable" => {
                Ok(Swept { left: vec![error.detail().to_owned()], ..jail })
            }
            Err(error) => Err(error),
        }
    }
    #[cfg(not(target_os = "linux"))]
    engine
}

async fn docker(why: &str) -> Result<Arc<dyn Backend>> {
    needs_init("sidecar_unavailable", "a slot's sidecar is")?;
    // Also there after the file has been built anew under the running program.
    let executable = Path::new("/proc/self/exe");
    Ok(Arc::new(docker::Docker::connect(executable, why).await?))
}

#[cfg(target_os = "linux")]
async fn jail(why: &str) -> Result<Arc<dyn Backend>> {
    needs_init("jail_needs_init", "the processes of a jail are")?;
    Ok(Arc::new(jail::Jail::open(why).await?))
}

#[cfg(not(target_os = "linux"))]
async fn jail(_: &str) -> Result<Arc<dyn Backend>> {
    Err(Error::backend("jail_unavailable", "the jail needs Linux; start Docker, and redroom will use that"))
}

fn needs_init(code: &'static str, what: &str) -> Result<()> {
    if crate::init::was_called() {
        return Ok(());
    }
    Err(Error::new(
        By::Sidecar,
        code,
        format!(
            "{what} this program started again, and it would not know: call `redroom::init()` first thing in `main`, before \
             any async runtime (not under `#[tokio::main]`), or let `redroom::main!()` write `main`"
        ),
    ))
}

/// What runs sandboxes.
#[async_trait]
pub trait Backend: Send + Sync {
    /// Which one, whether it isolates, and why it was chosen; stored in every result.
    fn facts(&self) -> BackendFacts;

    /// Makes ready what sandboxes of this program start from (Docker: the image). Costs nothing when it is there already.
    /// `progress` gets a line now and then while something long is under way.
    async fn prepare(&self, program: &Program, progress: Progress<'_>) -> Result<Base>;

    /// A file of what sandboxes start from, as it is before anything is placed; `None` where there is no regular file. At most
    /// 16 MiB; asked of the backend once for each base and path.
    async fn base_file(&self, base: &Base, path: &str) -> Result<Option<Vec<u8>>>;

    /// Whether [`checked`](Self::checked) was told this fact of a base lately, by whatever process: of one whose name stands for
    /// its content, which must not be asked again in each of many processes.
    fn was_checked(&self, _base: &Base, _fact: &str) -> bool {
        false
    }

    /// Remembers that a fact of a base holds.
    fn checked(&self, _base: &Base, _fact: &str) {}

    /// Opens a network namespace whose only inhabitant is a sidecar.
    async fn open_slot(&self, spec: SlotSpec) -> Result<OpenSlot>;

    /// Removes what dead sessions left behind; live ones are left alone.
    async fn sweep(&self) -> Result<Swept>;

    /// Whether what runs the sandboxes is still there: an error `by` the backend where it is not. Takes seconds at most.
    async fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Removes whatever of this session is still there: the last thing that a session does.
    async fn end_session(&self, session: &str) -> Result<()>;

    /// The same, unless it was done within the last minute by whatever process: for the start of each of many.
    async fn sweep_if_due(&self) -> Result<Swept> {
        self.sweep().await
    }
}

/// Gets a line of progress now and then.
pub type Progress<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// Which backend, whether it isolates, and why it was chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BackendFacts {
    /// `docker` or `jail`, with its version: `docker 28.5.2`.
    pub name: String,
    /// Whether the sandbox isolates. redroom runs nothing without.
    pub isolated: bool,
    /// Why this one: `asked for`, `an engine answers`.
    pub why: String,
}

/// What sandboxes start from; only the backend that made it can read it. Shown by its name: an image, say.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Base(pub(crate) String);

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which slot to open, and for whom.
#[derive(Clone, Debug)]
pub struct SlotSpec {
    /// The session's id: a UUID.
    pub session: String,
    /// The slot's number on this machine.
    pub number: u32,
    /// How long everything of the session goes on without a sign of life from this process.
    pub lease: Lease,
}

/// A slot, and the byte stream to its sidecar.
pub struct OpenSlot {
    /// The slot.
    pub slot: Box<dyn Slot>,
    /// The stream that [`redroom_sidecar::wire`] is spoken over. Its end is the sidecar's end.
    pub link: Box<dyn Duplex>,
}

/// A byte stream in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A network namespace with a sidecar in charge of it.
#[async_trait]
pub trait Slot: Send + Sync {
    /// Places files, starts a sandbox in the slot's namespace, and returns when commands can be run in it. A slot holds one
    /// sandbox at a time.
    async fn open_sandbox(&self, spec: SandboxSpec) -> Result<Box<dyn Sandbox>>;

    /// What the sidecar printed on its standard error, at most the last 16 KiB: for errors, never parsed.
    fn last_words(&self) -> String;

    /// Ends the sidecar and removes the slot. Idempotent.
    async fn close(&self) -> Result<()>;
}

/// Everything that a sandbox starts with.
#[derive(Clone, Debug)]
pub struct SandboxSpec {
    /// The run's id, for labels.
    pub run: String,
    /// From [`Backend::prepare`].
    pub base: Base,
    /// What it may use.
    pub limits: SandboxLimits,
    /// The whole environment of every command.
    pub env: Vec<(String, String)>,
    /// Files and folders, parents before children. Home, workspace, `/tmp`, `/var/tmp` and `/run/lock` exist.
    pub entries: Vec<PlacedEntry>,
}

/// What a sandbox may use.
#[derive(Clone, Debug, PartialEq)]
pub struct SandboxLimits {
    /// Processors, may be a fraction.
    pub cpus: f64,
    /// Memory in bytes, swap included.
    pub memory: u64,
    /// Processes and threads.
    pub pids: u32,
    /// The largest file, in bytes.
    pub file_size: u64,
    /// Open files of one process.
    pub open_files: u64,
}

/// A file or folder put into a sandbox before it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedEntry {
    /// Absolute, normal: no `.`, `..`, empty part or NUL.
    pub path: String,
    /// What it is.
    pub kind: PlacedKind,
    /// The permission bits.
    pub mode: u32,
    /// Whose it is.
    pub owner: Owner,
}

/// What a placed entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacedKind {
    /// A folder.
    Folder,
    /// A file with this content.
    File(Bytes),
}

/// Whose a placed entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// uid and gid 0: the agent cannot change it.
    Root,
    /// uid and gid 1000.
    Agent,
}

/// One live sandbox.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// Runs a command as the agent's user to its end, its time or its output limit. What it prints goes to `sink` as it comes.
    /// When its time, the limit or a drop of the future ends it, all of the agent's processes are killed with it; when it ends by
    /// itself, what it left in the background goes on: a server that one turn started is there in the next.
    async fn exec(&self, exec: Exec, sink: &mut dyn Sink) -> Result<ExecEnd>;

    /// What of the limits and layers is not enforced as a whole here, what is done instead, and why: a line each.
    fn best_effort(&self) -> Vec<String> {
        Vec::new()
    }

    /// A file's content; `None` where there is no regular file. An error with the code `read_output_too_large` past `limit`
    /// bytes. Links are not followed.
    async fn read_file(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>>;

    /// Stops every process where it stands. Idempotent; a sandbox that has died is frozen.
    async fn freeze(&self) -> Result<()>;

    /// Whether it has ended by itself, and how. Asked when a command ended oddly.
    async fn fate(&self) -> Result<Fate>;

    /// Shows `visitor` every entry below `roots` (files: themselves), in the order of an archive, out of the frozen or dead
    /// sandbox. Nothing is written to this machine, nothing followed. A root that does not exist is passed over.
    async fn collect(&self, roots: &[String], visitor: &mut dyn Visitor) -> Result<()>;

    /// Removes it with all its processes. Idempotent.
    async fn remove(&self) -> Result<()>;
}

/// A command to run in a sandbox.
#[derive(Clone, Debug)]
pub struct Exec {
    /// Program and arguments; the program is looked for on the PATH of the sandbox.
    pub argv: Vec<String>,
    /// Added to the sandbox's environment.
    pub env: Vec<(String, String)>,
    /// Its standard input, then the end.
    pub stdin: Bytes,
    /// Its working folder.
    pub cwd: String,
    /// When it is killed.
    pub timeout: Duration,
}

/// Which of a command's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
    /// Words of the engine in between: not written by the agent.
    Engine,
}

/// Takes what a command prints. Must not block.
pub trait Sink: Send {
    /// Takes a chunk; `Break` ends the command ([`Ended::OutputLimit`]).
    fn write(&mut self, stream: Stream, chunk: &[u8]) -> ControlFlow<()>;
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecEnd {
    /// Its exit code: 128 + n for signal n, 126 and 127 where it could not be started; `None` where the sandbox died under it.
    pub exit_code: Option<i64>,
    /// What ended it.
    pub ended: Ended,
    /// How long it ran.
    pub duration: Duration,
}

/// What ended a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// Itself, or a signal from inside.
    Itself,
    /// Its time was up.
    Timeout,
    /// The sink had enough.
    OutputLimit,
    /// The sandbox died under it.
    SandboxDied,
    /// The sandbox had taken more of the disk than it may, and was ended.
    StorageLimit,
}

/// Whether a sandbox lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It lives. `memory_exceeded`: something in it was killed for memory.
    Alive {
        /// Something in it was killed for memory.
        memory_exceeded: bool,
    },
    /// It has ended, its files are still there.
    Dead {
        /// Exit code of its first process.
        exit_code: Option<i64>,
        /// The memory limit was the reason.
        memory_exceeded: bool,
        /// What the backend says of it.
        detail: String,
    },
}

/// Sees what a sandbox held. Every name and size is the agent's choice.
pub trait Visitor: Send {
    /// An entry. `content` is at its start and ends at the file's end; what is not read is passed over.
    fn entry(&mut self, entry: &CollectedEntry, content: &mut dyn std::io::Read) -> std::io::Result<()>;

    /// Something that could not be collected, and why.
    fn missed(&mut self, path: &[u8], why: &str);
}

/// An entry taken out of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectedEntry {
    /// Absolute; bytes, for names need not be UTF-8.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: CollectedKind,
    /// The permission bits, setuid and its kin included.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// What [`Sandbox::read_file`] says of a file that is too large.
pub(crate) fn read_output_too_large(path: &str, size: u64, limit: u64) -> Error {
    Error::redroom("read_output_too_large", format!("{path} has {size} bytes, more than the {limit} that are read"))
}

/// What a collected entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectedKind {
    /// A regular file of this many bytes.
    File(u64),
    /// A folder.
    Folder,
    /// A symbolic link to this; never followed.
    Symlink(Vec<u8>),
    /// Another name of a file that was shown before.
    HardLink(Vec<u8>),
    /// A fifo, socket or device.
    Special(&'static str),
}

/// What a sweep removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Containers, by name.
    pub containers: Vec<String>,
    /// Networks of other versions, by name.
    pub networks: Vec<String>,
    /// Volumes of other versions, by name.
    pub volumes: Vec<String>,
    /// Images, by name.
    pub images: Vec<String>,
    /// Control groups of jails, by name.
    pub groups: Vec<String>,
    /// What could not be looked at or removed, and why: a line each. The next sweep tries again.
    pub left: Vec<String>,
}
