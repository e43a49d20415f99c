//! How a tool of this machine gets into a sandbox: with all that it loads, so that it matters neither what the image has nor how old
//! that is. A jail has the programs of this machine anyway.

use std::path::{Path, PathBuf};
use std::process::Command;

use async_trait::async_trait;
use redroom::Shell;
use redroom::agent::{Agent, ProgramSources, ToolHook, TurnCommand, TurnInput, TurnReader};
use redroom::backend::{Program, Progress};

use crate::on_docker;

/// Where tools lie in a container.
const PLACE: &str = "/opt/strangers";
/// Where programs lie on this machine, whoever asks.
const FOLDERS: [&str; 4] = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];
/// What nmap reads beside itself, if it runs no script.
const NMAP_DATA: [&str; 4] = ["nmap-services", "nmap-protocols", "nmap-payloads", "nmap-os-db"];

/// A tool of this machine.
#[derive(Clone, Debug)]
pub(crate) struct Tool {
    name: &'static str,
    program: PathBuf,
    /// What it loads, the loader first.
    loads: Vec<PathBuf>,
}

impl Tool {
    /// Finds it, or says how to have it.
    pub(crate) fn find(name: &'static str) -> Result<Self, String> {
        let package = match name {
            "capsh" => "libcap2-bin",
            "jailcheck" => "firejail",
            name => name,
        };
        let found = FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file());
        let program = found.ok_or_else(|| format!("this machine has no {name}: write `apt-get install {package}`"))?;
        let loads = loads(&program).map_err(|why| format!("what {name} loads is not known: {why}"))?;
        Ok(Tool { name, program, loads })
    }

    /// What to write in a script for it.
    fn alias(&self) -> String {
        let Tool { name, program, .. } = self;
        match on_docker() {
            true => format!(
                "{name}() {{ NMAPDIR={PLACE}/nmap {PLACE}/lib/loader --library-path {PLACE}/lib {PLACE}/bin/{name} \"$@\"; }}\n"
            ),
            false => format!("{name}() {{ {} \"$@\"; }}\n", program.display()),
        }
    }

    fn lay_into(&self, mut program: Program) -> Program {
        program = program.file(&self.program, format!("{PLACE}/bin/{}", self.name));
        for (index, file) in self.loads.iter().enumerate() {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let name = if index == 0 { "loader".into() } else { name };
            let target = format!("{PLACE}/lib/{name}");
            if !program.files.iter().any(|known| known.target == target) {
                program = program.file(file, target);
            }
        }
        if self.name == "nmap" {
            let data = NMAP_DATA.map(|file| (Path::new("/usr/share/nmap").join(file), format!("{PLACE}/nmap/{file}")));
            program = data.into_iter().fold(program, |program, (file, target)| program.file(file, target));
        }
        program
    }
}

/// What the dynamic loader says that a program of this machine's packages loads; the loader itself first.
fn loads(program: &Path) -> Result<Vec<PathBuf>, String> {
    let listed = Command::new("ldd").arg(program).output().map_err(|error| format!("ldd: {error}"))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    let mut loads: Vec<PathBuf> = listed.lines().filter_map(path).collect();
    let loader = loads.iter().position(|file| file.to_string_lossy().contains("ld-linux"));
    let loader = loader.ok_or_else(|| format!("no loader in {listed:?}"))?;
    loads.swap(0, loader);
    Ok(loads)
}

/// A shell with some tools at hand, by their names.
pub(crate) struct Stranger {
    shell: Shell,
    tools: Vec<Tool>,
}

impl Stranger {
    pub(crate) fn new(tools: Vec<Tool>) -> Self {
        Stranger { shell: Shell::new(), tools }
    }
}

#[async_trait]
impl Agent for Stranger {
    fn name(&self) -> &str {
        "stranger"
    }

    fn version(&self) -> &str {
        self.shell.version()
    }

    async fn program(&self, _: &ProgramSources, _: Progress<'_>) -> redroom::Result<Program> {
        let program = Program::new(self.name(), self.version());
        match on_docker() {
            true => Ok(self.tools.iter().fold(program, |program, tool| tool.lay_into(program))),
            false => Ok(program),
        }
    }

    fn hook(&self) -> ToolHook {
        self.shell.hook()
    }

    fn turn(&self, turn: &TurnInput<'_>) -> TurnCommand {
        let mut command = self.shell.turn(turn);
        let aliases: String = self.tools.iter().map(Tool::alias).collect();
        command.stdin = [aliases.as_bytes(), &command.stdin].concat().into();
        command
    }

    fn reader(&self) -> Box<dyn TurnReader> {
        self.shell.reader()
    }
}
