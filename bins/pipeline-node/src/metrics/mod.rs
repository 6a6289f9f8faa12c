//! What a node measures, as metrics: for any recorder of the `metrics` facade, as Prometheus text, and over HTTP
//! (`[metrics] listen`). Names, help and labels are [`METRICS`]; `docs/metrics.md` is made from it.
//!
//! Nothing is counted here and nothing is kept: whoever asks gets an [`Observation`] translated. An application with a recorder of
//! its own exports what happened since it did so last:
//!
//! ```
//! use pipeline_node::{Engine, metrics};
//!
//! let engine = Engine::from_toml("version = 1\nuse = \"tcp\"\n")?;
//! let recorder = metrics::Text::default(); // or any other `metrics::Recorder`
//! metrics::describe(&recorder);
//! let mut before = engine.observe();
//! metrics::export(&before, &recorder);
//! // Every few seconds:
//! let now = engine.observe();
//! metrics::export(&now.since(&before), &recorder);
//! before = now;
//!
//! let uptime = recorder.value("pipeline_node_uptime_seconds_total", &[]).unwrap();
//! assert!((uptime - before.graph.elapsed_ns as f64 / 1e9).abs() < 1e-6);
//! assert_eq!(recorder.value("pipeline_node_stage_panics_total", &[("stage", "admit")]), Some(0.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An application that serves Prometheus text itself asks for [`text`].

#[cfg(test)]
mod complete;
pub(crate) mod endpoint;
mod export;
mod names;
mod page;
mod peers;
mod spread;
mod text;

pub use export::{describe, export};
pub use names::{Kind, METRICS, Metric};
pub use page::page;
pub use peers::PEERS_MAX;
pub use text::Text;

use std::net::SocketAddr;

use crate::engine::Engine;
use crate::error::Error;
use crate::observation::Observation;

/// Everything in an observation as Prometheus text, version 0.0.4.
pub fn text(observation: &Observation) -> String {
    let text = Text::default();
    describe(&text);
    export(observation, &text);
    text.render()
}

impl Engine {
    /// Where it serves metrics (`[metrics] listen`), with the port the system gave for port 0.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.here().ok()?;
        self.inner.metrics.get().copied()
    }

    pub(crate) fn serve_metrics(&self, listen: &str) -> Result<(), Error> {
        let wrong = |e: &dyn std::fmt::Display| Error::Start(format!("`listen` of [metrics]: {e}"));
        let listener = self.inner.control.listen(listen).map_err(|e| wrong(&e))?;
        let address = listener.local_addr().map_err(|e| wrong(&e))?;
        let _ = self.inner.metrics.set(address);
        self.inner.control.spawn(endpoint::serve(listener, self.observer()));
        Ok(())
    }
}
