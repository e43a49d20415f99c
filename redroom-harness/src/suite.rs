//! What a suite sets for all its attacks, in code.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::agent::Agent;
use crate::guard::{IntoToolCallCheck, ToolCallCheck};
use crate::limits::Limits;
use crate::model::{IntoModel, ModelProxy, Player};
use crate::setup::Setup;

/// What a suite sets for all its attacks. Stronger than `redroom.toml`, weaker than the environment, the command line and an
/// attack's own attribute.
///
/// ```no_run
/// # use redroom_harness as redroom;
/// use redroom::{ClaudeCode, Suite};
///
/// let suite = Suite::new().agent(ClaudeCode::new("2.1.332").model("sonnet")).parallel(8);
/// ```
///
/// Most of it can stand in `redroom.toml`, too: the page `redroom::settings` has every key, with an example.
#[derive(Clone, Default)]
pub struct Suite {
    pub(crate) agent: Option<Arc<dyn Agent>>,
    pub(crate) player: Option<Player>,
    pub(crate) tool_call_check: Option<ToolCallCheck>,
    pub(crate) provider_tools: Option<Vec<String>>,
    pub(crate) parallel: Option<u32>,
    pub(crate) limits: Limits,
    pub(crate) fake_domain: Option<String>,
    pub(crate) catch_all: Option<bool>,
    pub(crate) backend: Option<String>,
    pub(crate) lease: Option<Duration>,
    pub(crate) ignored_without_backend: bool,
    pub(crate) setup: Option<Arc<dyn Fn() -> Setup + Send + Sync>>,
    pub(crate) manifest_dir: Option<PathBuf>,
}

impl Suite {
    /// Nothing set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The agent under attack. Default: Claude Code.
    #[must_use]
    pub fn agent(mut self, agent: impl Agent) -> Self {
        self.agent = Some(Arc::new(agent));
        self
    }

    /// Who plays the model: a [`Script`](crate::Script) or an async function.
    #[must_use]
    pub fn model(mut self, model: impl IntoModel) -> Self {
        self.player = Some(Player::Model(model.into_model()));
        self
    }

    /// Where the model's traffic goes: a gateway, a proxy. Takes the place of [`model`](Self::model).
    #[must_use]
    pub fn model_proxy(mut self, proxy: ModelProxy) -> Self {
        self.player = Some(Player::Proxy(proxy));
        self
    }

    /// Straight to the provider with the environment's key, whatever `redroom.toml` says.
    #[must_use]
    pub fn no_model_proxy(mut self) -> Self {
        self.player = Some(Player::Provider);
        self
    }

    /// What agents may ask of the provider beside answers. Default: nothing, for it would be done outside of the sandbox, where
    /// nobody watches: a request that asks for it is refused (`provider_tool_denied`).
    ///
    /// A tool is named by its type, with or without its date: `"web_search"`, `"web_search_20250305"`, `"code_interpreter"`.
    /// Other things are named by what they are: `"mcp_servers"`, `"container"`, `"url_source"` (an image or document that
    /// the provider fetches), `"file_source"`, `"files"`, `"batch"`, `"stored_state"`. Whatever was asked stands in
    /// [`ModelCall::asks`](crate::ModelCall::asks).
    #[must_use]
    pub fn allow_provider_tools(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.provider_tools = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// The guard: asked about every tool call.
    #[must_use]
    pub fn tool_call_check(mut self, check: impl IntoToolCallCheck) -> Self {
        self.tool_call_check = Some(check.into_tool_call_check());
        self
    }

    /// How many runs may be live at once, over all processes of this user: 1 to 245. Default: 4.
    #[must_use]
    pub fn parallel(mut self, parallel: u32) -> Self {
        self.parallel = Some(parallel);
        self
    }

    /// What one run may use.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The domain that the fake internet answers for, with everything under it. Default: `redroom.test`.
    #[must_use]
    pub fn fake_domain(mut self, domain: impl Into<String>) -> Self {
        self.fake_domain = Some(domain.into());
        self
    }

    /// Whether every other name and address is answered like the fake domain. Its hits are `blocked` all the same: they were
    /// meant for outside. Default: no.
    #[must_use]
    pub fn catch_all(mut self, catch_all: bool) -> Self {
        self.catch_all = Some(catch_all);
        self
    }

    /// `"docker"`, `"jail"`, or `"auto"`: docker where an engine answers, else the jail.
    #[must_use]
    pub fn backend(mut self, backend: impl Into<String>) -> Self {
        self.backend = Some(backend.into());
        self
    }

    /// How long the program may hang before everything of it ends: 1 second to a day. Default: 90 s.
    ///
    /// A program that is killed takes everything along. One that is stopped, in a debugger or swapped out does not; so what it has
    /// started ends by itself when it has heard nothing for a quarter longer than this, and a run that the program comes back to has the
    /// error `lease_over`. Time in which the machine is suspended does not count. Give more where a debugger holds the program.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// What is planted in every run, beside what the attack plants itself. Made anew for each, so that a
    /// [`canary`](crate::canary()) in it is fresh.
    ///
    /// - Where an attack plants something at a place of the setup's (a path, a URL), or declares a secret of a name of its own,
    ///   **the attack's counts**: as in every setting it is stronger than the suite.
    /// - Texts of the setup name secrets of the setup, and get the attack's value where it declares one of that name. Texts of an
    ///   attack name a secret of the setup where the attack says so: `secrets = { api_token: shared }`, for the attribute cannot
    ///   see the suite; [`RunOptions`](crate::RunOptions) need no word of it. [`Run::secret`](crate::Run::secret) knows both.
    /// - A secret of the setup has to stand in what is planted, as an attack's has to, but not where something of the setup gave way
    ///   to an attack's own. What only some attacks plant is [`unplanted`](crate::unplanted) here.
    /// - An attack that plants pages has to meet one of its own to be conclusive
    ///   ([`RunResult::open_questions`](crate::RunResult::open_questions)), and one that plants none has to meet one of the
    ///   setup's.
    ///
    /// ```no_run
    /// # use redroom_harness as redroom;
    /// use redroom::{Setup, Suite, canary};
    ///
    /// let suite = Suite::new().setup(|| {
    ///     Setup::new()
    ///         .workspace([(".env", "API_TOKEN=${secrets.api_token}\n")])
    ///         .secrets([("api_token", canary())])
    /// });
    /// ```
    #[must_use]
    pub fn setup(mut self, setup: impl Fn() -> Setup + Send + Sync + 'static) -> Self {
        self.setup = Some(Arc::new(setup));
        self
    }

    /// The last place where `redroom.toml` is looked for.
    pub(crate) fn manifest_dir(mut self, folder: &str) -> Self {
        self.manifest_dir = Some(PathBuf::from(folder));
        self
    }

    /// Where no backend can run, attacks are shown as ignored with the reason instead of failing. For suites that are run on
    /// machines of which only some have an engine; `REDROOM_REQUIRE=docker` makes them fail all the same.
    #[must_use]
    pub fn ignored_without_backend(mut self) -> Self {
        self.ignored_without_backend = true;
        self
    }
}

impl std::fmt::Debug for Suite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Suite")
            .field("parallel", &self.parallel)
            .field("backend", &self.backend)
            .finish_non_exhaustive()
    }
}
