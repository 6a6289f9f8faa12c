//! The worker pairs of an in-process transport: attached before links are, and known when a link is dialled.
//! Deliberately only their wakers: the halves belong to their workers.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::error::Error;
use crate::link::Wakes;
use crate::transport::{NicId, PairId};

/// See the file's head.
pub(crate) struct Ports {
    nics: usize,
    pairs: Mutex<BTreeMap<(NicId, PairId), Wakes>>,
}

impl Ports {
    /// Of so many NICs.
    pub(crate) fn new(nics: usize) -> Self {
        Self { nics, pairs: Mutex::default() }
    }

    /// Notes a pair; one that is attached again goes on under its new wakers.
    pub(crate) fn attach(&self, nic: NicId, pair: PairId, wakes: Wakes) -> Result<(), Error> {
        if usize::from(nic.0) >= self.nics {
            return Err(Error::BadArgument(format!("NIC {} of a transport that has {}", nic.0, self.nics)));
        }
        let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        pairs.insert((nic, pair), wakes);
        Ok(())
    }

    /// The wakers of a pair.
    pub(crate) fn wakes(&self, nic: NicId, pair: PairId) -> Result<Wakes, Error> {
        let pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = || Error::BadArgument(format!("NIC {}, worker pair {} is not attached", nic.0, pair.0));
        pairs.get(&(nic, pair)).cloned().ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Waker;

    /// A pair is attached on a NIC there is, before links are dialled on it, and may be again.
    #[test]
    fn attached_first() {
        let ports = Ports::new(1);
        let wakes = || Wakes { post: Waker::none(), reap: Waker::none(), serve: Waker::none() };
        assert!(ports.wakes(NicId(0), PairId(3)).is_err());
        ports.attach(NicId(0), PairId(3), wakes()).unwrap();
        assert!(ports.wakes(NicId(0), PairId(3)).is_ok());
        ports.attach(NicId(0), PairId(3), wakes()).unwrap();
        assert!(ports.attach(NicId(1), PairId(0), wakes()).is_err());
    }
}
