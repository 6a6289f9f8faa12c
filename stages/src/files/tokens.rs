//! Leases that other nodes may read from: by an unguessable token, which whoever has the lease hands out.
//! Deliberately not by name: to know how a copy is called is not to be part of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use pipeline_transports::control::Token;

use super::error::FileError;
use super::root::Lease;
use crate::control::lock;

/// As many as there are leases that were shared and live: each has one token.
#[derive(Default)]
pub(super) struct Tokens(Mutex<HashMap<Token, Weak<Lease>>>);

impl Tokens {
    /// The token of a lease: the same one as long as it lives.
    pub(super) fn give(&self, lease: &Arc<Lease>) -> Result<Token, FileError> {
        let mut all = lock(&self.0);
        all.retain(|_, lease| lease.strong_count() > 0);
        if let Some((token, _)) = all.iter().find(|(_, of)| of.as_ptr() == Arc::as_ptr(lease)) {
            return Ok(*token);
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|e| {
            let source = std::io::Error::other(e.to_string());
            FileError::Io { path: lease.root.name.clone(), source }
        })?;
        all.insert(Token(random), Arc::downgrade(lease));
        Ok(Token(random))
    }

    /// The lease that a token stands for, while it lives.
    pub(super) fn redeem(&self, token: Token) -> Option<Arc<Lease>> {
        lock(&self.0).get(&token)?.upgrade()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Root;
    use pipeline_transports::{Access, RegionId};

    /// A token stands for one lease, is always the same for it, and for nothing once the lease has ended.
    #[test]
    fn a_token_ends_with_its_lease() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open("files", dir.path(), RegionId(1), 1 << 20, Access::ReadWrite).unwrap();
        let root = Arc::new(root);
        let tokens = Tokens::default();
        let leases: Vec<_> = (0..2).map(|id| Arc::new(root.lease(id, 8192).unwrap())).collect();
        let given: Vec<_> = leases.iter().map(|lease| tokens.give(lease).unwrap()).collect();
        assert!(given[0] != given[1] && tokens.give(&leases[0]).unwrap() == given[0]);
        assert_eq!(tokens.redeem(given[1]).unwrap().start, leases[1].start);
        assert!(tokens.redeem(Token([0; 16])).is_none());
        drop(leases);
        assert!(tokens.redeem(given[0]).is_none());
        let next = Arc::new(root.lease(0, 8192).unwrap());
        assert!(!given.contains(&tokens.give(&next).unwrap()));
        assert_eq!(lock(&tokens.0).len(), 1, "tokens of ended leases are forgotten");
    }
}
