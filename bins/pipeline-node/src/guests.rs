//! Connections of those who ask a node something, on its control thread: so many at a time, and when one more comes the one that
//! deserves its place least goes. So nobody is kept out by those who come first and say nothing.
//! Deliberately without a clock of its own that ends the silent: until others need their place they harm nobody.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::task::AbortHandle;

/// What a guest has done; in the order in which they go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// It has not asked anything yet.
    Silent,
    /// It has asked, and has its answer.
    Answered,
    /// It waits for its answer.
    Waits,
}

struct Guest {
    number: u64,
    standing: Standing,
    /// Since when.
    since: Instant,
    task: Option<AbortHandle>,
}

struct All {
    most: usize,
    next: u64,
    guests: Vec<Guest>,
}

/// The connections of one listener; with it they end.
pub(crate) struct Guests(Arc<Mutex<All>>);

/// The place of one of them: given back when it is dropped.
pub(crate) struct Place {
    all: Arc<Mutex<All>>,
    number: u64,
}

fn with<T>(all: &Mutex<All>, work: impl FnOnce(&mut All) -> T) -> T {
    work(&mut all.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Guests {
    /// At most so many.
    pub(crate) fn new(most: usize) -> Self {
        Self(Arc::new(Mutex::new(All { most, next: 0, guests: Vec::new() })))
    }

    /// Runs the conversation of one more, for which another one goes if there are as many as there may be. Done when that has let
    /// go of its connection, which a task that was ended does at its next turn: else a burst would be accepted before anybody goes.
    pub(crate) async fn admit<F>(&self, converse: impl FnOnce(Place) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let number = with(&self.0, |all| {
            if all.guests.len() >= all.most {
                all.send_one_away();
            }
            all.next += 1;
            let since = Instant::now();
            all.guests.push(Guest { number: all.next, standing: Standing::Silent, since, task: None });
            all.next
        });
        let place = Place { all: self.0.clone(), number };
        let task = tokio::spawn(converse(place)).abort_handle();
        with(&self.0, |all| {
            // It may have ended already.
            if let Some(guest) = all.guests.iter_mut().find(|guest| guest.number == number) {
                guest.task = Some(task);
            }
        });
        tokio::task::yield_now().await;
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        let guests = with(&self.0, |all| std::mem::take(&mut all.guests));
        guests.iter().filter_map(|guest| guest.task.as_ref()).for_each(AbortHandle::abort);
    }
}

impl All {
    fn send_one_away(&mut self) {
        let worth = |at: &usize| (self.guests[*at].standing, self.guests[*at].since);
        if let Some(at) = (0..self.guests.len()).min_by_key(worth)
            && let Some(task) = self.guests.remove(at).task
        {
            task.abort();
        }
    }
}

impl Place {
    /// It has asked.
    pub(crate) fn asks(&self) {
        self.stands(Standing::Waits);
    }

    /// It has its answer.
    pub(crate) fn is_answered(&self) {
        self.stands(Standing::Answered);
    }

    fn stands(&self, standing: Standing) {
        with(&self.all, |all| {
            if let Some(guest) = all.guests.iter_mut().find(|guest| guest.number == self.number) {
                (guest.standing, guest.since) = (standing, Instant::now());
            }
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        with(&self.all, |all| all.guests.retain(|guest| guest.number != self.number));
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    fn numbers(guests: &Guests) -> Vec<u64> {
        with(&guests.0, |all| all.guests.iter().map(|guest| guest.number).collect())
    }

    /// Who has said nothing goes first, then who has its answer, and who waits for one last; of equals the one that has been so for
    /// longest. What ends gives its place back, and with the listener all end.
    #[tokio::test]
    async fn who_goes_first() {
        let guests = Guests::new(3);
        let places = Arc::new(Mutex::new(Vec::new()));
        let come = async || {
            let (places, ended) = (places.clone(), Arc::new(()));
            let lives = Arc::downgrade(&ended);
            let admitted = guests.admit(|place| async move {
                let _ended = ended;
                places.lock().unwrap().push(place);
                pending().await
            });
            admitted.await;
            lives
        };
        let lives = [come().await, come().await, come().await];
        places.lock().unwrap()[0].asks();
        places.lock().unwrap()[1].is_answered();
        for (left, gone) in [([1, 2, 4], 3), ([1, 2, 5], 4)] {
            come().await;
            assert_eq!(numbers(&guests), left, "{gone} was silent");
        }
        places.lock().unwrap().iter().for_each(Place::asks);
        come().await;
        assert_eq!(numbers(&guests), [2, 5, 6], "the first has waited for longest");
        assert!(lives[0].upgrade().is_none() && lives[1].upgrade().is_some());
        places.lock().unwrap().clear();
        assert_eq!(numbers(&guests), [0; 0]);
        let last = come().await;
        drop(guests);
        tokio::task::yield_now().await;
        assert!(last.upgrade().is_none());
    }
}
