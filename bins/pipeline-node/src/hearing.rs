//! What an engine tells a program that does not wait: ends of batches by a doorbell, notices and news of peers.
//! Deliberately apart from how work is submitted: a program may do without any of it.

use pipeline_stages::notices::Notices;
use pipeline_stages::peer_events::PeerEvents;
use pipeline_stages::{DescriptorError, Doorbell};

use crate::engine::Engine;

impl Engine {
    /// Makes a doorbell: one descriptor for the event loop of a program that has many batches under way. It is rung when a
    /// batch that names it has ended.
    ///
    /// ```
    /// use pipeline_node::{Engine, Options, Request};
    /// use rustix::event::{PollFd, PollFlags, poll};
    ///
    /// let kv = "segments.kv = { kind = \"dram\", size = \"64KiB\", access = \"read_write\" }\n";
    /// let holder = Engine::from_toml(&format!("version = 1\nuse = \"tcp\"\n{kv}"))?;
    /// let via = "stages.notify = { via = [\"eventfd\"] }\n";
    /// let engine = Engine::from_toml(&format!("version = 1\nuse = \"tcp\"\n{via}"))?;
    /// let pages = engine.allocate(65_536)?;
    /// let kv = engine.open(&holder.local_address().to_string())?.segment("kv")?;
    ///
    /// let doorbell = engine.doorbell()?;
    /// let read = |i: u64| {
    ///     let options = Options { notify: Some(doorbell.clone()), ..Options::default() };
    ///     engine.submit(&[Request::read(&pages, i * 4096, kv.at(i * 4096), 4096)], options)
    /// };
    /// let mut batches = (0..16).map(read).collect::<Result<Vec<_>, _>>()?;
    /// while !batches.is_empty() {
    ///     // The program's other descriptors go here too.
    ///     poll(&mut [PollFd::new(&doorbell, PollFlags::IN)], None)?;
    ///     if doorbell.take() > 0 {
    ///         batches.retain(|batch| batch.poll().is_none());
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`DescriptorError`]: no `"eventfd"` in `via` of `completion_notify`, or no more descriptors.
    pub fn doorbell(&self) -> Result<Doorbell, DescriptorError> {
        self.inner.client.doorbell()
    }

    /// Listens to the notices of peers: what they say of batches whose requests have all ended ([`crate::Options::notice`]).
    /// While nobody listens their notices are refused, and their batches fail.
    ///
    /// ```
    /// use pipeline_node::{Engine, Options, Request};
    /// use std::time::Duration;
    ///
    /// let wait = Duration::from_secs(10);
    /// let kv = "segments.kv = { kind = \"dram\", size = \"64KiB\", access = \"read_write\" }\n";
    /// let receiver = Engine::from_toml(&format!("version = 1\nuse = \"tcp\"\n{kv}"))?;
    /// let notices = receiver.notices();
    ///
    /// let sender = Engine::from_toml("version = 1\nuse = \"tcp\"\n")?;
    /// let page = sender.allocate(4096)?;
    /// let kv = sender.open(&receiver.local_address().to_string())?.segment("kv")?;
    /// let options = Options { notice: Some(b"page 7".as_slice().into()), ..Options::default() };
    /// let batch = sender.submit(&[Request::write(&page, 0, kv.at(0), 4096)], options)?;
    ///
    /// let notice = notices.next(wait)?;
    /// // All that it speaks of is in place, or it says how much is not.
    /// assert!(notice.is_done() && &*notice.body == b"page 7");
    /// assert!(batch.wait(wait)?.is_done());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn notices(&self) -> Notices {
        self.inner.world.inbox.listen()
    }

    /// Hears what becomes of peers from now on: those that were opened here, and those that open this node. Control
    /// waits for no listener; one that is far behind hears how much it missed ([`crate::PeerEvent::Missed`]).
    pub fn peer_events(&self) -> PeerEvents {
        self.inner.world.watchers.listen()
    }
}
