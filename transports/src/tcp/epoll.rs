//! One edge-triggered epoll set a half: the half's single descriptor towards its worker's bell.
//! Deliberately keyed by link, never by position: halves move their lanes about.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use crate::error::Error;
use crate::link::LinkId;

const EVENTS: usize = 64;

/// See the file's head.
pub(crate) struct Epoll {
    set: OwnedFd,
}

/// What happened to a lane's socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) id: LinkId,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The peer has ended its direction, or the socket is broken: reads come to an end.
    pub(crate) ending: bool,
}

/// What a half wants to hear of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    Read,
    Write,
    Both,
}

impl Epoll {
    /// An empty set.
    pub(crate) fn new() -> Result<Self, Error> {
        let set = epoll::create(CreateFlags::CLOEXEC)
            .map_err(|e| Error::Io { what: "making an epoll set".into(), source: e.into() })?;
        Ok(Self { set })
    }

    /// For the worker's bell; readable while something has happened.
    pub(crate) fn fd(&self) -> RawFd {
        self.set.as_raw_fd()
    }

    /// Adds a socket; it leaves by being closed. Tells at once what is the case already.
    pub(crate) fn add(&self, socket: impl AsFd, id: LinkId, interest: Interest) -> std::io::Result<()> {
        let flags = match interest {
            Interest::Read => EventFlags::IN | EventFlags::RDHUP,
            Interest::Write => EventFlags::OUT,
            Interest::Both => EventFlags::IN | EventFlags::RDHUP | EventFlags::OUT,
        };
        Ok(epoll::add(&self.set, socket, EventData::new_u64(id.0), flags | EventFlags::ET)?)
    }

    /// Takes a socket out before its half lets go of it: the other half's handle keeps it open.
    pub(crate) fn remove(&self, socket: impl AsFd) {
        // A socket that was never added: nothing to take out.
        let _ = epoll::delete(&self.set, socket);
    }

    /// What has happened since the last call, at most [`EVENTS`] at once; never blocks. `true` if there may be more.
    pub(crate) fn poll(&mut self, mut each: impl FnMut(Ready)) -> bool {
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Interrupted: the next turn asks again.
        let Ok((events, _)) = epoll::wait(&self.set, &mut events[..], Some(&now)) else { return true };
        for event in &*events {
            let (flags, data) = (event.flags, event.data);
            let broken = flags.intersects(EventFlags::HUP | EventFlags::ERR);
            each(Ready {
                id: LinkId(data.u64()),
                readable: broken || flags.intersects(EventFlags::IN | EventFlags::RDHUP),
                writable: broken || flags.contains(EventFlags::OUT),
                ending: broken || flags.contains(EventFlags::RDHUP),
            });
        }
        events.len() == EVENTS
    }
}
