//! What answers are made of: the node's tables and figures, without what keeps it running. With the last handle to an engine
//! its control thread is joined, and that is the thread which answers.

use std::sync::Arc;

use pipeline_configs::Config;
use pipeline_stages::World;

use crate::observation::Observer;

/// See the head of the file.
pub(crate) struct Desk {
    pub(super) observer: Observer,
    pub(super) config: Arc<Config>,
}

impl Desk {
    pub(crate) fn new(observer: Observer, config: Arc<Config>) -> Self {
        Self { observer, config }
    }

    pub(super) fn world(&self) -> &Arc<World> {
        &self.observer.world
    }
}
