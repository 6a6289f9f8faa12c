//! What a submission may be made of: requests as they come, or some of those that were prepared.
//! Deliberately a trait of known types: the loop over the requests is compiled for each.

use super::judge::FarEnd;
use super::prepared::Ready;
use super::{Prepared, SubmitError};
use crate::request::{NOTICE_MAX, Request};

/// See the file's head.
pub(super) trait Wanted {
    /// Whether the requests' memory was judged when they were prepared.
    const SOUND: bool;
    fn len(&self) -> usize;
    fn at(&self, i: usize) -> &Request;
    /// Of a sound one, the remote region that it begins in.
    fn far_end(&self, i: usize) -> FarEnd;
    /// Whether the requests make sense at all.
    fn check(&self) -> Result<(), SubmitError>;
}

/// Requests as they come.
pub(super) struct Plain<'a>(pub(super) &'a [Request]);

impl Wanted for Plain<'_> {
    const SOUND: bool = false;

    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn at(&self, i: usize) -> &Request {
        &self.0[i]
    }

    fn far_end(&self, _: usize) -> FarEnd {
        FarEnd::default()
    }

    fn check(&self) -> Result<(), SubmitError> {
        let nonsense = self.0.iter().enumerate().find_map(|(i, r)| Some((i, r.nonsense()?)));
        nonsense.map_or(Ok(()), |(index, what)| Err(SubmitError::BadRequest { index, what }))
    }
}

/// Prepared ones that follow each other.
pub(super) struct Stretch<'a>(pub(super) &'a [Ready]);

impl Wanted for Stretch<'_> {
    const SOUND: bool = true;

    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn at(&self, i: usize) -> &Request {
        &self.0[i].request
    }

    #[inline]
    fn far_end(&self, i: usize) -> FarEnd {
        self.0[i].far_end
    }

    fn check(&self) -> Result<(), SubmitError> {
        Ok(())
    }
}

/// Prepared ones by their indices.
pub(super) struct Listed<'a> {
    pub(super) of: &'a Prepared,
    pub(super) indices: &'a [u32],
}

impl Listed<'_> {
    #[inline]
    fn ready(&self, i: usize) -> &Ready {
        &self.of.ready[self.indices[i] as usize]
    }
}

impl Wanted for Listed<'_> {
    const SOUND: bool = true;

    fn len(&self) -> usize {
        self.indices.len()
    }

    #[inline]
    fn at(&self, i: usize) -> &Request {
        &self.ready(i).request
    }

    #[inline]
    fn far_end(&self, i: usize) -> FarEnd {
        self.ready(i).far_end
    }

    fn check(&self) -> Result<(), SubmitError> {
        let there = self.of.len();
        let beyond = self.indices.iter().position(|i| *i as usize >= there);
        beyond.map_or(Ok(()), |index| Err(SubmitError::BadRequest { index, what: super::prepared::BEYOND }))
    }
}

/// A notice goes to one peer, and says something of one start of it.
pub(super) fn judge_notice(wanted: &impl Wanted, body: &[u8]) -> Result<(), SubmitError> {
    if body.len() > NOTICE_MAX {
        return Err(SubmitError::NoticeTooLong { len: body.len(), limit: NOTICE_MAX });
    }
    let to = |i| {
        let remote = wanted.at(i).remote;
        (remote.peer, remote.incarnation)
    };
    let other = (0..wanted.len()).find(|i| to(*i) != to(0));
    other.map_or(Ok(()), |index| {
        let what =
            "it names another peer than the first one, or another start of it, and a batch has one notice";
        Err(SubmitError::BadRequest { index, what })
    })
}
