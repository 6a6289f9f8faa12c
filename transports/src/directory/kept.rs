//! One connection to a directory that replicates itself (etcd, redis): made when it is first needed, shared by all calls,
//! and made anew, to the first endpoint that can be had, when it fails. Every call may be carried out twice, so a call
//! that finds the kept connection dead tries again on a fresh one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::endpoint::Endpoint;
use super::turns::{Failure, Turns};
use crate::clock::Nanos;
use crate::error::Error;
use crate::transport::BoxFuture;

/// How connections are made.
pub(super) trait Connect: Send + Sync {
    /// A cheap handle; the connection ends with the last of them.
    type Connection: Clone + Send;
    /// To one endpoint, logged in.
    fn connect<'a>(&'a self, endpoint: usize) -> BoxFuture<'a, Result<Self::Connection, Failure>>;
}

/// See the module.
pub(super) struct Kept<C: Connect> {
    pub(super) place: String,
    endpoints: Vec<Endpoint>,
    connector: C,
    /// The connection, with the number of its making.
    kept: Mutex<(u64, Option<C::Connection>)>,
}

/// What is asked of a connection.
pub(super) type Ask<'a, C, T> = dyn Fn(C) -> BoxFuture<'a, Result<T, Failure>> + Send + Sync + 'a;

impl<C: Connect> Kept<C> {
    pub(super) fn new(place: String, endpoints: Vec<Endpoint>, connector: C) -> Self {
        Self { place, endpoints, connector, kept: Mutex::new((0, None)) }
    }

    /// Asks the kept connection, else a fresh one to each endpoint in turn. Ends by `by`.
    pub(super) async fn ask<'a, T>(&'a self, by: Nanos, ask: &Ask<'a, C::Connection, T>) -> Result<T, Error> {
        let kept = {
            let kept = self.lock();
            kept.1.clone().map(|connection| (kept.0, connection))
        };
        let mut turns = Turns::new(by, self.endpoints.len() + usize::from(kept.is_some()));
        if let Some((number, connection)) = kept {
            let attempt = async {
                let answer = ask(connection).await;
                if matches!(answer, Err(Failure::Here(_))) {
                    self.forget(number);
                }
                answer
            };
            match turns.take("the connection so far", attempt).await? {
                Some(answer) => return Ok(answer),
                // Also when it was only late: a frozen server is no reason to keep what may never answer.
                None => self.forget(number),
            }
        }
        for (at, endpoint) in self.endpoints.iter().enumerate() {
            let attempt = async {
                let connection = self.connector.connect(at).await?;
                let answer = ask(connection.clone()).await?;
                Ok((connection, answer))
            };
            if let Some((connection, answer)) = turns.take(endpoint, attempt).await? {
                let mut kept = self.lock();
                *kept = (kept.0 + 1, Some(connection));
                return Ok(answer);
            }
        }
        Err(turns.in_vain(&self.place))
    }

    /// Unless another call has made a fresh one meanwhile.
    fn forget(&self, number: u64) {
        let mut kept = self.lock();
        if kept.0 == number {
            kept.1 = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, (u64, Option<C::Connection>)> {
        // Whole at every moment: a panic of another call leaves nothing half done.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
