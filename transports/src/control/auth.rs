//! The optional shared key: both sides prove that they have it, over both hellos and their nonces.
//! Deliberately authentication only: nothing is encrypted, and the key itself never travels.
//!
//! `proof = HMAC-SHA256(key, label ‖ len(hello_d) ‖ hello_d ‖ len(hello_a) ‖ hello_a)` with the lengths as
//! u32 and `label` one of two constants, so that a proof cannot be reflected to the side that made it.

use std::fmt;
use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::error::Error;

/// Shortest key, bytes: below, guessing is cheaper than it should be.
pub const KEY_MIN: usize = 16;
/// Longest key, bytes.
pub const KEY_MAX: usize = 4096;

/// Whose proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Who opened the connection. Proves first, so that a stranger cannot make an acceptor prove anything.
    Dialler,
    /// Who accepted it.
    Acceptor,
}

impl Role {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Dialler => b"pipeline-node control 1 dialler\0",
            Self::Acceptor => b"pipeline-node control 1 acceptor\0",
        }
    }
}

/// A shared key. Shows nothing of itself in `Debug`.
#[derive(Clone)]
pub struct SharedKey(Hmac<Sha256>);

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedKey(secret)")
    }
}

impl SharedKey {
    /// From its bytes.
    ///
    /// # Errors
    /// [`Error::BadArgument`] unless it has [`KEY_MIN`] to [`KEY_MAX`] bytes.
    pub fn new(key: &[u8]) -> Result<Self, Error> {
        let wrong = |why: String| Error::BadArgument(format!("shared key of {} bytes: {why}", key.len()));
        if !(KEY_MIN..=KEY_MAX).contains(&key.len()) {
            return Err(wrong(format!("use {KEY_MIN} to {KEY_MAX}, say `openssl rand -hex 32`")));
        }
        Hmac::new_from_slice(key).map(Self).map_err(|e| wrong(e.to_string()))
    }

    /// From a file; white space around the key does not count.
    ///
    /// # Errors
    /// With the path: [`Error::Io`], or as [`Self::new`].
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read(path)
            .map_err(|source| Error::Io { what: format!("reading key file {}", path.display()), source })?;
        Self::new(text.trim_ascii()).map_err(|e| match e {
            Error::BadArgument(why) => Error::BadArgument(format!("key file {}: {why}", path.display())),
            other => other,
        })
    }

    fn mac(&self, role: Role, dialler: &[u8], acceptor: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(role.label());
        for hello in [dialler, acceptor] {
            mac.update(&(hello.len() as u32).to_le_bytes());
            mac.update(hello);
        }
        mac
    }

    /// The proof of `role`, over the encoded hellos of both sides.
    pub fn prove(&self, role: Role, dialler: &[u8], acceptor: &[u8]) -> [u8; 32] {
        self.mac(role, dialler, acceptor).finalize().into_bytes().into()
    }

    /// Judges a proof, in time that does not depend on where it differs.
    pub fn verify(&self, role: Role, dialler: &[u8], acceptor: &[u8], proof: &[u8; 32]) -> bool {
        self.mac(role, dialler, acceptor).verify_slice(proof).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A golden proof (docs/wire.md), computed with another implementation of HMAC-SHA256.
    #[test]
    fn golden_proof() {
        let key = SharedKey::new(b"0123456789abcdef").unwrap();
        let proof = key.prove(Role::Dialler, b"dialler", b"acceptor");
        let hex: String = proof.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "147e74ebfce05c494a01615e37957001d40c3fb0508e54750d868785320fb4fe");
    }

    /// A proof is good for its key, its role and its two hellos only: neither reflected nor replayed.
    #[test]
    fn proofs_are_bound() {
        let (key, other) = (SharedKey::new(&[1; 32]).unwrap(), SharedKey::new(&[2; 32]).unwrap());
        let proof = key.prove(Role::Dialler, b"d", b"a");
        assert!(key.verify(Role::Dialler, b"d", b"a", &proof));
        assert!(!key.verify(Role::Acceptor, b"d", b"a", &proof));
        assert!(!key.verify(Role::Dialler, b"da", b"", &proof));
        assert!(!key.verify(Role::Dialler, b"d", b"b", &proof));
        assert!(!other.verify(Role::Dialler, b"d", b"a", &proof));
    }

    /// Short keys are refused, and no key shows itself.
    #[test]
    fn keys_are_checked_and_hidden() {
        assert!(SharedKey::new(b"short").unwrap_err().to_string().contains("16 to 4096"));
        assert_eq!(format!("{:?}", SharedKey::new(&[b'k'; 32]).unwrap()), "SharedKey(secret)");
        assert!(
            SharedKey::from_file(Path::new("/nonexistent/key")).unwrap_err().to_string().contains("/key")
        );
    }
}
