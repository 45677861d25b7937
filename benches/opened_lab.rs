//! Ground that stacks stand on in a benchmark: a lab whose reaper is the built binary, the agent,
//! the cache.

use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax::driver;
use surtax::fault::Fault;
use surtax::lab::{self, Lab};
use surtax::layer::{Layer, LayerSpec, Site, View};
use surtax::stack::start::StartContext;

/// Time that a layer may take to start.
const START_DEADLINE: Duration = Duration::from_secs(180);

/// An open lab, and what is needed beside it.
pub struct OpenedLab {
    /// The one door to the machine.
    pub lab: Lab,
    agent: PathBuf,
    cache: PathBuf,
}

impl OpenedLab {
    /// Opens a lab, as a campaign does once.
    pub fn open() -> Self {
        let lab = Lab::open_with(Path::new(env!("CARGO_BIN_EXE_surtax"))).expect("a lab opens");
        let agent = lab.agent().expect("the agent is written");
        let cache = lab::cache_directory().expect("there is a cache");
        Self { lab, agent, cache }
    }

    /// Returns the context with which whole stacks are started.
    pub fn context(&self) -> StartContext<'_> {
        StartContext {
            lab: &self.lab,
            level: 0,
            agent: &self.agent,
            cache: &self.cache,
            writable: &[],
            cwd: Path::new("/"),
            command: None,
            network: None,
            start_deadline: START_DEADLINE,
        }
    }

    /// Does something with the one layer of a stack, if it can run here.
    ///
    /// # Errors
    /// Why it cannot run here.
    pub fn at<T>(
        &self,
        stack: &str,
        act: impl FnOnce(&dyn Layer, &LayerSpec, &Site<'_>) -> Result<T, Fault>,
    ) -> Result<T, String> {
        let said = |fault: Fault| fault.message;
        let stack = driver::parse(stack).map_err(said)?;
        let spec = &stack.layers[0];
        let (root, limits) = (spec.root().map_err(said)?, spec.limits().map_err(said)?);
        let view = View {
            root,
            writable: Vec::new(),
            cwd: PathBuf::from("/"),
            scratch: None,
            shows_secrets: false,
        };
        let context = self.context();
        let site = Site {
            lab: context.lab,
            level: 0,
            agent: context.agent,
            cache: context.cache,
            view: &view,
            command: None,
            limits: &limits,
            carries_layers: false,
            network: None,
            start_deadline: START_DEADLINE,
        };
        let driver = driver::find(&spec.kind).map_err(said)?;
        driver.check(spec, &site).map_err(|unavailable| unavailable.why)?;
        act(driver, spec, &site).map_err(said)
    }

    /// Takes everything away.
    pub fn close(self) {
        let forced = self.lab.close().expect("the lab closes");
        assert!(forced.is_empty(), "removed by force: {forced:?}");
    }
}
