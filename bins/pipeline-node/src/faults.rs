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

pub use pipeline_transports::Blame;
pub use pipeline_transports::faults::{Counts, Effect, Plan, Rule, RuleId, Site, When, Wires};

use pipeline_transports::Transport;
use pipeline_transports::faults::{Faulty, OneSided};

use crate::assemble::{Around, Wrap};
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

/// As [`start`], with every transport that has no `serve` half (`loopback`) made into a one-sided wire: links by exchange, regions by keys, dead
/// links fenced, NICs that fail when `wires` says so.
///
/// # Errors
/// As [`Engine::from_source`].
pub fn start_one_sided(source: &Source, wires: &Wires) -> Result<Engine, Error> {
    start_with(source, &|_, transport| Arc::new(OneSided::new(transport, wires.clone())))
}

/// As [`start_one_sided`], and what was made one-sided speaks to peers that run another engine: under names that `wires` give,
/// without sessions, exchanges and fences. Around it is `plan`.
///
/// # Errors
/// As [`Engine::from_source`].
pub fn start_beside_another_engine(source: &Source, wires: &Wires, plan: &Plan) -> Result<Engine, Error> {
    start_with(source, &|name, transport| {
        let elsewhere = Arc::new(OneSided::to_another_engine(transport, wires.clone()));
        Arc::new(Faulty::new(name, elsewhere, plan.clone()))
    })
}

/// With something around every transport that has no `serve` half.
fn start_with(source: &Source, around: Around<'_, dyn Transport>) -> Result<Engine, Error> {
    let loaded = source.load().map_err(Error::Config)?;
    loaded.runnable().map_err(Error::Config)?;
    let one_sided = |name: &str, transport: Arc<dyn Transport>| match transport.caps().two_sided {
        true => transport,
        false => around(name, transport),
    };
    Engine::start_wrapped(loaded.config, Wrap { transport: &one_sided, ..Wrap::BARE })
}
