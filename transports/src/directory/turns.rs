//! Several endpoints within one deadline: each may take an equal share of the time that is left, so that a frozen one
//! does not eat the time of those behind it. Keeps what each said, for the error if none answers.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;

use crate::clock::{Nanos, until};
use crate::error::Error;

/// Why one endpoint did not do what it was asked.
#[derive(Debug)]
pub(super) enum Failure {
    /// It failed, and the next one may do better.
    Here(String),
    /// So it is, wherever it is asked.
    Final(Error),
}

/// See the module.
pub(super) struct Turns {
    by: Nanos,
    left: u32,
    failures: Vec<String>,
}

impl Turns {
    /// For so many attempts.
    pub(super) fn new(by: Nanos, attempts: usize) -> Self {
        Self { by, left: u32::try_from(attempts).unwrap_or(u32::MAX).max(1), failures: Vec::new() }
    }

    /// One attempt. `None`: it failed, and that has been noted.
    pub(super) async fn take<T>(
        &mut self,
        endpoint: impl fmt::Display,
        attempt: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Option<T>, Error> {
        let share: Duration = until(self.by) / self.left;
        self.left = self.left.saturating_sub(1).max(1);
        let reason = match timeout(share, attempt).await {
            Ok(Ok(done)) => return Ok(Some(done)),
            Ok(Err(Failure::Final(error))) => return Err(error),
            Ok(Err(Failure::Here(reason))) => reason,
            Err(_) => "no answer in time".to_owned(),
        };
        self.failures.push(format!("{endpoint}: {reason}"));
        Ok(None)
    }

    /// None answered.
    pub(super) fn in_vain(self, place: &str) -> Error {
        let reason = match self.failures.as_slice() {
            // The place names it already.
            [one] => one.split_once(": ").map_or(one.as_str(), |(_, reason)| reason).to_owned(),
            all => all.join("; "),
        };
        Error::Directory { place: place.to_owned(), reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    /// A frozen endpoint takes its share of the time and no more; the one behind it still answers.
    #[test]
    fn a_frozen_one_leaves_time() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let begin = now();
            let mut turns = Turns::new(begin + 400_000_000, 2);
            let frozen = turns.take("a:1", std::future::pending::<Result<u8, Failure>>()).await;
            assert!(matches!(frozen, Ok(None)) && now() - begin >= 200_000_000);
            assert!(matches!(turns.take("b:1", async { Ok(7) }).await, Ok(Some(7))));
            let error = turns.in_vain("x at a:1, b:1").to_string();
            assert!(error.contains("no answer in time"), "{error}");
        });
    }
}
