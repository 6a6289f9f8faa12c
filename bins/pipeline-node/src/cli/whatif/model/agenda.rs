//! What will happen, in the order of time. Deliberately a heap and a number: two events of the same moment happen in the order
//! in which they were entered, so a run is the same each time; nothing is ever taken out, an event that is void is let pass.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Nanoseconds since the run began. A float, because shares of a CPU are fractions.
pub type Time = f64;

/// See the file's head.
pub struct Agenda<E> {
    heap: BinaryHeap<Entry<E>>,
    entered: u64,
}

struct Entry<E> {
    at: Time,
    number: u64,
    event: E,
}

impl<E> Agenda<E> {
    /// Nothing.
    pub fn new() -> Self {
        Self { heap: BinaryHeap::new(), entered: 0 }
    }

    /// Enters an event.
    pub fn enter(&mut self, at: Time, event: E) {
        self.entered += 1;
        self.heap.push(Entry { at, number: self.entered, event });
    }

    /// When the next one is.
    pub fn next_at(&self) -> Time {
        self.heap.peek().map_or(Time::INFINITY, |entry| entry.at)
    }

    /// The next one.
    pub fn pop(&mut self) -> Option<(Time, E)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

impl<E> Ord for Entry<E> {
    /// The heap gives its greatest: the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.total_cmp(&self.at).then(other.number.cmp(&self.number))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events come in the order of time, those of one moment in the order of entering.
    #[test]
    fn in_order() {
        let mut agenda = Agenda::new();
        for (at, event) in [(3.0, 'c'), (1.0, 'a'), (3.0, 'd'), (2.0, 'b')] {
            agenda.enter(at, event);
        }
        assert_eq!(agenda.next_at(), 1.0);
        let order: String = std::iter::from_fn(|| agenda.pop()).map(|(_, event)| event).collect();
        assert_eq!(order, "abcd");
        assert_eq!(agenda.next_at(), Time::INFINITY);
    }
}
