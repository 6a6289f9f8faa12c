//! Memory that a node of a file has besides its graph. Deliberately of the host alone: a GPU's is the GPU's.

use pipeline_configs::Config;
use pipeline_stages::ledger::Sizes;

/// See the file's head, in bytes.
pub struct Footprint {
    /// Segments, and the buffers that files pass through.
    pub segments: u64,
    /// Tables, allocated at the start.
    pub tables: u64,
}

impl Footprint {
    /// Of a node of this file.
    pub fn of(config: &Config) -> Self {
        let callbacks = config.stages.iter().any(|s| s.kind == "callbacks");
        let listens = |way: &String| ["eventfd", "waker"].contains(&way.as_str());
        let listeners = config.stages.iter().any(|s| s.values.texts("via").iter().any(listens));
        let segments = config.segments.iter().map(|s| s.kind.host_bytes());
        Self {
            segments: segments.fold(0, u64::saturating_add),
            tables: Sizes::of(config).table_bytes(callbacks, listeners),
        }
    }

    /// All of it.
    pub fn bytes(&self) -> u64 {
        self.segments.saturating_add(self.tables)
    }
}
