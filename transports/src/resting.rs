//! Addresses of peers that did not answer of late, so that those that do are tried before them.
//! Deliberately forgetful: a rest is short and as few are remembered as can be looked through.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use crate::clock::{Nanos, now};

/// How long an address that failed is tried last.
const REST_NS: Nanos = 5_000_000_000;
/// As many are remembered.
const RESTING_MAX: usize = 256;

/// Addresses that failed of late, by the NIC that they failed from.
#[derive(Default)]
pub(crate) struct Resting(Mutex<Vec<(u16, SocketAddr, Nanos)>>);

impl Resting {
    /// Whether an address failed of late from this NIC.
    pub(crate) fn has(&self, nic: u16, to: SocketAddr) -> bool {
        let resting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        resting.iter().any(|(of, address, until)| (*of, *address) == (nic, to) && *until > now())
    }

    /// An address has failed. Whether that is news.
    pub(crate) fn add(&self, nic: u16, to: SocketAddr) -> bool {
        let mut resting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = !resting.iter().any(|(of, address, _)| (*of, *address) == (nic, to));
        resting.retain(|(of, address, until)| (*of, *address) != (nic, to) && *until > now());
        if resting.len() < RESTING_MAX {
            resting.push((nic, to, now() + REST_NS));
        }
        is_news
    }
}

#[cfg(all(test, not(pipeline_loom)))]
mod tests {
    use super::*;

    /// An address that failed rests for the NIC that it failed from only, is news once, and as few are remembered as was
    /// said.
    #[test]
    fn failed_addresses_rest() {
        let resting = Resting::default();
        let to = |port: usize| SocketAddr::from(([10, 0, 0, 1], port as u16));
        assert!(resting.add(0, to(1)) && !resting.add(0, to(1)));
        assert!(resting.has(0, to(1)) && !resting.has(1, to(1)) && !resting.has(0, to(2)));
        (0..2 * RESTING_MAX).for_each(|port| _ = resting.add(1, to(port)));
        assert_eq!(resting.0.lock().unwrap().len(), RESTING_MAX);
    }
}
