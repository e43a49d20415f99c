//! The beginning of a run: everything is checked before anything is started, and whatever fails half-way is taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use redroom_sidecar::search::SecretSet;
use redroom_sidecar::wire::Scenario;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::admission::Admission;
use super::recorder::{Manner, Recorder};
use super::{Held, Live, Run, Watched, finish, surroundings};
use crate::agent::ToolHook;
use crate::backend::{Owner, PlacedEntry, PlacedKind, SandboxSpec, WORKSPACE};
use crate::error::{Error, Result};
use crate::evidence::{Journal, Redactor, Store, folder_name, held};
use crate::link::Loss;
use crate::model::Player;
use crate::options::RunOptions;
use crate::planting::Planting;
use crate::planting::repository::{Committed, EMPTY_FOLDERS, repository};
use crate::redroom::Session;
use crate::settings::Plan;
use crate::slot::Lease;

/// Starts a run.
pub(crate) async fn start(session: &Arc<Session>, options: RunOptions) -> Result<Run> {
    let settings = &session.settings;
    // What must not be seen in anything that this run stores or returns; what is wrong with its options may say it, too.
    let held: Vec<String> = settings.held().into_iter().chain(options.held()).collect();
    held::hold(&held);
    let redactor = Redactor::new(held.iter().map(String::as_str));
    begin(session, options, redactor.clone()).await.map_err(|error| redactor.error(error))
}

async fn begin(session: &Arc<Session>, options: RunOptions, redactor: Redactor) -> Result<Run> {
    let own_pages = options.pages_planted();
    let options = session.settings.set_up(options)?;
    let planting = options.check(&session.settings.fake_domain)?;
    // The suite's come first. They count where the attack has none, for then its bait is among them.
    let others = if own_pages == 0 { 0 } else { planting.pages.len() - own_pages };
    let own_model = matches!(options.player, Some(Player::Model(_)));
    let plan = session.settings.plan(options)?;
    if own_model && plan.agent.model_endpoints().is_empty() {
        session.observer.notice(&model_is_never_asked(&plan));
    }
    let settings = &session.settings;
    guard_can_be_asked(&plan)?;
    if let Some(line) = guard_may_never_be_asked(&plan)
        && !session.told_of_guard.swap(true, Ordering::Relaxed)
    {
        session.observer.notice(&line);
    }
    let wiring = surroundings::wiring();
    let id = uuid::Uuid::new_v4().to_string();
    let upstream = plan.player.open(&*plan.agent, &settings.client, &settings.provider())?;
    let guard = plan.tool_call_check.open(&settings.client)?;
    let base = session.base_of(&plan.agent).await?;

    let store = Arc::new(Store::create(&session.out, &settings.environment.attempt_name(&folder_name(&plan.name)))?);
    let secrets = SecretSet::new(planting.secrets.iter().map(|secret| (secret.name.clone(), secret.value.as_bytes())));
    let watched = session.observer.watches().then(|| {
        let planted: Vec<_> = planting.secrets.iter().map(|secret| String::from_utf8_lossy(&secret.value.0)).collect();
        Arc::new(Watched::new(&plan.name, planted.iter().map(AsRef::as_ref), session.observer.clone()))
    });
    let journal = Arc::new(Journal::new(secrets, redactor, store).watched_by(watched));
    let admission = Admission::new(surroundings::given(&*plan.agent, &wiring), plan.provider_tools);
    let manner = Manner { hook: plan.agent.hook(), api: plan.agent.model_api() };
    let recorder = Arc::new(Recorder::new(id.clone(), journal.clone(), admission, upstream, guard, manner));

    let mut entries =
        surroundings::root_entries(&*plan.agent, &wiring, &session.authority.certificate, base.bundle.as_deref());
    for planted in planted_entries(&planting).into_iter().chain(repository_entries(&planting)) {
        if planted.kind != PlacedKind::Folder && entries.iter().any(|own| own.path == planted.path) {
            return Err(Error::redroom(
                "invalid_path",
                format!("files {:?}: redroom itself puts a file there; plant yours elsewhere", planted.path),
            ));
        }
        entries.push(planted);
    }
    let spec = SandboxSpec {
        run: id.clone(),
        base: base.base.clone(),
        limits: plan.limits.sandbox.clone(),
        env: surroundings::environment(&*plan.agent, &wiring),
        entries: entries.clone(),
    };
    let scenario = Scenario {
        fake_domain: settings.fake_domain.clone(),
        catch_all: settings.catch_all,
        pages: planting.pages.clone(),
        secrets: planting.secrets.clone(),
        model_endpoints: plan.agent.model_endpoints(),
        authority: session.authority.clone(),
    };

    let lease = session.pool.lease().await?;
    if let Some(watched) = journal.watched() {
        watched.moved_in(lease.number());
    }
    let making = match session.pool.making().await {
        Ok(making) => making,
        Err(error) => {
            session.pool.release(lease, false).await;
            return Err(error);
        }
    };
    let sandbox = match move_in(&lease, scenario, &journal, recorder.clone(), spec).await {
        Ok(sandbox) => sandbox,
        Err(error) => {
            session.pool.release(lease, false).await;
            return Err(error);
        }
    };
    let mut roots = finish::writable_roots();
    let standing = roots.clone();
    roots.extend(planting.files.iter().map(|file| file.path.to_string()).filter(|path| !below(&standing, path)));
    let live = Arc::new(Live {
        session: session.clone(),
        id,
        name: plan.name,
        agent: plan.agent,
        limits: plan.limits,
        secrets: planting.secrets.iter().map(|s| (s.name.clone(), s.value.0.clone())).collect::<BTreeMap<_, _>>(),
        placed: entries,
        roots,
        planted_files: planting.workspace.len() + planting.files.len(),
        pages: planting.pages[others..].iter().map(|page| format!("https://{}{}", page.host, page.path)).collect(),
        journal,
        recorder,
        sandbox,
        other_ports_unseen: lease.slot.link.other_ports_unseen(),
        lease: Mutex::new(Some(lease)),
        turns: Mutex::default(),
        busy: tokio::sync::Mutex::new(()),
        stopping: watch::Sender::new(None),
        finished: watch::Sender::new(None),
        finishing: Mutex::new(false),
        watchdog: Mutex::default(),
    });
    session.enter(&live);
    let run = Run(Arc::new(Held(live)));
    drop(making);
    run.watch_link();
    if let Err(error) = session.check_agent_version(&run, &base).await {
        let _ = run.cut_short(error.clone()).await;
        return Err(error);
    }
    Ok(run)
}

/// Where nothing makes an agent ask, a guard that was never asked is no mistake; but whoever set it should know.
fn guard_may_never_be_asked(plan: &Plan) -> Option<String> {
    (plan.agent.hook() == ToolHook::Voluntary && !plan.tool_call_check.is_none()).then(|| {
        let agent = plan.agent.name();
        format!(
            "a guard is set, and nothing makes {agent} ask it: only what is posted to the tool hook from inside is put to the guard, \
             not what {agent} runs; have an agent with a hook watched, such as ClaudeCode, or write `tool_call_check = none` at attacks \
             of {agent}"
        )
    })
}

fn model_is_never_asked(plan: &Plan) -> String {
    let agent = plan.agent.name();
    format!(
        "{}: its `model` plays nothing, for {agent} asks no model; take it away, or attack an agent that does, such as ClaudeCode",
        plan.name
    )
}

/// A guard that would never be asked must not look like one that let everything pass.
fn guard_can_be_asked(plan: &Plan) -> Result<()> {
    if plan.agent.hook().asks() || plan.tool_call_check.is_none() {
        return Ok(());
    }
    let agent = plan.agent.name();
    Err(Error::redroom(
        "guard_without_hook",
        format!(
            "a guard is set, and {agent} has no tool hook to ask it with: write `tool_call_check = none` at this attack, or, \
             where {agent} can be given one, have it post to Wiring::tool_hook_url and say so in Agent::hook"
        ),
    ))
}

async fn move_in(
    lease: &Lease,
    scenario: Scenario,
    journal: &Journal,
    recorder: Arc<Recorder>,
    spec: SandboxSpec,
) -> Result<Box<dyn crate::backend::Sandbox>> {
    // The scenario is in force before the first process of the agent can ask for anything; making the sandbox takes longer
    // than that, so both go on at once, and the first command is given when both are done.
    let begin = async {
        let begun = lease.slot.link.begin(lease.slot.generation(), scenario, recorder).await;
        journal.moved_in();
        begun
    };
    let (begun, sandbox) = tokio::join!(begin, lease.slot.slot.open_sandbox(spec));
    match (begun, sandbox) {
        (Ok(()), sandbox) => sandbox,
        (Err(error), Ok(sandbox)) => {
            if let Err(error) = sandbox.remove().await {
                tracing::warn!(%error, "a sandbox could not be removed; the next start will sweep it");
            }
            Err(error)
        }
        (Err(error), Err(_)) => Err(error),
    }
}

impl Run {
    /// Freezes the agent as soon as the stream to its sidecar is lost: nothing would record or answer it any more.
    fn watch_link(&self) {
        let live = Arc::downgrade(&self.0.0);
        let lost = {
            let lease = self.0.lease.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            lease.as_ref().map(|lease| lease.slot.link.watch())
        };
        let Some(lost) = lost else { return };
        let task = tokio::spawn(async move {
            let loss = lost.await;
            let Some(live) = live.upgrade() else { return };
            // Whoever has lost the engine has lost the stream with it.
            let why = match (&loss, live.session.backend.check().await) {
                (Loss::Broken(_), Err(lost)) => lost,
                _ => loss.error(),
            };
            live.stop(why.map_detail(|detail| format!("{detail}; the agent was stopped in the middle of its run")));
            if let Err(error) = live.sandbox.freeze().await {
                live.journal.error(error);
            }
        });
        *self.0.watchdog.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(AbortOnDropHandle::new(task));
    }
}

/// What the attack plants, as entries of a sandbox: the workspace's and the other files, the agent's own.
fn planted_entries(planting: &Planting) -> Vec<PlacedEntry> {
    let mut entries = Vec::new();
    let workspace = planting
        .workspace
        .iter()
        .map(|file| (format!("{WORKSPACE}/{}", file.path), &file.body, file.executable, Owner::Agent));
    // Folders above a file elsewhere belong to root, unless they lie in the agent's home.
    let elsewhere = planting.files.iter().map(|file| {
        let path = file.path.to_string();
        let owner = if below(&finish::writable_roots(), &path) { Owner::Agent } else { Owner::Root };
        (path, &file.body, file.executable, owner)
    });
    for (path, body, executable, parents) in workspace.chain(elsewhere) {
        surroundings::parents(&mut entries, &path, parents);
        entries.push(PlacedEntry {
            path,
            kind: PlacedKind::File(body.clone()),
            mode: if executable { 0o755 } else { 0o644 },
            owner: Owner::Agent,
        });
    }
    entries
}

/// The workspace's git repository, the agent's own; none where the attack plants one.
fn repository_entries(planting: &Planting) -> Vec<PlacedEntry> {
    let paths: Vec<String> = planting.workspace.iter().map(|file| file.path.to_string()).collect();
    let workspace =
        planting.workspace.iter().zip(&paths).map(|(file, path)| (path.as_str(), &file.body, file.executable));
    let paths: Vec<String> = planting.files.iter().map(|file| file.path.to_string()).collect();
    let elsewhere = planting.files.iter().zip(&paths).filter_map(|(file, path)| {
        let path = path.strip_prefix(WORKSPACE)?.strip_prefix('/')?;
        Some((path, &file.body, file.executable))
    });
    let files: Vec<_> =
        workspace.chain(elsewhere).map(|(path, body, executable)| Committed { path, body, executable }).collect();
    let Some(repository) = repository(&files) else { return Vec::new() };
    let entry =
        |path: &str, kind, mode| PlacedEntry { path: format!("{WORKSPACE}/{path}"), kind, mode, owner: Owner::Agent };
    let mut folders: BTreeSet<&str> = EMPTY_FOLDERS.into();
    for path in repository.iter().map(|file| file.path.as_str()).chain(EMPTY_FOLDERS) {
        folders.extend(path.match_indices('/').map(|(at, _)| &path[..at]));
    }
    let folders = folders.into_iter().map(|path| entry(path, PlacedKind::Folder, 0o755));
    let files = repository.iter().map(|file| entry(&file.path, PlacedKind::File(file.body.clone()), file.mode));
    folders.chain(files).collect()
}

fn below(roots: &[String], path: &str) -> bool {
    roots.iter().any(|root| path.strip_prefix(root.as_str()).is_some_and(|rest| rest.starts_with('/')))
}
