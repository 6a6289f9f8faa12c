//! Nodes with faults, for whole-product tests: compiled with the feature `faults` only, which no released binary has.
//!
//! ```
//! use pipeline_node::faults::{self, Effect, Plan, Rule, Site, When};
//! use pipeline_node::{Error, Source};
//!
//! let plan = Plan::default();
//! let rule = plan.add(Rule::new(Site::Registration, When::Nth(1), Effect::Fail));
//! let engine = faults::start(&Source::text("test", "version = 1\nuse = \"tcp\"\n"), &plan)?;
//! assert!(engine.allocate(4096).is_err());
//! assert_eq!(plan.struck(rule), 1);
//! # Ok::<(), Error>(())
//! ```

use std::sync::Arc;

pub use pipeline_transports::faults::{Effect, Plan, Rule, RuleId, Site, When};

use pipeline_transports::Transport;
use pipeline_transports::faults::Faulty;

use crate::assemble::Wrap;
use crate::engine::Engine;
use crate::error::Error;
use crate::source::Source;

/// As [`Engine::from_source`], with `plan` around every transport. It may be changed while the engine runs.
///
/// # Errors
/// As there; and what the plan makes fail.
pub fn start(source: &Source, plan: &Plan) -> Result<Engine, Error> {
    let loaded = source.load().map_err(Error::Config)?;
    loaded.runnable().map_err(Error::Config)?;
    let faulty = |name: &str, transport: Arc<dyn Transport>| -> Arc<dyn Transport> {
        Arc::new(Faulty::new(name, transport, plan.clone()))
    };
    Engine::start_wrapped(loaded.config, Wrap { transport: &faulty, ..Wrap::BARE })
}
