//! What a file says about a simulated transport. Deliberately plain data; rates are parts per million.

use crate::error::Error;

/// See the file's head. The default delays a little and does nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimSettings {
    /// Its name in the file.
    pub name: String,
    /// Names of its NICs; none: one of its own name.
    pub nics: Vec<String>,
    /// Speed of the links of each NIC, index by index, where it is not `bytes_per_s`; 0 for no limit.
    pub nic_bytes_per_s: Vec<u64>,
    /// Of all that is drawn.
    pub seed: u64,
    /// Links a path.
    pub lanes: u16,
    /// The meaning of `slice = "auto"`, bytes.
    pub preferred_bytes: u64,
    /// Work requests outstanding on a link, at least 1.
    pub queue: usize,
    /// What [`crate::Caps::direct`] shall say; without, bytes go through a staging buffer.
    pub direct: bool,
    /// `move`: whether bytes are copied. Without, everything is checked and nothing touched, so terabytes cost
    /// nothing.
    pub moves_bytes: bool,
    /// From post to completion, at least, ns.
    pub delay_ns_min: u64,
    /// From post to completion, at most (but for a full wire and reordering), ns.
    pub delay_ns_max: u64,
    /// Speed of a link, which its requests use one after the other; 0 for no limit.
    pub bytes_per_s: u64,
    /// Requests that take up to `delay_ns_max` longer, so that later ones overtake them. All others
    /// complete in the order they were posted.
    pub reorder_ppm: u32,
    /// Requests whose completion never comes; every other one has been applied.
    pub loss_ppm: u32,
    /// Requests that fail; nothing is applied.
    pub error_ppm: u32,
    /// Requests that the target refuses, for any reason.
    pub refuse_ppm: u32,
    /// Completions that come once more, up to `delay_ns_max` later.
    pub duplicate_ppm: u32,
    /// Requests of whose bytes one bit is changed on the way.
    pub corrupt_ppm: u32,
}

impl Default for SimSettings {
    fn default() -> Self {
        Self {
            name: super::KIND.into(),
            nics: Vec::new(),
            nic_bytes_per_s: Vec::new(),
            seed: 0,
            lanes: 1,
            preferred_bytes: 256 << 10,
            queue: 256,
            direct: true,
            moves_bytes: true,
            delay_ns_min: 5_000,
            delay_ns_max: 50_000,
            bytes_per_s: 0,
            reorder_ppm: 0,
            loss_ppm: 0,
            error_ppm: 0,
            refuse_ppm: 0,
            duplicate_ppm: 0,
            corrupt_ppm: 0,
        }
    }
}

impl SimSettings {
    /// Whether they mean something.
    pub(super) fn check(&self) -> Result<(), Error> {
        let name = &self.name;
        if self.delay_ns_min > self.delay_ns_max {
            return Err(Error::BadArgument(format!(
                "transport `{name}`: the least delay, {} ns, is above the largest, {} ns",
                self.delay_ns_min, self.delay_ns_max
            )));
        }
        let fates = [self.loss_ppm, self.error_ppm, self.refuse_ppm];
        let sum: u64 = fates.iter().map(|ppm| u64::from(*ppm)).sum();
        if sum > 1_000_000
            || self.reorder_ppm > 1_000_000
            || self.duplicate_ppm.max(self.corrupt_ppm) > 1_000_000
        {
            return Err(Error::BadArgument(format!(
                "transport `{name}`: rates are parts of a million; loss, error and refuse together are {sum}"
            )));
        }
        Ok(())
    }
}
