//! What happens to devices beside the data path: ports that go down and come up, addresses that come and go.
//!
//! Driven by the control pool for as long as the node runs. Events are taken and acknowledged at once, because whoever
//! destroys a queue pair waits until those about it are; then whoever watches the device looks again. Once a second the
//! port is asked without an event: drivers have been seen to lose some, and addresses change without one.
//! Deliberately no judgement of links: what a port that is down means to them is their reapers' business.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ibverbs_sys as ffi;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::device::Device;
use super::graveyard::Graveyard;
use crate::clock::now;

/// How long a device is believed without an event.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Most events taken at a time, so that a device gone mad leaves the control pool to others.
const EVENTS: usize = 64;

/// What an event says of the port that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    /// It carries nothing (any more).
    PortDown,
    /// It is up, or what it is reached by has changed: ask.
    Ask,
    /// The device is lost until the program starts again.
    Fatal,
    /// Of a queue pair or a queue: completions say more.
    OfQueue,
    /// Of another port, or of no interest.
    Nothing,
}

/// Tends all of them, and what queue pairs are left to be destroyed, for ever.
pub(super) async fn tend(devices: &[Arc<Device>], graveyard: &Graveyard) -> Infallible {
    let mut all: Vec<Pin<Box<dyn Future<Output = Infallible> + Send + '_>>> = Vec::new();
    all.push(Box::pin(graveyard.tend()));
    for device in devices {
        all.push(Box::pin(one(device)));
    }
    poll_fn(|context| {
        for tended in &mut all {
            if let Poll::Ready(never) = tended.as_mut().poll(context) {
                return Poll::Ready(never);
            }
        }
        Poll::Pending
    })
    .await
}

async fn one(device: &Device) -> Infallible {
    let announced = announced(device);
    if let Err(reason) = &announced {
        tracing::warn!(nic = device.nic(), %reason, "events of the device are only looked for once a second");
    }
    loop {
        let ready = async {
            match &announced {
                Ok(events) => events.readable().await,
                Err(_) => std::future::pending().await,
            }
        };
        let ready = tokio::time::timeout(LOOK_AGAIN, ready).await;
        let taken = take(device);
        if taken == EVENTS {
            tokio::task::yield_now().await;
        } else if let Ok(Ok(mut ready)) = ready {
            ready.clear_ready();
        }
        if taken == 0 && device.refresh(now()) {
            device.changed();
        }
    }
}

/// The announcement of a device's events.
fn announced(device: &Device) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor of an open context, which outlives the borrow.
    let events = unsafe { BorrowedFd::borrow_raw((*device.context()).async_fd) };
    // One of our own to the same events: it may be closed before or after the device.
    let events = events.try_clone_to_owned()?;
    // SAFETY: an owned descriptor is open, and always the same one, until it is dropped.
    Ok(unsafe { AsyncFd::register_with_interest(events, Interest::READABLE) }?)
}

/// Takes what has happened. Answers how many events that were.
fn take(device: &Device) -> usize {
    let verbs = device.verbs();
    for taken in 0..EVENTS {
        // SAFETY: integers and pointers, all of which may be zero.
        let mut event: ffi::ibv_async_event = unsafe { std::mem::zeroed() };
        // SAFETY: an open context whose descriptor does not block, and a live place for the event.
        if unsafe { (verbs.get_async_event)(device.context(), &mut event) } != 0 {
            return taken;
        }
        // SAFETY: which member the union has depends on the type, and an integer may be read of any: it is only used for
        // events of ports.
        let port = unsafe { event.element.port_num };
        let (kind, news) = (event.event_type, news(event.event_type, port == i32::from(device.port())));
        // SAFETY: taken above, acknowledged once.
        unsafe { (verbs.ack_async_event)(&mut event) };
        let what = verbs.event_name(kind);
        match news {
            News::PortDown => device.note_down(now()),
            News::Fatal => device.note_fatal(now()),
            News::Ask => drop(device.refresh(now())),
            News::OfQueue => {}
            News::Nothing => continue,
        }
        match news {
            News::PortDown => tracing::warn!(nic = device.nic(), event = what, "the port went down"),
            News::Fatal => {
                tracing::error!(
                    nic = device.nic(),
                    event = what,
                    "the device is lost: restart to use it again"
                );
            }
            _ => {
                tracing::debug!(nic = device.nic(), event = what, state = ?device.state(), "event of a device")
            }
        }
        device.changed();
    }
    EVENTS
}

/// What is to be done about an event. `ours`: it names the port that is used, if it names one.
fn news(event: ffi::ibv_event_type, ours: bool) -> News {
    match event {
        ffi::IBV_EVENT_DEVICE_FATAL => News::Fatal,
        ffi::IBV_EVENT_PORT_ERR if ours => News::PortDown,
        ffi::IBV_EVENT_PORT_ACTIVE
        | ffi::IBV_EVENT_LID_CHANGE
        | ffi::IBV_EVENT_PKEY_CHANGE
        | ffi::IBV_EVENT_SM_CHANGE
        | ffi::IBV_EVENT_CLIENT_REREGISTER
        | ffi::IBV_EVENT_GID_CHANGE
            if ours =>
        {
            News::Ask
        }
        ffi::IBV_EVENT_CQ_ERR
        | ffi::IBV_EVENT_QP_FATAL
        | ffi::IBV_EVENT_QP_REQ_ERR
        | ffi::IBV_EVENT_QP_ACCESS_ERR => News::OfQueue,
        _ => News::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events of our port are told apart from those of the device's other ports; a fatal one concerns all.
    #[test]
    fn what_events_mean() {
        assert_eq!(news(ffi::IBV_EVENT_PORT_ERR, true), News::PortDown);
        assert_eq!(news(ffi::IBV_EVENT_PORT_ERR, false), News::Nothing);
        assert_eq!(news(ffi::IBV_EVENT_GID_CHANGE, true), News::Ask);
        assert_eq!(news(ffi::IBV_EVENT_GID_CHANGE, false), News::Nothing);
        assert_eq!(news(ffi::IBV_EVENT_DEVICE_FATAL, false), News::Fatal);
        assert_eq!(news(ffi::IBV_EVENT_QP_FATAL, false), News::OfQueue);
        assert_eq!(news(ffi::IBV_EVENT_COMM_EST, false), News::Nothing);
    }
}
